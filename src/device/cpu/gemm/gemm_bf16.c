/* gemm_bf16.c - the register-tiled kernels of products of bf16 by AVX512_BF16, compiled once, with
 * its flags.
 *
 * An instruction adds two products of halves to each sum in f32, so an element of a packed operand
 * is a pair of halves: those of two neighbours in depth, in the bits of a float. The kernels are
 * those for f32 with another multiply-add. It rounds sums to nearest even, and takes halves and
 * sums below the least normal number for zero. */
#include "device/cpu/gemm/gemm_bf16.h"

#include <stddef.h>

#if defined(__AVX512BF16__)
#include <immintrin.h>
#include <string.h>

#include "device/cpu/half_lanes.h"
#include "device/cpu/isa.h"
#include "device/cpu/lane_mask.h"

#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#define ROWS(X)                                                                                    \
    X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)

/* Pairs of a row that is read in place may begin at any half. */
typedef float pair __attribute__((aligned(2), may_alias));
typedef float vec_bf16 __attribute__((vector_size(64), may_alias));
typedef float unaligned_bf16 __attribute__((vector_size(64), aligned(2), may_alias));

#define T            pair
#define V            vec_bf16
#define U            unaligned_bf16
#define VL           16
#define MR           14
#define NV           2
#define SPLAT(s)     _mm512_set1_ps(s)
#define FMA(a, b, c) _mm512_dpbf16_ps(c, (__m512bh)(a), (__m512bh)(b))
#define NAME(fn)     fn##_bf16
#include "device/cpu/gemm/gemm_micro.h"

/* ---- packing ---- */

/* Up to sixteen floats, rounded as weir_to_bf16 does, in the upper halves of lanes; zeros where the
 * mask has none. */
static inline __m512i upper_of_float(const float *from, __mmask16 mask)
{
    const __m512i h = weir_rounded_bf16(_mm512_maskz_loadu_epi32(mask, from));
    return _mm512_and_si512(h, _mm512_set1_epi32((int)0xffff0000));
}

/* Lane i: element i of `even` and, above it, element i of `odd`. */
static inline __m512i pairs_of_halves(const uint16_t *even, __mmask16 e, const uint16_t *odd,
                                      __mmask16 o)
{
    static const uint16_t order[2 * WEIR_MASK_LANES] = {
        0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
        8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const __m512i both = _mm512_inserti64x4(
        _mm512_castsi256_si512(_mm256_maskz_loadu_epi16(e, even)), _mm256_maskz_loadu_epi16(o, odd),
        1);
    return _mm512_permutexvar_epi16(_mm512_loadu_si512(order), both);
}

static inline __m512i pairs_of_floats(const float *even, __mmask16 e, const float *odd, __mmask16 o)
{
    return _mm512_or_si512(_mm512_srli_epi32(upper_of_float(even, e), 16), upper_of_float(odd, o));
}

/* Four pairs of a row. */
static inline __m128i four_halves(const void *from, int64_t at)
{
    return _mm_loadu_si128((const void *)((const uint16_t *)from + at));
}

static inline __m128i four_floats(const void *from, int64_t at)
{
    const __m512i wide = upper_of_float((const float *)from + at, 0xff);
    return _mm256_cvtepi32_epi16(_mm256_srli_epi32(_mm512_castsi512_si256(wide), 16));
}

#define HALVES                  ((const uint16_t *)from)
#define PAIRS(at, e, other, o)  pairs_of_halves(HALVES + (at), e, HALVES + (other), o)
#define FOUR(at)                four_halves(from, at)
#define ONE(at)                 HALVES[at]
#define PACK(fn)                fn##_halves
#include "device/cpu/gemm/gemm_pairs.h"
#undef PAIRS
#undef FOUR
#undef ONE
#undef PACK

#define FLOATS                  ((const float *)from)
#define PAIRS(at, e, other, o)  pairs_of_floats(FLOATS + (at), e, FLOATS + (other), o)
#define FOUR(at)                four_floats(from, at)
#define ONE(at)                 weir_to_bf16(FLOATS[at])
#define PACK(fn)                fn##_floats
#include "device/cpu/gemm/gemm_pairs.h"

/* ---- results ---- */

static void narrow(int rows, int cols, const float *sums, int64_t ld, void *to, int64_t ldc)
{
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j += WEIR_MASK_LANES) {
            const __mmask16 mask = weir_first_lanes(cols - j);
            const __m512i   wide = upper_of_float(sums + i * ld + j, mask);
            _mm256_mask_storeu_epi16((uint16_t *)to + i * ldc + j, mask,
                                     _mm512_cvtepi32_epi16(_mm512_srli_epi32(wide, 16)));
        }
}

static const weir_gemm_kernel kernel = {
    .mr = MR, .nr = nr_bf16, .k_step = 2, .direct = direct_bf16, .packed = packed_bf16,
    .rows = rows_bf16, .narrow = narrow,
    .pack = {[WEIR_GEMM_AS_IS] = pack_halves,
             [WEIR_GEMM_BF16] = pack_halves,
             [WEIR_GEMM_TO_BF16] = pack_floats}};

const weir_gemm_kernel *weir_gemm_bf16(void)
{
    __builtin_cpu_init();
    const bool has = __builtin_cpu_supports("avx512bf16");
    return has && weir_cpu_isa() == WEIR_ISA_AVX512 ? &kernel : NULL;
}

bool weir_gemm_bf16_leads(void)
{
    return weir_gemm_bf16() && __builtin_cpu_is("amd");
}

#else

const weir_gemm_kernel *weir_gemm_bf16(void)
{
    return NULL;
}

bool weir_gemm_bf16_leads(void)
{
    return false;
}

#endif
