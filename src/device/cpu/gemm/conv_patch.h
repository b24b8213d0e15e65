/* conv_patch.h - sizes of the patch matrices that our own convolutions copy. */
#ifndef WEIR_DEVICE_CPU_GEMM_CONV_PATCH_H
#define WEIR_DEVICE_CPU_GEMM_CONV_PATCH_H

#include "device/common/conv_geometry.h"

/* Input channels of a group, output channels of a group, columns of a group's patch matrix. */
static inline int64_t weir_conv_cg(const weir_conv *c)
{
    return c->c / c->groups;
}
static inline int64_t weir_conv_og(const weir_conv *c)
{
    return c->o / c->groups;
}
static inline int64_t weir_conv_patch(const weir_conv *c)
{
    return c->kh * c->kw * weir_conv_cg(c);
}

/* Target size in bytes of a copied block of pixels: a share of x, y and the weights together, so
 * that workspaces do not decide a budget; at least enough for an efficient product, at most what a
 * cache holds. It depends on shapes alone, as the order of sums does. */
static inline int64_t weir_conv_block_bytes(const weir_conv *c, size_t size)
{
    enum { SHARE = 4, LEAST = 32 << 10, MOST = 4 << 20 };
    const int64_t elements = c->n * c->c * c->h * c->w + weir_conv_pixels(c) * c->o +
                             c->o * weir_conv_patch(c);
    const int64_t bytes = elements * (int64_t)size / SHARE;
    return bytes < LEAST ? LEAST : bytes > MOST ? MOST : bytes;
}

#endif
