/* half.h - f16 and bf16 from and to f32 and f64: widening is exact, narrowing rounds to nearest
 * even.
 *
 * Plain integer code without branches, so that loops vectorise and every build gives the same bits.
 * NaN stays NaN (its upper bits, made quiet), subnormals are kept. A conversion from f64 rounds
 * once: the intermediate f32 is rounded to odd (Boldo and Melquiond, 2008), so its lowest bit tells
 * on which side of a tie the number was. */
#ifndef WEIR_CORE_HALF_H
#define WEIR_CORE_HALF_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t weir_half_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float weir_half_float(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* ---- bf16: sign, 8 bits of exponent, 7 of fraction ---- */

static inline float weir_from_bf16(uint16_t h)
{
    return weir_half_float((uint32_t)h << 16);
}

static inline uint16_t weir_to_bf16(float x)
{
    const uint32_t u = weir_half_bits(x);
    const uint32_t nan = u >> 16 | 0x40u, number = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? nan : number);
}

/* ---- f16: sign, 5 bits of exponent, 10 of fraction ---- */

static inline float weir_from_f16(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, at = (uint32_t)(h & 0x7fffu) << 13;
    /* The exponent biases differ by 112; infinity and NaN need 112 more. */
    const uint32_t number = at + (112u << 23), special = at + (224u << 23);
    const uint32_t quiet = special | (at > 0x0f800000u ? 0x00400000u : 0u);
    /* Subnormals: the fraction behind an implicit 1, which is then subtracted. */
    const uint32_t small = weir_half_bits(weir_half_float(at + (113u << 23)) - 0x1p-14f);
    return weir_half_float(sign | (at >= 0x0f800000u   ? quiet
                                   : at < 0x00800000u ? small
                                                      : number));
}

static inline uint16_t weir_to_f16(float x)
{
    const uint32_t u = weir_half_bits(x), sign = u >> 16 & 0x8000u, at = u & 0x7fffffffu;
    const uint32_t number = (at - (112u << 23) + 0xfffu + (at >> 13 & 1u)) >> 13;
    const uint32_t nan = 0x7e00u | (at >> 13 & 0x3ffu);
    /* Below 2^-14 a unit is 2^-24, as in f32 numbers from 1/2 to 1. */
    const uint32_t small = weir_half_bits(weir_half_float(at) + 0.5f) - 0x3f000000u;
    const uint32_t h = at > 0x7f800000u   ? nan
                       : at >= 0x47800000u ? 0x7c00u
                       : at < 0x38800000u  ? small
                                           : number;
    return (uint16_t)(sign | h);
}

/* ---- from f64 ---- */

/* An inexact result gets an odd last bit: one of the two neighbours always has it. */
static inline float weir_to_odd(double x)
{
    const float    f = (float)x;
    const double   back = (double)f;
    const uint32_t u = weir_half_bits(f);
    const uint32_t down = u - (uint32_t)(x > 0 ? back > x : back < x);
    return weir_half_float(back == x || x != x ? u : down | 1u);
}

static inline uint16_t weir_to_f16_from_f64(double x)
{
    return weir_to_f16(weir_to_odd(x));
}

static inline uint16_t weir_to_bf16_from_f64(double x)
{
    return weir_to_bf16(weir_to_odd(x));
}

/* Rounds an i64 to f64 to odd: the bits of the i64 beyond 53 become an odd last bit. */
static inline double weir_odd_from_i64(int64_t v)
{
    const uint64_t u = (uint64_t)v;
    const int64_t  upper = (int64_t)(u & ~(uint64_t)1023);
    const double   rest = (u & 1023u) != 0 ? 1024.0 : 0.0;
    const uint64_t odd = (uint64_t)upper >> 10 & 1u;
    const bool     exact = v >= -((int64_t)1 << 53) && v <= (int64_t)1 << 53;
    return exact ? (double)v : (double)upper + (odd ? 0.0 : rest);
}

/* The same of a number without a sign. */
static inline double weir_odd_from_u64(uint64_t v)
{
    return v >> 63 ? 2.0 * weir_odd_from_i64((int64_t)(v >> 1 | (v & 1u)))
                   : weir_odd_from_i64((int64_t)v);
}

#endif
