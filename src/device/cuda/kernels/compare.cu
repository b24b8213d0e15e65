/* compare.cu - comparisons, logic on bool, where: any strides in, a dense output.
 *
 * Axes are put into the output's physical order and merged where all operands are contiguous. A
 * thread computes four adjacent outputs at a time, the remainder of a single axis one by one; where
 * an operand's four elements are adjacent, or one element, they are read together. A bool is
 * written as 0 or 1; when read, any nonzero byte is true. A result may share the memory of an input
 * of the same layout: each element is read before it is written. */
#include "device/cuda/kernels/convert.h"
#include "device/cuda/kernels/kernels.h"
#include "device/cuda/kernels/index.h"

enum { OPERANDS = 3, FOUR = 4 };

typedef enum relation { EQ, NE, LT, LE, GT, GE, AND, OR, NOT } relation;

typedef struct compare {
    relation            is;
    weir_strided_index<OPERANDS> index;
    /* The four elements of each operand are adjacent (1) or the same element (0); together: that
     * holds for all operands. */
    bool                together;
    int                 beside[OPERANDS];
    size_t              size[OPERANDS];
    int                 nin;
    weir_dtype          type;
} compare;

template <class T> using four = weir_lot<T, FOUR>;

/* Four elements from `at`: adjacent ones, or one repeated. */
template <class T> static __device__ inline four<T> four_of(const T *at, int beside)
{
    four<T> v;

    if (beside)
        return *(const four<T> *)at;
    const T one = *at;
    for (int e = 0; e < FOUR; e++)
        v.at[e] = one;
    return v;
}

template <class V> static __device__ inline uint8_t related(relation is, V a, V b)
{
    switch (is) {
    case EQ: return a == b;
    case NE: return a != b;
    case LT: return a < b;
    case LE: return a <= b;
    case GT: return a > b;
    case GE: return a >= b;
    case AND: return a != 0 && b != 0;
    case OR: return a != 0 || b != 0;
    default: return a == 0;
    }
}

template <class T>
static __device__ inline uint8_t compare_two(relation is, const T &a, const T &b)
{
    return related(is, weir_value(a), weir_value(b));
}

/* NOT: b is a again. */
template <class T>
static __global__ void compare_each(uint8_t *to, const T *a, const T *b, relation is,
                                    weir_strided_index<OPERANDS> index)
{
    WEIR_EACH(i, index.count) {
        int64_t at[OPERANDS];
        weir_strided_index_at(index, i, at);
        to[i] = compare_two(is, a[at[0]], b[at[1]]);
    }
}

template <class T>
static __global__ void compare_four(uint8_t *to, const T *a, const T *b, relation is,
                                    weir_strided_index<OPERANDS> index, int64_t n, int beside_a,
                                    int beside_b)
{
    WEIR_EACH(i, index.count) {
        int64_t at[OPERANDS];
        weir_strided_index_at(index, i, at);
        const four<T> x = four_of(a + at[0], beside_a), y = four_of(b + at[1], beside_b);
        four<uint8_t> r;
        for (int e = 0; e < FOUR; e++)
            r.at[e] = compare_two(is, x.at[e], y.at[e]);
        ((four<uint8_t> *)to)[i] = r;
    }
    const int64_t i = index.count * FOUR + (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        to[i] = compare_two(is, a[i * beside_a], b[i * beside_b]);
}

/* Selects the bits of a or b, whatever the type. */
template <class T>
static __global__ void where_each(T *to, const uint8_t *c, const T *a, const T *b,
                                  weir_strided_index<OPERANDS> index)
{
    WEIR_EACH(i, index.count) {
        int64_t at[OPERANDS];
        weir_strided_index_at(index, i, at);
        const T x = a[at[1]], y = b[at[2]];
        to[i] = c[at[0]] != 0 ? x : y;
    }
}

template <class T>
static __global__ void where_four(T *to, const uint8_t *c, const T *a, const T *b,
                                  weir_strided_index<OPERANDS> index, int64_t n, int beside_c,
                                  int beside_a, int beside_b)
{
    WEIR_EACH(i, index.count) {
        int64_t at[OPERANDS];
        weir_strided_index_at(index, i, at);
        const four<uint8_t> which = four_of(c + at[0], beside_c);
        const four<T>       x = four_of(a + at[1], beside_a), y = four_of(b + at[2], beside_b);
        four<T>             r;
        for (int e = 0; e < FOUR; e++)
            r.at[e] = which.at[e] != 0 ? x.at[e] : y.at[e];
        ((four<T> *)to)[i] = r;
    }
    const int64_t i = index.count * FOUR + (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const T x = a[i * beside_a], y = b[i * beside_b];
        to[i] = c[i * beside_c] != 0 ? x : y;
    }
}

/* ---- running ---- */

/* True if the addresses are aligned for groups of four. */
static bool fours(const weir_kargs *k, const compare *p, size_t out_size)
{
    bool fit = p->together && (uintptr_t)k->dst[0] % (FOUR * out_size) == 0;

    for (int i = 0; i < p->nin; i++)
        fit = fit && (!p->beside[i] || (uintptr_t)k->src[i] % (FOUR * p->size[i]) == 0);
    return fit;
}

/* The index for groups of four; the remainder is left out. */
static weir_strided_index<OPERANDS> by_four(const compare *p)
{
    weir_strided_index<OPERANDS> w = {};

    for (int i = 0; i < p->index.n; i++) {
        const bool last = i == p->index.n - 1;
        int64_t    step[OPERANDS];
        for (int k = 0; k < OPERANDS; k++)
            step[k] = p->index.at[i].step[k] * (last ? FOUR : 1);
        weir_strided_index_add(&w, p->index.at[i].dim.by / (last ? FOUR : 1), step);
    }
    return w;
}

template <class T> static weir_status compare_by(const weir_kargs *k, const compare *p)
{
    const T *const a = (const T *)k->src[0], *const b = p->nin > 1 ? (const T *)k->src[1] : a;
    const int      beside_b = p->beside[p->nin - 1];

    if (!fours(k, p, 1))
        return weir_launch(k, compare_each<T>, weir_cuda_blocks(p->index.count), WEIR_CUDA_THREADS,
                           (uint8_t *)k->dst[0], a, b, p->is, p->index);
    const weir_strided_index<OPERANDS> w = by_four(p);
    return weir_launch(k, compare_four<T>, weir_cuda_blocks(w.count), WEIR_CUDA_THREADS,
                       (uint8_t *)k->dst[0], a, b, p->is, w, p->index.count, p->beside[0],
                       beside_b);
}

template <class T> static weir_status where_by(const weir_kargs *k, const compare *p)
{
    const uint8_t *const c = (const uint8_t *)k->src[0];
    const T *const       a = (const T *)k->src[1], *const b = (const T *)k->src[2];

    if (!fours(k, p, sizeof(T)))
        return weir_launch(k, where_each<T>, weir_cuda_blocks(p->index.count), WEIR_CUDA_THREADS,
                           (T *)k->dst[0], c, a, b, p->index);
    const weir_strided_index<OPERANDS> w = by_four(p);
    return weir_launch(k, where_four<T>, weir_cuda_blocks(w.count), WEIR_CUDA_THREADS,
                       (T *)k->dst[0], c, a, b, w, p->index.count, p->beside[0], p->beside[1],
                       p->beside[2]);
}

static weir_status compare_run(const weir_kargs *k)
{
    const compare *const p = (const compare *)k->state;
    return WEIR_BY_DTYPE(p->type, compare_by, k, p);
}

static weir_status where_run(const weir_kargs *k)
{
    const compare *const p = (const compare *)k->state;

    switch (p->size[1]) {
    case 1: return where_by<uint8_t>(k, p);
    case 2: return where_by<uint16_t>(k, p);
    case 4: return where_by<uint32_t>(k, p);
    default: return where_by<uint64_t>(k, p);
    }
}

/* ---- selecting ---- */

typedef struct merged {
    int64_t dim, step[OPERANDS];
} merged;

/* Puts axes into the output's physical order and merges contiguous ones; returns their number. */
static int merged_axes(const weir_call *c, merged axis[WEIR_MAX_DIMS])
{
    weir_layout view[OPERANDS];
    int         order[WEIR_MAX_DIMS], m = 0;
    const int   n = axes_in_memory_order(&c->out[0], order);

    for (int i = 0; i < c->nin; i++)
        weir_shape_expand(&c->in[i], &c->out[0].desc, &view[i]);
    for (int k = 0; k < n; k++) {
        merged x = {c->out[0].desc.dim[order[k]], {}};
        bool   on = m > 0;
        for (int i = 0; i < c->nin; i++) {
            x.step[i] = view[i].stride[order[k]];
            on = on && axis[m - 1].step[i] == x.dim * x.step[i];
        }
        if (on)
            x.dim *= axis[--m].dim;
        axis[m++] = x;
    }
    return m;
}

static void plan(const weir_call *c, compare *p)
{
    merged    axis[WEIR_MAX_DIMS];
    const int n = merged_axes(c, axis);

    p->index.count = 1;
    for (int i = 0; i < n; i++)
        weir_strided_index_add(&p->index, axis[i].dim, axis[i].step);
    p->together = n > 0 && axis[n - 1].dim >= FOUR && (n == 1 || axis[n - 1].dim % FOUR == 0);
    for (int i = 0; i < c->nin && n > 0; i++) {
        const int64_t inner = axis[n - 1].step[i];
        p->beside[i] = inner == 1;
        p->together = p->together && (inner == 0 || inner == 1);
        for (int k = 0; k < n - 1 && p->beside[i]; k++)
            p->together = p->together && axis[k].step[i] % FOUR == 0;
    }
}

static weir_status choose(const weir_call *c, relation is, weir_kernel *out)
{
    compare *const p = (compare *)weir_mem_zalloc(1, sizeof *p);
    const bool     any = weir_shape_count(&c->out[0].desc) > 0;

    if (!p)
        return WEIR_ERR_NOMEM;
    p->is = is;
    p->nin = c->nin;
    p->type = c->in[c->nin - 1].desc.dtype;
    for (int i = 0; i < c->nin; i++)
        p->size[i] = weir_dtype_size(c->in[i].desc.dtype);
    if (any)
        plan(c, p);
    *out = (weir_kernel){.run = !any                 ? weir_run_nothing
                                : c->nin == OPERANDS ? where_run
                                                     : compare_run,
                         .state = p, .destroy = weir_mem_free, .impl = "cuda"};
    return WEIR_OK;
}

/* ---- the ops ---- */

#define KERNEL(id, is)                                                                             \
    weir_status weir_cuda_##id(weir_device *d, const weir_call *c, weir_kernel *out)               \
    {                                                                                              \
        (void)d;                                                                                   \
        return choose(c, is, out);                                                                 \
    }

KERNEL(eq, EQ)
KERNEL(ne, NE)
KERNEL(lt, LT)
KERNEL(le, LE)
KERNEL(gt, GT)
KERNEL(ge, GE)
KERNEL(logical_and, AND)
KERNEL(logical_or, OR)
KERNEL(logical_xor, NE)
KERNEL(logical_not, NOT)
KERNEL(where, EQ)
