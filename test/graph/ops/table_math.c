/* table_math.c - rows of activations and functions of one number, of prelu and pow. */
#include <math.h>

#include "graph/ops/table.h"

#define UNARY_SETS(...)                                                                            \
    {                                                                                              \
        {.in = "()", "scalar", {__VA_ARGS__}},                                                     \
        {.in = "(7)", NULL, {__VA_ARGS__}},                                                        \
        {.in = "(3,5)", NULL, {__VA_ARGS__}},                                                      \
        {.in = "(0,4)", "nothing", {__VA_ARGS__}},                                                 \
        {.in = "(2,3,4)t", "transposed", {__VA_ARGS__}},                                           \
        {.in = "(4,5)l", "repeated", {__VA_ARGS__}},                                               \
        {.in = "(2,3,4,5)", "image", {__VA_ARGS__}},                                               \
        {.in = "(2,3,4,5)t", "image transposed", {__VA_ARGS__}},                                   \
        {.in = "(191,211)", "several tasks", {__VA_ARGS__}},                                       \
        {0},                                                                                       \
    }

static const op_set unary_sets[] = UNARY_SETS(.s = 0);
static const op_set slope_sets[] = UNARY_SETS(.s = 0.125);
static const op_set alpha_sets[] = UNARY_SETS(.s = 1.5);
static const op_set clamp_sets[] = UNARY_SETS(.s = -0.5, .t = 1.25);

static const op_set clamp_whole_sets[] = UNARY_SETS(.s = -20, .t = 30);

static const op_set clamp_whole_wrong[] = {
    {.in = "(3)", "nothing between", {.s = 0.25, .t = 0.75}, .status = WEIR_ERR_INVALID,
     .says = "no integer"},
    {0},
};

static const op_set clamp_wrong[] = {
    {.in = "(3)", "lo above hi", {.s = 1, .t = -1}, .status = WEIR_ERR_INVALID, .says = "lo"},
    {0},
};

static const op_set prelu_sets[] = {
    {.in = "(5,3)(3)", "per channel"},
    {.in = "(4)(1)", "one slope"},
    {.in = "(2,3)()", "one slope"},
    {.in = "()(1)", "scalar"},
    {.in = "(0,3)(3)", "nothing"},
    {.in = "(2,3,4)t(3)", "transposed"},
    {.in = "(4,5)b(5)", "repeated"},
    {.in = "(2,3,4,5)(3)", "image"},
    {.in = "(2,3,4,5)t(3)", "image transposed"},
    {.in = "(2,3,2,3,2)(3)"},
    {.in = "(191,211)(211)", "several tasks"},
    {0},
};

static const op_set prelu_wrong[] = {
    {.in = "(2,3)(2)", .status = WEIR_ERR_SHAPE, .says = "slope"},
    {.in = "(3)(3)", .status = WEIR_ERR_SHAPE, .says = "slope"},
    {.in = "(2,3)(1,3)", .status = WEIR_ERR_SHAPE, .says = "slope"},
    {.in = "(2,3)(0)", .status = WEIR_ERR_SHAPE, .says = "slope"},
    {0},
};

static const op_set pow_sets[] = {
    {.in = "()()", "scalars"},
    {.in = "(7)(7)"},
    {.in = "(3,1)(1,4)", "both repeat"},
    {.in = "(2,3,4)()", "one exponent"},
    {.in = "()(2,3)", "one base"},
    {.in = "(0,4)(4)", "nothing"},
    {.in = "(4,3)t(4,3)", "transposed"},
    {.in = "(2,3,4,5)(1,3,1,1)", "per channel"},
    {.in = "(191,211)(211)", "several tasks"},
    {0},
};

static const op_set pow_wrong[] = {
    {.in = "(3,4)(5)", .status = WEIR_ERR_SHAPE},
    {0},
};

/* Functions of one number, whole: name, range, allowed error in eps, what it is of a. */
#define CURVES(X)                                                                                  \
    X(relu6, -2, 9, 0, ref_smaller(ref_larger(a, 0), 6))                                           \
    X(selu, -3, 3, 2, 1.0507009873554804934193349852946 *                                          \
      (a > 0 ? a : 1.6732632423543772848170429916717 * expm1(a)))                                  \
    X(gelu, -2, 3, 40, 0.5 * a * erfc(-a * sqrt(0.5)))                                             \
    X(silu, -4, 4, 4, a / (1 + exp(-a)))                                                           \
    X(hardsigmoid, -5, 5, 1, ref_smaller(ref_larger(a + 3, 0), 6) / 6)                             \
    X(hardswish, -5, 5, 2, a <= -3 ? 0 : a >= 3 ? a : a * (a + 3) / 6)                             \
    X(softplus, -4, 4, 4, a > 40 ? a : log1p(exp(a)))                                              \
    X(log_sigmoid, -4, 4, 4, a < -40 ? a : -log1p(exp(-a)))                                        \
    X(softsign, -3, 3, 2, a / (1 + fabs(a)))                                                       \
    X(erf, -3, 3, 4, erf(a))                                                                       \
    X(floor, -3, 3, 0, floor(a))                                                                   \
    X(ceil, -3, 3, 0, ceil(a))                                                                     \
    X(round, -3, 3, 0, round(a))                                                                   \
    X(round_even, -3, 3, 0, isinf(a) ? a : a - remainder(a, 1))                                    \
    X(sign, -2, 2, 0, isnan(a) ? a : (a > 0) - (a < 0))                                            \
    X(reciprocal, 0.3, 4, 1, 1 / a)                                                                \
    X(sin, -4, 4, 2, sin(a))                                                                       \
    X(cos, -4, 4, 2, cos(a))                                                                       \
    X(tan, -1.2, 1.2, 2, tan(a))                                                                   \
    X(asin, -0.9, 0.9, 2, asin(a))                                                                 \
    X(acos, -0.9, 0.9, 2, acos(a))                                                                 \
    X(atan, -4, 4, 3, atan(a))                                                                     \
    X(sinh, -3, 3, 2, sinh(a))                                                                     \
    X(cosh, -3, 3, 2, cosh(a))                                                                     \
    X(asinh, -3, 3, 2, asinh(a))                                                                   \
    X(acosh, 1.2, 9, 2, acosh(a))                                                                  \
    X(atanh, -0.9, 0.9, 2, atanh(a))                                                               \
    X(log1p, -0.7, 4, 2, log1p(a))                                                                 \
    X(expm1, -3, 3, 2, expm1(a))                                                                   \
    X(exp2, -6, 6, 2, exp2(a))

#define FUNCTIONS(id, a, b, error, expr)                                                           \
    void ref_##id(ref_call *c);                                                                    \
    REF_EACH(id, expr)                                                                             \
    static weir_tensor *build_##id(const op_call *c)                                               \
    {                                                                                              \
        return weir_##id(c->in[0]);                                                                \
    }
CURVES(FUNCTIONS)

static weir_tensor *build_leaky_relu(const op_call *c)
{
    return weir_leaky_relu(c->in[0], c->o->s);
}

static weir_tensor *build_elu(const op_call *c)
{
    return weir_elu(c->in[0], c->o->s);
}

static weir_tensor *build_clamp(const op_call *c)
{
    return weir_clamp(c->in[0], c->o->s, c->o->t);
}

static weir_tensor *build_prelu(const op_call *c)
{
    return weir_prelu(c->in[0], c->in[1]);
}

static weir_tensor *build_pow(const op_call *c)
{
    return weir_pow(c->in[0], c->in[1]);
}

/* Name in messages, range, allowed error in eps; a row of DATA goes where slopes are too steep for
 * differences. */
#define ROW_OF_TYPES(id, title, all, kind, a, b, error, shapes)                                    \
    .name = title, .says = #id, .build = build_##id, .reference = ref_##id, .types = all,          \
    .in = {{kind, a, b}}, .eps = error, .sets = shapes
#define ROW_OF(id, title, kind, a, b, error, shapes)                                               \
    ROW_OF_TYPES(id, title, OP_ANY_FLOAT, kind, a, b, error, shapes)
#define UNARY_ROW(id, a, b, error, expr) {ROW_OF(id, #id, OP_PARAM, a, b, error, unary_sets)},
#define WIDE_ROW(id, title, a, b, error) {ROW_OF(id, title, OP_DATA, a, b, error, unary_sets)}

const op_row op_math[] = {
    CURVES(UNARY_ROW)
    {ROW_OF(leaky_relu, "leaky_relu", OP_PARAM, -2, 2, 1, slope_sets)},
    {ROW_OF(elu, "elu", OP_PARAM, -3, 3, 2, alpha_sets)},
    {ROW_OF(clamp, "clamp", OP_PARAM, -2, 2, 0, clamp_sets), .wrong = clamp_wrong},
    {ROW_OF_TYPES(clamp, "clamp (integers)", OP_INTEGERS, OP_DATA, -60, 60, 0, clamp_whole_sets),
     .wrong = clamp_whole_wrong},
    {ROW_OF_TYPES(sign, "sign (integers)", OP_INTEGERS, OP_DATA, -2, 3, 0, unary_sets)},
    WIDE_ROW(softplus, "softplus (wide)", -80, 80, 4),
    WIDE_ROW(erf, "erf (near 0)", -1e-3, 1e-3, 4),
    WIDE_ROW(sin, "sin (wide)", -1e12, 1e12, 2),
    WIDE_ROW(cos, "cos (wide)", -1e30, 1e30, 2),
    WIDE_ROW(tan, "tan (wide)", -1e6, 1e6, 2),
    WIDE_ROW(sinh, "sinh (near 0)", -2e-3, 2e-3, 2),
    WIDE_ROW(asinh, "asinh (near 0)", -2e-3, 2e-3, 2),
    WIDE_ROW(log1p, "log1p (near 0)", -1e-5, 1e-5, 2),
    WIDE_ROW(expm1, "expm1 (near 0)", -1e-5, 1e-5, 2),
    {.name = "prelu", .build = build_prelu, .reference = ref_prelu, .types = OP_ANY_FLOAT,
     .in = {{OP_PARAM, -2, 2}, {OP_PARAM, -0.5, 1}}, .eps = 1, .sets = prelu_sets,
     .wrong = prelu_wrong},
    {.name = "pow", .build = build_pow, .reference = ref_pow, .types = OP_ANY_FLOAT,
     .in = {{OP_PARAM, 0.2, 3}, {OP_PARAM, -2, 3}}, .eps = 2, .sets = pow_sets, .wrong = pow_wrong,
     .any_type = 3},
    {.name = "pow (integers)", .says = "pow", .build = build_pow, .reference = ref_pow,
     .types = OP_INTEGERS, .in = {{OP_DATA, -5, 6}, {OP_DATA, 0, 4}}, .sets = pow_sets,
     .wrong = pow_wrong, .any_type = 3},
    {0},
};
