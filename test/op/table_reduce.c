/* table_reduce.c - rows of sums, means, maxima over axes and of counting correct answers. */
#include "op/table.h"

#define AXIS(i) (1u << (i))

#define COMMON_SETS                                                                                \
    {.in = "()", "scalar"}, {.in = "(1)"}, {.in = "(7)"},                                          \
    {.in = "(3,5)", "axis 0", {.dims = AXIS(0)}},                                                  \
    {.in = "(3,5)", "axis 1 kept", {.dims = AXIS(1), .keep = true}},                               \
    {.in = "(1,5)", "axis of size 1", {.dims = AXIS(0)}},                                          \
    {.in = "(0,4)", "no rows", {.dims = AXIS(1)}},                                                 \
    {.in = "(2,3,4)t", "transposed, axis 1", {.dims = AXIS(1)}},                                   \
    {.in = "(2,3,4)t", "transposed, axes 0 and 2", {.dims = AXIS(0) | AXIS(2), .keep = true}},     \
    {.in = "(4,5)b", "repeated, all", {.dims = 0}},                                                \
    {.in = "(4,5)l", "repeated, axis 0", {.dims = AXIS(0)}},                                       \
    {.in = "(2,3,4,5)", "image, all but channels", {.dims = AXIS(0) | AXIS(2) | AXIS(3)}},         \
    {.in = "(2,3,4,5)", "image, height and width", {.dims = AXIS(2) | AXIS(3), .keep = true}},     \
    {.in = "(2,3,4,5)t", "image transposed, axes 0 and 1", {.dims = AXIS(0) | AXIS(1)}},           \
    {.in = "(2,3,4,5)", "image, channels", {.dims = AXIS(1)}},                                     \
    {.in = "(2,3,2,3,2)", "axes 1 and 3", {.dims = AXIS(1) | AXIS(3)}},                            \
    {.in = "(1500)"},                                                                              \
    {.in = "(3,1500)", "long axis 1", {.dims = AXIS(1)}},                                          \
    {.in = "(1500,3)", "long axis 0", {.dims = AXIS(0)}},                                          \
    {.in = "(191,211)", "several tasks, all"},                                                     \
    {.in = "(191,211)", "several tasks, axis 0", {.dims = AXIS(0)}},                               \
    {.in = "(191,211)", "several tasks, axis 1", {.dims = AXIS(1), .keep = true}}

/* A sum over nothing is 0, a mean NaN; a maximum does not exist. */
static const op_set sum_sets[] = {
    COMMON_SETS,
    {.in = "(0,4)", "over nothing", {.dims = AXIS(0)}},
    {.in = "(2,3,0,5)", "over nothing", {.dims = AXIS(2) | AXIS(3), .keep = true}},
    {0},
};

static const op_set amax_sets[] = {COMMON_SETS, {0}};

static const op_set wrong_axes[] = {
    {.in = "(3,4)", "no axis 2", {.dims = AXIS(2)}, .status = WEIR_ERR_INVALID, .says = "axes"},
    {.in = "()", "no axis 0", {.dims = AXIS(0)}, .status = WEIR_ERR_INVALID},
    {0},
};

static const op_set amax_wrong[] = {
    {.in = "(3,4)", "no axis 5", {.dims = AXIS(5)}, .status = WEIR_ERR_INVALID, .says = "axes"},
    {.in = "(0,4)", "over nothing", {.dims = AXIS(0)}, .status = WEIR_ERR_SHAPE},
    {.in = "(0)", "of nothing", .status = WEIR_ERR_SHAPE},
    {0},
};

static const op_set count_sets[] = {
    {.in = "(3,4)(3)"},
    {.in = "(1,1)(1)"},
    {.in = "(7,7)(7)"},
    {.in = "(0,4)(0)", "no rows"},
    {.in = "(5,3)t(5)", "transposed"},
    {.in = "(5,3)b(5)", "repeated rows"},
    {.in = "(6,4)(6)b", "repeated class"},
    {.in = "(1500,2)(1500)"},
    {.in = "(3,1500)(3)"},
    {.in = "(191,211)(191)", "several tasks"},
    {0},
};

static const op_set count_wrong[] = {
    {.in = "(3,4)(4)", .status = WEIR_ERR_SHAPE, .says = "target"},
    {.in = "(3)(3)", .status = WEIR_ERR_SHAPE, .says = "logits"},
    {.in = "(3,4)(3,1)", .status = WEIR_ERR_SHAPE, .says = "target"},
    {0},
};

static weir_tensor *sum(const op_call *c)
{
    return weir_sum(c->in[0], c->o->dims, c->o->keep);
}

static weir_tensor *mean(const op_call *c)
{
    return weir_mean(c->in[0], c->o->dims, c->o->keep);
}

static weir_tensor *amax(const op_call *c)
{
    return weir_amax(c->in[0], c->o->dims, c->o->keep);
}

static weir_tensor *count_correct(const op_call *c)
{
    return weir_count_correct(c->in[0], c->in[1]);
}

const op_row op_reduce[] = {
    {.name = "sum", .build = sum, .reference = ref_sum, .types = OP_FLOATS,
     .in = {{OP_PARAM, -1, 2}}, .eps = 4, .rms = true, .sets = sum_sets, .wrong = wrong_axes},
    {.name = "sum (integers)", .says = "sum", .build = sum, .reference = ref_sum,
     .types = OP_INTEGERS, .in = {{OP_DATA, -50, 99}}, .sets = sum_sets, .wrong = wrong_axes},
    {.name = "mean", .build = mean, .reference = ref_mean, .types = OP_FLOATS,
     .in = {{OP_PARAM, -1, 2}}, .eps = 4, .rms = true, .sets = sum_sets, .wrong = wrong_axes},
    {.name = "amax", .build = amax, .reference = ref_amax, .types = OP_FLOATS,
     .in = {{OP_PARAM, -3, 3}}, .eps = 0, .sets = amax_sets, .wrong = amax_wrong},
    {.name = "count_correct", .build = count_correct, .reference = ref_count_correct,
     .types = OP_FLOATS, .in = {{OP_DATA, -3, 3}, {.kind = OP_CLASS_I32}}, .sets = count_sets,
     .wrong = count_wrong},
    {.name = "count_correct (i64)", .says = "count_correct", .build = count_correct,
     .reference = ref_count_correct, .types = OP_FLOATS,
     .in = {{OP_DATA, -3, 3}, {.kind = OP_CLASS_I64}}, .sets = count_sets, .wrong = count_wrong},
    {0},
};
