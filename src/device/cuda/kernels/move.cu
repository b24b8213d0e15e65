/* move.cu - COPY, RESHAPE and the other moves, CAST, FILL, ARANGE.
 *
 * copy.h plans the copies, which depend on element sizes only. */
#include "device/cuda/kernels/convert.h"
#include "device/cuda/kernels/copy.h"
#include "device/cuda/kernels/kernels.h"
#include "device/cuda/kernels/index.h"

/* ---- element by element ---- */

template <class T> static __device__ inline void convert(T *to, T from)
{
    *to = from;
}
template <class To, class From> static __device__ inline void convert(To *to, From from)
{
    weir_put(to, weir_value(from));
}

/* walk: strides of the input and of the output. */
template <class From, class To>
static __global__ void move_each(To *to, const From *from, weir_strided_index<2> index)
{
    const int64_t threads = blockDim.x, stride = (int64_t)gridDim.x * WEIR_CHUNK;

    for (int64_t i = (int64_t)blockIdx.x * WEIR_CHUNK + threadIdx.x; i < index.count; i += stride) {
        From    value[WEIR_SEVERAL];
        int64_t place[WEIR_SEVERAL][2];
        for (int e = 0; e < WEIR_SEVERAL; e++) {
            if (i + e * threads < index.count) {
                weir_strided_index_at(index, i + e * threads, place[e]);
                value[e] = from[place[e][0]];
            }
        }
        for (int e = 0; e < WEIR_SEVERAL; e++)
            if (i + e * threads < index.count)
                convert(&to[place[e][1]], value[e]);
    }
}

/* The index in units of `unit` elements, which divides the innermost axis. */
static weir_strided_index<2> index_of(const weir_copy_plan *p, int64_t unit)
{
    weir_strided_index<2> w = {};

    for (int i = 0; i < p->n; i++) {
        const copy_axis  x = p->common[i];
        const bool    inner = i == p->n - 1 && unit > 1;
        const int64_t step[2] = {inner ? 1 : x.in / unit, inner ? 1 : x.out / unit};
        weir_strided_index_add(&w, inner ? x.dim / unit : x.dim, step);
    }
    if (w.n == 0)
        w.count = 1;
    return w;
}

template <class T> static weir_status each_by(const weir_kargs *k, const weir_strided_index<2> &w)
{
    return weir_launch(k, move_each<T, T>, weir_blocks_of(w.count, WEIR_CHUNK), WEIR_CUDA_THREADS,
                       (T *)k->dst[0], (const T *)k->src[0], w);
}

/* ---- tiles ---- */

typedef struct tiles {
    int64_t      row_in, row_out, inner_in;     /* strides; inner is contiguous in the output */
    int64_t      row_dim, inner_dim, count;
    weir_divisor rows, inners;                  /* of a tile */
    weir_divisor row_tiles, inner_tiles;
    weir_strided_index<2> outer;
    bool         wide;
} tiles;

/* A tile is read along the row axis and written along the inner axis. */
template <class T, int MOST>
static __global__ void __launch_bounds__(WEIR_CUDA_THREADS, 4)
move_tiles(T *to, const T *from, tiles t)
{
    __shared__ T  tile[MOST + MOST / 2];        /* odd line lengths avoid bank conflicts */
    const int     rows = (int)t.rows.by, inners = (int)t.inners.by, line = inners | 1;
    const int     all = rows * inners;

    for (int64_t i = blockIdx.x; i < t.count; i += gridDim.x) {
        int64_t       place[2];
        const int64_t above = weir_divide(i, t.inner_tiles, t.wide);
        const int64_t outer = weir_divide(above, t.row_tiles, t.wide);
        const int64_t inner0 = (i - above * t.inner_tiles.by) * inners;
        const int64_t row0 = (above - outer * t.row_tiles.by) * rows;
        const int64_t inner_end = t.inner_dim - inner0, row_end = t.row_dim - row0;
        weir_strided_index_at(t.outer, outer, place);
        const T *const at = from + place[0] + row0 * t.row_in + inner0 * t.inner_in;
        T *const       put = to + place[1] + row0 * t.row_out + inner0;
        for (int k = 0; k < MOST / WEIR_CUDA_THREADS; k++) {
            const int e = k * WEIR_CUDA_THREADS + (int)threadIdx.x;
            const int y = (int)weir_divide(e, t.rows, false), x = e - y * rows;
            if (e < all && x < row_end && y < inner_end)
                tile[x * line + y] = at[x * t.row_in + y * t.inner_in];
        }
        __syncthreads();
        for (int k = 0; k < MOST / WEIR_CUDA_THREADS; k++) {
            const int e = k * WEIR_CUDA_THREADS + (int)threadIdx.x;
            const int x = (int)weir_divide(e, t.inners, false), y = e - x * inners;
            if (e < all && x < row_end && y < inner_end)
                put[x * t.row_out + y] = tile[x * line + y];
        }
        __syncthreads();
    }
}

static tiles tiles_of(const weir_copy_plan *p)
{
    const copy_axis  row = p->common[p->row], inner = p->common[p->n - 1];
    const int64_t row_tiles = ceil_div(row.dim, p->rows);
    const int64_t inner_tiles = ceil_div(inner.dim, p->inners);
    tiles         t = {row.in, row.out, inner.in, row.dim, inner.dim, row_tiles * inner_tiles,
                       weir_divisor_of(p->rows), weir_divisor_of(p->inners),
                       weir_divisor_of(row_tiles), weir_divisor_of(inner_tiles), {}, false};

    for (int i = 0; i < p->n - 1; i++) {
        const int64_t step[2] = {p->common[i].in, p->common[i].out};
        if (i == p->row)
            continue;
        weir_strided_index_add(&t.outer, p->common[i].dim, step);
        t.count *= p->common[i].dim;
    }
    t.wide = t.count >= WEIR_NARROW_END;
    return t;
}

template <class T, int MOST> static weir_status tiles_by(const weir_kargs *k, const tiles &t)
{
    return weir_launch(k, move_tiles<T, MOST>, weir_blocks_of(t.count, 1), WEIR_CUDA_THREADS,
                       (T *)k->dst[0], (const T *)k->src[0], t);
}

/* ---- sides without common factors ---- */

template <class T>
static __global__ void move_count(T *to, const T *from, weir_strided_index<1> in,
                                  weir_strided_index<1> out)
{
    WEIR_EACH(i, in.count) {
        int64_t at, put;
        weir_strided_index_at(in, i, &at);
        weir_strided_index_at(out, i, &put);
        to[put] = from[at];
    }
}

static weir_strided_index<1> side_of(const weir_layout *l)
{
    weir_strided_index<1> w = {};
    copy_axis       side[WEIR_MAX_DIMS];
    const int    n = copy_axes_side(l, side);

    for (int i = 0; i < n; i++)
        weir_strided_index_add(&w, side[i].dim, &side[i].in);
    return w;
}

typedef struct sides {
    size_t       size;
    weir_strided_index<1> in, out;
} sides;

template <class T> static weir_status count_by(const weir_kargs *k, const sides *s)
{
    return weir_launch(k, move_count<T>, weir_cuda_blocks(s->in.count), WEIR_CUDA_THREADS,
                       (T *)k->dst[0], (const T *)k->src[0], s->in, s->out);
}

static weir_status count_run(const weir_kargs *k)
{
    const sides *const s = (const sides *)k->state;
    return WEIR_BY_UNIT(s->size, count_by, k, s);
}

static weir_status count_choose(const weir_layout *in, const weir_layout *to, weir_kernel *out)
{
    sides *const s = (sides *)weir_mem_alloc(sizeof *s);

    if (!s)
        return WEIR_ERR_NOMEM;
    *s = (sides){weir_dtype_size(to->desc.dtype), side_of(in), side_of(to)};
    *out = (weir_kernel){.run = count_run, .state = s, .destroy = weir_mem_free, .impl = "cuda"};
    return WEIR_OK;
}

/* ---- copies ---- */

typedef struct move {
    weir_copy_plan plan;
    size_t         size;
    int64_t        count;
} move;

static weir_status bytes_run(const weir_kargs *k)
{
    const move *const m = (const move *)k->state;

    WEIR_CUDA_TRY(k->call, cudaMemcpyAsync(k->dst[0], k->src[0], (size_t)m->count * m->size,
                                           cudaMemcpyDeviceToDevice, weir_cuda_stream(k)));
    return WEIR_OK;
}

static weir_status each_run(const weir_kargs *k)
{
    const move *const  m = (const move *)k->state;
    const uint64_t     places = (uintptr_t)k->src[0] | (uintptr_t)k->dst[0] | m->plan.places;
    const size_t       unit = weir_unit(places, m->size);
    const weir_strided_index<2> w = index_of(&m->plan, (int64_t)(unit / m->size));

    return WEIR_BY_UNIT(unit, each_by, k, w);
}

static weir_status tiles_run(const weir_kargs *k)
{
    const move *const m = (const move *)k->state;
    const tiles       t = tiles_of(&m->plan);

    switch (m->size) {
    case 1: return tiles_by<uint8_t, 64 * 64>(k, t);
    case 2: return tiles_by<uint16_t, 64 * 64>(k, t);
    case 4: return tiles_by<uint32_t, 32 * 32>(k, t);
    default: return tiles_by<uint64_t, 32 * 32>(k, t);
    }
}

static weir_status move_choose(const weir_copy_plan *p, const weir_desc *to,
                               weir_status (*run)(const weir_kargs *), weir_kernel *out)
{
    move *const m = (move *)weir_mem_alloc(sizeof *m);

    if (!m)
        return WEIR_ERR_NOMEM;
    *m = (move){*p, weir_dtype_size(to->dtype), weir_shape_count(to)};
    *out = (weir_kernel){.run = run, .state = m, .destroy = weir_mem_free, .impl = "cuda"};
    return WEIR_OK;
}

weir_status weir_cuda_copy(weir_device *d, const weir_call *c, weir_kernel *out)
{
    static weir_status (*const run[])(const weir_kargs *) = {weir_run_nothing, bytes_run, each_run,
                                                             tiles_run};
    const weir_layout *const   in = &c->in[0], *const to = &c->out[0];
    const weir_copy_plan       p = weir_copy_plan_of(in, to, weir_dtype_size(to->desc.dtype));

    (void)d;
    if (p.way == WEIR_COPY_COUNT)
        return count_choose(in, to, out);
    return move_choose(&p, &to->desc, run[p.way], out);
}

/* ---- casts ---- */

/* N elements at a time, of dense operands. */
template <class From, class To, int N>
static __global__ void cast_dense(To *to, const From *from, int64_t n)
{
    WEIR_EACH(i, n / N) {
        const weir_lot<From, N> in = ((const weir_lot<From, N> *)from)[i];
        weir_lot<To, N>         out;
        for (int k = 0; k < N; k++)
            convert(&out.at[k], in.at[k]);
        ((weir_lot<To, N> *)to)[i] = out;
    }
    const int64_t rest = n / N * N + (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (rest < n)
        convert(&to[rest], from[rest]);
}

template <class From, class To> static weir_status cast_run(const weir_kargs *k)
{
    constexpr int     N = 16 / (sizeof(From) > sizeof(To) ? sizeof(From) : sizeof(To));
    const move *const m = (const move *)k->state;
    const bool        aligned = (uintptr_t)k->src[0] % (sizeof(From) * N) == 0 &&
                                (uintptr_t)k->dst[0] % (sizeof(To) * N) == 0;

    if (m->plan.way == WEIR_COPY_BYTES && aligned)
        return weir_launch(k, cast_dense<From, To, N>, weir_cuda_blocks(ceil_div(m->count, N)),
                           WEIR_CUDA_THREADS, (To *)k->dst[0], (const From *)k->src[0], m->count);
    const weir_strided_index<2> w = index_of(&m->plan, 1);
    return weir_launch(k, move_each<From, To>, weir_blocks_of(w.count, WEIR_CHUNK),
                       WEIR_CUDA_THREADS, (To *)k->dst[0], (const From *)k->src[0], w);
}

typedef weir_status (*run_fn)(const weir_kargs *k);

/* Indexed in the order of weir_dtype. */
#define CASTS_FROM(T)                                                                              \
    {cast_run<T, float>, cast_run<T, double>, cast_run<T, int32_t>, cast_run<T, int64_t>,          \
     cast_run<T, uint8_t>, cast_run<T, weir_b8>, cast_run<T, weir_f16>, cast_run<T, weir_bf16>,    \
     cast_run<T, int8_t>, cast_run<T, int16_t>, cast_run<T, uint16_t>, cast_run<T, uint32_t>,      \
     cast_run<T, uint64_t>}

static const run_fn casts[][WEIR_DTYPES] = {
    CASTS_FROM(float),    CASTS_FROM(double),   CASTS_FROM(int32_t),  CASTS_FROM(int64_t),
    CASTS_FROM(uint8_t),  CASTS_FROM(weir_b8),  CASTS_FROM(weir_f16), CASTS_FROM(weir_bf16),
    CASTS_FROM(int8_t),   CASTS_FROM(int16_t),  CASTS_FROM(uint16_t), CASTS_FROM(uint32_t),
    CASTS_FROM(uint64_t),
};

/* Equal dims always have common factors. */
weir_status weir_cuda_cast(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_layout *const in = &c->in[0], *const to = &c->out[0];
    const weir_dtype         type = to->desc.dtype;

    if (in->desc.dtype == type)
        return weir_cuda_copy(d, c, out);
    const weir_copy_plan p = weir_copy_plan_of(in, to, weir_dtype_size(type));
    const run_fn         run = casts[in->desc.dtype][type];
    return move_choose(&p, &to->desc, p.way == WEIR_COPY_NOTHING ? weir_run_nothing : run, out);
}

/* Moves whole elements: the type they are read as does not matter. */
weir_status weir_cuda_bit_cast(weir_device *d, const weir_call *c, weir_kernel *out)
{
    weir_layout from = c->in[0];
    weir_call   copy = *c;

    from.desc.dtype = c->out[0].desc.dtype;
    copy.in = &from;
    return weir_cuda_copy(d, &copy, out);
}

/* ---- fill ---- */

typedef struct fill_state {
    weir_splat element;
    size_t     size;
    int64_t    n;
    bool       same;            /* all bytes are equal */
} fill_state;

template <class T> static __global__ void fill(T *to, weir_splat element, int64_t n)
{
    T value;

    memcpy(&value, element.byte, sizeof value);
    WEIR_EACH(i, n) to[i] = value;
}

template <class T> static weir_status fill_by(const weir_kargs *k, const fill_state *s)
{
    const int64_t n = s->n * (int64_t)s->size / (int64_t)sizeof(T);
    return weir_launch(k, fill<T>, weir_cuda_blocks(n), WEIR_CUDA_THREADS, (T *)k->dst[0],
                       s->element, n);
}

static weir_status fill_run(const weir_kargs *k)
{
    const fill_state *const s = (const fill_state *)k->state;
    const size_t            bytes = (size_t)s->n * s->size;

    if (s->same) {
        WEIR_CUDA_TRY(k->call, cudaMemsetAsync(k->dst[0], s->element.byte[0], bytes,
                                               weir_cuda_stream(k)));
        return WEIR_OK;
    }
    const size_t unit = weir_unit((uintptr_t)k->dst[0] | bytes, s->size);
    return WEIR_BY_UNIT(unit, fill_by, k, s);
}

weir_status weir_cuda_fill(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_fill_attr *const a = (const weir_fill_attr *)c->attr;
    const weir_desc *const      to = &c->out[0].desc;
    fill_state *const           s = (fill_state *)weir_mem_alloc(sizeof *s);
    char                        element[8];

    (void)d;
    if (!s)
        return WEIR_ERR_NOMEM;
    weir_encode(a->value, to->dtype, element);
    *s = (fill_state){weir_splat_of(element, weir_dtype_size(to->dtype)),
                      weir_dtype_size(to->dtype), weir_shape_count(to), true};
    for (size_t i = 1; i < sizeof s->element.byte; i++)
        s->same = s->same && s->element.byte[i] == s->element.byte[0];
    *out = (weir_kernel){.run = s->n > 0 ? fill_run : weir_run_nothing, .state = s,
                         .destroy = weir_mem_free, .impl = "cuda"};
    return WEIR_OK;
}

/* ---- range ---- */

template <class T> static __global__ void arange(T *to, double start, double step, int64_t n)
{
    WEIR_EACH(i, n) weir_put(&to[i], start + (double)i * step);
}

template <class T> static weir_status arange_by(const weir_kargs *k, const weir_arange_attr *a)
{
    return weir_launch(k, arange<T>, weir_cuda_blocks(a->count), WEIR_CUDA_THREADS,
                       (T *)k->dst[0], a->start, a->step, a->count);
}

static weir_status arange_run(const weir_kargs *k)
{
    const weir_arange_attr *const a = (const weir_arange_attr *)k->state;
    return WEIR_BY_DTYPE(a->dtype, arange_by, k, a);
}

weir_status weir_cuda_arange(weir_device *d, const weir_call *c, weir_kernel *out)
{
    weir_arange_attr *const a = (weir_arange_attr *)weir_mem_alloc(sizeof *a);

    (void)d;
    if (!a)
        return WEIR_ERR_NOMEM;
    *a = *(const weir_arange_attr *)c->attr;
    *out = (weir_kernel){.run = arange_run, .state = a, .destroy = weir_mem_free, .impl = "cuda"};
    return WEIR_OK;
}
