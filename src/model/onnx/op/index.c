/* index.c - slices, padding, gathers by flat indices. */
#include <inttypes.h>
#include <string.h>

#include "model/onnx/op/ops.h"

/* ---- slices ---- */

typedef struct bounds {
    int64_t begin[WEIR_MAX_DIMS], end[WEIR_MAX_DIMS], step[WEIR_MAX_DIMS];
} bounds;

static weir_status slice(weir_onnx_call *c, size_t n, const int64_t *begin, const int64_t *end,
                         const int64_t *axes, const int64_t *step)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    bounds             b;
    int                axis;

    if (!x)
        return weir_error_status();
    const int ndim = weir_tensor_desc(x).ndim;
    for (int i = 0; i < WEIR_MAX_DIMS; i++)
        b.begin[i] = 0, b.end[i] = INT64_MAX, b.step[i] = 1;
    for (size_t i = 0; i < n; i++) {
        WEIR_TRY(weir_onnx_axis(c, axes ? axes[i] : (int64_t)i, ndim, &axis));
        b.begin[axis] = begin[i];
        b.end[axis] = end[i];
        b.step[axis] = step ? step[i] : 1;
    }
    return weir_onnx_give(c, 0, weir_slice(x, b.begin, b.end, b.step));
}

weir_status weir_onnx_slice_attr(weir_onnx_call *c)
{
    const int64_t *begin, *end, *axes;
    const size_t   n = weir_onnx_ints(c, "starts", &begin), m = weir_onnx_ints(c, "ends", &end);
    const size_t   k = weir_onnx_ints(c, "axes", &axes);

    if (n != m || n > WEIR_MAX_DIMS || (axes && k != n))
        return weir_onnx_refuse(c, "%zu starts, %zu ends, %zu axes", n, m, k);
    return slice(c, n, begin, end, axes, NULL);
}

weir_status weir_onnx_slice(weir_onnx_call *c)
{
    int64_t at[4][WEIR_MAX_DIMS];
    size_t  n[4] = {0};
    bool    has[4];

    for (size_t i = 0; i < 4; i++) {
        has[i] = weir_onnx_has(c, i + 1);
        if (has[i] || i < 2)
            WEIR_TRY(weir_onnx_list(c, i + 1, at[i], WEIR_MAX_DIMS, &n[i]));
        if (i > 0 && has[i] && n[i] != n[0])
            return weir_onnx_refuse(c, "%zu starts, but %zu numbers in input %zu", n[0], n[i],
                                    i + 1);
    }
    return slice(c, n[0], at[0], at[1], has[2] ? at[2] : NULL, has[3] ? at[3] : NULL);
}

/* ---- splits ---- */

/* The sizes of n parts of an axis: those given, or equal ones of which the last may be smaller. */
static weir_status part_sizes(weir_onnx_call *c, int64_t whole, size_t n, int64_t *size)
{
    const int64_t *at;
    size_t         given = weir_onnx_ints(c, "split", &at);

    if (weir_onnx_has(c, 1)) {
        WEIR_TRY(weir_onnx_list(c, 1, size, n, &given));
        if (given == n)
            return WEIR_OK;
    } else if (given == n) {
        memcpy(size, at, n * sizeof *size);
        return WEIR_OK;
    }
    if (given)
        return weir_onnx_refuse(c, "%zu sizes for %zu outputs", given, n);
    const int64_t each = (whole + (int64_t)n - 1) / (int64_t)n;
    for (size_t i = 0; i < n; i++) {
        const int64_t left = whole - each * (int64_t)i;
        size[i] = left < 0 ? 0 : left < each ? left : each;
    }
    return WEIR_OK;
}

weir_status weir_onnx_split(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    const size_t       n = c->node->n_out;
    int                axis;
    int64_t            from = 0;

    if (!x)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    WEIR_TRY(weir_onnx_axis(c, weir_onnx_int(c, "axis", 0), d.ndim, &axis));
    if (n == 0 || (size_t)weir_onnx_int(c, "num_outputs", (int64_t)n) != n)
        return weir_onnx_refuse(c, "%zu outputs", n);
    int64_t *const size = weir_host_alloc(n * sizeof *size);
    if (!size)
        return weir_error_status();
    weir_status s = part_sizes(c, d.dim[axis], n, size);
    for (size_t i = 0; i < n && s == WEIR_OK; from += size[i++])
        s = weir_onnx_give(c, i, weir_narrow(x, axis, from, size[i]));
    weir_host_free(size);
    if (s == WEIR_OK && from != d.dim[axis])
        return weir_onnx_refuse(c, "parts of %" PRId64 " of %" PRId64 " elements", from,
                                d.dim[axis]);
    return s;
}

/* ---- sequences of parts ---- */

/* Whether only SequenceAt reads the sequence: it is then the tensor and the sizes of its parts. */
static bool only_parts_read(const weir_onnx_call *c)
{
    const weir_onnx_graph *const g = &c->m->proto.graph;
    const uint32_t               slot = c->node->out[0];
    bool                         made = false;

    for (size_t i = 0; i < g->n_node; i++) {
        made = made || &g->node[i] == c->node;
        for (size_t k = 0; k < g->node[i].n_in; k++)
            if (g->node[i].in[k] == slot && strcmp(g->node[i].op, "SequenceAt") != 0)
                return false;
    }
    for (size_t i = 0; i < c->m->n_selected; i++)
        if (c->m->selected[i] == slot)
            return false;
    return made;
}

/* {axis, keepdims, size, size, ...} of the parts; *n: how many numbers. */
static weir_status sequence_sizes(weir_onnx_call *c, int64_t whole, int axis, int64_t **list,
                                  size_t *n)
{
    int64_t      each = 1, given[64];
    size_t       count = 0;
    const bool   has = weir_onnx_has(c, 1);
    const size_t axes = has ? (size_t)weir_onnx_desc_of(c, 1).ndim : 0;

    if (has)
        WEIR_TRY(weir_onnx_list(c, 1, given, 64, &count));
    if (has && axes == 0)
        each = given[0];
    if (each < 1 || whole / each > 1 << 20)
        return weir_onnx_refuse(c, "parts of %" PRId64 " of %" PRId64 " elements", each, whole);
    for (size_t i = 0; i < count && axes; i++)
        if (given[i] < 0 || given[i] > whole)
            return weir_onnx_refuse(c, "a part of %" PRId64 " elements", given[i]);
    if (axes == 0)
        count = (size_t)((whole + each - 1) / each);
    *n = count + 2;
    if (!(*list = weir_host_alloc(*n * sizeof **list)))
        return weir_error_status();
    (*list)[0] = axis;
    (*list)[1] = has || weir_onnx_int(c, "keepdims", 1) != 0;
    for (size_t i = 0; i < count; i++) {
        const int64_t left = whole - (int64_t)i * each;
        (*list)[2 + i] = axes ? given[i] : left < each ? left : each;
    }
    return WEIR_OK;
}

weir_status weir_onnx_split_to_sequence(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    int64_t           *sizes;
    size_t             n = 0;
    int                axis;

    if (!x)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    if (!weir_onnx_wants(c, 0) || !only_parts_read(c))
        return weir_onnx_refuse(c, "a sequence that is not taken apart by SequenceAt");
    WEIR_TRY(weir_onnx_axis(c, weir_onnx_int(c, "axis", 0), d.ndim, &axis));
    WEIR_TRY(weir_onnx_set(c, c->node->out[0], x));
    WEIR_TRY(sequence_sizes(c, d.dim[axis], axis, &sizes, &n));
    weir_onnx_value *const v = &c->m->value[c->node->out[0]];
    v->known = sizes;
    v->own_known = true;
    v->sequence = true;
    v->desc = weir_1d(WEIR_I64, (int64_t)n);
    return WEIR_OK;
}

weir_status weir_onnx_sequence_at(weir_onnx_call *c)
{
    const weir_onnx_value *const v = weir_onnx_has(c, 0) ? &c->m->value[c->node->in[0]] : NULL;
    weir_tensor *const           x = v ? v->t : NULL;
    double                       at;
    int64_t                      from = 0;

    if (!x || !v->sequence)
        return weir_onnx_refuse(c, "a sequence that SplitToSequence did not make");
    const int64_t *const sizes = v->known, n = v->desc.dim[0] - 2;
    WEIR_TRY(weir_onnx_number(c, 1, &at));
    const int64_t i = (int64_t)(at < 0 ? at + (double)n : at);
    if (!(at >= (double)-n && at < (double)n))
        return weir_onnx_refuse(c, "part %g of %" PRId64, at, n);
    for (int64_t k = 0; k < i; k++)
        from += sizes[2 + k];
    weir_tensor *const part = weir_narrow(x, (int)sizes[0], from, sizes[2 + i]);
    return weir_onnx_give(c, 0, part && !sizes[1] ? weir_squeeze(part, (int)sizes[0]) : part);
}

/* ---- padding, repeats ---- */

enum { WRAPPED = 1 << 24 }; /* most elements of an axis */

/* Each axis goes on with its own elements from the other end; cut where a pad is below 0. */
static weir_tensor *wrapped(weir_onnx_call *c, weir_tensor *x, const int64_t *before,
                            const int64_t *after)
{
    const weir_desc d = weir_tensor_desc(x);

    for (int axis = 0; x && axis < d.ndim; axis++) {
        const int64_t n = d.dim[axis];
        if (before[axis] == 0 && after[axis] == 0)
            continue;
        if (n < 1 || before[axis] > WRAPPED || after[axis] > WRAPPED || n > WRAPPED)
            return (void)weir_onnx_refuse(c, "mode wrap over %" PRId64 " elements", n), NULL;
        const int64_t  all = before[axis] + n + after[axis];
        int64_t *const list = weir_host_alloc((size_t)all * sizeof *list + 1);
        if (!list)
            return NULL;
        for (int64_t i = 0; i < all; i++)
            list[i] = ((i - before[axis]) % n + n) % n;
        weir_tensor *const at = weir_onnx_constant(c, weir_1d(WEIR_I64, all), list);
        weir_host_free(list);
        x = at ? weir_onnx_gather_axis(x, at, axis) : NULL;
    }
    return x;
}

/* pads: before all n axes, then behind them; negative ones cut. */
static weir_status pad(weir_onnx_call *c, size_t n, const int64_t *pads, const int64_t *axes,
                       double value)
{
    static const char *const names[] = {"constant", "reflect", "edge", "wrap"};
    enum { WRAP = 3 };
    const char *const        mode = weir_onnx_str(c, "mode", "constant");
    weir_tensor             *x = weir_onnx_x(c, 0);
    bounds                   cut;
    int64_t                  before[WEIR_MAX_DIMS] = {0}, after[WEIR_MAX_DIMS] = {0};
    int                      axis, kind = 0;

    if (!x)
        return weir_error_status();
    while (kind <= WRAP && strcmp(names[kind], mode) != 0)
        kind++;
    if (kind > WRAP)
        return weir_onnx_refuse(c, "mode %.20s", mode);
    const weir_desc d = weir_tensor_desc(x);
    for (int i = 0; i < WEIR_MAX_DIMS; i++)
        cut.begin[i] = 0, cut.end[i] = INT64_MAX, cut.step[i] = 1;
    bool cuts = false;
    for (size_t i = 0; i < n; i++) {
        WEIR_TRY(weir_onnx_axis(c, axes ? axes[i] : (int64_t)i, d.ndim, &axis));
        const int64_t a = pads[i], b = pads[n + i];
        if (a < -d.dim[axis] || b < -d.dim[axis])
            return weir_onnx_refuse(c, "cuts more than axis %d has", axis);
        before[axis] = a > 0 ? a : 0;
        after[axis] = b > 0 ? b : 0;
        cut.begin[axis] = a < 0 ? -a : 0;
        cut.end[axis] = b < 0 ? d.dim[axis] + b : INT64_MAX;
        cuts = cuts || a < 0 || b < 0;
    }
    x = cuts ? weir_slice(x, cut.begin, cut.end, cut.step) : x;
    if (kind == WRAP)
        return weir_onnx_give(c, 0, weir_onnx_same(wrapped(c, x, before, after)));
    return weir_onnx_give(c, 0, weir_pad(x, before, after, (weir_pad_mode)kind, value));
}

weir_status weir_onnx_pad_attr(weir_onnx_call *c)
{
    const int64_t *pads;
    const size_t   n = weir_onnx_ints(c, "pads", &pads);

    if (n % 2 || n > 2 * WEIR_MAX_DIMS)
        return weir_onnx_refuse(c, "%zu pads", n);
    return pad(c, n / 2, pads, NULL, weir_onnx_float(c, "value", 0));
}

weir_status weir_onnx_pad(weir_onnx_call *c)
{
    int64_t pads[2 * WEIR_MAX_DIMS], axes[WEIR_MAX_DIMS];
    size_t  n, k = 0;
    double  value = 0;

    WEIR_TRY(weir_onnx_list(c, 1, pads, 2 * WEIR_MAX_DIMS, &n));
    if (weir_onnx_has(c, 2))
        WEIR_TRY(weir_onnx_number(c, 2, &value));
    if (weir_onnx_has(c, 3))
        WEIR_TRY(weir_onnx_list(c, 3, axes, WEIR_MAX_DIMS, &k));
    if (n % 2 || (weir_onnx_has(c, 3) && k != n / 2))
        return weir_onnx_refuse(c, "%zu pads for %zu axes", n, k);
    return pad(c, n / 2, pads, weir_onnx_has(c, 3) ? axes : NULL, value);
}

weir_status weir_onnx_tile(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    int64_t            times[WEIR_MAX_DIMS];
    size_t             n;

    WEIR_TRY(weir_onnx_list(c, 1, times, WEIR_MAX_DIMS, &n));
    if (n != (size_t)weir_tensor_desc(x).ndim)
        return weir_onnx_refuse(c, "%zu repeats for %d axes", n, weir_tensor_desc(x).ndim);
    return weir_onnx_give(c, 0, weir_tile(x, times));
}

/* ---- gathers ---- */

/* The table with the axis in front; rows; the axes of the index moved back to the axis. */
weir_tensor *weir_onnx_gather_axis(weir_tensor *x, weir_tensor *index, int axis)
{
    const weir_desc d = weir_tensor_desc(x), i = weir_tensor_desc(index);
    int             front[WEIR_MAX_DIMS], back[WEIR_MAX_DIMS], n = 0;

    if (axis == 0)
        return weir_gather(x, index);
    if (d.ndim + i.ndim - 1 > WEIR_MAX_DIMS)
        return (void)weir_fail(WEIR_ERR_SHAPE, "a result with %d axes", d.ndim + i.ndim - 1), NULL;
    front[0] = axis;
    for (int k = 0; k < d.ndim; k++)
        if (k != axis)
            front[++n] = k;
    weir_tensor *const y = weir_gather(weir_transpose(x, front), index);
    for (int k = 0; k < d.ndim + i.ndim - 1; k++)
        back[k] = k < axis ? i.ndim + k : k < axis + i.ndim ? k - axis : k;
    return y ? weir_transpose(y, back) : NULL;
}

/* Whether the index is known and all of it is from 0 to n - 1; one such number is *one. */
static bool known_inside(const weir_onnx_call *c, int64_t n, int64_t *one)
{
    const weir_onnx_value *const v = &c->m->value[c->node->in[1]];
    const size_t                 count = v->known ? weir_onnx_elements(&v->desc) : 0;

    for (size_t i = 0; i < count; i++) {
        const int64_t k = v->desc.dtype == WEIR_I64 ? ((const int64_t *)v->known)[i]
                                                    : ((const int32_t *)v->known)[i];
        if (k < 0 || k >= n)
            return false;
        *one = k;
    }
    return count > 0;
}

static weir_status index_type(const weir_onnx_call *c, weir_dtype t)
{
    return t == WEIR_I32 || t == WEIR_I64
               ? WEIR_OK
               : weir_onnx_refuse(c, "indices of %s", weir_dtype_name(t));
}

weir_status weir_onnx_gather(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    int64_t            one = 0;
    int                axis;

    if (!x || !weir_onnx_has(c, 1))
        return weir_onnx_refuse(c, "an input is missing");
    const weir_desc d = weir_tensor_desc(x), i = weir_onnx_desc_of(c, 1);
    WEIR_TRY(index_type(c, i.dtype));
    WEIR_TRY(weir_onnx_axis(c, weir_onnx_int(c, "axis", 0), d.ndim, &axis));
    const bool inside = known_inside(c, d.dim[axis], &one);
    if (inside && i.ndim == 0)
        return weir_onnx_give(c, 0, weir_squeeze(weir_narrow(x, axis, one, 1), axis));
    weir_tensor *const index = weir_onnx_x(c, 1);
    return weir_onnx_give(
        c, 0,
        weir_onnx_gather_axis(x, inside ? index : weir_onnx_wrap(c, index, d.dim[axis]), axis));
}

/* The index of an axis of n elements as i64, from the front. Where it is outside the axis it is
 * -all, all being the places in all axes: another axis would else bring it back inside. */
static weir_tensor *index_of_axis(weir_onnx_call *c, weir_tensor *index, int64_t n, int64_t all)
{
    const weir_desc    one = weir_scalar(WEIR_I64);
    weir_tensor *const i = index ? weir_onnx_as(weir_onnx_wrap(c, index, n), WEIR_I64) : NULL;
    weir_tensor *const inside = weir_logical_and(weir_ge(i, weir_fill_int(c->dev, one, 0)),
                                                 weir_lt(i, weir_fill_int(c->dev, one, n)));

    return weir_where(inside, i, weir_fill_int(c->dev, one, all > 0 ? -all : -1));
}

weir_status weir_onnx_flat_elements(weir_onnx_call *c, const weir_desc *d, weir_tensor *index,
                                    weir_tensor **flat, int64_t *all)
{
    const weir_desc i = weir_tensor_desc(index);
    int             axis;

    *all = 1;
    WEIR_TRY(index_type(c, i.dtype));
    WEIR_TRY(weir_onnx_axis(c, weir_onnx_int(c, "axis", 0), d->ndim, &axis));
    if (d->ndim != i.ndim)
        return weir_onnx_refuse(c, "indices with %d axes for a tensor with %d", i.ndim, d->ndim);
    *flat = index_of_axis(c, index, d->dim[axis], weir_onnx_product(d, 0, d->ndim));
    *flat = weir_mul(*flat, weir_fill_int(c->dev, weir_scalar(WEIR_I64),
                                          weir_onnx_product(d, axis + 1, d->ndim)));
    for (int k = d->ndim; k-- > 0; *all *= d->dim[k]) {
        if (k != axis && i.dim[k] > d->dim[k])
            return weir_onnx_refuse(c, "axis %d of the indices is larger than the tensor's", k);
        if (k != axis)
            *flat = weir_add(*flat, weir_onnx_ramp(c, i.dim[k], *all, d->ndim, k));
    }
    return *flat ? WEIR_OK : weir_error_status();
}

weir_status weir_onnx_gather_elements(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0), *const index = weir_onnx_x(c, 1);
    weir_tensor *flat;
    int64_t      all;

    if (!x || !index)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    WEIR_TRY(weir_onnx_flat_elements(c, &d, index, &flat, &all));
    return weir_onnx_give(c, 0, weir_gather(weir_reshape(x, 1, &all), flat));
}

weir_status weir_onnx_flat_rows(weir_onnx_call *c, const weir_desc *d, weir_tensor *index,
                                int64_t batch, weir_tensor **flat, weir_desc *rows)
{
    const weir_desc i = weir_tensor_desc(index);
    const int64_t   k = i.ndim ? i.dim[i.ndim - 1] : 0;
    int64_t         stride = 1;

    *flat = NULL;
    WEIR_TRY(index_type(c, i.dtype));
    if (batch < 0 || k < 1 || batch + k > d->ndim || batch >= i.ndim)
        return weir_onnx_refuse(c, "%" PRId64 " indices after %" PRId64 " axes", k, batch);
    const int whole = i.ndim - 1, front = (int)(batch + k);
    for (int j = front; j-- > 0; stride *= d->dim[j]) {
        weir_tensor *at;
        if (j < batch && i.dim[j] != d->dim[j])
            return weir_onnx_refuse(c, "axis %d of the indices differs from the tensor's", j);
        if (j >= batch) {
            at = weir_squeeze(weir_narrow(index, whole, j - batch, 1), whole);
            at = index_of_axis(c, at, d->dim[j], weir_onnx_product(d, 0, front));
            at = weir_mul(at, weir_fill_int(c->dev, weir_scalar(WEIR_I64), stride));
        } else {
            at = weir_onnx_ramp(c, d->dim[j], stride, whole, j);
        }
        *flat = *flat ? weir_add(*flat, at) : at;
    }
    *rows = (weir_desc){.dtype = d->dtype, .ndim = d->ndim - front + 1, .dim = {stride}};
    for (int j = front; j < d->ndim; j++)
        rows->dim[j - front + 1] = d->dim[j];
    return *flat ? WEIR_OK : weir_error_status();
}

weir_status weir_onnx_gather_nd(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0), *index = weir_onnx_x(c, 1);
    weir_tensor       *flat;
    weir_desc          rows;

    if (!x || !index)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    WEIR_TRY(weir_onnx_flat_rows(c, &d, index, weir_onnx_int(c, "batch_dims", 0), &flat, &rows));
    return weir_onnx_give(c, 0, weir_gather(weir_reshape(x, rows.ndim, rows.dim), flat));
}

/* By comparing with 0, 1, ..., so that an index outside gives "off" everywhere. */
weir_status weir_onnx_one_hot(weir_onnx_call *c)
{
    weir_tensor *index = weir_onnx_x(c, 0), *const values = weir_onnx_x(c, 2);
    int64_t dim[WEIR_MAX_DIMS];
    double  depth;
    int     axis, k = 0;

    if (!index || !values)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(index);
    WEIR_TRY(weir_onnx_number(c, 1, &depth));
    WEIR_TRY(weir_onnx_axis(c, weir_onnx_int(c, "axis", -1), d.ndim + 1, &axis));
    if (!(depth >= 1 && depth < 1e9) || d.ndim == WEIR_MAX_DIMS ||
        weir_tensor_desc(values).ndim != 1)
        return weir_onnx_refuse(c, "depth %g", depth);
    for (int i = 0; i <= d.ndim; i++)
        dim[i] = i == axis ? 1 : d.dim[k++];
    index = weir_onnx_wrap(c, weir_onnx_as(index, WEIR_I64), (int64_t)depth);
    weir_tensor *const at = weir_eq(weir_reshape(index, d.ndim + 1, dim),
                                    weir_onnx_ramp(c, (int64_t)depth, 1, d.ndim + 1, axis));
    return weir_onnx_give(
        c, 0, weir_where(at, weir_narrow(values, 0, 1, 1), weir_narrow(values, 0, 0, 1)));
}

/* Zeros below diagonal k (upper) or above it. */
weir_status weir_onnx_trilu(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    const bool         upper = weir_onnx_int(c, "upper", 1) != 0;
    double             k = 0;

    if (!x)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    if (weir_onnx_has(c, 1))
        WEIR_TRY(weir_onnx_number(c, 1, &k));
    if (d.ndim < 2 || !(k > -1e15 && k < 1e15))
        return weir_onnx_refuse(c, "diagonal %g of a tensor with %d axes", k, d.ndim);
    weir_tensor *const row = weir_onnx_ramp(c, d.dim[d.ndim - 2], 1, 2, 0);
    weir_tensor *const off = weir_sub(weir_onnx_ramp(c, d.dim[d.ndim - 1], 1, 2, 1), row);
    weir_tensor *const limit = weir_fill_int(c->dev, weir_scalar(WEIR_I64), (int64_t)k);
    weir_tensor *const zero = weir_fill(c->dev, weir_scalar(d.dtype), 0);
    return weir_onnx_give(c, 0,
                          weir_where(upper ? weir_ge(off, limit) : weir_le(off, limit), x, zero));
}
