/* loss.cu - softmax cross-entropy and its gradient.
 *
 * The loss of a row is lse - logit[class], with lse = log sum exp of the row; for probabilities t
 * it is sum t * (lse - logit). A group of lanes or a block computes a row; the rows' losses go to
 * the workspace as f64 and are summed by one block. I is the type of class numbers, or T for
 * probabilities. Rows of the ignored class do not count; a class out of range is reported later
 * (fault.h). */
#include "device/cuda/kernels/reduce_block.cuh"
#define WEIR_CUDA_FAULTS
#include "device/cuda/runtime/fault.h"

#include "core/attr.h"

enum { NONE = -1, IGNORED = -2 };

/* The class number of a row. */
template <class I>
static __device__ inline int64_t class_of(const I *target, int64_t row, int64_t n, int64_t ignored)
{
    const int64_t t = (int64_t)target[row];
    return t == ignored ? IGNORED : t >= 0 && t < n ? t : NONE;
}

/* Counts the rows that are not ignored; one block. */
template <class I>
static __global__ void count_rows(const I *target, int64_t rows, int64_t n, int64_t ignored,
                                  double *counted, int op, weir_cuda_fault *fault)
{
    double some = 0;
    for (int64_t i = threadIdx.x; i < rows; i += blockDim.x) {
        const int64_t t = class_of(target, i, n, ignored);
        some += t != IGNORED;
        if (t == NONE)
            weir_fault_index(fault, op, (int64_t)target[i], n);
    }
    some = weir_line_meet<weir_add>(some, (int)blockDim.x);
    if (threadIdx.x == 0)
        *counted = some;
}

template <class T> static __device__ inline T lse_of(const T *x, int64_t n)
{
    const int tx = (int)blockDim.x;
    T         most = -(T)INFINITY, mass = 0;
#pragma unroll 4
    for (int64_t i = threadIdx.x; i < n; i += tx)
        most = weir_top::meet(most, x[i]);
    most = weir_line_meet_all<weir_top>(most, tx);
#pragma unroll 4
    for (int64_t i = threadIdx.x; i < n; i += tx)
        mass += weir_exp(x[i] - most);
    return most + weir_log(weir_line_meet_all<weir_add>(mass, tx));
}

/* A row whose class is out of range has the loss NaN. */
template <class T, class I>
static __global__ void loss_rows(const T *logits, const I *target, int64_t rows, int64_t n,
                                 int64_t ignored, T *lse, double *loss)
{
    for (int64_t first = (int64_t)blockIdx.x * blockDim.y; first < rows;
         first += (int64_t)gridDim.x * blockDim.y) {
        const int64_t  row = first + threadIdx.y, have = row < rows ? n : 0;
        const T *const x = logits + row * n;
        const T        l = lse_of(x, have);
        double         sum = 0;
        if constexpr (weir_same<T, I>) {
            T partial = 0;
#pragma unroll 4
            for (int64_t i = threadIdx.x; i < have; i += blockDim.x)
                partial += target[row * n + i] * (l - x[i]);
            sum = (double)weir_line_meet<weir_add>(partial, (int)blockDim.x);
        } else if (have > 0 && threadIdx.x == 0) {
            const int64_t at = class_of(target, row, n, ignored);
            sum = at == IGNORED ? 0 : at == NONE ? (double)NAN : (double)l - (double)x[at];
        }
        if (have > 0 && threadIdx.x == 0) {
            lse[row] = l;
            loss[row] = sum;
        }
    }
}

/* Sums the losses; one block. The mean of no rows is NaN. counted: rows that count; NULL: all. */
template <class T>
static __global__ void mean_of(const double *loss, int64_t rows, const double *counted, T *mean)
{
    double sum = 0;
#pragma unroll 4
    for (int64_t i = threadIdx.x; i < rows; i += blockDim.x)
        sum += loss[i];
    sum = weir_line_meet<weir_add>(sum, (int)blockDim.x);
    if (threadIdx.x == 0)
        *mean = rows > 0 ? (T)(sum / (counted ? *counted : (double)rows)) : (T)NAN;
}

/* dx may be x: each element is read by the thread that writes it. */
template <class T, class I>
static __global__ void grad_rows(const T *logits, const I *target, const T *lse, const T *dloss,
                                 int64_t rows, int64_t n, int64_t ignored, const double *counted,
                                 T *to)
{
    const double scale = (double)*dloss / (counted ? *counted : (double)rows);
    for (int64_t first = (int64_t)blockIdx.x * blockDim.y; first < rows;
         first += (int64_t)gridDim.x * blockDim.y) {
        const int64_t row = first + threadIdx.y, have = row < rows ? n : 0, at = row * n;
        const T       l = have > 0 ? lse[row] : 0;
        if constexpr (weir_same<T, I>) {
            T partial = 0;
#pragma unroll 4
            for (int64_t i = threadIdx.x; i < have; i += blockDim.x)
                partial += target[at + i];
            const double total = (double)weir_line_meet_all<weir_add>(partial, (int)blockDim.x);
            const T      p = (T)(total * scale), q = (T)scale;
#pragma unroll 4
            for (int64_t i = threadIdx.x; i < have; i += blockDim.x)
                to[at + i] = weir_exp(logits[at + i] - l) * p - target[at + i] * q;
        } else {
            const int64_t right = have > 0 ? class_of(target, row, n, ignored) : NONE;
            const T       p = right == NONE ? (T)NAN : (T)scale;
#pragma unroll 4
            for (int64_t i = threadIdx.x; i < have; i += blockDim.x) {
                const T v = weir_exp(logits[at + i] - l) * p;
                to[at + i] = right == IGNORED ? (T)0 : i == right ? (T)((double)v - scale) : v;
            }
        }
    }
}

/* ---- selecting ---- */

/* Block dimensions: the threads along x share a row of n elements. */
static dim3 block_of(int64_t n)
{
    const int tx = n > 1024 ? WEIR_CUDA_THREADS : weir_cuda_power(ceil_div(n, 2), 32);
    return dim3((unsigned)tx, (unsigned)(WEIR_CUDA_THREADS / tx));
}

static dim3 grid_of(int64_t rows, dim3 block)
{
    return dim3((unsigned)min64(ceil_div(rows, block.y), INT32_MAX));
}

static int64_t ignored_of(const weir_kargs *k)
{
    return ((const weir_cross_entropy_attr *)k->call->attr)->ignored;
}

/* Queues the count into device memory; *counted is NULL for probabilities. */
template <class T, class I>
static weir_status count(const weir_kargs *k, double *scratch, const double **counted)
{
    const weir_desc *const x = &k->call->in[0].desc;
    weir_cuda_fault       *fault = NULL;

    *counted = NULL;
    if constexpr (weir_same<T, I>)
        return WEIR_OK;
    *counted = scratch;
    WEIR_TRY(weir_cuda_fault_of(k, &fault));
    return weir_launch(k, count_rows<I>, 1, 1024, (const I *)k->src[1], x->dim[0], x->dim[1],
                       ignored_of(k), scratch, (int)k->call->op, fault);
}

template <class T, class I> static weir_status loss_run(const weir_kargs *k)
{
    const double          *counted;
    const weir_desc *const x = &k->call->in[0].desc;
    const int64_t          rows = x->dim[0], n = x->dim[1];
    const dim3             block = block_of(n);

    WEIR_TRY((count<T, I>(k, (double *)k->work + rows, &counted)));
    WEIR_TRY(weir_launch(k, loss_rows<T, I>, grid_of(rows, block), block, (const T *)k->src[0],
                         (const I *)k->src[1], rows, n, ignored_of(k), (T *)k->dst[1],
                         (double *)k->work));
    return weir_launch(k, mean_of<T>, 1, 1024, (const double *)k->work, rows, counted,
                       (T *)k->dst[0]);
}

template <class T, class I> static weir_status grad_run(const weir_kargs *k)
{
    const double          *counted;
    const weir_desc *const x = &k->call->in[0].desc;
    const int64_t          rows = x->dim[0], n = x->dim[1];
    const dim3             block = block_of(n);

    WEIR_TRY((count<T, I>(k, (double *)k->work, &counted)));
    return weir_launch(k, grad_rows<T, I>, grid_of(rows, block), block, (const T *)k->src[0],
                       (const I *)k->src[1], (const T *)k->src[2], (const T *)k->src[3], rows, n,
                       ignored_of(k), counted, (T *)k->dst[0]);
}

static weir_status choose(const weir_call *c, weir_status (*const run[2][3])(const weir_kargs *),
                          size_t work, weir_kernel *out)
{
    const weir_dtype type = c->in[0].desc.dtype, target = c->in[1].desc.dtype;

    if (!weir_is_float(type) ||
        (target != type && target != WEIR_I32 && target != WEIR_I64))
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "no CUDA kernel for %s logits and %s targets",
                              weir_dtype_name(type), weir_dtype_name(target));
    const int by = target == type ? 0 : target == WEIR_I32 ? 1 : 2;
    *out = (weir_kernel){.run = run[type == WEIR_F64][by], .work = work, .impl = "cuda"};
    return WEIR_OK;
}

weir_status weir_cuda_cross_entropy(weir_device *, const weir_call *c, weir_kernel *out)
{
    static weir_status (*const run[2][3])(const weir_kargs *) = {
        {loss_run<float, float>, loss_run<float, int32_t>, loss_run<float, int64_t>},
        {loss_run<double, double>, loss_run<double, int32_t>, loss_run<double, int64_t>}};

    return choose(c, run, (size_t)(c->in[0].desc.dim[0] + 1) * sizeof(double), out);
}

weir_status weir_cuda_cross_entropy_grad(weir_device *, const weir_call *c, weir_kernel *out)
{
    static weir_status (*const run[2][3])(const weir_kargs *) = {
        {grad_run<float, float>, grad_run<float, int32_t>, grad_run<float, int64_t>},
        {grad_run<double, double>, grad_run<double, int32_t>, grad_run<double, int64_t>}};

    return choose(c, run, sizeof(double), out);
}
