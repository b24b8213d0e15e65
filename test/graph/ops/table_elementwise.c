/* table_elementwise.c - rows of what computes element by element, dropout included. */
#include <math.h>

#include "graph/ops/table.h"

/* Large ones are cut into several tasks (32 Ki elements each). */
static const op_set unary_sets[] = {
    {.in = "()", "scalar"},
    {.in = "(1)"},
    {.in = "(7)"},
    {.in = "(3,5)"},
    {.in = "(0,4)", "nothing"},
    {.in = "(2,0,3)t", "nothing, transposed"},
    {.in = "(2,3,4)t", "transposed"},
    {.in = "(4,5)b", "repeated"},
    {.in = "(4,5)l", "repeated"},
    {.in = "(2,3,4,5)", "image"},
    {.in = "(2,3,4,5)t", "image transposed"},
    {.in = "(2,3,2,3,2)"},
    {.in = "(1500)"},
    {.in = "(191,211)", "several tasks"},
    {0},
};

static const op_set binary_sets[] = {
    {.in = "()()", "scalars"},
    {.in = "(1)(7)"},
    {.in = "(7)(7)"},
    {.in = "(3,1)(1,4)", "both repeat"},
    {.in = "(2,3,4)(4)"},
    {.in = "(5)(2,3,5)"},
    {.in = "()(2,3)"},
    {.in = "(0,4)(4)", "nothing"},
    {.in = "(0,3)(1,1)", "nothing"},
    {.in = "(4,3)t(4,3)", "transposed"},
    {.in = "(4,3)b(3)l", "views that repeat"},
    {.in = "(2,1,4)t(3,1)", "transposed, both repeat"},
    {.in = "(2,3,4,5)(1,3,1,1)", "per channel"},
    {.in = "(2,3,4,5)(5)"},
    {.in = "(2,3,4,5)t(2,3,4,5)", "image transposed"},
    {.in = "(2,3,4,5)(2,3,4,5)", "images"},
    {.in = "(1500)(1500)"},
    {.in = "(191,211)(211)", "several tasks"},
    {.in = "(191,211)(191,1)", "several tasks"},
    {0},
};

static const op_set binary_wrong[] = {
    {.in = "(3,4)(5)", .status = WEIR_ERR_SHAPE},
    {.in = "(2,3)(3,2)", .status = WEIR_ERR_SHAPE},
    {.in = "(0)(2)", .status = WEIR_ERR_SHAPE},
    {.in = "(2,3,4)(2,1)t", .status = WEIR_ERR_SHAPE},
    {0},
};

static const op_set affine_sets[] = {
    {.in = "()", "scalar", {.s = 2, .t = -1}},
    {.in = "(7)", "identity", {.s = 1}},
    {.in = "(7)", "constant", {.t = 3}},
    {.in = "(3,5)", NULL, {.s = -0.5, .t = 0.25}},
    {.in = "(0,4)", "nothing", {.s = 2}},
    {.in = "(2,3,4)t", "transposed", {.s = 3}},
    {.in = "(4,5)b", "repeated", {.s = -1, .t = 1}},
    {.in = "(2,3,4,5)", "image", {.s = 1e-3, .t = 1e3}},
    {.in = "(1500)", NULL, {.s = 0.1, .t = 0.1}},
    {.in = "(191,211)", "several tasks", {.s = 1.5, .t = -0.3}},
    {0},
};

static const op_set dropout_sets[] = {
    {.in = "()", "scalar", {.s = 0.5}},
    {.in = "(1)", NULL, {.s = 0.25}},
    {.in = "(7)", "none dropped", {.s = 0}},
    {.in = "(7)", NULL, {.s = 0.5}},
    {.in = "(3,5)", NULL, {.s = 0.1}},
    {.in = "(0,4)", "nothing", {.s = 0.5}},
    {.in = "(2,3,4)t", "transposed", {.s = 0.5}},
    {.in = "(4,5)b", "repeated", {.s = 0.5}},
    {.in = "(2,3,4,5)", "image", {.s = 0.3}},
    {.in = "(2,3,4,5)t", "image transposed", {.s = 0.3}},
    {.in = "(1500)", NULL, {.s = 0.9}},
    {.in = "(191,211)", "several tasks", {.s = 0.5}},
    {0},
};

static const op_set dropout_wrong[] = {
    {.in = "(7)", "more than certain", {.s = 1.5}, .status = WEIR_ERR_INVALID},
    {.in = "(7)", "negative", {.s = -0.1}, .status = WEIR_ERR_INVALID},
    {.in = "(7)", "not a number", {.s = (double)NAN}, .status = WEIR_ERR_INVALID},
    {0},
};

#define UNARY(id)                                                                                  \
    static weir_tensor *build_##id(const op_call *c)                                               \
    {                                                                                              \
        return weir_##id(c->in[0]);                                                                \
    }
#define BINARY(id)                                                                                 \
    static weir_tensor *build_##id(const op_call *c)                                               \
    {                                                                                              \
        return weir_##id(c->in[0], c->in[1]);                                                      \
    }

UNARY(relu)
UNARY(sigmoid)
UNARY(tanh)
UNARY(exp)
UNARY(log)
UNARY(sqrt)
UNARY(rsqrt)
UNARY(abs)
UNARY(neg)
UNARY(square)
BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(div)
BINARY(div_floor)
BINARY(div_trunc)
BINARY(remainder)
BINARY(bitwise_and)
BINARY(bitwise_or)
BINARY(bitwise_xor)
BINARY(shift_left)
BINARY(shift_right)
BINARY(max)
BINARY(min)

static weir_tensor *build_affine(const op_call *c)
{
    return weir_affine(c->in[0], c->o->s, c->o->t);
}

static weir_tensor *build_dropout(const op_call *c)
{
    return weir_dropout(c->in[0], c->o->s);
}

/* Name in messages, range, allowed error in eps; "wide" rows go where a formula would overflow. */
#define UNARY_ROW(id, title, a, b, error)                                                          \
    {.name = title, .says = #id, .build = build_##id, .reference = ref_##id,                       \
     .types = OP_ANY_FLOAT, .in = {{OP_PARAM, a, b}}, .eps = error, .sets = unary_sets}
#define WIDE_ROW(id, title, a, b, error)                                                           \
    {.name = title, .says = #id, .build = build_##id, .reference = ref_##id,                       \
     .types = OP_ANY_FLOAT, .in = {{OP_DATA, a, b}}, .eps = error, .sets = unary_sets}
#define BINARY_ROW(id, low, high, error)                                                           \
    {.name = #id, .build = build_##id, .reference = ref_##id, .types = OP_ANY_FLOAT,               \
     .in = {{OP_PARAM, -2, 2}, {OP_PARAM, low, high}}, .eps = error, .sets = binary_sets,          \
     .wrong = binary_wrong, .any_type = 3}
#define INTEGER_ROW(id, title)                                                                     \
    {.name = title, .says = #id, .build = build_##id, .reference = ref_##id,                       \
     .types = OP_INTEGERS, .in = {{OP_DATA, -90, 90}, {OP_DATA, -70, 110}}, .sets = binary_sets,   \
     .wrong = binary_wrong, .any_type = 3}
/* Quotients below 1 in size, where the remainder has slopes; steps have none. */
#define WHOLE_ROW(id, title, kind, from, to, low, high)                                            \
    {.name = title, .says = #id, .build = build_##id, .reference = ref_##id,                       \
     .types = OP_ANY_FLOAT, .in = {{kind, from, to}, {kind, low, high}}, .eps = 1,                 \
     .sets = binary_sets, .wrong = binary_wrong, .any_type = 3}
#define DIVISOR_ROW(id, title)                                                                     \
    {.name = title, .says = #id, .build = build_##id, .reference = ref_##id,                       \
     .types = OP_INTEGERS, .in = {{OP_DATA, -90, 90}, {OP_DATA, 1, 110}}, .sets = binary_sets,     \
     .wrong = binary_wrong, .any_type = 3}
#define SHIFT_ROW(id)                                                                              \
    {.name = #id, .build = build_##id, .reference = ref_##id, .types = OP_INTEGERS,                \
     .in = {{OP_DATA, -90, 90}, {OP_DATA, 0, 8}}, .sets = binary_sets, .wrong = binary_wrong}
#define INTEGERS_ROW(id, title)                                                                    \
    {.name = title, .says = #id, .build = build_##id, .reference = ref_##id,                       \
     .types = OP_INTEGERS, .in = {{OP_DATA, -90, 90}}, .sets = unary_sets}

const op_row op_elementwise[] = {
    UNARY_ROW(relu, "relu", -2, 2, 0),
    UNARY_ROW(sigmoid, "sigmoid", -4, 4, 4),
    UNARY_ROW(tanh, "tanh", -3, 3, 4),
    UNARY_ROW(exp, "exp", -3, 3, 4),
    UNARY_ROW(log, "log", 0.2, 9, 4),
    UNARY_ROW(sqrt, "sqrt", 0.2, 9, 1),
    UNARY_ROW(rsqrt, "rsqrt", 0.2, 9, 2),
    UNARY_ROW(abs, "abs", -2, 2, 0),
    UNARY_ROW(neg, "neg", -2, 2, 0),
    UNARY_ROW(square, "square", -2, 2, 1),
    WIDE_ROW(sigmoid, "sigmoid (wide)", -85, 85, 4),
    WIDE_ROW(tanh, "tanh (wide)", -85, 85, 4),
    WIDE_ROW(tanh, "tanh (near 0)", -1e-3, 1e-3, 4),
    WIDE_ROW(exp, "exp (wide)", -85, 85, 4),
    WIDE_ROW(log, "log (wide)", 1e-30, 1e30, 4),
    {.name = "affine", .build = build_affine, .reference = ref_affine, .types = OP_ANY_FLOAT,
     .in = {{OP_PARAM, -2, 2}}, .eps = 2, .rms = true, .sets = affine_sets},
    BINARY_ROW(add, -3, 3, 1),
    BINARY_ROW(sub, -3, 3, 1),
    BINARY_ROW(mul, -3, 3, 1),
    BINARY_ROW(div, 0.5, 3, 1),
    WHOLE_ROW(div_floor, "div_floor", OP_DATA, -2, 2, 0.3, 3),
    WHOLE_ROW(div_trunc, "div_trunc", OP_DATA, -2, 2, 0.3, 3),
    WHOLE_ROW(remainder, "remainder", OP_DATA, -2, 2, 0.3, 3),
    WHOLE_ROW(remainder, "remainder (above 0)", OP_PARAM, 0.1, 0.9, 1.1, 3),
    WHOLE_ROW(remainder, "remainder (below 0)", OP_PARAM, -0.9, -0.1, 1.1, 3),
    DIVISOR_ROW(div_floor, "div_floor (integers)"),
    DIVISOR_ROW(div_trunc, "div_trunc (integers)"),
    DIVISOR_ROW(remainder, "remainder (integers)"),
    INTEGER_ROW(bitwise_and, "bitwise_and"),
    INTEGER_ROW(bitwise_or, "bitwise_or"),
    INTEGER_ROW(bitwise_xor, "bitwise_xor"),
    SHIFT_ROW(shift_left),
    SHIFT_ROW(shift_right),
    BINARY_ROW(max, -3, 3, 0),
    BINARY_ROW(min, -3, 3, 0),
    INTEGER_ROW(add, "add (integers)"),
    INTEGER_ROW(sub, "sub (integers)"),
    INTEGER_ROW(mul, "mul (integers)"),
    {.name = "div (integers)", .says = "div", .build = build_div, .reference = ref_div_whole,
     .types = OP_INTEGERS, .in = {{OP_DATA, -90, 90}, {OP_DATA, 1, 110}}, .eps = 1,
     .sets = binary_sets, .wrong = binary_wrong, .any_type = 3},
    INTEGER_ROW(max, "max (integers)"),
    INTEGER_ROW(min, "min (integers)"),
    INTEGERS_ROW(abs, "abs (integers)"),
    INTEGERS_ROW(neg, "neg (integers)"),
    INTEGERS_ROW(square, "square (integers)"),
    {.name = "dropout", .build = build_dropout, .reference = ref_dropout, .types = OP_ANY_FLOAT,
     .in = {{OP_PARAM, 1, 3}}, .eps = 2, .sets = dropout_sets,
     .wrong = dropout_wrong},
    {0},
};
