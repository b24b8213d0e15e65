/* loss.c - definitions of the losses.
 *
 * Softmax cross-entropy is one op. It computes the logarithm of each row's sum of exponentials,
 * lse, from which the gradient is (exp(logit - lse) sum(target) - target) dloss / n; a class number
 * is a one-hot target. Targets that are probabilities have a gradient, too. The other losses are
 * reductions over two inputs (moment.c) and means of element-wise rows. */
#include "graph/ops/axes.h"

/* logits (n,c); target (n) of class numbers, or (n,c) of probabilities. */
static weir_status check_operands(const weir_call *c)
{
    const weir_desc *const logits = &c->in[0].desc, *const target = &c->in[1].desc;

    WEIR_TRY(weir_check_ndim(c, 0, "logits", 2));
    if (!weir_is_float(logits->dtype))
        return weir_call_fail(WEIR_ERR_DTYPE, c, "logits must be floats");
    if (logits->dim[1] == 0)
        return weir_call_fail(WEIR_ERR_SHAPE, c, "logits have no classes");
    if (target->dtype == logits->dtype)
        return weir_check_dims(c, 1, "target of probabilities", logits);
    if (target->dtype != WEIR_I32 && target->dtype != WEIR_I64)
        return weir_call_fail(WEIR_ERR_DTYPE, c, "target must be class numbers in i32 or i64, or "
                              "probabilities in %s", weir_dtype_name(logits->dtype));

    const weir_desc rows = weir_1d(target->dtype, logits->dim[0]);
    return weir_check_dims(c, 1, "target of class numbers", &rows);
}

/* ---- logits, target -> loss, lse (n) ---- */

static weir_status cross_entropy_infer(weir_call *c)
{
    const weir_desc *const logits = &c->in[0].desc;

    WEIR_TRY(check_operands(c));

    const weir_desc loss = weir_scalar(logits->dtype), lse = weir_1d(logits->dtype, logits->dim[0]);
    weir_out_dense(c, 0, &loss);
    weir_out_dense(c, 1, &lse);
    return WEIR_OK;
}

/* The gradient of probabilities: (lse - logit) dloss / n, minus the logarithm of the softmax. */
static weir_tensor *target_grad(const weir_grad *g)
{
    const int64_t      n = g->x[0]->layout.desc.dim[0];
    weir_tensor *const lse = weir_reshape(g->y[1], 2, (int64_t[]){n, 1});
    weir_tensor *const scale = weir_affine(g->dy[0], 1 / (double)n, 0);

    return weir_mul(weir_sub(lse, g->x[0]), scale);
}

/* Reads lse, output 1: exponentials are recomputed, but no (n,c) tensor is kept. */
static weir_status cross_entropy_grad(weir_grad *g)
{
    weir_tensor *const in[] = {g->x[0], g->x[1], g->y[1], g->dy[0]};

    if (weir_wants(g, 0))
        WEIR_TRY(weir_grad_set(g, 0, weir_record1(WEIR_OP_CROSS_ENTROPY_GRAD, 4, in, g->attr,
                                             sizeof(weir_cross_entropy_attr))));
    return weir_wants(g, 1) ? weir_grad_set(g, 1, target_grad(g)) : WEIR_OK;
}

/* Maximum, difference, exponential, sum. */
static double cross_entropy_flops(const weir_call *c)
{
    return 4 * weir_flops_input(c);
}

const weir_opdef weir_op_cross_entropy = {
    .name = "cross_entropy",
    .flags = WEIR_PURE,
    .nin_min = 2,
    .nin_max = 2,
    .nout = 2,
    .autocast_f32 = 3,
    .reads_in = 3,
    .reads_out = 2,
    .differentiable = 3,
    .infer = cross_entropy_infer,
    .grad = cross_entropy_grad,
    .flops = cross_entropy_flops,
};

/* ---- logits, target, lse, dloss -> dlogits ---- */

static weir_status cross_entropy_grad_infer(weir_call *c)
{
    const weir_desc *const logits = &c->in[0].desc;

    WEIR_TRY(check_operands(c));

    const weir_desc rows = weir_1d(logits->dtype, logits->dim[0]), one = weir_scalar(logits->dtype);
    WEIR_TRY(weir_check_dims(c, 2, "lse", &rows));
    WEIR_TRY(weir_check_dims(c, 3, "dloss", &one));
    weir_out_like(c, 0, 0);
    return WEIR_OK;
}

const weir_opdef weir_op_cross_entropy_grad = {
    .name = "cross_entropy_grad",
    .flags = WEIR_PURE,
    .nin_min = 4,
    .nin_max = 4,
    .nout = 1,
    .inplace = 1,           /* each logit is read once, before its gradient overwrites it */
    .infer = cross_entropy_grad_infer,
    .flops = cross_entropy_flops,
};

/* ---- public functions ---- */

weir_tensor *weir_cross_entropy_ignore(weir_tensor *logits, weir_tensor *target, int64_t ignored)
{
    const weir_cross_entropy_attr a = {.ignored = ignored};
    weir_tensor *const in[] = {weir_half_to_f32(logits), weir_half_to_f32(target)};

    return weir_sum_to_half(weir_record1(WEIR_OP_CROSS_ENTROPY, 2, in, &a, sizeof a), logits,
                            logits);
}

weir_tensor *weir_cross_entropy(weir_tensor *logits, weir_tensor *target)
{
    return weir_cross_entropy_ignore(logits, target, WEIR_IGNORED_CLASS);
}

/* Two inputs as given and as the loss computes them: halves are widened. */
typedef struct inputs {
    weir_tensor *given[2], *a, *b;
} inputs;

static inputs widened(weir_tensor *a, weir_tensor *b)
{
    return (inputs){{a, b}, weir_half_to_f32(a), weir_half_to_f32(b)};
}

static weir_tensor *typed(weir_tensor *loss, const inputs *in)
{
    return weir_sum_to_half(loss, in->given[0], in->given[1]);
}

/* Are both of one float type and shape? `an` and `bn` are their names. */
static bool fit(const char *who, const inputs *in, const char *an, const char *bn)
{
    const weir_tensor *const a = in->a, *const b = in->b;

    char at[WEIR_DESC_TEXT], bt[WEIR_DESC_TEXT];

    if (!a || !b) {
        (void)weir_fail_null(who, a ? bn : an);
        return false;
    }

    const weir_desc *const d = &a->layout.desc, *const e = &b->layout.desc;
    if (weir_is_float(d->dtype) && weir_desc_equal(d, e))
        return true;
    (void)weir_fail(!weir_is_float(d->dtype) || d->dtype != e->dtype ? WEIR_ERR_DTYPE
                                                                     : WEIR_ERR_SHAPE,
                    "%s: %s %s and %s %s must have one shape and one float type", who, an,
                    weir_desc_text(d, at), bn, weir_desc_text(e, bt));
    return false;
}

weir_tensor *weir_mse_loss(weir_tensor *a, weir_tensor *b)
{
    const inputs in = widened(a, b);

    if (!fit("mse_loss", &in, "a", "b"))
        return NULL;
    const double scale = 1 / (double)weir_shape_count(&in.a->layout.desc);
    return typed(weir_dist(in.a, in.b, 0, false, scale), &in);
}

weir_tensor *weir_bce_logits_loss(weir_tensor *logits, weir_tensor *target)
{
    const inputs in = widened(logits, target);

    if (!fit("bce_logits_loss", &in, "logits", "target"))
        return NULL;
    return typed(weir_mean(weir_row2(WEIR_OP_BCE_LOGITS, in.a, in.b), 0, false), &in);
}

weir_tensor *weir_bce_loss(weir_tensor *p, weir_tensor *target)
{
    const inputs in = widened(p, target);

    if (!fit("bce_loss", &in, "p", "target"))
        return NULL;
    return typed(weir_mean(weir_row2(WEIR_OP_BCE, in.a, in.b), 0, false), &in);
}

weir_tensor *weir_ranking_loss(weir_tensor *pos, weir_tensor *neg, double margin)
{
    const inputs in = widened(pos, neg);

    if (!fit("ranking_loss", &in, "pos", "neg"))
        return NULL;
    weir_tensor *const each = weir_relu(weir_affine(weir_sub(in.a, in.b), -1, margin));
    return typed(weir_mean(each, 0, false), &in);
}

weir_tensor *weir_cosine_similarity(weir_tensor *a, weir_tensor *b, double eps)
{
    const inputs in = widened(a, b);

    if (!fit("cosine_similarity", &in, "a", "b"))
        return NULL;

    const weir_desc *const d = &in.a->layout.desc;
    const double           least = weir_option(false, eps, 1e-8);
    char                   text[WEIR_DESC_TEXT];
    if (d->ndim == 0)
        return WEIR_FAIL_NULL(WEIR_ERR_SHAPE, "cosine_similarity: %s has no last axis",
                              weir_desc_text(d, text));
    if (!(least >= 0))
        return WEIR_FAIL_NULL(WEIR_ERR_INVALID, "cosine_similarity: eps %g must be >= 0", least);

    const uint32_t     last = 1u << (d->ndim - 1);
    weir_tensor *const floor = weir_fill(weir_tensor_device(a), weir_scalar(d->dtype), least);
    weir_tensor *const over = weir_mul(weir_max(weir_norm(in.a, 2, last, false), floor),
                                       weir_max(weir_norm(in.b, 2, last, false), floor));
    return typed(weir_div(weir_dot(in.a, in.b, last, false, 1), over), &in);
}
