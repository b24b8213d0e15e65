/* window.h - sliding windows over (h,w): what convolution and pooling check and compute alike. */
#ifndef WEIR_GRAPH_OP_WINDOW_H
#define WEIR_GRAPH_OP_WINDOW_H

#include "graph/op/define.h"

/* Numbers of a window stay within this, so that their products cannot overflow an int64_t. */
#define WEIR_WINDOW_MAX INT32_MAX

/* Whether kernel, stride, pad and dilation (pairs) make sense. */
static inline weir_status weir_window_check(const weir_call *c, const int64_t *kernel,
                                            const int64_t *stride, const int64_t *pad,
                                            const int64_t *dilation)
{
    const struct {
        const char    *name;
        const int64_t *at;
        int64_t        least;
    } arg[] = {{"kernel", kernel, 1}, {"stride", stride, 1}, {"pad", pad, 0},
               {"dilation", dilation, 1}};

    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 2; k++)
            if (arg[i].at[k] < arg[i].least || arg[i].at[k] > WEIR_WINDOW_MAX)
                return weir_call_fail(WEIR_ERR_INVALID, c, "%s %lld x %lld must be %lld to %d",
                                      arg[i].name, (long long)arg[i].at[0],
                                      (long long)arg[i].at[1], (long long)arg[i].least,
                                      WEIR_WINDOW_MAX);
    return WEIR_OK;
}

/* Places of a checked window in an image, per axis: (h + 2 pad - span) / stride + 1, rounded down,
 * where span = dilation (kernel - 1) + 1. */
static inline weir_status weir_window_places(const weir_call *c, const int64_t *image,
                                             const int64_t *kernel, const int64_t *stride,
                                             const int64_t *pad, const int64_t *dilation,
                                             int64_t *out)
{
    for (int k = 0; k < 2; k++) {
        const int64_t room = image[k] + 2 * pad[k], span = dilation[k] * (kernel[k] - 1) + 1;
        if (span > room)
            return weir_call_fail(WEIR_ERR_SHAPE, c, "a window of %s %lld does not fit into %lld + "
                                  "2 * %lld of padding", k == 0 ? "height" : "width",
                                  (long long)span, (long long)image[k], (long long)pad[k]);
        out[k] = (room - span) / stride[k] + 1;
    }
    return WEIR_OK;
}

#endif
