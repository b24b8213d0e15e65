/* reference_move.c - the reference of slices, joins, repeats, padding and indexing. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"
#include "graph/ops/reference.h"

/* ---- slices ---- */

/* Element k of Python's range over an axis of n: -1 where it has ended. */
static int64_t sliced(const ref_options *o, int axis, int64_t n, int64_t k)
{
    const int64_t step = o->dims & 4 ? 1 : o->by[axis];
    int64_t       first = step > 0 ? 0 : n - 1, stop = step > 0 ? n : -1;

    if (!(o->dims & 1)) {
        first = o->from[axis];
        if (first < 0)
            first = first < -n ? (step > 0 ? 0 : -1) : first + n;
        if (first >= n)
            first = step > 0 ? n : n - 1;
    }
    if (!(o->dims & 2)) {
        stop = o->to[axis];
        if (stop < 0)
            stop = stop < -n ? -1 : stop + n;
        if (stop > n)
            stop = n;
    }
    for (; k > 0 && first != stop; k--) {
        first += step;
        if (step > 0 ? first > stop : first < stop)
            first = stop;
    }
    return (step > 0 ? first < stop : first > stop) ? first : -1;
}

void ref_slice(ref_call *c)
{
    const weir_desc *const d = &c->in[0].desc;
    weir_desc              out = {.dtype = c->type, .ndim = d->ndim};

    for (int k = 0; k < d->ndim; k++)
        while (sliced(c->o, k, d->dim[k], out.dim[k]) >= 0)
            out.dim[k]++;
    c->out = ref_new(out);
    for (int64_t i = 0; i < ref_count(&out); i++) {
        int64_t index[WEIR_MAX_DIMS] = {0};
        ref_unravel(&out, i, index);
        for (int k = 0; k < d->ndim; k++)
            index[k] = sliced(c->o, k, d->dim[k], index[k]);
        c->out.at[i] = c->in[0].at[ref_ravel(d, index)];
    }
}

/* ---- joins ---- */

/* Input `number` into the result at `begin` of the axis. */
static void put_part(ref_call *c, const ref_array *part, int axis, int64_t begin)
{
    for (int64_t i = 0; i < ref_count(&part->desc); i++) {
        int64_t index[WEIR_MAX_DIMS] = {0};
        ref_unravel(&part->desc, i, index);
        index[axis] += begin;
        c->out.at[ref_ravel(&c->out.desc, index)] = part->at[i];
    }
}

static void concat_of(ref_call *c, int n, const ref_array *part, int axis)
{
    weir_desc d = part[0].desc;
    int64_t   begin = 0;

    d.dtype = c->type;
    for (int i = 1; i < n; i++)
        d.dim[axis] += part[i].desc.dim[axis];
    c->out = ref_new(d);
    for (int i = 0; i < n; begin += part[i++].desc.dim[axis])
        put_part(c, &part[i], axis, begin);
}

static int axis_of(const ref_call *c, int axes)
{
    return c->o->axis < 0 ? c->o->axis + axes : c->o->axis;
}

void ref_concat(ref_call *c)
{
    concat_of(c, c->nin, c->in, axis_of(c, c->in[0].desc.ndim));
}

static weir_desc unsqueezed(const weir_desc *d, int axis)
{
    weir_desc r = {.dtype = d->dtype, .ndim = d->ndim + 1};
    for (int k = 0; k < r.ndim; k++)
        r.dim[k] = k == axis ? 1 : d->dim[k - (k > axis)];
    return r;
}

void ref_stack(ref_call *c)
{
    const int axis = axis_of(c, c->in[0].desc.ndim + 1);
    ref_array part[8];

    for (int i = 0; i < c->nin; i++)
        part[i] = (ref_array){unsqueezed(&c->in[i].desc, axis), c->in[i].at};
    concat_of(c, c->nin, part, axis);
}

/* Parts of sizes to[0..ndim), or ndim equal ones, joined in reversed order. */
void ref_split(ref_call *c)
{
    const ref_array *const x = &c->in[0];
    const int              axis = axis_of(c, x->desc.ndim), n = c->o->ndim;
    int64_t                begin[WEIR_MAX_DIMS + 1] = {0};

    for (int i = 0; i < n; i++)
        begin[i + 1] = begin[i] + (c->o->keep ? x->desc.dim[axis] / n : c->o->to[i]);
    c->out = ref_new(x->desc);
    for (int64_t i = 0; i < ref_count(&x->desc); i++) {
        int64_t index[WEIR_MAX_DIMS] = {0};
        int     part = 0;
        ref_unravel(&x->desc, i, index);
        while (index[axis] >= begin[part + 1])
            part++;
        index[axis] += begin[n] - begin[part + 1] - begin[part];
        c->out.at[ref_ravel(&x->desc, index)] = x->at[i];
    }
}

/* ---- axes of size 1 ---- */

static void with_desc(ref_call *c, weir_desc d)
{
    c->out = ref_new(d);
    if (ref_count(&d) > 0)
        memcpy(c->out.at, c->in[0].at, (size_t)ref_count(&d) * sizeof(double));
}

void ref_unsqueeze(ref_call *c)
{
    with_desc(c, unsqueezed(&c->in[0].desc, axis_of(c, c->in[0].desc.ndim + 1)));
}

void ref_squeeze(ref_call *c)
{
    const weir_desc *const d = &c->in[0].desc;
    weir_desc              out = {.dtype = d->dtype, .ndim = d->ndim - 1};

    for (int k = 0; k < out.ndim; k++)
        out.dim[k] = d->dim[k + (k >= axis_of(c, d->ndim))];
    with_desc(c, out);
}

/* ---- one element of the input for each of the result ---- */

/* Where element `to` of axis k comes from; -1: from nowhere. */
typedef int64_t (*source_fn)(const ref_options *o, int k, int64_t n, int64_t to);

static void from_sources(ref_call *c, const weir_desc *out, source_fn source)
{
    const weir_desc *const d = &c->in[0].desc;
    const double           nothing = c->type == WEIR_BOOL ? c->o->s != 0 : c->o->s;

    c->out = ref_new(*out);
    for (int64_t i = 0; i < ref_count(out); i++) {
        int64_t index[WEIR_MAX_DIMS] = {0};
        bool    there = true;
        ref_unravel(out, i, index);
        for (int k = 0; k < d->ndim; k++) {
            index[k] = source(c->o, k, d->dim[k], index[k]);
            there = there && index[k] >= 0;
        }
        c->out.at[i] = there ? c->in[0].at[ref_ravel(d, index)] : nothing;
    }
}

static int64_t tiled(const ref_options *o, int k, int64_t n, int64_t to)
{
    (void)o, (void)k;
    return to % n;
}

void ref_tile(ref_call *c)
{
    weir_desc d = c->in[0].desc;
    for (int k = 0; k < d.ndim; k++)
        d.dim[k] *= c->o->to[k];
    from_sources(c, &d, tiled);
}

static int64_t repeated(const ref_options *o, int k, int64_t n, int64_t to)
{
    (void)n;
    return to / o->to[k];
}

/* to[k] times along each axis. */
void ref_repeat(ref_call *c)
{
    weir_desc d = c->in[0].desc;
    for (int k = 0; k < d.ndim; k++)
        d.dim[k] *= c->o->to[k];
    from_sources(c, &d, repeated);
}

static int64_t padded(const ref_options *o, int k, int64_t n, int64_t to)
{
    const int64_t at = to - o->from[k];

    if (at >= 0 && at < n)
        return at;
    if (o->axis == WEIR_PAD_CONSTANT)
        return -1;
    if (o->axis == WEIR_PAD_EDGE)
        return at < 0 ? 0 : n - 1;
    return at < 0 ? -at : 2 * (n - 1) - at;
}

void ref_pad(ref_call *c)
{
    weir_desc d = c->in[0].desc;
    for (int k = 0; k < d.ndim; k++)
        d.dim[k] += c->o->from[k] + c->o->to[k];
    from_sources(c, &d, padded);
}

/* ---- blocks of pixels; b is to[0] ---- */

/* Pairs each element of the wide image (n, c, b h, b w) with its channel of the deep one. */
static void blocks(ref_call *c, const weir_desc *wide, const weir_desc *deep, bool to_wide)
{
    const int64_t b = c->o->to[0];

    c->out = ref_new(to_wide ? *wide : *deep);
    for (int64_t i = 0; i < ref_count(wide); i++) {
        int64_t at[WEIR_MAX_DIMS] = {0};
        ref_unravel(wide, i, at);
        const int64_t channel = (at[2] % b * b + at[3] % b) * wide->dim[1] + at[1];
        const int64_t from[4] = {at[0], channel, at[2] / b, at[3] / b};
        const int64_t k = ref_ravel(deep, from);
        if (to_wide)
            c->out.at[i] = c->in[0].at[k];
        else
            c->out.at[k] = c->in[0].at[i];
    }
}

void ref_depth_to_space(ref_call *c)
{
    const int64_t          b = c->o->to[0];
    const weir_desc *const d = &c->in[0].desc;
    const weir_desc        wide = weir_4d(c->type, d->dim[0], d->dim[1] / (b * b), d->dim[2] * b,
                                          d->dim[3] * b);
    blocks(c, &wide, d, true);
}

void ref_space_to_depth(ref_call *c)
{
    const int64_t          b = c->o->to[0];
    const weir_desc *const d = &c->in[0].desc;
    const weir_desc        deep = weir_4d(c->type, d->dim[0], d->dim[1] * b * b, d->dim[2] / b,
                                          d->dim[3] / b);
    blocks(c, d, &deep, false);
}

/* ---- rows by index ---- */

/* Elements of a row of a table (v, ...). */
static int64_t row_of(const weir_desc *d)
{
    int64_t n = 1;
    for (int k = 1; k < d->ndim; k++)
        n *= d->dim[k];
    return n;
}

void ref_gather(ref_call *c)
{
    const ref_array *const table = &c->in[0], *const index = &c->in[1];
    const int64_t          row = row_of(&table->desc);
    weir_desc              d = index->desc;

    d.dtype = c->type;
    for (int k = 1; k < table->desc.ndim; k++)
        d.dim[d.ndim++] = table->desc.dim[k];
    c->out = ref_new(d);
    for (int64_t i = 0; i < ref_count(&index->desc); i++)
        for (int64_t k = 0; k < row; k++)
            c->out.at[i * row + k] = table->at[(int64_t)index->at[i] * row + k];
}

void ref_scatter_add(ref_call *c)
{
    const ref_array *const index = &c->in[1];
    const int64_t          row = row_of(&c->in[0].desc);

    with_desc(c, c->in[0].desc);
    for (int64_t i = 0; i < ref_count(&index->desc); i++)
        for (int64_t k = 0; k < row; k++)
            c->out.at[(int64_t)index->at[i] * row + k] += c->in[2].at[i * row + k];
}

/* depth is to[0]. */
void ref_one_hot(ref_call *c)
{
    const int64_t depth = c->o->to[0];
    weir_desc     d = c->in[0].desc;

    d.dtype = c->o->cast;
    d.dim[d.ndim++] = depth;
    c->out = ref_new(d);
    for (int64_t i = 0; i < ref_count(&c->in[0].desc); i++)
        for (int64_t k = 0; k < depth; k++)
            c->out.at[i * depth + k] = (double)k == c->in[0].at[i];
}

void ref_arange(ref_call *c)
{
    const bool whole = !weir_is_any_float(c->type);

    c->out = ref_new(c->desc);
    for (int64_t i = 0; i < ref_count(&c->desc); i++) {
        const double v = c->o->s + (double)i * c->o->t;
        c->out.at[i] = whole ? trunc(v) : v;
    }
}
