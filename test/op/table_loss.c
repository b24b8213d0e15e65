/* table_loss.c - rows of softmax cross-entropy. */
#include "op/table.h"

static const op_set class_sets[] = {
    {.in = "(3,4)(3)"},
    {.in = "(1,1)(1)", "one class"},
    {.in = "(7,7)(7)"},
    {.in = "(1,10)(1)", "one row"},
    {.in = "(0,4)(0)", "no rows: the mean of nothing"},
    {.in = "(5,3)t(5)", "transposed"},
    {.in = "(5,3)b(5)", "repeated rows"},
    {.in = "(6,4)(6)b", "repeated class"},
    {.in = "(3,1500)(3)", "many classes"},
    {.in = "(1500,2)(1500)", "many rows"},
    {.in = "(211,191)(211)", "several tasks"},
    {0},
};

static const op_set dense_sets[] = {
    {.in = "(3,4)(3,4)"},
    {.in = "(1,1)(1,1)", "one class"},
    {.in = "(7,7)(7,7)"},
    {.in = "(1,10)(1,10)", "one row"},
    {.in = "(0,4)(0,4)", "no rows: the mean of nothing"},
    {.in = "(5,3)t(5,3)", "transposed logits"},
    {.in = "(5,3)(5,3)t", "transposed target"},
    {.in = "(5,3)b(5,3)b", "repeated rows"},
    {.in = "(3,1500)(3,1500)", "many classes"},
    {.in = "(211,191)(211,191)", "several tasks"},
    {0},
};

static const op_set class_wrong[] = {
    {.in = "(3,4)(4)", .status = WEIR_ERR_SHAPE, .says = "target"},
    {.in = "(3,4)(3,1)", .status = WEIR_ERR_SHAPE, .says = "target"},
    {.in = "(3)(3)", .status = WEIR_ERR_SHAPE, .says = "logits must have 2 axes"},
    {.in = "(3,0)(3)", .status = WEIR_ERR_SHAPE, .says = "no classes"},
    {0},
};

static const op_set dense_wrong[] = {
    {.in = "(3,4)(4,3)", .status = WEIR_ERR_SHAPE, .says = "target"},
    {.in = "(3,4)(3)", .status = WEIR_ERR_SHAPE, .says = "target"},
    {.in = "(2,3,4)(2,3,4)", .status = WEIR_ERR_SHAPE, .says = "logits must have 2 axes"},
    {0},
};

static weir_tensor *cross_entropy(const op_call *c)
{
    return weir_cross_entropy(c->in[0], c->in[1]);
}

#define ROW(title, low, high, target_kind, the_sets, mistakes)                                     \
    {.name = title, .says = "cross_entropy", .build = cross_entropy,                               \
     .reference = ref_cross_entropy, .types = OP_FLOATS,                                           \
     .in = {{OP_PARAM, low, high}, {target_kind, 0, 1}}, .eps = 8, .rms = true, .sets = the_sets,  \
     .wrong = mistakes}

const op_row op_loss[] = {
    ROW("cross_entropy", -3, 3, OP_CLASS_I32, class_sets, class_wrong),
    ROW("cross_entropy (i64)", -3, 3, OP_CLASS_I64, class_sets, class_wrong),
    ROW("cross_entropy (wide)", -900, 700, OP_CLASS_I32, class_sets, class_wrong),
    ROW("cross_entropy (dense)", -3, 3, OP_DATA, dense_sets, dense_wrong),
    {0},
};
