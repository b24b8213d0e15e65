/* gemm.c - plans and runs a matrix product: small ones directly on the operands, large ones from
 * packed strips (gemm_blocks.h), or by a library. */
#include "device/cpu/gemm/gemm.h"

#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "device/common/div.h"
#include "device/cpu/context.h"
#include "device/cpu/isa.h"
#include "device/cpu/gemm/gemm_bf16.h"
#include "device/cpu/gemm/gemm_blocks.h"
#include "device/cpu/gemm/onednn.h"
#include "device/cpu/gemm/openblas_product.h"
#include "device/cpu/kernels/elementwise.h"

enum {
    SMALL = 32 * 1024,   /* multiply-adds below which nothing is packed, */
    ALONE = 1024 * 1024, /* ... if a single worker computes the product */
    SERIAL = 256 * 1024, /* multiply-adds below which one worker computes all */
    STRIP_BYTES = 16 * 1024, /* of the strip that small products pack on the stack */
    PAIRS = 64,              /* depth, in pairs, and rows of a small product of bf16 that are */
    PAIR_ROWS = 128          /* ... packed on the stack at a time */
};

/* ---- small products: no packing, except of strips that are transposed or not full ---- */

static void run_small(const weir_gemm *g, const void *a, const void *b, void *c, bool add,
                      void *work, weir_threads *t)
{
    (void)work, (void)t;
    const weir_gemm_kernel *const k = g->with;
    const weir_gemm_shape *const  s = &g->shape;
    const int64_t                 rs = s->ta ? 1 : s->lda, cs = s->ta ? s->lda : 1;
    const int64_t                 depth = STRIP_BYTES / (k->nr * (int64_t)g->size);
    _Alignas(64) char             strip[STRIP_BYTES];

    for (int64_t j = 0; j < s->n; j += k->nr) {
        const int  cols = (int)min64(k->nr, s->n - j);
        const bool pack = s->tb || cols < k->nr;
        for (int64_t p = 0; p < s->k; p += depth) {
            const int64_t kp = pack ? min64(depth, s->k - p) : s->k;
            const char   *at =
                (const char *)b + (s->tb ? j * s->ldb + p : p * s->ldb + j) * (int64_t)g->size;
            if (pack)
                k->pack[WEIR_GEMM_AS_IS](strip, k->nr, cols, kp, at, s->ldb, s->tb);
            for (int64_t i = 0; i < s->m; i += g->mr)
                k->direct((int)min64(g->mr, s->m - i), cols, kp,
                          (const char *)a + (i * rs + p * cs) * (int64_t)g->size, rs, cs,
                          pack ? strip : at, pack ? k->nr : s->ldb,
                          (char *)c + (i * s->ldc + j) * (int64_t)g->size, s->ldc, add || p > 0);
            if (!pack)
                break;
        }
    }
}

/* ---- small products of bf16: strips are packed in pairs, as are rows of A not stored so ---- */

/* Rows i .. i+m-1 of A and depth p .. p+k-1. packed: room for PAIR_ROWS x PAIRS. Rows that begin at
 * pairs are read in place. */
static void pair_rows(const weir_gemm *g, int64_t i, int64_t m, int64_t p, int64_t k,
                      const uint16_t *a, const uint16_t *b, float *c, bool add, uint32_t *packed)
{
    const weir_gemm_kernel *const q = g->with;
    const weir_gemm_shape *const  s = &g->shape;
    const int64_t                 pairs = (k + 1) / 2;
    const bool                    stored = !s->ta && s->lda % 2 == 0 && k % 2 == 0;
    const uint16_t *const         at = a + (s->ta ? p * s->lda + i : i * s->lda + p);
    _Alignas(64) uint32_t         strip[STRIP_BYTES / sizeof(uint32_t)];

    for (int64_t r = 0; r < m && !stored; r += g->mr) {
        const int rows = (int)min64(g->mr, m - r);
        q->pack[WEIR_GEMM_AS_IS](packed + r * pairs, rows, rows, k,
                                 at + (s->ta ? r : r * s->lda), s->lda, !s->ta);
    }
    for (int64_t j = 0; j < s->n; j += q->nr) {
        const int cols = (int)min64(q->nr, s->n - j);
        q->pack[WEIR_GEMM_AS_IS](strip, q->nr, cols, k,
                                 b + (s->tb ? j * s->ldb + p : p * s->ldb + j), s->ldb, s->tb);
        for (int64_t r = 0; r < m; r += g->mr) {
            const int    rows = (int)min64(g->mr, m - r);
            float *const to = c + (i + r) * s->ldc + j;
            if (stored)
                q->rows(rows, cols, pairs, at + r * s->lda, s->lda / 2, strip, to, s->ldc, add,
                        NULL);
            else
                q->packed(rows, cols, pairs, packed + r * pairs, strip, to, s->ldc, add, NULL);
        }
    }
}

static void run_pairs(const weir_gemm *g, const void *a, const void *b, void *c, bool add,
                      void *work, weir_threads *t)
{
    (void)work, (void)t;
    const weir_gemm_shape *const s = &g->shape;
    _Alignas(64) uint32_t        packed[PAIR_ROWS * PAIRS];

    for (int64_t p = 0; p < s->k; p += 2 * PAIRS)
        for (int64_t i = 0; i < s->m; i += PAIR_ROWS)
            pair_rows(g, i, min64(PAIR_ROWS, s->m - i), p, min64(2 * PAIRS, s->k - p), a, b, c,
                      add || p > 0, packed);
}

/* ---- empty products and OpenBLAS ---- */

/* k = 0: C becomes 0, or if `add` stays as it is. */
static void run_empty(const weir_gemm *g, const void *a, const void *b, void *c, bool add,
                      void *work, weir_threads *t)
{
    (void)a, (void)b, (void)work, (void)t;
    const weir_gemm_shape *const s = &g->shape;
    for (int64_t i = 0; i < s->m && s->n > 0 && !add; i++)
        memset((char *)c + (size_t)(i * s->ldc) * g->size, 0, (size_t)s->n * g->size);
}

static void run_blas(const weir_gemm *g, const void *a, const void *b, void *c, bool add,
                     void *work, weir_threads *t)
{
    (void)work;
    weir_openblas_multiply(g->with, &g->shape, a, b, c, add, t);
}

weir_status weir_gemm_ready(const weir_gemm *g, const weir_threads *t)
{
    return g->run == run_blas ? weir_openblas_ready(g->with, t) : WEIR_OK;
}

/* ---- bias ---- */

typedef struct rows {
    char       *c;
    const char *bias;
    size_t      bytes;   /* of a row */
    int64_t     m, each; /* rows, rows per task */
} rows;

static void bias_task(void *ctx, int64_t task)
{
    const rows *const r = ctx;
    const int64_t     first = task * r->each;
    const int64_t     last = first + r->each < r->m ? first + r->each : r->m;
    for (int64_t i = first; i < last; i++)
        memcpy(r->c + (size_t)i * r->bytes, r->bias, r->bytes);
}

void weir_gemm_bias(void *c, const void *bias, int64_t m, size_t row_bytes, weir_threads *t)
{
    enum { TASK_BYTES = 64 * 1024 };
    rows r = {.c = c, .bias = bias, .bytes = row_bytes, .m = m};
    r.each = 1 + (int64_t)(TASK_BYTES / (row_bytes + 1));
    if (row_bytes > 0)
        weir_parallel(t, (m + r.each - 1) / r.each, bias_task, &r);
}

void weir_gemm_run_bias(const weir_gemm *g, const void *a, const void *b, const void *bias, void *c,
                        void *work, weir_threads *t)
{
    if (g->run == weir_gemm_blocks_run) {
        weir_gemm_blocks_run_bias(g, a, b, bias, c, false, work, t);
        return;
    }
    weir_gemm_bias(c, bias, g->shape.m, (size_t)g->shape.n * g->size, t);
    weir_gemm_run(g, a, b, c, true, work, t);
}

/* ---- plan ---- */

const weir_gemm_kernel *weir_gemm_own(weir_dtype dtype, const char **impl)
{
    static const weir_gemm_kernels *const table[WEIR_ISA_COUNT] =
        WEIR_ISA_TABLE(&weir_gemm_kernels);
    static const char *const name[WEIR_ISA_COUNT] = {"own base", "own avx2", "own avx512"};
    const weir_isa           isa = weir_cpu_isa();
    *impl = name[isa];
    return dtype == WEIR_F32 ? &table[isa]->f32 : &table[isa]->f64;
}

static void plan_own(weir_gemm *g, double volume)
{
    g->with = weir_gemm_own(g->shape.dtype, &g->impl);
    if (volume <= SMALL) {
        g->run = run_small;
        g->mr = ceil_div(g->shape.m, ceil_div(g->shape.m, ((const weir_gemm_kernel *)g->with)->mr));
    } else {
        weir_gemm_blocks_plan(g, volume <= SERIAL);
    }
}

static bool on_intel(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_is("intel");
#else
    return false;
#endif
}

/* Measured on an Intel Xeon with AVX-512, and with AVX2 alone (bench/tables/products.md): our own
 * kernels lead where rows of A are read in place and every strip serves many of them. */
static bool own_leads(const weir_gemm_shape *s)
{
    enum { ROWS = 512, COLUMNS = 64, DEPTH = 256 };
    return s->dtype == WEIR_F32 && weir_gemm_blocks_read_rows(s, sizeof(float)) && s->m >= ROWS &&
           s->n >= COLUMNS && s->k >= DEPTH && weir_cpu_isa() != WEIR_ISA_BASE && on_intel();
}

void weir_gemm_plan(weir_gemm *g, const weir_gemm_shape *shape, const weir_openblas *blas,
                    weir_gemm_want want)
{
    const size_t size = weir_dtype_size(shape->dtype);
    *g = (weir_gemm){.shape = *shape, .size = size, .size_a = size, .size_b = size, .size_c = size};
    const double volume = (double)shape->m * (double)shape->n * (double)shape->k;
    if (volume == 0) {
        g->run = run_empty;
        g->impl = "own empty";
        return;
    }
    const bool leads = (volume > SMALL || shape->m == 1 || shape->n == 1) && !own_leads(shape);
    if (blas && want != WEIR_GEMM_OWN && (want == WEIR_GEMM_OPENBLAS || leads) &&
        weir_openblas_fits(shape)) {
        g->run = run_blas;
        g->with = blas;
        g->impl = blas->impl;
        return;
    }
    plan_own(g, volume);
}

void weir_gemm_plan_alone(weir_gemm *g, const weir_gemm_shape *shape)
{
    weir_gemm_plan(g, shape, NULL, WEIR_GEMM_OWN);
    g->serial = true;
    const double volume = (double)shape->m * (double)shape->n * (double)shape->k;
    if (g->run == weir_gemm_blocks_run && volume <= ALONE) {
        g->run = run_small;
        g->work = 0;
    }
}

bool weir_gemm_plan_alone_bf16(weir_gemm *g, const weir_gemm_shape *shape)
{
    const weir_gemm_kernel *const with = weir_gemm_bf16();
    if (!with || shape->m == 0 || shape->n == 0 || shape->k == 0)
        return false;
    *g = (weir_gemm){.shape = *shape, .run = run_pairs, .with = with, .size = sizeof(float),
                     .size_a = 2, .size_b = 2, .size_c = sizeof(float), .serial = true,
                     .impl = WEIR_GEMM_BF16_IMPL};
    g->mr = ceil_div(shape->m, ceil_div(shape->m, with->mr));
    return true;
}

/* ---- halves ---- */

/* How packing reads an operand that takes part as `half`. */
static weir_gemm_read read_of(weir_dtype stored, weir_dtype half)
{
    if (stored == WEIR_F32)
        return half == WEIR_BF16 ? WEIR_GEMM_TO_BF16 : WEIR_GEMM_TO_F16;
    return half == WEIR_BF16 ? WEIR_GEMM_BF16 : WEIR_GEMM_F16;
}

bool weir_gemm_plan_halves(weir_gemm *g, const weir_gemm_shape *shape, const weir_gemm_types *types)
{
    const double volume = (double)shape->m * (double)shape->n * (double)shape->k;
    if (volume <= SMALL || weir_cpu_isa() == WEIR_ISA_BASE)
        return false;
    *g = (weir_gemm){.shape = *shape, .size = sizeof(float),
                     .size_a = weir_dtype_size(types->a), .size_b = weir_dtype_size(types->b),
                     .size_c = weir_dtype_size(types->c), .narrow = weir_cpu_narrow(types->c),
                     .read_a = read_of(types->a, shape->dtype),
                     .read_b = read_of(types->b, shape->dtype),
                     .read_bias = types->biased ? read_of(types->bias, shape->dtype)
                                                : WEIR_GEMM_AS_IS};
    g->shape.dtype = WEIR_F32;
    g->with = g->wide = weir_gemm_own(g->shape.dtype, &g->impl);
    if (shape->dtype == WEIR_BF16 && weir_gemm_bf16()) {
        g->with = weir_gemm_bf16();
        g->impl = WEIR_GEMM_BF16_IMPL;
        g->read_a = types->a == WEIR_BF16 ? WEIR_GEMM_AS_IS : g->read_a;
    }
    weir_gemm_blocks_plan(g, volume <= SERIAL);
    return true;
}

/* Measured with 2 threads: on Zen 4 oneDNN 2.6 leads by 5-20 % at nearly all sizes above a million
 * operations; on Intel with AVX-512 OpenBLAS leads where all sides are long. */
static bool onednn_leads(const weir_gemm *g)
{
    enum { LARGE = 192 * 1024, SKINNY = 128 };
    const weir_gemm_shape *const s = &g->shape;
    if ((double)s->m * (double)s->n * (double)s->k < LARGE)
        return false;
    if (g->run != run_blas)
        return true;
    if (s->m == 1 || s->n == 1)
        return false;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_is("amd"))
        return true;
#endif
    return min64(s->m, min64(s->n, s->k)) <= SKINNY;
}

bool weir_gemm_asks_onednn(const weir_gemm *g, weir_gemm_want want)
{
    if (g->run == run_empty || want == WEIR_GEMM_OWN || want == WEIR_GEMM_OPENBLAS)
        return false;
    return want == WEIR_GEMM_ONEDNN || (!own_leads(&g->shape) && onednn_leads(g));
}

static weir_status read_want(const char *variable, weir_gemm_want *want)
{
    static const char *const names[] = {
        [WEIR_GEMM_OWN] = "own", [WEIR_GEMM_OPENBLAS] = "openblas", [WEIR_GEMM_ONEDNN] = "onednn"};
    const char *const text = getenv(variable);
    *want = WEIR_GEMM_ANY;
    if (!text || !*text)
        return WEIR_OK;
    for (int i = WEIR_GEMM_OWN; i <= WEIR_GEMM_ONEDNN; i++)
        if (strcmp(text, names[i]) == 0)
            *want = (weir_gemm_want)i;
    if (*want == WEIR_GEMM_ANY)
        return weir_fail(WEIR_ERR_INVALID, "unknown %s '%s' (expected own, openblas or onednn)",
                                           variable,
                         text);
    return WEIR_OK;
}

weir_status weir_gemm_libraries(weir_device *d, const char *variable, weir_gemm_want *want,
                                const weir_openblas **blas)
{
    *blas = NULL;
    WEIR_TRY(read_want(variable, want));
    if (*want == WEIR_GEMM_ANY && d)
        *want = (weir_gemm_want)weir_cpu_of(d)->want;
    if (*want == WEIR_GEMM_ONEDNN && !weir_onednn_present())
        return weir_fail(WEIR_ERR_NOKERNEL, "%s=onednn, but this build has no oneDNN", variable);
    if (*want != WEIR_GEMM_OWN)
        WEIR_TRY(weir_cpu_blas(d, blas));
    if (*want == WEIR_GEMM_OPENBLAS && !*blas)
        return weir_fail(WEIR_ERR_NOKERNEL, "%s=openblas, but OpenBLAS is %s", variable,
                         weir_cpu_blas_why(d));
    return WEIR_OK;
}
