/* activation.c - gradients and public functions of activations, functions of one number and powers
 * that are not made from a CURVE of elementwise.def.
 *
 * The definitions are rows of elementwise.def; activation.h assigns the gradients and says what
 * they read. */
#include "graph/ops/activation.h"

#include <math.h>

#include "graph/ops/define.h"

/* ---- gradients ---- */

weir_status weir_sin_grad_of(weir_grad *g)
{
    return weir_grad_set(g, 0, weir_mul(g->dy[0], weir_cos(g->x[0])));
}

weir_status weir_cos_grad_of(weir_grad *g)
{
    return weir_grad_set(g, 0, weir_neg(weir_mul(g->dy[0], weir_sin(g->x[0]))));
}

weir_status weir_sinh_grad_of(weir_grad *g)
{
    return weir_grad_set(g, 0, weir_mul(g->dy[0], weir_cosh(g->x[0])));
}

weir_status weir_cosh_grad_of(weir_grad *g)
{
    return weir_grad_set(g, 0, weir_mul(g->dy[0], weir_sinh(g->x[0])));
}

weir_status weir_acos_grad_of(weir_grad *g)
{
    return weir_grad_set(g, 0, weir_neg(weir_row2(WEIR_OP_ASIN_GRAD, g->dy[0], g->x[0])));
}

/* Of step functions: 0 everywhere. */
weir_status weir_step_grad_of(weir_grad *g)
{
    return weir_grad_set(g, 0, weir_fill(g->x[0]->dev, g->x[0]->layout.desc, 0));
}

weir_status weir_prelu_grad_of(weir_grad *g)
{
    weir_tensor *const dy = g->dy[0], *const x = g->x[0], *const slope = g->x[1];

    if (weir_wants(g, 0))
        WEIR_TRY(weir_grad_set_summed(g, 0, weir_row3(WEIR_OP_PRELU_GRAD_X, dy, x, slope)));
    if (weir_wants(g, 1))
        WEIR_TRY(weir_grad_set_summed(g, 1, weir_row2(WEIR_OP_PRELU_GRAD_SLOPE, dy, x)));
    return WEIR_OK;
}

weir_status weir_pow_grad_of(weir_grad *g)
{
    weir_tensor *const in[] = {g->dy[0], g->x[0], g->x[1], g->y[0]};
    const weir_ew_attr none = {0, 0};

    if (weir_wants(g, 0))
        WEIR_TRY(weir_grad_set_summed(g, 0, weir_row3(WEIR_OP_POW_GRAD_BASE, in[0], in[1], in[2])));
    if (weir_wants(g, 1))
        WEIR_TRY(weir_grad_set_summed(
            g, 1, weir_record1(WEIR_OP_POW_GRAD_EXP, 4, in, &none, sizeof none)));
    return WEIR_OK;
}

/* ---- public functions ---- */

#define UNARY(ID, id)                                                                              \
    weir_tensor *weir_##id(weir_tensor *x)                                                         \
    {                                                                                              \
        return weir_row1(WEIR_OP_##ID, x, 0, 0);                                                   \
    }

UNARY(FLOOR, floor)
UNARY(CEIL, ceil)
UNARY(ROUND, round)
UNARY(ROUND_EVEN, round_even)
UNARY(SIGN, sign)
UNARY(SIN, sin)
UNARY(COS, cos)
UNARY(ACOS, acos)
UNARY(SINH, sinh)
UNARY(COSH, cosh)

weir_tensor *weir_leaky_relu(weir_tensor *x, double slope)
{
    return weir_row1(WEIR_OP_LEAKY_RELU, x, slope, 0);
}

weir_tensor *weir_elu(weir_tensor *x, double alpha)
{
    return weir_row1(WEIR_OP_ELU, x, alpha, 0);
}

/* The constants for which mean 0 and variance 1 are a fixed point (Klambauer et al. 2017). */
weir_tensor *weir_selu(weir_tensor *x)
{
    const double alpha = 1.6732632423543772848, scale = 1.0507009873554804934;

    return weir_row1(WEIR_OP_SELU, x, alpha * scale, scale);
}

weir_tensor *weir_clamp(weir_tensor *x, double lo, double hi)
{
    if (!(lo <= hi))
        return WEIR_FAIL_NULL(WEIR_ERR_INVALID, "clamp: lo must be at most hi, not %g and %g",
                              lo, hi);
    if (!x || weir_is_any_float(x->layout.desc.dtype))
        return weir_row1(WEIR_OP_CLAMP, x, lo, hi);
    if (!(ceil(lo) <= floor(hi)))
        return WEIR_FAIL_NULL(WEIR_ERR_INVALID, "clamp: x is %s, and no integer is from %g to %g",
                              weir_dtype_name(x->layout.desc.dtype), lo, hi);
    return weir_row1(WEIR_OP_CLAMP, x, ceil(lo), floor(hi));
}

weir_tensor *weir_pow(weir_tensor *a, weir_tensor *b)
{
    return weir_row2(WEIR_OP_POW, a, b);
}

/* Slopes per channel are viewed as (c, 1, ..., 1), which broadcasts to all axes after axis 1. */
weir_tensor *weir_prelu(weir_tensor *x, weir_tensor *slope)
{
    char have[WEIR_DESC_TEXT], image[WEIR_DESC_TEXT];

    if (!x || !slope)
        return weir_null("weir_prelu", x ? "slope" : "x");
    const weir_desc *const d = &x->layout.desc, *const s = &slope->layout.desc;
    const int64_t          count = weir_shape_count(s);
    if (s->ndim > 1 || (count != 1 && (d->ndim < 2 || d->dim[1] != count)))
        return WEIR_FAIL_NULL(WEIR_ERR_SHAPE,
                              "prelu: slope must be one number or one per channel, not %s (inputs "
                              "%s, %s)", weir_desc_text(s, have), weir_desc_text(d, image),
                              have);
    const int64_t dim[WEIR_MAX_DIMS] = {count, 1, 1, 1, 1, 1, 1};
    const int     ndim = count == 1 ? 0 : d->ndim - 1;
    return weir_row2(WEIR_OP_PRELU, x, weir_reshape(slope, ndim, dim));
}
