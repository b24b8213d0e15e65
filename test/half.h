/* half.h - f16 and bf16 by their definitions, in doubles: what the library must equal. */
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

#endif
