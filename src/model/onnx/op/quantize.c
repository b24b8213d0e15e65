/* quantize.c - integers that stand for numbers, and the products and convolutions of such integers.
 *
 * A number is (integer - zero point) scale. Products are computed in f64, where sums of up to 2^37
 * products of 8 bits are exact, so results are those of integer arithmetic. */
#include <string.h>

#include "model/onnx/op/ops.h"

/* ---- scales and zero points: one, one for each element of an axis, or one for each block ---- */

/* t as it stands over x: repeated in blocks along the axis, or along it alone. */
static weir_tensor *over(weir_onnx_call *c, weir_tensor *t, const weir_desc *x)
{
    const int64_t block = weir_onnx_int(c, "block_size", 0);
    int64_t       dim[WEIR_MAX_DIMS];
    int           axis;

    if (!t)
        return NULL;
    const weir_desc d = weir_tensor_desc(t);
    if (d.ndim == 0 || weir_onnx_elements(&d) == 1)
        return weir_reshape(t, 0, NULL);
    if (weir_onnx_axis(c, weir_onnx_int(c, "axis", 1), x->ndim, &axis) != WEIR_OK)
        return NULL;
    if (d.ndim == x->ndim && block > 0) {
        const int64_t most = x->dim[axis], times = block < most ? block : most;
        weir_tensor *const all = weir_repeat(t, axis, times);
        return all ? weir_narrow(all, axis, 0, x->dim[axis]) : NULL;
    }
    if (d.ndim != 1 || d.dim[0] != x->dim[axis])
        return (void)weir_onnx_refuse(c, "scales with %d axes along axis %d", d.ndim, axis), NULL;
    for (int i = 0; i < x->ndim; i++)
        dim[i] = i == axis ? d.dim[0] : 1;
    return weir_reshape(t, x->ndim, dim);
}

static bool is_integer(weir_dtype t)
{
    return t == WEIR_I8 || t == WEIR_U8 || t == WEIR_I16 || t == WEIR_U16 || t == WEIR_I32;
}

/* The least and greatest number of an integer type of up to 32 bits. */
static void limits(weir_dtype t, double *low, double *high)
{
    const double all = t == WEIR_I8 || t == WEIR_U8 ? 256 : t == WEIR_I32 ? 0x1p32 : 65536;
    const bool   sign = t == WEIR_I8 || t == WEIR_I16 || t == WEIR_I32;

    *low = sign ? -all / 2 : 0;
    *high = *low + all - 1;
}

/* round(x) + zero, held within the type. */
static weir_tensor *saturated(weir_tensor *x, weir_tensor *zero, weir_dtype t)
{
    double low, high;

    limits(t, &low, &high);
    weir_tensor *const whole = weir_cast(weir_round_even(x), WEIR_F64);
    weir_tensor *const moved = zero ? weir_add(whole, weir_cast(zero, WEIR_F64)) : whole;
    return weir_cast(weir_clamp(moved, low, high), t);
}

/* The type of the result: that of the zero point, or as an attribute says. */
static weir_status result_type(weir_onnx_call *c, weir_dtype *t)
{
    const int64_t said = weir_onnx_int(c, "output_dtype", 0);

    *t = weir_onnx_has(c, 2) ? weir_onnx_desc_of(c, 2).dtype : WEIR_U8;
    if (!weir_onnx_has(c, 2) && said && !weir_onnx_dtype(said, t))
        return weir_onnx_refuse(c, "Weir lacks the type %s", weir_onnx_type_name(said));
    return is_integer(*t) ? WEIR_OK
                          : weir_onnx_refuse(c, "a result of %s", weir_dtype_name(*t));
}

weir_status weir_onnx_quantize(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0), *scale = weir_onnx_x(c, 1);
    weir_tensor *zero = weir_onnx_has(c, 2) ? weir_onnx_x(c, 2) : NULL;
    weir_dtype   type;

    if (!x || !scale || (weir_onnx_has(c, 2) && !zero))
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    WEIR_TRY(result_type(c, &type));
    if (!(scale = over(c, scale, &d)) || (zero && !(zero = over(c, zero, &d))))
        return weir_error_status();
    weir_tensor *const number = d.dtype == WEIR_F64 ? x : weir_onnx_as(x, WEIR_F32);
    scale = weir_onnx_as(scale, d.dtype == WEIR_F64 ? WEIR_F64 : WEIR_F32);
    return weir_onnx_give(c, 0, saturated(weir_div(number, scale), zero, type));
}

/* x less its zero point, as f64. */
static weir_tensor *centred(weir_tensor *x, weir_tensor *zero)
{
    weir_tensor *const wide = x ? weir_cast(x, WEIR_F64) : NULL;
    return zero ? weir_sub(wide, weir_cast(zero, WEIR_F64)) : wide;
}

weir_status weir_onnx_dequantize(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0), *scale = weir_onnx_x(c, 1);
    weir_tensor  *zero = weir_onnx_has(c, 2) ? weir_onnx_x(c, 2) : NULL;
    const int64_t said = weir_onnx_int(c, "output_dtype", 0);

    if (!x || !scale || (weir_onnx_has(c, 2) && !zero))
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    weir_dtype      type = weir_tensor_desc(scale).dtype;
    if (said && !weir_onnx_dtype(said, &type))
        return weir_onnx_refuse(c, "Weir lacks the type %s", weir_onnx_type_name(said));
    if (!is_integer(d.dtype))
        return weir_onnx_refuse(c, "elements of %s", weir_dtype_name(d.dtype));
    if (!(scale = over(c, scale, &d)) || (zero && !(zero = over(c, zero, &d))))
        return weir_error_status();
    weir_tensor *const whole = weir_cast(centred(x, zero), WEIR_F32);
    weir_tensor *const y = weir_mul(whole, weir_onnx_as(scale, WEIR_F32));
    return weir_onnx_give(c, 0, weir_onnx_as(y, type));
}

/* To u8, so that 0 and all of x fit: scale = (max - min) / 255. */
weir_status weir_onnx_dynamic_quantize(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);

    if (!x)
        return weir_error_status();
    weir_tensor *const none = weir_onnx_scalar(c, weir_tensor_desc(x).dtype, 0);
    weir_tensor *const most = weir_max(weir_amax(x, 0, false), none);
    weir_tensor *const least = weir_min(weir_amin(x, 0, false), none);
    weir_tensor *const scale =
        weir_div(weir_sub(most, least), weir_onnx_scalar(c, weir_tensor_desc(x).dtype, 255));
    weir_tensor *const zero = saturated(weir_div(weir_neg(least), scale), NULL, WEIR_U8);

    WEIR_TRY(weir_onnx_give(c, 1, scale));
    WEIR_TRY(weir_onnx_give(c, 2, zero));
    return weir_onnx_give(c, 0, saturated(weir_div(x, scale), zero, WEIR_U8));
}

/* ---- products ---- */

static weir_tensor *optional(weir_onnx_call *c, size_t i)
{
    return weir_onnx_has(c, i) ? weir_onnx_x(c, i) : NULL;
}

/* Zero points of rows (a) stand over the last axis but one, those of columns (b) over the last. */
static weir_tensor *of_rows(weir_tensor *zero)
{
    if (!zero || weir_tensor_desc(zero).ndim != 1)
        return zero;
    return weir_reshape(zero, 2, (int64_t[]){weir_tensor_desc(zero).dim[0], 1});
}

/* ((a - zero) @ (b - zero)) in f64; the numbers are those of the inputs. */
static weir_tensor *product(weir_onnx_call *c, size_t a, size_t a_zero, size_t b, size_t b_zero)
{
    weir_tensor *const left = centred(weir_onnx_x(c, a), of_rows(optional(c, a_zero)));
    return weir_matmul(left, centred(weir_onnx_x(c, b), optional(c, b_zero)));
}

weir_status weir_onnx_matmul_integer(weir_onnx_call *c)
{
    return weir_onnx_give(c, 0, weir_onnx_as(product(c, 0, 2, 1, 3), WEIR_I32));
}

/* y times a_scale b_scale / y_scale, rounded to the type of the zero point. The scales stand where
 * `shaped` puts them; NULL: as they are. */
static weir_status requantized(weir_onnx_call *c, weir_tensor *y, size_t a, size_t b, size_t to,
                               weir_tensor *(*shaped)(weir_tensor *))
{
    weir_tensor *const zero = weir_onnx_x(c, to + 1), *const out = weir_onnx_x(c, to);
    weir_tensor *const left = weir_onnx_x(c, a), *const right = weir_onnx_x(c, b);

    if (!y || !zero || !out || !left || !right)
        return weir_error_status();
    const weir_dtype type = weir_tensor_desc(zero).dtype;
    if (!is_integer(type))
        return weir_onnx_refuse(c, "a result of %s", weir_dtype_name(type));
    weir_tensor *const both = weir_mul(weir_cast(of_rows(left), WEIR_F64),
                                       weir_cast(shaped ? shaped(right) : right, WEIR_F64));
    weir_tensor *const factor = weir_div(both, weir_cast(out, WEIR_F64));
    return weir_onnx_give(c, 0, saturated(weir_mul(y, factor), zero, type));
}

weir_status weir_onnx_qlinear_matmul(weir_onnx_call *c)
{
    return requantized(c, product(c, 0, 2, 3, 5), 1, 4, 6, NULL);
}

/* ---- convolutions ---- */

/* (m) -> (m,1,1,1): one for each filter. */
static weir_tensor *of_filters(weir_tensor *t)
{
    if (!t || weir_tensor_desc(t).ndim != 1)
        return t;
    return weir_reshape(t, 4, (int64_t[]){weir_tensor_desc(t).dim[0], 1, 1, 1});
}

static weir_tensor *of_channels(weir_tensor *t)
{
    if (!t || weir_tensor_desc(t).ndim != 1)
        return t;
    return weir_reshape(t, 4, (int64_t[]){1, weir_tensor_desc(t).dim[0], 1, 1});
}

static weir_status convolution(weir_onnx_call *c, size_t x, size_t x_zero, size_t w, size_t w_zero,
                               weir_tensor *bias, weir_tensor **y)
{
    if (weir_onnx_has(c, x) && weir_onnx_desc_of(c, x).ndim != 4)
        return weir_onnx_refuse(c, "a tensor with %d axes", weir_onnx_desc_of(c, x).ndim);
    weir_tensor *const in = centred(weir_onnx_x(c, x), optional(c, x_zero));
    weir_tensor *const filters = centred(weir_onnx_x(c, w), of_filters(optional(c, w_zero)));
    if (!in || !filters)
        return weir_error_status();
    return weir_onnx_conv_of(c, in, filters, bias ? weir_cast(bias, WEIR_F64) : NULL, y);
}

weir_status weir_onnx_conv_integer(weir_onnx_call *c)
{
    weir_tensor *y;

    WEIR_TRY(convolution(c, 0, 2, 1, 3, NULL, &y));
    return weir_onnx_give(c, 0, weir_cast(y, WEIR_I32));
}

weir_status weir_onnx_qlinear_conv(weir_onnx_call *c)
{
    weir_tensor *const bias = optional(c, 8);
    weir_tensor       *y;

    WEIR_TRY(convolution(c, 0, 2, 3, 5, bias, &y));
    return requantized(c, y, 1, 4, 6, of_channels);
}
