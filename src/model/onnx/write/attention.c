/* attention.c - scaled dot-product attention, as one operator from opset 23 on, else as products.
 *
 * Heads lie side by side in the last axis of q (b,t,h*d), k (b,s,kv*d) and v (b,s,kv*e); or all
 * three in one tensor (core/attr.h). Dropout is left out, as in inference. */
#include "model/onnx/write/calls.h"

#include <math.h>
#include <string.h>

/* A call's attributes, sizes and operands. */
typedef struct attention {
    int64_t     heads, kv, causal, b, t, s, d, e;
    double      scale;
    weir_dtype  type;
    const char *q, *k, *v, *mask, *lengths;
    weir_desc   mask_desc;
} attention;

/* WEIR_SIGHT_FROM_LAST. */
enum { FROM_LAST = 2 };

/* Columns [from, from + n) of the packed tensor. */
static const char *columns(weir_onnx_writer *w, const weir_onnx_written *c, int64_t from, int64_t n)
{
    const weir_desc *const d = weir_onnx_in_desc(w, c, 0);

    return weir_onnx_sliced(w, NULL, weir_onnx_in(w, c, 0), 3, (const int64_t[]){0, 0, from},
                            (const int64_t[]){d->dim[0], d->dim[1], n},
                            (const int64_t[]){1, 1, 1});
}

static attention read_call(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const int64_t *const   at = c->call->attr;
    const weir_desc *const q = weir_onnx_in_desc(w, c, 0), *const v = weir_onnx_in_desc(w, c, 2);
    attention              a = {.heads = at[0], .kv = at[1], .causal = at[2], .b = q->dim[0],
                                .t = q->dim[1], .s = v->dim[1], .type = q->dtype,
                                .scale = weir_recording_double(c->call, 7)};
    uint32_t               i = 3;

    if (at[3]) {
        a.d = a.e = q->dim[2] / (a.heads + 2 * a.kv);
        a.q = columns(w, c, 0, a.heads * a.d);
        a.k = columns(w, c, a.heads * a.d, a.kv * a.d);
        a.v = columns(w, c, (a.heads + a.kv) * a.d, a.kv * a.d);
    } else {
        a.d = q->dim[2] / a.heads;
        a.e = v->dim[2] / a.kv;
        a.q = weir_onnx_in(w, c, 0);
        a.k = weir_onnx_in(w, c, 1);
        a.v = weir_onnx_in(w, c, 2);
    }
    if (at[4]) {
        a.mask_desc = *weir_onnx_in_desc(w, c, i);
        a.mask = weir_onnx_in(w, c, i++);
    }
    if (at[5])
        a.lengths = weir_onnx_in(w, c, i++);
    return a;
}

/* ---- one operator ---- */

/* The operator takes a mask that is too short for one that hides the keys behind it. */
static const char *whole_mask(weir_onnx_writer *w, const attention *a)
{
    weir_desc d = a->mask_desc;

    if (!a->mask || d.dim[d.ndim - 1] == a->s)
        return a->mask;
    d.dim[d.ndim - 1] = a->s;
    return weir_onnx_expanded(w, NULL, a->mask, &d);
}

static void one_operator(weir_onnx_writer *w, const weir_onnx_written *c, const attention *a)
{
    const char *const   in[] = {a->q, a->k, a->v, whole_mask(w, a)};
    const weir_onnx_set set[] = {
        WEIR_SET_INT("q_num_heads", a->heads), WEIR_SET_INT("kv_num_heads", a->kv),
        WEIR_SET_INT("is_causal", a->causal != 0), WEIR_SET_FLOAT("scale", a->scale)};
    const bool          usual = a->scale == 1 / sqrt((double)a->d);

    weir_put_node(w, "Attention", c->out[0], a->mask ? 4 : 3, in, usual ? 3 : 4, set);
}

/* ---- products ---- */

/* (b,n,h*d) as (b,h,n,d), or (b,h,d,n) if `across`; heads of keys and values are repeated. */
static const char *by_heads(weir_onnx_writer *w, const attention *a, const char *x, int64_t n,
                            int64_t heads, int64_t d, bool across)
{
    const weir_desc split = {a->type, 4, {a->b, n, heads, d}};
    const weir_desc one = {a->type, 5, {a->b, heads, 1, across ? d : n, across ? n : d}};
    weir_desc       all = one, out = {a->type, 4, {a->b, a->heads, one.dim[3], one.dim[4]}};

    x = weir_onnx_reshaped(w, NULL, x, &split);
    x = weir_onnx_transposed(w, NULL, x, 4, across ? (const int[]){0, 2, 3, 1}
                                                   : (const int[]){0, 2, 1, 3});
    if (heads == a->heads)
        return x;
    all.dim[2] = a->heads / heads;
    x = weir_onnx_expanded(w, NULL, weir_onnx_reshaped(w, NULL, x, &one), &all);
    return weir_onnx_reshaped(w, NULL, x, &out);
}

/* Which keys each query sees, bool (t,s), by position. */
static const char *in_sight(weir_onnx_writer *w, const attention *a)
{
    const weir_desc       d = {WEIR_BOOL, 2, {a->t, a->s}};
    const int64_t         more = a->causal == FROM_LAST ? a->s - a->t : 0;
    const size_t          n = (size_t)(a->t * a->s);
    unsigned char *const  sees = weir_host_alloc(n + 1);

    w->failed = w->failed || !sees;
    for (int64_t i = 0; sees && i < a->t; i++)
        for (int64_t k = 0; k < a->s; k++)
            sees[i * a->s + k] = k <= i + more;
    const char *const name = sees ? weir_onnx_elements_of(w, &d, sees, n) : NULL;
    weir_host_free(sees);
    return name;
}

/* Keys before each sequence's end, bool (b,1,1,s); or, if the last query sees the last key of its
 * sequence, (b,1,t,s): then query i sees keys up to i - t behind the end. */
static const char *before_end(weir_onnx_writer *w, const attention *a)
{
    const bool      last = a->causal == FROM_LAST;
    const int64_t   queries = last ? a->t : 1, n = queries * a->s;
    const weir_desc rows = {WEIR_I64, 4, {a->b, 1, 1, 1}}, d = {WEIR_I64, 2, {queries, a->s}};
    int64_t *const  at = weir_host_alloc((size_t)(n + 1) * sizeof *at);

    w->failed = w->failed || !at;
    for (int64_t i = 0; at && i < n; i++)
        at[i] = i % a->s + (last ? a->t - 1 - i / a->s : 0);
    const char *const key = at ? weir_onnx_elements_of(w, &d, at, (size_t)n * sizeof *at) : NULL;
    weir_host_free(at);
    const char *const given = weir_onnx_cast_to(w, NULL, a->lengths, WEIR_I64);
    const char *const all = weir_onnx_int_of(w, a->s);
    const char *const in[] = {weir_put_node2(w, "Less", NULL, given, all), given, all};
    const char *const most = weir_put_node(w, "Where", NULL, 3, in, 0, NULL);
    return weir_put_node2(w, "Less", NULL, key, weir_onnx_reshaped(w, NULL, most, &rows));
}

/* The keys that are hidden by a mask of truths, position and lengths; NULL: none is. */
static const char *visible(weir_onnx_writer *w, const attention *a)
{
    const char *of[3];
    size_t      n = 0;

    if (a->mask && a->mask_desc.dtype == WEIR_BOOL)
        of[n++] = a->mask;
    if (a->causal && !(a->lengths && a->causal == FROM_LAST))
        of[n++] = in_sight(w, a);
    if (a->lengths)
        of[n++] = before_end(w, a);
    const char *y = n ? of[0] : NULL;
    for (size_t i = 1; i < n; i++)
        y = weir_put_node2(w, "And", NULL, y, of[i]);
    return y;
}

/* Softmax of the last axis, whatever it means up to opset 12: rows of a matrix. */
static const char *softmax(weir_onnx_writer *w, const char *x)
{
    return weir_put_node(w, "Softmax", NULL, 1, &x, 1,
                          &(weir_onnx_set)WEIR_SET_INT("axis", w->opset < 13 ? 3 : -1));
}

/* A query that sees nothing gets 0: its softmax is no number, and is replaced. */
static void products(weir_onnx_writer *w, const weir_onnx_written *c, const attention *a)
{
    const char *const scale = weir_onnx_scalar_of(w, a->type, a->scale);
    const char *const q = by_heads(w, a, weir_put_node2(w, "Mul", NULL, a->q, scale), a->t,
                                   a->heads, a->d, false);
    const char *const k = by_heads(w, a, a->k, a->s, a->kv, a->d, true);
    const char *const v = by_heads(w, a, a->v, a->s, a->kv, a->e, false);
    const char       *p = weir_put_node2(w, "MatMul", NULL, q, k);

    if (a->mask && a->mask_desc.dtype != WEIR_BOOL)
        p = weir_put_node2(w, "Add", NULL, p,
                            a->mask_desc.dtype == a->type
                                ? a->mask : weir_onnx_cast_to(w, NULL, a->mask, a->type));
    const char *const seen = visible(w, a);
    const char *const least = seen ? weir_onnx_scalar_of(w, a->type, (double)-INFINITY) : NULL;
    const char *const none = seen ? weir_onnx_scalar_of(w, a->type, 0) : NULL;
    if (seen)
        p = weir_put_node(w, "Where", NULL, 3, (const char *const[]){seen, p, least}, 0, NULL);
    p = softmax(w, p);
    if (seen)
        p = weir_put_node(w, "Where", NULL, 3, (const char *const[]){seen, p, none}, 0, NULL);
    p = weir_put_node2(w, "MatMul", NULL, p, v);
    p = weir_onnx_transposed(w, NULL, p, 4, (const int[]){0, 2, 1, 3});
    weir_onnx_reshaped(w, c->out[0], p, weir_onnx_out_desc(w, c, 0));
}

void weir_onnx_write_attention(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const attention a = read_call(w, c);
    const bool      aligned = a.causal != FROM_LAST || a.t == a.s;
    const bool      mask = !a.mask || (a.mask_desc.ndim >= 2 && (a.mask_desc.dtype == WEIR_BOOL ||
                                                            a.mask_desc.dtype == a.type));

    if (w->opset >= 23 && aligned && mask && !a.lengths && a.s > 0 && a.d > 0)
        one_operator(w, c, &a);
    else
        products(w, c, &a);
}
