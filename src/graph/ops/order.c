/* order.c - elements of an axis by index, and the first ones in order; composed of other ops.
 *
 * Each element is compared with each of its axis: its rank is the number of those that come before
 * it. The place of an element in order is that whose rank it is. */
#include "graph/ops/define.h"

enum { RANKED = 4096 };         /* most elements of an axis that are compared, each with each */

static weir_tensor *whole(weir_device *d, int64_t value)
{
    return weir_fill_int(d, weir_scalar(WEIR_I64), value);
}

/* 0, step, 2 step, ... along one of ndim axes, i64. */
static weir_tensor *ramp(weir_device *d, int64_t count, int64_t step, int ndim, int axis)
{
    int64_t dim[WEIR_MAX_DIMS];

    for (int i = 0; i < ndim; i++)
        dim[i] = i == axis ? count : 1;
    return weir_reshape(weir_arange(d, WEIR_I64, count, 0, (double)step), ndim, dim);
}

/* ---- elements by index ---- */

/* x at index (i64), which is inside the axis or so far below 0 that no other axis brings it back.
 */
static weir_tensor *taken(weir_tensor *x, weir_tensor *index, int axis)
{
    const weir_desc d = x->layout.desc;
    int64_t         all = 1, inner = 1;

    for (int k = d.ndim; k-- > axis + 1;)
        inner *= d.dim[k];
    weir_tensor *flat = weir_mul(index, whole(x->dev, inner));
    for (int k = d.ndim; k-- > 0; all *= d.dim[k])
        if (k != axis)
            flat = weir_add(flat, ramp(x->dev, d.dim[k], all, d.ndim, k));
    return weir_gather(weir_reshape(x, 1, &all), flat);
}

/* The index as i64; where it is outside the axis, below 0 by the number of elements of x: among all
 * elements it could be the place of another one. */
static weir_tensor *checked(const weir_tensor *x, weir_tensor *index, int64_t size)
{
    weir_tensor *const i = weir_cast(index, WEIR_I64);
    weir_tensor *const inside =
        weir_logical_and(weir_ge(i, whole(x->dev, 0)), weir_lt(i, whole(x->dev, size)));
    const int64_t all = weir_shape_count(&x->layout.desc);

    return weir_where(inside, i, whole(x->dev, -(all > 0 ? all : 1)));
}

weir_tensor *weir_take_along(weir_tensor *x, weir_tensor *index, int axis)
{
    char a[WEIR_DESC_TEXT], b[WEIR_DESC_TEXT];
    int  at;

    if (!x || !index)
        return weir_null("weir_take_along", x ? "index" : "x");
    const weir_desc *const d = &x->layout.desc, *const i = &index->layout.desc;
    if (weir_axis_of("take_along", d, axis, &at) != WEIR_OK)
        return NULL;
    if (i->dtype != WEIR_I32 && i->dtype != WEIR_I64)
        return WEIR_FAIL_NULL(WEIR_ERR_DTYPE, "take_along: the index must be i32 or i64, not %s "
                                              "for %s",
                              weir_desc_text(i, b), weir_desc_text(d, a));
    bool fits = i->ndim == d->ndim;
    for (int k = 0; k < d->ndim && fits; k++)
        fits = k == at || i->dim[k] == d->dim[k] || i->dim[k] == 1;
    if (!fits)
        return WEIR_FAIL_NULL(WEIR_ERR_SHAPE, "take_along: index %s must have the axes of %s, each "
                                              "but axis %d of its size or 1",
                              weir_desc_text(i, b), weir_desc_text(d, a), at);
    return taken(x, checked(x, index, d->dim[at]), at);
}

/* ---- the first elements in order ---- */

/* Whether a is larger than b. */
static weir_tensor *above(weir_tensor *a, weir_tensor *b)
{
    if (!a || !b || !weir_is_any_float(a->layout.desc.dtype))
        return weir_gt(a, b);
    weir_tensor *const nan = weir_logical_and(weir_ne(a, a), weir_eq(b, b));
    return weir_logical_or(weir_gt(a, b), nan);
}

/* (..., n, ...) -> (..., 1, n, ...): how many elements of the axis come before each. */
static weir_tensor *ranks(weir_tensor *x, int axis, bool largest)
{
    const weir_desc    d = x->layout.desc;
    const int64_t      n = d.dim[axis];
    weir_tensor *const a = weir_unsqueeze(x, axis + 1), *const b = weir_unsqueeze(x, axis);
    weir_tensor *const more = above(b, a), *const less = above(a, b);
    weir_tensor *const same = weir_logical_not(weir_logical_or(more, less));
    weir_tensor *const front = weir_lt(ramp(x->dev, n, 1, d.ndim + 1, axis + 1),
                                       ramp(x->dev, n, 1, d.ndim + 1, axis));
    weir_tensor *const before =
        weir_logical_or(largest ? more : less, weir_logical_and(same, front));

    return weir_unsqueeze(weir_sum(before, 1u << (axis + 1), false), axis);
}

static weir_status check_topk(const weir_desc *d, int axis, int64_t k)
{
    const int64_t n = d->dim[axis];
    char          text[WEIR_DESC_TEXT];

    if (n < 1 || n > RANKED || d->ndim == WEIR_MAX_DIMS)
        return weir_fail(WEIR_ERR_SHAPE, "topk: axis %d of %s must have 1 to %d elements, beside "
                                         "at most %d other axes",
                         axis, weir_desc_text(d, text), RANKED, WEIR_MAX_DIMS - 2);
    if (k < 0 || k > n)
        return weir_fail(WEIR_ERR_INVALID, "topk: %lld of %lld elements of axis %d of %s",
                         (long long)k, (long long)n, axis, weir_desc_text(d, text));
    return WEIR_OK;
}

weir_status weir_topk(weir_tensor *x, int64_t k, int axis, bool largest, weir_tensor **values,
                      weir_tensor **places)
{
    int at;

    if (values)
        *values = NULL;
    if (places)
        *places = NULL;
    if (!x)
        return weir_fail_null("weir_topk", "x");
    const weir_desc d = x->layout.desc;
    WEIR_TRY(weir_axis_of("topk", &d, axis, &at));
    WEIR_TRY(check_topk(&d, at, k));
    weir_tensor *still = weir_detach(x);
    if (d.dtype == WEIR_BOOL)
        still = weir_cast(still, WEIR_U8);
    WEIR_TRY(weir_made(still));
    weir_tensor *const hit = weir_eq(ranks(still, at, largest), ramp(x->dev, k, 1, d.ndim + 1, at));
    weir_tensor *const index = weir_argmax(weir_cast(hit, WEIR_U8), at + 1, false);
    WEIR_TRY(weir_made(index));
    weir_tensor *const found = values ? taken(x, index, at) : NULL;
    if (values)
        WEIR_TRY(weir_made(found));
    if (values)
        *values = found;
    if (places)
        *places = index;
    return WEIR_OK;
}
