/* pool.c - windows that Weir's own pooling and convolution lack: three axes, dilations, norms.
 *
 * A pool is the maximum or the sum of as many slices as a window has elements; a convolution over
 * three axes is a sum over the first of convolutions over the other two. Gradients are those of
 * these operations. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "model/onnx/op/ops.h"

enum { AXES = 6, MOST = 1024 }; /* axes of a window; elements of it */

typedef struct windows {
    int     axes;
    int64_t in[AXES], out[AXES], kernel[AXES], stride[AXES], dilation[AXES], begin[AXES], end[AXES];
} windows;

static weir_status numbers(weir_onnx_call *c, const char *name, int axes, int64_t otherwise,
                           int64_t *to, int64_t *behind)
{
    const int64_t *at;
    const size_t   n = weir_onnx_ints(c, name, &at), want = (size_t)(behind ? 2 * axes : axes);

    if (n && n != want)
        return weir_onnx_refuse(c, "%s has %zu numbers for %d axes", name, n, axes);
    for (size_t i = 0; i < want; i++) {
        const int64_t v = n ? at[i] : otherwise;
        if (v < (behind ? 0 : 1) || v > INT32_MAX)
            return weir_onnx_refuse(c, "%s has the number %" PRId64, name, v);
        (i < (size_t)axes ? to : behind)[i % (size_t)axes] = v;
    }
    return WEIR_OK;
}

static int64_t reach(const windows *w, int i)
{
    return (w->kernel[i] - 1) * w->dilation[i] + 1;
}

/* Pads of auto_pad; the number of windows along each axis. */
static weir_status place(weir_onnx_call *c, windows *w)
{
    const char *const mode = weir_onnx_str(c, "auto_pad", "NOTSET");
    const bool        upper = strcmp(mode, "SAME_UPPER") == 0;
    const bool        same = upper || strcmp(mode, "SAME_LOWER") == 0;
    const bool        up = weir_onnx_int(c, "ceil_mode", 0) != 0;

    if (!same && *mode && strcmp(mode, "NOTSET") != 0 && strcmp(mode, "VALID") != 0)
        return weir_onnx_refuse(c, "auto_pad %.20s", mode);
    for (int i = 0; i < w->axes; i++) {
        if (same) {
            const int64_t n = (w->in[i] + w->stride[i] - 1) / w->stride[i];
            const int64_t all = (n - 1) * w->stride[i] + reach(w, i) - w->in[i];
            const int64_t less = all > 0 ? all / 2 : 0, more = all > 0 ? all - less : 0;
            w->begin[i] = upper ? less : more;
            w->end[i] = upper ? more : less;
        }
        const int64_t room = w->in[i] + w->begin[i] + w->end[i] - reach(w, i);
        if (room < 0)
            return weir_onnx_refuse(c, "a window of %" PRId64 " over %" PRId64 " elements",
                                    reach(w, i), w->in[i]);
        w->out[i] = room / w->stride[i] + 1;
        if (up && room % w->stride[i] && w->out[i] * w->stride[i] < w->in[i] + w->begin[i])
            w->out[i]++;
    }
    return WEIR_OK;
}

static weir_status read_windows(weir_onnx_call *c, const weir_desc *d, const int64_t *kernel,
                                windows *w)
{
    int64_t size = 1;

    *w = (windows){.axes = d->ndim - 2};
    if (w->axes < 1 || w->axes > AXES)
        return weir_onnx_refuse(c, "windows over %d axes", w->axes);
    memcpy(w->in, d->dim + 2, (size_t)w->axes * sizeof *w->in);
    WEIR_TRY(numbers(c, "kernel_shape", w->axes, 1, w->kernel, NULL));
    if (kernel)
        memcpy(w->kernel, kernel, (size_t)w->axes * sizeof *kernel);
    WEIR_TRY(numbers(c, "strides", w->axes, 1, w->stride, NULL));
    WEIR_TRY(numbers(c, "dilations", w->axes, 1, w->dilation, NULL));
    WEIR_TRY(numbers(c, "pads", w->axes, 0, w->begin, w->end));
    for (int i = 0; i < w->axes; i++)
        size = size > MOST ? size : size * w->kernel[i];
    if (size > MOST)
        return weir_onnx_refuse(c, "a window of more than %d elements", MOST);
    return place(c, w);
}

/* x with what windows read in front of it and behind it. */
static weir_tensor *padded(weir_tensor *x, const windows *w, int axes, double value)
{
    int64_t before[WEIR_MAX_DIMS] = {0}, after[WEIR_MAX_DIMS] = {0};
    bool    any = false;

    for (int i = 0; i < axes; i++) {
        const int64_t need = (w->out[i] - 1) * w->stride[i] + reach(w, i) - w->in[i] - w->begin[i];
        before[2 + i] = w->begin[i];
        after[2 + i] = need > 0 ? need : 0;
        any = any || before[2 + i] || after[2 + i];
    }
    return any ? weir_pad(x, before, after, WEIR_PAD_CONSTANT, value) : x;
}

/* Element `at` of each window. */
static weir_tensor *shifted(weir_tensor *x, const windows *w, const int64_t *at, int axes)
{
    int64_t begin[WEIR_MAX_DIMS], end[WEIR_MAX_DIMS], step[WEIR_MAX_DIMS];

    for (int i = 0; i < WEIR_MAX_DIMS; i++)
        begin[i] = 0, end[i] = INT64_MAX, step[i] = 1;
    for (int i = 0; i < axes; i++) {
        begin[2 + i] = at[i] * w->dilation[i];
        end[2 + i] = begin[2 + i] + (w->out[i] - 1) * w->stride[i] + 1;
        step[2 + i] = w->stride[i];
    }
    return weir_slice(x, begin, end, step);
}

/* The next element of a window; false behind the last. */
static bool next(const windows *w, int64_t *at)
{
    for (int i = w->axes; i-- > 0; at[i] = 0)
        if (++at[i] < w->kernel[i])
            return true;
    return false;
}

/* The largest element of each window, and its flat place in x, counted along rows, or along columns
 * where storage_order says so: the first of equal ones. */
static weir_status largest_places(weir_onnx_call *c, weir_tensor *x, const windows *w, double least)
{
    const weir_desc    d = weir_tensor_desc(x);
    const bool         columns = weir_onnx_int(c, "storage_order", 0) != 0;
    weir_tensor *const in = padded(x, w, w->axes, least);
    weir_tensor       *place = NULL, *y = NULL, *at = NULL;
    int64_t            cell[AXES] = {0}, stride = 1;

    for (int k = d.ndim; k-- > 0; stride *= d.dim[k]) {
        int64_t step = stride; /* in the other order: the product of the axes in front */
        for (int j = 2; columns && k >= 2 && j < d.ndim; j++)
            step = j == 2 ? (k == 2 ? 1 : d.dim[2]) : j < k ? step * d.dim[j] : step;
        weir_tensor *const along = weir_onnx_ramp(c, d.dim[k], step, d.ndim, k);
        place = k == d.ndim - 1 ? along : weir_add(place, along);
    }
    place = padded(place, w, w->axes, 0);
    do {
        weir_tensor *const part = shifted(in, w, cell, w->axes);
        weir_tensor *const there = shifted(place, w, cell, w->axes);
        weir_tensor *const better = y ? weir_gt(part, y) : NULL;
        at = y ? weir_where(better, there, at) : there;
        y = y ? weir_where(better, part, y) : part;
    } while (y && next(w, cell));
    WEIR_TRY(weir_onnx_give(c, 0, y));
    return weir_onnx_give(c, 1, at);
}

static weir_tensor *fold_windows(weir_tensor *x, const windows *w, bool largest)
{
    int64_t      at[AXES] = {0};
    weir_tensor *y = NULL;

    do {
        weir_tensor *const part = shifted(x, w, at, w->axes);
        y = !y ? part : largest ? weir_max(y, part) : weir_add(y, part);
    } while (y && next(w, at));
    return y;
}

/* y divided by the number of elements of each window, along one axis after the other. */
static weir_tensor *divided(weir_onnx_call *c, weir_tensor *y, const windows *w, bool pads)
{
    const weir_desc d = weir_tensor_desc(y);

    for (int i = 0; y && i < w->axes; i++) {
        float *const n = weir_host_alloc((size_t)w->out[i] * sizeof *n + 1);
        int64_t      dim[WEIR_MAX_DIMS];
        if (!n)
            return NULL;
        const int64_t low = pads ? 0 : w->begin[i];
        const int64_t high = w->begin[i] + w->in[i] + (pads ? w->end[i] : 0);
        for (int64_t o = 0; o < w->out[i]; o++)
            for (int64_t k = 0; k < w->kernel[i]; k++) {
                const int64_t p = o * w->stride[i] + k * w->dilation[i];
                n[o] += p >= low && p < high ? 1.0f : 0.0f;
            }
        for (int k = 0; k < d.ndim; k++)
            dim[k] = k == 2 + i ? w->out[i] : 1;
        weir_tensor *const count = weir_onnx_constant(c, weir_1d(WEIR_F32, w->out[i]), n);
        weir_host_free(n);
        y = count ? weir_div(y, weir_onnx_as(weir_reshape(count, d.ndim, dim), d.dtype)) : NULL;
    }
    return y;
}

weir_status weir_onnx_pool_windows(weir_onnx_call *c, bool largest)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    windows            w;

    if (!x)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    const bool      real = d.dtype != WEIR_U8 && d.dtype != WEIR_I8;
    const double    least = real ? (double)-INFINITY : d.dtype == WEIR_I8 ? -128 : 0;
    WEIR_TRY(read_windows(c, &d, NULL, &w));
    if (largest && weir_onnx_wants(c, 1))
        return largest_places(c, x, &w, least);
    weir_tensor *const y = fold_windows(padded(x, &w, w.axes, largest ? least : 0), &w, largest);
    if (largest)
        return weir_onnx_give(c, 0, y);
    return weir_onnx_give(c, 0, divided(c, y, &w, weir_onnx_int(c, "count_include_pad", 0) != 0));
}

/* (sum of |x|^p)^(1/p) of each window. */
weir_status weir_onnx_lp_pool(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    const int64_t      p = weir_onnx_int(c, "p", 2);
    windows            w;

    if (!x)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    WEIR_TRY(read_windows(c, &d, NULL, &w));
    if (p < 1 || p > 64)
        return weir_onnx_refuse(c, "p %" PRId64, p);
    weir_tensor *const size = weir_abs(x), *const power = weir_onnx_scalar(c, d.dtype, (double)p);
    weir_tensor *const root = weir_onnx_scalar(c, d.dtype, 1.0 / (double)p);
    weir_tensor *const sum =
        fold_windows(padded(p == 1 ? size : weir_pow(size, power), &w, w.axes, 0), &w, false);
    return weir_onnx_give(c, 0, p == 1 ? sum : weir_pow(sum, root));
}

/* (n,c,d,h,w) -> (n*d,c,h,w), and back. */
static weir_tensor *as_images(weir_tensor *x)
{
    static const int axes[] = {0, 2, 1, 3, 4};
    const weir_desc  d = weir_tensor_desc(x);

    if (!x)
        return NULL;
    return weir_reshape(weir_transpose(x, axes), 4,
                        (int64_t[]){d.dim[0] * d.dim[2], d.dim[1], d.dim[3], d.dim[4]});
}

static weir_tensor *as_volume(weir_tensor *y, int64_t n, int64_t depth)
{
    static const int axes[] = {0, 2, 1, 3, 4};
    const weir_desc  d = weir_tensor_desc(y);

    if (!y)
        return NULL;
    return weir_transpose(weir_reshape(y, 5, (int64_t[]){n, depth, d.dim[1], d.dim[2], d.dim[3]}),
                          axes);
}

weir_status weir_onnx_conv_volume(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0), *const filters = weir_onnx_x(c, 1);
    weir_tensor *const bias = weir_onnx_has(c, 2) ? weir_onnx_x(c, 2) : NULL;
    weir_tensor       *y = NULL;
    windows            w;

    if (!x || !filters || (weir_onnx_has(c, 2) && !bias))
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x), f = weir_tensor_desc(filters);
    if (f.ndim != 5)
        return weir_onnx_refuse(c, "filters with %d axes for a tensor with %d", f.ndim, d.ndim);
    WEIR_TRY(read_windows(c, &d, f.dim + 2, &w));
    const weir_conv2d_options o = {.stride = {w.stride[1], w.stride[2]},
                                   .dilation = {w.dilation[1], w.dilation[2]},
                                   .pad = {w.begin[1], w.begin[2]},
                                   .pad_end = {w.end[1], w.end[2]},
                                   .asymmetric = true,
                                   .groups = weir_onnx_int(c, "group", 1)};
    weir_tensor *const        all = padded(x, &w, 1, 0);
    for (int64_t k = 0; k < w.kernel[0]; k++) {
        weir_tensor *const frames = as_images(shifted(all, &w, &k, 1));
        weir_tensor *const plane = weir_squeeze(weir_narrow(filters, 2, k, 1), 2);
        weir_tensor *const part = weir_conv2d(frames, plane, k ? NULL : bias, &o);
        y = k ? weir_add(y, part) : part;
    }
    return weir_onnx_give(c, 0, as_volume(y, d.dim[0], w.out[0]));
}

/* y (n,c,depth,h,w) at every `stride`th place of an axis 2 of `whole` elements, from `first` on. */
static weir_tensor *spread(weir_tensor *y, int64_t stride, int64_t first, int64_t whole)
{
    const weir_desc d = weir_tensor_desc(y);
    const int64_t   depth = d.dim[2];
    const int64_t   in[] = {d.dim[0] * d.dim[1], depth, 1, d.dim[3] * d.dim[4]};
    const int64_t   none[4] = {0}, gap[4] = {0, 0, stride - 1, 0};
    const int64_t   front[5] = {0, 0, first}, all = depth * stride;
    const int64_t   out[] = {d.dim[0], d.dim[1], all, d.dim[3], d.dim[4]};

    y = stride > 1 ? weir_pad(weir_reshape(y, 4, in), none, gap, WEIR_PAD_CONSTANT, 0) : y;
    y = y ? weir_reshape(y, 5, out) : NULL;
    if (y && first + all > whole)
        y = weir_narrow(y, 2, 0, whole - first);
    const int64_t back[5] = {0, 0, first + all > whole ? 0 : whole - first - all};
    return weir_pad(y, front, back, WEIR_PAD_CONSTANT, 0);
}

/* The sum over the filters' planes of transposed convolutions of all frames. */
weir_status weir_onnx_conv_transpose_volume(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0), *const filters = weir_onnx_x(c, 1);
    weir_tensor       *y = NULL;
    windows            w;
    int64_t            more[AXES];

    if (!x || !filters || (weir_onnx_has(c, 2) && !weir_onnx_x(c, 2)))
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x), f = weir_tensor_desc(filters);
    const char *const mode = weir_onnx_str(c, "auto_pad", "NOTSET");
    if (f.ndim != 5 || weir_onnx_attr_of(c, "output_shape") || strncmp(mode, "SAME", 4) == 0)
        return weir_onnx_refuse(c, "filters with %d axes, output_shape or auto_pad", f.ndim);
    w = (windows){.axes = 3};
    memcpy(w.kernel, f.dim + 2, sizeof w.kernel);
    WEIR_TRY(numbers(c, "strides", 3, 1, w.stride, NULL));
    WEIR_TRY(numbers(c, "dilations", 3, 1, w.dilation, NULL));
    WEIR_TRY(numbers(c, "pads", 3, 0, w.begin, w.end));
    const int64_t *at;
    const size_t   n = weir_onnx_ints(c, "output_padding", &at);
    for (size_t i = 0; i < 3; i++) {
        more[i] = n == 3 ? at[i] : 0;
        if ((n && n != 3) || more[i] < 0 || more[i] > INT32_MAX)
            return weir_onnx_refuse(c, "output_padding has %zu numbers, or one below 0", n);
    }
    const weir_conv_transpose2d_options o = {.stride = {w.stride[1], w.stride[2]},
                                             .dilation = {w.dilation[1], w.dilation[2]},
                                             .output_pad = {more[1], more[2]},
                                             .groups = weir_onnx_int(c, "group", 1)};
    const int64_t whole = (d.dim[2] - 1) * w.stride[0] + reach(&w, 0) + more[0];
    for (int64_t k = 0; k < w.kernel[0]; k++) {
        weir_tensor *const plane = weir_squeeze(weir_narrow(filters, 2, k, 1), 2);
        weir_tensor *const part = weir_conv_transpose2d(as_images(x), plane, NULL, &o);
        weir_tensor *const frames = as_volume(part, d.dim[0], d.dim[2]);
        weir_tensor *const term =
            frames ? spread(frames, w.stride[0], k * w.dilation[0], whole) : NULL;
        y = k ? weir_add(y, term) : term;
    }
    for (int i = 0; y && i < w.axes; i++) {
        const int64_t left = weir_tensor_desc(y).dim[2 + i] - w.begin[i] - w.end[i];
        if (left < 1)
            return weir_onnx_refuse(c, "pads cut off the whole result");
        y = w.begin[i] + w.end[i] ? weir_narrow(y, 2 + i, w.begin[i], left) : y;
    }
    if (y && weir_onnx_has(c, 2))
        y = weir_add(y, weir_onnx_per_channel(weir_onnx_x(c, 2), weir_tensor_desc(y).dim[1], 5));
    return weir_onnx_give(c, 0, y ? weir_onnx_same(y) : NULL);
}
