/* half_lanes.h - conversions of four, eight and sixteen halves at a time, for files that are
 * compiled once per instruction set. The bits are those of core/half.h; F16C has instructions for
 * f16. */
#ifndef WEIR_DEVICE_CPU_HALF_LANES_H
#define WEIR_DEVICE_CPU_HALF_LANES_H

#include "core/half.h"

#if defined(__F16C__) || defined(__AVX2__)
#include <immintrin.h>
#endif

enum { HALF_LANES = 8 };

/* ---- eight ---- */

static inline void weir_widen_lanes_bf16(float *to, const uint16_t *from)
{
    for (int i = 0; i < HALF_LANES; i++)
        to[i] = weir_from_bf16(from[i]);
}

/* Compilers make NaNs of 16 bits, which they pack and widen again: twice the time. */
static inline void weir_narrow_lanes_bf16(uint16_t *to, const float *from)
{
#if defined(__AVX2__)
    const __m256  x = _mm256_loadu_ps(from);
    const __m256i u = _mm256_castps_si256(x), quiet = _mm256_set1_epi32(0x00400000);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const __m256i number = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m256i h = _mm256_srli_epi32(
        _mm256_blendv_epi8(number, _mm256_or_si256(u, quiet), is_nan), 16);
    _mm_storeu_si128((void *)to, _mm_packus_epi32(_mm256_castsi256_si128(h),
                                                  _mm256_extracti128_si256(h, 1)));
#else
    for (int i = 0; i < HALF_LANES; i++)
        to[i] = weir_to_bf16(from[i]);
#endif
}

static inline void weir_widen_lanes_f16(float *to, const uint16_t *from)
{
#if defined(__F16C__)
    _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128((const void *)from)));
#else
    for (int i = 0; i < HALF_LANES; i++)
        to[i] = weir_from_f16(from[i]);
#endif
}

static inline void weir_narrow_lanes_f16(uint16_t *to, const float *from)
{
#if defined(__F16C__)
    _mm_storeu_si128((void *)to,
                     _mm256_cvtps_ph(_mm256_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT));
#else
    for (int i = 0; i < HALF_LANES; i++)
        to[i] = weir_to_f16(from[i]);
#endif
}

/* ---- sixteen, with AVX-512 ---- */

#if defined(__AVX512F__)

/* bf16 in the upper halves of lanes; the lower ones are left over. */
static inline __m512i weir_rounded_bf16(__m512i u)
{
    const __m512i   odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    const __m512i   number = _mm512_add_epi32(u, _mm512_add_epi32(_mm512_set1_epi32(0x7fff), odd));
    const __m512    x = _mm512_castsi512_ps(u);
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_mask_or_epi32(number, nan, u, _mm512_set1_epi32(0x00400000));
}

static inline void weir_narrow_sixteen_bf16(uint16_t *to, const float *from)
{
    const __m512i h = weir_rounded_bf16(_mm512_loadu_si512(from));
    _mm256_storeu_si256((void *)to, _mm512_cvtepi32_epi16(_mm512_srli_epi32(h, 16)));
}

static inline void weir_widen_sixteen_bf16(float *to, const uint16_t *from)
{
    const __m512i h = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)from));
    _mm512_storeu_si512(to, _mm512_slli_epi32(h, 16));
}

static inline void weir_round_sixteen_bf16(float *x)
{
    const __m512i h = weir_rounded_bf16(_mm512_loadu_si512(x));
    _mm512_storeu_si512(x, _mm512_and_si512(h, _mm512_set1_epi32((int)0xffff0000)));
}

static inline __m256i weir_rounded_f16(const float *from)
{
    /* Without a mask gcc's macro, which it is at -O0, warns of a conversion. */
    const __mmask16 all = 0xffff;
    return _mm512_maskz_cvtps_ph(all, _mm512_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT);
}

static inline void weir_narrow_sixteen_f16(uint16_t *to, const float *from)
{
    _mm256_storeu_si256((void *)to, weir_rounded_f16(from));
}

static inline void weir_widen_sixteen_f16(float *to, const uint16_t *from)
{
    _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)from)));
}

static inline void weir_round_sixteen_f16(float *x)
{
    _mm512_storeu_ps(x, _mm512_cvtph_ps(weir_rounded_f16(x)));
}

#define SIXTEENS(i, n, convert)                                                                    \
    for (; i + 16 <= (n); i += 16)                                                                 \
    convert
#else
#define SIXTEENS(i, n, convert)
#endif

/* ---- whole vectors of a row: they return how many elements those are ---- */

#define CONVERT_VECTORS(way, id, to_type, from_type)                                               \
    static inline int64_t weir_##way##_vectors_##id(int64_t n, to_type *to, const from_type *from) \
    {                                                                                              \
        int64_t i = 0;                                                                             \
        SIXTEENS(i, n, weir_##way##_sixteen_##id(to + i, from + i));                               \
        for (; i + HALF_LANES <= n; i += HALF_LANES)                                               \
            weir_##way##_lanes_##id(to + i, from + i);                                             \
        return i;                                                                                  \
    }
CONVERT_VECTORS(widen, f16, float, uint16_t)
CONVERT_VECTORS(widen, bf16, float, uint16_t)
CONVERT_VECTORS(narrow, f16, uint16_t, float)
CONVERT_VECTORS(narrow, bf16, uint16_t, float)
#undef CONVERT_VECTORS

#define ROUND_VECTORS(id)                                                                          \
    static inline int64_t weir_round_vectors_##id(int64_t n, float *x)                             \
    {                                                                                              \
        uint16_t half[HALF_LANES];                                                                 \
        int64_t  i = 0;                                                                            \
        SIXTEENS(i, n, weir_round_sixteen_##id(x + i));                                            \
        for (; i + HALF_LANES <= n; i += HALF_LANES) {                                             \
            weir_narrow_lanes_##id(half, x + i);                                                   \
            weir_widen_lanes_##id(x + i, half);                                                    \
        }                                                                                          \
        return i;                                                                                  \
    }
ROUND_VECTORS(f16)
ROUND_VECTORS(bf16)
#undef ROUND_VECTORS
#undef SIXTEENS

/* ---- four ---- */

static inline void weir_widen_four_bf16(float *to, const uint16_t *from)
{
    typedef uint16_t narrow __attribute__((vector_size(8)));
    typedef uint32_t wide __attribute__((vector_size(16)));
    narrow h;
    memcpy(&h, from, sizeof h);
    const wide w = __builtin_convertvector(h, wide) << 16;
    memcpy(to, &w, sizeof w);
}

static inline void weir_widen_four_f16(float *to, const uint16_t *from)
{
#if defined(__F16C__)
    _mm_storeu_ps(to, _mm_cvtph_ps(_mm_loadl_epi64((const void *)from)));
#else
    for (int i = 0; i < HALF_LANES / 2; i++)
        to[i] = weir_from_f16(from[i]);
#endif
}

/* ---- f32 as a half has it; n is 4 or 8 ---- */

static inline void weir_round_some_bf16(float *to, const float *from, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = weir_from_bf16(weir_to_bf16(from[i]));
}

static inline void weir_round_some_f16(float *to, const float *from, int n)
{
#if defined(__F16C__)
    for (int i = 0; i < n; i += 4) {
        const __m128i half = _mm_cvtps_ph(_mm_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_ps(to + i, _mm_cvtph_ps(half));
    }
#else
    for (int i = 0; i < n; i++)
        to[i] = weir_from_f16(weir_to_f16(from[i]));
#endif
}

#endif
