/* maths.h - exp, log, tanh, sine and cosine as plain branch-free arithmetic, f32 and f64.
 *
 * Every value passes through the same additions and multiplications in the same order whatever the
 * vector width, so loop body, tail and instruction set agree to the bit. Special values are
 * selected at the end: exp overflows to inf and underflows to 0; log(0) = -inf, log(x < 0) = NaN;
 * NaN stays NaN. Polynomials: Cephes 2.8 by S. L. Moshier (expf.c, logf.c, tanhf.c, sinf.c; exp.c,
 * log.c, tanh.c, sin.c); the error is at most 2 ulp.
 *
 * Adding 1.5 * 2^23 (f64: 1.5 * 2^52) rounds a number to an integer and leaves it in the low
 * bits. */
#ifndef WEIR_CORE_MATHS_H
#define WEIR_CORE_MATHS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t weir_bits_f32(float x)
{
    uint32_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}

static inline float weir_from_bits_f32(uint32_t b)
{
    float x;
    memcpy(&x, &b, sizeof x);
    return x;
}

static inline uint64_t weir_bits_f64(double x)
{
    uint64_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}

static inline double weir_from_bits_f64(uint64_t b)
{
    double x;
    memcpy(&x, &b, sizeof x);
    return x;
}

/* ---- f32 ---- */

#define WEIR_ROUND_F32 0x1.8p23f
#define WEIR_ROUND_F64 0x1.8p52

/* x = n log 2 + r, |r| <= log 2 / 2. 2^n is applied as two factors, so that neither overflows and a
 * subnormal result is rounded only once. */
static inline float weir_exp_f32(float x)
{
    const float    low = x < -104.0f ? -104.0f : x;
    const float    c = low > 89.0f ? 89.0f : low;
    const float    k = c * 1.44269504088896341f + WEIR_ROUND_F32;
    const float    n = k - WEIR_ROUND_F32;
    const uint32_t i = weir_bits_f32(k) - weir_bits_f32(WEIR_ROUND_F32) + 512;
    const uint32_t half = (i >> 1) - 256, rest = i - 512 - half;
    const float    r = c - n * 0.693359375f - n * -2.12194440e-4f;

    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    return p * weir_from_bits_f32((half + 127) << 23) * weir_from_bits_f32((rest + 127) << 23);
}

/* x = m 2^e, sqrt(1/2) <= m < sqrt 2; a subnormal x is scaled up first. */
static inline float weir_log_f32(float x)
{
    const float    scaled = x < 0x1p-126f ? x * 0x1p25f : x;
    const float    moved = x < 0x1p-126f ? -25.0f : 0.0f;
    const uint32_t root = 0x3f3504f3u, i = weir_bits_f32(scaled) + (0x3f800000u - root);
    const float    e = (float)((int32_t)(i >> 23) - 127) + moved;
    const float    m = weir_from_bits_f32((i & 0x7fffffu) + root) - 1.0f;
    const float    z = m * m;

    float p = 7.0376836292e-2f;
    p = p * m - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    const float y = p * m * z + e * -2.12194440e-4f - 0.5f * z;
    const float value = m + y + e * 0.693359375f;
    const float high = x > 0x1.fffffep127f ? x : value;
    const float real = x >= 0.0f ? high : (float)NAN;
    return x == 0.0f ? -(float)INFINITY : real;
}

static inline float weir_tanh_f32(float x)
{
    const float a = fabsf(x), z = a * a;
    float       p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    const float small = p * z * a + a;
    const float large = 1.0f - 2.0f / (weir_exp_f32(a + a) + 1.0f);
    return copysignf(a < 0.625f ? small : large, x);
}

/* Cosine and sine of 2 pi u, u in [0, 1] with at most 24 bits: 4u = quadrant + f, |f| <= 1/2,
 * exactly. */
static inline void weir_circle_f32(float u, float *cosine, float *sine)
{
    const float    k = 4.0f * u + WEIR_ROUND_F32;
    const uint32_t q = weir_bits_f32(k) & 3u;
    const float    x = (4.0f * u - (k - WEIR_ROUND_F32)) * 1.57079632679489662f, z = x * x;

    float s = -1.9515295891e-4f;
    s = s * z + 8.3321608736e-3f;
    s = s * z - 1.6666654611e-1f;
    s = s * z * x + x;
    float c = 2.443315711809948e-5f;
    c = c * z - 1.388731625493765e-3f;
    c = c * z + 4.166664568298827e-2f;
    c = c * z * z - 0.5f * z + 1.0f;
    const float cq = (q & 1u) != 0 ? s : c, sq = (q & 1u) != 0 ? c : s;
    *cosine = ((q + 1) & 2u) != 0 ? -cq : cq;
    *sine = (q & 2u) != 0 ? -sq : sq;
}

/* ---- f64, the same algorithms ---- */

static inline double weir_exp_f64(double x)
{
    const double   low = x < -746.0 ? -746.0 : x;
    const double   c = low > 710.0 ? 710.0 : low;
    const double   k = c * 1.4426950408889634073599 + WEIR_ROUND_F64;
    const double   n = k - WEIR_ROUND_F64;
    const uint64_t i = weir_bits_f64(k) - weir_bits_f64(WEIR_ROUND_F64) + 4096;
    const uint64_t half = (i >> 1) - 2048, rest = i - 4096 - half;
    const double   r = c - n * 6.93145751953125e-1 - n * 1.42860682030941723212e-6;
    const double   z = r * r;

    double p = 1.26177193074810590878e-4;
    p = p * z + 3.02994407707441961300e-2;
    p = p * z + 9.99999999999999999910e-1;
    p = p * r;
    double q = 3.00198505138664455042e-6;
    q = q * z + 2.52448340349684104192e-3;
    q = q * z + 2.27265548208155028766e-1;
    q = q * z + 2.00000000000000000009;
    const double y = 1.0 + 2.0 * (p / (q - p));
    return y * weir_from_bits_f64((half + 1023) << 52) * weir_from_bits_f64((rest + 1023) << 52);
}

/* The exponent becomes a double through the bits of 2^52 + exponent, because no instruction set
 * below AVX-512 converts 64-bit integers. */
static inline double weir_log_f64(double x)
{
    const double   scaled = x < 0x1p-1022 ? x * 0x1p54 : x;
    const double   moved = x < 0x1p-1022 ? -54.0 : 0.0;
    const uint64_t root = 0x3fe6a09e667f3bcdu;
    const uint64_t i = weir_bits_f64(scaled) + (0x3ff0000000000000u - root);
    const double   whole = weir_from_bits_f64((i >> 52) | 0x4330000000000000u);
    const double   e = whole - (0x1p52 + 1023.0) + moved;
    const double   m = weir_from_bits_f64((i & 0xfffffffffffffu) + root) - 1.0;
    const double   z = m * m;

    double p = 1.01875663804580931796e-4;
    p = p * m + 4.97494994976747001425e-1;
    p = p * m + 4.70579119878881725854;
    p = p * m + 1.44989225341610930846e1;
    p = p * m + 1.79368678507819816313e1;
    p = p * m + 7.70838733755885391666;
    double q = m + 1.12873587189167450590e1;
    q = q * m + 4.52279145837532221105e1;
    q = q * m + 8.29875266912776603211e1;
    q = q * m + 7.11544750618563894466e1;
    q = q * m + 2.31251620126765340583e1;
    const double y = m * (z * p / q) - e * 2.121944400546905827679e-4 - 0.5 * z;
    const double value = m + y + e * 0.693359375;
    const double high = x > 0x1.fffffffffffffp1023 ? x : value;
    const double real = x >= 0.0 ? high : (double)NAN;
    return x == 0.0 ? -(double)INFINITY : real;
}

static inline double weir_tanh_f64(double x)
{
    const double a = fabs(x), z = a * a;
    double       p = -9.64399179425052238628e-1;
    p = p * z - 9.92877231001918586564e1;
    p = p * z - 1.61468768441708447952e3;
    double q = z + 1.12811678491632931402e2;
    q = q * z + 2.23548839060100448583e3;
    q = q * z + 4.84406305325125486048e3;
    const double small = a * z * (p / q) + a;
    const double large = 1.0 - 2.0 / (weir_exp_f64(a + a) + 1.0);
    return copysign(a < 0.625 ? small : large, x);
}

/* Cosine and sine of q quarter turns plus x radians, |x| <= pi / 4. */
static inline void weir_quarter_f64(double x, uint64_t q, double *cosine, double *sine)
{
    const double z = x * x;

    double s = 1.58962301576546568060e-10;
    s = s * z - 2.50507477628578072866e-8;
    s = s * z + 2.75573136213857245213e-6;
    s = s * z - 1.98412698295895385996e-4;
    s = s * z + 8.33333333332211858878e-3;
    s = s * z - 1.66666666666666307295e-1;
    s = s * z * x + x;
    double c = -1.13585365213876817300e-11;
    c = c * z + 2.08757008419747316778e-9;
    c = c * z - 2.75573141792967388112e-7;
    c = c * z + 2.48015872888517045348e-5;
    c = c * z - 1.38888888888730564116e-3;
    c = c * z + 4.16666666666665929218e-2;
    c = c * z * z - 0.5 * z + 1.0;
    const double cq = (q & 1u) != 0 ? s : c, sq = (q & 1u) != 0 ? c : s;
    *cosine = ((q + 1) & 2u) != 0 ? -cq : cq;
    *sine = (q & 2u) != 0 ? -sq : sq;
}

static inline void weir_circle_f64(double u, double *cosine, double *sine)
{
    const double k = 4.0 * u + WEIR_ROUND_F64;
    const double x = (4.0 * u - (k - WEIR_ROUND_F64)) * 1.57079632679489661923;

    weir_quarter_f64(x, weir_bits_f64(k) & 3u, cosine, sine);
}

#endif
