/* rearrange.c - repeats and changes of shape, composed of views and, at most, one copy each.
 *
 * To repeat an axis, a new axis of size 1 is added, repeated by a view, and merged with it by a
 * reshape: the new axis stands before the old one for tile, after it for repeat. */
#include "core/mem.h"
#include "graph/ops/define.h"

/* ---- axes of size 1 ---- */

weir_tensor *weir_squeeze(weir_tensor *x, int axis)
{
    int64_t dim[WEIR_MAX_DIMS];
    int     at, n = 0;
    char    text[WEIR_DESC_TEXT];

    if (!x)
        return weir_null("weir_squeeze", "x");
    const weir_desc *const d = &x->layout.desc;
    if (weir_axis_of("squeeze", d, axis, &at) != WEIR_OK)
        return NULL;
    if (d->dim[at] != 1)
        return WEIR_FAIL_NULL(WEIR_ERR_SHAPE, "squeeze: axis %d of %s has not size 1", at,
                              weir_desc_text(d, text));
    for (int i = 0; i < d->ndim; i++)
        if (i != at)
            dim[n++] = d->dim[i];
    return weir_reshape(x, n, dim);
}

weir_tensor *weir_unsqueeze(weir_tensor *x, int axis)
{
    int64_t dim[WEIR_MAX_DIMS];
    char    text[WEIR_DESC_TEXT];

    if (!x)
        return weir_null("weir_unsqueeze", "x");
    const weir_desc *const d = &x->layout.desc;
    const int              at = axis < 0 ? axis + d->ndim + 1 : axis;
    if (at < 0 || at > d->ndim || d->ndim == WEIR_MAX_DIMS)
        return WEIR_FAIL_NULL(WEIR_ERR_INVALID, "unsqueeze: %s cannot get an axis %d",
                              weir_desc_text(d, text), axis);
    for (int i = 0; i <= d->ndim; i++)
        dim[i] = i == at ? 1 : d->dim[i - (i > at)];
    return weir_reshape(x, d->ndim + 1, dim);
}

/* ---- repeats ---- */

weir_tensor *weir_expand(weir_tensor *x, int ndim, const int64_t *dim)
{
    if (!x)
        return weir_null("weir_expand", "x");
    if (ndim < 0 || ndim > WEIR_MAX_DIMS || (ndim > 0 && !dim))
        return WEIR_FAIL_NULL(WEIR_ERR_INVALID, "expand: %d axes are given, but 0 to %d and their "
                                                "sizes are allowed",
                              ndim, WEIR_MAX_DIMS);

    const weir_desc *const from = &x->layout.desc;
    weir_desc              to = {.dtype = from->dtype, .ndim = ndim}, both;
    char                   a[WEIR_DESC_TEXT], b[WEIR_DESC_TEXT];
    for (int i = 0; i < ndim; i++) {
        const int own = i - (ndim - from->ndim);
        to.dim[i] = dim[i] == -1 && own >= 0 ? from->dim[own] : dim[i];
    }
    if (weir_shape_check("expand", &to) != WEIR_OK ||
        !weir_shape_broadcast(from, &to, &both) || !weir_shape_equal(&both, &to))
        return WEIR_FAIL_NULL(WEIR_ERR_SHAPE, "expand: %s does not become %s",
                              weir_desc_text(from, a), weir_desc_text(&to, b));
    return weir_broadcast_to(x, to);
}

/* Repeats axis i times[i] times, or, if `inner`, each of its elements; all axes in one copy. */
static weir_tensor *repeat_axes(weir_tensor *x, const int64_t *times, bool inner)
{
    const weir_desc d = x->layout.desc;
    weir_desc       many = {.dtype = d.dtype};
    int64_t         one[WEIR_MAX_DIMS], last[WEIR_MAX_DIMS];

    for (int i = 0; i < d.ndim; i++) {
        const int at = many.ndim, own = at + (!inner && times[i] != 1);
        many.ndim += 1 + (times[i] != 1);
        if (times[i] != 1) {
            one[at + inner] = 1;
            many.dim[at + inner] = times[i];
        }
        one[own] = many.dim[own] = d.dim[i];
        last[i] = d.dim[i] * times[i];
    }
    return weir_reshape(weir_broadcast_to(weir_reshape(x, many.ndim, one), many), d.ndim, last);
}

/* Fails for negative times or a result that is too large. *changed: number of repeated axes. */
static weir_status check_times(const char *who, const weir_desc *d, const int64_t *times,
                               int *changed)
{
    weir_desc to = *d;
    char      text[WEIR_DESC_TEXT];

    *changed = 0;
    for (int i = 0; i < d->ndim; i++) {
        if (times[i] < 0)
            return weir_fail(WEIR_ERR_INVALID, "%s: axis %d of %s cannot be repeated %lld times",
                                               who,
                             i, weir_desc_text(d, text), (long long)times[i]);
        if (__builtin_mul_overflow(d->dim[i], times[i], &to.dim[i]))
            to.dim[i] = INT64_MAX;
        *changed += times[i] != 1;
    }
    if (weir_shape_check(who, &to) != WEIR_OK)
        return weir_fail(WEIR_ERR_SHAPE, "%s: the result for %s is too large", who,
                         weir_desc_text(d, text));
    return WEIR_OK;
}

/* Repeats all axes in one copy if the new axes fit into WEIR_MAX_DIMS, else one axis after the
 * other, each as (before, axis, after). */
static weir_tensor *repeat(const char *who, weir_tensor *x, const int64_t *times, bool inner)
{
    int changed;

    if (check_times(who, &x->layout.desc, times, &changed) != WEIR_OK)
        return NULL;
    if (changed == 0)
        return x;
    if (x->layout.desc.ndim + changed <= WEIR_MAX_DIMS)
        return repeat_axes(x, times, inner);
    for (int i = 0; x && i < x->layout.desc.ndim; i++) {
        weir_desc     d = x->layout.desc;
        int64_t       flat[3] = {1, d.dim[i], 1};
        const int64_t once[3] = {1, times[i], 1};
        if (times[i] == 1)
            continue;
        for (int k = 0; k < d.ndim; k++)
            if (k != i)
                flat[k < i ? 0 : 2] *= d.dim[k];
        d.dim[i] *= times[i];
        x = weir_reshape(x, 3, flat);
        x = x ? weir_reshape(repeat_axes(x, once, inner), d.ndim, d.dim) : NULL;
    }
    return x;
}

weir_tensor *weir_tile(weir_tensor *x, const int64_t *times)
{
    if (!x)
        return weir_null("weir_tile", "x");
    if (x->layout.desc.ndim > 0 && !times)
        return weir_null("weir_tile", "times");
    return repeat("tile", x, times, false);
}

weir_tensor *weir_repeat(weir_tensor *x, int axis, int64_t times)
{
    int64_t all[WEIR_MAX_DIMS];
    int     at;

    if (!x)
        return weir_null("weir_repeat", "x");
    if (weir_axis_of("repeat", &x->layout.desc, axis, &at) != WEIR_OK)
        return NULL;
    for (int i = 0; i < x->layout.desc.ndim; i++)
        all[i] = i == at ? times : 1;
    return repeat("repeat", x, all, true);
}

/* ---- images ---- */

static weir_status check_image(const char *who, const weir_desc *d, int64_t fh, int64_t fw)
{
    char text[WEIR_DESC_TEXT];

    if (d->ndim != 4)
        return weir_fail(WEIR_ERR_SHAPE, "%s: x must have 4 axes but is %s", who,
                         weir_desc_text(d, text));
    if (fh < 1 || fw < 1)
        return weir_fail(WEIR_ERR_INVALID, "%s: factors must be positive, not %lld and %lld",
                         who, (long long)fh, (long long)fw);
    return WEIR_OK;
}

weir_tensor *weir_upsample(weir_tensor *x, int64_t fh, int64_t fw)
{
    const int64_t times[4] = {1, 1, fh, fw};

    if (!x)
        return weir_null("weir_upsample", "x");
    if (check_image("upsample", &x->layout.desc, fh, fw) != WEIR_OK)
        return NULL;
    return repeat("upsample", x, times, true);
}

weir_tensor *weir_depth_to_space(weir_tensor *x, int64_t b)
{
    static const int order[6] = {0, 3, 4, 1, 5, 2};
    char             text[WEIR_DESC_TEXT];

    if (!x)
        return weir_null("weir_depth_to_space", "x");
    const weir_desc d = x->layout.desc;
    if (check_image("depth_to_space", &d, b, b) != WEIR_OK)
        return NULL;
    if (b > INT32_MAX || d.dim[1] % (b * b) != 0)
        return WEIR_FAIL_NULL(WEIR_ERR_SHAPE, "depth_to_space: the channels of %s do not divide by "
                              "%lld x %lld", weir_desc_text(&d, text), (long long)b, (long long)b);
    const int64_t c = d.dim[1] / (b * b);
    const int64_t cut[6] = {d.dim[0], b, b, c, d.dim[2], d.dim[3]};
    const int64_t to[4] = {d.dim[0], c, d.dim[2] * b, d.dim[3] * b};
    x = weir_reshape(x, 6, cut);
    x = x ? weir_transpose(x, order) : NULL;
    return x ? weir_reshape(x, 4, to) : NULL;
}

weir_tensor *weir_space_to_depth(weir_tensor *x, int64_t b)
{
    static const int order[6] = {0, 3, 5, 1, 2, 4};
    char             text[WEIR_DESC_TEXT];

    if (!x)
        return weir_null("weir_space_to_depth", "x");
    const weir_desc d = x->layout.desc;
    if (check_image("space_to_depth", &d, b, b) != WEIR_OK)
        return NULL;
    if (d.dim[2] % b != 0 || d.dim[3] % b != 0)
        return WEIR_FAIL_NULL(WEIR_ERR_SHAPE, "space_to_depth: %s does not divide into blocks of "
                              "%lld x %lld", weir_desc_text(&d, text), (long long)b, (long long)b);
    const int64_t cut[6] = {d.dim[0], d.dim[1], d.dim[2] / b, b, d.dim[3] / b, b};
    const int64_t to[4] = {d.dim[0], d.dim[1] * b * b, d.dim[2] / b, d.dim[3] / b};
    x = weir_reshape(x, 6, cut);
    x = x ? weir_transpose(x, order) : NULL;
    return x ? weir_reshape(x, 4, to) : NULL;
}
