/* order.c - elements of an axis in another order: TopK, ReverseSequence, caches that are written
 * from a place of their own. */
#include <inttypes.h>
#include <string.h>

#include "model/onnx/op/ops.h"

weir_status weir_onnx_top_k(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    double             k = (double)weir_onnx_int(c, "k", 0);
    const bool         largest = weir_onnx_int(c, "largest", 1) != 0;
    weir_tensor       *values, *places;
    int                axis;

    if (!x)
        return weir_error_status();
    WEIR_TRY(weir_onnx_axis(c, weir_onnx_int(c, "axis", -1), weir_tensor_desc(x).ndim, &axis));
    if (weir_onnx_has(c, 1))
        WEIR_TRY(weir_onnx_number(c, 1, &k));
    const int64_t count = k >= 0 && k <= INT32_MAX ? (int64_t)k : -1;
    WEIR_TRY(weir_topk(x, count, axis, largest, &values, &places));
    if (weir_onnx_wants(c, 1))
        WEIR_TRY(weir_onnx_give(c, 1, places));
    return weir_onnx_give(c, 0, values);
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
    return weir_onnx_give(c, 0, weir_take_along(x, weir_where(weir_lt(t, n), back, t), (int)time));
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
    weir_tensor *const new = weir_take_along(update, inside, axis);
    return weir_onnx_give(c, 0, weir_where(weir_eq(at, inside), new, past));
}
