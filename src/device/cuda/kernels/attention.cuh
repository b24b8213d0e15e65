/* attention.cuh - shared by the kernels of attention: sizes, arguments, the gradient's inputs.
 * Private to attention.cu, attention_half.cu, attention_half_grad.cu, attention_mask_grad.cu. */
#ifndef WEIR_DEVICE_CUDA_KERNELS_ATTENTION_CUH
#define WEIR_DEVICE_CUDA_KERNELS_ATTENTION_CUH

#include "core/attr.h"
#include "core/dtype.h"
#include "device/cuda/kernels/attention_plan.h"
#include "device/cuda/kernels/maths.h"

#define inline inline __host__ __device__
#include "device/common/attention.h"
#undef inline

/* The type in which elements of type T are computed. */
template <class T> using real = typename weir_real<T>::type;

enum attention_masks { NO_MASK, MASK_OF_BOOL, MASK_OF_T, MASK_OF_FLOAT };

/* to: rows of the result. Strides of mask and lengths are of's and length_step. */
template <class T> struct attention_args {
    weir_attention_geometry of;
    weir_attention_rows     to_rows;
    real<T>                 scale;
    const T                *q, *k, *v, *y, *dy;
    const real<T>          *lse, *delta;
    T                      *to;
    real<T>                *to_lse;
    int64_t                 blocks, column_blocks; /* of owned rows; of computed columns */
    attention_masks         masks;
    const void             *mask, *lengths;
    bool                    wide_lengths;
    int64_t                 length_step, key_step;
    const float            *key;    /* of dropout */
};

/* Row i of q attends to rows j < keys of k and, if causal, j <= i + ahead. */
struct attention_sight {
    int64_t keys, ahead;
    bool    causal;
};

template <class T>
static __device__ inline attention_sight attention_sight_of(const attention_args<T> &g, int64_t n)
{
    int64_t keys = g.of.s;
    if (g.lengths) {
        const int64_t at = n * g.length_step;
        const int64_t most = g.wide_lengths ? ((const int64_t *)g.lengths)[at]
                                            : ((const int32_t *)g.lengths)[at];
        keys = most < 0 ? 0 : most < keys ? most : keys;
    }
    return {keys, g.of.causal == WEIR_SIGHT_FROM_LAST ? keys - g.of.t : 0, g.of.causal != 0};
}

/* True if row i of q attends to row j of k. */
static __device__ inline bool attention_sees(const weir_attention_geometry &of,
                                             const attention_sight &to, int64_t i, int64_t j)
{
    return i < of.t && j < to.keys && (!to.causal || j <= i + to.ahead);
}

/* Row `row` of head h of batch n; a head has `columns` columns. */
template <class T>
static __device__ inline T *attention_row(T *base, const weir_attention_rows &r, int64_t n,
                                          int64_t h, int64_t columns, int64_t row)
{
    return base + r.offset + n * r.batch + h * columns + row * r.row;
}

/* ---- masks and dropout ---- */

/* What is added to the scaled score of row i and key j. */
template <class T>
static __device__ inline real<T> attention_added(const attention_args<T> &g, int64_t n, int64_t h,
                                                 int64_t i, int64_t j)
{
    const int64_t *const step = g.of.mask_step;
    const int64_t        at = n * step[0] + h * step[1] + i * step[2] + j * step[3];
    if (g.masks == MASK_OF_BOOL)
        return ((const uint8_t *)g.mask)[at] ? (real<T>)0 : -(real<T>)INFINITY;
    return g.masks == MASK_OF_T ? (real<T>)weir_load((const T *)g.mask + at)
                                : (real<T>)((const float *)g.mask)[at];
}

/* The scaled score of row i, which sees key j. */
template <bool MORE, class T>
static __device__ inline real<T> attention_scaled(const attention_args<T> &g, int64_t n, int64_t h,
                                                  int64_t i, int64_t j, real<T> score)
{
    const real<T> s = score * g.scale;
    return MORE && g.masks != NO_MASK ? s + attention_added(g, n, h, i, j) : s;
}

/* Dropout's factors of row i and keys j to j + 3; j is a multiple of 4. */
template <class T>
static __device__ inline void attention_kept(const attention_args<T> &g, int64_t head, int64_t i,
                                             int64_t j, real<T> (&factor)[4])
{
    const float *const f = g.key;
    const int64_t      by = g.key_step;
    const double       p = g.of.dropout;
    uint32_t           word[4];
    weir_philox(weir_attention_key(f[0], f[by], f[2 * by], f[3 * by]),
                (uint64_t)(head * g.of.t + i) * weir_attention_blocks(&g.of) + (uint64_t)(j / 4),
                word);
    for (int x = 0; x < 4; x++)
        factor[x] = (double)weir_uniform_from(word[x]) >= p
                        ? p < 1 ? (real<T>)(1 / (1 - p)) : (real<T>)0
                        : (real<T>)0;
}

/* delta = dy . y, one warp per row of each head. */
template <class T>
static __global__ void attention_delta(const attention_args<T> g, real<T> *delta)
{
    const int64_t rows = g.of.b * g.of.h * g.of.t, step = (int64_t)gridDim.x * (blockDim.x / 32);
    const int     lane = (int)threadIdx.x % 32;
    for (int64_t m = (int64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; m < rows;
         m += step) {
        const int64_t  head = m / g.of.t, row = m % g.of.t, n = head / g.of.h, h = head % g.of.h;
        const T *const dy = attention_row(g.dy, g.of.dy, n, h, g.of.e, row);
        const T *const y = attention_row(g.y, g.of.y, n, h, g.of.e, row);
        real<T>        sum = 0;
        for (int64_t j = lane; j < g.of.e; j += 32)
            sum += weir_load(dy + j) * weir_load(y + j);
        for (int by = 16; by > 0; by /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, by);
        if (lane == 0)
            delta[m] = sum;
    }
}

/* ---- runs ---- */

enum { ATTENTION_BLOCKS = 1 << 20 };    /* most blocks of a launch; they loop over the rest */

static inline unsigned attention_grid(int64_t blocks)
{
    return (unsigned)min64(blocks, ATTENTION_BLOCKS);
}

template <class T>
static inline attention_masks attention_masks_of(const weir_attention_geometry &of)
{
    const bool same = weir_dtype_size(of.mask_type) == sizeof(T);
    return of.mask < 0 ? NO_MASK
           : of.mask_type == WEIR_BOOL ? MASK_OF_BOOL : same ? MASK_OF_T : MASK_OF_FLOAT;
}

template <class T> static inline attention_args<T> attention_args_of(const weir_kargs *k)
{
    const weir_attention_geometry *const of = (const weir_attention_geometry *)k->state;
    attention_args<T>                    g = {.of = *of};
    g.scale = (real<T>)of->scale;
    g.q = (const T *)k->src[0];
    g.k = (const T *)k->src[1];
    g.v = (const T *)k->src[2];
    g.masks = attention_masks_of<T>(*of);
    g.mask = of->mask < 0 ? NULL : k->src[of->mask];
    if (of->lengths >= 0) {
        g.lengths = k->src[of->lengths];
        g.wide_lengths = k->call->in[of->lengths].desc.dtype == WEIR_I64;
        g.length_step = k->call->in[of->lengths].stride[0];
    }
    if (of->seed >= 0) {
        g.key = (const float *)k->src[of->seed];
        g.key_step = k->call->in[of->seed].stride[0];
    }
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

/* attention_mask_grad.cu: computes the gradient of the mask; delta is in the workspace. */
weir_status weir_attention_mask_grad(const weir_kargs *k);

/* attention_half.cu, attention_half_grad.cu: the ops where weir_attention_cores is true. */
weir_status weir_attention_half(const weir_kargs *k);
weir_status weir_attention_half_grad(const weir_kargs *k);

#endif
