/* activation.h - flags and gradients of the rows of activations and functions: activation.c.
 *
 * Included by elementwise.c, which makes the definitions, after its PLAIN and GRAD. */
#ifndef WEIR_GRAPH_OP_ACTIVATION_H
#define WEIR_GRAPH_OP_ACTIVATION_H

#include "graph/op/op.h"

#define WEIR_ACTIVATIONS(X)                                                                        \
    X(leaky_relu) X(elu) X(selu) X(gelu) X(silu) X(hardsigmoid) X(softplus) X(softsign) X(prelu)   \
    X(erf) X(step) X(reciprocal) X(clamp) X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(sinh)     \
    X(cosh) X(asinh) X(acosh) X(atanh) X(log1p) X(expm1) X(pow)

#define WEIR_ACTIVATION_GRAD(id) weir_status weir_##id##_grad_of(weir_grad *g);
WEIR_ACTIVATIONS(WEIR_ACTIVATION_GRAD)
#undef WEIR_ACTIVATION_GRAD

/* The gradient reads the input, the result. */
#define BY_INPUT(id)         PLAIN, GRAD(weir_##id##_grad_of, 1, 1, 0)
#define BY_RESULT(id)        PLAIN, GRAD(weir_##id##_grad_of, 1, 0, 1)

#define DEF_LEAKY_RELU       BY_INPUT(leaky_relu)
#define DEF_LEAKY_RELU_GRAD  PLAIN
#define DEF_ELU              BY_INPUT(elu)
#define DEF_ELU_GRAD         PLAIN
#define DEF_SELU             BY_INPUT(selu)
#define DEF_SELU_GRAD        PLAIN
#define DEF_GELU             BY_INPUT(gelu)
#define DEF_GELU_GRAD        PLAIN
#define DEF_SILU             BY_INPUT(silu)
#define DEF_SILU_GRAD        PLAIN
#define DEF_HARDSIGMOID      BY_INPUT(hardsigmoid)
#define DEF_HARDSIGMOID_GRAD PLAIN
#define DEF_SOFTPLUS         BY_INPUT(softplus)
#define DEF_SOFTPLUS_GRAD    PLAIN
#define DEF_SOFTSIGN         BY_INPUT(softsign)
#define DEF_SOFTSIGN_GRAD    PLAIN
#define DEF_PRELU            PLAIN, GRAD(weir_prelu_grad_of, 3, 3, 0)
#define DEF_PRELU_GRAD_X     PLAIN
#define DEF_PRELU_GRAD_SLOPE PLAIN
#define DEF_ERF              BY_INPUT(erf)
#define DEF_ERF_GRAD         PLAIN
#define DEF_FLOOR            PLAIN, GRAD(weir_step_grad_of, 1, 0, 0)
#define DEF_CEIL             DEF_FLOOR
#define DEF_ROUND            DEF_FLOOR
#define DEF_ROUND_EVEN       DEF_FLOOR
#define DEF_SIGN             DEF_FLOOR
#define DEF_RECIPROCAL       BY_RESULT(reciprocal)
#define DEF_RECIPROCAL_GRAD  PLAIN
#define DEF_CLAMP            BY_INPUT(clamp)
#define DEF_CLAMP_GRAD       PLAIN
#define DEF_SIN              BY_INPUT(sin)
#define DEF_COS              BY_INPUT(cos)
#define DEF_TAN              BY_RESULT(tan)
#define DEF_TAN_GRAD         PLAIN
#define DEF_ASIN             BY_INPUT(asin)
#define DEF_ASIN_GRAD        PLAIN
#define DEF_ACOS             BY_INPUT(acos)
#define DEF_ATAN             BY_INPUT(atan)
#define DEF_ATAN_GRAD        PLAIN
#define DEF_SINH             BY_INPUT(sinh)
#define DEF_COSH             BY_INPUT(cosh)
#define DEF_ASINH            BY_INPUT(asinh)
#define DEF_ASINH_GRAD       PLAIN
#define DEF_ACOSH            BY_INPUT(acosh)
#define DEF_ACOSH_GRAD       PLAIN
#define DEF_ATANH            BY_INPUT(atanh)
#define DEF_ATANH_GRAD       PLAIN
#define DEF_LOG1P            BY_INPUT(log1p)
#define DEF_LOG1P_GRAD       PLAIN
#define DEF_EXPM1            BY_RESULT(expm1)
#define DEF_EXPM1_GRAD       PLAIN
#define DEF_POW              PROMOTED, GRAD(weir_pow_grad_of, 3, 3, 1)
#define DEF_POW_GRAD_BASE    PLAIN
#define DEF_POW_GRAD_EXP     PLAIN

#endif
