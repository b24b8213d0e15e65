/* basic.c - the calls that gradients and composed operations are made of: arithmetic.
 *
 * The rule: no two files of this folder refer to each other, not even by way of others. The rows'
 * definitions (elementwise.c) refer to gradients in activation.c, norm.c and layer_norm.c, so a row
 * that these or what they call need as a public function has it here, below them all. A public
 * function needs the number of its op only, not the definition. */
#include "graph/ops/define.h"

weir_tensor *weir_neg(weir_tensor *x)
{
    return weir_row1(WEIR_OP_NEG, x, 0, 0);
}

weir_tensor *weir_affine(weir_tensor *x, double mul, double add)
{
    return weir_row1(WEIR_OP_AFFINE, x, mul, add);
}

weir_tensor *weir_add(weir_tensor *a, weir_tensor *b)
{
    return weir_row2(WEIR_OP_ADD, a, b);
}

weir_tensor *weir_sub(weir_tensor *a, weir_tensor *b)
{
    return weir_row2(WEIR_OP_SUB, a, b);
}

weir_tensor *weir_mul(weir_tensor *a, weir_tensor *b)
{
    return weir_row2(WEIR_OP_MUL, a, b);
}

weir_tensor *weir_div(weir_tensor *a, weir_tensor *b)
{
    return weir_row2(WEIR_OP_DIV, a, b);
}

weir_tensor *weir_rstd(weir_tensor *var, double eps)
{
    return weir_row1(WEIR_OP_RSQRT, weir_affine(var, 1, eps), 0, 0);
}
