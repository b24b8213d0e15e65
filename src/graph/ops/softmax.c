/* softmax.c - definitions of softmax and log-softmax along one axis.
 *
 * Gradients read the result y, so the input need not be kept: dx = y (dy - sum(dy y)) for softmax,
 * dx = dy - exp(y) sum(dy) for log-softmax. */
#include "graph/ops/axes.h"

static weir_status softmax_infer(weir_call *c)
{
    WEIR_TRY(weir_check_any_floats(c));
    weir_out_like(c, 0, 0);
    return WEIR_OK;
}

static weir_status softmax_grad_infer(weir_call *c)
{
    WEIR_TRY(weir_check_any_floats(c));
    WEIR_TRY(weir_check_dims(c, 1, "y", &c->in[0].desc));
    weir_out_like(c, 0, 0);
    return WEIR_OK;
}

/* Per element: maximum, difference, exponential, sum, scaling. */
static double softmax_flops(const weir_call *c)
{
    return 5 * weir_flops_input(c);
}

static weir_status grad_of(weir_grad *g, weir_op op)
{
    return weir_grad_set(g, 0, weir_record1(op, 2, (weir_tensor *[]){g->dy[0], g->y[0]}, g->attr,
                                            sizeof(weir_axis_attr)));
}

static weir_status softmax_grad(weir_grad *g)
{
    return grad_of(g, WEIR_OP_SOFTMAX_GRAD);
}

static weir_status log_softmax_grad(weir_grad *g)
{
    return grad_of(g, WEIR_OP_LOG_SOFTMAX_GRAD);
}

#define SOFTMAX(id)                                                                                \
    const weir_opdef weir_op_##id = {                                                              \
        .name = #id,                                                                               \
        .flags = WEIR_PURE | WEIR_PRESERVE_FORMAT,                                                 \
        .nin_min = 1,                                                                              \
        .nin_max = 1,                                                                              \
        .nout = 1,                                                                                 \
        .inplace = 1,                                                                              \
        .reads_out = 1,                                                                            \
        .differentiable = 1,                                                                       \
        .autocast_f32 = 1,                                                                         \
        .infer = softmax_infer,                                                                    \
        .grad = id##_grad,                                                                         \
        .flops = softmax_flops,                                                                    \
    };                                                                                             \
    /* dy, y -> dx */                                                                              \
    const weir_opdef weir_op_##id##_grad = {                                                       \
        .name = #id "_grad",                                                                       \
        .flags = WEIR_PURE | WEIR_PRESERVE_FORMAT,                                                 \
        .nin_min = 2,                                                                              \
        .nin_max = 2,                                                                              \
        .nout = 1,                                                                                 \
        .inplace = 3,                                                                              \
        .infer = softmax_grad_infer,                                                               \
        .flops = softmax_flops,                                                                    \
    }

SOFTMAX(softmax);
SOFTMAX(log_softmax);

/* ---- public functions ---- */

static weir_tensor *along(weir_op op, weir_tensor *x, int axis)
{
    const char *const who = weir_op_name(op);

    if (!x)
        return weir_null(who, "x");

    int at;
    if (weir_axis_of(who, &x->layout.desc, axis, &at) != WEIR_OK)
        return NULL;
    return weir_record1(op, 1, &x, &(weir_axis_attr){.axis = at}, sizeof(weir_axis_attr));
}

weir_tensor *weir_softmax(weir_tensor *x, int axis)
{
    return along(WEIR_OP_SOFTMAX, x, axis);
}

weir_tensor *weir_log_softmax(weir_tensor *x, int axis)
{
    return along(WEIR_OP_LOG_SOFTMAX, x, axis);
}
