/* slice.c - definitions of slices (views with an offset), their inverse, and concatenation.
 *
 * A slice with positive steps is a view of its input; others are copied, so that only the copy
 * kernel sees negative strides. SLICE_SCATTER is the inverse: a tensor filled with one value except
 * for a slice, which is the input. It is both the gradient of SLICE and padding with a constant.
 * The gradient of CONCAT is a view of dy per input. */
#include "core/mem.h"
#include "graph/ops/define.h"

enum { MOVE = WEIR_PURE | WEIR_STRIDED };

/* ---- slice ---- */

static weir_status slice_infer(weir_call *c)
{
    const weir_slice_attr *const a = c->attr;
    const weir_layout *const     in = &c->in[0];
    weir_layout                  out = {.desc = in->desc};
    int64_t                      offset = 0;
    bool                         view = true;

    for (int i = 0; i < in->desc.ndim; i++) {
        out.desc.dim[i] = a->dim[i];
        out.stride[i] = in->stride[i] * a->step[i];
        offset += in->stride[i] * a->begin[i];
        view = view && a->step[i] > 0;
    }
    if (!view)
        return weir_out_checked(c, 0, &out.desc);
    c->out[0] = out;
    c->alias = 0;
    c->alias_offset = weir_shape_count(&out.desc) > 0 ? offset : 0;
    return WEIR_OK;
}

/* dx is 0 except for the slice, which is dy. */
static weir_status slice_grad(weir_grad *g)
{
    weir_slice_attr        a = *(const weir_slice_attr *)g->attr;
    const weir_desc *const d = &g->x[0]->layout.desc;

    for (int i = 0; i < d->ndim; i++)
        a.dim[i] = d->dim[i];
    return weir_grad_set(g, 0, weir_record1(WEIR_OP_SLICE_SCATTER, 1, g->dy, &a, sizeof a));
}

const weir_opdef weir_op_slice = {
    .name = "slice",
    .flags = MOVE | WEIR_VIEW,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .differentiable = 1,
    .infer = slice_infer,
    .grad = slice_grad,
    .flops = weir_flops_none,
};

/* ---- slice_scatter ---- */

static weir_status slice_scatter_infer(weir_call *c)
{
    const weir_slice_attr *const a = c->attr;
    weir_desc                    d = c->in[0].desc;

    for (int i = 0; i < d.ndim; i++)
        d.dim[i] = a->dim[i];
    return weir_out_checked(c, 0, &d);
}

static weir_status slice_scatter_grad(weir_grad *g)
{
    weir_slice_attr        a = *(const weir_slice_attr *)g->attr;
    const weir_desc *const d = &g->x[0]->layout.desc;

    for (int i = 0; i < d->ndim; i++)
        a.dim[i] = d->dim[i];
    return weir_grad_set(g, 0, weir_record1(WEIR_OP_SLICE, 1, g->dy, &a, sizeof a));
}

const weir_opdef weir_op_slice_scatter = {
    .name = "slice_scatter",
    .flags = MOVE | WEIR_PRESERVE_FORMAT,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .differentiable = 1,
    .infer = slice_scatter_infer,
    .grad = slice_scatter_grad,
    .flops = weir_flops_none,
};

/* ---- concat ---- */

static weir_status concat_infer(weir_call *c)
{
    const int axis = (int)((const weir_axis_attr *)c->attr)->axis;
    weir_desc d = c->in[0].desc;

    for (int i = 1; i < c->nin; i++) {
        weir_desc e = c->in[i].desc;
        WEIR_TRY(weir_check_type(c, i, d.dtype));
        if (e.ndim != d.ndim || __builtin_add_overflow(d.dim[axis], e.dim[axis], &d.dim[axis]))
            return weir_call_fail(WEIR_ERR_SHAPE, c, "input %d cannot follow input 0", i);
        e.dim[axis] = d.dim[axis];
        if (!weir_shape_equal(&d, &e))
            return weir_call_fail(WEIR_ERR_SHAPE, c, "input %d differs from input 0 in more than "
                                  "axis %d", i, axis);
    }
    return weir_out_checked(c, 0, &d);
}

static weir_status concat_grad(weir_grad *g)
{
    const int axis = (int)((const weir_axis_attr *)g->attr)->axis;
    int64_t   begin = 0;

    for (int i = 0; i < g->nin; i++) {
        const int64_t size = g->x[i]->layout.desc.dim[axis];
        if (weir_wants(g, i))
            WEIR_TRY(weir_grad_set(g, i, weir_narrow(g->dy[0], axis, begin, size)));
        begin += size;
    }
    return WEIR_OK;
}

const weir_opdef weir_op_concat = {
    .name = "concat",
    .flags = MOVE | WEIR_PRESERVE_FORMAT,
    .nin_min = 1,
    .nin_max = WEIR_MAX_IN,
    .nout = 1,
    .differentiable = (1 << WEIR_MAX_IN) - 1,
    .infer = concat_infer,
    .grad = concat_grad,
    .flops = weir_flops_none,
};

/* ---- public functions: parts ---- */

/* A bound of an axis of n elements as NumPy interprets it, clamped to [lo, hi]. */
static int64_t bound(int64_t v, int64_t n, int64_t lo, int64_t hi)
{
    if (v < 0)
        v = v < -n ? lo : v + n;
    return v < lo ? lo : v > hi ? hi : v;
}

/* Resolves begin, end and step of axis i of n elements; NULL: all of it. */
static void slice_axis(weir_slice_attr *a, int i, int64_t n, const int64_t *begin,
                       const int64_t *end)
{
    const int64_t step = a->step[i];
    const int64_t lo = step > 0 ? 0 : -1, hi = step > 0 ? n : n - 1;
    const int64_t first = begin ? bound(begin[i], n, lo, hi) : step > 0 ? lo : hi;
    const int64_t stop = end ? bound(end[i], n, lo, hi) : step > 0 ? hi : lo;
    const int64_t span = step > 0 ? stop - first : first - stop;

    a->begin[i] = first;
    a->dim[i] = span > 0 ? (span - 1) / (step > 0 ? step : -step) + 1 : 0;
    if (a->dim[i] <= 1)
        a->step[i] = 1;             /* no product of step and stride overflows */
    if (a->dim[i] == 0)
        a->begin[i] = 0;
}

weir_tensor *weir_slice(weir_tensor *x, const int64_t *begin, const int64_t *end,
                        const int64_t *step)
{
    if (!x)
        return weir_null("weir_slice", "x");

    const weir_desc *const d = &x->layout.desc;
    weir_slice_attr        a = {.ndim = d->ndim};
    char                   text[WEIR_DESC_TEXT];

    for (int i = 0; i < d->ndim; i++) {
        a.step[i] = step ? step[i] : 1;
        if (a.step[i] == 0 || a.step[i] == INT64_MIN)
            return WEIR_FAIL_NULL(WEIR_ERR_INVALID, "slice: the step of axis %d cannot be %lld, x "
                                  "is %s", i, (long long)a.step[i], weir_desc_text(d, text));
        slice_axis(&a, i, d->dim[i], begin, end);
    }
    return weir_record1(WEIR_OP_SLICE, 1, &x, &a, sizeof a);
}

/* Elements begin + i * step, 0 <= i < size, of one axis, which must exist; all of other axes. */
static weir_tensor *slice_one(weir_tensor *x, int axis, int64_t begin, int64_t step, int64_t size)
{
    const weir_desc *const d = &x->layout.desc;
    weir_slice_attr        a = {.ndim = d->ndim};

    for (int i = 0; i < d->ndim; i++) {
        a.step[i] = 1;
        a.dim[i] = d->dim[i];
    }
    a.begin[axis] = begin;
    a.step[axis] = size > 1 ? step : 1;
    a.dim[axis] = size;
    return weir_record1(WEIR_OP_SLICE, 1, &x, &a, sizeof a);
}

weir_tensor *weir_narrow(weir_tensor *x, int axis, int64_t begin, int64_t size)
{
    char text[WEIR_DESC_TEXT];
    int  at;

    if (!x)
        return weir_null("weir_narrow", "x");
    if (weir_axis_of("narrow", &x->layout.desc, axis, &at) != WEIR_OK)
        return NULL;
    const int64_t n = x->layout.desc.dim[at];
    if (begin < 0 || begin > n || size < 0 || size > n - begin)
        return WEIR_FAIL_NULL(WEIR_ERR_SHAPE, "narrow: axis %d of %s does not have %lld elements "
                              "from %lld on", at, weir_desc_text(&x->layout.desc, text),
                              (long long)size, (long long)begin);
    return slice_one(x, at, begin, 1, size);
}

/* Fails unless the sizes are not negative and add up to the axis. */
static weir_status check_sizes(const weir_desc *d, int axis, int n, const int64_t *size)
{
    char    text[WEIR_DESC_TEXT];
    int64_t left = d->dim[axis];

    weir_desc_text(d, text);
    if (!size && (n < 1 || left % n != 0))
        return weir_fail(WEIR_ERR_SHAPE, "split: axis %d of %s does not divide into %d equal "
                                         "parts", axis, text,
                         n);
    for (int i = 0; i < n && size; left -= size[i++])
        if (size[i] < 0 || size[i] > left)
            return weir_fail(WEIR_ERR_SHAPE, "split: part %d of axis %d of %s cannot have %lld "
                             "elements", i, axis, text, (long long)size[i]);
    if (size && left != 0)
        return weir_fail(WEIR_ERR_SHAPE, "split: the parts leave %lld elements of axis %d of %s",
                         (long long)left, axis, text);
    return WEIR_OK;
}

weir_status weir_split(weir_tensor *x, int axis, int n, const int64_t *size, weir_tensor **out)
{
    int     at;
    int64_t begin = 0;

    if (!out)
        return weir_fail_null("weir_split", "out");
    for (int i = 0; i < n; i++)
        out[i] = NULL;
    if (!x)
        return weir_fail_null("weir_split", "x");
    const weir_desc d = x->layout.desc;
    WEIR_TRY(weir_axis_of("split", &d, axis, &at));
    WEIR_TRY(check_sizes(&d, at, n, size));
    for (int i = 0; i < n; i++) {
        const int64_t part = size ? size[i] : d.dim[at] / n;
        out[i] = slice_one(x, at, begin, 1, part);
        WEIR_TRY(weir_made(out[i]));
        begin += part;
    }
    return WEIR_OK;
}

/* ---- public functions: joins ---- */

static weir_tensor *join(int n, weir_tensor *const *x, int axis)
{
    const weir_axis_attr a = {axis};

    if (n <= WEIR_MAX_IN)
        return weir_record1(WEIR_OP_CONCAT, n, x, &a, sizeof a);

    /* Joins groups of as many as one call takes, then the results. */
    const int     groups = (n + WEIR_MAX_IN - 1) / WEIR_MAX_IN;
    weir_tensor **part = weir_mem_alloc((size_t)groups * sizeof(weir_tensor *));
    weir_tensor  *y = NULL;
    bool          ok = part != NULL;

    for (int i = 0; i < groups && ok; i++) {
        const int first = i * WEIR_MAX_IN;
        part[i] = join(n - first < WEIR_MAX_IN ? n - first : WEIR_MAX_IN, x + first, axis);
        ok = part[i] != NULL;
    }
    if (ok)
        y = join(groups, part, axis);
    weir_mem_free(part);
    return y;
}

weir_tensor *weir_concat(int n, weir_tensor *const *x, int axis)
{
    int at;

    if (n < 1 || !x)
        return WEIR_FAIL_NULL(WEIR_ERR_INVALID, "concat: nothing to join: x is NULL or n is %d", n);
    for (int i = 0; i < n; i++)
        if (!x[i])
            return weir_null("weir_concat", "an input");
    if (weir_axis_of("concat", &x[0]->layout.desc, axis, &at) != WEIR_OK)
        return NULL;
    return join(n, x, at);
}

/* Fails unless all inputs have the same desc and one more axis is possible. */
static weir_status check_stack(int n, weir_tensor *const *x, int axis)
{
    char a[WEIR_DESC_TEXT], b[WEIR_DESC_TEXT];

    for (int i = 0; i < n; i++)
        if (!x[i])
            return weir_fail_null("weir_stack", "an input");
    const weir_desc *const d = &x[0]->layout.desc;
    weir_desc_text(d, a);
    for (int i = 1; i < n; i++) {
        const weir_desc *const e = &x[i]->layout.desc;
        if (!weir_desc_equal(d, e))
            return weir_fail(d->dtype == e->dtype ? WEIR_ERR_SHAPE : WEIR_ERR_DTYPE,
                             "stack: input %d is %s, input 0 is %s", i, weir_desc_text(e, b), a);
    }
    if (axis < 0 || axis > d->ndim || d->ndim == WEIR_MAX_DIMS)
        return weir_fail(WEIR_ERR_INVALID, "stack: %s cannot get a new axis %d (expected 0 to %d, "
                         "and at most %d axes in all)",
                         a, axis, d->ndim, WEIR_MAX_DIMS);
    return WEIR_OK;
}

weir_tensor *weir_stack(int n, weir_tensor *const *x, int axis)
{
    if (n < 1 || !x)
        return WEIR_FAIL_NULL(WEIR_ERR_INVALID, "stack: nothing to join: x is NULL or n is %d", n);
    const int at = axis < 0 && x[0] ? axis + x[0]->layout.desc.ndim + 1 : axis;
    if (check_stack(n, x, at) != WEIR_OK)
        return NULL;
    weir_tensor **const part = weir_mem_alloc((size_t)n * sizeof(weir_tensor *));
    bool                ok = part != NULL;
    for (int i = 0; i < n && ok; i++)
        ok = (part[i] = weir_unsqueeze(x[i], at)) != NULL;
    weir_tensor *const y = ok ? join(n, part, at) : NULL;
    weir_mem_free(part);
    return y;
}

/* ---- public functions: padding ---- */

/* One axis: elements are taken from x itself, mirrored or repeated. */
static weir_tensor *pad_axis(weir_tensor *x, int axis, int64_t before, int64_t after, bool mirror)
{
    const int64_t n = x->layout.desc.dim[axis];
    weir_tensor  *part[3];
    int           parts = 0;

    if (before > 0)
        part[parts++] = mirror ? slice_one(x, axis, before, -1, before)
                               : weir_repeat(slice_one(x, axis, 0, 1, 1), axis, before);
    part[parts++] = x;
    if (after > 0)
        part[parts++] = mirror ? slice_one(x, axis, n - 2, -1, after)
                               : weir_repeat(slice_one(x, axis, n - 1, 1, 1), axis, after);
    return weir_concat(parts, part, axis);
}

/* Fails for amounts that the mode does not allow. *any: is any amount above 0? */
static weir_status check_pads(const weir_desc *d, const int64_t *before, const int64_t *after,
                              weir_pad_mode mode, bool *any)
{
    const int64_t least = mode == WEIR_PAD_REFLECT ? 1 : 0;
    char          text[WEIR_DESC_TEXT];

    weir_desc_text(d, text);
    *any = false;
    for (int i = 0; i < d->ndim; i++) {
        const int64_t b = before ? before[i] : 0, e = after ? after[i] : 0;
        int64_t       sum;
        if (b < 0 || e < 0 || __builtin_add_overflow(b, e, &sum) ||
            __builtin_add_overflow(sum, d->dim[i], &sum))
            return weir_fail(WEIR_ERR_INVALID, "pad: axis %d of %s cannot get %lld before and %lld "
                             "after it", i, text, (long long)b, (long long)e);
        if (mode != WEIR_PAD_CONSTANT && (b > 0 || e > 0) &&
            (d->dim[i] == 0 || (least && (b >= d->dim[i] || e >= d->dim[i]))))
            return weir_fail(WEIR_ERR_SHAPE, "pad: axis %d of %s has too few elements to take %lld "
                             "before and %lld after it from", i, text, (long long)b, (long long)e);
        *any = *any || b > 0 || e > 0;
    }
    return WEIR_OK;
}

static weir_tensor *pad_constant(weir_tensor *x, const int64_t *before, const int64_t *after,
                                 double value)
{
    const weir_desc *const d = &x->layout.desc;
    weir_slice_attr        a = {.ndim = d->ndim, .value = value};

    for (int i = 0; i < d->ndim; i++) {
        a.begin[i] = before ? before[i] : 0;
        a.step[i] = 1;
        a.dim[i] = a.begin[i] + d->dim[i] + (after ? after[i] : 0);
    }
    return weir_record1(WEIR_OP_SLICE_SCATTER, 1, &x, &a, sizeof a);
}

weir_tensor *weir_pad(weir_tensor *x, const int64_t *before, const int64_t *after,
                      weir_pad_mode mode, double value)
{
    bool any;

    if (!x)
        return weir_null("weir_pad", "x");
    if ((unsigned)mode > WEIR_PAD_EDGE)
        return WEIR_FAIL_NULL(WEIR_ERR_INVALID, "pad: unknown mode %d (expected a weir_pad_mode)",
                                                (int)mode);
    if (check_pads(&x->layout.desc, before, after, mode, &any) != WEIR_OK)
        return NULL;
    if (!any)
        return x;
    if (mode == WEIR_PAD_CONSTANT)
        return pad_constant(x, before, after, value);
    for (int i = 0; x && i < x->layout.desc.ndim; i++) {
        const int64_t b = before ? before[i] : 0, e = after ? after[i] : 0;
        if (b > 0 || e > 0)
            x = pad_axis(x, i, b, e, mode == WEIR_PAD_REFLECT);
    }
    return x;
}
