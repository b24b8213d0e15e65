/* table_loss.c - rows of softmax cross-entropy and of losses of two inputs of one shape. */
#include "check.h"
#include "graph/ops/table.h"

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

static const op_set pair_sets[] = {
    {.in = "(3,4)(3,4)"},
    {.in = "()()", "scalars"},
    {.in = "(1)(1)"},
    {.in = "(7)(7)"},
    {.in = "(0,4)(0,4)", "the mean of nothing"},
    {.in = "(5,3)t(5,3)", "first transposed"},
    {.in = "(5,3)(5,3)t", "second transposed"},
    {.in = "(5,3)b(5,3)l", "repeated"},
    {.in = "(2,3,4,5)(2,3,4,5)", "images"},
    {.in = "(1500)(1500)"},
    {.in = "(211,191)(211,191)", "several tasks"},
    {0},
};

static const op_set margin_sets[] = {
    {.in = "(3,4)(3,4)", NULL, {.s = 1}},
    {.in = "()()", "scalars", {.s = 0.5}},
    {.in = "(7)(7)", "no margin", {.s = 0}},
    {.in = "(0,4)(0,4)", "the mean of nothing", {.s = 1}},
    {.in = "(5,3)t(5,3)", "transposed", {.s = 0.3}},
    {.in = "(5,3)b(5,3)l", "repeated", {.s = 0.3}},
    {.in = "(2,3,4,5)(2,3,4,5)", "images", {.s = 0.1}},
    {.in = "(211,191)(211,191)", "several tasks", {.s = 0.7}},
    {0},
};

static const op_set cosine_sets[] = {
    {.in = "(3,4)(3,4)"},
    {.in = "(1)(1)", "one number"},
    {.in = "(7)(7)"},
    {.in = "(0,4)(0,4)", "no rows"},
    {.in = "(5,3)t(5,3)", "first transposed"},
    {.in = "(5,3)(5,3)b", "repeated"},
    {.in = "(2,3,4,5)(2,3,4,5)", "width of images"},
    {.in = "(3,4)(3,4)", "large eps", {.s = 1.7}},
    {.in = "(3,1500)(3,1500)", "long"},
    {.in = "(211,191)(211,191)", "several tasks"},
    {0},
};

static const op_set pair_wrong[] = {
    {.in = "(3,4)(4,3)", .status = WEIR_ERR_SHAPE, .says = "one shape"},
    {.in = "(3,4)(4)", .status = WEIR_ERR_SHAPE, .says = "one shape"},
    {0},
};

static const op_set cosine_wrong[] = {
    {.in = "(3,4)(3)", .status = WEIR_ERR_SHAPE, .says = "one shape"},
    {.in = "()()", .status = WEIR_ERR_SHAPE, .says = "last axis"},
    {.in = "(3)(3)", "eps -1", {.s = -1}, .status = WEIR_ERR_INVALID, .says = "eps -1"},
    {0},
};

static weir_tensor *mse_loss(const op_call *c)
{
    return weir_mse_loss(c->in[0], c->in[1]);
}

static weir_tensor *bce_logits_loss(const op_call *c)
{
    return weir_bce_logits_loss(c->in[0], c->in[1]);
}

static weir_tensor *bce_loss(const op_call *c)
{
    return weir_bce_loss(c->in[0], c->in[1]);
}

static weir_tensor *ranking_loss(const op_call *c)
{
    return weir_ranking_loss(c->in[0], c->in[1], c->o->s);
}

static weir_tensor *cosine_similarity(const op_call *c)
{
    return weir_cosine_similarity(c->in[0], c->in[1], c->o->s);
}

#define PAIR(id, first, second, the_sets, mistakes)                                                \
    {.name = #id, .build = id, .reference = ref_##id, .types = OP_ANY_FLOAT,                       \
     .in = {first, second}, .eps = 8, .rms = true, .sets = the_sets, .wrong = mistakes}
#define RANGE(kind, low, high) {kind, low, high}

static weir_tensor *cross_entropy(const op_call *c)
{
    return weir_cross_entropy(c->in[0], c->in[1]);
}

#define ROW(title, low, high, target_kind, the_sets, mistakes)                                     \
    {.name = title, .says = "cross_entropy", .build = cross_entropy,                               \
     .reference = ref_cross_entropy, .types = OP_ANY_FLOAT,                                        \
     .in = {{OP_PARAM, low, high}, {target_kind, 0, 1}}, .eps = 8, .rms = true, .sets = the_sets,  \
     .wrong = mistakes}

const op_row op_loss[] = {
    ROW("cross_entropy", -3, 3, OP_CLASS_I32, class_sets, class_wrong),
    ROW("cross_entropy (i64)", -3, 3, OP_CLASS_I64, class_sets, class_wrong),
    ROW("cross_entropy (wide)", -900, 700, OP_CLASS_I32, class_sets, class_wrong),
    ROW("cross_entropy (dense)", -3, 3, OP_PARAM, dense_sets, dense_wrong),
    PAIR(mse_loss, RANGE(OP_PARAM, -2, 1), RANGE(OP_PARAM, -1, 2), pair_sets, pair_wrong),
    PAIR(bce_logits_loss, RANGE(OP_PARAM, -9, 9), RANGE(OP_PARAM, 0, 1), pair_sets, pair_wrong),
    PAIR(bce_loss, RANGE(OP_PARAM, 0.05, 0.95), RANGE(OP_PARAM, 0, 1), pair_sets, pair_wrong),
    PAIR(ranking_loss, RANGE(OP_PARAM, -2, 2), RANGE(OP_PARAM, -1, 1), margin_sets, pair_wrong),
    PAIR(cosine_similarity, RANGE(OP_PARAM, -1, 2), RANGE(OP_PARAM, -2, 1), cosine_sets,
         cosine_wrong),
    {0},
};

/* Targets too: so the ways of the table check the gradient of each. Class numbers have none. */
CASE(every_input_of_a_loss_that_is_no_class_number_has_a_gradient)
{
    for (const op_row *row = op_loss; row->name; row++)
        for (int i = 0; i < OP_MAX_IN; i++)
            check_that(row->in[i].kind == OP_NONE || row->in[i].kind == OP_PARAM ||
                           row->in[i].kind == OP_CLASS_I32 || row->in[i].kind == OP_CLASS_I64,
                       __FILE__, __LINE__, "input %d of %s is not differentiated", i, row->name);
}
