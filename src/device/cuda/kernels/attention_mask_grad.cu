/* attention_mask_grad.cu - the gradient of attention's mask.
 *
 * A thread owns an element of the mask and sums the gradients of all scores that it was added to,
 * in one order. Scores are computed again, each by one thread: masks are trained rarely. */
#include "device/cuda/kernels/attention.cuh"
#include "device/cuda/kernels/kernels.h"

template <class T>
static __device__ inline real<T> mask_dot(const T *a, const T *b, int64_t n)
{
    real<T> sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += weir_load(a + i) * weir_load(b + i);
    return sum;
}

/* The gradient of the score of row i of head h of batch n and key j, before scaling. */
template <class T>
static __device__ inline real<T> mask_score(const attention_args<T> &g, int64_t n, int64_t h,
                                            int64_t i, int64_t j)
{
    const int64_t from = h / (g.of.h / g.of.kv), head = n * g.of.h + h, at = head * g.of.t + i;
    if (!attention_sees(g.of, attention_sight_of(g, n), i, j) ||
        g.lse[at] == -(real<T>)INFINITY)
        return 0;
    const real<T> s = mask_dot(attention_row(g.q, g.of.q, n, h, g.of.d, i),
                               attention_row(g.k, g.of.k, n, from, g.of.d, j), g.of.d);
    real<T>       dp = mask_dot(attention_row(g.dy, g.of.dy, n, h, g.of.e, i),
                                attention_row(g.v, g.of.v, n, from, g.of.e, j), g.of.e);
    if (g.key) {
        real<T> kept[4];
        attention_kept(g, head, i, j / 4 * 4, kept);
        dp *= kept[j % 4];
    }
    return weir_exp(attention_scaled<true>(g, n, h, i, j, s) - g.lse[at]) * (dp - g.delta[at]);
}

/* Axes that an element of the mask stands for: batch, head, row of q, key. */
struct mask_part {
    int64_t first[4], end[4];
};

/* Sums over rows of q and keys of head h of batch n. */
template <class T>
static __device__ inline real<T> mask_head(const attention_args<T> &g, const mask_part &part,
                                           int64_t n, int64_t h, real<T> sum)
{
    for (int64_t i = part.first[2]; i < part.end[2]; i++)
        for (int64_t j = part.first[3]; j < part.end[3]; j++)
            sum += mask_score(g, n, h, i, j);
    return sum;
}

/* M: the mask's type. */
template <class T, class M>
static __global__ void mask_gradient(const attention_args<T> g, M *to, int64_t count)
{
    const int64_t *const dim = g.of.mask_dim, *const step = g.of.dmask_step;
    const int64_t        all[4] = {g.of.b, g.of.h, g.of.t, g.of.s};
    for (int64_t x = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; x < count;
         x += (int64_t)gridDim.x * blockDim.x) {
        mask_part part;
        int64_t   at = 0, rest = x;
        for (int axis = 3; axis >= 0; axis--) {
            const int64_t i = rest % dim[axis];
            rest /= dim[axis];
            at += i * step[axis];
            part.first[axis] = i;
            part.end[axis] = dim[axis] == 1 ? all[axis] : i + 1;
        }
        real<T> sum = 0;
        for (int64_t n = part.first[0]; n < part.end[0]; n++)
            for (int64_t h = part.first[1]; h < part.end[1]; h++)
                sum = mask_head(g, part, n, h, sum);
        weir_cuda_offload(&to[at], (real<M>)sum);
    }
}

template <class T, class M> static weir_status mask_run(const weir_kargs *k)
{
    attention_args<T>    g = attention_args_of<T>(k);
    const int64_t *const dim = g.of.mask_dim, count = dim[0] * dim[1] * dim[2] * dim[3];
    g.lse = (const real<T> *)k->src[4];
    g.dy = (const T *)k->src[5];
    g.delta = (const real<T> *)k->work;
    return count == 0 ? WEIR_OK
                      : weir_launch(k, mask_gradient<T, M>, weir_cuda_blocks(count),
                                    WEIR_CUDA_THREADS, g, (M *)k->dst[g.of.dmask], count);
}

weir_status weir_attention_mask_grad(const weir_kargs *k)
{
    const weir_attention_geometry *const of = (const weir_attention_geometry *)k->state;
    const bool                           single = of->mask_type == WEIR_F32;
    switch (k->call->in[0].desc.dtype) {
    case WEIR_F64:
        return mask_run<double, double>(k);
    case WEIR_F16:
        return single ? mask_run<weir_f16, float>(k) : mask_run<weir_f16, weir_f16>(k);
    case WEIR_BF16:
        return single ? mask_run<weir_bf16, float>(k) : mask_run<weir_bf16, weir_bf16>(k);
    default:
        return mask_run<float, float>(k);
    }
}
