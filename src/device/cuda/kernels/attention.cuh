/* attention.cuh - shared by the kernels of attention: sizes, arguments, the gradient's inputs.
 * Private to attention.cu, attention_half.cu and attention_half_grad.cu. */
#ifndef WEIR_DEVICE_CUDA_KERNELS_ATTENTION_CUH
#define WEIR_DEVICE_CUDA_KERNELS_ATTENTION_CUH

#include "device/cuda/kernels/attention_plan.h"
#include "device/cuda/kernels/maths.h"

/* The type in which elements of type T are computed. */
template <class T> using real = typename weir_real<T>::type;

/* b batches of h heads, t rows of q, s rows of k and v; a head has d columns of q and k, e of v. */
struct attention_sizes {
    int64_t b, h, t, s, d, e;
    bool    causal;
};

template <class T> struct attention_args {
    attention_sizes of;
    real<T>         scale;
    const T        *q, *k, *v, *y, *dy;
    const real<T>  *lse, *delta;
    T              *to;
    real<T>        *to_lse;
    int64_t         blocks, column_blocks; /* of owned rows; of computed columns */
};

/* True if row i of q attends to row j of k. */
static __device__ inline bool attention_sees(const attention_sizes &of, int64_t i, int64_t j)
{
    return i < of.t && j < of.s && (!of.causal || j <= i);
}

/* delta = dy . y, one warp per row of each head. */
template <class T>
static __global__ void attention_delta(const attention_args<T> g, real<T> *delta)
{
    const int64_t rows = g.of.b * g.of.h * g.of.t, step = (int64_t)gridDim.x * (blockDim.x / 32);
    const int     lane = (int)threadIdx.x % 32;
    for (int64_t n = (int64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; n < rows;
         n += step) {
        const int64_t head = n / g.of.t, row = n % g.of.t;
        const int64_t at = ((head / g.of.h * g.of.t + row) * g.of.h + head % g.of.h) * g.of.e;
        real<T>       sum = 0;
        for (int64_t j = lane; j < g.of.e; j += 32)
            sum += weir_load(g.dy + at + j) * weir_load(g.y + at + j);
        for (int by = 16; by > 0; by /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, by);
        if (lane == 0)
            delta[n] = sum;
    }
}

/* ---- runs ---- */

enum { ATTENTION_BLOCKS = 1 << 20 };    /* most blocks of a launch; they loop over the rest */

static inline unsigned attention_grid(int64_t blocks)
{
    return (unsigned)min64(blocks, ATTENTION_BLOCKS);
}

template <class T> static inline attention_args<T> attention_args_of(const weir_kargs *k)
{
    const attention_sizes *const of = (const attention_sizes *)k->state;
    attention_args<T>            g = {.of = *of};
    g.scale = of->d > 0 ? (real<T>)(1 / sqrt((double)of->d)) : (real<T>)1;
    g.q = (const T *)k->src[0];
    g.k = (const T *)k->src[1];
    g.v = (const T *)k->src[2];
    return g;
}

/* Queues the computation of delta in the workspace and returns the gradient kernels' arguments. */
template <class T>
static inline weir_status attention_grad_begin(const weir_kargs *k, attention_args<T> *g)
{
    *g = attention_args_of<T>(k);
    g->y = (const T *)k->src[3];
    g->lse = (const real<T> *)k->src[4];
    g->dy = (const T *)k->src[5];
    g->delta = (const real<T> *)k->work;
    const int64_t rows = g->of.b * g->of.h * g->of.t;
    return weir_launch(k, attention_delta<T>, weir_cuda_blocks(rows * 32), WEIR_CUDA_THREADS, *g,
                       (real<T> *)k->work);
}

/* attention_half.cu, attention_half_grad.cu: the ops where weir_attention_cores is true. */
weir_status weir_attention_half(const weir_kargs *k);
weir_status weir_attention_half_grad(const weir_kargs *k);

#endif
