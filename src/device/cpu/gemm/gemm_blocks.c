/* gemm_blocks.c - plans and runs large products of our own kernels from packed strips.
 *
 * Blocking after Goto and van de Geijn (2008): for a depth of kb at a time, all workers pack strips
 * of B (k x nr), as many as the L2 cache holds, then compute tiles of C; the rows of a tile stay in
 * the L1 cache while the strips come from L2. Rows of f32 and f64 are read where they are stored,
 * since packing them would wait for memory. Transposed ones, rows that would push each other out of
 * L1, and halves are packed into panels (mr x k). Tiles and blocks depend on shapes alone.
 * Where one block has all rows, its panels serve all columns before the next depth is packed.
 *
 * Halves are widened while they are packed, or packed in pairs where the kernel multiplies halves
 * (a k_step of 2): then depths here are counted in pairs, and k_step leads back to operands as
 * stored. Sums are f32: over one block of depth they are in a tile on the stack, over several in
 * the scratch; the last block rounds each tile to C once. */
#include "device/cpu/gemm/gemm_blocks.h"

#include <string.h>

#include "device/common/div.h"

enum {
    DEPTH_BYTES = 2048,  /* of a row of a panel, */
    SHALLOW_BYTES = 512, /* ... at least, where blocks would be large beside the operands */
    BLOCK_BYTES = 1024 * 1024, /* of the strips of a block */
    ROWS_AT_A_TIME = 1792,  /* packed */
    ALIAS_BYTES = 4096,     /* rows so far apart lie in the same lines of L1 */
    LINE = 64,              /* bytes between panels and between strips, so that they do not */
    TILE_PANELS = 8,
    PACK_UNITS = 8,         /* panels or strips that a task packs if their depth is contiguous, */
    PACK_ALONG = 128,       /* ... in steps of this depth; */
    PACK_ROWS = 32,         /* else rows that a task packs, */
    PACK_COLUMNS = 1024,    /* ... and columns, or a few more */
    TASKS = 64,             /* target number, so that workers finish together */
    TILE_MOST = 14 * 32     /* elements of the largest tile */
};

/* The panels of A or the strips of B in a block: `count` rows or columns, in units of `width`; the
 * last unit is padded to `least`. along: the depth is contiguous. A task packs some units, or rows
 * of the depth: across tasks side by side, `down` below each other. */
typedef struct packing {
    weir_gemm_pack_fn pack;
    const char       *from;
    char             *to;
    int64_t           size, to_size; /* of an element as stored and as packed */
    int64_t           k_step;        /* stored elements of a packed one, */
    int64_t           terms;         /* ... and in the whole depth */
    int64_t           ld, width, least, count, depth;
    int64_t           stride;        /* bytes from unit to unit */
    int64_t           across, down;
    bool              along;
} packing;

/* One block: rows i.. of A, columns j.. of B, depth p.. of both. */
typedef struct block {
    const weir_gemm *g;
    const char      *a, *b, *bias; /* bias: as packed; NULL except for the last depth */
    char            *c, *panels, *strips, *sums;
    int64_t          i, mi, j, nj, p, kp;
    int64_t          nstrips, tiles_down, tiles_across;
    int64_t          panel_stride, strip_stride;
    packing          pa, pb;
    bool             pack_a, pack_b; /* they are not packed yet */
    bool             add, last;
} block;

/* The largest part if n is divided into equal parts of at most `most`. */
static int64_t even_part(int64_t n, int64_t most)
{
    return n == 0 ? 1 : ceil_div(n, ceil_div(n, most));
}

/* ---- packing ---- */

static void set_tasks(packing *p)
{
    const int64_t units = ceil_div(p->count, p->width);
    p->across = ceil_div(units, p->along ? PACK_UNITS : max64(1, PACK_COLUMNS / p->width));
    p->down = p->along ? 1 : ceil_div(p->depth, PACK_ROWS);
}

static void pack_units(const packing *p, int64_t first, int64_t end, int64_t q, int64_t depth)
{
    for (int64_t u = first; u < end; u++) {
        const int64_t r = u * p->width, n = min64(p->width, p->count - r);
        const int64_t wide = max64(n, p->least);
        const int64_t at = q * p->k_step;
        p->pack(p->to + u * p->stride + q * wide * p->to_size, (int)wide, (int)n,
                min64(depth * p->k_step, p->terms - at),
                p->from + (p->along ? r * p->ld + at : at * p->ld + r) * p->size, p->ld, p->along);
    }
}

static void pack_some(const packing *p, int64_t task)
{
    const int64_t units = ceil_div(p->count, p->width), each = ceil_div(units, p->across);
    const int64_t first = task % p->across * each, end = min64(first + each, units);
    if (!p->along) {
        const int64_t q = task / p->across * PACK_ROWS;
        pack_units(p, first, end, q, min64(PACK_ROWS, p->depth - q));
        return;
    }
    for (int64_t u = first; u < end; u++)
        for (int64_t q = 0; q < p->depth; q += PACK_ALONG)
            pack_units(p, u, u + 1, q, min64(PACK_ALONG, p->depth - q));
}

static void pack_task(void *ctx, int64_t task)
{
    const block *const x = ctx;
    const int64_t      of_a = x->pa.across * x->pa.down;
    if (task < of_a)
        pack_some(&x->pa, task);
    else
        pack_some(&x->pb, task - of_a);
}

static void set_packing(block *x)
{
    const weir_gemm *const        g = x->g;
    const weir_gemm_shape *const  s = &g->shape;
    const weir_gemm_kernel *const k = g->with;
    const int64_t size = (int64_t)g->size, sa = (int64_t)g->size_a, sb = (int64_t)g->size_b;
    const int64_t p = x->p * k->k_step, terms = min64(x->kp * k->k_step, s->k - p);
    x->pa = (packing){.pack = k->pack[g->read_a],
                      .from = x->a + (s->ta ? p * s->lda + x->i : x->i * s->lda + p) * sa,
                      .to = x->panels, .size = sa, .to_size = size, .ld = s->lda,
                      .k_step = k->k_step, .terms = terms,
                      .width = g->mr, .count = x->pack_a ? x->mi : 0, .depth = x->kp,
                      .stride = x->panel_stride, .along = !s->ta};
    x->pb = (packing){.pack = k->pack[g->read_b],
                      .from = x->b + (s->tb ? x->j * s->ldb + p : p * s->ldb + x->j) * sb,
                      .to = x->strips, .size = sb, .to_size = size, .ld = s->ldb,
                      .k_step = k->k_step, .terms = terms,
                      .width = k->nr, .least = k->nr, .count = x->pack_b ? x->nj : 0,
                      .depth = x->kp, .stride = x->strip_stride, .along = s->tb};
    set_tasks(&x->pa);
    set_tasks(&x->pb);
}

/* ---- tiles ---- */

/* Computes one tile into `c`, rows ldc apart. */
static void tile(const block *x, int64_t q, int64_t strip, int rows, int cols, char *c, int64_t ldc,
                 const char *bias)
{
    const weir_gemm *const        g = x->g;
    const weir_gemm_kernel *const k = g->with;
    const char *const             b = x->strips + strip * x->strip_stride;
    if (g->panels)
        k->packed(rows, cols, x->kp, x->panels + q * x->panel_stride, b, c, ldc, x->add, bias);
    else
        k->rows(rows, cols, x->kp,
                x->a + ((x->i + q * g->mr) * g->shape.lda + x->p * k->k_step) * (int64_t)g->size_a,
                g->shape.lda / k->k_step, b, c, ldc, x->add, bias);
}

/* Columns of the sums: those of all blocks that are incomplete at a time. */
static int64_t sum_columns(const weir_gemm *g)
{
    return g->depth_first ? g->shape.n : min64(g->nb, g->shape.n);
}

/* The same for C of halves at `c`. */
static void half_tile(const block *x, int64_t q, int64_t strip, int rows, int cols, char *c,
                      const char *bias)
{
    const weir_gemm *const        g = x->g;
    const weir_gemm_kernel *const k = g->with;
    _Alignas(64) float            once[TILE_MOST];
    const int64_t                 ld = x->sums ? sum_columns(g) : k->nr;
    const int64_t                 col = g->depth_first ? x->j + strip * k->nr : strip * k->nr;
    float *const sums = x->sums ? (float *)(void *)x->sums + (x->i + q * g->mr) * ld + col : once;
    tile(x, q, strip, rows, cols, (char *)sums, ld, bias);
    if (x->last && k->narrow)
        k->narrow(rows, cols, sums, ld, c, g->shape.ldc);
    else
        for (int i = 0; i < rows && x->last; i++)
            g->narrow(cols, c + i * g->shape.ldc * (int64_t)g->size_c, sums + i * ld);
}

static void tile_task(void *ctx, int64_t task)
{
    const block *const            x = ctx;
    const weir_gemm *const        g = x->g;
    const weir_gemm_kernel *const k = g->with;
    const int64_t                 ldc = g->shape.ldc;
    const int64_t q0 = task / x->tiles_across * g->tm, q1 = min64(q0 + g->tm, x->tiles_down);
    const int64_t s0 = task % x->tiles_across * g->tn, s1 = min64(s0 + g->tn, x->nstrips);

    for (int64_t q = q0; q < q1; q++) {
        const int64_t i = q * g->mr;
        const int     rows = (int)min64(g->mr, x->mi - i);
        for (int64_t s = s0; s < s1; s++) {
            const int64_t     j = s * k->nr;
            const int         cols = (int)min64(k->nr, x->nj - j);
            const char *const bias = x->bias ? x->bias + (x->j + j) * (int64_t)g->size : NULL;
            char *const       c = x->c + ((x->i + i) * ldc + x->j + j) * (int64_t)g->size_c;
            if (g->narrow)
                half_tile(x, q, s, rows, cols, c, bias);
            else
                tile(x, q, s, rows, cols, c, ldc, bias);
        }
    }
}

/* ---- blocks ---- */

static void each(const weir_gemm *g, weir_threads *t, int64_t tasks, weir_task_fn fn, block *x)
{
    if (!g->serial) {
        weir_parallel(t, tasks, fn, x);
        return;
    }
    for (int64_t i = 0; i < tasks; i++)
        fn(x, i);
}

static void run_block(const weir_gemm *g, weir_threads *t, block *x)
{
    const weir_gemm_kernel *const k = g->with;
    x->tiles_down = ceil_div(x->mi, g->mr);
    x->nstrips = ceil_div(x->nj, k->nr);
    x->tiles_across = ceil_div(x->nstrips, g->tn);
    set_packing(x);
    each(g, t, x->pa.across * x->pa.down + x->pb.across * x->pb.down, pack_task, x);
    each(g, t, ceil_div(x->tiles_down, g->tm) * x->tiles_across, tile_task, x);
}

/* ---- scratch: panels, strips, sums, the bias as packed; each part begins at a line. The last part
 * has no unused bytes behind it, since measured peaks would miss them. ---- */

static size_t whole_lines(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

static int64_t panel_stride(const weir_gemm *g)
{
    return g->mr * g->kb * (int64_t)g->size + LINE;
}

static int64_t strip_stride(const weir_gemm *g)
{
    return ((const weir_gemm_kernel *)g->with)->nr * g->kb * (int64_t)g->size + LINE;
}

static size_t strips_at(const weir_gemm *g)
{
    const int64_t panels = ceil_div(min64(g->mb, g->shape.m), g->mr);
    return g->panels ? whole_lines((size_t)(panels * panel_stride(g))) : 0;
}

static size_t strips_end(const weir_gemm *g)
{
    const int64_t nr = ((const weir_gemm_kernel *)g->with)->nr;
    const int64_t strips = ceil_div(min64(g->nb, g->shape.n), nr);
    return strips_at(g) + (size_t)(strips * strip_stride(g) - LINE);
}

static bool needs_sums(const weir_gemm *g)
{
    return g->narrow && g->depth > g->kb;
}

static size_t sums_end(const weir_gemm *g)
{
    return needs_sums(g) ? whole_lines(strips_end(g)) +
                               (size_t)(g->shape.m * sum_columns(g)) * g->size
                         : strips_end(g);
}

static size_t scratch_bytes(const weir_gemm *g)
{
    return g->read_bias == WEIR_GEMM_AS_IS
               ? sums_end(g)
               : whole_lines(sums_end(g)) + (size_t)g->shape.n * g->size;
}

/* ---- run ---- */

/* The blocks of some columns and some of the depth, for all rows. Strips are packed once for all
 * rows; panels that hold all rows, once for all columns. */
static void run_depth(block *x, weir_threads *t, bool add, const char *bias)
{
    const weir_gemm *const       g = x->g;
    const weir_gemm_shape *const s = &g->shape;
    x->nj = min64(g->nb, s->n - x->j);
    x->kp = min64(g->kb, g->depth - x->p);
    x->add = add || x->p > 0;
    x->last = x->p + x->kp == g->depth;
    x->bias = x->last ? bias : NULL;
    for (x->i = 0; x->i < s->m; x->i += g->mb) {
        x->mi = min64(g->mb, s->m - x->i);
        x->pack_a = g->panels && !(g->depth_first && x->j > 0);
        x->pack_b = x->i == 0;
        run_block(g, t, x);
    }
}

/* The bias as the tiles add it: at `to` if it is not read as it is. */
static const void *packed_bias(const weir_gemm *g, const void *bias, void *to)
{
    if (!bias || g->read_bias == WEIR_GEMM_AS_IS)
        return bias;
    g->wide->pack[g->read_bias](to, (int)g->shape.n, (int)g->shape.n, 1, bias, g->shape.n, false);
    return to;
}

void weir_gemm_blocks_run_bias(const weir_gemm *g, const void *a, const void *b, const void *bias,
                               void *c, bool add, void *work, weir_threads *t)
{
    const weir_gemm_shape *const s = &g->shape;
    block x = {.g = g, .a = a, .b = b, .c = c, .panels = work,
               .panel_stride = panel_stride(g), .strip_stride = strip_stride(g)};
    x.strips = x.panels + strips_at(g);
    x.sums = needs_sums(g) ? x.panels + whole_lines(strips_end(g)) : NULL;
    bias = packed_bias(g, bias, x.panels + whole_lines(sums_end(g)));
    if (g->depth_first)
        for (; x.p < g->depth; x.p += g->kb)
            for (x.j = 0; x.j < s->n; x.j += g->nb)
                run_depth(&x, t, add, bias);
    else
        for (; x.j < s->n; x.j += g->nb)
            for (x.p = 0; x.p < g->depth; x.p += g->kb)
                run_depth(&x, t, add, bias);
}

void weir_gemm_blocks_run(const weir_gemm *g, const void *a, const void *b, void *c, bool add,
                          void *work, weir_threads *t)
{
    weir_gemm_blocks_run_bias(g, a, b, NULL, c, add, work, t);
}

/* ---- plan ---- */

bool weir_gemm_blocks_read_rows(const weir_gemm_shape *s, size_t size)
{
    return !s->ta && (size_t)s->lda * size % ALIAS_BYTES != 0;
}

/* Panels x strips of a task: a few panels and all strips of a block, fewer until there are enough
 * tasks. */
static void plan_tiles(weir_gemm *g, int64_t nr)
{
    const int64_t panels = ceil_div(min64(g->mb, g->shape.m), g->mr);
    const int64_t strips = ceil_div(min64(g->nb, g->shape.n), nr);
    const int64_t some = panels / TASKS;
    g->tm = some < 1 ? 1 : min64(some, TILE_PANELS);
    g->tn = strips;
    while (g->tn > 1 && ceil_div(panels, g->tm) * ceil_div(strips, g->tn) < TASKS / 2)
        g->tn = ceil_div(g->tn, 2);
}

/* Columns of a block, before they are rounded up to whole strips. */
static int64_t block_columns(const weir_gemm *g)
{
    const int64_t depth = even_part(g->depth, DEPTH_BYTES / (int64_t)g->size);
    return even_part(g->shape.n, BLOCK_BYTES / ((int64_t)g->size * depth));
}

/* The largest depth of a block: less in A^T B where packed blocks would be large beside operands
 * and result, so that workspaces do not decide a budget; but not where the sums of halves, which a
 * second block needs, would take what that saves. It follows from the shape alone, as the order of
 * sums does, which is the same for halves and floats. */
static int64_t block_depth(const weir_gemm *g)
{
    enum { SHARE = 4, LEAST_BYTES = 64 * 1024 };
    const weir_gemm_shape *const s = &g->shape;
    const int64_t size = (int64_t)g->size, whole = DEPTH_BYTES / size, least = SHALLOW_BYTES / size;
    const int64_t lines = min64(s->m, ROWS_AT_A_TIME) + block_columns(g);
    const int64_t k = g->depth, share = (s->m * k + k * s->n + s->m * s->n) / SHARE;
    int64_t       depth = whole;
    if (!s->ta)
        return whole;
    while (depth > least && lines * min64(depth, k) > max64(share, LEAST_BYTES / size))
        depth /= 2;
    return k <= whole && lines * (k - depth) < s->m * s->n ? whole : depth;
}

void weir_gemm_blocks_plan(weir_gemm *g, bool serial)
{
    const weir_gemm_kernel *const k = g->with;
    g->run = weir_gemm_blocks_run;
    g->serial = serial;
    g->mr = even_part(g->shape.m, k->mr);
    g->depth = ceil_div(g->shape.k, k->k_step);
    g->panels = g->read_a != WEIR_GEMM_AS_IS || g->shape.k % k->k_step != 0 ||
                g->shape.lda % k->k_step != 0 ||
                !weir_gemm_blocks_read_rows(&g->shape, g->size_a);
    g->kb = even_part(g->depth, block_depth(g));
    g->mb = g->panels ? ROWS_AT_A_TIME / g->mr * g->mr : g->shape.m;
    g->nb = ceil_div(block_columns(g), k->nr) * k->nr;
    g->depth_first = g->panels && g->shape.m <= g->mb;
    plan_tiles(g, k->nr);
    g->work = scratch_bytes(g);
}
