/* conv_geometry.h - the geometry of a 2-D convolution, on any device.
 *
 * Physical layouts, all dense: x (n,h,w,c), y (n,oh,ow,o), weights (o,kh,kw,c/groups). A pixel is a
 * position of the output, numbered over the whole batch: 0 .. n*oh*ow-1. */
#ifndef WEIR_DEVICE_COMMON_CONV_GEOMETRY_H
#define WEIR_DEVICE_COMMON_CONV_GEOMETRY_H

#include "core/attr.h"
#include "core/op.h"

typedef struct weir_conv {
    weir_dtype dtype;
    int64_t    n, c, h, w;        /* x */
    int64_t    o, kh, kw, groups; /* weights */
    int64_t    oh, ow;            /* y */
    int64_t    stride[2], pad[2], dilation[2];
    /* CPU only. turned: weights are stored (c,kh,kw,o), and groups is 1; wide: they are f32 beside
     * halves, to be rounded. */
    bool       turned, wide;
} weir_conv;

/* FORWARD: x, w, [bias] -> y; GRAD_X: dy, w -> dx; GRAD_W: x, dy -> dw, [dbias]. */
typedef enum weir_conv_pass {
    WEIR_CONV_FORWARD,
    WEIR_CONV_GRAD_X,
    WEIR_CONV_GRAD_W
} weir_conv_pass;

/* Output pixels of the batch. */
static inline int64_t weir_conv_pixels(const weir_conv *c)
{
    return c->n * c->oh * c->ow;
}

/* y gives the batch, the output channels and size; x's channels and size and the kernel's size come
 * from whichever operands the call has. */
static inline weir_conv weir_conv_geometry(const weir_conv2d_attr *a, const weir_desc *y, int64_t c,
                                           int64_t h, int64_t w, int64_t kh, int64_t kw)
{
    weir_conv g;

    g.dtype = y->dtype;
    g.n = y->dim[0], g.c = c, g.h = h, g.w = w;
    g.o = y->dim[1], g.kh = kh, g.kw = kw, g.groups = a->groups;
    g.oh = y->dim[2], g.ow = y->dim[3];
    for (int i = 0; i < 2; i++) {
        g.stride[i] = a->stride[i];
        g.pad[i] = a->pad[i];
        g.dilation[i] = a->dilation[i];
    }
    g.turned = g.wide = false;
    return g;
}

/* The geometry of a call, one function per pass. */
static inline weir_conv weir_conv_forward_of(const weir_call *c)
{
    const int64_t *const x = c->in[0].desc.dim, *const w = c->in[1].desc.dim;

    return weir_conv_geometry((const weir_conv2d_attr *)c->attr, &c->out[0].desc, x[1], x[2], x[3],
                              w[2], w[3]);
}

static inline weir_conv weir_conv_grad_x_of(const weir_call *c)
{
    const weir_conv2d_grad_attr *const a = (const weir_conv2d_grad_attr *)c->attr;
    const int64_t *const               w = c->in[1].desc.dim;

    return weir_conv_geometry(&a->conv, &c->in[0].desc, w[1] * a->conv.groups, a->h, a->w, w[2],
                              w[3]);
}

static inline weir_conv weir_conv_grad_w_of(const weir_call *c)
{
    const weir_conv2d_gradw_attr *const a = (const weir_conv2d_gradw_attr *)c->attr;
    const int64_t *const                x = c->in[0].desc.dim;

    return weir_conv_geometry(&a->conv, &c->in[1].desc, x[1], x[2], x[3], a->kh, a->kw);
}

#endif
