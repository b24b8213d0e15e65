/* norm.cu - the reductions of batch normalisation: statistics of a batch, sums for the gradient,
 * and the running statistics.
 *
 * x, (n,c) or channels-last (n,c,h,w), is a matrix of rows of c adjacent channels. A thread reads 8
 * rows into registers, computes their mean and the deviations from it, and corrects both for the
 * rounding of that mean, so no difference of large sums is taken; memory is read once. x and dy may
 * be halves beside statistics in f32 (weir_device_ops.widens): they are widened as they are loaded,
 * by the threads that would read widened copies, so the bits are the same. Pieces are
 * combined in f64 about the mean of the first piece: as that is a mean of some of the numbers, the
 * error is at most the number of pieces in units of f64. Threads are combined as by Chan, Golub and
 * LeVeque (1979), chunks about the mean of the first chunk. */
#include "device/cuda/kernels/convert.h"
#include "device/cuda/kernels/norm.h"
#include "device/cuda/kernels/reduce_block.cuh"

static constexpr int ROWS = WEIR_CUDA_NORM_ROWS;

typedef struct bn {
    weir_cuda_norm split;
    double         eps;
} bn;

/* ---- statistics ---- */

/* Mean and sum of squared deviations of n numbers. */
struct moments {
    double n, mean, m2;
};

struct join {
    static __device__ moments meet(const moments &a, const moments &b)
    {
        const double n = a.n + b.n, d = b.mean - a.mean, part = n > 0 ? b.n / n : 0;
        return {n, a.mean + d * part, a.m2 + b.m2 + d * d * part * a.n};
    }
};

/* Sums about a shift: the first mean that was added. */
struct shifted {
    double n, shift, sum, square;
};

static __device__ inline void shifted_add(shifted *s, double n, double mean, double m2)
{
    s->shift = s->n == 0 ? mean : s->shift;
    const double d = mean - s->shift;
    s->n += n;
    s->sum += n * d;
    s->square += m2 + n * d * d;
}

static __device__ inline moments moments_of(const shifted &s)
{
    const double off = s.n > 0 ? s.sum / s.n : 0;
    return {s.n, s.shift + off, s.square - s.sum * off};
}

/* Adds x[0..have) of a channel. */
template <class T>
static __device__ inline void add_rows(shifted *to, const T (&x)[ROWS], int have)
{
    T mean = 0, s = 0, q = 0;
    if (have == ROWS) {
        mean = ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
    } else {
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            mean += i < have ? x[i] : 0;
    }
    const double share = 1.0 / have;
    mean *= (T)share;
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        const T d = i < have ? x[i] - mean : 0;
        s += d;
        q += d * d;
    }
    const double off = (double)s * share;
    shifted_add(to, have, (double)mean + off, (double)q - (double)s * off);
}

/* Loads the rows from `row` on, by steps, of V channels as T; to[v][i] is row i of channel v.
 * Returns the number of rows. wide: the address of V elements is a multiple of their size. */
template <int V, class X, class T>
static __device__ inline int load_rows(const X *x, int64_t row, int64_t step, int64_t end,
                                       int64_t channels, bool wide, T (&to)[V][ROWS])
{
    int have = 0;
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        X run[V];
        if (row + i * step >= end)
            continue;
        weir_load_run<V>(x + (row + i * step) * channels, wide, run);
#pragma unroll
        for (int v = 0; v < V; v++)
            to[v][i] = weir_value(run[v]);
        have = i + 1;
    }
    return have;
}

/* part: [chunks][mean, m2][channels]. blockIdx.x: block of channels; blockIdx.y: chunk. T: the type
 * of the statistics; X: that of x. */
template <class T, class X, int V>
static __global__ void stats(weir_cuda_norm p, const X *x, double *part, bool wide)
{
    const int64_t channel = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * V;
    const int64_t first = blockIdx.y * p.chunk;
    const int64_t end = first + p.chunk < p.rows ? first + p.chunk : p.rows;
    shifted       s[V] = {};
    if (channel < p.channels)
        for (int64_t r = first + threadIdx.y; r < end; r += (int64_t)ROWS * blockDim.y) {
            T         held[V][ROWS];
            const int have =
                load_rows<V>(x + channel, r, blockDim.y, end, p.channels, wide, held);
#pragma unroll
            for (int v = 0; v < V; v++)
                add_rows(&s[v], held[v], have);
        }
    moments m[V];
    for (int v = 0; v < V; v++)
        m[v] = moments_of(s[v]);
    weir_rows_meet<join, V>(m);
    if (threadIdx.y == 0 && channel < p.channels)
        for (int v = 0; v < V; v++) {
            double *const to = part + blockIdx.y * 2 * p.channels + channel + v;
            to[0] = m[v].mean;
            to[p.channels] = m[v].m2;
        }
}

template <class T>
static __global__ void stats_end(weir_cuda_norm p, const double *part, double eps, T *mean, T *var,
                                 T *rstd)
{
    const int64_t channel = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    shifted       s = {};
    if (channel < p.channels && p.rows > 0)
        for (int64_t c = threadIdx.y; c < p.chunks; c += blockDim.y) {
            const int64_t left = p.rows - c * p.chunk;
            shifted_add(&s, (double)(left < p.chunk ? left : p.chunk),
                        part[c * 2 * p.channels + channel],
                        part[(c * 2 + 1) * p.channels + channel]);
        }
    moments m[1] = {moments_of(s)};
    weir_rows_meet<join, 1>(m);
    if (threadIdx.y > 0 || channel >= p.channels)
        return;
    const double v = p.rows > 0 ? m[0].m2 / (double)p.rows : (double)NAN;
    mean[channel] = p.rows > 0 ? (T)m[0].mean : (T)NAN;
    var[channel] = (T)v;
    rstd[channel] = (T)(1 / sqrt(v + eps));
}

/* ---- sums for the gradient ---- */

struct sums {
    double ds, db;
};

struct sums_add {
    static __device__ sums meet(const sums &a, const sums &b)
    {
        return {a.ds + b.ds, a.db + b.db};
    }
};

/* part: [chunks][ds, db][channels]: sums of dy (x - mean) and of dy. */
template <class T, class D, class X, int V>
static __global__ void grads(weir_cuda_norm p, const D *dy, const X *x, const T *mean, double *part,
                             bool wide)
{
    const int64_t channel = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * V;
    const int64_t first = blockIdx.y * p.chunk;
    const int64_t end = first + p.chunk < p.rows ? first + p.chunk : p.rows;
    sums          s[V] = {};
    if (channel < p.channels) {
        T m[V];
        for (int v = 0; v < V; v++)
            m[v] = mean[channel + v];
        for (int64_t r = first + threadIdx.y; r < end; r += (int64_t)ROWS * blockDim.y) {
            T         g[V][ROWS], a[V][ROWS];
            const int have = load_rows<V>(dy + channel, r, blockDim.y, end, p.channels, wide, g);
            load_rows<V>(x + channel, r, blockDim.y, end, p.channels, wide, a);
#pragma unroll
            for (int v = 0; v < V; v++) {
                T ds = 0, db = 0;
#pragma unroll
                for (int i = 0; i < ROWS; i++) {
                    ds += i < have ? g[v][i] * (a[v][i] - m[v]) : 0;
                    db += i < have ? g[v][i] : 0;
                }
                s[v].ds += (double)ds;
                s[v].db += (double)db;
            }
        }
    }
    weir_rows_meet<sums_add, V>(s);
    if (threadIdx.y == 0 && channel < p.channels)
        for (int v = 0; v < V; v++) {
            double *const to = part + blockIdx.y * 2 * p.channels + channel + v;
            to[0] = s[v].ds;
            to[p.channels] = s[v].db;
        }
}

template <class T>
static __global__ void grads_end(weir_cuda_norm p, const double *part, const T *rstd, T *dscale,
                                 T *dbias)
{
    const int64_t channel = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    sums          s[1] = {};
    if (channel < p.channels)
        for (int64_t c = threadIdx.y; c < p.chunks; c += blockDim.y) {
            s[0].ds += part[c * 2 * p.channels + channel];
            s[0].db += part[(c * 2 + 1) * p.channels + channel];
        }
    weir_rows_meet<sums_add, 1>(s);
    if (threadIdx.y > 0 || channel >= p.channels)
        return;
    dscale[channel] = (T)(s[0].ds * (double)rstd[channel]);
    dbias[channel] = (T)s[0].db;
}

/* ---- combining the chunks ---- */

/* Few channels per block, so that many blocks read the chunks. */
static dim3 end_block(const weir_cuda_norm *p)
{
    const int tx = weir_cuda_power(p->channels, 8);
    return dim3((unsigned)tx, (unsigned)weir_cuda_power(p->chunks, WEIR_CUDA_THREADS / tx));
}

static dim3 grid_of(const weir_cuda_norm *p)
{
    return dim3((unsigned)ceil_div(p->channels, (int64_t)p->tx * p->vec), (unsigned)p->chunks);
}

template <class T, class X> static weir_status stats_run(const weir_kargs *k)
{
    const bn *const             s = (const bn *)k->state;
    const weir_cuda_norm *const p = &s->split;
    const X *const              x = (const X *)k->src[0];
    double *const               part = (double *)k->work;
    const dim3                  block((unsigned)p->tx, (unsigned)p->ty), end = end_block(p);
    enum { V = weir_width<T>() };

    WEIR_TRY(p->vec == 1 ? weir_launch(k, stats<T, X, 1>, grid_of(p), block, *p, x, part, true)
                         : weir_launch(k, stats<T, X, V>, grid_of(p), block, *p, x, part,
                                       weir_is_wide(x, V)));
    return weir_launch(k, stats_end<T>, dim3((unsigned)ceil_div(p->channels, end.x)), end, *p, part,
                       s->eps, (T *)k->dst[0], (T *)k->dst[1], (T *)k->dst[2]);
}

template <class T, class D, class X> static weir_status grads_run(const weir_kargs *k)
{
    const bn *const             s = (const bn *)k->state;
    const weir_cuda_norm *const p = &s->split;
    const D *const              dy = (const D *)k->src[0];
    const X *const              x = (const X *)k->src[1];
    const T *const              mean = (const T *)k->src[2];
    double *const               part = (double *)k->work;
    const dim3                  block((unsigned)p->tx, (unsigned)p->ty), end = end_block(p);
    enum { V = weir_width<T>() };

    WEIR_TRY(p->vec == 1 ? weir_launch(k, grads<T, D, X, 1>, grid_of(p), block, *p, dy, x, mean,
                                       part, true)
                         : weir_launch(k, grads<T, D, X, V>, grid_of(p), block, *p, dy, x, mean,
                                       part, weir_is_wide(x, V) && weir_is_wide(dy, V)));
    return weir_launch(k, grads_end<T>, dim3((unsigned)ceil_div(p->channels, end.x)), end, *p, part,
                       (const T *)k->src[3], (T *)k->dst[0], (T *)k->dst[1]);
}

/* ---- selecting ---- */

typedef weir_status (*run_fn)(const weir_kargs *);

static run_fn stats_of(weir_dtype x)
{
    return x == WEIR_F64    ? stats_run<double, double>
           : x == WEIR_BF16 ? stats_run<float, weir_bf16>
           : x == WEIR_F16  ? stats_run<float, weir_f16>
                            : stats_run<float, float>;
}

template <class D> static run_fn grads_by_x(weir_dtype x)
{
    return x == WEIR_BF16  ? grads_run<float, D, weir_bf16>
           : x == WEIR_F16 ? grads_run<float, D, weir_f16>
                           : grads_run<float, D, float>;
}

static run_fn grads_of(weir_dtype dy, weir_dtype x)
{
    return dy == WEIR_F64    ? grads_run<double, double, double>
           : dy == WEIR_BF16 ? grads_by_x<weir_bf16>(x)
           : dy == WEIR_F16  ? grads_by_x<weir_f16>(x)
                             : grads_by_x<float>(x);
}

/* Statistics and sums are in f32 or f64; the elements of x have the call's type or are halves. */
static weir_status choose(const weir_call *c, const weir_desc *x, double eps, run_fn run,
                          weir_kernel *out)
{
    const weir_dtype type = c->out[0].desc.dtype;
    const int64_t    rows = x->dim[0] * (x->ndim == 4 ? x->dim[2] * x->dim[3] : 1);

    if (!weir_is_float(type))
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "no CUDA kernel for %s", weir_dtype_name(type));
    bn *const s = (bn *)weir_mem_alloc(sizeof *s);
    if (!s)
        return WEIR_ERR_NOMEM;
    *s = (bn){weir_cuda_norm_plan(rows, x->dim[1],
                                  type == WEIR_F32 ? weir_width<float>() : weir_width<double>()),
              eps};
    *out = (weir_kernel){.run = run,
                         .work = (size_t)(s->split.chunks * 2 * x->dim[1]) * sizeof(double),
                         .state = s,
                         .destroy = weir_mem_free,
                         .impl = "cuda"};
    return WEIR_OK;
}

weir_status weir_cuda_bn_stats(weir_device *, const weir_call *c, weir_kernel *out)
{
    const weir_desc *const x = &c->in[0].desc;

    return choose(c, x, ((const weir_bn_attr *)c->attr)->eps, stats_of(x->dtype), out);
}

weir_status weir_cuda_bn_grad_reduce(weir_device *, const weir_call *c, weir_kernel *out)
{
    const weir_desc *const x = &c->in[1].desc;

    return choose(c, x, 0, grads_of(c->in[0].desc.dtype, x->dtype), out);
}

/* ---- running statistics ---- */

template <class T>
static __global__ void update(T *running_mean, T *running_var, const T *mean, const T *var,
                              int64_t rows, int64_t channels, T w, T keep, T unbias)
{
    WEIR_EACH(c, channels)
        for (int64_t i = c; i < rows * channels; i += channels) {
            running_mean[c] = keep * running_mean[c] + w * mean[i];
            running_var[c] = keep * running_var[c] + w * (var[i] * unbias);
        }
}

/* With one element per channel there is no unbiased variance, so the biased one is used. */
template <class T> static weir_status update_run(const weir_kargs *k)
{
    const weir_bn_update_attr *const a = (const weir_bn_update_attr *)k->call->attr;
    const int64_t                    channels = k->call->in[0].desc.dim[0];
    const weir_desc *const           mean = &k->call->in[2].desc;
    const double                     n = a->count;

    return weir_launch(k, update<T>, weir_cuda_blocks(channels), WEIR_CUDA_THREADS, (T *)k->src[0],
                       (T *)k->src[1], (const T *)k->src[2], (const T *)k->src[3],
                       mean->ndim == 2 ? mean->dim[0] : 1, channels,
                       (T)a->momentum, (T)(1 - a->momentum), (T)(n > 1 ? n / (n - 1) : 1));
}

weir_status weir_cuda_bn_update(weir_device *, const weir_call *c, weir_kernel *out)
{
    const weir_dtype type = c->in[0].desc.dtype;

    if (!weir_is_float(type))
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "no CUDA kernel for %s", weir_dtype_name(type));
    *out = (weir_kernel){.run = type == WEIR_F32 ? update_run<float> : update_run<double>,
                         .impl = "cuda"};
    return WEIR_OK;
}
