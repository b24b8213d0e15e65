/* table_matmul.c - rows of matrix products and the linear layer. */
#include "graph/ops/table.h"

#define T_NONE {.ta = false}
#define T_A    {.ta = true}
#define T_B    {.tb = true}
#define T_BOTH {.ta = true, .tb = true}

static const op_set matmul_sets[] = {
    {.in = "(3,4)(4,5)"},
    {.in = "(1,1)(1,1)"},
    {.in = "(7,7)(7,7)"},
    {.in = "(0,4)(4,5)", "no rows"},
    {.in = "(3,4)(4,0)", "no columns"},
    {.in = "(3,0)(0,5)", "no terms"},
    {.in = "(3,4)t(4,5)", "transposed view"},
    {.in = "(3,4)t(4,5)t", "transposed views"},
    {.in = "(3,4)b(4,5)l", "repeating views"},
    {.in = "(1,300)(300,1)", "inner product"},
    {.in = "(64,1)(1,33)", "outer product"},
    {.in = "(1,257)(257,19)", "vector by matrix"},
    {.in = "(19,257)(257,1)", "matrix by vector"},
    {.in = "(5,1500)(1500,3)", "long sum"},
    {.in = "(130,70)(70,150)", "several tiles"},
    {.in = "(97,131)(131,113)", "primes"},
    {0},
};

static const op_set matmul_t_sets[] = {
    {.in = "(4,3)(4,5)", "a^T", T_A},
    {.in = "(3,4)(5,4)", "b^T", T_B},
    {.in = "(4,3)(5,4)", "a^T b^T", T_BOTH},
    {.in = "(3,4)(4,5)", "plain", T_NONE},
    {.in = "(1,1)(1,1)", "a^T b^T", T_BOTH},
    {.in = "(7,7)(7,7)", "a^T", T_A},
    {.in = "(0,3)(0,5)", "a^T, no terms", T_A},
    {.in = "(4,0)(5,4)", "a^T b^T, no rows", T_BOTH},
    {.in = "(4,3)t(4,5)", "a^T of a view", T_A},
    {.in = "(3,4)(5,4)t", "b^T of a view", T_B},
    {.in = "(4,3)b(5,4)l", "a^T b^T of views", T_BOTH},
    {.in = "(1500,5)(1500,3)", "a^T, long sum", T_A},
    {.in = "(5,1500)(3,1500)", "b^T, long sum", T_B},
    {.in = "(70,130)(70,150)", "a^T, several tiles", T_A},
    {.in = "(130,70)(150,70)", "b^T, several tiles", T_B},
    {.in = "(131,97)(113,131)", "a^T b^T, primes", T_BOTH},
    {0},
};

static const op_set matmul_wrong[] = {
    {.in = "(3,4)(5,6)", NULL, T_NONE, .status = WEIR_ERR_SHAPE, .says = "4 and 5"},
    {.in = "()(4,5)", NULL, T_NONE, .status = WEIR_ERR_SHAPE, .says = "1 axis or more"},
    {0},
};

static const op_set matmul_t_wrong[] = {
    {.in = "(3,4)(4,5)", "a^T", T_A, .status = WEIR_ERR_SHAPE, .says = "3 and 4"},
    {.in = "(3,4)(4,5)", "b^T", T_B, .status = WEIR_ERR_SHAPE, .says = "4 and 5"},
    {.in = "(3,4)(4,5)", "a^T b^T", T_BOTH, .status = WEIR_ERR_SHAPE, .says = "3 and 5"},
    {.in = "(3)(4,5)", "a^T, a vector", T_A, .status = WEIR_ERR_SHAPE, .says = "vector"},
    {0},
};

static const op_set batch_sets[] = {
    {.in = "(2,3,4)(2,4,5)", "batches"},
    {.in = "(2,3,4)(4,5)", "one b for all"},
    {.in = "(3,4)(2,4,5)", "one a for all"},
    {.in = "(2,3,4)(1,4,5)", "b repeated"},
    {.in = "(3,1,2,4)(5,4,3)", "both repeated"},
    {.in = "(2,3,4,5)(2,3,5,4)", "4 axes"},
    {.in = "(2,3,4,5)(5,4)", "4 axes, one b for all"},
    {.in = "(2,1,3,2,3)(4,1,3,2)", "5 axes and 4"},
    {.in = "(4)(4)", "vectors"},
    {.in = "(4)(4,5)", "vector by matrix"},
    {.in = "(3,4)(4)", "matrix by vector"},
    {.in = "(4)(2,4,5)", "vector by matrices"},
    {.in = "(2,3,4)(4)", "matrices by vector"},
    {.in = "(2,3,4,5)(5)", "4 axes by vector"},
    {.in = "(2,4,3)(2,4,5)", "a^T", T_A},
    {.in = "(2,3,4)(2,5,4)", "b^T", T_B},
    {.in = "(2,4,3)(2,5,4)", "a^T b^T", T_BOTH},
    {.in = "(2,4,3)(4,5)", "a^T, one b for all", T_A},
    {.in = "(2,3,4)(5,4)", "b^T, one for all", T_B},
    {.in = "(2,3,4,2)(2,3,5,4)b", "a^T b^T, 4 axes", T_BOTH},
    {.in = "(2,3,4)t(2,4,5)b", "views"},
    {.in = "(0,3,4)(0,4,5)", "no batches"},
    {.in = "(2,0,4)(2,4,5)", "no rows"},
    {.in = "(2,3,0)(2,0,5)", "no terms"},
    {.in = "(0)(0)", "vectors, no terms"},
    {.in = "(9,40,30)(9,30,20)", "several tasks"},
    {.in = "(2,70,65)(2,65,80)", "few large ones"},
    {.in = "(3,1,300)(3,300,1)", "inner products"},
    {0},
};

static const op_set batch_wrong[] = {
    {.in = "(2,3,4)(2,5,4)", NULL, T_NONE, .status = WEIR_ERR_SHAPE, .says = "4 and 5"},
    {.in = "(2,3,4)(3,4,5)", NULL, T_NONE, .status = WEIR_ERR_SHAPE, .says = "do not broadcast"},
    {.in = "(2,3,4)(5)", NULL, T_NONE, .status = WEIR_ERR_SHAPE, .says = "4 and 5"},
    {.in = "(2,3,4)()", NULL, T_NONE, .status = WEIR_ERR_SHAPE, .says = "1 axis or more"},
    {.in = "(4)(4,5)", "a vector", T_A, .status = WEIR_ERR_SHAPE, .says = "vector"},
    {0},
};

#define SCALED(a, b)   {.s = a, .t = b}
#define SCALED_TURNED  {.s = 0.5, .t = -2, .ta = true, .tb = true}

static const op_set gemm_sets[] = {
    {.in = "(3,4)(4,5)(3,5)", "plain", SCALED(1, 1)},
    {.in = "(3,4)(4,5)(5)", "a row", SCALED(0.5, 2)},
    {.in = "(3,4)(4,5)(3,1)", "a column", SCALED(1, -1)},
    {.in = "(3,4)(4,5)()", "one value", SCALED(-2, 1)},
    {.in = "(4,3)(5,4)(3,5)", "a^T b^T", SCALED_TURNED},
    {.in = "(2,3,4)(2,4,5)(3,5)", "batches", SCALED(0.5, 3)},
    {.in = "(0,4)(4,5)(5)", "no rows", SCALED(2, 2)},
    {.in = "(3,0)(0,5)(3,5)", "no terms: c alone", SCALED(2, 2)},
    {.in = "(3,4)t(4,5)b(3,5)l", "views", SCALED(2, 0.5)},
    {.in = "(70,40)(40,30)(30)", "several tiles", SCALED(2, 0.5)},
    {0},
};

static const op_set gemm_wrong[] = {
    {.in = "(3,4)(5,6)(3,6)", NULL, SCALED(1, 1), .status = WEIR_ERR_SHAPE, .says = "4 and 5"},
    {.in = "(3,4)(4,5)(4)", NULL, SCALED(1, 1), .status = WEIR_ERR_SHAPE, .says = "c is"},
    {.in = "(3,4)(4,5)(2,3,5)", NULL, SCALED(1, 1), .status = WEIR_ERR_SHAPE, .says = "c is"},
    {0},
};

static const op_set linear_sets[] = {
    {.in = "(3,4)(5,4)(5)"},
    {.in = "(1,1)(1,1)(1)"},
    {.in = "(7,7)(7,7)(7)"},
    {.in = "(0,4)(5,4)(5)", "no rows"},
    {.in = "(3,4)(0,4)(0)", "no outputs"},
    {.in = "(3,0)(5,0)(5)", "no inputs: the bias alone"},
    {.in = "(3,4)t(5,4)(5)", "transposed x"},
    {.in = "(3,4)(5,4)t(5)b", "transposed w, repeated bias"},
    {.in = "(3,4)b(5,4)l(5)", "repeating views"},
    {.in = "(2,1500)(3,1500)(3)", "long sum"},
    {.in = "(1,70)(150,70)(150)", "one row"},
    {.in = "(130,70)(90,70)(90)", "several tiles"},
    {0},
};

static const op_set linear_plain_sets[] = {
    {.in = "(3,4)(5,4)"},
    {.in = "(1,1)(1,1)"},
    {.in = "(7,7)(7,7)"},
    {.in = "(0,4)(5,4)", "no rows"},
    {.in = "(3,0)(5,0)", "no inputs"},
    {.in = "(3,4)t(5,4)", "transposed x"},
    {.in = "(3,4)(5,4)t", "transposed w"},
    {.in = "(2,1500)(3,1500)", "long sum"},
    {.in = "(130,70)(90,70)", "several tiles"},
    {0},
};

static const op_set linear_wrong[] = {
    {.in = "(3,4)(5,6)(5)", .status = WEIR_ERR_SHAPE, .says = "4 columns but w takes 6"},
    {.in = "(3,4)(5,4)(4)", .status = WEIR_ERR_SHAPE, .says = "bias"},
    {.in = "(3,4)(5,4)(1,5)", .status = WEIR_ERR_SHAPE, .says = "bias"},
    {.in = "(4)(5,4)(5)", .status = WEIR_ERR_SHAPE, .says = "x must have 2 axes"},
    {.in = "(3,4)(4)(4)", .status = WEIR_ERR_SHAPE, .says = "w must have 2 axes"},
    {0},
};

#define EQ(text) {.equation = text}

static const op_set einsum_sets[] = {
    {.in = "(3,4)(4,5)", "product", EQ("ij,jk->ik")},
    {.in = "(3,4)(5,4)", "second transposed", EQ("ij,kj->ik")},
    {.in = "(4,3)(4,5)", "result turned", EQ("ji,jk->ki")},
    {.in = "(2,3,4)(2,4,5)", "batch", EQ("bij,bjk->bik")},
    {.in = "(3,2,4)(5,4,2)", "batch in the middle", EQ("ibj,kjb->bki")},
    {.in = "(2,3,4,5)(2,3,6,5)", "heads", EQ("bhqd,bhkd->bhqk")},
    {.in = "(2,4,3,5)(2,6,3,5)", "heads inside", EQ("bqhd,bkhd->bhqk")},
    {.in = "(2,3,4)(4,3,5)", "two inner labels", EQ("bij,jik->bk")},
    {.in = "(7)(7)", "inner product", EQ("i,i->")},
    {.in = "(3)(4)", "outer product", EQ("i,j->ji")},
    {.in = "(3,4)(4,3)t", "element-wise", EQ("ij,ji->ij")},
    {.in = "(3,4)(4)", "columns scaled", EQ("ij,j->ij")},
    {.in = "(2,3,4)(3,5)", "sums in each alone", EQ("abc,bd->b")},
    {.in = "(2,3,4)(3,5,2)", "all summed", EQ("abc,bda->")},
    {.in = "(2,3)(4)", "nothing shared, summed", EQ("ij,k->k")},
    {.in = "()(3,2)", "scalar", EQ(",ij->ji")},
    {.in = "(2,3,4,5)", "axes moved", EQ("abcd->dbac")},
    {.in = "(2,3,4,5)t", "sums of one", EQ("abcd->ca")},
    {.in = "(3,4)", "sum", EQ("ij->")},
    {.in = "(3,4)b(4,5)l", "views that repeat", EQ("ij,jk->ik")},
    {.in = "(0,4)(4,5)", "no rows", EQ("ij,jk->ik")},
    {.in = "(3,0)(0,5)", "nothing summed", EQ("ij,jk->ik")},
    {.in = "(37,29)(41,29)", "larger", EQ("ij,kj->ki")},
    {0},
};

static const op_set einsum_wrong[] = {
    {.in = "(3,4)(5,6)", NULL, EQ("ij,jk->ik"), .status = WEIR_ERR_SHAPE,
     .says = "'ij,jk->ik': j is 4 in operand 0, 5 in operand 1"},
    {.in = "(3,4)(4,5)", NULL, EQ("ijl,jk->ik"), .status = WEIR_ERR_SHAPE,
     .says = "3 labels for operand 0 of 2 axes"},
    {.in = "(3,4)(4,5)", NULL, EQ("ij,j->i"), .status = WEIR_ERR_SHAPE,
     .says = "1 labels for operand 1 of 2 axes"},
    {.in = "(3,4)(4,5)", NULL, EQ("ij,jk->iz"), .status = WEIR_ERR_INVALID,
     .says = "no operand has the label z"},
    {.in = "(3,4)(4,5)", NULL, EQ("ij,jk"), .status = WEIR_ERR_INVALID, .says = "->"},
    {.in = "(3,3)(3,5)", NULL, EQ("ii,ik->k"), .status = WEIR_ERR_INVALID,
     .says = "the label i occurs twice"},
    {.in = "(3,4)(4,5)", NULL, EQ("ij,jk->ii"), .status = WEIR_ERR_INVALID, .says = "twice"},
    {.in = "(3,4)(4,5)", NULL, EQ("ij,jk,k->i"), .status = WEIR_ERR_INVALID,
     .says = "more than 2 operands"},
    {.in = "(3,4)(4,5)", NULL, EQ("ij->i"), .status = WEIR_ERR_INVALID,
     .says = "the equation names one operand"},
    {.in = "(3,4)(4,5)", NULL, EQ("i...,jk->ik"), .status = WEIR_ERR_INVALID,
     .says = "'.' is not a label"},
    {.in = "(3,4)(4,5)", NULL, EQ("ij,jk->i,k"), .status = WEIR_ERR_INVALID,
     .says = "',' is not a label"},
    {.in = "(3,4)(4,5)", NULL, EQ("abcdefghi,jk->ik"), .status = WEIR_ERR_INVALID,
     .says = "more than 8 labels"},
    {0},
};

static weir_tensor *matmul(const op_call *c)
{
    return weir_matmul(c->in[0], c->in[1]);
}

static weir_tensor *matmul_t(const op_call *c)
{
    return weir_matmul_t(c->in[0], c->in[1], c->o->ta, c->o->tb);
}

static weir_tensor *gemm(const op_call *c)
{
    return weir_gemm(c->in[0], c->in[1], c->in[2], c->o->s, c->o->t, c->o->ta, c->o->tb);
}

static weir_tensor *einsum(const op_call *c)
{
    return weir_einsum(c->o->equation, c->in[0], c->in[1]);
}

static weir_tensor *linear(const op_call *c)
{
    return weir_linear(c->in[0], c->in[1], c->in[2]);
}

const op_row op_matmul[] = {
    {.name = "matmul", .build = matmul, .reference = ref_matmul, .types = OP_ANY_FLOAT,
     .in = {{OP_PARAM, -1, 1}, {OP_PARAM, -1, 1.5}}, .eps = 16, .rms = true, .library = true,
     .sets = matmul_sets, .wrong = matmul_wrong},
    {.name = "matmul_t", .says = "matmul", .build = matmul_t, .reference = ref_matmul,
     .types = OP_ANY_FLOAT, .in = {{OP_PARAM, -1, 1}, {OP_PARAM, -1, 1.5}}, .eps = 16, .rms = true,
     .library = true, .sets = matmul_t_sets, .wrong = matmul_t_wrong},
    {.name = "batch_matmul", .says = "matmul", .build = matmul_t, .reference = ref_batch_matmul,
     .types = OP_ANY_FLOAT, .in = {{OP_PARAM, -1, 1}, {OP_PARAM, -1, 1.5}}, .eps = 16, .rms = true,
     .library = true, .sets = batch_sets, .wrong = batch_wrong},
    {.name = "gemm", .build = gemm, .reference = ref_gemm, .types = OP_ANY_FLOAT,
     .in = {{OP_PARAM, -1, 1}, {OP_PARAM, -1, 1.5}, {OP_PARAM, -1, 1}}, .eps = 16, .half_eps = 2,
     .rms = true, .library = true, .optional = 1 << 2, .sets = gemm_sets, .wrong = gemm_wrong},
    {.name = "einsum", .build = einsum, .reference = ref_einsum, .types = OP_ANY_FLOAT,
     .in = {{OP_PARAM, -1, 1}, {OP_PARAM, -1, 1.5}}, .eps = 16, .half_eps = 3, .rms = true,
     .library = true, .optional = 1 << 1, .sets = einsum_sets, .wrong = einsum_wrong},
    {.name = "linear", .build = linear, .reference = ref_linear, .types = OP_ANY_FLOAT,
     .in = {{OP_PARAM, -1, 1}, {OP_PARAM, -1, 1.5}, {OP_PARAM, -1, 1}}, .eps = 16, .rms = true,
     .library = true, .optional = 1 << 2, .sets = linear_sets, .wrong = linear_wrong},
    {.name = "linear (no bias)", .says = "linear", .build = linear, .reference = ref_linear,
     .types = OP_ANY_FLOAT, .in = {{OP_PARAM, -1, 1}, {OP_PARAM, -1, 1.5}}, .eps = 16, .rms = true,
     .library = true, .sets = linear_plain_sets},
    {0},
};
