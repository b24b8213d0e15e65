/* maths_special.h - error, trigonometric and hyperbolic functions, powers, rounding; f32 and f64.
 *
 * f32 is computed in f64 by branch-free arithmetic and rounded once, so that loops vectorise and
 * every instruction set agrees to the bit; the error is at most 1 ulp. Exceptions, computed in f32:
 * erf (2 ulp) and the normal distribution. In f64, erf and atan are polynomials as well (a few
 * ulp); the others call libm's scalar functions element by element, whose results do not depend on
 * the caller's instruction set. Polynomials: Cephes 2.8 by S. L. Moshier (ndtr.c, atan.c). Limits
 * and NaN are those of C's functions. */
#ifndef WEIR_CORE_MATHS_SPECIAL_H
#define WEIR_CORE_MATHS_SPECIAL_H

#include "core/maths.h"
#include "core/trig_table.def"

/* ---- exact in both types ---- */

/* round: half away from zero. It uses the remainder of trunc, which is exact, since x + 1/2 may
 * round. NaNs are made quiet explicitly: some instruction sets round them without doing so. */
#define WEIR_SPECIAL_EXACT(T, S, f)                                                                \
    static inline T weir_sqrt_##S(T x)                                                             \
    {                                                                                              \
        return __builtin_sqrt##f(x);                                                               \
    }                                                                                              \
    static inline T weir_abs_##S(T x)                                                              \
    {                                                                                              \
        return __builtin_fabs##f(x);                                                               \
    }                                                                                              \
    static inline T weir_floor_##S(T x)                                                            \
    {                                                                                              \
        const T y = __builtin_floor##f(x);                                                         \
        return x != x ? x + x : y;                                                                 \
    }                                                                                              \
    static inline T weir_ceil_##S(T x)                                                             \
    {                                                                                              \
        const T y = __builtin_ceil##f(x);                                                          \
        return x != x ? x + x : y;                                                                 \
    }                                                                                              \
    static inline T weir_rint_##S(T x)                                                             \
    {                                                                                              \
        const T y = __builtin_rint##f(x);                                                          \
        return x != x ? x + x : y;                                                                 \
    }                                                                                              \
    static inline T weir_round_##S(T x)                                                            \
    {                                                                                              \
        const T whole = __builtin_trunc##f(x), rest = __builtin_fabs##f(x - whole);                \
        const T up = rest >= (T)0.5 ? (T)1 : (T)0;                                                 \
        return __builtin_copysign##f(__builtin_fabs##f(whole) + up, x);                            \
    }

WEIR_SPECIAL_EXACT(float, f32, f)
WEIR_SPECIAL_EXACT(double, f64, )

/* ---- f64 ---- */

/* |x| < 1: x T(x^2) / U(x^2); else 1 - exp(-x^2) P(|x|) / Q(|x|), which is 1 from 8 on. */
static inline double weir_erf_f64(double x)
{
    const double a = fabs(x) > 8.0 ? 8.0 : fabs(x), z = a * a;

    double t = 9.60497373987051638749;
    t = t * z + 9.00260197203842689217e1;
    t = t * z + 2.23200534594684319226e3;
    t = t * z + 7.00332514112805075473e3;
    t = t * z + 5.55923013010394962768e4;
    double u = z + 3.35617141647503099647e1;
    u = u * z + 5.21357949780152679795e2;
    u = u * z + 4.59432382970980127987e3;
    u = u * z + 2.26290000613890934246e4;
    u = u * z + 4.92673942608635921086e4;
    double p = 2.46196981473530512524e-10;
    p = p * a + 5.64189564831068821977e-1;
    p = p * a + 7.46321056442269912687;
    p = p * a + 4.86371970985681366614e1;
    p = p * a + 1.96520832956077098242e2;
    p = p * a + 5.26445194995477358631e2;
    p = p * a + 9.34528527171957607540e2;
    p = p * a + 1.02755188689515710272e3;
    p = p * a + 5.57535335369399327526e2;
    double q = a + 1.32281951154744992508e1;
    q = q * a + 8.67072140885989742329e1;
    q = q * a + 3.54937778887819891062e2;
    q = q * a + 9.75708501743205489753e2;
    q = q * a + 1.82390916687909736289e3;
    q = q * a + 2.24633760818710981792e3;
    q = q * a + 1.65666309194161350182e3;
    q = q * a + 5.57535340817727675546e2;
    const double small = a * (t / u), large = 1.0 - weir_exp_f64(-z) * (p / q);
    const double value = copysign(a < 1.0 ? small : large, x);
    return x != x ? x : value;
}

/* The standard normal distribution function. */
static inline double weir_normal_cdf_f64(double x)
{
    return 0.5 * (1.0 + weir_erf_f64(x * 0.70710678118654752440));
}

/* Reduced to |r| <= 0.66 by atan a = pi/4 + atan((a-1)/(a+1)) = pi/2 + atan(-1/a). */
static inline double weir_atan_f64(double x)
{
    const double a = fabs(x);
    const double above = a > 2.41421356237309504880 ? 1.0 : 0.0;
    const double inside = a > 0.66 ? 1.0 - above : 0.0;
    const double top = above != 0.0 ? -1.0 : a - inside;
    const double under = above != 0.0 ? a : 1.0 + inside * a;
    const double r = top / under, z = r * r;

    double p = -8.750608600031904122785e-1;
    p = p * z - 1.615753718733365076637e1;
    p = p * z - 7.500855792314704667340e1;
    p = p * z - 1.228866684490136173410e2;
    p = p * z - 6.485021904942025371773e1;
    double q = z + 2.485846490142306297962e1;
    q = q * z + 1.650270098316988542046e2;
    q = q * z + 4.328810604912902668951e2;
    q = q * z + 4.853903996359136964868e2;
    q = q * z + 1.945506571482613964425e2;
    const double turn = above + 0.5 * inside;   /* quarter turns */
    const double value = r * (z * p / q) + r + turn * 6.123233995736765886130e-17;
    return copysign(turn * 1.57079632679489661923 + value, x);
}

#define WEIR_SPECIAL_LIBM(id)                                                                      \
    static inline double weir_##id##_f64(double x)                                                 \
    {                                                                                              \
        return id(x);                                                                              \
    }

WEIR_SPECIAL_LIBM(sin)
WEIR_SPECIAL_LIBM(cos)
WEIR_SPECIAL_LIBM(tan)
WEIR_SPECIAL_LIBM(asin)
WEIR_SPECIAL_LIBM(acos)
WEIR_SPECIAL_LIBM(sinh)
WEIR_SPECIAL_LIBM(cosh)
WEIR_SPECIAL_LIBM(asinh)
WEIR_SPECIAL_LIBM(acosh)
WEIR_SPECIAL_LIBM(atanh)
WEIR_SPECIAL_LIBM(log1p)
WEIR_SPECIAL_LIBM(expm1)

static inline double weir_pow_f64(double x, double y)
{
    return pow(x, y);
}

/* ---- f32 ---- */

/* |x| <= 0.92: x + x p(x^2); else 1 - exp(-|x| - |x| q(|x|)). Both are minimax polynomials by
 * N. Juffa. */
static inline float weir_erf_f32(float x)
{
    const float a = fabsf(x), z = x * x;

    float p = -5.96761703e-4f;
    p = p * z + 4.99119423e-3f;
    p = p * z - 2.67681349e-2f;
    p = p * z + 1.12819925e-1f;
    p = p * z - 3.76125336e-1f;
    p = p * z + 1.28379166e-1f;
    float q = (-1.72853470e-5f * a + 3.83197126e-4f) * z + (-3.88396438e-3f * a + 2.42546219e-2f);
    q = q * a - 1.06777877e-1f;
    q = q * a - 6.34846687e-1f;
    q = q * a - 1.28717512e-1f;
    const float large = copysignf(1.0f - weir_exp_f32(q * a - a), x);
    return a > 0.921875f ? large : p * x + x;
}

/* The standard normal distribution function. Its tail is exp(-x^2 / 2) s p(s), s = 1 / (1 + 0.3
 * |x|), where the polynomial p was fitted to the least relative error for |x| <= 9, which is 5e-8.
 * So small values keep their digits: 4 eps for |x| < 2, 12 eps for |x| < 6, where x^2 loses
 * most. */
static inline float weir_normal_cdf_f32(float x)
{
    const float s = 1.0f / (1.0f + 0.3f * fabsf(x));

    float p = 0.037535760551691055f;
    p = p * s - 0.16501988470554352f;
    p = p * s + 0.2199717015028f;
    p = p * s - 0.06640305370092392f;
    p = p * s + 0.13542045652866364f;
    p = p * s + 0.09778384864330292f;
    p = p * s + 0.12110571563243866f;
    p = p * s + 0.11960548907518387f;
    const float tail = weir_exp_f32(-0.5f * x * x) * (p * s);
    return x > 0.0f ? 1.0f - tail : tail;
}

/* ---- f32, computed in f64 ---- */

static inline float weir_atan_f32(float x)
{
    return (float)weir_atan_f64((double)x);
}

static inline float weir_asin_f32(float x)
{
    const double v = (double)x;
    return (float)weir_atan_f64(v / sqrt((1.0 - v) * (1.0 + v)));
}

static inline float weir_acos_f32(float x)
{
    const double v = (double)x;
    return (float)(2.0 * weir_atan_f64(sqrt((1.0 - v) / (1.0 + v))));
}

/* exp(x) - 1 loses an error of 2^-53 / |x| to cancellation, so two terms of the series serve near
 * 0. */
static inline float weir_expm1_f32(float x)
{
    const double v = (double)x, near = v * (1.0 + 0.5 * v);
    return (float)(fabs(v) < 0x1p-20 ? near : weir_exp_f64(v) - 1.0);
}

static inline float weir_log1p_f32(float x)
{
    const double v = (double)x, near = v * (1.0 - 0.5 * v);
    return (float)(fabs(v) < 0x1p-20 ? near : weir_log_f64(1.0 + v));
}

static inline float weir_sinh_f32(float x)
{
    const double v = (double)x, near = v * (1.0 + v * v * (1.0 / 6.0)), e = weir_exp_f64(v);
    return (float)(fabs(v) < 0x1p-10 ? near : 0.5 * e - 0.5 / e);
}

static inline float weir_cosh_f32(float x)
{
    const double e = weir_exp_f64((double)x);
    return (float)(0.5 * e + 0.5 / e);
}

static inline float weir_asinh_f32(float x)
{
    const double v = (double)x, a = fabs(v), near = v * (1.0 - a * a * (1.0 / 6.0));
    const double far = copysign(weir_log_f64(a + sqrt(a * a + 1.0)), v);
    return (float)(a < 0x1p-10 ? near : far);
}

static inline float weir_acosh_f32(float x)
{
    const double v = (double)x, value = weir_log_f64(v + sqrt((v - 1.0) * (v + 1.0)));
    return v < 1.0 ? (float)NAN : (float)value;
}

static inline float weir_atanh_f32(float x)
{
    const double v = (double)x, near = v * (1.0 + v * v * (1.0 / 3.0));
    return (float)(fabs(v) < 0x1p-10 ? near : 0.5 * weir_log_f64((1.0 + v) / (1.0 - v)));
}

/* exp(y log |x|), with the sign of x if y is an odd integer; NaN for negative x and a y that is no
 * integer. From 2^24 on all floats are even. */
static inline float weir_pow_f32(float x, float y)
{
    const double v = (double)x, w = (double)y;
    const double size = weir_exp_f64(w * weir_log_f64(fabs(v)));
    const bool   whole = __builtin_trunc(w) == w;
    const bool   odd = whole && __builtin_trunc(0.5 * w) != 0.5 * w && fabs(w) < 0x1p24;
    const double value = odd ? copysign(size, v) : size;
    const double real = v < 0.0 && !whole && v > -HUGE_VAL ? (double)NAN : value;
    const double one = fabs(v) == 1.0 && fabs(w) == HUGE_VAL ? 1.0 : real;
    return v == 1.0 || w == 0.0 ? 1.0f : (float)one;
}

/* Cosine and sine of |x| = q + f quarter turns, |f| <= 1/2, by a table of the powers of two in
 * quarter turns. m is the significand as an integer (below 1/2: x itself, scaled). */
static inline void weir_angle_f32(float x, double *cosine, double *sine)
{
    const uint32_t bits = weir_bits_f32(x) & 0x7fffffffu, e = bits >> 23;
    const uint32_t up = e < 126 ? 0 : e - 126, row = up < WEIR_TRIG_ROWS ? up : 0;
    const float    one = weir_from_bits_f32((bits & 0x7fffffu) | 0x3f800000u);
    const double   m = e < 126 ? 0x1p24 * (double)fabsf(x) : 0x1p23 * (double)one;
    const double   high = m * weir_trig_table[row][0], middle = m * weir_trig_table[row][1];
    const double   k = high + middle + WEIR_ROUND_F64;
    const double   f = high - (k - WEIR_ROUND_F64) + middle + m * weir_trig_table[row][2];

    weir_quarter_f64(f * 1.57079632679489661923, weir_bits_f64(k) & 3u, cosine, sine);
}

/* Applies the sign of x; x - x turns an infinite x into NaN. */
static inline float weir_odd_f32(float x, double value)
{
    const uint32_t sign = weir_bits_f32(x) & 0x80000000u;
    return weir_from_bits_f32(weir_bits_f32((float)value) ^ sign) * (1.0f + (x - x));
}

static inline float weir_sin_f32(float x)
{
    double c, s;
    weir_angle_f32(x, &c, &s);
    return weir_odd_f32(x, s);
}

static inline float weir_cos_f32(float x)
{
    double c, s;
    weir_angle_f32(x, &c, &s);
    return (float)c + (x - x);
}

static inline float weir_tan_f32(float x)
{
    double c, s;
    weir_angle_f32(x, &c, &s);
    return weir_odd_f32(x, s / c);
}

#endif
