/* reduce_block.cuh - reductions of a block and of a warp by fixed trees, and the kernels that
 * reduce axes to one number each.
 *
 * A reduction is described by a fold, a stateless struct of types and functions:
 *     T, L, A         element; lane, which collects a few elements; accumulator (L may be A)
 *     Y               result
 *     width           adjacent elements that a thread takes if possible: 1 or weir_width<T>
 *     two, side       value() gets an element of a second input; of one laid out like the results
 *     first<X>()      the neutral element of L or A
 *     value(x, x2, place, side)   an element as an L; place: by the strides of the second layout
 *     meet(X, X)      combines two L or two A
 *     last(A, end)    the result
 * Each thread collects up to 64 elements in L, which are then combined in A, so f32 sums have small
 * rounding errors though few additions are in f64. An element's index alone determines its thread:
 * whether elements are loaded one by one or 16 bytes at once changes no bit. */
#ifndef WEIR_DEVICE_CUDA_KERNELS_REDUCE_BLOCK_CUH
#define WEIR_DEVICE_CUDA_KERNELS_REDUCE_BLOCK_CUH

#include "device/cuda/kernels/kernels.h"
#include "device/cuda/kernels/maths.h"
#include "device/cuda/kernels/reduce_plan.h"

/* ---- moving values ---- */

template <int BYTES> struct weir_word;
template <> struct weir_word<16> { typedef uint4 type; };
template <> struct weir_word<8>  { typedef uint2 type; };
template <> struct weir_word<4>  { typedef uint32_t type; };
template <> struct weir_word<2>  { typedef uint16_t type; };
template <> struct weir_word<1>  { typedef uint8_t type; };

/* V adjacent elements; wide: their address is a multiple of their size. */
template <int V, class T>
static __device__ inline void weir_load_run(const T *from, bool wide, T (&to)[V])
{
    if (wide) {
        typedef typename weir_word<(int)sizeof(T) * V>::type word;
        const word w = *(const word *)(const void *)from;
        memcpy(to, &w, sizeof w);
    } else {
#pragma unroll
        for (int v = 0; v < V; v++)
            to[v] = from[v];
    }
}

template <int V, class T>
static __device__ inline void weir_store_run(T *to, bool wide, const T (&from)[V])
{
    if (wide) {
        typedef typename weir_word<(int)sizeof(T) * V>::type word;
        word w;
        memcpy(&w, from, sizeof w);
        *(word *)(void *)to = w;
    } else {
#pragma unroll
        for (int v = 0; v < V; v++)
            to[v] = from[v];
    }
}

/* True if V elements at p can be loaded at once. */
template <class T> static inline bool weir_is_wide(const T *p, int v)
{
    return (uintptr_t)p % (sizeof(T) * (size_t)v) == 0;
}

/* Number of floats in 16 bytes. */
template <class T> static constexpr int weir_width()
{
    return 16 / (int)sizeof(T);
}

/* The value of the lane `by` places further, in groups of `width`; structs have overloads. */
template <class A> static __device__ inline A weir_shuffle_down(A a, int by, int width)
{
    return __shfl_down_sync(0xffffffffu, a, (unsigned)by, width);
}

/* True if both types are the same. */
template <class A, class B> static constexpr bool weir_same = false;
template <class A> static constexpr bool          weir_same<A, A> = true;

struct weir_add {
    template <class X> static __device__ X meet(X a, X b) { return a + b; }
};

/* The larger value; NaN is ignored. */
struct weir_top {
    template <class X> static __device__ X meet(X a, X b) { return b > a ? b : a; }
};

/* ---- reductions over threads; F::meet is not commuted: lower threads come first ---- */

/* Over each group of `width` lanes, a power of two up to 32; the result is in the first lane. All
 * lanes of the warp must call. */
template <class F, class A> static __device__ inline A weir_warp_meet(A a, int width)
{
    for (int by = width / 2; by > 0; by /= 2)
        a = F::meet(a, weir_shuffle_down(a, by, width));
    return a;
}

/* Over the block's first dimension of n threads, a power of two: up to 32 as above, else the whole
 * block, all of whose threads must call. The result is in the first thread. */
template <class F, class A> static __device__ inline A weir_line_meet(A a, int n)
{
    __shared__ A warps[32];
    a = weir_warp_meet<F>(a, n < 32 ? n : 32);
    if (n <= 32)
        return a;
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = a;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int w = 1; w < n / 32; w++)
            a = F::meet(a, warps[w]);
    __syncthreads();
    return a;
}

/* The same, with the result in every thread. */
template <class F, class A> static __device__ inline A weir_line_meet_all(A a, int n)
{
    __shared__ A all;
    a = weir_line_meet<F>(a, n);
    if (n <= 32)
        return __shfl_sync(0xffffffffu, a, 0, n);
    if (threadIdx.x == 0)
        all = a;
    __syncthreads();
    a = all;
    __syncthreads();
    return a;
}

/* Over the block's second dimension (a power of two), V values per thread; the result is in the
 * threads of row 0. All threads must call; a block has at most WEIR_CUDA_THREADS threads. */
template <class F, int V, class A> static __device__ inline void weir_rows_meet(A (&a)[V])
{
    __shared__ A others[WEIR_CUDA_THREADS * V];
    A *const     own = others + (threadIdx.y * blockDim.x + threadIdx.x);
    const int    n = (int)(blockDim.x * blockDim.y);
    for (int by = (int)blockDim.y / 2; by > 0; by /= 2) {
        __syncthreads();
        if ((int)threadIdx.y < 2 * by)
            for (int v = 0; v < V; v++)
                own[v * n] = a[v];
        __syncthreads();
        if ((int)threadIdx.y < by)
            for (int v = 0; v < V; v++)
                a[v] = F::meet(a[v], own[v * n + by * (int)blockDim.x]);
    }
    __syncthreads();
}

/* ---- offsets ---- */

/* 64-bit divisions are slow on cards; indices below 2^32 avoid them. */
static __device__ inline int64_t weir_quotient(int64_t a, int64_t b)
{
    if (((uint64_t)a | (uint64_t)b) >> 32 == 0)
        return (int64_t)((uint32_t)a / (uint32_t)b);
    return a / b;
}

/* axes_at for kernels. */
static __device__ inline axes_place weir_place_at(const axes *a, int64_t i)
{
    axes_place p = {0, 0, 0};
    for (int k = a->n - 1; k >= 0; k--) {
        const int64_t q = k > 0 ? weir_quotient(i, a->at[k].size) : 0, at = i - q * a->at[k].size;
        p.in += at * a->at[k].in;
        p.in2 += at * a->at[k].in2;
        p.out += at * a->at[k].out;
        i = q;
    }
    return p;
}

/* A thread's position in the reduced elements; it divides only where a line of the inner axis
 * ends. */
typedef struct weir_reduce_index {
    int64_t at, inner;      /* position among the reduced elements; within the line */
    int64_t in, in2;        /* offsets of the line */
} weir_reduce_index;

static __device__ inline weir_reduce_index weir_reduce_index_at(const weir_cuda_reduce *p,
                                                                int64_t                 at)
{
    if (p->over.n == 0)
        return {at, at, 0, 0};
    const int64_t    line = weir_quotient(at, p->inner.size);
    const axes_place o = weir_place_at(&p->over, line);
    return {at, at - line * p->inner.size, o.in, o.in2};
}

static __device__ inline void weir_reduce_index_next(const weir_cuda_reduce *p,
                                                     weir_reduce_index *w, int64_t step)
{
    w->at += step;
    w->inner += step;
    if (p->over.n > 0 && w->inner >= p->inner.size && w->at < p->reduced)
        *w = weir_reduce_index_at(p, w->at);
}

/* ---- the kernels ---- */

/* The end of a sum: sum * scale, or its square root. */
typedef struct weir_reduce_end {
    double scale;
    bool   root;
} weir_reduce_end;

template <class F> struct weir_reduce_args {
    const typename F::T *x, *x2;
    const typename F::T *side;
    typename F::Y       *y;
    typename F::A       *part;              /* [chunks][results]; NULL: one chunk */
    bool                 wide, wide2;
    weir_reduce_end        end;
};

/* The elements of both inputs that a thread takes at a time, at most V. place: position of the
 * first, by the strides of the second layout. */
template <class F, int V> struct weir_fold_taken {
    typename F::T x[V], x2[V];
    int64_t       place;
    int           have;
};

/* Reads t->have elements, `by` and `by2` apart; at: offset of the first in x. */
template <class F, int V>
static __device__ inline void weir_fold_read(const weir_reduce_args<F> *f, const typename F::T *at,
                                             int64_t by, int64_t by2, weir_fold_taken<F, V> *t)
{
    if (t->have == V && V > 1) {
        weir_load_run<V>(at, f->wide, t->x);
        if constexpr (F::two)
            weir_load_run<V>(f->x2 + t->place, f->wide2, t->x2);
        return;
    }
    for (int v = 0; v < V; v++)
        if (v < t->have) {
            t->x[v] = at[v * by];
            if constexpr (F::two)
                t->x2[v] = f->x2[t->place + v * by2];
        }
}

/* Combines lane[v] with element v. */
template <class F, int V>
static __device__ inline void weir_fold_take(const weir_fold_taken<F, V> &t, int64_t by2,
                                             const typename F::T (&side)[V],
                                             typename F::L (&lane)[V])
{
#pragma unroll
    for (int v = 0; v < V; v++)
        if (v < t.have)
            lane[v] = F::meet(lane[v], F::value(t.x[v], F::two ? t.x2[v] : t.x[v],
                                                t.place + v * by2, F::side ? side[v] : t.x[v]));
}

/* Adds elements [from, end) by steps to a[v]: V elements along the inner axis, the last of which
 * may be missing, or elements of V columns. in, in2: offsets of the results' elements. */
template <class F, int V, bool COLUMNS>
static __device__ inline void weir_reduce_run(const weir_cuda_reduce    *p,
                                              const weir_reduce_args<F> *f, int64_t in, int64_t in2,
                                              int64_t from, int64_t step, int64_t end,
                                              const typename F::T (&side)[V], typename F::A (&a)[V])
{
    typedef typename F::L L;
    typedef typename F::A A;
    enum { AHEAD = 4, ROUNDS = 16 };
    const int64_t by = COLUMNS ? p->col.in : p->inner.in, by2 = COLUMNS ? p->col.in2 : p->inner.in2;
    weir_reduce_index w = weir_reduce_index_at(p, from);

    while (w.at < end) {
        L lane[V];
#pragma unroll
        for (int v = 0; v < V; v++)
            lane[v] = F::template first<L>();
        for (int round = 0; round < ROUNDS && w.at < end; round++) {
            weir_fold_taken<F, V> t[AHEAD];
#pragma unroll
            for (int i = 0; i < AHEAD; i++, weir_reduce_index_next(p, &w, step)) {
                const int64_t left = COLUMNS ? V : end - w.at;
                t[i].place = in2 + w.in2 + w.inner * p->inner.in2;
                t[i].have = w.at >= end ? 0 : left < V ? (int)left : V;
                weir_fold_read(f, f->x + (in + w.in + w.inner * p->inner.in), by, by2, &t[i]);
            }
#pragma unroll
            for (int i = 0; i < AHEAD; i++)
                weir_fold_take(t[i], by2, side, lane);
        }
#pragma unroll
        for (int v = 0; v < V; v++)
            a[v] = F::meet(a[v], (A)lane[v]);
    }
}

template <class F>
static __device__ inline void weir_reduce_store(const weir_reduce_args<F> *f, int64_t results,
                                              int64_t result, int64_t out, typename F::A a)
{
    if (f->part)
        f->part[blockIdx.y * results + result] = a;
    else
        weir_cuda_offload(f->y + out, F::last(a, f->end));
}

/* blockIdx.y: chunk. */
template <class F, int V>
static __global__ void weir_reduce_lines(const __grid_constant__ weir_cuda_reduce p,
                                       const __grid_constant__ weir_reduce_args<F> f)
{
    typedef typename F::A A;
    const int64_t begin = blockIdx.y * p.chunk, step = (int64_t)blockDim.x * V;
    const int64_t end = begin + p.chunk < p.reduced ? begin + p.chunk : p.reduced;

    for (int64_t o = (int64_t)blockIdx.x * blockDim.y; o < p.outs;
         o += (int64_t)gridDim.x * blockDim.y) {
        const int64_t result = o + threadIdx.y;
        axes_place    at = {0, 0, 0};
        A             a[V];
        for (int v = 0; v < V; v++)
            a[v] = F::template first<A>();
        if (result < p.outs) {
            typename F::T side[V];
            at = weir_place_at(&p.keep, result);
            if constexpr (F::side)
                for (int v = 0; v < V; v++)
                    side[v] = f.side[at.out];
            weir_reduce_run<F, V, false>(&p, &f, at.in, at.in2, begin + (int64_t)threadIdx.x * V,
                                       step, end, side, a);
        }
        for (int v = 1; v < V; v++)
            a[0] = F::meet(a[0], a[v]);
        a[0] = weir_line_meet<F>(a[0], (int)blockDim.x);
        if (threadIdx.x == 0 && result < p.outs)
            weir_reduce_store<F>(&f, p.outs, result, at.out, a[0]);
    }
}

/* blockIdx.x: results of keep, blocks of columns. */
template <class F, int V>
static __global__ void weir_reduce_columns(const __grid_constant__ weir_cuda_reduce p,
                                         const __grid_constant__ weir_reduce_args<F> f)
{
    typedef typename F::A A;
    const int64_t begin = blockIdx.y * p.chunk, width = (int64_t)blockDim.x * V;
    const int64_t end = begin + p.chunk < p.reduced ? begin + p.chunk : p.reduced;
    const int64_t blocks = weir_quotient(p.cols + width - 1, width);
    const int64_t o = weir_quotient(blockIdx.x, blocks);
    const int64_t col = (blockIdx.x - o * blocks) * width + (int64_t)threadIdx.x * V;
    axes_place    at = weir_place_at(&p.keep, o);
    A             a[V];

    at.out += col * p.col.out;
    for (int v = 0; v < V; v++)
        a[v] = F::template first<A>();
    if (col < p.cols) {
        typename F::T side[V];
        if constexpr (F::side)
            for (int v = 0; v < V; v++)
                side[v] = f.side[at.out + v * p.col.out];
        weir_reduce_run<F, V, true>(&p, &f, at.in + col * p.col.in, at.in2 + col * p.col.in2,
                                  begin + threadIdx.y, blockDim.y, end, side, a);
    }
    weir_rows_meet<F, V>(a);
    if (threadIdx.y == 0 && col < p.cols)
        for (int v = 0; v < V; v++)
            weir_reduce_store<F>(&f, p.outs * p.cols, o * p.cols + col + v,
                               at.out + v * p.col.out, a[v]);
}

/* Combines the chunks of each result: adjacent threads have adjacent results. */
template <class F>
static __global__ void weir_reduce_chunks(const __grid_constant__ weir_cuda_reduce p,
                                        const typename F::A *part, typename F::Y *y,
                                        weir_reduce_end end)
{
    const int64_t results = p.outs * p.cols, i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    typename F::A a[1] = {F::template first<typename F::A>()};

    if (i < results)
        for (int64_t c = threadIdx.y; c < p.chunks; c += blockDim.y)
            a[0] = F::meet(a[0], part[c * results + i]);
    weir_rows_meet<F, 1>(a);
    if (threadIdx.y == 0 && i < results) {
        const int64_t    o = weir_quotient(i, p.cols);
        const axes_place at = weir_place_at(&p.keep, o);
        weir_cuda_offload(y + at.out + (i - o * p.cols) * p.col.out, F::last(a[0], end));
    }
}

/* ---- launching them ---- */

/* Bytes of the chunks' accumulators. */
template <class F> static inline size_t weir_reduce_work(const weir_cuda_reduce *p)
{
    return p->chunks > 1 ? (size_t)(p->chunks * weir_cuda_reduce_results(p)) * sizeof(typename F::A)
                         : 0;
}

template <class F, int V>
static weir_status weir_reduce_launch_by(const weir_kargs *k, const weir_cuda_reduce *p,
                                       const weir_reduce_args<F> &f)
{
    const int64_t blocks = weir_cuda_reduce_blocks(p);
    const dim3    block((unsigned)p->tx, (unsigned)p->ty);
    const dim3    grid((unsigned)min64(blocks, INT32_MAX), (unsigned)p->chunks);
    return p->columns ? weir_launch(k, weir_reduce_columns<F, V>, grid, block, *p, f)
                      : weir_launch(k, weir_reduce_lines<F, V>, grid, block, *p, f);
}

/* Queues the reduction of x (with x2 and side, which may be NULL) to y. work: weir_reduce_work
 * bytes. */
template <class F>
static weir_status weir_reduce_launch(const weir_kargs *k, const weir_cuda_reduce *p, const void *x,
                                    const void *x2, const void *side, void *work, void *y,
                                    weir_reduce_end end)
{
    typedef typename F::T T;
    weir_reduce_args<F>     f = {.x = (const T *)x,
                               .x2 = (const T *)x2,
                               .side = (const T *)side,
                               .y = (typename F::Y *)y,
                               .part = p->chunks > 1 ? (typename F::A *)work : NULL,
                               .wide = weir_is_wide((const T *)x, p->vec),
                               .wide2 = weir_is_wide((const T *)x2, p->vec),
                               .end = end};
    if (p->vec == 1)
        WEIR_TRY((weir_reduce_launch_by<F, 1>(k, p, f)));
    else
        WEIR_TRY((weir_reduce_launch_by<F, F::width>(k, p, f)));
    if (!f.part)
        return WEIR_OK;
    const int64_t results = weir_cuda_reduce_results(p);
    const int     tx = weir_cuda_power(results, 32);
    const int     ty = weir_cuda_power(p->chunks, WEIR_CUDA_THREADS / tx);
    return weir_launch(k, weir_reduce_chunks<F>, dim3((unsigned)ceil_div(results, tx)),
                       dim3((unsigned)tx, (unsigned)ty), *p, f.part, f.y, end);
}

#endif
