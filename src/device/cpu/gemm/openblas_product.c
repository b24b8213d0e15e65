/* openblas_product.c - a matrix product by OpenBLAS: one part of C for each of our threads.
 *
 * OpenBLAS's own threads share a table that it allocates on the heap in every product: 512 KB in
 * Debian's build for 64 threads. No plan could count them. A call that computes alone, in a task,
 * allocates nothing, so C is divided among our threads. The parts depend on the number of threads,
 * as OpenBLAS's own do. */
#include "device/cpu/gemm/openblas_product.h"

#include <limits.h>

#include "core/status.h"
#include "device/common/div.h"

enum {
    ALIGN = 16,         /* elements that a part's sides are multiples of, a cache line of floats */
    SERIAL = 256 * 1024 /* multiply-adds up to which OpenBLAS uses one thread by itself */
};

/* A product, whose C is divided into parts of at most rows x columns, `across` side by side. */
typedef struct product {
    const weir_openblas   *blas;
    const weir_gemm_shape *shape;
    const char            *a, *b;
    char                  *c;
    int64_t                across, rows, columns;
    bool                   add;
} product;

/* C[m][n] (+)= op(A) op(B) of the product's matrices, from these elements on. */
static void multiply(const product *p, const void *a, const void *b, void *c, int64_t m, int64_t n)
{
    const weir_openblas *const   blas = p->blas;
    const weir_gemm_shape *const s = p->shape;
    const int                    ta = s->ta ? WEIR_CBLAS_TRANSPOSED : WEIR_CBLAS_PLAIN;
    const int                    tb = s->tb ? WEIR_CBLAS_TRANSPOSED : WEIR_CBLAS_PLAIN;
    const int                    lda = (int)s->lda, ldb = (int)s->ldb, ldc = (int)s->ldc;
    if (s->dtype == WEIR_F32)
        blas->sgemm(WEIR_CBLAS_ROW_MAJOR, ta, tb, (int)m, (int)n, (int)s->k, 1.0f, a, lda, b, ldb,
                    p->add ? 1.0f : 0.0f, c, ldc);
    else
        blas->dgemm(WEIR_CBLAS_ROW_MAJOR, ta, tb, (int)m, (int)n, (int)s->k, 1.0, a, lda, b, ldb,
                    p->add ? 1.0 : 0.0, c, ldc);
}

static void part_task(void *ctx, int64_t task)
{
    const product *const         p = ctx;
    const weir_gemm_shape *const s = p->shape;
    const int64_t                size = (int64_t)weir_dtype_size(s->dtype);
    const int64_t                i = task / p->across * p->rows, j = task % p->across * p->columns;
    if (i >= s->m)
        return;
    multiply(p, p->a + (s->ta ? i : i * s->lda) * size, p->b + (s->tb ? j * s->ldb : j) * size,
             p->c + (i * s->ldc + j) * size, min64(p->rows, s->m - i),
             min64(p->columns, s->n - j));
}

/* Sets the sides of the parts and returns how many there are. Each row of parts packs B again, each
 * column of parts A, so of the divisions into `threads` the one with the least packing is taken. */
static int64_t divide(product *p, int threads)
{
    const int64_t m = p->shape->m, n = p->shape->n;
    double        least = 0;
    for (int64_t down = 1; down <= threads; down++) {
        const double packed = (double)m * (double)(threads / down) + (double)n * (double)down;
        if (threads % down || (least > 0 && packed >= least))
            continue;
        least = packed;
        p->rows = ceil_div(ceil_div(m, down), ALIGN) * ALIGN;
        p->columns = ceil_div(ceil_div(n, threads / down), ALIGN) * ALIGN;
    }
    p->across = ceil_div(n, p->columns);
    return ceil_div(m, p->rows) * p->across;
}

bool weir_openblas_fits(const weir_gemm_shape *s)
{
    return s->m <= INT_MAX - ALIGN && s->n <= INT_MAX - ALIGN && s->k <= INT_MAX &&
           s->lda <= INT_MAX && s->ldb <= INT_MAX && s->ldc <= INT_MAX;
}

weir_status weir_openblas_ready(const weir_openblas *b, const weir_threads *t)
{
    const int threads = weir_openblas_threads(b, t);
    WEIR_TRY(weir_threads_lend(t));
    if (b->get_threads() != threads)
        b->set_threads(threads);
    return WEIR_OK;
}

void weir_openblas_multiply(const weir_openblas *blas, const weir_gemm_shape *s, const void *a,
                            const void *b, void *c, bool add, weir_threads *t)
{
    product p = {.blas = blas, .shape = s, .a = a, .b = b, .c = c, .add = add};

    if (!blas->alone || weir_threads_count(t) == 1 ||
        (double)s->m * (double)s->n * (double)s->k <= SERIAL) {
        multiply(&p, a, b, c, s->m, s->n);
        return;
    }
    const int64_t parts = divide(&p, weir_threads_count(t));
    /* At least two tasks, since OpenBLAS uses threads of its own outside a parallel region. */
    weir_parallel(t, parts > 1 ? parts : 2, part_task, &p);
}
