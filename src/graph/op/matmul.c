/* matmul.c - definitions of matrix products, plain or transposed, and of the linear layer.
 *
 * A transposed operand is an attribute, not a copy: the gradients of a product are products of the
 * same operands with other flags. linear stores its weights (out,in), as checkpoints of other
 * frameworks do, and takes the bias along, so that one kernel writes the output once. */
#include "graph/op/define.h"

/* ---- matmul ---- */

/* Rows and columns of operand i as the product sees it. */
static void operand(const weir_call *c, int i, bool transposed, int64_t *rows, int64_t *cols)
{
    const int64_t *const d = c->in[i].desc.dim;

    *rows = d[transposed];
    *cols = d[!transposed];
}

static weir_status matmul_infer(weir_call *c)
{
    const weir_matmul_attr *const a = c->attr;
    int64_t                       m, k, k2, n;

    WEIR_TRY(weir_check_floats(c));
    WEIR_TRY(weir_check_ndim(c, 0, "a", 2));
    WEIR_TRY(weir_check_ndim(c, 1, "b", 2));
    operand(c, 0, a->ta != 0, &m, &k);
    operand(c, 1, a->tb != 0, &k2, &n);
    if (k != k2)
        return weir_call_fail(WEIR_ERR_SHAPE, c,
                              "inner sizes %lld and %lld differ (a%s is %lld x %lld, b%s is %lld x "
                              "%lld)", (long long)k, (long long)k2, a->ta ? "^T" : "", (long long)m,
                              (long long)k, a->tb ? "^T" : "", (long long)k2, (long long)n);

    const weir_desc out = weir_2d(c->in[0].desc.dtype, m, n);
    return weir_out_checked(c, 0, &out);
}

/* y = A B with A = a or a^T, B = b or b^T: dA = dy B^T, dB = A^T dy, each in operand order. */
static weir_status matmul_grad(weir_grad *g)
{
    const weir_matmul_attr *const attr = g->attr;
    const bool                    ta = attr->ta != 0, tb = attr->tb != 0;
    weir_tensor *const            a = g->x[0], *const b = g->x[1], *const dy = g->dy[0];

    if (weir_wants(g, 0))
        WEIR_TRY(weir_grad_set(g, 0, ta ? weir_matmul_t(b, dy, tb, true)
                                        : weir_matmul_t(dy, b, false, !tb)));
    if (weir_wants(g, 1))
        WEIR_TRY(weir_grad_set(g, 1, tb ? weir_matmul_t(dy, a, true, ta)
                                        : weir_matmul_t(a, dy, !ta, false)));
    return WEIR_OK;
}

/* 2 m n k. */
static double matmul_flops(const weir_call *c)
{
    const weir_matmul_attr *const a = c->attr;
    int64_t                       m, k;

    operand(c, 0, a->ta != 0, &m, &k);
    return 2 * (double)k * (double)weir_shape_count(&c->out[0].desc);
}

const weir_opdef weir_op_matmul = {
    .name = "matmul",
    .flags = WEIR_PURE,
    .nin_min = 2,
    .nin_max = 2,
    .nout = 1,
    .reads_in = 3,
    .differentiable = 3,
    .infer = matmul_infer,
    .grad = matmul_grad,
    .flops = matmul_flops,
};

/* ---- linear: x (n,i), w (o,i), bias (o) -> (n,o) ---- */

static weir_status linear_infer(weir_call *c)
{
    WEIR_TRY(weir_check_floats(c));
    WEIR_TRY(weir_check_ndim(c, 0, "x", 2));
    WEIR_TRY(weir_check_ndim(c, 1, "w", 2));

    const weir_desc *const x = &c->in[0].desc, *const w = &c->in[1].desc;
    const weir_desc        bias = weir_1d(w->dtype, w->dim[0]);
    const weir_desc        out = weir_2d(x->dtype, x->dim[0], w->dim[0]);

    if (x->dim[1] != w->dim[1])
        return weir_call_fail(WEIR_ERR_SHAPE, c, "x has %lld columns but w takes %lld",
                              (long long)x->dim[1], (long long)w->dim[1]);
    if (c->nin == 3)
        WEIR_TRY(weir_check_dims(c, 2, "bias", &bias));
    return weir_out_checked(c, 0, &out);
}

/* dx = dy w, dw = dy^T x, dbias = sum of dy over rows. */
static weir_status linear_grad(weir_grad *g)
{
    if (weir_wants(g, 0))
        WEIR_TRY(weir_grad_set(g, 0, weir_matmul(g->dy[0], g->x[1])));
    if (weir_wants(g, 1))
        WEIR_TRY(weir_grad_set(g, 1, weir_matmul_t(g->dy[0], g->x[0], true, false)));
    if (weir_wants(g, 2))
        WEIR_TRY(weir_grad_set(g, 2, weir_sum(g->dy[0], 1u << 0, false)));
    return WEIR_OK;
}

static double linear_flops(const weir_call *c)
{
    const double out = (double)weir_shape_count(&c->out[0].desc);

    return 2 * (double)c->in[0].desc.dim[1] * out + (c->nin == 3 ? out : 0);
}

const weir_opdef weir_op_linear = {
    .name = "linear",
    .flags = WEIR_PURE,
    .nin_min = 2,
    .nin_max = 3,
    .nout = 1,
    .reads_in = 3,          /* not the bias */
    .differentiable = 7,
    .infer = linear_infer,
    .grad = linear_grad,
    .flops = linear_flops,
};

/* ---- public functions ---- */

weir_tensor *weir_matmul_t(weir_tensor *a, weir_tensor *b, bool ta, bool tb)
{
    const weir_matmul_attr attr = {.ta = ta, .tb = tb};

    return weir_record1(WEIR_OP_MATMUL, 2, (weir_tensor *[]){a, b}, &attr, sizeof attr);
}

weir_tensor *weir_matmul(weir_tensor *a, weir_tensor *b)
{
    return weir_matmul_t(a, b, false, false);
}

weir_tensor *weir_linear(weir_tensor *x, weir_tensor *w, weir_tensor *bias)
{
    return weir_record1(WEIR_OP_LINEAR, bias ? 3 : 2, (weir_tensor *[]){x, w, bias}, NULL, 0);
}
