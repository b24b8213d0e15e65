/* gemm.c - plans and runs a matrix product: small ones directly on the operands, large ones from
 * packed strips, or by a library.
 *
 * Blocking after Goto and van de Geijn (2008): for a depth of kb at a time, all workers pack strips
 * of B (k x nr), as many as the L2 cache holds, then compute tiles of C; the rows of a tile stay in
 * the L1 cache while the strips come from L2. Rows of A are read where they are stored, since
 * packing them would wait for memory. Only transposed ones, and rows that would push each other out
 * of L1, are packed into panels (mr x k). Tiles and blocks depend on shapes alone. */
#include "device/cpu/gemm/gemm.h"

#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "device/common/div.h"
#include "device/cpu/context.h"
#include "device/cpu/isa.h"
#include "device/cpu/gemm/onednn.h"
#include "device/cpu/gemm/openblas_product.h"

enum {
    SMALL = 32 * 1024,   /* multiply-adds below which nothing is packed, */
    ALONE = 1024 * 1024, /* ... if a single worker computes the product */
    SERIAL = 256 * 1024, /* multiply-adds below which one worker computes all */
    DEPTH_BYTES = 2048,  /* of a row of a panel */
    BLOCK_BYTES = 1024 * 1024, /* of the strips of a block */
    ROWS_AT_A_TIME = 1792,  /* packed */
    ALIAS_BYTES = 4096,     /* rows so far apart lie in the same lines of L1 */
    TILE_PANELS = 8,
    PACK_PANELS = 8,        /* or strips that a task packs */
    PACK_DEPTH = 32,        /* of them at a time, so that lines they share are read once */
    TASKS = 64,             /* target number, so that workers finish together */
    STRIP_BYTES = 16 * 1024 /* of the strip that small products pack on the stack */
};

/* The largest part if n is divided into equal parts of at most `most`. */
static int64_t even_part(int64_t n, int64_t most)
{
    return n == 0 ? 1 : ceil_div(n, ceil_div(n, most));
}

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
                k->pack(strip, k->nr, cols, kp, at, s->ldb, s->tb);
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

/* ---- large products ---- */

/* One block: rows i.. of A, columns j.. of B, depth p.. of both. */
typedef struct block {
    const weir_gemm *g;
    const char      *a, *b, *bias; /* bias: NULL except for the last depth */
    char            *c, *panels, *strips;
    int64_t          i, mi, j, nj, p, kp;
    int64_t          npanels, nstrips, tiles_down, tiles_across; /* npanels: packed */
    bool             add;
} block;

/* Packs `count` rows or columns of a matrix, from `first` on, as panels or strips of `width` (the
 * last is padded to `least`). along: k is contiguous. */
typedef struct packing {
    const char *from;
    char       *to;
    int64_t     ld, width, least, count, kp;
    bool        along;
} packing;

static void pack_some(const block *x, const packing *p, int64_t first, int64_t end)
{
    const weir_gemm_kernel *const k = x->g->with;
    const int64_t                 size = (int64_t)x->g->size;
    for (int64_t q = 0; q < p->kp; q += PACK_DEPTH)
        for (int64_t r = first; r < end; r += p->width) {
            const int64_t n = min64(p->width, p->count - r), wide = n > p->least ? n : p->least;
            k->pack(p->to + (r * p->kp + q * wide) * size, (int)wide, (int)n,
                    min64(PACK_DEPTH, p->kp - q),
                    p->from + (p->along ? r * p->ld + q : q * p->ld + r) * size, p->ld, p->along);
        }
}

static void pack_task(void *ctx, int64_t task)
{
    const block *const            x = ctx;
    const weir_gemm_shape *const  s = &x->g->shape;
    const weir_gemm_kernel *const k = x->g->with;
    const int64_t                 size = (int64_t)x->g->size, mr = x->g->mr;
    const int64_t                 groups = ceil_div(x->npanels, PACK_PANELS);
    if (task < groups) {
        const packing p = {
            .from = x->a + (s->ta ? x->p * s->lda + x->i : x->i * s->lda + x->p) * size,
            .to = x->panels, .ld = s->lda, .width = mr, .count = x->mi, .kp = x->kp,
            .along = !s->ta};
        pack_some(x, &p, task * PACK_PANELS * mr, min64((task + 1) * PACK_PANELS * mr, x->mi));
        return;
    }
    const packing p = {.from = x->b + (s->tb ? x->j * s->ldb + x->p : x->p * s->ldb + x->j) * size,
                       .to = x->strips, .ld = s->ldb, .width = k->nr, .least = k->nr,
                       .count = x->nj, .kp = x->kp, .along = s->tb};
    const int64_t wide = PACK_PANELS * k->nr, first = (task - groups) * wide;
    pack_some(x, &p, first, min64(first + wide, x->nj));
}

static void tile_task(void *ctx, int64_t task)
{
    const block *const            x = ctx;
    const weir_gemm *const        g = x->g;
    const weir_gemm_kernel *const k = g->with;
    const int64_t                 size = (int64_t)g->size, ldc = g->shape.ldc;
    const int64_t q0 = task / x->tiles_across * g->tm, q1 = min64(q0 + g->tm, x->tiles_down);
    const int64_t s0 = task % x->tiles_across * g->tn, s1 = min64(s0 + g->tn, x->nstrips);

    for (int64_t q = q0; q < q1; q++) {
        const int64_t i = q * g->mr;
        const int     rows = (int)min64(g->mr, x->mi - i);
        for (int64_t s = s0; s < s1; s++) {
            const int64_t     j = s * k->nr;
            const int         cols = (int)min64(k->nr, x->nj - j);
            const char *const strip = x->strips + j * x->kp * size;
            const char *const bias = x->bias ? x->bias + (x->j + j) * size : NULL;
            char *const       c = x->c + ((x->i + i) * ldc + x->j + j) * size;
            if (g->panels)
                k->packed(rows, cols, x->kp, x->panels + i * x->kp * size, strip, c, ldc, x->add,
                          bias);
            else
                k->rows(rows, cols, x->kp, x->a + ((x->i + i) * g->shape.lda + x->p) * size,
                        g->shape.lda, strip, c, ldc, x->add, bias);
        }
    }
}

static void each(const weir_gemm *g, weir_threads *t, int64_t tasks, weir_task_fn fn, block *x)
{
    if (!g->serial) {
        weir_parallel(t, tasks, fn, x);
        return;
    }
    for (int64_t i = 0; i < tasks; i++)
        fn(x, i);
}

static size_t panel_bytes(const weir_gemm *g)
{
    const size_t n = g->panels ? (size_t)(min64(g->mb, g->shape.m) * g->kb) * g->size : 0;
    return (n + 63) & ~(size_t)63;
}

static void run_block(const weir_gemm *g, weir_threads *t, block *x)
{
    const weir_gemm_kernel *const k = g->with;
    x->tiles_down = ceil_div(x->mi, g->mr);
    x->npanels = g->panels ? x->tiles_down : 0;
    x->nstrips = ceil_div(x->nj, k->nr);
    x->tiles_across = ceil_div(x->nstrips, g->tn);
    each(g, t, ceil_div(x->npanels, PACK_PANELS) + ceil_div(x->nstrips, PACK_PANELS), pack_task,
         x);
    each(g, t, ceil_div(x->tiles_down, g->tm) * x->tiles_across, tile_task, x);
}

static void run_blocks(const weir_gemm *g, const void *a, const void *b, const void *bias, void *c,
                       bool add, void *work, weir_threads *t)
{
    const weir_gemm_shape *const s = &g->shape;
    block x = {.g = g, .a = a, .b = b, .c = c, .panels = work};
    x.strips = x.panels + panel_bytes(g);
    for (x.j = 0; x.j < s->n; x.j += g->nb) {
        x.nj = min64(g->nb, s->n - x.j);
        for (x.p = 0; x.p < s->k; x.p += g->kb) {
            x.kp = min64(g->kb, s->k - x.p);
            x.add = add || x.p > 0;
            x.bias = x.p + x.kp == s->k ? bias : NULL;
            for (x.i = 0; x.i < s->m; x.i += g->mb) {
                x.mi = min64(g->mb, s->m - x.i);
                run_block(g, t, &x);
            }
        }
    }
}

static void run_large(const weir_gemm *g, const void *a, const void *b, void *c, bool add,
                      void *work, weir_threads *t)
{
    run_blocks(g, a, b, NULL, c, add, work, t);
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
    if (g->run == run_large) {
        run_blocks(g, a, b, bias, c, false, work, t);
        return;
    }
    weir_gemm_bias(c, bias, g->shape.m, (size_t)g->shape.n * g->size, t);
    weir_gemm_run(g, a, b, c, true, work, t);
}

/* ---- plan ---- */

/* Panels x strips of a task: a few panels and all strips of a block, fewer until there are enough
 * tasks. */
static void plan_tiles(weir_gemm *g, int64_t nr)
{
    const int64_t panels = ceil_div(min64(g->mb, g->shape.m), g->mr);
    const int64_t strips = ceil_div(min64(g->nb, g->shape.n), nr);
    const int64_t each = panels / TASKS;
    g->tm = each < 1 ? 1 : min64(each, TILE_PANELS);
    g->tn = strips;
    while (g->tn > 1 && ceil_div(panels, g->tm) * ceil_div(strips, g->tn) < TASKS / 2)
        g->tn = ceil_div(g->tn, 2);
}

/* True if rows of A can be read where they are. */
static bool reads_rows(const weir_gemm_shape *s, size_t size)
{
    return !s->ta && (size_t)s->lda * size % ALIAS_BYTES != 0;
}

static void plan_own(weir_gemm *g, double volume)
{
    static const weir_gemm_kernels *const table[WEIR_ISA_COUNT] =
        WEIR_ISA_TABLE(&weir_gemm_kernels);
    static const char *const name[WEIR_ISA_COUNT] = {"own base", "own avx2", "own avx512"};
    const weir_isa           isa = weir_cpu_isa();
    const weir_gemm_kernel  *k = g->shape.dtype == WEIR_F32 ? &table[isa]->f32 : &table[isa]->f64;
    g->with = k;
    g->impl = name[isa];
    g->mr = even_part(g->shape.m, k->mr);
    if (volume <= SMALL) {
        g->run = run_small;
        return;
    }
    g->run = run_large;
    g->serial = volume <= SERIAL;
    g->kb = even_part(g->shape.k, DEPTH_BYTES / (int64_t)g->size);
    g->panels = !reads_rows(&g->shape, g->size);
    g->mb = g->panels ? ROWS_AT_A_TIME / g->mr * g->mr : g->shape.m;
    g->nb = BLOCK_BYTES / ((int64_t)g->size * g->kb);
    g->nb = ceil_div(even_part(g->shape.n, g->nb), k->nr) * k->nr;
    plan_tiles(g, k->nr);
    const int64_t columns = ceil_div(min64(g->nb, g->shape.n), k->nr) * k->nr;
    g->work = panel_bytes(g) + (size_t)(columns * g->kb) * g->size;
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
    return s->dtype == WEIR_F32 && reads_rows(s, sizeof(float)) && s->m >= ROWS &&
           s->n >= COLUMNS && s->k >= DEPTH && weir_cpu_isa() != WEIR_ISA_BASE && on_intel();
}

void weir_gemm_plan(weir_gemm *g, const weir_gemm_shape *shape, const weir_openblas *blas,
                    weir_gemm_want want)
{
    *g = (weir_gemm){.shape = *shape, .size = weir_dtype_size(shape->dtype)};
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
    if (g->run == run_large && (double)shape->m * (double)shape->n * (double)shape->k <= ALONE) {
        g->run = run_small;
        g->work = 0;
    }
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
