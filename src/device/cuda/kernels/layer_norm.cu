/* layer_norm.cu - layer normalisation of dense rows and its gradient.
 *
 * A group of threads shares a row: it computes the mean, the deviations from it and the result in
 * turn, so a row comes from memory once and then from cache, and no difference of large sums is
 * taken. For the gradient, blocks of columns first add dy xhat and dy over chunks of rows; dx,
 * which may replace dy or x, is written last. Threads add in f32 or f64 and are combined in f64. x,
 * dy and results may be halves beside statistics in f32; they are converted where they are
 * accessed. */
#include "device/cuda/kernels/reduce_block.cuh"

static constexpr int COLUMNS = 32;      /* of a block that adds over rows */
static constexpr int ADDED = 8;         /* rows that a thread adds before f64 takes the sum */
static constexpr int CHUNKS = 64;       /* most chunks of rows */
static constexpr int LEAST = 64;        /* rows per chunk */

typedef struct layer_norm {
    int64_t rows, n;            /* n: elements per row */
    int64_t chunk, chunks;      /* of rows */
    double  eps;
    int     tx, ty;             /* threads per row; rows per block */
    int     x, dy, result;      /* weir_dtype; result: that of y or dx */
} layer_norm;

/* ---- elements of type T or of a half type ---- */

template <class T>
static __device__ inline T element(const void *p, int type, int64_t i)
{
    if (type == WEIR_F16)
        return (T)weir_load((const weir_f16 *)p + i);
    if (type == WEIR_BF16)
        return (T)weir_load((const weir_bf16 *)p + i);
    return ((const T *)p)[i];
}

template <class T>
static __device__ inline void put(void *p, int type, int64_t i, T v)
{
    if (type == WEIR_F16)
        weir_cuda_offload((weir_f16 *)p + i, (float)v);
    else if (type == WEIR_BF16)
        weir_cuda_offload((weir_bf16 *)p + i, (float)v);
    else
        ((T *)p)[i] = v;
}

/* ---- the norm ---- */

template <class T>
static __global__ void norm(layer_norm p, const void *x, const T *scale, const T *bias, void *y,
                            T *means, T *rstds)
{
    const int    tx = (int)blockDim.x;
    const double share = 1 / (double)p.n;

    for (int64_t first = (int64_t)blockIdx.x * blockDim.y; first < p.rows;
         first += (int64_t)gridDim.x * blockDim.y) {
        const int64_t row = first + threadIdx.y, n = row < p.rows ? p.n : 0, at = row * p.n;
        T             sum = 0, s = 0, q = 0;

        for (int64_t i = threadIdx.x; i < n; i += tx)
            sum += element<T>(x, p.x, at + i);
        const T about = (T)(weir_line_meet_all<weir_add>((double)sum, tx) * share);
        for (int64_t i = threadIdx.x; i < n; i += tx) {
            const T d = element<T>(x, p.x, at + i) - about;
            s += d;
            q += d * d;
        }
        const double off = weir_line_meet_all<weir_add>((double)s, tx);
        const double squares = weir_line_meet_all<weir_add>((double)q, tx);
        const double var = (squares - off * (off * share)) * share;
        const T      mean = (T)((double)about + off * share);
        const T      rstd = (T)(1 / sqrt((var < 0 ? 0 : var) + p.eps));
        for (int64_t i = threadIdx.x; i < n; i += tx)
            put<T>(y, p.result, at + i,
                   (element<T>(x, p.x, at + i) - mean) * rstd * scale[i] + bias[i]);
        if (threadIdx.x == 0 && row < p.rows) {
            means[row] = mean;
            rstds[row] = rstd;
        }
    }
}

/* ---- the gradient ---- */

/* part: [chunks][dscale, dbias][n]. blockIdx.x: block of columns; blockIdx.y: chunk. */
template <class T>
static __global__ void add_rows(layer_norm p, const void *dy, const void *x, const T *means,
                                const T *rstds, double *part)
{
    const int64_t column = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t first = blockIdx.y * p.chunk;
    const int64_t end = first + p.chunk < p.rows ? first + p.chunk : p.rows;
    double        sum[2] = {0, 0};

    if (column < p.n)
        for (int64_t r = first + threadIdx.y; r < end; r += (int64_t)ADDED * blockDim.y) {
            T ds = 0, db = 0;
#pragma unroll
            for (int k = 0; k < ADDED; k++) {
                const int64_t row = r + (int64_t)k * blockDim.y;
                if (row >= end)
                    continue;
                const T g = element<T>(dy, p.dy, row * p.n + column);
                ds += g * ((element<T>(x, p.x, row * p.n + column) - means[row]) * rstds[row]);
                db += g;
            }
            sum[0] += (double)ds;
            sum[1] += (double)db;
        }
    weir_rows_meet<weir_add, 2>(sum);
    if (threadIdx.y == 0 && column < p.n) {
        double *const to = part + blockIdx.y * 2 * p.n + column;
        to[0] = sum[0];
        to[p.n] = sum[1];
    }
}

template <class T>
static __global__ void add_chunks(layer_norm p, const double *part, T *dscale, T *dbias)
{
    WEIR_EACH(i, 2 * p.n) {
        double sum = 0;
        for (int64_t c = 0; c < p.chunks; c++)
            sum += part[c * 2 * p.n + i];
        if (i < p.n)
            dscale[i] = (T)sum;
        else
            dbias[i - p.n] = (T)sum;
    }
}

template <class T>
static __global__ void grad(layer_norm p, const void *dy, const void *x, const T *means,
                            const T *rstds, const T *scale, void *dx)
{
    const int    tx = (int)blockDim.x;
    const double share = 1 / (double)p.n;

    for (int64_t first = (int64_t)blockIdx.x * blockDim.y; first < p.rows;
         first += (int64_t)gridDim.x * blockDim.y) {
        const int64_t row = first + threadIdx.y, n = row < p.rows ? p.n : 0, at = row * p.n;
        const T       mean = n > 0 ? means[row] : 0, rstd = n > 0 ? rstds[row] : 0;
        T             s = 0, q = 0;

        for (int64_t i = threadIdx.x; i < n; i += tx) {
            const T g = element<T>(dy, p.dy, at + i) * scale[i];
            s += g;
            q += g * ((element<T>(x, p.x, at + i) - mean) * rstd);
        }
        const T of_g = (T)(weir_line_meet_all<weir_add>((double)s, tx) * share);
        const T of_g_xhat = (T)(weir_line_meet_all<weir_add>((double)q, tx) * share);
        for (int64_t i = threadIdx.x; i < n; i += tx) {
            const T g = element<T>(dy, p.dy, at + i) * scale[i];
            const T xhat = (element<T>(x, p.x, at + i) - mean) * rstd;
            put<T>(dx, p.result, at + i, rstd * (g - of_g - xhat * of_g_xhat));
        }
    }
}

/* ---- launching ---- */

template <class T> static weir_status norm_run(const weir_kargs *k)
{
    const layer_norm *const p = (const layer_norm *)k->state;

    return weir_launch(k, norm<T>, dim3((unsigned)min64(ceil_div(p->rows, p->ty), INT32_MAX)),
                       dim3((unsigned)p->tx, (unsigned)p->ty), *p, (const void *)k->src[0],
                       (const T *)k->src[1], (const T *)k->src[2], (void *)k->dst[0],
                       (T *)k->dst[1], (T *)k->dst[2]);
}

template <class T> static weir_status grad_run(const weir_kargs *k)
{
    const layer_norm *const p = (const layer_norm *)k->state;
    const void *const       dy = k->src[0], *const x = k->src[1];
    const T *const          mean = (const T *)k->src[2], *const rstd = (const T *)k->src[3];
    double *const           part = (double *)k->work;
    const dim3              columns((unsigned)ceil_div(p->n, COLUMNS), (unsigned)p->chunks);

    WEIR_TRY(weir_launch(k, add_rows<T>, columns, dim3(COLUMNS, WEIR_CUDA_THREADS / COLUMNS), *p,
                         dy, x, mean, rstd, part));
    WEIR_TRY(weir_launch(k, add_chunks<T>, dim3((unsigned)ceil_div(2 * p->n, WEIR_CUDA_THREADS)),
                         dim3(WEIR_CUDA_THREADS), *p, (const double *)part, (T *)k->dst[1],
                         (T *)k->dst[2]));
    return weir_launch(k, grad<T>, dim3((unsigned)min64(ceil_div(p->rows, p->ty), INT32_MAX)),
                       dim3((unsigned)p->tx, (unsigned)p->ty), *p, dy, x, mean, rstd,
                       (const T *)k->src[4], (void *)k->dst[0]);
}

/* ---- selecting ---- */

/* Input x has the rows, input `scale` the elements of one; output or input `row` a number each. */
static weir_status choose(const weir_call *c, int x, int scale, const weir_desc *row,
                          weir_kernel *out)
{
    const weir_dtype type = c->in[scale].desc.dtype;

    if (!weir_is_float(type))
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "no CUDA kernel for %s", weir_dtype_name(type));
    layer_norm *const p = (layer_norm *)weir_mem_alloc(sizeof *p);
    if (!p)
        return WEIR_ERR_NOMEM;
    *p = (layer_norm){.rows = weir_shape_count(row),
                      .n = weir_shape_count(&c->in[scale].desc),
                      .x = c->in[x].desc.dtype,
                      .dy = c->in[0].desc.dtype,
                      .result = c->out[0].desc.dtype};
    p->tx = p->n <= 1024 ? weir_cuda_power(ceil_div(p->n, 8), 32) : WEIR_CUDA_THREADS;
    p->ty = WEIR_CUDA_THREADS / p->tx;
    *out = (weir_kernel){.state = p, .destroy = weir_mem_free, .impl = "cuda"};
    return WEIR_OK;
}

weir_status weir_cuda_layer_norm(weir_device *, const weir_call *c, weir_kernel *out)
{
    WEIR_TRY(choose(c, 0, 1, &c->out[1].desc, out));
    ((layer_norm *)out->state)->eps = ((const weir_layer_norm_attr *)c->attr)->eps;
    out->run = c->in[1].desc.dtype == WEIR_F32 ? norm_run<float> : norm_run<double>;
    return WEIR_OK;
}

weir_status weir_cuda_layer_norm_grad(weir_device *, const weir_call *c, weir_kernel *out)
{
    WEIR_TRY(choose(c, 1, 4, &c->in[2].desc, out));
    layer_norm *const p = (layer_norm *)out->state;
    p->chunk = max64(LEAST, ceil_div(p->rows, CHUNKS));
    p->chunks = max64(1, ceil_div(p->rows, p->chunk));
    out->work = (size_t)(p->chunks * 2 * p->n) * sizeof(double);
    out->run = c->in[4].desc.dtype == WEIR_F32 ? grad_run<float> : grad_run<double>;
    return WEIR_OK;
}
