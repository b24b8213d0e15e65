/* table_attention.c - rows of scaled dot-product attention. */
#include "graph/ops/table.h"

#define HEADS(n)        {.heads = n}
#define CAUSAL_HEADS(n) {.heads = n, .causal = true}

static const op_set sets[] = {
    {.in = "(2,3,4)(2,5,4)(2,5,6)", "2 heads", HEADS(2)},
    {.in = "(1,1,1)(1,1,1)(1,1,1)", "one of each", HEADS(1)},
    {.in = "(2,5,6)(2,5,6)(2,5,6)", "causal", CAUSAL_HEADS(3)},
    {.in = "(2,3,4)(2,5,4)(2,5,4)", "causal, more keys", CAUSAL_HEADS(1)},
    {.in = "(2,5,4)(2,3,4)(2,3,4)", "causal, fewer keys", CAUSAL_HEADS(4)},
    {.in = "(0,3,4)(0,5,4)(0,5,4)", "no batches", HEADS(2)},
    {.in = "(2,0,4)(2,5,4)(2,5,4)", "no rows", HEADS(2)},
    {.in = "(2,3,4)(2,0,4)(2,0,4)", "no keys", HEADS(2)},
    {.in = "(2,3,0)(2,5,0)(2,5,4)", "no columns: the mean of v", HEADS(2)},
    {.in = "(2,3,4)(2,5,4)(2,5,0)", "no columns of v", HEADS(2)},
    {.in = "(4,3,2)t(4,5,2)t(4,5,2)", "transposed", HEADS(2)},
    {.in = "(3,3,4)b(3,5,4)l(3,5,4)b", "repeating views", HEADS(1)},
    {.in = "(1,70,8)(1,150,8)(1,150,4)", "several blocks", HEADS(2)},
    {.in = "(1,150,4)(1,150,4)(1,150,4)", "several blocks, causal", CAUSAL_HEADS(1)},
    {.in = "(1,64,6)(1,256,6)(1,256,6)", "whole blocks, causal", CAUSAL_HEADS(2)},
    {.in = "(1,200,4)(1,20,4)(1,20,8)", "causal, few keys", CAUSAL_HEADS(2)},
    {.in = "(1,70,64)(1,66,64)(1,66,20)", "wide heads, causal", CAUSAL_HEADS(1)},
    {.in = "(1,20,256)(1,17,256)(1,17,32)", "wider heads", HEADS(2)},
    {.in = "(1,5,16)(1,6,16)(1,6,130)", "more columns than rows", CAUSAL_HEADS(1)},
    {0},
};

static const op_set wrong[] = {
    {.in = "(2,3,4)(2,5,4)(2,5,4)", "0 heads", HEADS(0), .status = WEIR_ERR_INVALID,
     .says = "heads"},
    {.in = "(2,3,4)(2,5,4)(2,5,4)", "3 heads", HEADS(3), .status = WEIR_ERR_SHAPE,
     .says = "3 heads"},
    {.in = "(2,3,4)(2,5,6)(2,5,4)", "columns", HEADS(2), .status = WEIR_ERR_SHAPE,
     .says = "q has 4 columns but k 6"},
    {.in = "(2,3,4)(2,5,4)(2,4,4)", "rows", HEADS(2), .status = WEIR_ERR_SHAPE,
     .says = "k has 5 rows but v 4"},
    {.in = "(2,3,4)(1,5,4)(1,5,4)", "batches", HEADS(2), .status = WEIR_ERR_SHAPE,
     .says = "batches"},
    {.in = "(3,4)(5,4)(5,4)", "axes", HEADS(2), .status = WEIR_ERR_SHAPE,
     .says = "q must have 3 axes"},
    {0},
};

static weir_tensor *attention(const op_call *c)
{
    return weir_attention(c->in[0], c->in[1], c->in[2], c->o->heads, c->o->causal);
}

const op_row op_attention[] = {
    {.name = "attention", .build = attention, .reference = ref_attention, .types = OP_ANY_FLOAT,
     .in = {{OP_PARAM, -1, 2}, {OP_PARAM, -1.5, 1}, {OP_PARAM, -1, 1}}, .eps = 16, .rms = true,
     .sets = sets, .wrong = wrong},
    {0},
};
