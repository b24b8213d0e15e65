/* binary.c - element-wise operators of two and more tensors. */
#include <string.h>

#include "model/onnx/op/ops.h"

/* Input 1; in opset 6 its axes stand below those of input 0 from `axis` on. */
static weir_tensor *second(weir_onnx_call *c)
{
    weir_tensor *const b = weir_onnx_x(c, 1);
    int64_t            dim[WEIR_MAX_DIMS];

    if (!b || c->opset > 6 || !weir_onnx_attr_of(c, "axis"))
        return b;
    const weir_desc d = weir_tensor_desc(b);
    const int       ndim = weir_onnx_desc_of(c, 0).ndim;
    const int64_t   axis = weir_onnx_int(c, "axis", 0);
    if (axis < 0 || axis + d.ndim > ndim)
        return (void)weir_onnx_refuse(c, "axis %lld", (long long)axis), NULL;
    for (int i = 0; i < ndim; i++)
        dim[i] = i >= axis && i < axis + d.ndim ? d.dim[i - axis] : 1;
    return weir_reshape(b, ndim, dim);
}

#define BINARY(name, function)                                                                     \
    weir_status weir_onnx_##name(weir_onnx_call *c)                                                \
    {                                                                                              \
        weir_tensor *const a = weir_onnx_x(c, 0), *const b = second(c);                            \
        return weir_onnx_give(c, 0, function(a, b));                                               \
    }

BINARY(add, weir_add)
BINARY(sub, weir_sub)
BINARY(mul, weir_mul)
BINARY(and, weir_logical_and)
BINARY(or, weir_logical_or)
BINARY(xor, weir_logical_xor)
BINARY(bitwise_and, weir_bitwise_and)
BINARY(bitwise_or, weir_bitwise_or)
BINARY(bitwise_xor, weir_bitwise_xor)
BINARY(equal, weir_eq)
BINARY(greater, weir_gt)
BINARY(greater_or_equal, weir_ge)
BINARY(less, weir_lt)
BINARY(less_or_equal, weir_le)

static bool is_whole(weir_tensor *x)
{
    const weir_dtype t = weir_tensor_desc(x).dtype;
    return t != WEIR_F32 && t != WEIR_F64 && t != WEIR_F16 && t != WEIR_BF16;
}

weir_status weir_onnx_bit_shift(weir_onnx_call *c)
{
    weir_tensor *const a = weir_onnx_x(c, 0), *const b = weir_onnx_x(c, 1);
    const char *const  to = weir_onnx_str(c, "direction", "");

    if (strcmp(to, "LEFT") != 0 && strcmp(to, "RIGHT") != 0)
        return weir_onnx_refuse(c, "direction %.20s", to);
    return weir_onnx_give(c, 0, *to == 'L' ? weir_shift_left(a, b) : weir_shift_right(a, b));
}

weir_status weir_onnx_div(weir_onnx_call *c)
{
    weir_tensor *const a = weir_onnx_x(c, 0), *const b = second(c);
    return weir_onnx_give(c, 0, is_whole(a) ? weir_div_trunc(a, b) : weir_div(a, b));
}

/* The type is the base's. */
weir_status weir_onnx_pow(weir_onnx_call *c)
{
    weir_tensor *const a = weir_onnx_x(c, 0), *const b = second(c);
    return weir_onnx_give(c, 0, weir_onnx_as(weir_pow(a, b), weir_tensor_desc(a).dtype));
}

/* fmod 1: the sign of a, as C's fmod. */
weir_status weir_onnx_mod(weir_onnx_call *c)
{
    weir_tensor *const a = weir_onnx_x(c, 0), *const b = second(c);

    if (weir_onnx_int(c, "fmod", 0) == 0)
        return weir_onnx_give(c, 0, weir_remainder(a, b));
    return weir_onnx_give(c, 0, weir_sub(a, weir_mul(weir_div_trunc(a, b), b)));
}

weir_status weir_onnx_where(weir_onnx_call *c)
{
    weir_tensor *const on = weir_onnx_x(c, 0), *const a = weir_onnx_x(c, 1);
    return weir_onnx_give(c, 0, weir_where(on, a, weir_onnx_x(c, 2)));
}

/* max(x, 0) + slope min(x, 0); the slope broadcasts, in opset 6 from the channels on. */
weir_status weir_onnx_prelu(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    weir_tensor       *slope = weir_onnx_x(c, 1);

    if (!x || !slope)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x), s = weir_tensor_desc(slope);
    if (c->opset < 7 && s.ndim == 1 && d.ndim > 1)
        slope = weir_onnx_per_channel(slope, s.dim[0], d.ndim);
    weir_tensor *const zero = weir_onnx_scalar(c, d.dtype, 0);
    return weir_onnx_give(c, 0, weir_where(weir_gt(x, zero), x, weir_mul(x, slope)));
}

/* a sigmoid(alpha a) b. */
weir_status weir_onnx_swiglu(weir_onnx_call *c)
{
    weir_tensor *const a = weir_onnx_x(c, 0), *const b = weir_onnx_x(c, 1);
    const double       alpha = weir_onnx_float(c, "alpha", 1);
    weir_tensor *const gate =
        alpha == 1 ? weir_silu(a) : weir_mul(a, weir_sigmoid(weir_affine(a, alpha, 0)));

    return weir_onnx_give(c, 0, weir_mul(gate, b));
}

static weir_status all(weir_onnx_call *c, weir_tensor *(*fn)(weir_tensor *, weir_tensor *),
                       bool            mean)
{
    const size_t n = c->node->n_in;
    weir_tensor *y = weir_onnx_x(c, 0);

    for (size_t i = 1; i < n; i++)
        y = fn(y, weir_onnx_x(c, i));
    if (mean)
        y = weir_affine(y, 1.0 / (double)n, 0);
    return weir_onnx_give(c, 0, n == 1 ? weir_onnx_same(y) : y);
}

weir_status weir_onnx_max(weir_onnx_call *c)
{
    return all(c, weir_max, false);
}

weir_status weir_onnx_min(weir_onnx_call *c)
{
    return all(c, weir_min, false);
}

weir_status weir_onnx_sum(weir_onnx_call *c)
{
    return all(c, weir_add, false);
}

weir_status weir_onnx_mean(weir_onnx_call *c)
{
    return all(c, weir_add, true);
}
