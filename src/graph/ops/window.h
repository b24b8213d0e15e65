/* window.h - sliding windows over (h,w): checks and sizes shared by convolution and pooling. */
#ifndef WEIR_GRAPH_OPS_WINDOW_H
#define WEIR_GRAPH_OPS_WINDOW_H

#include "graph/ops/define.h"

/* Largest number of a window, so that products of two cannot overflow an int64_t. */
#define WEIR_WINDOW_MAX INT32_MAX

/* (n,c,l) as images (n,c,1,l), and back; NULL and a message for other numbers of axes. */
static inline weir_tensor *weir_line_to_row(const char *name, weir_tensor *t)
{
    const weir_desc *const d = &t->layout.desc;

    if (d->ndim != 3)
        return WEIR_FAIL_NULL(WEIR_ERR_SHAPE, "%s must have 3 axes, not %d", name, d->ndim);
    return weir_reshape(t, 4, (int64_t[]){d->dim[0], d->dim[1], 1, d->dim[2]});
}

static inline weir_tensor *weir_row_to_line(weir_tensor *t)
{
    if (!t)
        return NULL;
    const int64_t *const d = t->layout.desc.dim;
    return weir_reshape(t, 3, (int64_t[]){d[0], d[1], d[3]});
}

/* A window as stored in attributes: pairs (height, width). */
typedef struct weir_window {
    const int64_t *kernel, *stride, *pad, *pad_end, *dilation;
} weir_window;

/* Fails with ERR_INVALID if a number of the window is out of range. */
static inline weir_status weir_window_check(const weir_call *c, const weir_window *v)
{
    const struct {
        const char    *name;
        const int64_t *at;
        int64_t        least;
    } arg[] = {{"kernel", v->kernel, 1}, {"stride", v->stride, 1}, {"pad", v->pad, 0},
               {"pad_end", v->pad_end, 0}, {"dilation", v->dilation, 1}};

    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 2; k++)
            if (arg[i].at[k] < arg[i].least || arg[i].at[k] > WEIR_WINDOW_MAX)
                return weir_call_fail(WEIR_ERR_INVALID, c, "%s %lld x %lld must be %lld to %d",
                                      arg[i].name, (long long)arg[i].at[0],
                                      (long long)arg[i].at[1], (long long)arg[i].least,
                                      WEIR_WINDOW_MAX);
    return WEIR_OK;
}

/* Number of positions of a checked window per axis: (h + pad + pad_end - span) / stride + 1,
 * rounded down, where span = dilation (kernel - 1) + 1. Fails with ERR_SHAPE if it does not fit
 * once. */
static inline weir_status weir_window_places(const weir_call *c, const weir_window *v,
                                             const int64_t *image, int64_t *out)
{
    for (int k = 0; k < 2; k++) {
        const int64_t extent = image[k] + v->pad[k] + v->pad_end[k];
        const int64_t span = v->dilation[k] * (v->kernel[k] - 1) + 1;
        if (span > extent)
            return weir_call_fail(WEIR_ERR_SHAPE, c, "a window of %s %lld does not fit into %lld + "
                                  "%lld + %lld of padding", k == 0 ? "height" : "width",
                                  (long long)span, (long long)image[k], (long long)v->pad[k],
                                  (long long)v->pad_end[k]);
        out[k] = (extent - span) / v->stride[k] + 1;
    }
    return WEIR_OK;
}

#endif
