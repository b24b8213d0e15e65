/* convert.h - conversions between element types, equal to the CPU's casts.
 *
 * Integers wrap; floats truncate, and values that do not fit, NaN included, become 0; halves are
 * rounded once. A bool is written as 0 or 1; when read, any nonzero byte is true. NaNs keep their
 * sign and upper bits, as on the CPU, where cards would return one canonical NaN. */
#ifndef WEIR_DEVICE_CUDA_KERNELS_CONVERT_H
#define WEIR_DEVICE_CUDA_KERNELS_CONVERT_H

#include "device/cuda/kernels/maths.h"

#define WEIR_HOST_DEVICE static __host__ __device__ inline

struct weir_b8 {
    uint8_t byte;
};

WEIR_HOST_DEVICE float weir_narrow(double x)
{
    if (x == x)
        return (float)x;
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return weir_half_float((uint32_t)(u >> 32 & 0x80000000u) | 0x7fc00000u |
                           (uint32_t)(u >> 29 & 0x3fffffu));
}

WEIR_HOST_DEVICE double weir_widen(float x)
{
    if (x == x)
        return (double)x;
    const uint32_t u = weir_half_bits(x);
    const uint64_t wide = (uint64_t)(u & 0x80000000u) << 32 | (uint64_t)0x7ff80000u << 32 |
                          (uint64_t)(u & 0x3fffffu) << 29;
    double         y;
    memcpy(&y, &wide, sizeof y);
    return y;
}

/* ---- the type in which an element is computed ---- */

template <class T> WEIR_HOST_DEVICE T weir_value(T x)
{
    return x;
}
WEIR_HOST_DEVICE int32_t weir_value(uint8_t x)
{
    return x;
}
WEIR_HOST_DEVICE int32_t weir_value(weir_b8 x)
{
    return x.byte != 0;
}
WEIR_HOST_DEVICE float weir_value(weir_f16 x)
{
    return weir_from_f16(x.bits);
}
WEIR_HOST_DEVICE float weir_value(weir_bf16 x)
{
    return weir_from_bf16(x.bits);
}

/* ---- the type in which it is stored; V is float, double or an integer ---- */

template <class V> WEIR_HOST_DEVICE void weir_put(float *to, V v)
{
    *to = (float)v;
}
WEIR_HOST_DEVICE void weir_put(float *to, double v)
{
    *to = weir_narrow(v);
}

template <class V> WEIR_HOST_DEVICE void weir_put(double *to, V v)
{
    *to = (double)v;
}
WEIR_HOST_DEVICE void weir_put(double *to, float v)
{
    *to = weir_widen(v);
}

template <class V> WEIR_HOST_DEVICE void weir_put(int32_t *to, V v)
{
    *to = (int32_t)v;
}
WEIR_HOST_DEVICE void weir_put(int32_t *to, double v)
{
    *to = v > -0x1.00000002p31 && v < 0x1p31 ? (int32_t)v : 0;
}
WEIR_HOST_DEVICE void weir_put(int32_t *to, float v)
{
    *to = v >= -0x1p31f && v < 0x1p31f ? (int32_t)v : 0;
}

template <class V> WEIR_HOST_DEVICE void weir_put(int64_t *to, V v)
{
    *to = (int64_t)v;
}
WEIR_HOST_DEVICE void weir_put(int64_t *to, double v)
{
    *to = v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : 0;
}
WEIR_HOST_DEVICE void weir_put(int64_t *to, float v)
{
    *to = v >= -0x1p63f && v < 0x1p63f ? (int64_t)v : 0;
}

template <class V> WEIR_HOST_DEVICE void weir_put(uint8_t *to, V v)
{
    *to = (uint8_t)v;
}
WEIR_HOST_DEVICE void weir_put(uint8_t *to, double v)
{
    *to = v > -1 && v < 256 ? (uint8_t)(int32_t)v : (uint8_t)0;
}
WEIR_HOST_DEVICE void weir_put(uint8_t *to, float v)
{
    *to = v > -1 && v < 256 ? (uint8_t)(int32_t)v : (uint8_t)0;
}

/* A float lies within if it is greater than `below` and less than `end`, both exact in f64. */
#define WEIR_PUT_INTEGER(T, below, end)                                                            \
    template <class V> WEIR_HOST_DEVICE void weir_put(T *to, V v)                                  \
    {                                                                                              \
        *to = (T)v;                                                                                \
    }                                                                                              \
    WEIR_HOST_DEVICE void weir_put(T *to, double v)                                                \
    {                                                                                              \
        *to = v > (below) && v < (end) ? (T)v : (T)0;                                              \
    }                                                                                              \
    WEIR_HOST_DEVICE void weir_put(T *to, float v)                                                 \
    {                                                                                              \
        *to = (double)v > (below) && (double)v < (end) ? (T)v : (T)0;                              \
    }
WEIR_PUT_INTEGER(int8_t, -129.0, 128.0)
WEIR_PUT_INTEGER(int16_t, -32769.0, 32768.0)
WEIR_PUT_INTEGER(uint16_t, -1.0, 65536.0)
WEIR_PUT_INTEGER(uint32_t, -1.0, 0x1p32)
WEIR_PUT_INTEGER(uint64_t, -1.0, 0x1p64)

template <class V> WEIR_HOST_DEVICE void weir_put(weir_b8 *to, V v)
{
    to->byte = v != 0;
}

template <class V> WEIR_HOST_DEVICE void weir_put(weir_f16 *to, V v)
{
    to->bits = weir_to_f16_from_f64(weir_odd_from_i64((int64_t)v));
}
WEIR_HOST_DEVICE void weir_put(weir_f16 *to, uint64_t v)
{
    to->bits = weir_to_f16_from_f64(weir_odd_from_u64(v));
}
WEIR_HOST_DEVICE void weir_put(weir_f16 *to, double v)
{
    to->bits = v == v ? weir_to_f16_from_f64(v) : weir_to_f16(weir_narrow(v));
}
WEIR_HOST_DEVICE void weir_put(weir_f16 *to, float v)
{
    to->bits = weir_to_f16(v);
}

template <class V> WEIR_HOST_DEVICE void weir_put(weir_bf16 *to, V v)
{
    to->bits = weir_to_bf16_from_f64(weir_odd_from_i64((int64_t)v));
}
WEIR_HOST_DEVICE void weir_put(weir_bf16 *to, uint64_t v)
{
    to->bits = weir_to_bf16_from_f64(weir_odd_from_u64(v));
}
WEIR_HOST_DEVICE void weir_put(weir_bf16 *to, double v)
{
    to->bits = v == v ? weir_to_bf16_from_f64(v) : weir_to_bf16(weir_narrow(v));
}
WEIR_HOST_DEVICE void weir_put(weir_bf16 *to, float v)
{
    to->bits = weir_to_bf16(v);
}

/* Calls F<T>(args...) for the type T of a dtype. */
#define WEIR_BY_DTYPE(dtype, F, ...)                                                               \
    ((dtype) == WEIR_F32    ? F<float>(__VA_ARGS__)                                                \
     : (dtype) == WEIR_F64  ? F<double>(__VA_ARGS__)                                               \
     : (dtype) == WEIR_I32  ? F<int32_t>(__VA_ARGS__)                                              \
     : (dtype) == WEIR_I64  ? F<int64_t>(__VA_ARGS__)                                              \
     : (dtype) == WEIR_U8   ? F<uint8_t>(__VA_ARGS__)                                              \
     : (dtype) == WEIR_BOOL ? F<weir_b8>(__VA_ARGS__)                                              \
     : (dtype) == WEIR_F16  ? F<weir_f16>(__VA_ARGS__)                                             \
     : (dtype) == WEIR_I8   ? F<int8_t>(__VA_ARGS__)                                               \
     : (dtype) == WEIR_I16  ? F<int16_t>(__VA_ARGS__)                                              \
     : (dtype) == WEIR_U16  ? F<uint16_t>(__VA_ARGS__)                                             \
     : (dtype) == WEIR_U32  ? F<uint32_t>(__VA_ARGS__)                                             \
     : (dtype) == WEIR_U64  ? F<uint64_t>(__VA_ARGS__)                                             \
                            : F<weir_bf16>(__VA_ARGS__))

template <class T> static inline int weir_encode_one(double value, char element[8])
{
    T x;

    weir_put(&x, value);
    memcpy(element, &x, sizeof x);
    return 0;
}

/* Writes `value` as an element of the type; the rest of the 8 bytes is 0. */
static inline void weir_encode(double value, weir_dtype type, char element[8])
{
    memset(element, 0, 8);
    (void)WEIR_BY_DTYPE(type, weir_encode_one, value, element);
}

#endif
