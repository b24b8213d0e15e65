/* depthwise_w_isa.c - the loop of depthwise_w.c, compiled once for each instruction set.
 *
 * A tap is summed over a row of an image in f32, with a lane for each channel; rows are added up in
 * f64. So the order of sums is that of pixels, whatever the width of vectors. */
#include "device/cpu/kernels/depthwise_w.h"

#include "device/common/div.h"
#include "device/cpu/isa.h"

enum { WIDE = WEIR_DEPTHWISE_CHANNELS };

/* Pixels [*from, *to) of a row of dy whose pixel of x, shifted by `shift`, lies in the image. */
static void inside(const weir_conv *c, int64_t shift, int64_t *from, int64_t *to)
{
    const int64_t step = c->stride[1], last = c->w - 1 - shift;

    *from = shift < 0 ? ceil_div(-shift, step) : 0;
    *to = last < 0 ? 0 : min64(c->ow, last / step + 1);
}

/* sums += the products of n pixels, `xs` and `ys` elements apart, of `cols` channels. */
static inline __attribute__((always_inline)) void add_row(const float *x, int64_t xs,
                                                          const float *dy, int64_t ys, int64_t n,
                                                          int64_t cols, double *sums)
{
    float acc[WIDE] = {0};

    for (int64_t i = 0; i < n; i++, x += xs, dy += ys)
        for (int64_t k = 0; k < cols; k++)
            acc[k] += x[k] * dy[k];
    for (int64_t k = 0; k < cols; k++)
        sums[k] += (double)acc[k];
}

/* The taps of row kh of the kernel, for row `oh` of an image's dy and row `ih` of its x. */
static void taps(const weir_conv *c, const float *x, const float *dy, int64_t cols, double *sums)
{
    for (int64_t kw = 0; kw < c->kw; kw++, sums += WIDE) {
        const int64_t shift = kw * c->dilation[1] - c->pad[1];
        int64_t       from, to;
        inside(c, shift, &from, &to);
        if (from >= to)
            continue;
        const float *const at = x + (from * c->stride[1] + shift) * c->c;
        if (cols == WIDE)       /* constant, so that the sums are registers */
            add_row(at, c->stride[1] * c->c, dy + from * c->c, c->c, to - from, WIDE, sums);
        else
            add_row(at, c->stride[1] * c->c, dy + from * c->c, c->c, to - from, cols, sums);
    }
}

static void images(const weir_conv *c, const float *x, const float *dy, int64_t first, int64_t end,
                   int64_t cols, double *sums)
{
    for (int64_t row = first * c->oh; row < end * c->oh; row++) {
        const int64_t image = row / c->oh, oh = row - image * c->oh;
        for (int64_t kh = 0; kh < c->kh; kh++) {
            const int64_t ih = oh * c->stride[0] - c->pad[0] + kh * c->dilation[0];
            if (ih >= 0 && ih < c->h)
                taps(c, x + (image * c->h + ih) * c->w * c->c, dy + row * c->ow * c->c, cols,
                     sums + kh * c->kw * WIDE);
        }
    }
}

const weir_depthwise_loop WEIR_ISA_NAME(weir_depthwise_loops)[1] = {images};
