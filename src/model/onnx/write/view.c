/* view.c - a view of a tensor's memory as nodes: transposed, cut, reshaped, repeated.
 *
 * A view is an offset, sizes and strides, whatever calls made it. First each of its axes is sought
 * among the axes of the whole tensor (a transposition, a cut, an axis left out). Failing that the
 * memory is cut into blocks by the view's own strides (an axis split or merged). Failing that, as
 * for windows that overlap, elements are gathered by their numbers. Axes of size 1 and repeated
 * ones, of stride 0, are left out at first and added at the end. */
#include "model/onnx/write/writer.h"

#include <stdlib.h>
#include <string.h>

/* Axes of a view, or of a whole tensor, that are neither repeated nor of size 1. */
typedef struct view_axes {
    int     n, at[WEIR_MAX_DIMS];       /* which axis it is */
    int64_t dim[WEIR_MAX_DIMS], stride[WEIR_MAX_DIMS];
} view_axes;

static view_axes axes_of(const weir_recording_layout *l)
{
    view_axes a = {.n = 0};

    for (int i = 0; i < l->desc.ndim; i++)
        if (l->desc.dim[i] > 1 && l->stride[i] > 0) {
            a.at[a.n] = i;
            a.dim[a.n] = l->desc.dim[i];
            a.stride[a.n++] = l->stride[i];
        }
    return a;
}

/* The longest stride first. */
static void sort(view_axes *a)
{
    for (int i = 1; i < a->n; i++)
        for (int k = i; k > 0 && a->stride[k] > a->stride[k - 1]; k--) {
            const view_axes b = *a;
            a->at[k] = b.at[k - 1], a->dim[k] = b.dim[k - 1], a->stride[k] = b.stride[k - 1];
            a->at[k - 1] = b.at[k], a->dim[k - 1] = b.dim[k], a->stride[k - 1] = b.stride[k];
        }
}

/* A plan: the base is reshaped to `size`, after its axes were put in the order of memory if
 * `memory`; of each axis [begin, begin + dim step) is kept. from[i]: the axis that becomes axis i
 * of the view's. */
typedef struct plan {
    bool    memory;
    int     n;
    int64_t size[2 * WEIR_MAX_DIMS], begin[2 * WEIR_MAX_DIMS], dim[2 * WEIR_MAX_DIMS],
        step[2 * WEIR_MAX_DIMS];
    int     from[WEIR_MAX_DIMS];
} plan;

/* Each axis of the view is one of the base, every one at most once. */
static bool by_axes(const view_axes *base, const view_axes *view, int64_t offset, plan *p)
{
    bool used[WEIR_MAX_DIMS] = {false};
    view_axes sorted = *base;
    int  place[WEIR_MAX_DIMS];

    *p = (plan){.n = base->n};
    for (int i = 0; i < base->n; i++)
        sorted.at[i] = i;
    sort(&sorted);
    for (int i = 0; i < base->n; i++) {
        const int at = sorted.at[i];
        p->size[at] = p->dim[at] = base->dim[at];
        p->begin[at] = offset / base->stride[at];
        p->step[at] = p->dim[at] = 1;
        offset %= base->stride[at];
        place[i] = at;
        if (p->begin[at] >= base->dim[at])
            return false;
    }
    for (int i = 0; i < view->n; i++) {
        int k = 0;
        while (k < base->n && view->stride[i] % base->stride[place[k]] != 0)
            k++;
        if (k == base->n || used[place[k]])
            return false;
        const int at = place[k];
        used[at] = true;
        p->step[at] = view->stride[i] / base->stride[at];
        p->dim[at] = view->dim[i];
        p->from[i] = at;
        if (p->begin[at] + (p->dim[at] - 1) * p->step[at] >= base->dim[at])
            return false;
    }
    return offset == 0;
}

/* Memory as blocks of the view's strides, each a multiple of the next. */
static bool by_blocks(int64_t count, const view_axes *view, int64_t offset, plan *p)
{
    view_axes sorted = *view;
    int64_t room = count;

    for (int i = 0; i < view->n; i++)
        sorted.at[i] = i;
    sort(&sorted);
    *p = (plan){.memory = true};
    for (int i = 0; i < view->n; i++) {
        const int64_t s = sorted.stride[i];
        if (room % s != 0)
            return false;
        p->size[p->n] = room / s;
        p->begin[p->n] = offset / s;
        p->dim[p->n] = sorted.dim[i];
        p->step[p->n] = 1;
        p->from[sorted.at[i]] = p->n;
        if (p->begin[p->n] + p->dim[p->n] > p->size[p->n])
            return false;
        offset %= s;
        room = s;
        p->n++;
    }
    p->size[p->n] = room;
    p->begin[p->n] = offset;
    p->dim[p->n] = p->step[p->n] = 1;
    p->n++;
    return p->n <= WEIR_MAX_DIMS;
}

/* ---- nodes ---- */

/* The base with its axes in the order of memory. */
static const char *in_memory(weir_onnx_writer *w, const char *x, const weir_recording_layout *l)
{
    view_axes a = axes_of(l);
    int  order[WEIR_MAX_DIMS], n = 0;
    bool moved = false;

    sort(&a);
    for (int i = 0; i < a.n; i++) {
        moved = moved || (i > 0 && a.at[i] < a.at[i - 1]);
        order[n++] = a.at[i];
    }
    for (int i = 0; i < l->desc.ndim; i++)
        if (l->desc.dim[i] <= 1 || l->stride[i] <= 0)
            order[n++] = i;
    return moved ? weir_onnx_transposed(w, NULL, x, n, order) : x;
}

static bool same_dims(int n, const int64_t *a, int m, const int64_t *b)
{
    return n == m && (n == 0 || memcmp(a, b, (size_t)n * sizeof *a) == 0);
}

/* x of shape `have` as `want`. */
static const char *shaped(weir_onnx_writer *w, const char *out, const char *x, const weir_desc *d,
                          int n, const int64_t *have)
{
    return same_dims(n, have, d->ndim, d->dim) && !out ? x : weir_onnx_reshaped(w, out, x, d);
}

/* Cuts, moves axes, adds those of size 1 and repeats. */
static const char *make(weir_onnx_writer *w, const char *x, const weir_recording_layout *base,
                        const weir_recording_value *v, const view_axes *view, const plan *p)
{
    weir_desc d = {.dtype = base->desc.dtype, .ndim = p->n}, all = v->layout.desc;
    bool      cut = false, moved = false, repeated = false;
    int       order[WEIR_MAX_DIMS], n = 0;
    int64_t   dims[WEIR_MAX_DIMS];

    memcpy(d.dim, p->size, sizeof d.dim);
    if (p->memory)
        x = in_memory(w, x, base);
    x = p->memory || p->n != base->desc.ndim
            ? shaped(w, NULL, x, &d, p->memory ? -1 : base->desc.ndim, base->desc.dim) : x;
    for (int i = 0; i < p->n; i++)
        cut = cut || p->dim[i] != p->size[i] || p->step[i] != 1;
    if (cut)
        x = weir_onnx_sliced(w, NULL, x, p->n, p->begin, p->dim, p->step);
    for (int i = 0; i < view->n; i++)
        order[n++] = p->from[i];
    for (int i = 0; i < p->n; i++) {
        bool used = false;
        for (int k = 0; k < view->n; k++)
            used = used || order[k] == i;
        if (!used)
            order[n++] = i;
    }
    for (int i = 0; i < n; i++) {
        moved = moved || (i > 0 && p->dim[order[i]] > 1 && order[i] < order[i - 1]);
        dims[i] = p->dim[order[i]];
    }
    if (moved)
        x = weir_onnx_transposed(w, NULL, x, n, order);
    else
        memcpy(dims, p->dim, sizeof dims);
    for (int i = 0; i < all.ndim; i++)
        if (all.dim[i] > 1 && v->layout.stride[i] == 0) {
            all.dim[i] = 1;
            repeated = true;
        }
    x = shaped(w, NULL, x, &all, p->n, dims);
    return repeated ? weir_onnx_expanded(w, NULL, x, &v->layout.desc) : x;
}

/* Elements by their numbers in memory. */
static const char *gathered(weir_onnx_writer *w, const char *x, const weir_recording_layout *base,
                            const weir_recording_value *v)
{
    const weir_desc *const d = &v->layout.desc;
    const int64_t          n = weir_recording_count(d), all = weir_recording_count(&base->desc);
    const weir_desc        flat = {base->desc.dtype, 1, {all}};
    weir_desc              index = *d;
    int64_t *const         at = weir_host_alloc((size_t)n * sizeof *at);

    w->failed = w->failed || !at;
    for (int64_t i = 0; at && i < n; i++) {
        int64_t rest = i;
        at[i] = v->offset;
        for (int k = d->ndim - 1; k >= 0; k--) {
            at[i] += rest % d->dim[k] * v->layout.stride[k];
            rest /= d->dim[k];
        }
    }
    index.dtype = WEIR_I64;
    x = weir_onnx_reshaped(w, NULL, in_memory(w, x, base), &flat);
    const char *const numbers =
        at ? weir_onnx_elements_of(w, &index, at, (size_t)n * sizeof *at) : NULL;
    weir_host_free(at);
    return weir_put_node2(w, "Gather", NULL, x, numbers);
}

static const char *view_of(weir_onnx_writer *w, const weir_recording_value *v)
{
    const weir_recording_layout *const base = &w->r.storage[v->storage].layout;
    const char *const                  x = w->storage_name[v->storage];
    const view_axes                    whole = axes_of(base), view = axes_of(&v->layout);
    plan                               p;

    if (weir_recording_count(&v->layout.desc) == 0)
        return weir_onnx_filled(w, NULL, &v->layout.desc, 0);
    /* Axes of size 1 are left out of the plan, so the base loses them where it is not whole. */
    if (by_axes(&whole, &view, v->offset, &p) ||
        by_blocks(weir_recording_count(&base->desc), &view, v->offset, &p))
        return make(w, x, base, v, &view, &p);
    return gathered(w, x, base, v);
}

const char *weir_onnx_value_name(weir_onnx_writer *w, uint32_t value)
{
    const weir_recording_value *const   v = &w->r.value[value];
    const weir_recording_storage *const s = &w->r.storage[v->storage];
    const char *const                   node = w->node;

    if (w->value_name[value])
        return w->value_name[value];
    if (v->offset == 0 && weir_recording_same(&v->layout, &s->layout)) {
        w->value_name[value] = w->storage_name[v->storage];
    } else {
        w->node = NULL;         /* no call's */
        w->value_name[value] = view_of(w, v);
        w->node = node;
    }
    w->failed = w->failed || !w->value_name[value];
    return w->value_name[value];
}

/* ---- operands of calls ---- */

weir_dtype weir_onnx_wide_type(weir_dtype t)
{
    switch (t) {
    case WEIR_BF16: return WEIR_F32;
    case WEIR_U8:
    case WEIR_I8:
    case WEIR_I16:
    case WEIR_U16:  return WEIR_I32;
    case WEIR_U32:  return WEIR_I64;
    default:        return t;
    }
}

const char *weir_onnx_in(weir_onnx_writer *w, const weir_onnx_written *c, uint32_t i)
{
    const weir_dtype  have = w->r.value[c->in[i]].layout.desc.dtype;
    const weir_dtype  want = w->wide ? weir_onnx_wide_type(have) : have;
    const char *const x = weir_onnx_value_name(w, c->in[i]);

    return want == have ? x : weir_onnx_cast_to(w, NULL, x, want);
}

static const weir_desc *desc_of(const weir_onnx_writer *w, uint32_t value, size_t i)
{
    return w->wide ? &w->desc[i] : &w->r.value[value].layout.desc;
}

const weir_desc *weir_onnx_in_desc(const weir_onnx_writer *w, const weir_onnx_written *c,
                                   uint32_t i)
{
    return desc_of(w, c->in[i], i);
}

const weir_desc *weir_onnx_out_desc(const weir_onnx_writer *w, const weir_onnx_written *c,
                                    uint32_t i)
{
    return desc_of(w, c->call->out[i], WEIR_RECORDING_IN + i);
}
