/* order.c - elements of an axis in another order: TopK, ReverseSequence, caches that are written
 * from a place of their own. */
#include <inttypes.h>
#include <string.h>

#include "model/onnx/op/ops.h"

enum { RANKED = 1024 }; /* most elements of an axis that TopK compares, each with each */

/* Elements of one axis of x: index (i64, inside the axis) has the axes of x, each but that one as
 * large as x's or 1. */
static weir_tensor *taken(weir_onnx_call *c, weir_tensor *x, weir_tensor *index, int axis)
{
    const weir_desc d = weir_tensor_desc(x);
    int64_t         all = 1;

    if (!index)
        return NULL;
    weir_tensor *flat = weir_mul(index, weir_fill_int(c->dev, weir_scalar(WEIR_I64),
                                                      weir_onnx_product(&d, axis + 1, d.ndim)));
    for (int k = d.ndim; k-- > 0; all *= d.dim[k])
        if (k != axis)
            flat = weir_add(flat, weir_onnx_ramp(c, d.dim[k], all, d.ndim, k));
    return weir_gather(weir_reshape(x, 1, &all), flat);
}

/* ---- TopK ---- */

static bool is_float(weir_dtype t)
{
    return t == WEIR_F32 || t == WEIR_F64 || t == WEIR_F16 || t == WEIR_BF16;
}

/* Whether a stands above b; a NaN above every number, as in PyTorch. */
static weir_tensor *above(weir_tensor *a, weir_tensor *b)
{
    if (!is_float(weir_tensor_desc(a).dtype))
        return weir_gt(a, b);
    weir_tensor *const nan = weir_logical_and(weir_ne(a, a), weir_eq(b, b));
    return weir_logical_or(weir_gt(a, b), nan);
}

/* How many elements of the axis come before each one: larger ones, or smaller ones, and of equal
 * ones those in front. */
static weir_tensor *ranks(weir_onnx_call *c, weir_tensor *x, int axis, bool largest)
{
    const weir_desc    d = weir_tensor_desc(x);
    weir_tensor *const a = weir_unsqueeze(x, axis + 1), *const b = weir_unsqueeze(x, axis);
    weir_tensor *const more = above(b, a), *const less = above(a, b);
    weir_tensor *const same = weir_logical_not(weir_logical_or(more, less));
    weir_tensor *const front = weir_lt(weir_onnx_ramp(c, d.dim[axis], 1, d.ndim + 1, axis + 1),
                                       weir_onnx_ramp(c, d.dim[axis], 1, d.ndim + 1, axis));
    weir_tensor *const before =
        weir_logical_or(largest ? more : less, weir_logical_and(same, front));
    return weir_sum(before, 1u << (axis + 1), false);
}

weir_status weir_onnx_top_k(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    double             k = (double)weir_onnx_int(c, "k", 0);
    int                axis;

    if (!x)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    WEIR_TRY(weir_onnx_axis(c, weir_onnx_int(c, "axis", -1), d.ndim, &axis));
    if (weir_onnx_has(c, 1))
        WEIR_TRY(weir_onnx_number(c, 1, &k));
    const int64_t n = d.dim[axis];
    if (n > RANKED || d.ndim == WEIR_MAX_DIMS)
        return weir_onnx_refuse(c, "an axis of %" PRId64 " elements of a tensor with %d axes", n,
                                d.ndim);
    if (!(k >= 1 && k <= (double)n))
        return weir_onnx_refuse(c, "%g of %" PRId64 " elements", k, n);
    weir_tensor *const still = weir_detach(x);
    if (!still)
        return weir_error_status();
    weir_tensor *const rank =
        weir_unsqueeze(ranks(c, still, axis, weir_onnx_int(c, "largest", 1) != 0), axis);
    weir_tensor *const hit = weir_eq(rank, weir_onnx_ramp(c, (int64_t)k, 1, d.ndim + 1, axis));
    weir_tensor *const index = weir_argmax(weir_cast(hit, WEIR_U8), axis + 1, false);
    if (weir_onnx_wants(c, 1))
        WEIR_TRY(weir_onnx_give(c, 1, index));
    return weir_onnx_give(c, 0, taken(c, x, index, axis));
}

/* ---- sequences ---- */

/* A vector of integers along one axis of ndim; NULL after a failure. */
static weir_tensor *along(weir_tensor *v, int ndim, int axis)
{
    int64_t dim[WEIR_MAX_DIMS];

    if (!v)
        return NULL;
    for (int i = 0; i < ndim; i++)
        dim[i] = i == axis ? weir_tensor_desc(v).dim[0] : 1;
    return weir_onnx_as(weir_reshape(v, ndim, dim), WEIR_I64);
}

/* The first elements of each sequence backwards, as many as its length says, then the others. */
weir_status weir_onnx_reverse_sequence(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0), *const lengths = weir_onnx_x(c, 1);
    const int64_t      batch = weir_onnx_int(c, "batch_axis", 1);
    const int64_t      time = weir_onnx_int(c, "time_axis", 0);

    if (!x || !lengths)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x), l = weir_tensor_desc(lengths);
    if (d.ndim < 2 || batch + time != 1 || batch * time != 0 || l.ndim != 1 ||
        l.dim[0] != d.dim[batch])
        return weir_onnx_refuse(c, "axes %" PRId64 " and %" PRId64 " of a tensor with %d", batch,
                                time, d.ndim);
    weir_tensor *const n = along(lengths, d.ndim, (int)batch);
    weir_tensor *const t = weir_onnx_ramp(c, d.dim[time], 1, d.ndim, (int)time);
    weir_tensor *const one = weir_fill_int(c->dev, weir_scalar(WEIR_I64), 1);
    weir_tensor *const back = weir_sub(weir_sub(n, one), t);
    return weir_onnx_give(c, 0, taken(c, x, weir_where(weir_lt(t, n), back, t), (int)time));
}

/* The update in the places of the cache that begin at the index of each sequence. */
weir_status weir_onnx_tensor_scatter(weir_onnx_call *c)
{
    weir_tensor *const past = weir_onnx_x(c, 0), *const update = weir_onnx_x(c, 1);
    const char *const  mode = weir_onnx_str(c, "mode", "linear");
    const bool         circular = strcmp(mode, "circular") == 0;
    int                axis;

    if (!past || !update)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(past), u = weir_tensor_desc(update);
    WEIR_TRY(weir_onnx_axis(c, weir_onnx_int(c, "axis", -2), d.ndim, &axis));
    if (!circular && strcmp(mode, "linear") != 0)
        return weir_onnx_refuse(c, "mode %.20s", mode);
    if (u.ndim != d.ndim || axis == 0 || u.dim[axis] < 1 || u.dim[axis] > d.dim[axis])
        return weir_onnx_refuse(c, "an update with %d axes for a cache with %d", u.ndim, d.ndim);
    weir_tensor *at = weir_onnx_ramp(c, d.dim[axis], 1, d.ndim, axis);
    if (weir_onnx_has(c, 2))
        at = weir_sub(at, along(weir_onnx_x(c, 2), d.ndim, 0));
    if (circular)
        at = weir_remainder(at, weir_fill_int(c->dev, weir_scalar(WEIR_I64), d.dim[axis]));
    const double       last = (double)(u.dim[axis] - 1);
    weir_tensor *const inside = weir_clamp(at, 0, last);
    return weir_onnx_give(c, 0,
                          weir_where(weir_eq(at, inside), taken(c, update, inside, axis), past));
}
