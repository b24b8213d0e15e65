/* mma.h - the host's stand-in for CUDA's <mma.h>: products of 16 x 16 matrices of halves.
 *
 * As on a card, a matrix is distributed over the lanes of its warp, eight elements each; the order
 * is this file's and differs for each kind of matrix. So a kernel that relies on a card's order, or
 * that lacks a barrier between its lanes' stores and loads, gives wrong results here too. Sums are
 * computed in f32 in the order of the terms. */
#ifndef WEIR_TEST_EMULATOR_MMA_H
#define WEIR_TEST_EMULATOR_MMA_H

#include <stdio.h>
#include <stdlib.h>

#include "core/half.h"

struct __half {
    uint16_t bits;
};
struct __nv_bfloat16 {
    uint16_t bits;
};

static inline __half __float2half_rn(float x)
{
    return {weir_to_f16(x)};
}
static inline __nv_bfloat16 __float2bfloat16_rn(float x)
{
    return {weir_to_bf16(x)};
}

static inline float __half2float(__half x)             { return weir_from_f16(x.bits); }
static inline float __bfloat162float(__nv_bfloat16 x)   { return weir_from_bf16(x.bits); }
static inline float emulate_float(__half x)             { return weir_from_f16(x.bits); }
static inline float emulate_float(__nv_bfloat16 x)      { return weir_from_bf16(x.bits); }

namespace nvcuda {
namespace wmma {

struct row_major;
struct col_major;
struct matrix_a;
struct matrix_b;
struct accumulator;
enum layout_t { mem_row_major, mem_col_major };

enum { SIDE = 16, ELEMENTS = SIDE * SIDE, EACH = ELEMENTS / 32, MAX_THREADS = 1024 };

/* Element i of a lane lies in row place / 16 and column place % 16. */
template <class USE> static inline int place(int lane, int i);
template <> inline int place<matrix_a>(int lane, int i)
{
    return (i * 32 + lane) * 45 % ELEMENTS;
}
template <> inline int place<matrix_b>(int lane, int i)
{
    return (lane * EACH + i) * 27 % ELEMENTS;
}
template <> inline int place<accumulator>(int lane, int i)
{
    return (lane * EACH + i) * 77 % ELEMENTS;
}

template <class USE, int M, int N, int K, class T, class LAYOUT = void> struct fragment {
    static_assert(M == SIDE && N == SIDE && K == SIDE, "the shape that all cards have");
    enum { num_elements = EACH };
    T x[EACH];
};

/* Checks a card's requirements: addresses aligned to 32 bytes, rows to 16. */
static inline void check(const void *at, size_t row_bytes)
{
    if ((uintptr_t)at % 32 == 0 && row_bytes % 16 == 0)
        return;
    fprintf(stderr, "emulated kernel: a matrix at %p with rows of %zu bytes is not aligned\n", at,
            row_bytes);
    abort();
}

template <class USE, class T, class LAYOUT>
static inline void load_matrix_sync(fragment<USE, SIDE, SIDE, SIDE, T, LAYOUT> &f, const T *from,
                                    unsigned ld)
{
    const bool turned = std::is_same<LAYOUT, col_major>::value;
    check(from, ld * sizeof(T));
    for (int i = 0; i < EACH; i++) {
        const int at = place<USE>(emulate_lane(), i), row = at / SIDE, col = at % SIDE;
        f.x[i] = turned ? from[col * ld + row] : from[row * ld + col];
    }
}

template <class T>
static inline void load_matrix_sync(fragment<accumulator, SIDE, SIDE, SIDE, T> &f, const T *from,
                                    unsigned ld, layout_t layout)
{
    check(from, ld * sizeof(T));
    for (int i = 0; i < EACH; i++) {
        const int at = place<accumulator>(emulate_lane(), i), row = at / SIDE, col = at % SIDE;
        f.x[i] = layout == mem_col_major ? from[col * ld + row] : from[row * ld + col];
    }
}

template <class T>
static inline void store_matrix_sync(T *to, const fragment<accumulator, SIDE, SIDE, SIDE, T> &f,
                                     unsigned ld, layout_t layout)
{
    check(to, ld * sizeof(T));
    for (int i = 0; i < EACH; i++) {
        const int at = place<accumulator>(emulate_lane(), i), row = at / SIDE, col = at % SIDE;
        to[layout == mem_col_major ? col * ld + row : row * ld + col] = f.x[i];
    }
}

template <class FRAGMENT, class T> static inline void fill_fragment(FRAGMENT &f, T value)
{
    for (int i = 0; i < EACH; i++)
        f.x[i] = value;
}

/* Memory in which lanes publish their elements to the warp. There are two, used in turn, so that
 * the first lane to reach the next product does not overwrite what others still read. */
struct exchange {
    float a[ELEMENTS], b[ELEMENTS];     /* b by columns */
};
static exchange      exchanges[MAX_THREADS / 32][2];
static unsigned char turn[MAX_THREADS];

template <class T, class A, class B>
static inline void mma_sync(fragment<accumulator, SIDE, SIDE, SIDE, float> &d,
                            const fragment<matrix_a, SIDE, SIDE, SIDE, T, A> &a,
                            const fragment<matrix_b, SIDE, SIDE, SIDE, T, B> &b,
                            const fragment<accumulator, SIDE, SIDE, SIDE, float> &c)
{
    const int       lane = emulate_lane();
    const unsigned  thread = threadIdx.x;
    exchange *const x = &exchanges[thread / 32][turn[thread] ^= 1];
    for (int i = 0; i < EACH; i++) {
        const int at = place<matrix_b>(lane, i);
        x->a[place<matrix_a>(lane, i)] = emulate_float(a.x[i]);
        x->b[at % SIDE * SIDE + at / SIDE] = emulate_float(b.x[i]);
    }
    emulate_warp_barrier(0xffffffffu);
    for (int i = 0; i < EACH; i++) {
        const int          at = place<accumulator>(lane, i);
        const float *const row = x->a + at / SIDE * SIDE, *const col = x->b + at % SIDE * SIDE;
        float              sum = c.x[i];
        for (int k = 0; k < SIDE; k++)
            sum += row[k] * col[k];
        d.x[i] = sum;
    }
}

}
}

#endif
