/* unary.c - element-wise operators of one tensor. */
#include <math.h>
#include <string.h>

#include "model/onnx/op/ops.h"

#define UNARY(name, function)                                                                      \
    weir_status weir_onnx_##name(weir_onnx_call *c)                                                \
    {                                                                                              \
        return weir_onnx_give(c, 0, function(weir_onnx_x(c, 0)));                                  \
    }

UNARY(abs, weir_abs)
UNARY(acos, weir_acos)
UNARY(acosh, weir_acosh)
UNARY(asin, weir_asin)
UNARY(asinh, weir_asinh)
UNARY(atan, weir_atan)
UNARY(atanh, weir_atanh)
UNARY(ceil, weir_ceil)
UNARY(cos, weir_cos)
UNARY(cosh, weir_cosh)
UNARY(erf, weir_erf)
UNARY(exp, weir_exp)
UNARY(floor, weir_floor)
UNARY(hard_swish, weir_hardswish)
UNARY(identity, weir_onnx_same)
UNARY(log, weir_log)
UNARY(neg, weir_neg)
UNARY(not, weir_logical_not)
UNARY(reciprocal, weir_reciprocal)
UNARY(relu, weir_relu)
UNARY(round, weir_round_even)
UNARY(sigmoid, weir_sigmoid)
UNARY(sign, weir_sign)
UNARY(sin, weir_sin)
UNARY(sinh, weir_sinh)
UNARY(softplus, weir_softplus)
UNARY(softsign, weir_softsign)
UNARY(sqrt, weir_sqrt)
UNARY(tan, weir_tan)
UNARY(tanh, weir_tanh)

/* All bits turned: -x - 1 in two's complement. */
weir_status weir_onnx_bitwise_not(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    const weir_dtype   t = weir_tensor_desc(x).dtype;
    return weir_onnx_give(c, 0, weir_sub(weir_neg(x), weir_onnx_scalar(c, t, 1)));
}

/* bool is a byte of 0 or 1, whose bits a cast keeps. */
weir_status weir_onnx_bit_cast(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    const weir_dtype   from = weir_tensor_desc(x).dtype;
    weir_dtype         to;

    if (!weir_onnx_dtype(weir_onnx_int(c, "to", 0), &to))
        return weir_onnx_refuse(c, "Weir lacks the type %s",
                                weir_onnx_type_name(weir_onnx_int(c, "to", 0)));
    const bool truth = from == WEIR_BOOL || to == WEIR_BOOL;
    if (truth && weir_dtype_size(from) != weir_dtype_size(to))
        return weir_onnx_refuse(c, "%s to %s", weir_dtype_name(from), weir_dtype_name(to));
    return weir_onnx_give(c, 0, truth ? weir_cast(x, to) : weir_bit_cast(x, to));
}

weir_status weir_onnx_leaky_relu(weir_onnx_call *c)
{
    const double slope = weir_onnx_float(c, "alpha", (double)0.01f);
    return weir_onnx_give(c, 0, weir_leaky_relu(weir_onnx_x(c, 0), slope));
}

weir_status weir_onnx_elu(weir_onnx_call *c)
{
    return weir_onnx_give(c, 0, weir_elu(weir_onnx_x(c, 0), weir_onnx_float(c, "alpha", 1)));
}

/* max(0, x) + min(0, alpha (exp(x / alpha) - 1)) = alpha elu(x / alpha). */
weir_status weir_onnx_celu(weir_onnx_call *c)
{
    const double       alpha = weir_onnx_float(c, "alpha", 1);
    weir_tensor *const x = weir_onnx_x(c, 0);

    return weir_onnx_give(c, 0, weir_affine(weir_elu(weir_affine(x, 1 / alpha, 0), 1), alpha, 0));
}

/* gamma elu(x, alpha). */
weir_status weir_onnx_selu(weir_onnx_call *c)
{
    const double alpha = weir_onnx_float(c, "alpha", 1.67326319217681884765625);
    const double gamma = weir_onnx_float(c, "gamma", 1.05070102214813232421875);
    const bool   usual = alpha == 1.67326319217681884765625 && gamma == 1.05070102214813232421875;

    if (usual)
        return weir_onnx_give(c, 0, weir_selu(weir_onnx_x(c, 0)));
    return weir_onnx_give(c, 0, weir_affine(weir_elu(weir_onnx_x(c, 0), alpha), gamma, 0));
}

/* 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) where "tanh" is asked for. */
weir_status weir_onnx_gelu(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);

    if (strcmp(weir_onnx_str(c, "approximate", "none"), "tanh") != 0)
        return weir_onnx_give(c, 0, weir_gelu(x));
    weir_tensor *const cube = weir_mul(weir_square(x), x);
    weir_tensor *const in =
        weir_affine(weir_add(x, weir_affine(cube, 0.044715, 0)), 0.79788456080286535588, 0);
    return weir_onnx_give(c, 0, weir_mul(weir_affine(x, 0.5, 0), weir_affine(weir_tanh(in), 1, 1)));
}

weir_status weir_onnx_hard_sigmoid(weir_onnx_call *c)
{
    const double alpha = weir_onnx_float(c, "alpha", (double)0.2f);
    const double beta = weir_onnx_float(c, "beta", 0.5);

    if (alpha == (double)(1.0f / 6) && beta == 0.5)
        return weir_onnx_give(c, 0, weir_hardsigmoid(weir_onnx_x(c, 0)));
    return weir_onnx_give(c, 0, weir_clamp(weir_affine(weir_onnx_x(c, 0), alpha, beta), 0, 1));
}

weir_status weir_onnx_mish(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    return weir_onnx_give(c, 0, weir_mul(x, weir_tanh(weir_softplus(x))));
}

weir_status weir_onnx_swish(weir_onnx_call *c)
{
    const double       alpha = weir_onnx_float(c, "alpha", 1);
    weir_tensor *const x = weir_onnx_x(c, 0);

    return weir_onnx_give(
        c, 0, alpha == 1 ? weir_silu(x) : weir_mul(x, weir_sigmoid(weir_affine(x, alpha, 0))));
}

/* x > alpha ? x : 0. */
weir_status weir_onnx_thresholded_relu(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    const weir_dtype   t = weir_tensor_desc(x).dtype;
    weir_tensor *const least = weir_onnx_scalar(c, t, weir_onnx_float(c, "alpha", 1));

    return weir_onnx_give(c, 0, weir_where(weir_gt(x, least), x, weir_onnx_scalar(c, t, 0)));
}

/* x < -lambd: x + bias; x > lambd: x - bias; else 0. */
weir_status weir_onnx_shrink(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    const weir_dtype   t = weir_tensor_desc(x).dtype;
    const double       bias = weir_onnx_float(c, "bias", 0);
    const double       limit = weir_onnx_float(c, "lambd", 0.5);
    weir_tensor *const b = weir_onnx_scalar(c, t, bias);
    weir_tensor *const above = weir_where(weir_gt(x, weir_onnx_scalar(c, t, limit)), weir_sub(x, b),
                                          weir_onnx_scalar(c, t, 0));

    return weir_onnx_give(
        c, 0, weir_where(weir_lt(x, weir_onnx_scalar(c, t, -limit)), weir_add(x, b), above));
}

weir_status weir_onnx_is_nan(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    return weir_onnx_give(c, 0, weir_ne(x, x));
}

weir_status weir_onnx_is_inf(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    const weir_dtype   t = weir_tensor_desc(x).dtype;
    const bool         up = weir_onnx_int(c, "detect_positive", 1) != 0;
    const bool         down = weir_onnx_int(c, "detect_negative", 1) != 0;
    weir_tensor *const above = weir_eq(x, weir_onnx_scalar(c, t, up ? INFINITY : -INFINITY));

    if (!up && !down)
        return weir_onnx_give(c, 0, weir_lt(x, x));
    return weir_onnx_give(
        c, 0,
        up && down ? weir_logical_or(above, weir_eq(x, weir_onnx_scalar(c, t, -INFINITY))) : above);
}

/* min(max(x, lo), hi): the bounds are attributes up to opset 10, then inputs. */
weir_status weir_onnx_clip(weir_onnx_call *c)
{
    weir_tensor     *y = weir_onnx_x(c, 0);
    const weir_dtype t = weir_tensor_desc(y).dtype;
    weir_tensor     *bound[2] = {NULL, NULL};

    for (size_t i = 0; i < 2; i++) {
        const char *const name = i ? "max" : "min";
        if (weir_onnx_has(c, i + 1))
            bound[i] = weir_onnx_x(c, i + 1);
        else if (c->opset < 11 && weir_onnx_attr_of(c, name))
            bound[i] = weir_onnx_scalar(c, t, weir_onnx_float(c, name, 0));
        else
            continue;
        y = i ? weir_min(y, bound[i]) : weir_max(y, bound[i]);
    }
    return weir_onnx_give(c, 0, bound[0] || bound[1] ? y : weir_onnx_same(y));
}
