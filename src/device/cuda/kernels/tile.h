/* tile.h - a thread block multiplies two panels: the core of matrix products and attention.
 *
 * A panel is a matrix with indices i of the result and p of the sum, processed in steps of DEPTH:
 * while one step is multiplied from shared memory, each thread holds its part of the next in
 * registers. A thread computes TM x TN sums, in groups of four rows and columns, so that its reads
 * of shared memory are vectors. Each sum is accumulated in the order of p by fused multiply-adds,
 * whatever the tile. */
#ifndef WEIR_DEVICE_CUDA_KERNELS_TILE_H
#define WEIR_DEVICE_CUDA_KERNELS_TILE_H

#include "device/cuda/kernels/maths.h"

#ifdef __CUDACC__
#define WEIR_UNROLL _Pragma("unroll")
#else
#define WEIR_UNROLL
#endif

static __device__ inline float weir_fma(float a, float b, float c)
{
    return fmaf(a, b, c);
}
static __device__ inline double weir_fma(double a, double b, double c)
{
    return fma(a, b, c);
}

/* Element (i, p) is at[i * row + p * col]; one of the two strides is 1. quads: four elements along
 * that axis may be loaded at once where its index is a multiple of four. */
template <class T> struct weir_panel {
    const T *at;
    int64_t  row, col;
    bool     quads;
};

enum { WEIR_QUAD = 4 };

template <class T>
struct alignas(sizeof(T) * WEIR_QUAD > 16 ? 16 : sizeof(T) * WEIR_QUAD) weir_quad {
    T at[WEIR_QUAD];
};

/* True if a matrix at p with this leading dimension may be read in quads. */
template <class T> static inline bool weir_quads(const void *p, int64_t ld)
{
    return (uintptr_t)p % alignof(weir_quad<T>) == 0 && ld % WEIR_QUAD == 0;
}

/* Steps of both panels in shared memory, as [p][i], read in quads; rows are 4 elements longer,
 * which avoids bank conflicts. */
template <class A, int BM, int BN, int DEPTH> struct alignas(16) weir_tiles {
    A a[2][DEPTH][BM + WEIR_QUAD];
    A b[2][DEPTH][BN + WEIR_QUAD];
};

/* The part of a panel's step that a thread holds. */
template <class A, int WIDE, int DEPTH, int THREADS> struct weir_held {
    enum { QUADS = WIDE * DEPTH / WEIR_QUAD / THREADS };
    weir_quad<A> at[QUADS];
};

/* Position of quad q within a step. */
template <int WIDE, int DEPTH>
static __device__ inline void weir_quad_at(bool along_p, int q, int *i, int *p)
{
    const int each = along_p ? DEPTH / WEIR_QUAD : WIDE / WEIR_QUAD;
    const int first = q % each * WEIR_QUAD, second = q / each;
    *i = along_p ? second : first;
    *p = along_p ? first : second;
}

/* Loads the step at (i0, p0); elements from i1 and p1 on are zeros. */
template <class T, class A, int WIDE, int DEPTH, int THREADS>
static __device__ inline void weir_fetch(weir_held<A, WIDE, DEPTH, THREADS> &h,
                                         const weir_panel<T> &x, int64_t i0, int64_t i1, int64_t p0,
                                         int64_t p1)
{
    const bool along_p = x.col == 1;
    WEIR_UNROLL
    for (int r = 0; r < h.QUADS; r++) {
        int i, p;
        weir_quad_at<WIDE, DEPTH>(along_p, (int)threadIdx.x + r * THREADS, &i, &p);
        const int64_t  left_i = i1 - i0 - i, left_p = p1 - p0 - p;
        const T *const from = x.at + (i0 + i) * x.row + (p0 + p) * x.col;
        if (x.quads && left_i > 0 && left_p > 0 && (along_p ? left_p : left_i) >= WEIR_QUAD) {
            const weir_quad<T> four = *(const weir_quad<T> *)from;
            WEIR_UNROLL
            for (int v = 0; v < WEIR_QUAD; v++)
                h.at[r].at[v] = weir_load(&four.at[v]);
            continue;
        }
        WEIR_UNROLL
        for (int v = 0; v < WEIR_QUAD; v++)
            h.at[r].at[v] = left_i > (along_p ? 0 : v) && left_p > (along_p ? v : 0)
                             ? weir_load(from + v * (along_p ? x.col : x.row))
                             : (A)0;
    }
}

template <class A, int WIDE, int DEPTH, int THREADS>
static __device__ inline void weir_put(A (*tile)[WIDE + WEIR_QUAD],
                                       const weir_held<A, WIDE, DEPTH, THREADS> &h, bool along_p)
{
    WEIR_UNROLL
    for (int r = 0; r < h.QUADS; r++) {
        int i, p;
        weir_quad_at<WIDE, DEPTH>(along_p, (int)threadIdx.x + r * THREADS, &i, &p);
        if (!along_p)
            *(weir_quad<A> *)&tile[p][i] = h.at[r];
        WEIR_UNROLL
        for (int v = 0; v < WEIR_QUAD && along_p; v++)
            tile[p + v][i] = h.at[r].at[v];
    }
}

/* Row (or column) in the tile of a thread's element i: groups of four, spread over the tile. */
template <int WIDE, int EACH> static __device__ inline int weir_tile_at(int thread, int i)
{
    return i / WEIR_QUAD * (WIDE / (EACH / WEIR_QUAD)) + thread * WEIR_QUAD + i % WEIR_QUAD;
}

/* acc += one step of panels in shared memory, stored as [p][i]. */
template <class A, int BM, int BN, int DEPTH, int TM, int TN>
static __device__ inline void weir_tile_step(A (&acc)[TM][TN], const A (*a)[BM + WEIR_QUAD],
                                            const A (*b)[BN + WEIR_QUAD])
{
    const int across = BN / TN, x = (int)threadIdx.x % across, y = (int)threadIdx.x / across;
    WEIR_UNROLL
    for (int p = 0; p < DEPTH; p++) {
        weir_quad<A> left[TM / WEIR_QUAD], right[TN / WEIR_QUAD];
        WEIR_UNROLL
        for (int i = 0; i < TM; i += WEIR_QUAD)
            left[i / WEIR_QUAD] = *(const weir_quad<A> *)&a[p][weir_tile_at<BM, TM>(y, i)];
        WEIR_UNROLL
        for (int j = 0; j < TN; j += WEIR_QUAD)
            right[j / WEIR_QUAD] = *(const weir_quad<A> *)&b[p][weir_tile_at<BN, TN>(x, j)];
        WEIR_UNROLL
        for (int i = 0; i < TM; i++) {
            WEIR_UNROLL
            for (int j = 0; j < TN; j++)
                acc[i][j] = weir_fma(left[i / WEIR_QUAD].at[i % WEIR_QUAD],
                                     right[j / WEIR_QUAD].at[j % WEIR_QUAD], acc[i][j]);
        }
    }
}

/* acc += A B over p0 <= p < p1, for rows from i0 and columns from j0; nothing is read beyond m and
 * n. All threads of the block must call; the function ends with a barrier. */
template <class T, class A, int BM, int BN, int DEPTH, int TM, int TN>
static __device__ inline void
weir_tile_product(weir_tiles<A, BM, BN, DEPTH> &tiles, A (&acc)[TM][TN], const weir_panel<T> &a,
                  int64_t i0, int64_t m, const weir_panel<T> &b, int64_t j0, int64_t n, int64_t p0,
                  int64_t p1)
{
    constexpr int                       THREADS = BM / TM * (BN / TN);
    weir_held<A, BM, DEPTH, THREADS> next_a;
    weir_held<A, BN, DEPTH, THREADS> next_b;
    int                                 now = 0;
    weir_fetch(next_a, a, i0, m, p0, p1);
    weir_fetch(next_b, b, j0, n, p0, p1);
    weir_put<A, BM, DEPTH, THREADS>(tiles.a[0], next_a, a.col == 1);
    weir_put<A, BN, DEPTH, THREADS>(tiles.b[0], next_b, b.col == 1);
    __syncthreads();
    for (int64_t p = p0; p < p1; p += DEPTH, now ^= 1) {
        const bool more = p + DEPTH < p1;
        if (more) {
            weir_fetch(next_a, a, i0, m, p + DEPTH, p1);
            weir_fetch(next_b, b, j0, n, p + DEPTH, p1);
        }
        weir_tile_step<A, BM, BN, DEPTH>(acc, tiles.a[now], tiles.b[now]);
        if (more) {
            weir_put<A, BM, DEPTH, THREADS>(tiles.a[now ^ 1], next_a, a.col == 1);
            weir_put<A, BN, DEPTH, THREADS>(tiles.b[now ^ 1], next_b, b.col == 1);
        }
        __syncthreads();
    }
}

#endif
