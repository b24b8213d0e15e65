/* matmul.c - definitions of matrix products, single and in batches, and of the linear layer.
 *
 * Transposition is an attribute, not a copy: the gradients of a product are products of the same
 * operands with other flags. linear has weights (out,in), as checkpoints of other frameworks do,
 * and includes the bias, so that one kernel writes the output once. */
#include "graph/ops/define.h"

/* ---- matmul ---- */

/* Rows and columns of operand i, its last two axes, after transposition. */
static void matrix_of(const weir_call *c, int i, bool transposed, int64_t *rows, int64_t *cols)
{
    const weir_desc *const d = &c->in[i].desc;

    *rows = d->dim[d->ndim - 2 + transposed];
    *cols = d->dim[d->ndim - 1 - transposed];
}

/* Rows and columns of the product. */
static weir_status product_of(const weir_call *c, int64_t *m, int64_t *n)
{
    const weir_matmul_attr *const a = c->attr;
    int64_t                       k, k2;

    matrix_of(c, 0, a->ta != 0, m, &k);
    matrix_of(c, 1, a->tb != 0, &k2, n);
    if (k != k2)
        return weir_call_fail(WEIR_ERR_SHAPE, c,
                              "inner sizes %lld and %lld differ (a%s is %lld x %lld, b%s is %lld x "
                              "%lld)", (long long)k, (long long)k2, a->ta ? "^T" : "",
                              (long long)*m, (long long)k, a->tb ? "^T" : "", (long long)k2,
                              (long long)*n);
    return WEIR_OK;
}

static weir_status matmul_infer(weir_call *c)
{
    int64_t m, n;

    WEIR_TRY(weir_check_any_floats(c));
    WEIR_TRY(weir_check_ndim(c, 0, "a", 2));
    WEIR_TRY(weir_check_ndim(c, 1, "b", 2));
    WEIR_TRY(product_of(c, &m, &n));

    const weir_desc out = weir_2d(c->in[0].desc.dtype, m, n);
    return weir_out_checked(c, 0, &out);
}

/* y = A B with A = a or a^T, B = b or b^T: dA = dy B^T, dB = A^T dy, each transposed as its operand
 * is; gradients are summed over broadcast batches. */
static weir_status matmul_grad(weir_grad *g)
{
    const weir_matmul_attr *const attr = g->attr;
    const bool                    ta = attr->ta != 0, tb = attr->tb != 0;
    weir_tensor *const            a = g->x[0], *const b = g->x[1], *const dy = g->dy[0];

    if (weir_wants(g, 0))
        WEIR_TRY(weir_grad_set_summed(g, 0, ta ? weir_matmul_t(b, dy, tb, true)
                                               : weir_matmul_t(dy, b, false, !tb)));
    if (weir_wants(g, 1))
        WEIR_TRY(weir_grad_set_summed(g, 1, tb ? weir_matmul_t(dy, a, true, ta)
                                               : weir_matmul_t(a, dy, !ta, false)));
    return WEIR_OK;
}

/* 2 m n k for each matrix of the result. */
static double matmul_flops(const weir_call *c)
{
    const weir_matmul_attr *const a = c->attr;
    int64_t                       m, k;

    matrix_of(c, 0, a->ta != 0, &m, &k);
    return 2 * (double)k * (double)weir_shape_count(&c->out[0].desc);
}

const weir_opdef weir_op_matmul = {
    .name = "matmul",
    .flags = WEIR_PURE | WEIR_PRODUCT,
    .nin_min = 2,
    .nin_max = 2,
    .nout = 1,
    .reads_in = 3,
    .differentiable = 3,
    .autocast_half = 3,
    .infer = matmul_infer,
    .grad = matmul_grad,
    .flops = matmul_flops,
};

/* ---- batch_matmul: (..., m, k) (..., k, n) -> (..., m, n), leading axes broadcast ----
 *
 * Operands have 2, 3, 5 or more axes: 4-D tensors are channels-last, so their matrices are not
 * contiguous. The public function gives such operands a fifth axis of size 1. */

/* `d` with the last two axes replaced. */
static weir_desc with_matrix(const weir_desc *d, int64_t rows, int64_t cols)
{
    weir_desc r = *d;

    r.dim[d->ndim - 2] = rows;
    r.dim[d->ndim - 1] = cols;
    return r;
}

static weir_status batch_matmul_infer(weir_call *c)
{
    int64_t   m, n;
    weir_desc both;

    WEIR_TRY(weir_check_any_floats(c));
    WEIR_TRY(product_of(c, &m, &n));

    const weir_desc a = with_matrix(&c->in[0].desc, m, n), b = with_matrix(&c->in[1].desc, m, n);
    if (!weir_shape_broadcast(&a, &b, &both))
        return weir_call_fail(WEIR_ERR_SHAPE, c, "the axes before the matrices do not broadcast");
    return weir_out_checked(c, 0, &both);
}

const weir_opdef weir_op_batch_matmul = {
    .name = "batch_matmul",
    .flags = WEIR_PURE | WEIR_PRODUCT,
    .nin_min = 2,
    .nin_max = 2,
    .nout = 1,
    .reads_in = 3,
    .differentiable = 3,
    .autocast_half = 3,
    .infer = batch_matmul_infer,
    .grad = matmul_grad,
    .flops = matmul_flops,
};

/* ---- linear: x (n,i), w (o,i), bias (o) -> (n,o) ---- */

static weir_status linear_infer(weir_call *c)
{
    WEIR_TRY(weir_check_any_floats(c));
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
    .flags = WEIR_PURE | WEIR_PRODUCT,
    .nin_min = 2,
    .nin_max = 3,
    .nout = 1,
    .reads_in = 3, /* not the bias */
    .differentiable = 7,
    .autocast_half = 7,
    .infer = linear_infer,
    .grad = linear_grad,
    .flops = linear_flops,
};

/* ---- public functions ---- */

/* t with `lead` axes of size 1 added at the front and `tail` at the end. */
static weir_tensor *with_ones(weir_tensor *t, int lead, int tail)
{
    weir_desc d = {.ndim = t->layout.desc.ndim + lead + tail};

    for (int i = 0; i < d.ndim; i++)
        d.dim[i] = i < lead || i >= d.ndim - tail ? 1 : t->layout.desc.dim[i - lead];
    return weir_reshape(t, d.ndim, d.dim);
}

/* The operand as contiguous matrices: a vector becomes a row or a column, 4 axes become 5. */
static weir_tensor *as_matrices(weir_tensor *t, bool column)
{
    const int ndim = t->layout.desc.ndim;

    return ndim == 1 ? with_ones(t, !column, column) : ndim == 4 ? with_ones(t, 1, 0) : t;
}

/* y with the dims that the user expects: without axes that were added to vectors, and with as many
 * axes as the operand that has more. na, nb: numbers of axes of the operands. */
static weir_tensor *from_matrices(weir_tensor *y, int na, int nb)
{
    if (!y)
        return NULL;

    const weir_desc *const d = &y->layout.desc;
    const int              most = na > nb ? na : nb;
    weir_desc              to = {.ndim = 0};

    for (int i = d->ndim - (most > 2 ? most : 2); i < d->ndim; i++)
        if (!(i == d->ndim - 2 && na == 1) && !(i == d->ndim - 1 && nb == 1))
            to.dim[to.ndim++] = d->dim[i];
    return weir_reshape_as(y, &to);
}

/* With a single matrix b, all matrices of a are stacked to one, so that one product suffices. */
static weir_tensor *tall(weir_tensor *a, weir_tensor *b, const weir_matmul_attr *attr)
{
    weir_desc to = a->layout.desc;
    int64_t   rows = 1;

    for (int i = 0; i + 1 < to.ndim; i++)
        rows *= to.dim[i];
    weir_tensor *const flat = weir_reshape(a, 2, (int64_t[]){rows, to.dim[to.ndim - 1]});
    weir_tensor *const y =
        weir_record1(WEIR_OP_MATMUL, 2, (weir_tensor *[]){flat, b}, attr, sizeof *attr);
    if (y)
        to.dim[to.ndim - 1] = y->layout.desc.dim[1];
    return weir_reshape_as(y, &to);
}

/* Fails unless operands with these numbers of axes have a product. */
static weir_status check_ranks(const weir_tensor *a, const weir_tensor *b, bool ta, bool tb)
{
    const weir_desc *const da = &a->layout.desc, *const db = &b->layout.desc;
    char                   text[2][WEIR_DESC_TEXT];

    if (da->ndim == 0 || db->ndim == 0 || (ta && da->ndim == 1) || (tb && db->ndim == 1))
        return weir_fail(WEIR_ERR_SHAPE, "matmul: %s (inputs %s, %s)",
                         da->ndim == 0 || db->ndim == 0 ? "a and b must have 1 axis or more"
                                                        : "a vector cannot be transposed",
                         weir_desc_text(da, text[0]), weir_desc_text(db, text[1]));
    return WEIR_OK;
}

weir_tensor *weir_matmul_t(weir_tensor *a, weir_tensor *b, bool ta, bool tb)
{
    const weir_matmul_attr attr = {.ta = ta, .tb = tb};

    if (!a || !b)
        return weir_null("weir_matmul", a ? "b" : "a");
    if (check_ranks(a, b, ta, tb) != WEIR_OK)
        return NULL;

    const int          na = a->layout.desc.ndim, nb = b->layout.desc.ndim;
    weir_tensor *const ma = as_matrices(a, false), *const mb = as_matrices(b, true);
    if (!ma || !mb)
        return NULL;

    const bool    single = ma->layout.desc.ndim == 2 && mb->layout.desc.ndim == 2;
    weir_tensor  *in[] = {ma, mb};
    weir_tensor  *y;
    if (!single && !ta && mb->layout.desc.ndim == 2)
        y = tall(ma, mb, &attr);
    else
        y = weir_record1(single ? WEIR_OP_MATMUL : WEIR_OP_BATCH_MATMUL, 2, in, &attr, sizeof attr);
    if (na == 2 && nb == 2)
        return y;
    return weir_retold(from_matrices(y, na, nb), "matmul", 2, (weir_tensor *[]){a, b});
}

weir_tensor *weir_matmul(weir_tensor *a, weir_tensor *b)
{
    return weir_matmul_t(a, b, false, false);
}

/* product + beta c. */
static weir_tensor *add_scaled(weir_tensor *product, weir_tensor *c, double beta)
{
    char      text[2][WEIR_DESC_TEXT];
    weir_desc both;

    c = weir_autocast_to_half(c, product);
    if (!product || !c)
        return product;
    if (c->layout.desc.dtype != product->layout.desc.dtype)
        return WEIR_FAIL_NULL(WEIR_ERR_DTYPE, "c is %s but the product %s",
                              weir_dtype_name(c->layout.desc.dtype),
                              weir_dtype_name(product->layout.desc.dtype));
    if (!weir_shape_broadcast(&product->layout.desc, &c->layout.desc, &both) ||
        !weir_shape_equal(&both, &product->layout.desc))
        return WEIR_FAIL_NULL(WEIR_ERR_SHAPE, "c is %s, which does not broadcast to the product "
                                              "%s",
                              weir_desc_text(&c->layout.desc, text[0]),
                              weir_desc_text(&product->layout.desc, text[1]));
    return weir_add(product, beta == 1 ? c : weir_affine(c, beta, 0));
}

/* Factors of 1 record no call. Fusion turns the other steps into one pass over the product. */
weir_tensor *weir_gemm(weir_tensor *a, weir_tensor *b, weir_tensor *c, double alpha, double beta,
                       bool ta, bool tb)
{
    if (!a || !b)
        return weir_null("weir_gemm", a ? "b" : "a");

    weir_tensor *const product = weir_matmul_t(a, b, ta, tb);
    weir_tensor *const y = alpha == 1 ? product : weir_affine(product, alpha, 0);
    return weir_retold(add_scaled(y, c, beta), "gemm", 3, (weir_tensor *[]){a, b, c});
}

weir_tensor *weir_linear(weir_tensor *x, weir_tensor *w, weir_tensor *bias)
{
    return weir_record1(WEIR_OP_LINEAR, bias ? 3 : 2, (weir_tensor *[]){x, w, bias}, NULL, 0);
}
