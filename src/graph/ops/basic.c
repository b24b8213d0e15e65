/* basic.c - arithmetic that gradients and composed operations call.
 *
 * Files of this folder must not refer to each other in a circle. The definitions of rows
 * (elementwise.c) refer to gradients in activation.c, norm.c and layer_norm.c. Public functions
 * that those call stand here, below all of them: a public function needs only the number of its op,
 * not the definition. */
#include <math.h>

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

double weir_option(bool exact, double value, double fallback)
{
    return exact || value != 0 || signbit(value) ? value + 0.0 : fallback;
}

weir_tensor *weir_rstd(weir_tensor *var, double eps)
{
    return weir_row1(WEIR_OP_RSQRT, weir_affine(var, 1, eps), 0, 0);
}
