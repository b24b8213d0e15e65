/* table_compare.c - rows of comparisons, logic and where. */
#include "graph/ops/table.h"

static const op_set binary_sets[] = {
    {.in = "()()", "scalars"},
    {.in = "(7)(7)"},
    {.in = "(7)(1)", "one on the right"},
    {.in = "(3,1)(1,4)", "both repeat"},
    {.in = "(5)(2,3,5)"},
    {.in = "()(2,3)"},
    {.in = "(0,4)(4)", "nothing"},
    {.in = "(4,3)t(4,3)", "transposed"},
    {.in = "(4,3)b(3)l", "views that repeat"},
    {.in = "(2,3,4,5)(1,3,1,1)", "per channel"},
    {.in = "(2,3,4,5)t(2,3,4,5)", "image transposed"},
    {.in = "(2,3,4,5)(2,3,4,5)", "images"},
    {.in = "(191,211)(211)", "several tasks"},
    {.in = "(191,211)(191,211)", "several tasks"},
    {0},
};

static const op_set binary_wrong[] = {
    {.in = "(3,4)(5)", .status = WEIR_ERR_SHAPE},
    {.in = "(0)(2)", .status = WEIR_ERR_SHAPE},
    {0},
};

static const op_set unary_sets[] = {
    {.in = "()", "scalar"},
    {.in = "(7)"},
    {.in = "(3,5)"},
    {.in = "(0,4)", "nothing"},
    {.in = "(2,3,4)t", "transposed"},
    {.in = "(4,5)b", "repeated"},
    {.in = "(2,3,4,5)t", "image transposed"},
    {.in = "(191,211)", "several tasks"},
    {0},
};

static const op_set where_sets[] = {
    {.in = "()()()", "scalars"},
    {.in = "(7)(7)(7)"},
    {.in = "(7)()()", "of two numbers"},
    {.in = "()(2,3)(3)", "one condition"},
    {.in = "(3,1)(1,4)(2,1,1)", "all repeat"},
    {.in = "(0,4)(4)()", "nothing"},
    {.in = "(4,3)t(4,3)(4,3)t", "transposed"},
    {.in = "(4,3)b(4,3)l(4,3)", "views that repeat"},
    {.in = "(2,3,4,5)(2,3,4,5)(1,3,1,1)", "images"},
    {.in = "(2,1,4,5)(2,3,4,5)t(2,3,4,5)", "image transposed"},
    {.in = "(191,211)(191,211)(211)", "several tasks"},
    {0},
};

static const op_set where_wrong[] = {
    {.in = "(3,4)(5)(4)", .status = WEIR_ERR_SHAPE},
    {.in = "(3)(2)(2)", .status = WEIR_ERR_SHAPE},
    {.in = "(3)(3)(2)", .status = WEIR_ERR_SHAPE},
    {0},
};

#define BINARY(id)                                                                                 \
    static weir_tensor *build_##id(const op_call *c)                                               \
    {                                                                                              \
        return weir_##id(c->in[0], c->in[1]);                                                      \
    }

BINARY(eq)
BINARY(ne)
BINARY(lt)
BINARY(le)
BINARY(gt)
BINARY(ge)
BINARY(logical_and)
BINARY(logical_or)
BINARY(logical_xor)

static weir_tensor *build_logical_not(const op_call *c)
{
    return weir_logical_not(c->in[0]);
}

static weir_tensor *build_where(const op_call *c)
{
    return weir_where(c->in[0], c->in[1], c->in[2]);
}

/* A range of few whole numbers, so that integers are often equal. */
#define ROW_OF(id, all)                                                                            \
    {.name = #id, .build = build_##id, .reference = ref_##id, .types = all,                        \
     .in = {{OP_DATA, -3, 3}, {OP_DATA, -3, 3}}, .sets = binary_sets, .wrong = binary_wrong,       \
     .any_type = (all) & OP_F32 ? 3 : 0}

enum { ORDERED = OP_NUMBERS, TRUTH = OP_BOOL };

const op_row op_compare[] = {
    ROW_OF(eq, OP_ALL),
    ROW_OF(ne, OP_ALL),
    ROW_OF(lt, ORDERED),
    ROW_OF(le, ORDERED),
    ROW_OF(gt, ORDERED),
    ROW_OF(ge, ORDERED),
    ROW_OF(logical_and, TRUTH),
    ROW_OF(logical_or, TRUTH),
    ROW_OF(logical_xor, TRUTH),
    {.name = "logical_not", .build = build_logical_not, .reference = ref_logical_not,
     .types = TRUTH, .in = {{OP_DATA, -3, 3}}, .sets = unary_sets},
    {.name = "where", .build = build_where, .reference = ref_where, .types = OP_ALL,
     .in = {{OP_MASK, 0, 1}, {OP_PARAM, -2, 2}, {OP_PARAM, -3, 3}}, .sets = where_sets,
     .wrong = where_wrong, .any_type = 6},
    {0},
};
