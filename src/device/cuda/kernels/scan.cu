/* scan.cu - running sums and products along one axis, from its beginning or its end; integers wrap.
 *
 * x is dense: slices of n rows by `inner` columns; a line is one column of a slice. Long contiguous
 * lines (inner 1) are scanned by a block: in tiles of 1024 elements, within which warps scan and
 * pass on their sums. Other lines are scanned by one thread each, adjacent lines by adjacent
 * threads. If there are few lines they are divided into chunks: first the sums of chunks, then the
 * sums before each chunk, then the running sums. Floats are summed in f64 and rounded when stored.
 * Products and their gradient use one thread per line and no chunks. */
#include "device/cuda/kernels/reducers.cuh"

static constexpr int RUN = 4, TILE = RUN * WEIR_CUDA_THREADS;   /* elements per thread; per block */
static constexpr int MOST_CHUNKS = 256, SHORT = 32;             /* SHORT: too short for a block */

typedef struct scan {
    int64_t n, inner, lines;
    int64_t chunk, chunks;
    bool    blocks;             /* one block per line and chunk */
    bool    reverse;
} scan;

/* Offset of element r of a line, counted in the order of summation. */
static __device__ inline int64_t place_of(const scan &s, int64_t line, int64_t r)
{
    const int64_t slice = weir_quotient(line, s.inner), row = s.reverse ? s.n - 1 - r : r;
    return (slice * s.n + row) * s.inner + (line - slice * s.inner);
}

template <class T> static __device__ inline typename weir_accumulators<T>::wide summand(const T *x)
{
    return (typename weir_accumulators<T>::wide)weir_load(x);
}

template <class T, class A> static __device__ inline void store_sum(T *to, A sum)
{
    weir_cuda_offload(to, (decltype(weir_load(to)))sum);
}

/* ---- one thread per line ---- */

/* SUMS: writes only the sum of each chunk, to part[chunk][line]; otherwise part, if not NULL, has
 * the sums before each chunk. x may be y. */
template <class T, bool SUMS>
static __global__ void thread_lines(scan s, const T *x, T *y,
                                    typename weir_accumulators<T>::wide *partial)
{
    typedef typename weir_accumulators<T>::wide A;
    const int64_t line = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t first = blockIdx.y * s.chunk;
    const int64_t last = first + s.chunk < s.n ? first + s.chunk : s.n;
    if (line >= s.lines)
        return;
    const int64_t at = place_of(s, line, 0), step = s.reverse ? -s.inner : s.inner;
    A             sum = !SUMS && partial ? partial[blockIdx.y * s.lines + line] : 0;
#pragma unroll 4
    for (int64_t r = first; r < last; r++) {
        sum += summand(x + at + r * step);
        if constexpr (!SUMS)
            store_sum(y + at + r * step, sum);
    }
    if constexpr (SUMS)
        partial[blockIdx.y * s.lines + line] = sum;
}

/* ---- one block per line; inner is 1 ---- */

/* Exclusive sum over the threads before this one; *total: over all. */
template <class A> static __device__ inline A sum_before(A v, A *total)
{
    __shared__ A warps[WEIR_CUDA_THREADS / 32];
    const int    lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    A            sum = v;
#pragma unroll
    for (int by = 1; by < 32; by *= 2) {
        const A other = __shfl_up_sync(0xffffffffu, sum, (unsigned)by);
        sum = lane >= by ? other + sum : sum;
    }
    if (lane == 31)
        warps[warp] = sum;
    __syncthreads();
    A before = 0, all = 0;
    for (int w = 0; w < WEIR_CUDA_THREADS / 32; w++) {
        before = w == warp ? all : before;
        all += warps[w];
    }
    __syncthreads();
    *total = all;
    const A below = __shfl_up_sync(0xffffffffu, sum, 1);
    return lane > 0 ? before + below : before;
}

template <class T, bool SUMS>
static __global__ void block_lines(scan s, const T *x, T *y,
                                   typename weir_accumulators<T>::wide *partial)
{
    typedef typename weir_accumulators<T>::wide A;
    const int64_t line = blockIdx.x, first = blockIdx.y * s.chunk;
    const int64_t last = first + s.chunk < s.n ? first + s.chunk : s.n;
    A             carry = !SUMS && partial ? partial[blockIdx.y * s.lines + line] : 0;
    for (int64_t tile = first; tile < last; tile += TILE) {
        A             sums[RUN], own = 0, total = 0;
        const int64_t mine = tile + (int64_t)threadIdx.x * RUN;
#pragma unroll
        for (int i = 0; i < RUN; i++) {
            own += mine + i < last ? summand(x + place_of(s, line, mine + i)) : 0;
            sums[i] = own;
        }
        const A before = carry + sum_before(own, &total);
        if constexpr (!SUMS)
#pragma unroll
            for (int i = 0; i < RUN; i++)
                if (mine + i < last)
                    store_sum(y + place_of(s, line, mine + i), before + sums[i]);
        carry += total;
    }
    if (SUMS && threadIdx.x == 0)
        partial[blockIdx.y * s.lines + line] = carry;
}

/* Turns sums of chunks into sums of the chunks before each. */
template <class A> static __global__ void chunk_sums(scan s, A *partial)
{
    WEIR_EACH(line, s.lines) {
        A sum = 0;
#pragma unroll 8
        for (int64_t c = 0; c < s.chunks; c++) {
            const A own = partial[c * s.lines + line];
            partial[c * s.lines + line] = sum;
            sum += own;
        }
    }
}

/* ---- products: one thread per line ---- */

template <class T> static __global__ void product_lines(scan s, const T *x, T *y)
{
    typedef typename weir_accumulators<T>::wide A;
    WEIR_EACH(line, s.lines) {
        const int64_t at = place_of(s, line, 0), step = s.reverse ? -s.inner : s.inner;
        A             product = 1;
        for (int64_t r = 0; r < s.n; r++) {
            product *= summand(x + at + r * step);
            store_sum(y + at + r * step, product);
        }
    }
}

/* As on the CPU (reduce_scan.c), from the last element to the first; dx may be dy, x or y. */
template <class T>
static __global__ void product_grad_lines(scan s, const T *dy, const T *x, const T *y, T *dx)
{
    WEIR_EACH(line, s.lines) {
        const int64_t first = place_of(s, line, 0), step = s.reverse ? -s.inner : s.inner;
        double        rest = 0;
        for (int64_t r = s.n - 1; r >= 0; r--) {
            const int64_t at = first + r * step;
            const double  sum = summand(dy + at) + rest;
            rest = summand(x + at) * sum;
            store_sum(dx + at, r == 0 ? sum : summand(y + at - step) * sum);
        }
    }
}

template <class T> static weir_status product_run(const weir_kargs *k)
{
    const scan *const s = (const scan *)k->state;
    if (s->lines == 0)
        return WEIR_OK;
    return weir_launch(k, product_lines<T>, weir_cuda_blocks(s->lines), WEIR_CUDA_THREADS, *s,
                       (const T *)k->src[0], (T *)k->dst[0]);
}

template <class T> static weir_status product_grad_run(const weir_kargs *k)
{
    const scan *const s = (const scan *)k->state;
    if (s->lines == 0)
        return WEIR_OK;
    return weir_launch(k, product_grad_lines<T>, weir_cuda_blocks(s->lines), WEIR_CUDA_THREADS, *s,
                       (const T *)k->src[0], (const T *)k->src[1], (const T *)k->src[2],
                       (T *)k->dst[0]);
}

/* ---- selecting ---- */

template <class T> static weir_status run(const weir_kargs *k)
{
    typedef typename weir_accumulators<T>::wide A;
    const scan *const s = (const scan *)k->state;
    const T *const    x = (const T *)k->src[0];
    T *const          y = (T *)k->dst[0];
    A *const          partial = s->chunks > 1 ? (A *)k->work : NULL;
    const int64_t     along = s->blocks ? s->lines : ceil_div(s->lines, WEIR_CUDA_THREADS);
    const dim3        grid((unsigned)along, (unsigned)s->chunks);

    if (s->n == 0)
        return WEIR_OK;
    if (partial) {
        WEIR_TRY(weir_launch(k, s->blocks ? block_lines<T, true> : thread_lines<T, true>, grid,
                             WEIR_CUDA_THREADS, *s, x, y, partial));
        WEIR_TRY(weir_launch(k, chunk_sums<A>, weir_cuda_blocks(s->lines), WEIR_CUDA_THREADS, *s,
                             partial));
    }
    return weir_launch(k, s->blocks ? block_lines<T, false> : thread_lines<T, false>, grid,
                       WEIR_CUDA_THREADS, *s, x, y, partial);
}

/* A pure function of sizes. */
static void plan_chunks(scan *s)
{
    s->blocks = s->inner == 1 && s->n > SHORT;
    const int64_t step = s->blocks ? TILE : SHORT;
    const int64_t blocks =
        max64(1, s->blocks ? s->lines : ceil_div(s->lines, WEIR_CUDA_THREADS));
    const int64_t most = min64(min64(WEIR_CUDA_REDUCE_BLOCKS / blocks, s->n / (2 * step)),
                               MOST_CHUNKS);
    s->chunk = max64(1, ceil_div(ceil_div(s->n, max64(1, most)), step)) * step;
    s->chunks = max64(1, ceil_div(s->n, s->chunk));
}

typedef weir_status (*run_fn)(const weir_kargs *);

static run_fn run_of(weir_dtype t)
{
    switch (t) {
    case WEIR_F32:  return run<float>;
    case WEIR_F64:  return run<double>;
    case WEIR_F16:  return run<weir_f16>;
    case WEIR_BF16: return run<weir_bf16>;
    case WEIR_I32:  return run<int32_t>;
    case WEIR_I64:  return run<int64_t>;
    case WEIR_U8:   return run<uint8_t>;
    default:        return NULL;
    }
}

static run_fn product_run_of(weir_dtype t)
{
    switch (t) {
    case WEIR_F32:  return product_run<float>;
    case WEIR_F64:  return product_run<double>;
    case WEIR_F16:  return product_run<weir_f16>;
    case WEIR_BF16: return product_run<weir_bf16>;
    case WEIR_I32:  return product_run<int32_t>;
    case WEIR_I64:  return product_run<int64_t>;
    case WEIR_U8:   return product_run<uint8_t>;
    default:        return NULL;
    }
}

static run_fn product_grad_run_of(weir_dtype t)
{
    switch (t) {
    case WEIR_F32:  return product_grad_run<float>;
    case WEIR_F64:  return product_grad_run<double>;
    case WEIR_F16:  return product_grad_run<weir_f16>;
    case WEIR_BF16: return product_grad_run<weir_bf16>;
    default:        return NULL;
    }
}

/* Selects a kernel that does not divide the lines of x. */
static weir_status choose(const weir_call *c, run_fn run, weir_kernel *out)
{
    const weir_cumsum_attr *const a = (const weir_cumsum_attr *)c->attr;
    const weir_desc *const        x = &c->in[0].desc;
    weir_layout                   dense = {.desc = *x};
    int                           axis = 0;

    while (axis + 1 < x->ndim && !(a->reduce.dims >> axis & 1))
        axis++;
    if (!run)
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "no CUDA kernel for %s",
                              weir_dtype_name(x->dtype));
    scan *const s = (scan *)weir_mem_alloc(sizeof *s);
    if (!s)
        return WEIR_ERR_NOMEM;
    weir_shape_dense(&dense);
    const int64_t count = weir_shape_count(x), n = count > 0 && x->ndim > 0 ? x->dim[axis] : count;
    *s = (scan){.n = n, .inner = n > 1 ? dense.stride[axis] : 1, .reverse = a->reverse != 0};
    s->lines = n > 0 ? count / n : 0;
    *out = (weir_kernel){.run = run, .state = s, .destroy = weir_mem_free, .impl = "cuda"};
    return WEIR_OK;
}

weir_status weir_cuda_cumsum(weir_device *, const weir_call *c, weir_kernel *out)
{
    WEIR_TRY(choose(c, run_of(c->in[0].desc.dtype), out));
    scan *const s = (scan *)out->state;
    plan_chunks(s);
    out->work = s->chunks > 1 ? (size_t)(s->chunks * s->lines) * 8 : 0;
    return WEIR_OK;
}

weir_status weir_cuda_cumprod(weir_device *, const weir_call *c, weir_kernel *out)
{
    return choose(c, product_run_of(c->in[0].desc.dtype), out);
}

weir_status weir_cuda_cumprod_grad(weir_device *, const weir_call *c, weir_kernel *out)
{
    return choose(c, product_grad_run_of(c->in[0].desc.dtype), out);
}
