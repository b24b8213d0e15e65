/* half.h - f16 and bf16 by their definitions, in doubles: what the library must equal; elements of
 * any type. */
#ifndef WEIR_TEST_HALF_H
#define WEIR_TEST_HALF_H

#include <math.h>

#include "weir/base.h"

/* digits of a number, exponent of the least subnormal's unit, bias, largest finite number. */
typedef struct half_form {
    int    digits, least, bias;
    double most;
} half_form;

static inline half_form half_form_of(weir_dtype t)
{
    return t == WEIR_F16 ? (half_form){11, -24, 15, 65504} : (half_form){8, -133, 127, 0x1.fep127};
}

/* v to the nearest number of the type, ties to even (rint's way), infinity beyond the largest. */
static inline double half_round(double v, weir_dtype t)
{
    const half_form f = half_form_of(t);
    int             e;

    if (!isfinite(v) || v == 0)
        return v;
    (void)frexp(v, &e);                     /* 0.5 <= |v| / 2^e < 1 */
    const int    unit = e - f.digits > f.least ? e - f.digits : f.least;
    const double r = ldexp(rint(ldexp(v, -unit)), unit);
    return fabs(r) > f.most ? copysign((double)INFINITY, v) : r;
}

static inline uint16_t half_encode(double v, weir_dtype t)
{
    const half_form f = half_form_of(t);
    const uint32_t  sign = signbit(v) ? 0x8000u : 0, one = 1u << (f.digits - 1);
    const uint32_t  infinity = (2u * (uint32_t)f.bias + 1) * one;
    const double    r = fabs(half_round(v, t));
    int             e;

    if (isnan(v))
        return (uint16_t)(sign | infinity | one / 2);
    if (isinf(r))
        return (uint16_t)(sign | infinity);
    (void)frexp(r, &e);
    if (r == 0 || e - f.digits <= f.least - 1)
        return (uint16_t)(sign | (uint32_t)ldexp(r, -f.least));
    const uint32_t whole = (uint32_t)ldexp(r, f.digits - e);       /* one <= whole < 2 one */
    return (uint16_t)(sign | ((uint32_t)(e - 1 + f.bias) * one + whole - one));
}

static inline double half_decode(uint16_t h, weir_dtype t)
{
    const half_form f = half_form_of(t);
    const uint32_t  one = 1u << (f.digits - 1), exponent = (h & 0x7fffu) / one;
    const uint32_t  fraction = (h & 0x7fffu) % one;
    double          v;

    if (exponent == 2u * (uint32_t)f.bias + 1)
        v = fraction ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        v = ldexp(fraction, f.least);
    else
        v = ldexp(one + fraction, (int)exponent - f.bias - f.digits + 1);
    return h & 0x8000u ? -v : v;
}

/* ---- elements of any type ---- */

/* Element `at` of an array of type t. */
static inline double element_get(weir_dtype t, const void *p, int64_t at)
{
    switch (t) {
    case WEIR_F32: return (double)((const float *)p)[at];
    case WEIR_F64: return ((const double *)p)[at];
    case WEIR_I32: return (double)((const int32_t *)p)[at];
    case WEIR_I64: return (double)((const int64_t *)p)[at];
    case WEIR_F16:
    case WEIR_BF16: return half_decode(((const uint16_t *)p)[at], t);
    case WEIR_I8:  return (double)((const int8_t *)p)[at];
    case WEIR_I16: return (double)((const int16_t *)p)[at];
    case WEIR_U16: return (double)((const uint16_t *)p)[at];
    case WEIR_U32: return (double)((const uint32_t *)p)[at];
    case WEIR_U64: return (double)((const uint64_t *)p)[at];
    default: return (double)((const uint8_t *)p)[at];
    }
}

static inline void element_set(weir_dtype t, void *p, int64_t at, double v)
{
    switch (t) {
    case WEIR_F32: ((float *)p)[at] = (float)v; break;
    case WEIR_F64: ((double *)p)[at] = v; break;
    case WEIR_I32: ((int32_t *)p)[at] = (int32_t)v; break;
    case WEIR_I64: ((int64_t *)p)[at] = (int64_t)v; break;
    case WEIR_F16:
    case WEIR_BF16: ((uint16_t *)p)[at] = half_encode(v, t); break;
    case WEIR_I8:  ((int8_t *)p)[at] = (int8_t)v; break;
    case WEIR_I16: ((int16_t *)p)[at] = (int16_t)v; break;
    case WEIR_U16: ((uint16_t *)p)[at] = (uint16_t)v; break;
    case WEIR_U32: ((uint32_t *)p)[at] = (uint32_t)v; break;
    case WEIR_U64: ((uint64_t *)p)[at] = (uint64_t)v; break;
    default: ((uint8_t *)p)[at] = (uint8_t)v;
    }
}

#endif
