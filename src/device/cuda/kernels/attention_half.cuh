/* attention_half.cuh - shared by attention's kernels for tensor cores: matrices of halves in
 * registers and shared memory, and products of them.
 *
 * A thread block owns SIDE rows of one operand of a head, each warp TILE of them, whose elements
 * stay in the warp's registers. The other operands' rows pass through shared memory, SIDE at a
 * time. Heads have up to W columns, padded with zeros to a multiple of TILE. Which lane holds which
 * element of a matrix depends on the card: lanes find out by loading a matrix of positions. */
#ifndef WEIR_DEVICE_CUDA_KERNELS_ATTENTION_HALF_CUH
#define WEIR_DEVICE_CUDA_KERNELS_ATTENTION_HALF_CUH

#include <cuda_pipeline_primitives.h>
#include <mma.h>

#include "device/cuda/kernels/attention.cuh"
#include "device/cuda/kernels/tile.h"

namespace wmma = nvcuda::wmma;

enum {
    SIDE = 64, TILE = 16, TILES = SIDE / TILE, WARP = 32, THREADS = TILES * WARP,
    PAD = 8,            /* spreads rows over the banks */
    EIGHT = 8,          /* elements moved at once */
    SCORE_COLUMNS = 32,         /* columns of scores that a warp processes at a time */
    SCORE_STEP = SCORE_COLUMNS + 4
};

/* For loops whose unrolled bodies would take registers from the sums. */
#ifdef __CUDACC__
#define HALF_UNROLL(n) _Pragma(HALF_TEXT(unroll n))
#define HALF_TEXT(text) #text
#else
#define HALF_UNROLL(n)
#endif

#define ALL_LANES 0xffffffffu
#define LOG2_E    1.44269504088896341
#define LN_2      0.693147180559945309

/* C: CUDA's type for elements of type T. Probabilities are multiplied by 2^LIFT, because small ones
 * underflow in f16. HERE: the compiled architecture has tensor cores for the type. */
template <class T> struct half_type;
template <> struct half_type<weir_f16> {
    typedef __half        C;
    static constexpr int  LIFT = 14;
    static constexpr bool HERE = true;
};
template <> struct half_type<weir_bf16> {
    typedef __nv_bfloat16 C;
    static constexpr int  LIFT = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    static constexpr bool HERE = false;
#else
    static constexpr bool HERE = true;
#endif
};

template <class C> using half_left = wmma::fragment<wmma::matrix_a, TILE, TILE, TILE, C,
                                                    wmma::row_major>;
typedef wmma::fragment<wmma::accumulator, TILE, TILE, TILE, float> half_sum;

/* Positions of this lane's elements of a sum: row * TILE + column. */
struct half_places {
    int at[half_sum::num_elements];
};

/* Makes the compiler recompute addresses where they are used: keeping all of them would take the
 * registers. */
static __device__ inline void half_forget(half_places &p)
{
#ifdef __CUDACC__
    for (int i = 0; i < half_sum::num_elements; i++)
        asm volatile("" : "+r"(p.at[i]));
#else
    (void)p;
#endif
}

template <class C> struct alignas(16) half_eight {
    C at[EIGHT];
};

/* one: rows of k or q; two: of v or dy. Each warp has its own part of the union. */
template <class C, int W> struct alignas(32) half_shared {
    C one[SIDE][W + PAD];
    C two[SIDE][W + PAD];
    union {
        float scores[TILES][TILE][SCORE_STEP];
        C     weights[TILES][TILE][SIDE + PAD];
    };
    float low[SIDE], delta[SIDE];       /* of rows of q */
};

/* Rows of a head, up to `end`. eights: eight elements may be moved at once. */
template <class C> struct half_rows {
    C      *at;
    int64_t step, end;
    int     columns;
    bool    eights;
};

[[maybe_unused]] static __device__ inline void half_narrow(__half *to, float x)
{
    *to = __float2half_rn(x);
}
[[maybe_unused]] static __device__ inline void half_narrow(__nv_bfloat16 *to, float x)
{
    *to = __float2bfloat16_rn(x);
}

[[maybe_unused]] static __device__ inline float half_wide_of(__half x)
{
    return __half2float(x);
}
[[maybe_unused]] static __device__ inline float half_wide_of(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

static __device__ inline int64_t half_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Blocks per multiprocessor that the registers are budgeted for. */
static constexpr int half_resident(int w)
{
    return w == WEIR_ATTENTION_NARROW ? 3 : 2;
}

/* ---- memory ---- */

template <class C, class T>
static __device__ inline half_rows<C> half_rows_of(const weir_attention_geometry &of, T *base,
                                                   const weir_attention_rows &r, int64_t head,
                                                   int64_t columns, int64_t end)
{
    C *const at = (C *)attention_row(base, r, head / of.h, head % of.h, columns, 0);
    const bool eights = (uintptr_t)(base + r.offset) % 16 == 0 && columns % EIGHT == 0 &&
                        r.row % EIGHT == 0 && r.batch % EIGHT == 0;
    return {at, r.row, end, (int)columns, eights};
}

/* Copies SIDE rows from `first` to shared memory, padded with zeros: one group of asynchronous
 * copies where the card supports them. Rows beyond the end are zeros. */
template <class C, int W>
static __device__ inline void half_fetch(C (*to)[W + PAD], const half_rows<C> &x, int64_t first)
{
    constexpr int  ACROSS = W / EIGHT, ROWS = THREADS / ACROSS;
    const int      row = (int)threadIdx.x / ACROSS, col = (int)threadIdx.x % ACROSS * EIGHT;
    const int      rows = (int)half_least(SIDE, x.end - first), left = x.columns - col;
    const C       *from = x.at + (first + row) * x.step + col;
    if (rows > 0 && col < (x.columns + TILE - 1) / TILE * TILE) {
        HALF_UNROLL(2)
        for (int r = row; r < SIDE; r += ROWS, from += ROWS * x.step) {
            if (x.eights && r < rows && left > 0) {
                __pipeline_memcpy_async(&to[r][col], from, sizeof(half_eight<C>));
                continue;
            }
            HALF_UNROLL(1)
            for (int v = 0; v < EIGHT; v++)
                if (r < rows && v < left)
                    to[r][col + v] = from[v];
                else
                    half_narrow(&to[r][col + v], 0);
        }
    }
    __pipeline_commit();
}

/* Loads this warp's TILE rows from shared memory into registers. */
template <class C, int W>
static __device__ inline void half_hold(half_left<C> (&a)[W / TILE], const C (*from)[W + PAD],
                                        int columns)
{
    WEIR_UNROLL
    for (int k = 0; k < W / TILE; k++)
        if (k * TILE < columns)
            wmma::load_matrix_sync(a[k], &from[threadIdx.x / WARP * TILE][k * TILE], W + PAD);
}

/* Writes sums to rows from `first`, through the warp's part of shared memory. */
template <class C, int W>
static __device__ inline void half_write(half_shared<C, W> &m, const half_rows<C> &to,
                                         int64_t first, const half_sum (&sum)[W / TILE],
                                         const half_places &p)
{
    const int lane = (int)threadIdx.x % WARP;
    C (*const area)[SIDE + PAD] = m.weights[threadIdx.x / WARP];
    WEIR_UNROLL
    for (int c0 = 0; c0 < W; c0 += SIDE) {
        __syncwarp();
        WEIR_UNROLL
        for (int f = 0; f < TILES; f++)
            WEIR_UNROLL
            for (int i = 0; i < half_sum::num_elements; i++)
                half_narrow(&area[p.at[i] / TILE][f * TILE + p.at[i] % TILE],
                            sum[c0 / TILE + f].x[i]);
        __syncwarp();
        for (int q = lane; q < TILE * SIDE / EIGHT; q += WARP) {
            const int row = q / (SIDE / EIGHT), col = q % (SIDE / EIGHT) * EIGHT;
            const int left = first + row < to.end ? to.columns - c0 - col : 0;
            C *const  at = to.at + (first + row) * to.step + c0 + col;
            if (to.eights && left > 0)
                *(half_eight<C> *)at = *(const half_eight<C> *)&area[row][col];
            else
                for (int v = 0; v < EIGHT && v < left; v++)
                    at[v] = area[row][col + v];
        }
    }
}

/* ---- products ---- */

template <class C, int W>
static __device__ inline half_places half_places_of(half_shared<C, W> &m)
{
    const int   warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    half_sum    numbers;
    half_places p;
    for (int e = lane; e < TILE * TILE; e += WARP)
        m.scores[warp][e / TILE][e % TILE] = (float)e;
    __syncwarp();
    wmma::load_matrix_sync(numbers, &m.scores[warp][0][0], SCORE_STEP,
                           wmma::mem_row_major);
    __syncwarp();
    for (int i = 0; i < half_sum::num_elements; i++)
        p.at[i] = (int)numbers.x[i];
    return p;
}

/* sum = a * (TILE rows of b)^T, over their columns. */
template <class C, int W>
static __device__ inline void half_scores(half_sum &sum, const half_left<C> (&a)[W / TILE],
                                          const C (*b)[W + PAD], int columns)
{
    wmma::fill_fragment(sum, 0.0f);
    WEIR_UNROLL
    for (int k = 0; k < W / TILE; k++)
        if (k * TILE < columns) {
            wmma::fragment<wmma::matrix_b, TILE, TILE, TILE, C, wmma::col_major> right;
            wmma::load_matrix_sync(right, &b[0][k * TILE], W + PAD);
            wmma::mma_sync(sum, a[k], right, sum);
        }
}

/* sum += weights, a matrix in the warp's part of shared memory, * TILE rows of b. */
template <class C, int W>
static __device__ inline void half_add(half_sum (&sum)[W / TILE], const C *weights,
                                       const C (*b)[W + PAD], int columns)
{
    half_left<C> left;
    wmma::load_matrix_sync(left, weights, SIDE + PAD);
    WEIR_UNROLL
    for (int k = 0; k < W / TILE; k++)
        if (k * TILE < columns) {
            wmma::fragment<wmma::matrix_b, TILE, TILE, TILE, C, wmma::row_major> right;
            wmma::load_matrix_sync(right, &b[0][k * TILE], W + PAD);
            wmma::mma_sync(sum[k], left, right, sum[k]);
        }
}

/* Sets the matrix's non-finite elements to 0. Returns true if the warp had any. */
template <class F> static __device__ inline bool half_tame(F &x)
{
    bool wild = false;
    WEIR_UNROLL
    for (int i = 0; i < F::num_elements; i++)
        if (!(half_wide_of(x.x[i]) * 0 == 0)) {
            half_narrow(&x.x[i], 0);
            wild = true;
        }
    return __any_sync(ALL_LANES, wild);
}

/* sum += weights * the non-finite elements of b, a matrix of columns, for pairs that are not
 * masked: row i of q attends to row j of k up to i + ahead. The weights' rows are q's if BY_ROWS,
 * else k's. */
template <bool BY_ROWS, class C, int W>
static __device__ inline void half_add_wild(half_sum &sum, const C *weights, const C (*b)[W + PAD],
                                            int col, int ahead, const half_places &p)
{
    WEIR_UNROLL
    for (int x = 0; x < half_sum::num_elements; x++) {
        const int i = p.at[x] / TILE;
        for (int j = 0; j < TILE; j++) {
            const float v = half_wide_of(b[j][col + p.at[x] % TILE]);
            if (!(v * 0 == 0) && (BY_ROWS ? j <= i + ahead : i <= j + ahead))
                sum.x[x] += half_wide_of(weights[i * (SIDE + PAD) + j]) * v;
        }
    }
}

/* half_add for a tile with masked pairs, whose weights are 0: they add nothing, even where 0 times
 * b's element is NaN. */
template <bool BY_ROWS, class C, int W>
static __device__ inline void half_add_seen(half_sum (&sum)[W / TILE], const C *weights,
                                            const C (*b)[W + PAD], int columns, int ahead,
                                            const half_places &p)
{
    half_left<C> left;
    wmma::load_matrix_sync(left, weights, SIDE + PAD);
    WEIR_UNROLL
    for (int k = 0; k < W / TILE; k++)
        if (k * TILE < columns) {
            wmma::fragment<wmma::matrix_b, TILE, TILE, TILE, C, wmma::row_major> right;
            wmma::load_matrix_sync(right, &b[0][k * TILE], W + PAD);
            const bool wild = half_tame(right);
            wmma::mma_sync(sum[k], left, right, sum[k]);
            if (wild)
                half_add_wild<BY_ROWS, C, W>(sum[k], weights, b, k * TILE, ahead, p);
        }
}

template <int N> static __device__ inline void half_clear(half_sum (&sum)[N])
{
    WEIR_UNROLL
    for (int k = 0; k < N; k++)
        wmma::fill_fragment(sum[k], 0.0f);
}

template <int N> static __device__ inline void half_times(half_sum (&sum)[N], float factor)
{
    WEIR_UNROLL
    for (int k = 0; k < N; k++)
        WEIR_UNROLL
        for (int i = 0; i < half_sum::num_elements; i++)
            sum[k].x[i] *= factor;
}

/* Row by row. */
template <int N>
static __device__ inline void half_times_rows(half_sum (&sum)[N], const float *factor,
                                              const half_places &p)
{
    WEIR_UNROLL
    for (int i = 0; i < half_sum::num_elements; i++) {
        const float f = factor[p.at[i] / TILE];
        WEIR_UNROLL
        for (int k = 0; k < N; k++)
            sum[k].x[i] *= f;
    }
}

/* ---- runs ---- */

template <class T> static inline unsigned half_grid(attention_args<T> *g, int64_t rows)
{
    g->blocks = ceil_div(rows, SIDE);
    return attention_grid(g->blocks * g->of.b * g->of.h);
}

static inline bool half_wide(const weir_attention_geometry &of)
{
    return of.d > WEIR_ATTENTION_NARROW || of.e > WEIR_ATTENTION_NARROW;
}

#endif
