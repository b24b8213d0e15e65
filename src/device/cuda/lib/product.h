/* product.h - a matrix product, and everything that follows from its sizes alone: merged batch
 * axes, the call of cuBLASLt, the division of work in our own kernel.
 *
 * C = op(A) op(B), plus a bias row, plus a matrix of C's size, for a batch of matrices. All are
 * row-major with a leading dimension; op(A) is m x k, op(B) is k x n. */
#ifndef WEIR_DEVICE_CUDA_LIB_PRODUCT_H
#define WEIR_DEVICE_CUDA_LIB_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "core/dtype.h"
#include "device/common/div.h"

#ifdef __CUDACC__
#define WEIR_PRODUCT_FN static inline __host__ __device__     /* kernels call it as well */
#else
#define WEIR_PRODUCT_FN static inline
#endif

typedef struct weir_product {
    weir_dtype dtype;               /* of all matrices; halves are summed in f32 */
    bool       ta, tb;              /* A is stored k x m; B is stored n x k */
    bool       bias, add;           /* adds a row of n elements; adds a matrix stored like C */
    int64_t    m, n, k;
    int64_t    lda, ldb, ldc;       /* elements from row to row as stored */
    /* The batch: axes, outermost first, with strides in elements between matrices; 0 repeats. */
    int        axes;
    int64_t    dim[WEIR_MAX_DIMS];
    int64_t    step_a[WEIR_MAX_DIMS], step_b[WEIR_MAX_DIMS], step_c[WEIR_MAX_DIMS];
} weir_product;

/* Addresses of the matrices; bias and add if the product has them. add may equal to. */
typedef struct weir_operands {
    const void *a, *b, *bias, *add;
    void       *to;
    void       *work;       /* workspace of the plan's size */
} weir_operands;

static inline int64_t weir_product_count(const weir_product *p)
{
    int64_t n = 1;
    for (int i = 0; i < p->axes; i++)
        n *= p->dim[i];
    return n;
}

/* True if axes a and b (the next inner one) of all three operands form one axis. */
static inline bool weir_product_joined(const weir_product *p, int a, int b)
{
    return p->step_a[a] == p->dim[b] * p->step_a[b] && p->step_b[a] == p->dim[b] * p->step_b[b] &&
           p->step_c[a] == p->dim[b] * p->step_c[b];
}

static inline void weir_product_move(weir_product *p, int to, int from)
{
    p->dim[to] = p->dim[from];
    p->step_a[to] = p->step_a[from];
    p->step_b[to] = p->step_b[from];
    p->step_c[to] = p->step_c[from];
}

/* Drops axes of size 1 and merges contiguous ones. */
static inline void weir_product_merge(weir_product *p)
{
    int n = 0;
    for (int i = 0; i < p->axes; i++) {
        if (p->dim[i] == 1)
            continue;
        if (n > 0 && weir_product_joined(p, n - 1, i)) {
            const int64_t dim = p->dim[n - 1];
            weir_product_move(p, n - 1, i);
            p->dim[n - 1] *= dim;
        } else {
            weir_product_move(p, n++, i);
        }
    }
    p->axes = n;
}

/* Offsets in elements of product i's matrices. */
WEIR_PRODUCT_FN void weir_product_at(const weir_product *p, int64_t i, int64_t *a, int64_t *b,
                                     int64_t *c)
{
    *a = *b = *c = 0;
    for (int x = p->axes - 1; x >= 0; x--) {
        const int64_t rest = x > 0 ? i / p->dim[x] : 0, at = i - rest * p->dim[x];
        *a += at * p->step_a[x];
        *b += at * p->step_b[x];
        *c += at * p->step_c[x];
        i = rest;
    }
}

/* The largest power of two up to `most` bytes that divides a matrix's leading dimension and
 * strides; the address of a part of a tensor along its first axis is also a multiple of it. */
static inline int64_t weir_product_align(const weir_product *p, int64_t ld, const int64_t *step,
                                         int64_t most)
{
    const int64_t size = (int64_t)weir_dtype_size(p->dtype);
    int64_t       align = most;
    while (align > size && ld * size % align != 0)
        align /= 2;
    for (int i = 0; i < p->axes; i++)
        while (align > size && step[i] * size % align != 0)
            align /= 2;
    return align;
}

/* ---- our own kernel: gemm.cu ---- */

/* Side of the square tile that a block computes. */
typedef enum weir_gemm_tile {
    WEIR_GEMM_SMALL = 32,
    WEIR_GEMM_MEDIUM = 64,
    WEIR_GEMM_LARGE = 128
} weir_gemm_tile;

enum {
    WEIR_GEMM_FILLS = 128,          /* blocks needed to fill a card */
    WEIR_GEMM_SLICE = 256,          /* terms that are worth a slice */
    WEIR_GEMM_SLICES = 64
};

static inline int64_t weir_gemm_tiles(const weir_product *p, int64_t tile)
{
    return ceil_div(p->m, tile) * ceil_div(p->n, tile) * weir_product_count(p);
}

static inline weir_gemm_tile weir_gemm_tile_of(const weir_product *p)
{
    if (p->dtype != WEIR_F64 && weir_gemm_tiles(p, WEIR_GEMM_LARGE) >= WEIR_GEMM_FILLS &&
        p->m > WEIR_GEMM_MEDIUM && p->n > WEIR_GEMM_MEDIUM)
        return WEIR_GEMM_LARGE;
    return min64(p->m, p->n) > WEIR_GEMM_SMALL ? WEIR_GEMM_MEDIUM : WEIR_GEMM_SMALL;
}

/* Number of slices into which each sum is divided; more than one are combined in the workspace. */
static inline int64_t weir_gemm_slices(const weir_product *p)
{
    const int64_t tiles = weir_gemm_tiles(p, weir_gemm_tile_of(p));
    if (tiles == 0)
        return 1;
    const int64_t most = min64(p->k / WEIR_GEMM_SLICE, WEIR_GEMM_SLICES);
    return max64(1, min64(most, WEIR_GEMM_FILLS / tiles));
}

/* Terms of a slice; the last one may have fewer. */
static inline int64_t weir_gemm_slice(const weir_product *p)
{
    const int64_t slices = weir_gemm_slices(p), unit = 16;
    return max64(unit, ceil_div(ceil_div(p->k, slices), unit) * unit);
}

/* Bytes of the workspace; partial sums have the type of accumulation. */
static inline size_t weir_gemm_work(const weir_product *p)
{
    const int64_t slices = weir_gemm_slices(p);
    const size_t  size = p->dtype == WEIR_F64 ? sizeof(double) : sizeof(float);
    return slices > 1 ? (size_t)(slices * weir_product_count(p) * p->m * p->n) * size : 0;
}

/* ---- cuBLASLt: blas.c ----
 *
 * The library gets column-major matrices, the transposes of ours: C^T = op(B)^T op(A)^T. Its
 * operand A is our B, its m our n. Our bias row becomes its bias, with one element per row of D. */

typedef struct weir_lt_matrix {
    int64_t rows, cols, ld;         /* column-major */
    int64_t step;                   /* elements between matrices of the batch */
} weir_lt_matrix;

typedef struct weir_lt_shape {
    bool           ta, tb;          /* the library's operands A and B are transposed */
    weir_lt_matrix a, b, c;
    int64_t        batch;           /* products per call */
    int            along;           /* the batch axis of a call; -1: none */
    int64_t        calls;           /* calls for the whole batch */
} weir_lt_shape;

static inline weir_lt_shape weir_product_lt(const weir_product *p)
{
    int along = p->axes - 1;
    for (int i = p->axes - 2; i >= 0; i--)
        if (p->dim[i] > p->dim[along])
            along = i;
    weir_lt_shape s = {
        .ta = p->tb,
        .tb = p->ta,
        .a = {p->tb ? p->k : p->n, p->tb ? p->n : p->k, p->ldb, along < 0 ? 0 : p->step_b[along]},
        .b = {p->ta ? p->m : p->k, p->ta ? p->k : p->m, p->lda, along < 0 ? 0 : p->step_a[along]},
        .c = {p->n, p->m, p->ldc, along < 0 ? 0 : p->step_c[along]},
        .batch = along < 0 ? 1 : p->dim[along],
        .along = along,
        .calls = 1,
    };
    for (int i = 0; i < p->axes; i++)
        s.calls *= i == along ? 1 : p->dim[i];
    return s;
}

/* Most bytes of a workspace: what is requested, else NVIDIA's recommendation for the card's major
 * version. */
static inline size_t weir_lt_limit(int major, const char *asked)
{
    char *end = NULL;
    const unsigned long long n = asked ? strtoull(asked, &end, 10) : 0;
    if (asked && asked[0] != '-' && end != asked && !*end)
        return (size_t)n;
    return (size_t)(major >= 9 ? 32 : 4) << 20;
}

enum { WEIR_LT_CALLS = 16 };        /* for batches of more calls our own kernel is faster */

/* True if the sizes fit the library's types and there is something to compute. */
static inline bool weir_lt_takes(const weir_lt_shape *s)
{
    const int64_t most = INT32_MAX;
    return s->c.rows > 0 && s->c.cols > 0 && s->a.rows > 0 && s->a.cols > 0 && s->b.rows > 0 &&
           s->b.cols > 0 && s->batch > 0 && s->a.rows <= most && s->a.cols <= most &&
           s->b.rows <= most && s->b.cols <= most && s->c.rows <= most && s->c.cols <= most &&
           s->batch <= most && s->calls <= WEIR_LT_CALLS;
}

#endif
