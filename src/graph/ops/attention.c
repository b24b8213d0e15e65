/* attention.c - definition of scaled dot-product attention and its gradient.
 *
 * Vaswani et al., "Attention is all you need" (2017): softmax(q k^T / sqrt(d)) v for each batch and
 * head. Heads lie side by side in the last axis, so projections need no rearranging. Scores are
 * never stored: besides y, the forward call returns lse, the logarithm of each row's sum of
 * exponentials, from which the gradient recomputes the probabilities (Dao et al., "FlashAttention",
 * 2022). For halves lse is f32, since its error affects all probabilities of a row.
 *
 * Dropout takes its random numbers from a key, four numbers drawn by a call of their own. So
 * attention itself draws nothing: its gradient and a recomputation read the same key. */
#include <math.h>

#include "graph/ops/define.h"
#include "weir/graph.h"

enum { MOST_HEADS = 1 << 30 };

_Static_assert((int)WEIR_SIGHT_FROM_FIRST == (int)WEIR_ATTENTION_FROM_FIRST &&
                   (int)WEIR_SIGHT_FROM_LAST == (int)WEIR_ATTENTION_FROM_LAST,
               "attributes store weir_attention_causal");

/* ---- forward: q (b,t,h*d), k (b,s,kv*d), v (b,s,kv*e), or these in one tensor three times,
 * [mask], [lengths], [key] -> y (b,t,h*e), lse (b,h,t) ---- */

static weir_status check_options(const weir_call *c)
{
    const weir_attention_attr *const a = c->attr;

    if (a->heads < 1)
        return weir_call_fail(WEIR_ERR_INVALID, c, "heads is %lld but must be at least 1",
                              (long long)a->heads);
    if (a->heads > MOST_HEADS)
        return weir_call_fail(WEIR_ERR_INVALID, c, "heads is %lld, more than %d",
                              (long long)a->heads, MOST_HEADS);
    if (a->kv_heads < 1 || a->heads % a->kv_heads != 0)
        return weir_call_fail(WEIR_ERR_INVALID, c, "kv_heads is %lld but must divide heads, %lld",
                              (long long)a->kv_heads, (long long)a->heads);
    if (a->causal < WEIR_ATTENTION_ALL || a->causal > WEIR_ATTENTION_FROM_LAST)
        return weir_call_fail(WEIR_ERR_INVALID, c, "causal is %lld, which is unknown",
                              (long long)a->causal);
    if (!(a->dropout >= 0 && a->dropout <= 1))
        return weir_call_fail(WEIR_ERR_INVALID, c, "dropout must be in [0, 1], not %g", a->dropout);
    return isfinite(a->scale) ? WEIR_OK
                              : weir_call_fail(WEIR_ERR_INVALID, c, "scale must be finite, not %g",
                                               a->scale);
}

static weir_status check_separate(const weir_call *c)
{
    const weir_attention_attr *const a = c->attr;
    const int64_t *const             q = c->in[0].desc.dim, *const k = c->in[1].desc.dim;
    const int64_t *const             v = c->in[2].desc.dim, h = a->heads, kv = a->kv_heads;

    if (q[0] != k[0] || q[0] != v[0])
        return weir_call_fail(WEIR_ERR_SHAPE, c, "batches of %lld, %lld and %lld differ",
                              (long long)q[0], (long long)k[0], (long long)v[0]);
    if (k[1] != v[1])
        return weir_call_fail(WEIR_ERR_SHAPE, c, "k has %lld rows but v %lld", (long long)k[1],
                              (long long)v[1]);
    if (h == kv && q[2] != k[2])
        return weir_call_fail(WEIR_ERR_SHAPE, c, "q has %lld columns but k %lld", (long long)q[2],
                              (long long)k[2]);
    if (q[2] % h != 0 || v[2] % kv != 0)
        return weir_call_fail(WEIR_ERR_SHAPE, c, "%lld and %lld columns do not divide into %lld "
                              "heads", (long long)q[2], (long long)v[2],
                              (long long)(q[2] % h ? h : kv));
    if (k[2] % kv != 0 || k[2] / kv != q[2] / h)
        return weir_call_fail(WEIR_ERR_SHAPE, c, "q has %lld columns in %lld heads but k %lld in "
                              "%lld", (long long)q[2], (long long)h, (long long)k[2],
                              (long long)kv);
    return WEIR_OK;
}

static weir_status check_packed(const weir_call *c)
{
    const weir_attention_attr *const a = c->attr;
    const int64_t                    columns = c->in[0].desc.dim[2];

    for (int i = 1; i < 3; i++)
        WEIR_TRY(weir_check_dims(c, i, "qkv", &c->in[0].desc));
    if (columns % (a->heads + 2 * a->kv_heads) != 0)
        return weir_call_fail(WEIR_ERR_SHAPE, c, "%lld columns do not divide into %lld heads of "
                              "queries and %lld of keys and values", (long long)columns,
                              (long long)a->heads, (long long)a->kv_heads);
    return WEIR_OK;
}

/* Sizes that a mask broadcasts to. */
static void score_dims(const weir_call *c, int64_t to[4])
{
    to[0] = c->in[0].desc.dim[0];
    to[1] = ((const weir_attention_attr *)c->attr)->heads;
    to[2] = c->in[0].desc.dim[1];
    to[3] = c->in[2].desc.dim[1];
}

static weir_status check_mask(const weir_call *c, int i)
{
    const weir_desc *const m = &c->in[i].desc;
    const weir_dtype       type = c->in[0].desc.dtype;
    int64_t                to[4];

    if (m->dtype != WEIR_BOOL && m->dtype != type && !(weir_is_half(type) && m->dtype == WEIR_F32))
        return weir_call_fail(WEIR_ERR_DTYPE, c, "mask must be bool or %s, not %s",
                              weir_dtype_name(type), weir_dtype_name(m->dtype));
    score_dims(c, to);
    bool fits = m->ndim <= 4;
    for (int axis = 0; axis < m->ndim && fits; axis++)
        fits = m->dim[axis] == 1 || m->dim[axis] == to[4 - m->ndim + axis];
    return fits ? WEIR_OK
                : weir_call_fail(WEIR_ERR_SHAPE, c, "mask does not broadcast to (%lld,%lld,%lld,"
                                 "%lld)", (long long)to[0], (long long)to[1], (long long)to[2],
                                 (long long)to[3]);
}

/* The optional operands, from operand i on. */
static weir_status check_extras(const weir_call *c, int i)
{
    const weir_attention_attr *const a = c->attr;
    const int                        n = i + (a->mask != 0) + (a->lengths != 0) + (a->dropout > 0);

    if (c->nin != n)
        return weir_call_fail(WEIR_ERR_INVALID, c, "has %d operands, not those of its options",
                              c->nin);
    if (a->mask)
        WEIR_TRY(check_mask(c, i++));
    if (a->lengths) {
        const weir_desc *const l = &c->in[i].desc;
        if (l->dtype != WEIR_I32 && l->dtype != WEIR_I64)
            return weir_call_fail(WEIR_ERR_DTYPE, c, "lengths must be i32 or i64, not %s",
                                  weir_dtype_name(l->dtype));
        const weir_desc want = {l->dtype, 1, {c->in[0].desc.dim[0]}};
        WEIR_TRY(weir_check_dims(c, i++, "lengths", &want));
    }
    if (a->dropout > 0) {
        const weir_desc want = {WEIR_F32, 1, {4}};
        if (c->in[i].desc.dtype != WEIR_F32)
            return weir_call_fail(WEIR_ERR_DTYPE, c, "the key of dropout must be f32");
        WEIR_TRY(weir_check_dims(c, i, "the key of dropout", &want));
    }
    return WEIR_OK;
}

/* extras: the first of the optional operands. */
static weir_status check_operands(const weir_call *c, int extras)
{
    static const char *const name[] = {"q", "k", "v"};

    WEIR_TRY(weir_check_first_floats(c, 3));
    for (int i = 0; i < 3; i++)
        WEIR_TRY(weir_check_ndim(c, i, name[i], 3));
    WEIR_TRY(check_options(c));
    WEIR_TRY(((const weir_attention_attr *)c->attr)->packed ? check_packed(c) : check_separate(c));
    return check_extras(c, extras);
}

/* The forward call's results. */
static void results(const weir_call *c, weir_desc *y, weir_desc *lse)
{
    const weir_attention_attr *const a = c->attr;
    const weir_desc *const           q = &c->in[0].desc;

    *y = *lse = *q;
    y->dim[2] = a->packed ? q->dim[2] / (a->heads + 2 * a->kv_heads) * a->heads
                          : c->in[2].desc.dim[2] / a->kv_heads * a->heads;
    lse->dtype = weir_is_half(q->dtype) ? WEIR_F32 : q->dtype;
    lse->dim[1] = a->heads;
    lse->dim[2] = q->dim[1];
}

static weir_status attention_infer(weir_call *c)
{
    weir_desc y, lse;

    WEIR_TRY(check_operands(c, 3));
    results(c, &y, &lse);
    WEIR_TRY(weir_out_checked(c, 1, &lse));
    return weir_out_checked(c, 0, &y);
}

static weir_status attention_gradient(weir_grad *g)
{
    weir_attention_attr a = *(const weir_attention_attr *)g->attr;
    weir_tensor        *in[WEIR_MAX_IN] = {g->x[0], g->x[1], g->x[2], g->y[0], g->y[1], g->dy[0]};
    weir_tensor        *out[WEIR_MAX_OUT] = {NULL};
    const int           shares = a.packed ? 1 : 3;

    for (int i = 3; i < g->nin; i++)
        in[3 + i] = g->x[i];
    a.mask_grad = a.mask && weir_wants(g, 3);
    WEIR_TRY(weir_record(WEIR_OP_ATTENTION_GRAD, 3 + g->nin, in, &a, sizeof a, out));
    for (int i = 0; i < shares; i++)
        if (weir_wants(g, i))
            g->dx[i] = out[i];
    if (a.mask_grad)
        g->dx[3] = out[shares];
    return WEIR_OK;
}

/* Number of scores that causal does not hide, over batch and heads. */
static double scores(const weir_call *c)
{
    const weir_attention_attr *const a = c->attr;
    const int64_t *const             q = c->in[0].desc.dim;
    const double                     t = (double)q[1], s = (double)c->in[2].desc.dim[1];
    const double                     seen = t < s ? t * (t + 1) / 2 : s * (s + 1) / 2 + (t - s) * s;
    const double                     last = t < s ? t * s - t * (t - 1) / 2 : s * (s + 1) / 2;

    return (double)q[0] * (double)a->heads *
           (a->causal == WEIR_ATTENTION_ALL          ? t * s
            : a->causal == WEIR_ATTENTION_FROM_FIRST ? seen : last);
}

/* flops of `of_d` products over the columns of q of a head, `of_e` products over those of v, and an
 * exponential per score. */
static double products(const weir_call *c, double of_d, double of_e)
{
    const weir_attention_attr *const a = c->attr;
    const int64_t                    all = a->packed ? a->heads + 2 * a->kv_heads : a->heads;
    const double                     d = (double)c->in[0].desc.dim[2] / (double)all;
    const double e = a->packed ? d : (double)c->in[2].desc.dim[2] / (double)a->kv_heads;

    return scores(c) * (2 * of_d * d + 2 * of_e * e + 4);
}

static double attention_flops(const weir_call *c)
{
    return products(c, 1, 1);
}

const weir_opdef weir_op_attention = {
    .name = "attention",
    .flags = WEIR_PURE | WEIR_PRODUCT | WEIR_STRIDED,
    .nin_min = 3,
    .nin_max = 6,
    .nout = 2,
    .unit_last = 7,
    .reads_in = 63,
    .reads_out = 3,
    .differentiable = 15,
    .autocast_half = 7,
    .infer = attention_infer,
    .grad = attention_gradient,
    .flops = attention_flops,
};

/* ---- q, k, v, y, lse, dy, [mask], [lengths], [key] -> dq, dk, dv, or these in one tensor,
 * [dmask] ---- */

static weir_status check_results(const weir_call *c)
{
    weir_desc y, lse;

    results(c, &y, &lse);
    for (int i = 3; i < 6; i++) {
        const weir_desc *const want = i == 4 ? &lse : &y;
        WEIR_TRY(weir_check_dims(c, i, i == 4 ? "lse" : i == 3 ? "y" : "dy", want));
        if (c->in[i].desc.dtype != want->dtype)
            return weir_call_fail(WEIR_ERR_DTYPE, c, "input %d must be %s", i,
                                  weir_dtype_name(want->dtype));
    }
    return weir_shape_is_dense(&c->in[4])
               ? WEIR_OK
               : weir_call_fail(WEIR_ERR_INVALID, c, "lse must be dense");
}

static weir_status attention_grad_infer(weir_call *c)
{
    const weir_attention_attr *const a = c->attr;

    WEIR_TRY(check_operands(c, 6));
    WEIR_TRY(check_results(c));
    c->nout = a->packed ? 1 : 3;
    for (int i = 0; i < c->nout; i++)
        weir_out_like(c, i, i);
    if (a->mask_grad && (!a->mask || c->in[6].desc.dtype == WEIR_BOOL))
        return weir_call_fail(WEIR_ERR_INVALID, c, "there is no float mask that has a gradient");
    if (a->mask_grad)
        weir_out_like(c, c->nout++, 6);
    return WEIR_OK;
}

static double attention_grad_flops(const weir_call *c)
{
    return products(c, 3, 2);
}

const weir_opdef weir_op_attention_grad = {
    .name = "attention_grad",
    .flags = WEIR_PURE | WEIR_PRODUCT | WEIR_STRIDED,
    .nin_min = 6,
    .nin_max = WEIR_MAX_IN,
    .nout = 4,
    .unit_last = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 5,
    .infer = attention_grad_infer,
    .flops = attention_grad_flops,
};

/* ---- public functions ---- */

/* Combines lengths with the mask, since the gradient has no operand left for both beside dropout's
 * key. Returns NULL on failure. */
static weir_tensor *hide_beyond(weir_tensor *mask, weir_tensor *lengths, int64_t s)
{
    const weir_desc    one = {mask->layout.desc.dtype, 0, {0}};
    weir_tensor *const rows = weir_reshape(lengths, 4, (const int64_t[]){-1, 1, 1, 1});
    weir_tensor *const at = weir_arange(mask->dev, WEIR_I64, s, 0, 1);
    weir_tensor *const seen = weir_lt(at, weir_cast(rows, WEIR_I64));

    return one.dtype == WEIR_BOOL ? weir_logical_and(seen, mask)
                                  : weir_where(seen, mask, weir_fill(mask->dev, one, -INFINITY));
}

/* Records the call. qkv: q, k, v. columns: of a head of q. */
static weir_tensor *record(weir_tensor *const *qkv, const weir_attention_options *o, bool packed,
                           int64_t columns)
{
    weir_attention_attr a = {.heads = o->heads,
                             .kv_heads = o->kv_heads ? o->kv_heads : o->heads,
                             .causal = o->causal,
                             .packed = packed,
                             .dropout = o->dropout};
    weir_tensor        *mask = o->mask, *lengths = o->lengths;
    weir_tensor        *in[6] = {qkv[0], qkv[1], qkv[2]};
    int                 n = 3;

    a.scale = o->scale == 0 ? columns > 0 ? 1 / sqrt((double)columns) : 1 : o->scale;
    if (o->scale == 0 && signbit(o->scale))
        a.scale = 0;
    if (mask && lengths && o->dropout > 0) {
        if (o->causal == WEIR_ATTENTION_FROM_LAST)
            return WEIR_FAIL_NULL(WEIR_ERR_INVALID, "attention: mask, lengths and dropout together "
                                  "do not go with WEIR_ATTENTION_FROM_LAST");
        mask = hide_beyond(mask, lengths, in[2]->layout.desc.ndim > 1 ? in[2]->layout.desc.dim[1]
                                                                      : 0);
        lengths = NULL;
        if (!mask)
            return NULL;
    }
    a.mask = mask != NULL;
    a.lengths = lengths != NULL;
    if (mask)
        in[n++] = mask;
    if (lengths)
        in[n++] = lengths;
    if (o->dropout > 0 && o->dropout <= 1) {
        const weir_desc key = {WEIR_F32, 1, {4}};
        in[n++] = weir_uniform(in[0]->dev, key, 0, 1);
        if (!in[n - 1])
            return NULL;
    }
    return weir_record1(WEIR_OP_ATTENTION, n, in, &a, sizeof a);
}

weir_tensor *weir_attention_with(weir_tensor *q, weir_tensor *k, weir_tensor *v,
                                 const weir_attention_options *options)
{
    const weir_attention_options none = {0}, *const o = options ? options : &none;
    weir_tensor *const           in[] = {q, k, v};

    if (!q || !k || !v)
        return weir_null("weir_attention", !q ? "q" : !k ? "k" : "v");
    const weir_desc *const d = &q->layout.desc;
    return record(in, o, false, d->ndim == 3 && o->heads > 0 ? d->dim[2] / o->heads : 1);
}

weir_tensor *weir_attention_packed(weir_tensor *qkv, const weir_attention_options *options)
{
    const weir_attention_options none = {0}, *const o = options ? options : &none;

    if (!qkv)
        return weir_null("weir_attention_packed", "qkv");
    const weir_dtype half = weir_autocast_type(qkv->dev);
    if (half != WEIR_F32 && qkv->layout.desc.dtype == WEIR_F32)
        qkv = weir_cast(qkv, half);     /* once, not for each of the three operands */
    if (!qkv)
        return NULL;
    const weir_desc *const d = &qkv->layout.desc;
    const int64_t          kv = o->kv_heads ? o->kv_heads : o->heads;
    const bool fine = d->ndim == 3 && o->heads <= MOST_HEADS && kv > 0 && kv <= o->heads;
    const int64_t columns = fine ? d->dim[2] / (o->heads + 2 * kv) : 1;
    return record((weir_tensor *[]){qkv, qkv, qkv}, o, true, columns);
}

weir_tensor *weir_attention(weir_tensor *q, weir_tensor *k, weir_tensor *v, int64_t heads,
                            bool causal)
{
    const weir_attention_options o = {.heads = heads,
                                      .causal = causal ? WEIR_ATTENTION_FROM_FIRST
                                                       : WEIR_ATTENTION_ALL};

    return weir_attention_with(q, k, v, &o);
}
