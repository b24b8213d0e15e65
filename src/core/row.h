/* row.h - the names that expressions of elementwise.def use: K, DRAW and the functions M_exp, ...
 * of the kernel's type T, whose functions end in SUFFIX; attributes as elements; normal draws.
 *
 * The text of this file is also part of kernels compiled at run time. */
#ifndef WEIR_CORE_ROW_H
#define WEIR_CORE_ROW_H

#include "core/divide.h"
#include "core/maths_special.h"
#include "core/rng.h"

#define ROW_PASTE_(a, b, c) a##_##b##_##c
#define ROW_PASTE(a, b, c)  ROW_PASTE_(a, b, c)

#define DRAW        uniform
#define DRAW_NORMAL normal
#define K(x)        ((T)(x))

/* The functions of the rows: weir_exp_f32, ... */
#define M_exp     ROW_PASTE(weir, exp, SUFFIX)
#define M_log     ROW_PASTE(weir, log, SUFFIX)
#define M_tanh    ROW_PASTE(weir, tanh, SUFFIX)
#define M_sqrt    ROW_PASTE(weir, sqrt, SUFFIX)
#define M_abs     ROW_PASTE(weir, abs, SUFFIX)
#define M_erf     ROW_PASTE(weir, erf, SUFFIX)
#define M_normal_cdf ROW_PASTE(weir, normal_cdf, SUFFIX)
#define M_floor   ROW_PASTE(weir, floor, SUFFIX)
#define M_ceil    ROW_PASTE(weir, ceil, SUFFIX)
#define M_round   ROW_PASTE(weir, round, SUFFIX)
#define M_rint    ROW_PASTE(weir, rint, SUFFIX)
#define M_sin     ROW_PASTE(weir, sin, SUFFIX)
#define M_cos     ROW_PASTE(weir, cos, SUFFIX)
#define M_tan     ROW_PASTE(weir, tan, SUFFIX)
#define M_asin    ROW_PASTE(weir, asin, SUFFIX)
#define M_acos    ROW_PASTE(weir, acos, SUFFIX)
#define M_atan    ROW_PASTE(weir, atan, SUFFIX)
#define M_sinh    ROW_PASTE(weir, sinh, SUFFIX)
#define M_cosh    ROW_PASTE(weir, cosh, SUFFIX)
#define M_asinh   ROW_PASTE(weir, asinh, SUFFIX)
#define M_acosh   ROW_PASTE(weir, acosh, SUFFIX)
#define M_atanh   ROW_PASTE(weir, atanh, SUFFIX)
#define M_log1p   ROW_PASTE(weir, log1p, SUFFIX)
#define M_expm1   ROW_PASTE(weir, expm1, SUFFIX)
#define M_pow     ROW_PASTE(weir, pow, SUFFIX)
#define M_div_floor ROW_PASTE(weir, div_floor, SUFFIX)
#define M_div_trunc ROW_PASTE(weir, div_trunc, SUFFIX)
#define M_remainder ROW_PASTE(weir, remainder, SUFFIX)
#define M_shift_left  ROW_PASTE(weir, shift_left, SUFFIX)
#define M_shift_right ROW_PASTE(weir, shift_right, SUFFIX)
#define M_circle  ROW_PASTE(weir, circle, SUFFIX)

/* Attributes converted to elements; integers saturate. */
static inline float attr_of_f32(double v)
{
    return (float)v;
}

static inline double attr_of_f64(double v)
{
    return v;
}

static inline int64_t attr_of_i64(double v)
{
    return v >= 0x1p63 ? INT64_MAX : v > -0x1p63 ? (int64_t)v : INT64_MIN;
}

static inline int32_t attr_of_i32(double v)
{
    return v >= 0x1p31 ? INT32_MAX : v > -0x1p31 ? (int32_t)v : INT32_MIN;
}

static inline uint64_t attr_of_u64(double v)
{
    return v >= 0x1p64 ? UINT64_MAX : v > 0 ? (uint64_t)v : 0;
}

#define WEIR_ROW_ATTR(T, S, least, most)                                                           \
    static inline T attr_of_##S(double v)                                                          \
    {                                                                                              \
        return (T)(v >= most ? most : v > least ? (T)v : least);                                   \
    }
WEIR_ROW_ATTR(uint8_t, u8, (uint8_t)0, UINT8_MAX)
WEIR_ROW_ATTR(int8_t, i8, INT8_MIN, INT8_MAX)
WEIR_ROW_ATTR(uint16_t, u16, (uint16_t)0, UINT16_MAX)
WEIR_ROW_ATTR(int16_t, i16, INT16_MIN, INT16_MAX)
WEIR_ROW_ATTR(uint32_t, u32, 0u, UINT32_MAX)

/* The least integer's absolute value wraps to itself. */
static inline int32_t weir_abs_i32(int32_t a)
{
    return a < 0 ? (int32_t)(0u - (uint32_t)a) : a;
}

static inline int64_t weir_abs_i64(int64_t a)
{
    return a < 0 ? (int64_t)(UINT64_C(0) - (uint64_t)a) : a;
}

static inline int8_t weir_abs_i8(int8_t a)
{
    return a < 0 ? (int8_t)(0u - (uint32_t)a) : a;
}

static inline int16_t weir_abs_i16(int16_t a)
{
    return a < 0 ? (int16_t)(0u - (uint32_t)a) : a;
}

#define WEIR_ROW_ABS(T, S)                                                                         \
    static inline T weir_abs_##S(T a)                                                              \
    {                                                                                              \
        return a;                                                                                  \
    }
WEIR_ROW_ABS(uint8_t, u8)
WEIR_ROW_ABS(uint16_t, u16)
WEIR_ROW_ABS(uint32_t, u32)
WEIR_ROW_ABS(uint64_t, u64)

/* Box-Muller transform of two words into two normal draws: words 0 and 1, or 2 and 3, of a
 * block. */
#define WEIR_ROW_NORMALS(T, S)                                                                     \
    static inline void weir_normals_##S(uint32_t first, uint32_t second, T *x, T *y)               \
    {                                                                                              \
        const T u = (T)weir_uniform_from(first), v = (T)weir_uniform_from(second);                 \
        const T radius = weir_sqrt_##S((T)-2 * weir_log_##S((T)1 - u));                            \
        T       cosine, sine;                                                                      \
        weir_circle_##S(v, &cosine, &sine);                                                        \
        *x = radius * cosine;                                                                      \
        *y = radius * sine;                                                                        \
    }
WEIR_ROW_NORMALS(float, f32)
WEIR_ROW_NORMALS(double, f64)

#endif
