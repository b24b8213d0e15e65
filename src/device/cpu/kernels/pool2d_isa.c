/* pool2d_isa.c - the loops of pooling over channels, compiled once per instruction set.
 *
 * Vectors have 256 bits even with AVX-512: channels may be few, and a tail that does not fill a
 * vector costs more than wide vectors gain on data from memory (20 channels: twice the time). */
#if defined(__GNUC__) && !defined(__clang__) && defined(__AVX512F__)
#pragma GCC target("prefer-vector-width=256")
#endif

#include "device/cpu/kernels/pool2d.h"

#include <string.h>

#include "device/cpu/isa.h"

#if defined(__AVX512BW__)
#include "device/cpu/lane_mask.h"

enum { LANES = WEIR_MASK_LANES };

/* Whole vectors are stored without a mask, so that loads need not wait for it. */
static inline void store(float *to, __mmask16 all, __m512 v)
{
    if (all == 0xffff)
        _mm512_storeu_ps(to, v);
    else
        _mm512_mask_storeu_ps(to, all, v);
}

/* dy of up to sixteen channels where cell `place` won, else 0. */
static inline __m512 dy_where_won(__mmask16 all, const float *dy, const uint8_t *winner,
                                  int64_t place)
{
    const __m512i w = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(all, winner));
    return _mm512_maskz_loadu_ps(
        _mm512_mask_cmpeq_epi32_mask(all, w, _mm512_set1_epi32((int)place)), dy);
}

/* max_grad_apart_f32 of pool2d_type.h, with masks for the tail. */
static void max_grad_apart_avx512(const void *dys, const uint8_t *winner, int64_t windows,
                                  int64_t c, int64_t place, int64_t wide, int64_t step, void *to)
{
    const float *dy = dys;
    float       *y = to;
    for (int64_t q = 0; q < windows; q++, dy += c, winner += c, y += step * c) {
        for (int64_t i = 0; i < wide; i++)
            for (int64_t j = 0; j < c; j += LANES) {
                const __mmask16 all = weir_first_lanes(c - j);
                store(y + i * c + j, all, dy_where_won(all, dy + j, winner + j, place + i));
            }
        if (step > wide)
            memset(y + wide * c, 0, (size_t)((step - wide) * c) * sizeof *y);
    }
}

#define HAS_APART
#endif

#define T        float
#define I        int32_t
#define FN(name) name##_f32
#include "device/cpu/kernels/pool2d_type.h"

#if defined(__AVX512BW__)
/* max_f32, which is slow for channels that do not fill vectors and for more than four cells. */
static void max_avx512(const weir_pool_cell *cell, int64_t n, int64_t c, void *to, uint8_t *winner)
{
    float *const y = to;
    if (n <= 4 && c % LANES == 0) {
        max_f32(cell, n, c, to, winner);
        return;
    }
    for (int64_t j = 0; j < c; j += LANES) {
        const __mmask16 all = weir_first_lanes(c - j);
        __m512          best = _mm512_maskz_loadu_ps(all, (const float *)cell[0].at + j);
        __m512i         won = _mm512_set1_epi32((int)cell[0].place);
        for (int64_t k = 1; k < n; k++) {
            const __m512    v = _mm512_maskz_loadu_ps(all, (const float *)cell[k].at + j);
            const __mmask16 wins = _mm512_cmp_ps_mask(v, best, _CMP_GT_OQ) |
                                   _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
            best = _mm512_mask_mov_ps(best, wins, v);
            won = _mm512_mask_mov_epi32(won, wins, _mm512_set1_epi32((int)cell[k].place));
        }
        store(y + j, all, best);
        if (all == 0xffff)
            _mm_storeu_si128((void *)(winner + j), _mm512_cvtepi32_epi8(won));
        else
            _mm512_mask_cvtepi32_storeu_epi8(winner + j, all, won);
    }
}

#define MAX_F32   max_avx512
#define APART_F32 max_grad_apart_avx512
#else
#define MAX_F32   max_f32
#define APART_F32 max_grad_apart_f32
#endif

#define T        double
#define I        int64_t
#define FN(name) name##_f64
#include "device/cpu/kernels/pool2d_type.h"

const weir_pool_loops WEIR_ISA_NAME(weir_pool_loops)[2] = {
    {MAX_F32, max_grad_f32, APART_F32, sum_f32, scaled_f32, scale_f32},
    {max_f64, max_grad_f64, max_grad_apart_f64, sum_f64, scaled_f64, scale_f64},
};
