/* table_norm.c - rows of batch normalisation, which updates running statistics when training, and
 * of layer, group and RMS normalisation. */
#include "graph/ops/table.h"

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
    {.in = "(2,3,5)(3)(3)(3)(3)", "signals", TRAIN(.eps = 0)},
    {.in = "(2,3,1)(3)(3)(3)(3)", "signals of one number", TRAIN(.momentum = 0.3)},
    {.in = "(5,4,3)t(4)(4)(4)(4)", "signals transposed", TRAIN(.eps = 0)},
    {.in = "(2,3,2,4,5)(3)(3)(3)(3)", "volumes", TRAIN(.eps = 0)},
    {.in = "(2,4,3,2,2)t(4)(4)(4)(4)", "volumes transposed", TRAIN(.eps = 1e-3)},
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
    {.in = "(2,3,5)(3)(3)(3)(3)", "signals"},
    {.in = "(2,3,4)b(3)(3)(3)(3)", "repeated signals"},
    {.in = "(0,3,2,4,5)(3)(3)(3)(3)", "no volumes"},
    {.in = "(2,3,2,4,5)(3)(3)(3)(3)", "volumes", {.norm = {.eps = 1e-2}}},
    {0},
};

#define COMMON_WRONG(o)                                                                            \
    {.in = "(4,3)(2)(3)(3)(3)", "scale", o, .status = WEIR_ERR_SHAPE, .says = "scale"},            \
    {.in = "(4,3)(3)(4)(3)(3)", "bias", o, .status = WEIR_ERR_SHAPE, .says = "bias"},              \
    {.in = "(4,3)(3)(3)(1)(3)", "mean", o, .status = WEIR_ERR_SHAPE, .says = "running_mean"},      \
    {.in = "(4,3)(3)(3)(3)(3,1)", "variance", o, .status = WEIR_ERR_SHAPE, .says = "running_var"}, \
    {.in = "(3)(3)(3)(3)(3)", "x", o, .status = WEIR_ERR_SHAPE, .says = "(n,c,...)"},              \
    {.in = "(2,4,3)(3)(3)(3)(3)", "x", o, .status = WEIR_ERR_SHAPE, .says = "must be f32(4)"}

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
     .types = OP_ANY_FLOAT,                                                                        \
     .in = {{OP_PARAM, -2, 3}, {OP_PARAM, 0.5, 1.5}, {OP_PARAM, -1, 1}, {OP_STATE, -1, 1},         \
            {OP_STATE, 0.5, 2}},                                                                   \
     .eps = 8, .rms = true, .runs = 3, .sets = the_sets, .wrong = mistakes}

/* x, scale, bias. */
static const op_set layer_sets[] = {
    {.in = "(4,6)(6)(6)", "rows"},
    {.in = "(7)(7)(7)", "one row"},
    {.in = "(4,1)(1)(1)", "nothing left"},
    {.in = "(2,3,4)(3,4)(3,4)", "two axes", {.s = 1e-3}},
    {.in = "(2,3,4,5)(5)(5)", "width of images"},
    {.in = "(2,3,4,5)(3,4,5)(3,4,5)", "whole images"},
    {.in = "(0,4)(4)(4)", "no rows"},
    {.in = "(5,3)t(3)(3)", "transposed"},
    {.in = "(5,4)b(4)(4)b", "repeated"},
    {.in = "(3,2,5)(5)b(5)", "one scale"},
    {.in = "(1500,3)(3)(3)", "many rows"},
    {.in = "(3,1500)(1500)(1500)", "long rows"},
    {.in = "(191,211)(211)(211)", "several tasks"},
    {0},
};

static const op_set layer_wrong[] = {
    {.in = "(4,6)(4)(4)", .status = WEIR_ERR_SHAPE, .says = "scale"},
    {.in = "(4,6)(6)(4)", .status = WEIR_ERR_SHAPE, .says = "bias"},
    {.in = "(6)(4,6)(4,6)", .status = WEIR_ERR_SHAPE, .says = "last axes"},
    {.in = "(4,6)()()", .status = WEIR_ERR_SHAPE, .says = "last axes"},
    {.in = "(4,6)(6)(6)", "eps -1", {.s = -1}, .status = WEIR_ERR_INVALID, .says = "eps -1"},
    {0},
};

static const op_set rms_sets[] = {
    {.in = "(4,6)(6)", "rows"},
    {.in = "(7)(7)", "one row"},
    {.in = "(4,1)(1)", "one number each"},
    {.in = "(2,3,4)(3,4)", "two axes", {.s = 1e-3}},
    {.in = "(2,3,4,5)(5)", "width of images"},
    {.in = "(0,4)(4)", "no rows"},
    {.in = "(5,3)t(3)", "transposed"},
    {.in = "(5,4)l(4)b", "repeated"},
    {.in = "(3,1500)(1500)", "long rows"},
    {.in = "(191,211)(211)", "several tasks"},
    {0},
};

static const op_set rms_wrong[] = {
    {.in = "(4,6)(4)", .status = WEIR_ERR_SHAPE, .says = "scale"},
    {.in = "(4,6)()", .status = WEIR_ERR_SHAPE, .says = "last axes"},
    {.in = "(4,6)(6)", "eps -1", {.s = -1}, .status = WEIR_ERR_INVALID, .says = "eps -1"},
    {0},
};

#define GROUPS(n) {.groups = n}

static const op_set group_sets[] = {
    {.in = "(4,6)(6)(6)", "rows", GROUPS(2)},
    {.in = "(4,6)(6)(6)", "one group", GROUPS(1)},
    {.in = "(2,6,4,5)(6)(6)", "images", GROUPS(3)},
    {.in = "(2,6,4,5)(6)(6)", "one group", GROUPS(1)},
    {.in = "(2,6,4,5)(6)(6)", "as many as channels", {.groups = 6, .s = 1e-3}},
    {.in = "(0,4,2,2)(4)(4)", "no images", GROUPS(2)},
    {.in = "(5,4,3,2)t(4)(4)", "transposed", GROUPS(2)},
    {.in = "(3,4,2,2)b(4)b(4)", "repeated", GROUPS(2)},
    {.in = "(3,40,16,17)(40)(40)", "several tasks", GROUPS(8)},
    {0},
};

static const op_set group_wrong[] = {
    {.in = "(2,6,4,5)(6)(6)", "4 groups of 6", GROUPS(4), .status = WEIR_ERR_INVALID,
     .says = "4 groups"},
    {.in = "(2,6,4,5)(6)(6)", "no group", GROUPS(0), .status = WEIR_ERR_INVALID},
    {.in = "(2,6,4)(6)(6)", NULL, GROUPS(2), .status = WEIR_ERR_SHAPE, .says = "(n,c,h,w)"},
    {.in = "(2,6)(2)(6)", NULL, GROUPS(2), .status = WEIR_ERR_SHAPE, .says = "scale"},
    {.in = "(2,6)(6)(2)", NULL, GROUPS(2), .status = WEIR_ERR_SHAPE, .says = "bias"},
    {0},
};

static weir_tensor *layer_norm(const op_call *c)
{
    return weir_layer_norm(c->in[0], c->in[1], c->in[2], c->o->s);
}

static weir_tensor *rms_norm(const op_call *c)
{
    return weir_rms_norm(c->in[0], c->in[1], c->o->s);
}

static weir_tensor *group_norm(const op_call *c)
{
    return weir_group_norm(c->in[0], c->o->groups, c->in[1], c->in[2], c->o->s);
}

const op_row op_norm[] = {
    {.name = "layer_norm", .build = layer_norm, .reference = ref_layer_norm, .types = OP_ANY_FLOAT,
     .in = {{OP_PARAM, -2, 3}, {OP_PARAM, 0.5, 1.5}, {OP_PARAM, -1, 1}}, .eps = 8, .rms = true,
     .sets = layer_sets, .wrong = layer_wrong},
    {.name = "rms_norm", .build = rms_norm, .reference = ref_rms_norm, .types = OP_ANY_FLOAT,
     .in = {{OP_PARAM, -2, 3}, {OP_PARAM, 0.5, 1.5}}, .eps = 8, .half_gradient = 16, .rms = true,
     .sets = rms_sets, .wrong = rms_wrong},
    {.name = "group_norm", .build = group_norm, .reference = ref_group_norm, .types = OP_ANY_FLOAT,
     .in = {{OP_PARAM, -2, 3}, {OP_PARAM, 0.5, 1.5}, {OP_PARAM, -1, 1}}, .eps = 8, .rms = true,
     .sets = group_sets, .wrong = group_wrong},
    ROW("batch_norm (train)", train_sets, train_wrong),
    ROW("batch_norm (eval)", eval_sets, eval_wrong),
    {0},
};
