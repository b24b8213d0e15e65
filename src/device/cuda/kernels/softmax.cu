/* softmax.cu - softmax and its log along one axis, and the gradient of each.
 *
 * Operands are dense with equal layouts: slices of n rows by `inner` columns (inner is 1 for the
 * channels of channels-last images). A line (inner 1) of up to 8192 elements is held in registers
 * by a group of lanes or a block, so memory is read once; longer ones are read three times by a
 * block. Otherwise threads lie along the columns and share the rows of each. The largest element is
 * subtracted first, so no exponential overflows; NaN is ignored there and propagates through the
 * sum. */
#include "device/cuda/kernels/reduce_block.cuh"

typedef struct softmax {
    int64_t n, inner, slices;
    int     tx, ty, items;      /* threads per line; lines per block; registers, 0: a loop */
    bool    log;
} softmax;

template <class T> struct operands {
    const T *x, *y;             /* of a gradient: dy, y; otherwise y is not read */
    T       *to;
    bool     wide;
};

/* ---- the result of an element ---- */

/* scale: 1 / (sum of exponentials); for the log of the softmax: the log of that sum. */
template <class R> static __device__ inline R shrunk(R x, R top, R scale, bool log)
{
    return log ? x - top - scale : weir_exp(x - top) * scale;
}

template <class R> static __device__ inline R scale_of(R mass, bool log)
{
    return log ? weir_log(mass) : 1 / mass;
}

template <class R> static __device__ inline R grad_term(R dy, R y, bool log)
{
    return log ? dy : dy * y;
}

/* softmax: dx = y (dy - sum(dy y)); its log: dx = dy - exp(y) sum(dy). */
template <class R> static __device__ inline R grad_of(R dy, R y, R sum, bool log)
{
    return log ? dy - weir_exp(y) * sum : y * (dy - sum);
}

/* ---- lines in registers: item i of a thread is element i % V of its group i / V ---- */

template <int V> static __device__ inline int64_t item_at(int i)
{
    return ((int64_t)(i / V) * blockDim.x + threadIdx.x) * V + i % V;
}

/* Elements from n on stay unchanged. */
template <int ITEMS, int V, class T, class R>
static __device__ inline void load_items(const T *from, int64_t n, bool wide, R (&to)[ITEMS])
{
#pragma unroll
    for (int i = 0; i < ITEMS; i += V) {
        T run[V];
        if (item_at<V>(i) >= n)
            continue;
        weir_load_run<V>(from + item_at<V>(i), wide, run);
#pragma unroll
        for (int v = 0; v < V; v++)
            to[i + v] = weir_load(&run[v]);
    }
}

template <int ITEMS, int V, class T, class R>
static __device__ inline void store_items(T *to, int64_t n, bool wide, const R (&from)[ITEMS])
{
#pragma unroll
    for (int i = 0; i < ITEMS; i += V) {
        T run[V];
        if (item_at<V>(i) >= n)
            continue;
#pragma unroll
        for (int v = 0; v < V; v++)
            weir_cuda_offload(&run[v], from[i + v]);
        weir_store_run<V>(to + item_at<V>(i), wide, run);
    }
}

/* n: length of the line, 0 for a thread without a line. All threads of the block must call. */
template <int ITEMS, int V, class R>
static __device__ inline void shrink_items(R (&x)[ITEMS], int64_t n, bool log)
{
    R most = -(R)INFINITY, mass = 0;
#pragma unroll
    for (int i = 0; i < ITEMS; i++)
        if (item_at<V>(i) < n)
            most = weir_top::meet(most, x[i]);
    most = weir_line_meet_all<weir_top>(most, (int)blockDim.x);
    R e[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; i++)
        if (item_at<V>(i) < n) {
            e[i] = weir_exp(x[i] - most);
            mass += e[i];
        }
    const R scale = scale_of(weir_line_meet_all<weir_add>(mass, (int)blockDim.x), log);
#pragma unroll
    for (int i = 0; i < ITEMS; i++)
        if (item_at<V>(i) < n)
            x[i] = log ? x[i] - most - scale : e[i] * scale;
}

template <int ITEMS, int V, class R>
static __device__ inline void grad_items(R (&dy)[ITEMS], const R (&y)[ITEMS], int64_t n, bool log)
{
    R sum = 0;
#pragma unroll
    for (int i = 0; i < ITEMS; i++)
        if (item_at<V>(i) < n)
            sum += grad_term(dy[i], y[i], log);
    sum = weir_line_meet_all<weir_add>(sum, (int)blockDim.x);
#pragma unroll
    for (int i = 0; i < ITEMS; i++)
        if (item_at<V>(i) < n)
            dy[i] = grad_of(dy[i], y[i], sum, log);
}

template <class T, int ITEMS, int V, bool GRAD>
static __global__ void short_lines(softmax s, operands<T> o)
{
    typedef typename weir_real<T>::type R;
    for (int64_t first = (int64_t)blockIdx.x * blockDim.y; first < s.slices;
         first += (int64_t)gridDim.x * blockDim.y) {
        const int64_t line = first + threadIdx.y, n = line < s.slices ? s.n : 0;
        R             x[ITEMS];
        load_items<ITEMS, V>(o.x + line * s.n, n, o.wide, x);
        if constexpr (GRAD) {
            R y[ITEMS];
            load_items<ITEMS, V>(o.y + line * s.n, n, o.wide, y);
            grad_items<ITEMS, V>(x, y, n, s.log);
        } else {
            shrink_items<ITEMS, V>(x, n, s.log);
        }
        store_items<ITEMS, V>(o.to + line * s.n, n, o.wide, x);
    }
}

/* ---- lines that do not fit in registers; the result may share an input's memory ---- */

template <class T, bool GRAD> static __global__ void long_lines(softmax s, operands<T> o)
{
    typedef typename weir_real<T>::type R;
    const int tx = (int)blockDim.x;
    for (int64_t line = blockIdx.x; line < s.slices; line += gridDim.x) {
        const T *const x = o.x + line * s.n, *const y = o.y + line * s.n;
        T *const       to = o.to + line * s.n;
        R              most = -(R)INFINITY, sum = 0;
        if constexpr (GRAD) {
#pragma unroll 4
            for (int64_t i = threadIdx.x; i < s.n; i += tx)
                sum += grad_term(weir_load(x + i), weir_load(y + i), s.log);
            sum = weir_line_meet_all<weir_add>(sum, tx);
            for (int64_t i = threadIdx.x; i < s.n; i += tx)
                weir_cuda_offload(to + i, grad_of(weir_load(x + i), weir_load(y + i), sum, s.log));
        } else {
#pragma unroll 4
            for (int64_t i = threadIdx.x; i < s.n; i += tx)
                most = weir_top::meet(most, weir_load(x + i));
            most = weir_line_meet_all<weir_top>(most, tx);
#pragma unroll 4
            for (int64_t i = threadIdx.x; i < s.n; i += tx)
                sum += weir_exp(weir_load(x + i) - most);
            sum = scale_of(weir_line_meet_all<weir_add>(sum, tx), s.log);
            for (int64_t i = threadIdx.x; i < s.n; i += tx)
                weir_cuda_offload(to + i, shrunk(weir_load(x + i), most, sum, s.log));
        }
    }
}

/* ---- columns: tx adjacent ones; ty threads share the rows of each ---- */

/* Broadcasts the value of row 0 to all threads of the column. */
template <class F, class R> static __device__ inline R column_meet_all(R value)
{
    __shared__ R all[WEIR_CUDA_THREADS];
    R            a[1] = {value};
    weir_rows_meet<F, 1>(a);
    if (threadIdx.y == 0)
        all[threadIdx.x] = a[0];
    __syncthreads();
    return all[threadIdx.x];
}

template <class T, bool GRAD> static __global__ void columns(softmax s, operands<T> o)
{
    typedef typename weir_real<T>::type R;
    const int64_t  i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t  slice = weir_quotient(i, s.inner), step = (int64_t)blockDim.y * s.inner;
    const int64_t  at = slice * s.n * s.inner + (i - slice * s.inner) + threadIdx.y * s.inner;
    const int64_t  mine = i < s.slices * s.inner && threadIdx.y < s.n
                              ? (s.n - threadIdx.y + blockDim.y - 1) / blockDim.y : 0;
    const T *const x = o.x + at, *const y = o.y + at;
    T *const       to = o.to + at;
    R              most = -(R)INFINITY, sum = 0;

    if constexpr (GRAD) {
#pragma unroll 4
        for (int64_t r = 0; r < mine; r++)
            sum += grad_term(weir_load(x + r * step), weir_load(y + r * step), s.log);
        sum = column_meet_all<weir_add>(sum);
        for (int64_t r = 0; r < mine; r++)
            weir_cuda_offload(to + r * step, grad_of(weir_load(x + r * step),
                                                     weir_load(y + r * step), sum, s.log));
    } else {
#pragma unroll 4
        for (int64_t r = 0; r < mine; r++)
            most = weir_top::meet(most, weir_load(x + r * step));
        most = column_meet_all<weir_top>(most);
#pragma unroll 4
        for (int64_t r = 0; r < mine; r++)
            sum += weir_exp(weir_load(x + r * step) - most);
        sum = scale_of(column_meet_all<weir_add>(sum), s.log);
        for (int64_t r = 0; r < mine; r++)
            weir_cuda_offload(to + r * step, shrunk(weir_load(x + r * step), most, sum, s.log));
    }
}

/* ---- selecting ---- */

template <class T, int V, bool GRAD>
static weir_status launch_lines(const weir_kargs *k, const softmax *s, const operands<T> &o)
{
    const dim3 grid((unsigned)min64(ceil_div(s->slices, s->ty), INT32_MAX));
    const dim3 block((unsigned)s->tx, (unsigned)s->ty);

    return s->items == 8    ? weir_launch(k, short_lines<T, 8, V, GRAD>, grid, block, *s, o)
           : s->items == 32 ? weir_launch(k, short_lines<T, 32, V, GRAD>, grid, block, *s, o)
                            : weir_launch(k, long_lines<T, GRAD>, grid, block, *s, o);
}

template <class T, bool GRAD> static weir_status run(const weir_kargs *k)
{
    const softmax *const s = (const softmax *)k->state;
    const T *const       x = (const T *)k->src[0], *const y = (const T *)k->src[GRAD ? 1 : 0];
    T *const             to = (T *)k->dst[0];
    enum { V = weir_width<T>() };
    const operands<T>    o = {x, y, to, weir_is_wide(x, V) && weir_is_wide(y, V) &&
                                            weir_is_wide(to, V)};

    if (s->slices == 0)
        return WEIR_OK;
    if (s->inner > 1)
        return weir_launch(k, columns<T, GRAD>,
                           dim3((unsigned)ceil_div(s->slices * s->inner, s->tx)),
                           dim3((unsigned)s->tx, (unsigned)s->ty), *s, o);
    return s->n % V == 0 ? launch_lines<T, V, GRAD>(k, s, o) : launch_lines<T, 1, GRAD>(k, s, o);
}

static void plan_threads(softmax *s)
{
    if (s->inner > 1) {
        const int64_t lines = s->slices * s->inner;
        s->tx = WEIR_CUDA_THREADS;
        s->ty = 1;
        while (s->n > 8 * s->ty && (2 * lines <= s->tx || (s->tx > 8 && lines < 1024 * s->tx))) {
            s->tx /= 2;
            s->ty *= 2;
        }
        return;
    }
    s->items = s->n <= 256 ? 8 : s->n <= 1024 ? 32 : s->n <= 2048 ? 8 : s->n <= 8192 ? 32 : 0;
    s->tx = s->n <= 1024 ? weir_cuda_power(ceil_div(s->n, s->items), 32) : WEIR_CUDA_THREADS;
    s->ty = WEIR_CUDA_THREADS / s->tx;
}

template <bool GRAD> static weir_status choose(const weir_call *c, bool log, weir_kernel *out)
{
    const weir_axis_attr *const attr = (const weir_axis_attr *)c->attr;
    const weir_desc *const      x = &c->in[0].desc;

    if (!weir_is_any_float(x->dtype))
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "no CUDA kernel for %s",
                              weir_dtype_name(x->dtype));
    softmax *const s = (softmax *)weir_mem_alloc(sizeof *s);
    if (!s)
        return WEIR_ERR_NOMEM;
    weir_layout dense = {.desc = *x};
    weir_shape_dense(&dense);
    const int64_t count = weir_shape_count(x), n = x->dim[attr->axis];
    const int64_t inner = n == 1 ? 1 : max64(1, dense.stride[attr->axis]);
    *s = (softmax){.n = n, .inner = inner, .slices = count > 0 ? count / (n * inner) : 0,
                   .log = log};
    plan_threads(s);
    *out = (weir_kernel){.run = x->dtype == WEIR_F32   ? run<float, GRAD>
                                : x->dtype == WEIR_F64 ? run<double, GRAD>
                                : x->dtype == WEIR_F16 ? run<weir_f16, GRAD>
                                                       : run<weir_bf16, GRAD>,
                         .state = s,
                         .destroy = weir_mem_free,
                         .impl = "cuda"};
    return WEIR_OK;
}

weir_status weir_cuda_softmax(weir_device *, const weir_call *c, weir_kernel *out)
{
    return choose<false>(c, false, out);
}

weir_status weir_cuda_softmax_grad(weir_device *, const weir_call *c, weir_kernel *out)
{
    return choose<true>(c, false, out);
}

weir_status weir_cuda_log_softmax(weir_device *, const weir_call *c, weir_kernel *out)
{
    return choose<false>(c, true, out);
}

weir_status weir_cuda_log_softmax_grad(weir_device *, const weir_call *c, weir_kernel *out)
{
    return choose<true>(c, true, out);
}
