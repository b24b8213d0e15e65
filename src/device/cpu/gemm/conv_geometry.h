/* conv_geometry.h - the geometry of a 2-D convolution: sizes alone.
 *
 * Physical layouts, all dense: x (n,h,w,c), y (n,oh,ow,o), weights (o,kh,kw,c/groups). A pixel is a
 * position of the output, numbered over the whole batch: 0 .. n*oh*ow-1. */
#ifndef WEIR_DEVICE_CPU_GEMM_CONV_GEOMETRY_H
#define WEIR_DEVICE_CPU_GEMM_CONV_GEOMETRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/base.h"

typedef struct weir_conv {
    weir_dtype dtype;
    int64_t    n, c, h, w;        /* x */
    int64_t    o, kh, kw, groups; /* weights */
    int64_t    oh, ow;            /* y */
    int64_t    stride[2], pad[2], dilation[2];
    bool       turned;            /* weights are stored (c,kh,kw,o); groups is 1 */
} weir_conv;

/* Input channels and output channels of a group, columns of a group's patch matrix, pixels. */
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
static inline int64_t weir_conv_pixels(const weir_conv *c)
{
    return c->n * c->oh * c->ow;
}

/* Bytes that own code aims for when it copies a block of pixels: half of what x and y take, so that
 * a budget is not decided by workspaces, between what keeps a product busy and what stays in a
 * cache. It follows from shapes alone, as the order of sums does. */
static inline int64_t weir_conv_block_bytes(const weir_conv *c, size_t size)
{
    enum { LEAST = 32 << 10, MOST = 4 << 20 };
    const int64_t half =
        (c->n * c->c * c->h * c->w + weir_conv_pixels(c) * c->o) * (int64_t)size / 2;
    return half < LEAST ? LEAST : half > MOST ? MOST : half;
}

typedef enum weir_conv_pass {
    WEIR_CONV_FORWARD,
    WEIR_CONV_GRAD_X,
    WEIR_CONV_GRAD_W
} weir_conv_pass;

#endif
