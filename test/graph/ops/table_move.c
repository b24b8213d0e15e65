/* table_move.c - rows of what views, moves, converts and makes elements. */
#include "graph/ops/table.h"

#define TO(n, ...) {.ndim = n, .to = {__VA_ARGS__}}
#define AS(type)   {.cast = type}
#define FAR        ((int64_t)1 << 40)

static const op_set reshape_sets[] = {
    {.in = "()", "scalar to (1,1)", TO(2, 1, 1)},
    {.in = "(1)", "to scalar", TO(0, 0)},
    {.in = "(7)", "unchanged", TO(1, 7)},
    {.in = "(3,4)", "to (2,6)", TO(2, 2, 6)},
    {.in = "(3,4)", "rest asked for", TO(3, 2, -1, 3)},
    {.in = "(0,4)", "nothing", TO(3, 2, 0, 3)},
    {.in = "(2,3,4)t", "transposed: moved", TO(2, 4, 6)},
    {.in = "(4,1,3)t", "transposed with a size of 1", TO(2, 4, 3)},
    {.in = "(4,6)b", "repeated", TO(3, 4, 2, 3)},
    {.in = "(2,3,4,5)", "image flattened: moved", TO(2, 2, 60)},
    {.in = "(6,20)", "to image", TO(4, 2, 3, 4, 5)},
    {.in = "(2,3,4,5)", "image to image", TO(4, 2, 6, 2, 5)},
    {.in = "(2,3,1,1)", "image of one pixel to rows", TO(2, 2, 3)},
    {.in = "(1500)", "to (3,500)", TO(2, 3, 500)},
    {.in = "(4,10,20,60)", "several tasks", TO(1, -1)},
    {0},
};

static const op_set reshape_wrong[] = {
    {.in = "(3,4)", "to (5,2)", TO(2, 5, 2), .status = WEIR_ERR_SHAPE, .says = "(5,2)"},
    {.in = "(3,4)", "two open", TO(2, -1, -1), .status = WEIR_ERR_INVALID, .says = "-1"},
    {.in = "(3,4)", "open beside 5", TO(2, -1, 5), .status = WEIR_ERR_SHAPE, .says = "12"},
    {.in = "(0,4)", "open beside 0", TO(2, -1, 0), .status = WEIR_ERR_SHAPE},
    {.in = "(3,4)", "negative", TO(2, -2, -6), .status = WEIR_ERR_SHAPE, .says = "-2"},
    {.in = "(3,4)", "overflow", TO(2, FAR, FAR), .status = WEIR_ERR_SHAPE},
    {.in = "(3,4)", "9 axes", TO(9, 1, 1, 1, 1, 1, 1, 3, 4), .status = WEIR_ERR_INVALID,
     .says = "9"},
    {0},
};

static const op_set flatten_sets[] = {
    {.in = "()", "scalar"},
    {.in = "(1)"},
    {.in = "(7)"},
    {.in = "(3,4)"},
    {.in = "(2,3,4)"},
    {.in = "(2,3,4,5)", "image: moved"},
    {.in = "(2,3,1,1)", "image of one pixel"},
    {.in = "(0,3,4)", "nothing"},
    {.in = "(2,0,4)", "nothing"},
    {.in = "(2,3,4)t", "transposed"},
    {.in = "(4,2,3)b", "repeated"},
    {.in = "(4,10,20,60)", "several tasks"},
    {0},
};

static const op_set transpose_sets[] = {
    {.in = "()", "scalar"},
    {.in = "(7)"},
    {.in = "(3,5)"},
    {.in = "(3,5)", "identity", TO(2, 0, 1)},
    {.in = "(2,3,4)", "rotated", TO(3, 2, 0, 1)},
    {.in = "(2,3,4)t", "of a transposed view", TO(3, 1, 2, 0)},
    {.in = "(0,4)", "nothing"},
    {.in = "(4,5)b", "repeated"},
    {.in = "(2,3,4,5)", "image, channels last", TO(4, 0, 2, 3, 1)},
    {.in = "(2,3,4,5)", "image reversed"},
    {.in = "(2,1,3,1,2)", NULL, TO(5, 4, 0, 3, 1, 2)},
    {.in = "(191,211)", "several tasks"},
    {0},
};

static const op_set transpose_wrong[] = {
    {.in = "(3,4)", "axis twice", TO(2, 1, 1), .status = WEIR_ERR_INVALID, .says = "permutation"},
    {.in = "(3,4)", "axis 2", TO(2, 0, 2), .status = WEIR_ERR_INVALID, .says = "permutation"},
    {.in = "(3,4)", "axis -1", TO(2, -1, 0), .status = WEIR_ERR_INVALID, .says = "permutation"},
    {0},
};

static const op_set broadcast_sets[] = {
    {.in = "()", "scalar", TO(2, 3, 4)},
    {.in = "(1)", NULL, TO(1, 7)},
    {.in = "(7)", "unchanged", TO(1, 7)},
    {.in = "(3,1)", NULL, TO(3, 2, 3, 4)},
    {.in = "(4)", NULL, TO(2, 3, 4)},
    {.in = "(1,4)", "to nothing", TO(2, 0, 4)},
    {.in = "(0,4)", "nothing", TO(3, 2, 0, 4)},
    {.in = "(3,1,2)t", "transposed", TO(3, 3, 5, 2)},
    {.in = "(4,1)b", "repeated twice", TO(2, 4, 3)},
    {.in = "(3,1,1)", "per channel", TO(4, 2, 3, 4, 5)},
    {.in = "(1,3,1,5)", "image", TO(4, 2, 3, 4, 5)},
    {.in = "(211)", "several tasks", TO(2, 191, 211)},
    {0},
};

static const op_set broadcast_wrong[] = {
    {.in = "(3)", "to (4)", TO(1, 4), .status = WEIR_ERR_SHAPE, .says = "(4)"},
    {.in = "(2,3)", "to (3)", TO(1, 3), .status = WEIR_ERR_SHAPE, .says = "(3)"},
    {.in = "(3)", "to (1)", TO(1, 1), .status = WEIR_ERR_SHAPE},
    {.in = "(3)", "negative", TO(2, -1, 3), .status = WEIR_ERR_SHAPE, .says = "-1"},
    {.in = "(1)", "overflow", TO(3, FAR, FAR, 1), .status = WEIR_ERR_SHAPE},
    {0},
};

static const op_set copy_sets[] = {
    {.in = "()", "scalar"},
    {.in = "(1)"},
    {.in = "(7)"},
    {.in = "(0,4)", "nothing"},
    {.in = "(3,5)t", "transposed"},
    {.in = "(4,5)b", "repeated"},
    {.in = "(4,5)l", "repeated"},
    {.in = "(2,3,4,5)", "image"},
    {.in = "(2,3,4,5)t", "image transposed"},
    {.in = "(2,3,2,3,2)t", "transposed"},
    {.in = "(1500)"},
    {.in = "(191,211)t", "several tasks"},
    {0},
};

/* Every element type to every other: the sources are the types of the row. */
static const op_set cast_sets[] = {
    {.in = "(2,3,4,5)", "to f64", AS(WEIR_F64)},
    {.in = "(2,3,4,5)t", "to f32", AS(WEIR_F32), .flat = true},
    {.in = "(7)", "to i32", AS(WEIR_I32), .flat = true},
    {.in = "(4,5)b", "to i64", AS(WEIR_I64), .flat = true},
    {.in = "(3,5)t", "to u8", AS(WEIR_U8), .flat = true},
    {.in = "(3,5)t", "to i8", AS(WEIR_I8), .flat = true},
    {.in = "(4,5)b", "to i16", AS(WEIR_I16), .flat = true},
    {.in = "(3,5)", "to u16", AS(WEIR_U16), .flat = true},
    {.in = "(2,3,4,5)", "to u32", AS(WEIR_U32), .flat = true},
    {.in = "(191,211)", "several tasks to u64", AS(WEIR_U64), .flat = true},
    {.in = "(3,5)", "to bool", AS(WEIR_BOOL), .flat = true},
    {.in = "()", "scalar to f64", AS(WEIR_F64)},
    {.in = "(0,4)", "nothing to f64", AS(WEIR_F64)},
    {.in = "(4,5)l", "to f64", AS(WEIR_F64)},
    {.in = "(1,1)", "to f64", AS(WEIR_F64)},
    {.in = "(3,4)t", "to f64", AS(WEIR_F64)},
    {.in = "(2,3,5)b", "to f64", AS(WEIR_F64)},
    {.in = "(1500)", "to f64", AS(WEIR_F64)},
    {.in = "(2,3,4,5)", "to i32", AS(WEIR_I32), .flat = true},
    {.in = "(191,211)", "several tasks to f32", AS(WEIR_F32), .flat = true},
    {.in = "(191,211)", "several tasks to u8", AS(WEIR_U8), .flat = true},
    {.in = "(2,3,4,5)t", "to f16", AS(WEIR_F16), .flat = true},
    {.in = "(191,211)", "several tasks to f16", AS(WEIR_F16), .flat = true},
    {.in = "(4,5)b", "to bf16", AS(WEIR_BF16), .flat = true},
    {.in = "(191,211)t", "several tasks to bf16", AS(WEIR_BF16), .flat = true},
    {0},
};

static const op_set negative_sets[] = {
    {.in = "(7)", "to i32", AS(WEIR_I32), .flat = true},
    {.in = "(7)", "to i64", AS(WEIR_I64), .flat = true},
    {.in = "(7)", "to bool", AS(WEIR_BOOL), .flat = true},
    {.in = "(2,3,4,5)", "to i32", AS(WEIR_I32), .flat = true},
    {.in = "(5,3)t", "to i64", AS(WEIR_I64), .flat = true},
    {.in = "(1500)", "to i32", AS(WEIR_I32), .flat = true},
    {.in = "()", "to i64", AS(WEIR_I64), .flat = true},
    {.in = "(0,4)", "to i32", AS(WEIR_I32), .flat = true},
    {0},
};

static const op_set bit_cast_sets[] = {
    {.in = "(3,5)t", "to i32", AS(WEIR_I32), .flat = true},
    {.in = "()", "scalar to u32", AS(WEIR_U32), .flat = true},
    {.in = "(191,211)", "several tasks to u32", AS(WEIR_U32), .flat = true},
    {0},
};

static const op_set bit_cast_wrong[] = {
    {.in = "(3)", "another size", AS(WEIR_F16), .status = WEIR_ERR_DTYPE,
     .says = "bits of f32 do not make elements of f16"},
    {.in = "(3)", "bool", AS(WEIR_BOOL), .status = WEIR_ERR_DTYPE, .says = "bool"},
    {0},
};

static const op_set cast_wrong[] = {
    {.in = "(3,4)", "to type 17", AS((weir_dtype)17), .status = WEIR_ERR_DTYPE, .says = "17"},
    {0},
};

static const op_set fill_sets[] = {
    {.in = "()", "scalar", {.s = 2.5}},
    {.in = "(1)", NULL, {.s = 3}},
    {.in = "(7)", "zero", {.s = 0}},
    {.in = "(3,5)", NULL, {.s = 1}},
    {.in = "(0,4)", "nothing", {.s = 1}},
    {.in = "(2,3,4,5)", "image", {.s = 7.75}},
    {.in = "(2,3,2,3,2)", NULL, {.s = 0.1}},
    {.in = "(1500)", NULL, {.s = 100}},
    {.in = "(191,211)", "several tasks", {.s = 12}},
    {0},
};

static const op_set draw_sets[] = {
    {.in = "()", "scalar", {.s = -1, .t = 2}},
    {.in = "(1)", NULL, {.s = 0, .t = 1}},
    {.in = "(7)", NULL, {.s = 0, .t = 1}},
    {.in = "(3,5)", NULL, {.s = 0.1, .t = 5}},
    {.in = "(0,4)", "nothing", {.s = 0, .t = 1}},
    {.in = "(2,3,4,5)", "image", {.s = -1, .t = 1}},
    {.in = "(2,3,2,3,2)", NULL, {.s = 0, .t = 1}},
    {.in = "(1500)", NULL, {.s = 0, .t = 1}},
    {.in = "(191,211)", "several tasks", {.s = 0, .t = 1}},
    {0},
};

static const op_set wrong_descs[] = {
    {.in = "(3,-1)", "negative", .status = WEIR_ERR_SHAPE, .says = "-1"},
    {.in = "(1099511627776,1099511627776)", "overflow", .status = WEIR_ERR_SHAPE},
    {0},
};

static weir_tensor *reshape(const op_call *c)
{
    return weir_reshape(c->in[0], c->o->ndim, c->o->to);
}

static weir_tensor *flatten(const op_call *c)
{
    return weir_flatten(c->in[0]);
}

static weir_tensor *transpose(const op_call *c)
{
    int axes[WEIR_MAX_DIMS];
    for (int i = 0; i < c->o->ndim; i++)
        axes[i] = (int)c->o->to[i];
    return weir_transpose(c->in[0], c->o->ndim > 0 ? axes : NULL);
}

static weir_tensor *broadcast_to(const op_call *c)
{
    weir_desc d = {.dtype = c->desc.dtype, .ndim = c->o->ndim};
    for (int i = 0; i < d.ndim; i++)
        d.dim[i] = c->o->to[i];
    return weir_broadcast_to(c->in[0], d);
}

static weir_tensor *copy(const op_call *c)
{
    return weir_copy(c->in[0]);
}

static weir_tensor *detach(const op_call *c)
{
    return weir_detach(c->in[0]);
}

static weir_tensor *bit_cast(const op_call *c)
{
    return weir_bit_cast(c->in[0], c->o->cast);
}

static weir_tensor *cast(const op_call *c)
{
    return weir_cast(c->in[0], c->o->cast);
}

static weir_tensor *fill(const op_call *c)
{
    return weir_fill(c->dev, c->desc, c->o->s);
}

static weir_tensor *uniform(const op_call *c)
{
    return weir_uniform(c->dev, c->desc, c->o->s, c->o->t);
}

static weir_tensor *normal(const op_call *c)
{
    return weir_normal(c->dev, c->desc, c->o->s, c->o->t);
}

#define ROW(id, title, ref, low, high, the_types, the_sets, mistakes)                              \
    {.name = title, .says = #id, .build = id, .reference = ref, .types = the_types,                \
     .in = {{OP_PARAM, low, high}}, .sets = the_sets, .wrong = mistakes}

const op_row op_move[] = {
    ROW(reshape, "reshape", ref_reshape, 0, 99, OP_ALL, reshape_sets, reshape_wrong),
    ROW(flatten, "flatten", ref_flatten, 0, 99, OP_ALL, flatten_sets, NULL),
    ROW(transpose, "transpose", ref_transpose, 0, 99, OP_ALL, transpose_sets, transpose_wrong),
    {.name = "broadcast_to", .says = "broadcast", .build = broadcast_to,
     .reference = ref_broadcast_to, .types = OP_ALL, .in = {{OP_PARAM, 0, 99}},
     .sets = broadcast_sets, .wrong = broadcast_wrong},
    ROW(copy, "copy", ref_same, 0, 99, OP_ALL, copy_sets, NULL),
    {.name = "detach", .build = detach, .reference = ref_same, .types = OP_ALL,
     .in = {{OP_DATA, 0, 99}}, .sets = copy_sets},
    {.name = "bit_cast", .build = bit_cast, .reference = ref_bit_cast,
     .types = OP_F32 | OP_I32 | OP_U32, .in = {{OP_DATA, -90, 90}}, .sets = bit_cast_sets,
     .wrong = bit_cast_wrong},
    ROW(cast, "cast", ref_cast, 0, 99, OP_ALL, cast_sets, cast_wrong),
    {.name = "cast (negative)", .says = "cast", .build = cast, .reference = ref_cast,
     .types = OP_ALL, .in = {{OP_DATA, -90, 90}}, .sets = negative_sets},
    {.name = "fill", .build = fill, .reference = ref_fill, .types = OP_ALL, .sets = fill_sets,
     .wrong = wrong_descs},
    {.name = "uniform", .build = uniform, .reference = ref_drawn, .types = OP_ANY_FLOAT,
     .sets = draw_sets, .wrong = wrong_descs},
    {.name = "normal", .build = normal, .reference = ref_drawn, .types = OP_ANY_FLOAT,
     .sets = draw_sets, .wrong = wrong_descs},
    {0},
};
