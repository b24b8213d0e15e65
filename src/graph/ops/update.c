/* update.c - definitions of operations in place: optimiser steps, learning rates, counters.
 *
 * They are never differentiated, merged, repeated or dropped. The recorder checks that a mutated
 * input is all of a parameter, state or input. */
#include "graph/ops/define.h"

/* Fails unless inputs `first` to `last` have type and shape of input 0, the parameter. */
static weir_status check_like_param(const weir_call *c, int first, int last)
{
    char text[WEIR_DESC_TEXT];

    if (!weir_is_float(c->in[0].desc.dtype))
        return weir_call_fail(WEIR_ERR_DTYPE, c, "updates f32 or f64, the parameter is %s",
                              weir_dtype_name(c->in[0].desc.dtype));
    for (int i = first; i <= last; i++)
        if (!weir_desc_equal(&c->in[i].desc, &c->in[0].desc))
            return weir_call_fail(c->in[i].desc.dtype == c->in[0].desc.dtype ? WEIR_ERR_SHAPE
                                                                             : WEIR_ERR_DTYPE,
                                  c, "input %d must be %s like input 0", i,
                                  weir_desc_text(&c->in[0].desc, text));
    return WEIR_OK;
}

/* Fails unless input i is one element. Scalars are tensors, not attributes, since a planned step
 * reads the learning rate and the step count in every run. */
static weir_status check_scalar(const weir_call *c, int i, const char *name)
{
    if (weir_shape_count(&c->in[i].desc) != 1)
        return weir_call_fail(WEIR_ERR_SHAPE, c, "%s must be a scalar", name);
    if (!weir_is_float(c->in[i].desc.dtype))
        return weir_call_fail(WEIR_ERR_DTYPE, c, "%s must be f32 or f64", name);
    return WEIR_OK;
}

/* Fails unless input i can be a number of steps or gradients. */
static weir_status check_count(const weir_call *c, int i, const char *name)
{
    WEIR_TRY(check_scalar(c, i, name));
    if (c->in[i].desc.dtype != WEIR_F64)
        return weir_call_fail(WEIR_ERR_DTYPE, c, "%s must be f64, which counts exactly", name);
    return WEIR_OK;
}

static weir_status check_step(const weir_call *c, int i)
{
    return check_count(c, i, "step");
}

/* Fails unless input i is the learning rate, alone or followed by n numbers of the options. */
static weir_status check_rate(const weir_call *c, int i, int n)
{
    const int64_t count = weir_shape_count(&c->in[i].desc);

    if (count != 1 && (count != 1 + n || c->in[i].desc.ndim != 1))
        return weir_call_fail(WEIR_ERR_SHAPE, c, "lr must be a scalar or a vector of %d: the rate "
                              "and the numbers of the options", 1 + n);
    if (!weir_is_float(c->in[i].desc.dtype))
        return weir_call_fail(WEIR_ERR_DTYPE, c, "lr must be f32 or f64");
    return WEIR_OK;
}

/* ---- param, grad, lr, [momentum buffer, [step]] ----
 *
 * g = grad + weight_decay param; b = momentum b + (1 - dampening) g, without dampening at step 1;
 * d = nesterov ? g + momentum b : b, or g without a buffer; param -= lr d. */

static weir_status sgd_update_infer(weir_call *c)
{
    WEIR_TRY(check_like_param(c, 1, 1));
    WEIR_TRY(check_rate(c, 2, 3));
    if (c->nin > 3)
        WEIR_TRY(check_like_param(c, 3, 3));
    return c->nin > 4 ? check_step(c, 4) : WEIR_OK;
}

/* 2 per element for param -= lr d, more with options. */
static double sgd_update_flops(const weir_call *c)
{
    const weir_sgd_attr *const a = c->attr;

    return weir_flops_input(c) *
           (2 + (a->weight_decay != 0 ? 2 : 0) + (c->nin > 3 ? 3 : 0) + (a->nesterov ? 2 : 0));
}

const weir_opdef weir_op_sgd_update = {
    .name = "sgd_update",
    .flags = WEIR_UPDATE | WEIR_ROWWISE,
    .nin_min = 3,
    .nin_max = 5,
    .nout = 0,
    .mutates = 1 | 1 << 3,
    .infer = sgd_update_infer,
    .flops = sgd_update_flops,
};

/* ---- param, grad, m, v, step, lr: Kingma and Ba, "Adam", 2015, algorithm 1 ---- */

static weir_status adam_update_infer(weir_call *c)
{
    WEIR_TRY(check_like_param(c, 1, 3));
    WEIR_TRY(check_step(c, 4));
    return check_rate(c, 5, 4);
}

/* m: 3, v: 4, root, division, eps, and 2 for the step. */
static double adam_update_flops(const weir_call *c)
{
    const weir_adam_attr *const a = c->attr;

    return weir_flops_input(c) * (a->weight_decay != 0 ? 14 : 12);
}

#define ADAM(id)                                                                                   \
    const weir_opdef weir_op_##id = {                                                              \
        .name = #id,                                                                               \
        .flags = WEIR_UPDATE | WEIR_ROWWISE,                                                       \
        .nin_min = 6,                                                                              \
        .nin_max = 6,                                                                              \
        .nout = 0,                                                                                 \
        .mutates = 1 | 1 << 2 | 1 << 3,                                                            \
        .infer = adam_update_infer,                                                                \
        .flops = adam_update_flops,                                                                \
    }

ADAM(adam_update);
ADAM(adamw_update);     /* Loshchilov and Hutter, "Decoupled weight decay", 2019 */

/* ---- param, grad, lr, sum of squares: Duchi et al., "Adaptive subgradient methods", 2011 ----
 *
 * RMSProp (Tieleman and Hinton 2012; centered: Graves 2013) has a mean of squares instead, followed
 * by a momentum buffer and the mean of gradients if its options ask for them. */

static weir_status rmsprop_update_infer(weir_call *c)
{
    WEIR_TRY(check_like_param(c, 1, 1));
    WEIR_TRY(check_rate(c, 2, 4));
    return check_like_param(c, 3, c->nin - 1);
}

static weir_status adagrad_update_infer(weir_call *c)
{
    WEIR_TRY(check_like_param(c, 1, 1));
    WEIR_TRY(check_rate(c, 2, 2));
    return check_like_param(c, 3, 3);
}

/* Square, root, eps, division, rate; RMSProp: both means, momentum. */
static double square_update_flops(const weir_call *c)
{
    return weir_flops_input(c) * (7 + 3 * (c->nin - 4));
}

const weir_opdef weir_op_adagrad_update = {
    .name = "adagrad_update",
    .flags = WEIR_UPDATE | WEIR_ROWWISE,
    .nin_min = 4,
    .nin_max = 4,
    .nout = 0,
    .mutates = 1 | 1 << 3,
    .infer = adagrad_update_infer,
    .flops = square_update_flops,
};

const weir_opdef weir_op_rmsprop_update = {
    .name = "rmsprop_update",
    .flags = WEIR_UPDATE | WEIR_ROWWISE,
    .nin_min = 4,
    .nin_max = 6,
    .nout = 0,
    .mutates = 1 | 7 << 3,
    .infer = rmsprop_update_infer,
    .flops = square_update_flops,
};

/* ---- lr, step ---- */

static weir_status lr_schedule_infer(weir_call *c)
{
    WEIR_TRY(check_scalar(c, 0, "lr"));
    return check_step(c, 1);
}

const weir_opdef weir_op_lr_schedule = {
    .name = "lr_schedule",
    .flags = WEIR_UPDATE,
    .nin_min = 2,
    .nin_max = 2,
    .nout = 0,
    .mutates = 1,
    .infer = lr_schedule_infer,
    .flops = weir_flops_none,
};

/* ---- t ---- */

static weir_status increment_infer(weir_call *c)
{
    return weir_check_floats(c);
}

const weir_opdef weir_op_increment = {
    .name = "increment",
    .flags = WEIR_UPDATE,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 0,
    .mutates = 1,
    .infer = increment_infer,
    .flops = weir_flops_input,
};

/* ---- buffer, grad: buffer += grad ---- */

static weir_status accumulate_infer(weir_call *c)
{
    return check_like_param(c, 1, 1);
}

const weir_opdef weir_op_accumulate = {
    .name = "accumulate",
    .flags = WEIR_UPDATE | WEIR_ROWWISE,
    .nin_min = 2,
    .nin_max = 2,
    .nout = 0,
    .mutates = 1,
    .infer = accumulate_infer,
    .flops = weir_flops_input,
};

/* ---- partial, grad, count: row 0 += grad; full rows are carried to the next one ---- */

static weir_status accumulate_tree_infer(weir_call *c)
{
    const weir_desc *const p = &c->in[0].desc, *const g = &c->in[1].desc;
    char                   have[WEIR_DESC_TEXT], text[WEIR_DESC_TEXT];

    if (!weir_is_float(p->dtype) || g->dtype != p->dtype)
        return weir_call_fail(WEIR_ERR_DTYPE, c, "adds f32 or f64 to the same, not %s to %s",
                              weir_desc_text(g, have), weir_desc_text(p, text));
    if (p->ndim != 2 || p->dim[0] < 1 || g->ndim != 1 || g->dim[0] != p->dim[1])
        return weir_call_fail(WEIR_ERR_SHAPE, c, "partial sums must be (levels,n) and the gradient "
                              "(n), not %s and %s", weir_desc_text(p, text),
                              weir_desc_text(g, have));
    return check_count(c, 2, "count");
}

/* One addition per gradient, and half as many in each row above the one before. */
static double accumulate_tree_flops(const weir_call *c)
{
    return 2 * (double)weir_shape_count(&c->in[1].desc);
}

const weir_opdef weir_op_accumulate_tree = {
    .name = "accumulate_tree",
    .flags = WEIR_UPDATE,
    .nin_min = 3,
    .nin_max = 3,
    .nout = 0,
    .mutates = 1,
    .infer = accumulate_tree_infer,
    .flops = accumulate_tree_flops,
};

/* ---- t = value ---- */

const weir_opdef weir_op_reset = {
    .name = "reset",
    .flags = WEIR_UPDATE,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 0,
    .mutates = 1,
    .infer = increment_infer,
    .flops = weir_flops_none,
};

/* ---- to, from: to = from ---- */

static weir_status assign_infer(weir_call *c)
{
    weir_desc both;

    if (!weir_shape_broadcast(&c->in[0].desc, &c->in[1].desc, &both) ||
        !weir_shape_equal(&both, &c->in[0].desc))
        return weir_call_fail(WEIR_ERR_SHAPE, c, "input 1 does not broadcast to input 0");
    return WEIR_OK;
}

const weir_opdef weir_op_assign = {
    .name = "assign",
    .flags = WEIR_UPDATE | WEIR_STRIDED,
    .nin_min = 2,
    .nin_max = 2,
    .nout = 0,
    .mutates = 1,
    .write_only = 1,
    .infer = assign_infer,
    .flops = weir_flops_none,
};

/* ---- public functions ---- */

/* Poisons the recording: a step without this update must not run. */
#define REFUSE(...) weir_poison(weir_fail(__VA_ARGS__))

weir_status weir_sgd_update(weir_tensor *param, weir_tensor *grad, weir_tensor *momentum_buffer,
                            weir_tensor *lr, const weir_sgd_options *options)
{
    const weir_sgd_options o = options ? *options : (weir_sgd_options){0};
    const weir_sgd_attr    a = {.momentum = o.momentum, .weight_decay = o.weight_decay,
                                .dampening = o.dampening, .nesterov = o.nesterov};

    if (!param || !grad || !lr)
        return weir_poison(weir_fail_null("weir_sgd_update", !param  ? "param"
                                                             : !grad ? "grad"
                                                                     : "lr"));
    const weir_desc rate = weir_tensor_desc(lr);
    const bool      numbers = rate.ndim == 1 && rate.dim[0] > 1;
    const bool      buffered = numbers ? momentum_buffer != NULL : o.momentum != 0;
    if (buffered && !momentum_buffer)
        return weir_poison(weir_fail_null("weir_sgd_update", "momentum_buffer"));
    if (!(o.momentum >= 0) || (!numbers && o.nesterov && (o.momentum == 0 || o.dampening != 0)))
        return REFUSE(WEIR_ERR_INVALID, "sgd_update: momentum %g or dampening %g is out of range"
                      "%s", o.momentum, o.dampening,
                      o.nesterov ? "; nesterov needs momentum and no dampening" : "");
    return weir_record(WEIR_OP_SGD_UPDATE, !buffered ? 3 : o.step ? 5 : 4,
                       (weir_tensor *[]){param, grad, lr, momentum_buffer, o.step}, &a, sizeof a,
                       NULL);
}

static weir_status adam(weir_op op, weir_tensor *const in[6], const weir_adam_options *options)
{
    const weir_adam_options o = options ? *options : (weir_adam_options){0};
    const weir_adam_attr    a = {
        .beta1 = weir_option(o.exact, o.beta1, 0.9),
        .beta2 = weir_option(o.exact, o.beta2, 0.999),
        .eps = weir_option(o.exact, o.eps, 1e-8),
        .weight_decay = o.weight_decay,
    };

    if (!(a.beta1 >= 0 && a.beta1 < 1 && a.beta2 >= 0 && a.beta2 < 1 && a.eps >= 0))
        return REFUSE(WEIR_ERR_INVALID, "%s: beta1 %g and beta2 %g must be in [0, 1), "
                      "eps %g >= 0", weir_op_name(op), a.beta1, a.beta2, a.eps);
    return weir_record(op, 6, in, &a, sizeof a, NULL);
}

weir_status weir_adam_update(weir_tensor *param, weir_tensor *grad, weir_tensor *m, weir_tensor *v,
                             weir_tensor *step, weir_tensor *lr, const weir_adam_options *options)
{
    return adam(WEIR_OP_ADAM_UPDATE, (weir_tensor *[]){param, grad, m, v, step, lr}, options);
}

weir_status weir_adamw_update(weir_tensor *param, weir_tensor *grad, weir_tensor *m,
                              weir_tensor *v, weir_tensor *step, weir_tensor *lr,
                              const weir_adam_options *options)
{
    return adam(WEIR_OP_ADAMW_UPDATE, (weir_tensor *[]){param, grad, m, v, step, lr}, options);
}

weir_status weir_adagrad_update(weir_tensor *param, weir_tensor *grad, weir_tensor *square,
                                weir_tensor *lr, const weir_adagrad_options *options)
{
    const weir_adagrad_options o = options ? *options : (weir_adagrad_options){0};
    const weir_adagrad_attr    a = {.eps = weir_option(o.exact, o.eps, 1e-10),
                                    .weight_decay = o.weight_decay,
                                    .eps_inside = o.eps_inside};

    if (!(a.eps >= 0))
        return REFUSE(WEIR_ERR_INVALID, "adagrad_update: eps %g must be >= 0", a.eps);
    if (o.lr_decay != 0 || o.initial_accumulator != 0)
        return REFUSE(WEIR_ERR_INVALID, "adagrad_update: lr_decay %g and initial_accumulator %g "
                      "are an optimiser's (weir_adagrad_new): one update takes the rate and the "
                      "sum as they are", o.lr_decay, o.initial_accumulator);
    return weir_record(WEIR_OP_ADAGRAD_UPDATE, 4, (weir_tensor *[]){param, grad, lr, square}, &a,
                       sizeof a, NULL);
}

weir_status weir_rmsprop_update(weir_tensor *param, weir_tensor *grad, weir_tensor *square,
                                weir_tensor *momentum_buffer, weir_tensor *mean, weir_tensor *lr,
                                const weir_rmsprop_options *options)
{
    const weir_rmsprop_options o = options ? *options : (weir_rmsprop_options){0};
    const weir_rmsprop_attr    a = {.alpha = weir_option(o.exact, o.alpha, 0.99),
                                    .eps = weir_option(o.exact, o.eps, 1e-8),
                                    .weight_decay = o.weight_decay,
                                    .momentum = o.momentum,
                                    .centered = o.centered,
                                    .eps_inside = o.eps_inside};
    weir_tensor *in[6] = {param, grad, lr, square};
    int          n = 4;

    if (!(a.alpha >= 0 && a.alpha < 1 && a.eps >= 0 && a.momentum >= 0))
        return REFUSE(WEIR_ERR_INVALID, "rmsprop_update: alpha %g must be in [0, 1), eps %g >= 0,"
                      " momentum %g >= 0", a.alpha, a.eps, a.momentum);
    if (a.momentum != 0)
        in[n++] = momentum_buffer;
    if (a.centered)
        in[n++] = mean;
    return weir_record(WEIR_OP_RMSPROP_UPDATE, n, in, &a, sizeof a, NULL);
}

/* ---- learning rates ---- */

static weir_status schedule(weir_tensor *lr, weir_tensor *step, const weir_lr_attr *a)
{
    if (!(a->base >= 0 && a->to >= 0 && a->period > 0))
        return REFUSE(WEIR_ERR_INVALID, "lr_schedule: the first rate %g, the last rate %g or the "
                      "number of steps %g is out of range", a->base, a->to, a->period);
    return weir_record(WEIR_OP_LR_SCHEDULE, 2, (weir_tensor *[]){lr, step}, a, sizeof *a, NULL);
}

weir_status weir_lr_step(weir_tensor *lr, weir_tensor *step, double base, double gamma,
                         int64_t every)
{
    return schedule(lr, step, &(weir_lr_attr){WEIR_LR_STEP, base, gamma, (double)every});
}

weir_status weir_lr_exponential(weir_tensor *lr, weir_tensor *step, double base, double gamma)
{
    return schedule(lr, step, &(weir_lr_attr){WEIR_LR_EXPONENTIAL, base, gamma, 1});
}

weir_status weir_lr_cosine(weir_tensor *lr, weir_tensor *step, double base, double least,
                           int64_t steps)
{
    return schedule(lr, step, &(weir_lr_attr){WEIR_LR_COSINE, base, least, (double)steps});
}

weir_status weir_increment(weir_tensor *t, double by)
{
    const weir_increment_attr a = {.by = by};

    return weir_record(WEIR_OP_INCREMENT, 1, &t, &a, sizeof a, NULL);
}

weir_status weir_accumulate(weir_tensor *buffer, weir_tensor *grad)
{
    return weir_record(WEIR_OP_ACCUMULATE, 2, (weir_tensor *[]){buffer, grad}, NULL, 0, NULL);
}

weir_status weir_accumulate_tree(weir_tensor *partial, weir_tensor *grad, weir_tensor *count)
{
    weir_tensor *const in[] = {partial, grad, count};

    return weir_record(WEIR_OP_ACCUMULATE_TREE, 3, in, NULL, 0, NULL);
}

weir_status weir_reset(weir_tensor *t, double value)
{
    const weir_reset_attr a = {.value = value};

    return weir_record(WEIR_OP_RESET, 1, &t, &a, sizeof a, NULL);
}

weir_status weir_assign(weir_tensor *to, weir_tensor *from)
{
    if (!to || !from)
        return weir_poison(weir_fail_null("weir_assign", to ? "from" : "to"));
    return weir_record(WEIR_OP_ASSIGN, 2, (weir_tensor *[]){to, from}, NULL, 0, NULL);
}
