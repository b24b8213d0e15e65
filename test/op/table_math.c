/* table_math.c - rows of activations and functions of one number, of prelu and pow. */
#include "op/table.h"

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

#define UNARY(id)                                                                                  \
    static weir_tensor *build_##id(const op_call *c)                                               \
    {                                                                                              \
        return weir_##id(c->in[0]);                                                                \
    }

UNARY(selu)
UNARY(gelu)
UNARY(silu)
UNARY(hardsigmoid)
UNARY(softplus)
UNARY(softsign)
UNARY(erf)
UNARY(floor)
UNARY(ceil)
UNARY(round)
UNARY(round_even)
UNARY(sign)
UNARY(reciprocal)
UNARY(sin)
UNARY(cos)
UNARY(tan)
UNARY(asin)
UNARY(acos)
UNARY(atan)
UNARY(sinh)
UNARY(cosh)
UNARY(asinh)
UNARY(acosh)
UNARY(atanh)
UNARY(log1p)
UNARY(expm1)

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
#define UNARY_ROW(id, a, b, error)       {ROW_OF(id, #id, OP_PARAM, a, b, error, unary_sets)}
#define WIDE_ROW(id, title, a, b, error) {ROW_OF(id, title, OP_DATA, a, b, error, unary_sets)}

const op_row op_math[] = {
    {ROW_OF(leaky_relu, "leaky_relu", OP_PARAM, -2, 2, 1, slope_sets)},
    {ROW_OF(elu, "elu", OP_PARAM, -3, 3, 2, alpha_sets)},
    {ROW_OF(clamp, "clamp", OP_PARAM, -2, 2, 0, clamp_sets), .wrong = clamp_wrong},
    {ROW_OF_TYPES(clamp, "clamp (integers)", OP_INTEGERS, OP_DATA, -60, 60, 0, clamp_whole_sets),
     .wrong = clamp_whole_wrong},
    {ROW_OF_TYPES(sign, "sign (integers)", OP_INTEGERS, OP_DATA, -2, 3, 0, unary_sets)},
    UNARY_ROW(selu, -3, 3, 2),
    UNARY_ROW(gelu, -2, 3, 40),
    UNARY_ROW(silu, -4, 4, 4),
    UNARY_ROW(hardsigmoid, -5, 5, 1),
    UNARY_ROW(softplus, -4, 4, 4),
    WIDE_ROW(softplus, "softplus (wide)", -80, 80, 4),
    UNARY_ROW(softsign, -3, 3, 2),
    UNARY_ROW(erf, -3, 3, 4),
    WIDE_ROW(erf, "erf (near 0)", -1e-3, 1e-3, 4),
    UNARY_ROW(floor, -3, 3, 0),
    UNARY_ROW(ceil, -3, 3, 0),
    UNARY_ROW(round, -3, 3, 0),
    UNARY_ROW(round_even, -3, 3, 0),
    UNARY_ROW(sign, -2, 2, 0),
    UNARY_ROW(reciprocal, 0.3, 4, 1),
    UNARY_ROW(sin, -4, 4, 2),
    WIDE_ROW(sin, "sin (wide)", -1e12, 1e12, 2),
    UNARY_ROW(cos, -4, 4, 2),
    WIDE_ROW(cos, "cos (wide)", -1e30, 1e30, 2),
    UNARY_ROW(tan, -1.2, 1.2, 2),
    WIDE_ROW(tan, "tan (wide)", -1e6, 1e6, 2),
    UNARY_ROW(asin, -0.9, 0.9, 2),
    UNARY_ROW(acos, -0.9, 0.9, 2),
    UNARY_ROW(atan, -4, 4, 3),
    UNARY_ROW(sinh, -3, 3, 2),
    WIDE_ROW(sinh, "sinh (near 0)", -2e-3, 2e-3, 2),
    UNARY_ROW(cosh, -3, 3, 2),
    UNARY_ROW(asinh, -3, 3, 2),
    WIDE_ROW(asinh, "asinh (near 0)", -2e-3, 2e-3, 2),
    UNARY_ROW(acosh, 1.2, 9, 2),
    UNARY_ROW(atanh, -0.9, 0.9, 2),
    UNARY_ROW(log1p, -0.7, 4, 2),
    WIDE_ROW(log1p, "log1p (near 0)", -1e-5, 1e-5, 2),
    UNARY_ROW(expm1, -3, 3, 2),
    WIDE_ROW(expm1, "expm1 (near 0)", -1e-5, 1e-5, 2),
    {.name = "prelu", .build = build_prelu, .reference = ref_prelu, .types = OP_ANY_FLOAT,
     .in = {{OP_PARAM, -2, 2}, {OP_PARAM, -0.5, 1}}, .eps = 1, .sets = prelu_sets,
     .wrong = prelu_wrong},
    {.name = "pow", .build = build_pow, .reference = ref_pow, .types = OP_ANY_FLOAT,
     .in = {{OP_PARAM, 0.2, 3}, {OP_PARAM, -2, 3}}, .eps = 2, .sets = pow_sets, .wrong = pow_wrong,
     .any_type = 3},
    {0},
};
