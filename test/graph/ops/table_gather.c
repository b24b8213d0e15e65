/* table_gather.c - rows of reading and adding by index, one-hot rows, ranges, coin flips. */
#include "graph/ops/table.h"

static const op_set gather_sets[] = {
    {.in = "(5,3)(4)", "rows"},
    {.in = "(5,3)(2,3)", "embedding of a matrix of indices"},
    {.in = "(4,2,3)(3)", "rows of matrices"},
    {.in = "(5)(3)", "a vector's elements"},
    {.in = "(5,3)()", "one row"},
    {.in = "(1,3)(7)", "always the same"},
    {.in = "(5,3)t(4)", "transposed table"},
    {.in = "(5,3)b(6)b", "repeated"},
    {.in = "(5,3)(0)", "no index"},
    {.in = "(0,3)(0)", "nothing"},
    {.in = "(5,0)(4)", "empty rows"},
    {.in = "(5,2,3,2)(3)", "rows of images"},
    {.in = "(5,3)(2,2,2)", "to an image"},
    {.in = "(300,70)(500)", "several tasks"},
    {0},
};

static const op_set gather_wrong[] = {
    {.in = "()(3)", "scalar table", .status = WEIR_ERR_SHAPE, .says = "no rows"},
    {.in = "(2,1,1,1,1,1,1,2)(1,1)", "9 axes", .status = WEIR_ERR_SHAPE, .says = "axes"},
    {0},
};

static const op_set scatter_sets[] = {
    {.in = "(5,3)(4)(4,3)", "rows"},
    {.in = "(5,3)(2,3)(2,3,3)", "a matrix of indices"},
    {.in = "(4,2,3)(3)(3,2,3)", "rows of matrices"},
    {.in = "(5)(3)(3)", "a vector's elements"},
    {.in = "(5,3)()(3)", "one row"},
    {.in = "(1,3)(7)(7,3)", "always the same"},
    {.in = "(5,3)t(4)(4,3)b", "views"},
    {.in = "(5,3)(0)(0,3)", "no index"},
    {.in = "(0,3)(0)(0,3)", "nothing"},
    {.in = "(5,0)(4)(4,0)", "empty rows"},
    {.in = "(300,70)(500)(500,70)", "several tasks"},
    {0},
};

static const op_set scatter_wrong[] = {
    {.in = "(5,3)(4)(4,2)", "row length", .status = WEIR_ERR_SHAPE, .says = "(4,2)"},
    {.in = "(5,3)(4)(3,3)", "rows", .status = WEIR_ERR_SHAPE, .says = "(3,3)"},
    {.in = "()(4)(4)", "scalar", .status = WEIR_ERR_SHAPE, .says = "no rows"},
    {0},
};

#define HOT(depth, type) {.to = {depth}, .cast = type}

static const op_set one_hot_sets[] = {
    {.in = "(7)", "f32", HOT(5, WEIR_F32)},
    {.in = "(3,4)", "f64", HOT(5, WEIR_F64)},
    {.in = "()", "scalar", HOT(5, WEIR_F32)},
    {.in = "(6)", "i32", HOT(3, WEIR_I32)},
    {.in = "(3,4)t", "i64", HOT(4, WEIR_I64)},
    {.in = "(6)", "u8", HOT(4, WEIR_U8)},
    {.in = "(5)", "i16", HOT(4, WEIR_I16)},
    {.in = "(2,3,2)", "bool, to an image", HOT(4, WEIR_BOOL)},
    {.in = "(2,3,2)", "to an image", HOT(4, WEIR_F32)},
    {.in = "(0)", "depth 0", HOT(0, WEIR_F32)},
    {.in = "(0)", "nothing", HOT(5, WEIR_F32)},
    {.in = "(4,3)b", "repeated", HOT(5, WEIR_F32)},
    {.in = "(900)", "several tasks", HOT(60, WEIR_F32)},
    {0},
};

static const op_set one_hot_wrong[] = {
    {.in = "(3)", "depth -1", HOT(-1, WEIR_F32), .status = WEIR_ERR_SHAPE, .says = "-1"},
    {.in = "(3)", "depth", HOT(INT64_MAX, WEIR_F32), .status = WEIR_ERR_SHAPE, .says = "large"},
    {.in = "(3)", "type 17", HOT(3, (weir_dtype)17), .status = WEIR_ERR_DTYPE, .says = "17"},
    {0},
};

static const op_set arange_up_sets[] = {
    {.in = "(7)", "0 to 6", {.s = 0, .t = 1}},
    {.in = "(256)", "all there are", {.s = 0, .t = 1}},
    {.in = "(5)", "halves", {.s = 253, .t = 0.5}},
    {0},
};

static const op_set arange_low_sets[] = {
    {.in = "(256)", "all there are", {.s = -128, .t = 1}},
    {.in = "(5)", "down", {.s = 4, .t = -2}},
    {0},
};

static const op_set arange_sets[] = {
    {.in = "(7)", "0 to 6", {.s = 0, .t = 1}},
    {.in = "(1)", NULL, {.s = 3, .t = 0.5}},
    {.in = "(5)", "down", {.s = 4, .t = -2}},
    {.in = "(0)", "nothing", {.s = 4, .t = 2}},
    {.in = "(11)", "fractions", {.s = -1, .t = 0.1}},
    {.in = "(4)", "constant", {.s = 7, .t = 0}},
    {.in = "(1500)", NULL, {.s = 1, .t = 3}},
    {.in = "(70001)", "several tasks", {.s = 0, .t = 1}},
    {0},
};

static const op_set arange_wrong[] = {
    {.in = "(-3)", "negative", {.t = 1}, .status = WEIR_ERR_SHAPE, .says = "-3"},
    {0},
};

static const op_set bernoulli_sets[] = {
    {.in = "(7)", NULL, {.s = 0.5}},
    {.in = "(3,5)", "never", {.s = 0}},
    {.in = "(3,5)", "always", {.s = 1}},
    {.in = "()", "scalar", {.s = 0.5}},
    {.in = "(1)", NULL, {.s = 0.25}},
    {.in = "(0,4)", "nothing", {.s = 0.5}},
    {.in = "(2,3,4,5)", "image", {.s = 0.75}},
    {.in = "(191,211)", "several tasks", {.s = 0.5}},
    {0},
};

static const op_set bernoulli_wrong[] = {
    {.in = "(3)", "above 1", {.s = 1.5}, .status = WEIR_ERR_INVALID, .says = "1.5"},
    {.in = "(3)", "below 0", {.s = -0.5}, .status = WEIR_ERR_INVALID, .says = "-0.5"},
    {.in = "(3,-1)", "negative", {.s = 0.5}, .status = WEIR_ERR_SHAPE, .says = "-1"},
    {0},
};

static weir_tensor *gather(const op_call *c)
{
    return weir_gather(c->in[0], c->in[1]);
}

static weir_tensor *scatter_add(const op_call *c)
{
    return weir_scatter_add(c->in[0], c->in[1], c->in[2]);
}

static weir_tensor *one_hot(const op_call *c)
{
    return weir_one_hot(c->in[0], c->o->to[0], c->o->cast);
}

static weir_tensor *arange(const op_call *c)
{
    return weir_arange(c->dev, c->desc.dtype, c->desc.dim[0], c->o->s, c->o->t);
}

static weir_tensor *bernoulli(const op_call *c)
{
    return weir_bernoulli(c->dev, c->desc, c->o->s);
}

const op_row op_gather[] = {
    {.name = "gather", .build = gather, .reference = ref_gather, .types = OP_ALL,
     .in = {{OP_PARAM, -2, 9}, {OP_ROW_I64, 0, 0}}, .sets = gather_sets, .wrong = gather_wrong},
    {.name = "gather (i32)", .says = "gather", .build = gather, .reference = ref_gather,
     .types = OP_ALL, .in = {{OP_PARAM, -2, 9}, {OP_ROW_I32, 0, 0}}, .sets = gather_sets},
    {.name = "scatter_add", .build = scatter_add, .reference = ref_scatter_add,
     .types = OP_NUMBERS, .in = {{OP_PARAM, 1, 2}, {OP_ROW_I64, 0, 0}, {OP_PARAM, 2, 3}}, .eps = 24,
     .sets = scatter_sets, .wrong = scatter_wrong},
    {.name = "scatter_add (i32)", .says = "scatter_add", .build = scatter_add,
     .reference = ref_scatter_add, .types = OP_F32 | OP_F64,
     .in = {{OP_PARAM, 1, 2}, {OP_ROW_I32, 0, 0}, {OP_PARAM, 2, 3}}, .eps = 24,
     .sets = scatter_sets},
    {.name = "one_hot", .build = one_hot, .reference = ref_one_hot, .types = OP_I32 | OP_I64,
     .in = {{OP_DATA, 0, 2}}, .sets = one_hot_sets, .wrong = one_hot_wrong},
    {.name = "arange (u8)", .says = "arange", .build = arange, .reference = ref_arange,
     .types = OP_U8 | OP_U16 | OP_U32 | OP_U64, .sets = arange_up_sets},
    {.name = "arange (i8, i16)", .says = "arange", .build = arange, .reference = ref_arange,
     .types = OP_I8 | OP_I16, .sets = arange_low_sets},
    {.name = "arange", .build = arange, .reference = ref_arange,
     .types = OP_ANY_FLOAT | OP_I32 | OP_I64, .eps = 1, .sets = arange_sets,
     .wrong = arange_wrong},
    {.name = "bernoulli", .build = bernoulli, .reference = ref_drawn, .types = OP_ANY_FLOAT,
     .sets = bernoulli_sets, .wrong = bernoulli_wrong},
    {0},
};
