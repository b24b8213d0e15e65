/* activation.h - flags and gradients of the rows that activation.c differentiates.
 *
 * Included by elementwise.c, which builds the definitions, after its macros PLAIN and GRAD. */
#ifndef WEIR_GRAPH_OPS_ACTIVATION_H
#define WEIR_GRAPH_OPS_ACTIVATION_H

#include "graph/ops/op.h"

#define WEIR_ACTIVATIONS(X) X(prelu) X(step) X(sin) X(cos) X(acos) X(sinh) X(cosh) X(pow)

#define WEIR_ACTIVATION_GRAD(id) weir_status weir_##id##_grad_of(weir_grad *g);
WEIR_ACTIVATIONS(WEIR_ACTIVATION_GRAD)
#undef WEIR_ACTIVATION_GRAD

/* The gradient reads the input. */
#define BY_INPUT(id)         PLAIN, GRAD(weir_##id##_grad_of, 1, 1, 0)

#define DEF_PRELU            PLAIN, GRAD(weir_prelu_grad_of, 3, 3, 0)
#define DEF_PRELU_GRAD_X     PLAIN
#define DEF_PRELU_GRAD_SLOPE PLAIN
#define DEF_FLOOR            PLAIN, GRAD(weir_step_grad_of, 1, 0, 0)
#define DEF_CEIL             DEF_FLOOR
#define DEF_ROUND            DEF_FLOOR
#define DEF_ROUND_EVEN       DEF_FLOOR
#define DEF_SIGN             DEF_FLOOR
#define DEF_SIN              BY_INPUT(sin)
#define DEF_COS              BY_INPUT(cos)
#define DEF_ACOS             BY_INPUT(acos)
#define DEF_SINH             BY_INPUT(sinh)
#define DEF_COSH             BY_INPUT(cosh)
#define DEF_POW              AUTOCAST_F32, .promotes = 3, GRAD(weir_pow_grad_of, 3, 3, 1)
#define DEF_POW_GRAD_BASE    PLAIN
#define DEF_POW_GRAD_EXP     PLAIN

#endif
