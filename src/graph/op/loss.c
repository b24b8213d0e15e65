/* loss.c - definitions of softmax cross-entropy and its gradient.
 *
 * One op, computed from the log of the summed exponentials of each row (lse), which is also all
 * that the gradient needs beside logits and target: (exp(logit - lse) sum(target) - target) dloss
 * / n, where a class number stands for a target of one 1. */
#include "graph/op/define.h"

/* logits (n,c); target (n) of class numbers, or (n,c) of probabilities. */
static weir_status check_operands(const weir_call *c)
{
    const weir_desc *const logits = &c->in[0].desc, *const target = &c->in[1].desc;

    WEIR_TRY(weir_check_ndim(c, 0, "logits", 2));
    if (!weir_is_float(logits->dtype))
        return weir_call_fail(WEIR_ERR_DTYPE, c, "logits must be f32 or f64");
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

/* lse is output 1: the exponentials are computed once more, but no (n,c) tensor is kept. */
static weir_status cross_entropy_grad(weir_grad *g)
{
    weir_tensor *const in[] = {g->x[0], g->x[1], g->y[1], g->dy[0]};

    return weir_grad_set(g, 0, weir_record1(WEIR_OP_CROSS_ENTROPY_GRAD, 4, in, NULL, 0));
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
    .reads_in = 3,
    .reads_out = 2,
    .differentiable = 1,
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
    .inplace = 1,           /* each logit is read once, where its gradient goes */
    .infer = cross_entropy_grad_infer,
    .flops = cross_entropy_flops,
};

/* ---- public function ---- */

weir_tensor *weir_cross_entropy(weir_tensor *logits, weir_tensor *target)
{
    return weir_record1(WEIR_OP_CROSS_ENTROPY, 2, (weir_tensor *[]){logits, target}, NULL, 0);
}
