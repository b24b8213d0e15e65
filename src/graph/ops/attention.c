/* attention.c - definition of scaled dot-product attention and its gradient.
 *
 * Vaswani et al., "Attention is all you need" (2017): softmax(q k^T / sqrt(d)) v for each batch and
 * head. Heads lie side by side in the last axis, so projections need no rearranging. Scores are
 * never stored: besides y, the forward call returns lse, the logarithm of each row's sum of
 * exponentials, from which the gradient recomputes the probabilities (Dao et al., "FlashAttention",
 * 2022). For halves lse is f32, since its error affects all probabilities of a row. */
#include "graph/ops/define.h"

/* ---- forward: q (b,t,h*d), k (b,s,h*d), v (b,s,h*e) -> y (b,t,h*e), lse (b,h,t) ---- */

static weir_status check_attention(const weir_call *c, int64_t heads)
{
    static const char *const name[] = {"q", "k", "v"};

    for (int i = 0; i < 3; i++)
        WEIR_TRY(weir_check_ndim(c, i, name[i], 3));

    const int64_t *const q = c->in[0].desc.dim, *const k = c->in[1].desc.dim;
    const int64_t *const v = c->in[2].desc.dim;
    if (heads < 1)
        return weir_call_fail(WEIR_ERR_INVALID, c, "heads is %lld but must be at least 1",
                              (long long)heads);
    if (q[2] != k[2])
        return weir_call_fail(WEIR_ERR_SHAPE, c, "q has %lld columns but k %lld", (long long)q[2],
                              (long long)k[2]);
    if (q[0] != k[0] || q[0] != v[0])
        return weir_call_fail(WEIR_ERR_SHAPE, c, "batches of %lld, %lld and %lld differ",
                              (long long)q[0], (long long)k[0], (long long)v[0]);
    if (k[1] != v[1])
        return weir_call_fail(WEIR_ERR_SHAPE, c, "k has %lld rows but v %lld", (long long)k[1],
                              (long long)v[1]);
    if (q[2] % heads != 0 || v[2] % heads != 0)
        return weir_call_fail(WEIR_ERR_SHAPE, c, "%lld and %lld columns do not divide into %lld "
                              "heads", (long long)q[2], (long long)v[2], (long long)heads);
    return WEIR_OK;
}

static weir_status attention_infer(weir_call *c)
{
    const weir_attention_attr *const a = c->attr;

    WEIR_TRY(weir_check_any_floats(c));
    WEIR_TRY(check_attention(c, a->heads));

    const weir_desc *const q = &c->in[0].desc;
    weir_desc              y = *q, lse = *q;
    lse.dtype = weir_is_half(q->dtype) ? WEIR_F32 : q->dtype;
    y.dim[2] = c->in[2].desc.dim[2];
    lse.dim[1] = a->heads;
    lse.dim[2] = q->dim[1];
    WEIR_TRY(weir_out_checked(c, 1, &lse));
    return weir_out_checked(c, 0, &y);
}

static weir_status attention_gradient(weir_grad *g)
{
    weir_tensor *const in[] = {g->x[0], g->x[1], g->x[2], g->y[0], g->y[1], g->dy[0]};
    weir_tensor       *out[WEIR_MAX_OUT] = {NULL};

    WEIR_TRY(weir_record(WEIR_OP_ATTENTION_GRAD, 6, in, g->attr, sizeof(weir_attention_attr), out));
    for (int i = 0; i < 3; i++)
        if (weir_wants(g, i))
            g->dx[i] = out[i];
    return WEIR_OK;
}

/* Number of scores that are not masked, over batch and heads. */
static double scores(const weir_call *c)
{
    const weir_attention_attr *const a = c->attr;
    const int64_t *const             q = c->in[0].desc.dim;
    const double                     t = (double)q[1], s = (double)c->in[1].desc.dim[1];
    const double                     seen = t < s ? t * (t + 1) / 2 : s * (s + 1) / 2 + (t - s) * s;

    return (double)q[0] * (double)a->heads * (a->causal ? seen : t * s);
}

/* flops of `of_d` products over the columns of q of a head, `of_e` products over those of v, and an
 * exponential per score. */
static double products(const weir_call *c, double of_d, double of_e)
{
    const weir_attention_attr *const a = c->attr;
    const double                     heads = (double)a->heads;

    return scores(c) * (2 * of_d * (double)c->in[0].desc.dim[2] / heads +
                        2 * of_e * (double)c->in[2].desc.dim[2] / heads + 4);
}

static double attention_flops(const weir_call *c)
{
    return products(c, 1, 1);
}

const weir_opdef weir_op_attention = {
    .name = "attention",
    .flags = WEIR_PURE | WEIR_PRODUCT,
    .nin_min = 3,
    .nin_max = 3,
    .nout = 2,
    .reads_in = 7,
    .reads_out = 3,
    .differentiable = 7,
    .autocast_half = 7,
    .infer = attention_infer,
    .grad = attention_gradient,
    .flops = attention_flops,
};

/* ---- q, k, v, y, lse, dy -> dq, dk, dv: types are those of the forward call ---- */

static weir_status attention_grad_infer(weir_call *c)
{
    for (int i = 0; i < 3; i++)
        weir_out_like(c, i, i);
    return WEIR_OK;
}

static double attention_grad_flops(const weir_call *c)
{
    return products(c, 3, 2);
}

const weir_opdef weir_op_attention_grad = {
    .name = "attention_grad",
    .flags = WEIR_PURE | WEIR_PRODUCT,
    .nin_min = 6,
    .nin_max = 6,
    .nout = 3,
    .infer = attention_grad_infer,
    .flops = attention_grad_flops,
};

/* ---- public function ---- */

weir_tensor *weir_attention(weir_tensor *q, weir_tensor *k, weir_tensor *v, int64_t heads,
                            bool causal)
{
    const weir_attention_attr a = {.heads = heads, .causal = causal};

    return weir_record1(WEIR_OP_ATTENTION, 3, (weir_tensor *[]){q, k, v}, &a, sizeof a);
}
