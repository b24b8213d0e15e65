/* gather.cu - GATHER, GATHER_GRAD, SCATTER_ADD, ONE_HOT: rows by index.
 *
 * A row receives its additions in the order of the indices, one after another, as on the CPU, so
 * bits are the same in every run and on both devices. The thread of a row's first index, in the
 * given order or in that of a stable sort, performs all its additions. Halves are summed in f32 and
 * rounded once. An index outside the table is never followed, and reported later (fault.h). */
#include "device/cuda/kernels/convert.h"
#include "device/cuda/runtime/fault.h"
#include "device/cuda/kernels/kernels.h"
#include "device/cuda/kernels/scatter.h"
#include "device/cuda/kernels/index.h"

typedef struct rows {
    weir_dtype        type;
    bool              wide;         /* indices are i64, else i32 */
    size_t            size;         /* bytes of an element */
    int64_t           v, n, d;      /* rows of the table; indices; elements of a row */
    int               index;        /* input number of the indices */
    weir_splat        element;      /* gather: element of a missing row; one_hot: 1 */
    weir_scatter_plan plan;
} rows;

/* The indices as the call has them. */
typedef struct indices {
    const void *at;
    bool        wide;
    int64_t     v;
} indices;

/* Index i, or v if it is outside the table. */
static __device__ inline int64_t row_of(const indices &x, int64_t i)
{
    const int64_t r = x.wide ? ((const int64_t *)x.at)[i] : ((const int32_t *)x.at)[i];
    return r >= 0 && r < x.v ? r : x.v;
}

static indices indices_of(const weir_kargs *k, const rows *s)
{
    return (indices){k->src[s->index], s->wide, s->v};
}

static weir_status rows_choose(const rows *s, weir_status (*run)(const weir_kargs *k),
                               weir_kernel *out)
{
    rows *const own = (rows *)weir_mem_alloc(sizeof *own);

    if (!own)
        return WEIR_ERR_NOMEM;
    *own = *s;
    *out = (weir_kernel){.run = run, .work = s->plan.work, .state = own, .destroy = weir_mem_free,
                         .impl = "cuda"};
    return WEIR_OK;
}

/* ---- gather ---- */

/* n units of T, `row` of them per row. */
template <class T>
static __global__ void gather(T *to, const T *table, indices x, weir_divisor row, bool wide,
                              int64_t n, weir_splat missing)
{
    T none;

    memcpy(&none, missing.byte, sizeof none);
    WEIR_EACH(i, n) {
        const int64_t at = weir_divide(i, row, wide), from = row_of(x, at);
        to[i] = from < x.v ? table[from * row.by + (i - at * row.by)] : none;
    }
}

template <class T> static weir_status gather_by(const weir_kargs *k, const rows *s)
{
    const int64_t row = s->d * (int64_t)s->size / (int64_t)sizeof(T), n = s->n * row;

    return weir_launch(k, gather<T>, weir_cuda_blocks(n), WEIR_CUDA_THREADS, (T *)k->dst[0],
                       (const T *)k->src[0], indices_of(k, s), weir_divisor_of(row),
                       n >= WEIR_NARROW_END, n, s->element);
}

static weir_status gather_run(const weir_kargs *k)
{
    const rows *const s = (const rows *)k->state;
    const uint64_t    places = (uintptr_t)k->src[0] | (uintptr_t)k->dst[0] |
                               (uint64_t)s->d * s->size;

    WEIR_TRY(weir_cuda_check_index(k, s->index, s->v));
    if (s->n == 0 || s->d == 0)
        return WEIR_OK;
    return WEIR_BY_UNIT(weir_unit(places, s->size), gather_by, k, s);
}

weir_status weir_cuda_gather(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_gather_attr *const a = (const weir_gather_attr *)c->attr;
    const weir_desc *const        table = &c->in[0].desc;
    char                          element[8];
    rows s = {.type = table->dtype, .wide = c->in[1].desc.dtype == WEIR_I64,
              .size = weir_dtype_size(table->dtype), .v = table->dim[0],
              .n = c->in[1].desc.dim[0], .d = table->dim[1], .index = 1};

    (void)d;
    weir_encode(weir_is_any_float(s.type) ? a->missing : 0, s.type, element);
    s.element = weir_splat_of(element, s.size);
    return rows_choose(&s, gather_run, out);
}

/* ---- sorting ---- */

/* Indices of a pass: results of the previous pass, or the call's (row NULL). */
typedef struct numbered {
    const uint32_t *row, *at;
    indices         given;
    int64_t         n;
    int             shift;          /* bits below the digit of this pass */
} numbered;

/* The row number of index i. */
static __device__ inline int64_t number_of(const numbered &x, int64_t i)
{
    return x.row ? (int64_t)x.row[i] : row_of(x.given, i);
}

static __device__ inline int digit_of(int64_t row, int shift)
{
    return (int)(row >> shift & (WEIR_SCATTER_VALUES - 1));
}

/* count[digit][chunk] = occurrences in the chunk; one thread per digit. */
static __global__ void sort_count(uint32_t *count, numbered x)
{
    __shared__ unsigned of_digit[WEIR_SCATTER_VALUES];
    const int           t = (int)threadIdx.x;
    const int64_t       first = (int64_t)blockIdx.x * WEIR_SCATTER_CHUNK;

    of_digit[t] = 0;
    __syncthreads();
    for (int64_t i = first + t; i < first + WEIR_SCATTER_CHUNK && i < x.n; i += blockDim.x)
        atomicAdd(&of_digit[digit_of(number_of(x, i), x.shift)], 1u);
    __syncthreads();
    count[(int64_t)t * gridDim.x + blockIdx.x] = of_digit[t];
}

/* Exclusive sum over the threads before this one; *all: over all threads. */
static __device__ inline uint32_t before_me(uint32_t mine, uint32_t *sum, uint32_t *all)
{
    const int t = (int)threadIdx.x;

    sum[t] = mine;
    __syncthreads();
    for (int by = 1; by < WEIR_SCATTER_VALUES; by *= 2) {
        const uint32_t other = t >= by ? sum[t - by] : 0;
        __syncthreads();
        sum[t] += other;
        __syncthreads();
    }
    const uint32_t before = sum[t] - mine;
    *all = sum[WEIR_SCATTER_VALUES - 1];
    __syncthreads();
    return before;
}

/* Turns the counts of a block's digit into exclusive sums over chunks; total[digit]: of all. */
static __global__ void sort_sum(uint32_t *count, uint32_t *total, int64_t chunks)
{
    __shared__ uint32_t sum[WEIR_SCATTER_VALUES];
    uint32_t *const     mine = count + (int64_t)blockIdx.x * chunks;
    uint32_t            so_far = 0, all;

    for (int64_t i = 0; i < chunks; i += blockDim.x) {
        const int64_t  at = i + threadIdx.x;
        const uint32_t before = before_me(at < chunks ? mine[at] : 0, sum, &all);
        if (at < chunks)
            mine[at] = so_far + before;
        so_far += all;
    }
    if (threadIdx.x == 0)
        total[blockIdx.x] = so_far;
}

/* Each thread moves the indices with its digit, in order, to their places. */
static __global__ void sort_move(uint32_t *row, uint32_t *at, numbered x, const uint32_t *count,
                                 const uint32_t *total)
{
    __shared__ uint32_t sum[WEIR_SCATTER_VALUES];
    __shared__ uint32_t chunk_row[WEIR_SCATTER_CHUNK], chunk_at[WEIR_SCATTER_CHUNK];
    const int           t = (int)threadIdx.x;
    const int64_t       first = (int64_t)blockIdx.x * WEIR_SCATTER_CHUNK;
    const int           n = (int)(x.n - first < WEIR_SCATTER_CHUNK ? x.n - first
                                                                   : WEIR_SCATTER_CHUNK);
    uint32_t            all;

    for (int i = t; i < n; i += (int)blockDim.x) {
        chunk_row[i] = (uint32_t)number_of(x, first + i);
        chunk_at[i] = x.at ? x.at[first + i] : (uint32_t)(first + i);
    }
    uint32_t to = before_me(total[t], sum, &all) + count[(int64_t)t * gridDim.x + blockIdx.x];
    for (int i = 0; i < n; i++)
        if (digit_of(chunk_row[i], x.shift) == t) {
            row[to] = chunk_row[i];
            at[to] = chunk_at[i];
            to++;
        }
}

/* Sorts; returns the sorted indices in *x. */
static weir_status sort(const weir_kargs *k, const rows *s, numbered *x)
{
    const weir_scatter_plan *const p = &s->plan;
    char *const                    work = (char *)k->work;
    uint32_t *const                count = (uint32_t *)(work + p->count);
    uint32_t *const                total = (uint32_t *)(work + p->total);
    const unsigned                 chunks = (unsigned)p->chunks;

    for (int pass = 0; pass < p->passes; pass++) {
        uint32_t *const row = (uint32_t *)(work + p->row[pass % 2]);
        uint32_t *const at = (uint32_t *)(work + p->at[pass % 2]);
        x->shift = pass * WEIR_SCATTER_DIGIT;
        WEIR_TRY(weir_launch(k, sort_count, chunks, WEIR_SCATTER_VALUES, count, *x));
        WEIR_TRY(weir_launch(k, sort_sum, WEIR_SCATTER_VALUES, WEIR_SCATTER_VALUES, count, total,
                             p->chunks));
        WEIR_TRY(weir_launch(k, sort_move, chunks, WEIR_SCATTER_VALUES, row, at, *x, count,
                             total));
        x->row = row;
        x->at = at;
    }
    return WEIR_OK;
}

/* ---- additions ---- */

/* True if i is the first index of its row; sorted ones are adjacent. */
static __device__ inline bool is_first(const numbered &x, int64_t i, int64_t row)
{
    for (int64_t j = x.row && i > 0 ? i - 1 : 0; j < i; j++)
        if (number_of(x, j) == row)
            return false;
    return true;
}

enum { AHEAD = 8 };             /* updates that are read before the first is added */

/* Element `to` plus the elements of its row's updates, from index i on; `update`: element of the
 * first update. Integers wrap. */
template <class T>
static __device__ inline void add_up(T *to, const T *update, const numbered &x, int64_t d,
                                     int64_t row, int64_t i)
{
    typedef typename weir_real<T>::type real;
    real sum = weir_load(to);

    for (bool on = true; on && i < x.n; i += AHEAD) {
        real next[AHEAD];
        bool mine[AHEAD];
        for (int a = 0; a < AHEAD; a++) {
            const int64_t j = i + a;
            mine[a] = j < x.n && number_of(x, j) == row;
            next[a] = mine[a] ? weir_load(&update[(x.at ? x.at[j] : j) * d]) : (real)0;
        }
        for (int a = 0; a < AHEAD; a++)
            if (mine[a])
                sum = (real)(sum + next[a]);
        on = !x.row || mine[AHEAD - 1];
    }
    weir_cuda_offload(to, sum);
}

/* `lanes` threads per index, adjacent in a row of d elements. */
template <class T>
static __global__ void add_rows(T *to, const T *update, numbered x, int64_t d, int lanes)
{
    const int     lane = (int)threadIdx.x % lanes, groups = (int)blockDim.x / lanes;
    const int64_t step = (int64_t)gridDim.x * groups, across = (int64_t)gridDim.y * lanes;

    for (int64_t i = (int64_t)blockIdx.x * groups + (int)threadIdx.x / lanes; i < x.n; i += step) {
        const int64_t row = number_of(x, i);
        if (row == x.given.v || !is_first(x, i, row))
            continue;
        for (int64_t e = (int64_t)blockIdx.y * lanes + lane; e < d; e += across)
            add_up(&to[row * d + e], update + e, x, d, row, i);
    }
}

template <class T> static weir_status add_by(const weir_kargs *k, const rows *s, const numbered *x)
{
    const int     lanes = weir_scatter_lanes(s->d), groups = WEIR_CUDA_THREADS / lanes;
    const int64_t across = ceil_div(s->d, lanes);
    const dim3    grid((unsigned)min64(ceil_div(s->n, groups), WEIR_CUDA_BLOCKS),
                       (unsigned)min64(across, 1024));

    return weir_launch(k, add_rows<T>, grid, WEIR_CUDA_THREADS, (T *)k->dst[0],
                       (const T *)k->src[s->index + 1], *x, s->d, lanes);
}

/* Writes the table before the additions: x, or zeros without x. */
static weir_status begin(const weir_kargs *k, const rows *s)
{
    const size_t bytes = (size_t)(s->v * s->d) * s->size;

    if (s->index == 0)
        WEIR_CUDA_TRY(k->call, cudaMemsetAsync(k->dst[0], 0, bytes, weir_cuda_stream(k)));
    else if (k->src[0] != k->dst[0])
        WEIR_CUDA_TRY(k->call, cudaMemcpyAsync(k->dst[0], k->src[0], bytes,
                                               cudaMemcpyDeviceToDevice, weir_cuda_stream(k)));
    return WEIR_OK;
}

static weir_status scatter_run(const weir_kargs *k)
{
    const rows *const s = (const rows *)k->state;
    numbered          x = {NULL, NULL, indices_of(k, s), s->n, 0};

    WEIR_TRY(weir_cuda_check_index(k, s->index, s->v));
    if (s->d == 0 || s->v == 0)
        return WEIR_OK;
    WEIR_TRY(begin(k, s));
    if (s->n == 0)
        return WEIR_OK;
    WEIR_TRY(sort(k, s, &x));
    switch (s->type) {
    case WEIR_F32: return add_by<float>(k, s, &x);
    case WEIR_F64: return add_by<double>(k, s, &x);
    case WEIR_I32: return add_by<uint32_t>(k, s, &x);
    case WEIR_I64: return add_by<uint64_t>(k, s, &x);
    case WEIR_U8: return add_by<uint8_t>(k, s, &x);
    case WEIR_F16: return add_by<weir_f16>(k, s, &x);
    default: return add_by<weir_bf16>(k, s, &x);
    }
}

/* The inputs from `index` on are the indices (n) and the updates (n,d). */
static weir_status scatter_choose(const weir_call *c, int index, weir_kernel *out)
{
    const weir_desc *const to = &c->out[0].desc;

    if (to->dtype == WEIR_BOOL)
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "no CUDA kernel adds rows of %s",
                              weir_dtype_name(to->dtype));
    rows s = {.type = to->dtype, .wide = c->in[index].desc.dtype == WEIR_I64,
              .size = weir_dtype_size(to->dtype), .v = to->dim[0],
              .n = c->in[index].desc.dim[0], .d = to->dim[1], .index = index};
    s.plan = weir_scatter_plan_of(s.v, s.n);
    return rows_choose(&s, scatter_run, out);
}

weir_status weir_cuda_gather_grad(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    return scatter_choose(c, 0, out);
}

weir_status weir_cuda_scatter_add(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    return scatter_choose(c, 1, out);
}

/* ---- one-hot rows ---- */

/* The output has been zeroed before. */
template <class T>
static __global__ void one_hot(T *to, indices x, int64_t n, weir_splat one)
{
    T value;

    memcpy(&value, one.byte, sizeof value);
    WEIR_EACH(i, n) {
        const int64_t at = row_of(x, i);
        if (at < x.v)
            to[i * x.v + at] = value;
    }
}

template <class T> static weir_status one_hot_by(const weir_kargs *k, const rows *s)
{
    return weir_launch(k, one_hot<T>, weir_cuda_blocks(s->n), WEIR_CUDA_THREADS, (T *)k->dst[0],
                       indices_of(k, s), s->n, s->element);
}

static weir_status one_hot_run(const weir_kargs *k)
{
    const rows *const s = (const rows *)k->state;

    WEIR_TRY(weir_cuda_check_index(k, s->index, s->v));
    if (s->n == 0 || s->v == 0)
        return WEIR_OK;
    WEIR_CUDA_TRY(k->call, cudaMemsetAsync(k->dst[0], 0, (size_t)(s->n * s->v) * s->size,
                                           weir_cuda_stream(k)));
    return WEIR_BY_UNIT(s->size, one_hot_by, k, s);
}

weir_status weir_cuda_one_hot(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_desc *const to = &c->out[0].desc;
    char                   element[8];
    rows s = {.type = to->dtype, .wide = c->in[0].desc.dtype == WEIR_I64,
              .size = weir_dtype_size(to->dtype), .v = to->dim[1], .n = to->dim[0],
              .d = to->dim[1]};

    (void)d;
    weir_encode(1, s.type, element);
    s.element = weir_splat_of(element, s.size);
    return rows_choose(&s, one_hot_run, out);
}
