/* table_order.c - rows of reading along an axis by index, and of the first elements in order. */
#include "graph/ops/table.h"

#define ALONG(a) {.axis = a}

/* Indices are below the first size. */
static const op_set along_sets[] = {
    {.in = "(5)(3)", "a vector", ALONG(0)},
    {.in = "(5)(0)", "no index", ALONG(0)},
    {.in = "(4,3)(6,3)", "rows", ALONG(0)},
    {.in = "(4,3)(2,1)", "one index for all columns", ALONG(0)},
    {.in = "(2,5)(2,3)", "columns", ALONG(-1)},
    {.in = "(2,5)(1,3)", "the same columns of all rows", ALONG(1)},
    {.in = "(2,3,4)(2,2,4)", "in the middle", ALONG(1)},
    {.in = "(2,3,4)(2,1,1)", "one for a matrix", ALONG(1)},
    {.in = "(4,5)t(4,2)t", "views", ALONG(1)},
    {.in = "(4,3)b(4,3)b", "repeated", ALONG(0)},
    {.in = "(0,3)(0,3)", "nothing", ALONG(0)},
    {.in = "(2,5,2,3)(2,4,2,3)", "images", ALONG(1)},
    {.in = "(70,300)(90,300)", "several tasks", ALONG(0)},
    {0},
};

static const op_set along_wrong[] = {
    {.in = "(4,3)(4)", "axes", ALONG(0), .status = WEIR_ERR_SHAPE, .says = "(4)"},
    {.in = "(4,3)(2,2)", "columns", ALONG(0), .status = WEIR_ERR_SHAPE, .says = "(2,2)"},
    {.in = "(4,3)(4,3)", "axis 2", ALONG(2), .status = WEIR_ERR_INVALID, .says = "axis 2"},
    {.in = "()()", "a scalar", ALONG(0), .status = WEIR_ERR_INVALID, .says = "axis 0"},
    {0},
};

/* keep: the smallest. */
#define FIRST(a, k) {.axis = a, .to = {k}}
#define LEAST(a, k) {.axis = a, .to = {k}, .keep = true}

static const op_set topk_sets[] = {
    {.in = "(7)", "three", FIRST(0, 3)},
    {.in = "(7)", "all, smallest first", LEAST(0, 7)},
    {.in = "(1)", "one of one", FIRST(0, 1)},
    {.in = "(3,5)", "of each row", FIRST(-1, 2)},
    {.in = "(5,3)", "of each column", LEAST(0, 2)},
    {.in = "(5,3)", "none", FIRST(0, 0)},
    {.in = "(2,4,3)", "in the middle", FIRST(1, 4)},
    {.in = "(4,5)t", "transposed", LEAST(1, 3)},
    {.in = "(4,3)b", "equal ones", FIRST(0, 3)},
    {.in = "(4,3)l", "equal ones, smallest", LEAST(1, 2)},
    {.in = "(0,4)", "nothing", FIRST(1, 2)},
    {.in = "(2,3,4,2)", "images", FIRST(1, 2)},
    {.in = "(5,130)", "several tasks", FIRST(1, 9)},
    {0},
};

static const op_set topk_wrong[] = {
    {.in = "(3,4)", "too many", FIRST(1, 5), .status = WEIR_ERR_INVALID, .says = "5 of 4"},
    {.in = "(3,4)", "negative", FIRST(1, -1), .status = WEIR_ERR_INVALID, .says = "-1 of 4"},
    {.in = "(3,4)", "axis 2", FIRST(2, 1), .status = WEIR_ERR_INVALID, .says = "axis 2"},
    {.in = "()", "a scalar", FIRST(0, 1), .status = WEIR_ERR_INVALID, .says = "axis 0"},
    {.in = "(3,0)", "no elements", FIRST(1, 0), .status = WEIR_ERR_SHAPE, .says = "1 to 4096"},
    {.in = "(4097)", "too long", FIRST(0, 1), .status = WEIR_ERR_SHAPE, .says = "(4097)"},
    {.in = "(1,1,1,1,1,1,1,2)", "8 axes", FIRST(7, 1), .status = WEIR_ERR_SHAPE, .says = "axes"},
    {0},
};

static weir_tensor *take_along(const op_call *c)
{
    return weir_take_along(c->in[0], c->in[1], c->o->axis);
}

static weir_tensor *topk(const op_call *c)
{
    weir_tensor *values;

    return weir_topk(c->in[0], c->o->to[0], c->o->axis, !c->o->keep, &values, NULL) == WEIR_OK
               ? values
               : NULL;
}

static weir_tensor *topk_places(const op_call *c)
{
    weir_tensor *places;

    return weir_topk(c->in[0], c->o->to[0], c->o->axis, !c->o->keep, NULL, &places) == WEIR_OK
               ? places
               : NULL;
}

const op_row op_order[] = {
    {.name = "take_along", .build = take_along, .reference = ref_take_along, .types = OP_ALL,
     .in = {{OP_PARAM, -2, 9}, {OP_ROW_I64, 0, 0}}, .sets = along_sets, .wrong = along_wrong},
    {.name = "take_along (i32)", .says = "take_along", .build = take_along,
     .reference = ref_take_along, .types = OP_F32 | OP_F64,
     .in = {{OP_PARAM, -2, 9}, {OP_ROW_I32, 0, 0}}, .sets = along_sets},
    {.name = "topk", .build = topk, .reference = ref_topk, .types = OP_ALL,
     .in = {{OP_PARAM, 0, 99}}, .sets = topk_sets, .wrong = topk_wrong},
    {.name = "topk (places)", .says = "topk", .build = topk_places, .reference = ref_topk_places,
     .types = OP_ALL, .in = {{OP_DATA, 0, 99}}, .sets = topk_sets},
    {0},
};
