/* reduce.c - reductions, softmax, running sums. */
#include <math.h>

#include "model/onnx/op/ops.h"

typedef struct reduced {
    weir_tensor *x;
    uint32_t     dims;
    bool         keep, nothing; /* nothing: no axis is reduced */
} reduced;

static weir_status prepare(weir_onnx_call *c, reduced *r)
{
    int64_t axes[WEIR_MAX_DIMS];
    size_t  n;
    bool    given;
    int     axis;

    *r = (reduced){.x = weir_onnx_x(c, 0), .keep = weir_onnx_int(c, "keepdims", 1) != 0};
    if (!r->x)
        return weir_error_status();
    const int ndim = weir_tensor_desc(r->x).ndim;
    WEIR_TRY(weir_onnx_axes(c, "axes", 1, axes, WEIR_MAX_DIMS, &n, &given));
    for (size_t i = 0; i < n; i++) {
        WEIR_TRY(weir_onnx_axis(c, axes[i], ndim, &axis));
        r->dims |= 1u << axis;
    }
    r->nothing = n == 0 && weir_onnx_int(c, "noop_with_empty_axes", 0) != 0;
    return WEIR_OK;
}

static weir_tensor *sum(const reduced *r, weir_tensor *x)
{
    return r->nothing ? x : weir_onnx_as(weir_sum(x, r->dims, r->keep), weir_tensor_desc(x).dtype);
}

/* Weir's norms are of floats. */
static bool has_norm(const reduced *r)
{
    const weir_dtype t = weir_tensor_desc(r->x).dtype;

    return !r->nothing && (t == WEIR_F32 || t == WEIR_F64);
}

static weir_status finish(weir_onnx_call *c, const reduced *r, weir_tensor *y)
{
    return weir_onnx_give(c, 0, y == r->x ? weir_onnx_same(y) : y);
}

/* The largest or smallest elements; of none the least or greatest number of the type. */
static weir_tensor *farthest(weir_onnx_call *c, const reduced *r,
                             weir_tensor *(*fn)(weir_tensor *, uint32_t, bool), bool largest)
{
    const weir_desc d = weir_tensor_desc(r->x);
    const bool      real = d.dtype == WEIR_F32 || d.dtype == WEIR_F64 || d.dtype == WEIR_F16 ||
                      d.dtype == WEIR_BF16;

    if (d.dtype == WEIR_BOOL && weir_onnx_elements(&d) == 0) {
        weir_tensor *const none = weir_sum(r->x, r->dims, r->keep);
        weir_tensor *const zero = weir_fill_int(c->dev, weir_scalar(WEIR_I64), 0);
        return largest ? weir_ne(none, zero) : weir_eq(none, zero);
    }
    if (d.dtype == WEIR_BOOL)
        return weir_cast(fn(weir_cast(r->x, WEIR_U8), r->dims, r->keep), WEIR_BOOL);
    if (!real || weir_onnx_elements(&d) > 0)
        return fn(r->x, r->dims, r->keep);
    weir_tensor *const none = weir_sum(r->x, r->dims, r->keep);
    return weir_add(none, weir_onnx_scalar(c, d.dtype, largest ? -INFINITY : INFINITY));
}

#define REDUCE(name, expression)                                                                   \
    weir_status weir_onnx_##name(weir_onnx_call *c)                                                \
    {                                                                                              \
        reduced r;                                                                                 \
                                                                                                   \
        WEIR_TRY(prepare(c, &r));                                                                  \
        return finish(c, &r, expression);                                                          \
    }

REDUCE(reduce_sum, sum(&r, r.x))
REDUCE(reduce_mean, r.nothing ? r.x : weir_mean(r.x, r.dims, r.keep))
REDUCE(reduce_max, r.nothing ? r.x : farthest(c, &r, weir_amax, true))
REDUCE(reduce_min, r.nothing ? r.x : farthest(c, &r, weir_amin, false))
REDUCE(reduce_prod,
       r.nothing ? r.x : weir_onnx_as(weir_prod(r.x, r.dims, r.keep), weir_tensor_desc(r.x).dtype))
REDUCE(reduce_l1, has_norm(&r) ? weir_norm(r.x, 1, r.dims, r.keep) : sum(&r, weir_abs(r.x)))
REDUCE(reduce_l2, has_norm(&r) ? weir_norm(r.x, 2, r.dims, r.keep)
                               : weir_sqrt(sum(&r, weir_square(r.x))))
REDUCE(reduce_log_sum, weir_log(sum(&r, r.x)))
REDUCE(reduce_sum_square, sum(&r, weir_square(r.x)))

/* log(sum(exp(x - m))) + m with the largest element m, which is kept finite. */
weir_status weir_onnx_reduce_log_sum_exp(weir_onnx_call *c)
{
    reduced r;

    WEIR_TRY(prepare(c, &r));
    if (r.nothing)
        return finish(c, &r, r.x);
    if (weir_tensor_bytes(r.x) == 0)
        return finish(c, &r, weir_log(sum(&r, weir_exp(r.x))));
    weir_tensor *const m = weir_detach(weir_clamp(weir_amax(r.x, r.dims, true), -3e38, 3e38));
    weir_tensor *const s = weir_log(weir_sum(weir_exp(weir_sub(r.x, m)), r.dims, true));
    weir_tensor *const y = weir_add(s, m);
    return finish(c, &r, r.keep ? y : weir_sum(y, r.dims, false));
}

/* ---- indices ---- */

/* Of the last extreme element where it is asked for: the axis is then reversed. */
static weir_status extreme(weir_onnx_call *c, weir_tensor *(*fn)(weir_tensor *, int, bool))
{
    weir_tensor *x = weir_onnx_x(c, 0);
    const bool   keep = weir_onnx_int(c, "keepdims", 1) != 0;
    const bool   last = weir_onnx_int(c, "select_last_index", 0) != 0;
    int64_t      begin[WEIR_MAX_DIMS], end[WEIR_MAX_DIMS], step[WEIR_MAX_DIMS];
    int          axis;

    if (!x)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    WEIR_TRY(weir_onnx_axis(c, weir_onnx_int(c, "axis", 0), d.ndim, &axis));
    for (int i = 0; i < d.ndim; i++) {
        begin[i] = last && i == axis ? INT64_MAX : 0;
        end[i] = last && i == axis ? INT64_MIN : INT64_MAX;
        step[i] = last && i == axis ? -1 : 1;
    }
    if (!last)
        return weir_onnx_give(c, 0, fn(x, axis, keep));
    x = fn(weir_slice(x, begin, end, step), axis, keep);
    weir_tensor *const n = weir_fill_int(c->dev, weir_scalar(WEIR_I64), d.dim[axis] - 1);
    return weir_onnx_give(c, 0, weir_sub(n, x));
}

weir_status weir_onnx_argmax(weir_onnx_call *c)
{
    return extreme(c, weir_argmax);
}

weir_status weir_onnx_argmin(weir_onnx_call *c)
{
    return extreme(c, weir_argmin);
}

/* ---- softmax ---- */

static weir_status along(weir_onnx_call *c, weir_tensor *(*fn)(weir_tensor *, int))
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    int                axis;

    if (!x)
        return weir_error_status();
    WEIR_TRY(weir_onnx_axis(c, weir_onnx_int(c, "axis", -1), weir_tensor_desc(x).ndim, &axis));
    return weir_onnx_give(c, 0, fn(x, axis));
}

/* Up to opset 12: of rows that all axes from `axis` on make up. */
static weir_status of_rows(weir_onnx_call *c, weir_tensor *(*fn)(weir_tensor *, int))
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    int                axis;

    if (!x)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    WEIR_TRY(weir_onnx_axis(c, weir_onnx_int(c, "axis", 1), d.ndim, &axis));
    const int64_t rows[2] = {weir_onnx_product(&d, 0, axis), weir_onnx_product(&d, axis, d.ndim)};
    weir_tensor *const y = fn(weir_reshape(x, 2, rows), 1);
    return weir_onnx_give(c, 0, y ? weir_reshape(y, d.ndim, d.dim) : NULL);
}

weir_status weir_onnx_softmax(weir_onnx_call *c)
{
    return along(c, weir_softmax);
}

weir_status weir_onnx_log_softmax(weir_onnx_call *c)
{
    return along(c, weir_log_softmax);
}

weir_status weir_onnx_softmax_rows(weir_onnx_call *c)
{
    return of_rows(c, weir_softmax);
}

weir_status weir_onnx_log_softmax_rows(weir_onnx_call *c)
{
    return of_rows(c, weir_log_softmax);
}

/* 1 at the first largest element of the axis, 0 elsewhere. */
weir_status weir_onnx_hardmax(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    int                axis;

    if (!x)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    WEIR_TRY(weir_onnx_axis(c, weir_onnx_int(c, "axis", -1), d.ndim, &axis));
    weir_tensor *const at =
        weir_eq(weir_onnx_ramp(c, d.dim[axis], 1, d.ndim, axis), weir_argmax(x, axis, true));
    return weir_onnx_give(c, 0, weir_cast(at, d.dtype));
}

/* Exclusive: the results of the axis moved on by one element; `first` is that of no elements. */
static weir_status running(weir_onnx_call *c, weir_tensor *(*fn)(weir_tensor *, int, bool),
                           double          first)
{
    weir_tensor *x = weir_onnx_x(c, 0);
    const bool   reverse = weir_onnx_int(c, "reverse", 0) != 0;
    int64_t      front[WEIR_MAX_DIMS] = {0}, back[WEIR_MAX_DIMS] = {0}, at;
    size_t       n;
    int          axis;

    if (!x)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    WEIR_TRY(weir_onnx_list(c, 1, &at, 1, &n));
    WEIR_TRY(weir_onnx_axis(c, n ? at : 0, d.ndim, &axis));
    if (weir_onnx_int(c, "exclusive", 0) != 0) {
        front[axis] = !reverse;
        back[axis] = reverse;
        x = weir_narrow(weir_pad(x, front, back, WEIR_PAD_CONSTANT, first), axis, reverse,
                        d.dim[axis]);
    }
    return weir_onnx_give(c, 0, weir_onnx_as(fn(x, axis, reverse), d.dtype));
}

weir_status weir_onnx_cumsum(weir_onnx_call *c)
{
    return running(c, weir_cumsum, 0);
}

weir_status weir_onnx_cumprod(weir_onnx_call *c)
{
    return running(c, weir_cumprod, 1);
}
