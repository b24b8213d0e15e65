/* moment.c - definitions of sums over two inputs, of norms and of the variance.
 *
 * dot sums a b and dist sums (a - b)^2 over axes, where b broadcasts to a: products and differences
 * are never stored. The variance is a mean and a dist from it: two passes over x, which is
 * accurate. The mean is treated as a constant there, because its gradient, the sum of x - mean, is
 * 0. */
#include "graph/ops/axes.h"

enum { REDUCTION = WEIR_PURE | WEIR_STRIDED };

/* ---- dot, dist: a, b ---- */

static weir_status pair_infer(weir_call *c)
{
    const weir_desc *const a = &c->in[0].desc;
    const weir_desc        out = weir_reduced(a, c->attr);
    weir_desc              both;

    WEIR_TRY(weir_check_floats(c));
    WEIR_TRY(weir_check_broadcast(c, &both));
    if (!weir_shape_equal(&both, a))
        return weir_call_fail(WEIR_ERR_SHAPE, c, "input 1 does not broadcast to input 0");
    weir_out_dense(c, 0, &out);
    return WEIR_OK;
}

static double pair_flops(const weir_call *c)
{
    return (c->op == WEIR_OP_DIST ? 3 : 2) * weir_flops_input(c);
}

/* dy times scale, with the reduced axes as 1. */
static weir_tensor *kept_dy(const weir_grad *g, double scale)
{
    const weir_desc    k = weir_reduced_kept(&g->x[0]->layout.desc, g->attr);
    weir_tensor *const t = weir_reshape_as(g->dy[0], &k);

    return scale == 1 ? t : weir_affine(t, scale, 0);
}

/* da = dy b, db = dy a. */
static weir_status dot_grad(weir_grad *g)
{
    const weir_reduce_attr *const a = g->attr;
    const weir_desc *const        d = &g->x[0]->layout.desc;
    weir_tensor *const            dy = kept_dy(g, a->scale);

    if (weir_wants(g, 0))
        WEIR_TRY(weir_grad_set(g, 0, weir_broadcast_to(weir_mul(dy, g->x[1]), *d)));
    if (weir_wants(g, 1))
        WEIR_TRY(weir_grad_set(g, 1, weir_sum_to(weir_mul(dy, g->x[0]), &g->x[1]->layout.desc)));
    return WEIR_OK;
}

/* da = 2 dy (a - b), db = -da. */
static weir_status dist_grad(weir_grad *g)
{
    const weir_reduce_attr *const a = g->attr;
    weir_tensor *const            dy = kept_dy(g, 2 * a->scale);
    weir_tensor *const            da = weir_mul(weir_sub(g->x[0], g->x[1]), dy);

    if (weir_wants(g, 0))
        WEIR_TRY(weir_grad_set(g, 0, da));
    if (weir_wants(g, 1))
        WEIR_TRY(weir_grad_set(g, 1, weir_neg(weir_sum_to(da, &g->x[1]->layout.desc))));
    return WEIR_OK;
}

#define PAIR(id)                                                                                   \
    const weir_opdef weir_op_##id = {                                                              \
        .name = #id,                                                                               \
        .flags = REDUCTION,                                                                        \
        .nin_min = 2,                                                                              \
        .nin_max = 2,                                                                              \
        .nout = 1,                                                                                 \
        .reads_in = 3,                                                                             \
        .differentiable = 3,                                                                       \
        .autocast_f32 = 3,                                                                         \
        .infer = pair_infer,                                                                       \
        .grad = id##_grad,                                                                         \
        .flops = pair_flops,                                                                       \
    }

PAIR(dot);
PAIR(dist);

weir_tensor *weir_dot(weir_tensor *a, weir_tensor *b, uint32_t dims, bool keep, double scale)
{
    weir_reduce_attr attr;

    if (!weir_reduce_axes("dot", a, dims, keep, &attr))
        return NULL;
    attr.scale = scale;
    return weir_record1(WEIR_OP_DOT, 2, (weir_tensor *[]){a, b}, &attr, sizeof attr);
}

weir_tensor *weir_dist(weir_tensor *a, weir_tensor *b, uint32_t dims, bool keep, double scale)
{
    weir_reduce_attr attr;

    if (!weir_reduce_axes("dist", a, dims, keep, &attr))
        return NULL;
    attr.scale = scale;
    return weir_record1(WEIR_OP_DIST, 2, (weir_tensor *[]){a, b}, &attr, sizeof attr);
}

/* ---- norms ---- */

static weir_status norm_infer(weir_call *c)
{
    const weir_desc out = weir_reduced(&c->in[0].desc, c->attr);

    WEIR_TRY(weir_check_floats(c));
    weir_out_dense(c, 0, &out);
    return WEIR_OK;
}

static double norm_flops(const weir_call *c)
{
    return 2 * weir_flops_input(c);
}

static weir_status norm1_grad(weir_grad *g)
{
    return weir_grad_set(g, 0, weir_row2(WEIR_OP_ABS_GRAD, kept_dy(g, 1), g->x[0]));
}

const weir_opdef weir_op_norm1 = {
    .name = "norm1",
    .flags = REDUCTION,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .reads_in = 1,
    .differentiable = 1,
    .autocast_f32 = 1,
    .infer = norm_infer,
    .grad = norm1_grad,
    .flops = norm_flops,
};

/* dx = dy x / y, 0 where y is 0. */
static weir_status norm2_grad(weir_grad *g)
{
    const weir_desc    k = weir_reduced_kept(&g->x[0]->layout.desc, g->attr);
    weir_tensor *const y = weir_reshape_as(g->y[0], &k);

    return weir_grad_set(g, 0, weir_row3(WEIR_OP_NORM_GRAD, kept_dy(g, 1), g->x[0], y));
}

const weir_opdef weir_op_norm2 = {
    .name = "norm2",
    .flags = REDUCTION,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .reads_in = 1,
    .reads_out = 1,
    .differentiable = 1,
    .autocast_f32 = 1,
    .infer = norm_infer,
    .grad = norm2_grad,
    .flops = norm_flops,
};

/* ---- public functions ---- */

weir_tensor *weir_norm(weir_tensor *x, int p, uint32_t dims, bool keep)
{
    weir_reduce_attr a;

    if (!weir_reduce_axes("norm", x, dims, keep, &a))
        return NULL;
    if (p != 1 && p != 2)
        return WEIR_FAIL_NULL(WEIR_ERR_INVALID, "norm: p must be 1 or 2, not %d", p);
    weir_tensor *const wide = weir_half_to_f32(x);
    return weir_sum_to_half(weir_record1(p == 1 ? WEIR_OP_NORM1 : WEIR_OP_NORM2, 1, &wide, &a,
                                         sizeof a), x, x);
}

/* If n - correction is 0 or less, the result is inf or NaN, as in NumPy. */
weir_tensor *weir_var(weir_tensor *x, uint32_t dims, int correction, bool keep)
{
    weir_tensor *const wide = weir_half_to_f32(x);
    weir_reduce_attr   a;

    if (!weir_reduce_axes("var", wide, dims, keep, &a))
        return NULL;

    const weir_desc *const d = &wide->layout.desc;
    char                   text[WEIR_DESC_TEXT];
    if (!weir_is_float(d->dtype))
        return WEIR_FAIL_NULL(WEIR_ERR_DTYPE, "var: x must be a float, not %s",
                              weir_desc_text(d, text));
    if (correction != 0 && correction != 1)
        return WEIR_FAIL_NULL(WEIR_ERR_INVALID, "var: correction must be 0 or 1, not %d",
                              correction);

    const double over = weir_reduced_count(d, &a) - correction;
    return weir_sum_to_half(weir_dist(wide, weir_mean(weir_detach(wide), dims, true), dims, keep,
                                      1 / (over > 0 ? over : 0)), x, x);
}
