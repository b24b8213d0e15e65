/* conv_suits.h - which implementations support a convolution, by its geometry alone. */
#ifndef WEIR_DEVICE_CUDA_KERNELS_CONV_SUITS_H
#define WEIR_DEVICE_CUDA_KERNELS_CONV_SUITS_H

#include "device/common/conv_geometry.h"

/* True if cuDNN should be asked. Not for empty tensors, nor for depthwise convolutions of f32 and
 * f64, for which it has only its most general code. */
static inline bool weir_cuda_conv_suits_dnn(const weir_conv *g)
{
    const bool depthwise = g->groups > 1 && g->c == g->groups;
    const bool wide = g->dtype == WEIR_F32 || g->dtype == WEIR_F64;
    return g->n > 0 && g->c > 0 && g->h > 0 && g->w > 0 && g->o > 0 && g->kh > 0 && g->kw > 0 &&
           g->oh > 0 && g->ow > 0 && !(depthwise && wide);
}

/* True if the convolution is a matrix product as it stands. */
static inline bool weir_cuda_conv_is_product(const weir_conv *g)
{
    return g->kh == 1 && g->kw == 1 && g->groups == 1 && g->stride[0] == 1 && g->stride[1] == 1 &&
           g->pad[0] == 0 && g->pad[1] == 0 && g->oh == g->h && g->ow == g->w && g->n > 0 &&
           g->c > 0 && g->h > 0 && g->w > 0 && g->o > 0;
}

/* True if coordinates (including taps in the padding) and weights fit our kernels' 32-bit
 * indices. */
static inline bool weir_cuda_conv_fits(const weir_conv *g)
{
    const int64_t most = INT64_C(1) << 30, c = g->c > g->o ? g->c : g->o;
    if (g->n * g->h * g->w >= most || weir_conv_pixels(g) >= most || g->kh * g->kw >= most ||
        c >= most || g->kh * g->kw * c >= most || g->o * (g->c / g->groups) >= most ||
        g->kh * g->kw * g->o * (g->c / g->groups) >= most)
        return false;
    for (int i = 0; i < 2; i++) {
        const int64_t kernel = i == 0 ? g->kh : g->kw, places = i == 0 ? g->oh : g->ow;
        if (g->pad[i] >= most || g->dilation[i] >= most || g->stride[i] >= most ||
            kernel * g->dilation[i] >= most || places * g->stride[i] >= most)
            return false;
    }
    return true;
}

/* Number of slices of a sum over `depth` pixels, if `blocks` blocks would each sum all of them:
 * enough to keep a card busy, each with enough work for a block. */
static inline int64_t weir_cuda_conv_slices(int64_t blocks, int64_t depth)
{
    enum { BLOCKS = 512, LEAST = 128 };
    const int64_t most = (depth + LEAST - 1) / LEAST, wanted = BLOCKS / (blocks > 0 ? blocks : 1);
    const int64_t slices = wanted < most ? wanted : most;
    return slices > 1 ? slices : 1;
}

#endif
