/* table_norm.c - rows of batch normalisation, which updates running statistics when training. */
#include "op/table.h"

#define TRAIN(...) {.norm = {.train = true, __VA_ARGS__}}

/* x, scale, bias, running mean, running variance. */
static const op_set train_sets[] = {
    {.in = "(4,3)(3)(3)(3)(3)", "rows", TRAIN(.eps = 0)},
    {.in = "(2,1)(1)(1)(1)(1)", "two numbers", TRAIN(.eps = 0)},
    {.in = "(7,7)(7)(7)(7)(7)", NULL, TRAIN(.eps = 0)},
    {.in = "(2,3,4,5)(3)(3)(3)(3)", "images", TRAIN(.eps = 0)},
    {.in = "(1,3,4,5)(3)(3)(3)(3)", "one image", TRAIN(.eps = 1e-3, .momentum = 0.3)},
    {.in = "(2,0,4,5)(0)(0)(0)(0)", "no channels", TRAIN(.eps = 0)},
    {.in = "(5,4,3,2)t(4)(4)(4)(4)", "transposed", TRAIN(.eps = 0)},
    {.in = "(4,3)t(3)(3)(3)(3)", "rows transposed", TRAIN(.momentum = 1)},
    {.in = "(6,4)(4)b(4)b(4)(4)", "one scale and bias for all", TRAIN(.eps = 0)},
    {.in = "(4,3,2,5)l(3)(3)(3)(3)", "repeated columns", TRAIN(.eps = 0)},
    {.in = "(1500,2)(2)(2)(2)(2)", "long rows", TRAIN(.eps = 0)},
    {.in = "(2,5,20,15)(5)(5)(5)(5)", NULL, TRAIN(.eps = 0.1, .momentum = 0.01)},
    {.in = "(3,70,16,17)(70)(70)(70)(70)", "several tasks", TRAIN(.eps = 0)},
    {0},
};

static const op_set eval_sets[] = {
    {.in = "(4,3)(3)(3)(3)(3)", "rows"},
    {.in = "(1,1)(1)(1)(1)(1)", "one number"},
    {.in = "(7,7)(7)(7)(7)(7)"},
    {.in = "(0,3,4,5)(3)(3)(3)(3)", "no images"},
    {.in = "(2,3,4,5)(3)(3)(3)(3)", "images", {.norm = {.eps = 1e-2}}},
    {.in = "(5,4,3,2)t(4)(4)(4)(4)", "transposed"},
    {.in = "(6,4)(4)b(4)b(4)(4)", "one scale and bias for all"},
    {.in = "(4,3,2,5)b(3)(3)(3)(3)", "repeated images"},
    {.in = "(1500,2)(2)(2)(2)(2)", "long rows"},
    {.in = "(3,70,16,17)(70)(70)(70)(70)", "several tasks"},
    {0},
};

#define COMMON_WRONG(o)                                                                            \
    {.in = "(4,3)(2)(3)(3)(3)", "scale", o, .status = WEIR_ERR_SHAPE, .says = "scale"},            \
    {.in = "(4,3)(3)(4)(3)(3)", "bias", o, .status = WEIR_ERR_SHAPE, .says = "bias"},              \
    {.in = "(4,3)(3)(3)(1)(3)", "mean", o, .status = WEIR_ERR_SHAPE, .says = "running_mean"},      \
    {.in = "(4,3)(3)(3)(3)(3,1)", "variance", o, .status = WEIR_ERR_SHAPE, .says = "running_var"}, \
    {.in = "(3)(3)(3)(3)(3)", "x", o, .status = WEIR_ERR_SHAPE, .says = "(n,c,h,w)"},              \
    {.in = "(2,3,4)(3)(3)(3)(3)", "x", o, .status = WEIR_ERR_SHAPE, .says = "(n,c,h,w)"}

static const op_set train_wrong[] = {
    COMMON_WRONG(TRAIN(.eps = 0)),
    {.in = "(1,3)(3)(3)(3)(3)", "no variance of one", TRAIN(.eps = 0), .status = WEIR_ERR_SHAPE,
     .says = "at least 2"},
    {.in = "(0,3,4,4)(3)(3)(3)(3)", "no images", TRAIN(.eps = 0), .status = WEIR_ERR_SHAPE},
    {.in = "(4,3)(3)(3)(3)(3)", "momentum 2", TRAIN(.momentum = 2), .status = WEIR_ERR_INVALID,
     .says = "momentum 2"},
    {0},
};

static const op_set eval_wrong[] = {
    COMMON_WRONG({.s = 0}),
    {.in = "(4,3)(3)(3)(3)(3)", "eps -1", {.norm = {.eps = -1}}, .status = WEIR_ERR_INVALID,
     .says = "eps -1"},
    {0},
};

static weir_tensor *batch_norm(const op_call *c)
{
    return weir_batch_norm(c->in[0], c->in[1], c->in[2], c->in[3], c->in[4], &c->o->norm);
}

#define ROW(title, the_sets, mistakes)                                                             \
    {.name = title, .says = "batch_norm", .build = batch_norm, .reference = ref_batch_norm,        \
     .types = OP_FLOATS,                                                                           \
     .in = {{OP_PARAM, -2, 3}, {OP_PARAM, 0.5, 1.5}, {OP_PARAM, -1, 1}, {OP_STATE, -1, 1},         \
            {OP_STATE, 0.5, 2}},                                                                   \
     .eps = 8, .rms = true, .runs = 3, .sets = the_sets, .wrong = mistakes}

const op_row op_norm[] = {
    ROW("batch_norm (train)", train_sets, train_wrong),
    ROW("batch_norm (eval)", eval_sets, eval_wrong),
    {0},
};
