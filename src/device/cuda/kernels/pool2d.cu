/* pool2d.cu - maximum and average pooling of channels-last images, bilinear upsampling, and their
 * gradients.
 *
 * A thread computes 16 bytes of channels of one output cell, or one channel if 16 bytes do not
 * divide them or an operand is not aligned; adjacent threads take adjacent channels. As on the CPU,
 * every cell, of an image or of its gradient, gathers from the cells that contribute to it, in the
 * order of the windows and with the same grouping of additions, so the bits are the same. Padding
 * is never read: it counts as -inf for a maximum and as 0 for an average. */
#include "device/cuda/kernels/kernels.h"
#include "device/cuda/kernels/maths.h"

enum { WHOLE = 16 };        /* bytes that a thread loads at once */

/* The geometry with indices of type I: 32 bits if all numbers fit, since these divide faster. */
template <class I> struct pool {
    I       c, chunks;                      /* channels; threads per cell */
    I       image[2], pooled[2];
    I       kernel[2], stride[2], pad[2];
    int64_t threads;                        /* output cells times chunks */
    bool    exclude_pad;
};

typedef struct plan {
    pool<int64_t> p;
    bool          narrow;                   /* 32-bit indices suffice */
    int64_t       cells;                    /* of the output */
} plan;

template <class T, int V> struct alignas(sizeof(T) * V) chunk {
    T at[V];
};

template <class I> struct span {
    I first, last;                          /* last is exclusive */
};

/* What a thread computes: V channels, from `channel` on, of a cell. */
template <class I> struct place {
    I image, row, column, channel;
};

template <class I, int V>
static __device__ place<I> place_of(const pool<I> &p, const I size[2], I thread)
{
    const I cell = thread / p.chunks, line = cell / size[1], image = line / size[0];
    return {image, line - image * size[0], cell - line * size[1], (thread - cell * p.chunks) * V};
}

/* Index of the thread's first channel in the cell at (y, x). */
template <class I>
static __device__ I element(const pool<I> &p, const I size[2], const place<I> &at, I y, I x)
{
    return ((at.image * size[0] + y) * size[1] + x) * p.c + at.channel;
}

/* The cells of the image under window `o` along axis k. */
template <class I> static __device__ span<I> cells_of(const pool<I> &p, int k, I o)
{
    const I from = o * p.stride[k] - p.pad[k], to = from + p.kernel[k];
    return {from > 0 ? from : 0, to < p.image[k] ? to : p.image[k]};
}

/* The windows over cell `i` of the image along axis k. */
template <class I> static __device__ span<I> windows_of(const pool<I> &p, int k, I i)
{
    const I at = i + p.pad[k], beyond = at / p.stride[k] + 1;
    const I first = at < p.kernel[k] ? 0 : (at - p.kernel[k]) / p.stride[k] + 1;
    return {first, beyond < p.pooled[k] ? beyond : p.pooled[k]};
}

/* The number within window (o, q) of cell (i, j). */
template <class I> static __device__ I place_in(const pool<I> &p, I i, I o, I j, I q)
{
    return (i + p.pad[0] - o * p.stride[0]) * p.kernel[1] + (j + p.pad[1] - q * p.stride[1]);
}

/* 1 / number of cells that the average of a window divides by. The f32 quotient equals the rounded
 * f64 quotient, as both numbers are exact in f32. */
template <class R, class I>
static __device__ R share_of(const pool<I> &p, const span<I> &high, const span<I> &wide)
{
    const int64_t cells = p.exclude_pad
                              ? (int64_t)(high.last - high.first) * (wide.last - wide.first)
                              : (int64_t)p.kernel[0] * p.kernel[1];
    return cells < 1 << 24 ? 1 / (R)cells : (R)(1 / (double)cells);
}

template <class T, int V, class R>
static __device__ void load(const T *from, R (&to)[V])
{
    const chunk<T, V> all = *(const chunk<T, V> *)from;
#pragma unroll
    for (int v = 0; v < V; v++)
        to[v] = weir_load(&all.at[v]);
}

template <class T, int V, class R>
static __device__ void store(T *to, const R (&from)[V])
{
    chunk<T, V> all;
#pragma unroll
    for (int v = 0; v < V; v++)
        weir_cuda_offload(&all.at[v], from[v]);
    *(chunk<T, V> *)to = all;
}

/* ---- kernels ---- */

/* A later cell wins only if it is larger, or NaN (of several NaNs the last, as in PyTorch). */
template <class T, int V, class I>
static __global__ void max_pool(pool<I> p, const T *x, T *y, uint8_t *winner)
{
    typedef typename weir_real<T>::type R;
    WEIR_EACH(thread, p.threads) {
        const place<I> o = place_of<I, V>(p, p.pooled, (I)thread);
        const span<I>  high = cells_of(p, 0, o.row), wide = cells_of(p, 1, o.column);
        R              best[V], cell[V];
        chunk<uint8_t, V> won;
        load<T, V>(x + element(p, p.image, o, high.first, wide.first), best);
        const I first = place_in(p, high.first, o.row, wide.first, o.column);
        for (int v = 0; v < V; v++)
            won.at[v] = (uint8_t)first;
        for (I i = high.first; i < high.last; i++)
            for (I j = wide.first; j < wide.last; j++) {
                const uint8_t number = (uint8_t)place_in(p, i, o.row, j, o.column);
                load<T, V>(x + element(p, p.image, o, i, j), cell);
#pragma unroll
                for (int v = 0; v < V; v++) {
                    const bool wins = cell[v] > best[v] || cell[v] != cell[v];
                    best[v] = wins ? cell[v] : best[v];
                    won.at[v] = wins ? number : won.at[v];
                }
            }
        const I out = element(p, p.pooled, o, o.row, o.column);
        store<T, V>(y + out, best);
        *(chunk<uint8_t, V> *)(winner + out) = won;
    }
}

template <class T, int V, class I>
static __global__ void max_gradient(pool<I> p, const T *dy, const uint8_t *winner, T *dx)
{
    typedef typename weir_real<T>::type R;
    WEIR_EACH(thread, p.threads) {
        const place<I> o = place_of<I, V>(p, p.image, (I)thread);
        const span<I>  high = windows_of(p, 0, o.row), wide = windows_of(p, 1, o.column);
        bool           any = false;
        R              sum[V] = {}, cell[V];
        for (I i = high.first; i < high.last; i++)
            for (I j = wide.first; j < wide.last; j++) {
                const I       in = element(p, p.pooled, o, i, j);
                const uint8_t number = (uint8_t)place_in(p, o.row, i, o.column, j);
                const chunk<uint8_t, V> won = *(const chunk<uint8_t, V> *)(winner + in);
                load<T, V>(dy + in, cell);
#pragma unroll
                for (int v = 0; v < V; v++) {
                    const R part = won.at[v] == number ? cell[v] : 0;
                    sum[v] = any ? sum[v] + part : part;
                }
                any = true;
            }
        store<T, V>(dx + element(p, p.image, o, o.row, o.column), sum);
    }
}

/* Cells are added in groups of four, as on the CPU. */
template <class T, int V, class I>
static __global__ void average(pool<I> p, const T *x, T *y)
{
    typedef typename weir_real<T>::type R;
    WEIR_EACH(thread, p.threads) {
        const place<I> o = place_of<I, V>(p, p.pooled, (I)thread);
        const span<I>  high = cells_of(p, 0, o.row), wide = cells_of(p, 1, o.column);
        const I        width = wide.last - wide.first, cells = (high.last - high.first) * width;
        R              sum[V] = {}, cell[4][V] = {};
        I              i = high.first, j = wide.first;
        for (I n = 0; n < cells; n += 4) {
#pragma unroll
            for (int k = 0; k < 4; k++) {
                if (n + k < cells)
                    load<T, V>(x + element(p, p.image, o, i, j), cell[k]);
                i += j + 1 == wide.last;
                j = j + 1 == wide.last ? wide.first : j + 1;
            }
            if (n + 4 <= cells) {
#pragma unroll
                for (int v = 0; v < V; v++)
                    sum[v] += (cell[0][v] + cell[1][v]) + (cell[2][v] + cell[3][v]);
                continue;
            }
#pragma unroll
            for (int k = 0; k < 3; k++)
#pragma unroll
                for (int v = 0; v < V; v++)
                    sum[v] = n + k < cells ? sum[v] + cell[k][v] : sum[v];
        }
        const R share = share_of<R>(p, high, wide);
        for (int v = 0; v < V; v++)
            sum[v] *= share;
        store<T, V>(y + element(p, p.pooled, o, o.row, o.column), sum);
    }
}

template <class T, int V, class I>
static __global__ void average_gradient(pool<I> p, const T *dy, T *dx)
{
    typedef typename weir_real<T>::type R;
    WEIR_EACH(thread, p.threads) {
        const place<I> o = place_of<I, V>(p, p.image, (I)thread);
        const span<I>  high = windows_of(p, 0, o.row), wide = windows_of(p, 1, o.column);
        bool           any = false;
        R              sum[V] = {}, cell[V];
        for (I i = high.first; i < high.last; i++)
            for (I j = wide.first; j < wide.last; j++) {
                const R share = share_of<R>(p, cells_of(p, 0, i), cells_of(p, 1, j));
                load<T, V>(dy + element(p, p.pooled, o, i, j), cell);
#pragma unroll
                for (int v = 0; v < V; v++)
                    sum[v] = any ? sum[v] + cell[v] * share : cell[v] * share;
                any = true;
            }
        store<T, V>(dx + element(p, p.image, o, o.row, o.column), sum);
    }
}

/* ---- bilinear upsampling: `pooled` is the larger image, `stride` the factor ---- */

/* The two cells between which pixel o lies along axis k: `first` and its successor, whose weight is
 * `next` (0 at the border). */
template <class I> struct between {
    I      first;
    double next;
};

template <class I> static __device__ between<I> between_of(const pool<I> &p, int k, I o)
{
    const double at = ((double)o + 0.5) / (double)p.stride[k] - 0.5;
    const I      first = at > 0 ? (I)at : 0;
    const bool   inside = at > 0 && first + 1 < p.image[k];
    return {first, inside ? at - (double)first : 0};
}

template <class I> static __device__ double weight_of(const between<I> &b, I i)
{
    return i == b.first ? 1 - b.next : i == b.first + 1 ? b.next : 0;
}

template <class T, int V, class I>
static __global__ void bilinear(pool<I> p, const T *x, T *y)
{
    typedef typename weir_real<T>::type R;
    WEIR_EACH(thread, p.threads) {
        const place<I>   o = place_of<I, V>(p, p.pooled, (I)thread);
        const between<I> high = between_of(p, 0, o.row), wide = between_of(p, 1, o.column);
        bool             any = false;
        R                sum[V] = {}, cell[V];
        for (I i = high.first; i <= high.first + (high.next != 0); i++)
            for (I j = wide.first; j <= wide.first + (wide.next != 0); j++) {
                const R weight = (R)(weight_of(high, i) * weight_of(wide, j));
                load<T, V>(x + element(p, p.image, o, i, j), cell);
#pragma unroll
                for (int v = 0; v < V; v++)
                    sum[v] = any ? sum[v] + cell[v] * weight : cell[v] * weight;
                any = true;
            }
        store<T, V>(y + element(p, p.pooled, o, o.row, o.column), sum);
    }
}

/* The pixels in which cell i may have a weight along axis k: those with (o + 1/2) / f - 1/2 between
 * i - 1 and i + 1, or beyond the outermost cells. */
template <class I> static __device__ span<I> pixels_of(const pool<I> &p, int k, I i)
{
    const I f = p.stride[k], from = (2 * f * i - f) / 2, to = (2 * f * i + 3 * f + 1) / 2;
    return {from > 0 ? from : 0, to < p.pooled[k] ? to : p.pooled[k]};
}

template <class T, int V, class I>
static __global__ void bilinear_gradient(pool<I> p, const T *dy, T *dx)
{
    typedef typename weir_real<T>::type R;
    WEIR_EACH(thread, p.threads) {
        const place<I> o = place_of<I, V>(p, p.image, (I)thread);
        const span<I>  high = pixels_of(p, 0, o.row), wide = pixels_of(p, 1, o.column);
        bool           any = false;
        R              sum[V] = {}, cell[V];
        for (I i = high.first; i < high.last; i++) {
            const double down = weight_of(between_of(p, 0, i), o.row);
            for (I j = wide.first; j < wide.last; j++) {
                const double both = down * weight_of(between_of(p, 1, j), o.column);
                if (both == 0)
                    continue;
                load<T, V>(dy + element(p, p.pooled, o, i, j), cell);
#pragma unroll
                for (int v = 0; v < V; v++)
                    sum[v] = any ? sum[v] + cell[v] * (R)both : cell[v] * (R)both;
                any = true;
            }
        }
        store<T, V>(dx + element(p, p.image, o, o.row, o.column), sum);
    }
}

/* ---- launches ---- */

typedef enum kind {
    MAX,
    MAX_GRADIENT,
    AVERAGE,
    AVERAGE_GRADIENT,
    BILINEAR,
    BILINEAR_GRADIENT
} kind;

template <class I> static pool<I> pool_of(const plan *s, int lanes)
{
    const pool<int64_t> *const from = &s->p;
    pool<I>                    p = {};
    p.c = (I)from->c;
    p.chunks = (I)(from->c / lanes);
    p.threads = s->cells * (from->c / lanes);
    p.exclude_pad = from->exclude_pad;
    for (int k = 0; k < 2; k++) {
        p.image[k] = (I)from->image[k];
        p.pooled[k] = (I)from->pooled[k];
        p.kernel[k] = (I)from->kernel[k];
        p.stride[k] = (I)from->stride[k];
        p.pad[k] = (I)from->pad[k];
    }
    return p;
}

template <class T, int V, class I, kind K> static weir_status launch(const weir_kargs *k)
{
    const pool<I>  p = pool_of<I>((const plan *)k->state, V);
    const unsigned blocks = weir_cuda_blocks(p.threads);
    void *const    from = k->src[0], *const to = k->dst[0];
    if constexpr (K == MAX)
        return weir_launch(k, max_pool<T, V, I>, blocks, WEIR_CUDA_THREADS, p, (const T *)from,
                           (T *)to, (uint8_t *)k->dst[1]);
    else if constexpr (K == MAX_GRADIENT)
        return weir_launch(k, max_gradient<T, V, I>, blocks, WEIR_CUDA_THREADS, p, (const T *)from,
                           (const uint8_t *)k->src[1], (T *)to);
    else if constexpr (K == AVERAGE)
        return weir_launch(k, average<T, V, I>, blocks, WEIR_CUDA_THREADS, p, (const T *)from,
                           (T *)to);
    else if constexpr (K == AVERAGE_GRADIENT)
        return weir_launch(k, average_gradient<T, V, I>, blocks, WEIR_CUDA_THREADS, p,
                           (const T *)from, (T *)to);
    else if constexpr (K == BILINEAR)
        return weir_launch(k, bilinear<T, V, I>, blocks, WEIR_CUDA_THREADS, p, (const T *)from,
                           (T *)to);
    else
        return weir_launch(k, bilinear_gradient<T, V, I>, blocks, WEIR_CUDA_THREADS, p,
                           (const T *)from, (T *)to);
}

static bool aligned(const void *p, size_t bytes)
{
    return (uintptr_t)p % bytes == 0;
}

/* Uses whole chunks if they divide the channels and all operands are aligned: V bytes of winners,
 * 16 of elements. */
template <class T, kind K> static weir_status run(const weir_kargs *k)
{
    const plan *const s = (const plan *)k->state;
    constexpr int     V = WHOLE / sizeof(T);
    const void *const won = K == MAX ? k->dst[1] : K == MAX_GRADIENT ? k->src[1] : NULL;
    const bool        whole = s->p.c % V == 0 && aligned(k->src[0], WHOLE) &&
                              aligned(k->dst[0], WHOLE) && aligned(won, V);
    if (s->narrow)
        return whole ? launch<T, V, int32_t, K>(k) : launch<T, 1, int32_t, K>(k);
    return whole ? launch<T, V, int64_t, K>(k) : launch<T, 1, int64_t, K>(k);
}

/* ---- selecting ---- */

static bool fits_32(const weir_pool2d_attr *a, const weir_desc *image, const weir_desc *pooled)
{
    const int64_t most = INT64_C(1) << 27;
    for (int k = 0; k < 2; k++)
        if (a->kernel[k] > most || a->stride[k] > most || a->pad[k] > most)
            return false;
    return weir_shape_count(image) < 8 * most && weir_shape_count(pooled) < 8 * most &&
           a->kernel[0] * a->kernel[1] < most;
}

/* image, pooled: the descriptions of both. */
template <kind K>
static weir_status choose(const weir_call *c, const weir_pool2d_attr *a, const weir_desc *image,
                          const weir_desc *pooled, weir_kernel *out)
{
    weir_status (*by)(const weir_kargs *k) = NULL;
    switch (image->dtype) {
    case WEIR_F32: by = run<float, K>; break;
    case WEIR_F64: by = run<double, K>; break;
    case WEIR_F16: by = run<weir_f16, K>; break;
    case WEIR_BF16: by = run<weir_bf16, K>; break;
    default:
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "no CUDA kernel for %s",
                              weir_dtype_name(image->dtype));
    }
    plan *const s = (plan *)weir_mem_zalloc(1, sizeof *s);
    if (!s)
        return WEIR_ERR_NOMEM;
    const weir_desc *const to = &c->out[0].desc;
    s->p.c = image->dim[1];
    s->p.exclude_pad = a->exclude_pad != 0;
    for (int k = 0; k < 2; k++) {
        s->p.image[k] = image->dim[2 + k];
        s->p.pooled[k] = pooled->dim[2 + k];
        s->p.kernel[k] = a->kernel[k];
        s->p.stride[k] = a->stride[k];
        s->p.pad[k] = a->pad[k];
    }
    s->cells = s->p.c > 0 ? weir_shape_count(to) / s->p.c : 0;
    s->narrow = fits_32(a, image, pooled);
    *out = (weir_kernel){.run = by, .state = s, .destroy = weir_mem_free, .impl = "cuda"};
    return WEIR_OK;
}

weir_status weir_cuda_max_pool2d(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    return choose<MAX>(c, (const weir_pool2d_attr *)c->attr, &c->in[0].desc, &c->out[0].desc, out);
}

weir_status weir_cuda_avg_pool2d(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    return choose<AVERAGE>(c, (const weir_pool2d_attr *)c->attr, &c->in[0].desc, &c->out[0].desc,
                           out);
}

weir_status weir_cuda_max_pool2d_grad(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    const weir_pool2d_grad_attr *const a = (const weir_pool2d_grad_attr *)c->attr;
    return choose<MAX_GRADIENT>(c, &a->pool, &c->out[0].desc, &c->in[0].desc, out);
}

weir_status weir_cuda_avg_pool2d_grad(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    const weir_pool2d_grad_attr *const a = (const weir_pool2d_grad_attr *)c->attr;
    return choose<AVERAGE_GRADIENT>(c, &a->pool, &c->out[0].desc, &c->in[0].desc, out);
}

static weir_pool2d_attr scaled_by(const weir_call *c)
{
    const weir_upsample_attr *const a = (const weir_upsample_attr *)c->attr;
    weir_pool2d_attr                by = {};
    by.stride[0] = a->factor[0];
    by.stride[1] = a->factor[1];
    return by;
}

weir_status weir_cuda_upsample_bilinear(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    const weir_pool2d_attr by = scaled_by(c);
    return choose<BILINEAR>(c, &by, &c->in[0].desc, &c->out[0].desc, out);
}

weir_status weir_cuda_upsample_bilinear_grad(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    const weir_pool2d_attr by = scaled_by(c);
    return choose<BILINEAR_GRADIENT>(c, &by, &c->out[0].desc, &c->in[0].desc, out);
}
