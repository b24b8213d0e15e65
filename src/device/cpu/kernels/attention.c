/* attention.c - scaled dot-product attention and its gradient, one block of scores at a time.
 *
 * Dao and others, "FlashAttention" (2022): a block of rows of q is combined with the blocks of k
 * and v in turn; only one block of scores exists at a time, in the worker's scratch. With a causal
 * mask, blocks above the diagonal are skipped. Forward: a task is a block of rows of one head.
 * Gradient: a task is a whole head of k and v with the heads of q that read it, so that the sums
 * for their gradients have one order; more where the gradient of a mask sums over heads or batches.
 * The products are our own code, each run by one worker. */
#include "device/cpu/kernels/attention.h"

#include <math.h>
#include <string.h>

#include "core/attr.h"
#include "core/dtype.h"
#include "core/mem.h"
#include "core/status.h"
#include "device/common/attention.h"
#include "device/common/div.h"
#include "device/cpu/gemm/gemm.h"
#include "device/cpu/isa.h"
#include "device/cpu/kernels.h"
#include "device/cpu/kernels/real.h"
#include "device/cpu/kernels/widen.h"

enum { SIDE = WEIR_ATTENTION_SIDE, NARROW = SIDE / 2, UNIT = 64 };

/* A product of blocks: [full or last block of rows][full or last block of columns]. */
typedef struct cases {
    weir_gemm of[2][2];
} cases;

/* State of the kernel. */
typedef struct plan {
    weir_attention_loops    loops;
    weir_attention_geometry g;
    int64_t                 side, row_blocks;   /* rows of q, and of k, in a block */
    int64_t                 batches, heads;     /* gradient: batches, heads of k in a task */
    size_t                  size;               /* bytes of an element */
    cases                   score, value;       /* q k^T; forward: p v, gradient: dy v^T */
    cases                   dq, dk, dv;         /* ds k, ds^T q, p^T dy */
    size_t                  block, vector, gemm; /* scratch: scores, a row each, products */
    size_t                  scratch, work;      /* bytes per worker; for all workers */
} plan;

/* Rows of a head; step: from one to the next, in elements. */
typedef struct rows {
    char   *at;
    int64_t step;
} rows;

/* A head of q with the head of k and v that it reads, and the worker's scratch. */
typedef struct head {
    const plan *p;
    int64_t     number;         /* among the heads of all batches */
    int64_t     keys, ahead;    /* row i attends to keys j < keys and, if causal, j <= i + ahead */
    rows        q, k, v, y, dy, dq, dk, dv;
    char       *lse, *mask, *dmask;
    uint64_t    key;            /* of dropout */
    char       *scores, *dp, *kept, *most, *sum, *gemm;
} head;

/* ---- addresses ---- */

static char *row_of(const plan *p, rows r, int64_t row)
{
    return r.at + row * r.step * (int64_t)p->size;
}

/* Rows of head `h` of batch n, of `columns` columns. */
static rows rows_of(const plan *p, void *base, const weir_attention_rows *r, int64_t n, int64_t h,
                    int64_t columns)
{
    const int64_t at = r->offset + n * r->batch + h * columns;
    return (rows){(char *)base + at * (int64_t)p->size, r->row};
}

static void place_scratch(head *x, void *work)
{
    const plan *const p = x->p;
    x->scores = (char *)work + (size_t)weir_thread_index() * p->scratch;
    x->dp = x->scores + p->block;
    x->kept = x->dp + p->block;
    x->most = x->kept + (p->g.seed < 0 ? 0 : p->block);
    x->sum = x->most + p->vector;
    x->gemm = x->sum + p->vector;
}

static size_t mask_size(const weir_attention_geometry *g)
{
    return weir_dtype_size(g->mask_type);
}

/* Sets what the optional operands say of head h of batch n. */
static void find_extras(head *x, const weir_kargs *k, int64_t n, int64_t h)
{
    const weir_attention_geometry *const g = &x->p->g;
    const int64_t *const                 step = g->mask_step;
    x->number = n * g->h + h;
    x->keys = g->s;
    if (g->lengths >= 0) {
        const void *const at = k->src[g->lengths];
        const bool        wide = k->call->in[g->lengths].desc.dtype == WEIR_I64;
        const int64_t     i = n * k->call->in[g->lengths].stride[0];
        const int64_t     keys = wide ? ((const int64_t *)at)[i] : ((const int32_t *)at)[i];
        x->keys = keys < 0 ? 0 : min64(keys, g->s);
    }
    x->ahead = g->causal == WEIR_SIGHT_FROM_LAST ? x->keys - g->t : 0;
    if (g->mask >= 0)
        x->mask = (char *)k->src[g->mask] +
                  (n * step[0] + h * step[1]) * (int64_t)mask_size(g);
    if (g->dmask >= 0)
        x->dmask = (char *)k->dst[g->dmask] +
                   (n * g->dmask_step[0] + h * g->dmask_step[1]) * (int64_t)x->p->size;
    if (g->seed >= 0) {
        const float *const f = k->src[g->seed];
        const int64_t      by = k->call->in[g->seed].stride[0];
        x->key = weir_attention_key(f[0], f[by], f[2 * by], f[3 * by]);
    }
}

/* The operands of head h of batch n that both kernels read. */
static void find_operands(head *x, const weir_kargs *k, int64_t n, int64_t h)
{
    const plan *const                    p = x->p;
    const weir_attention_geometry *const g = &p->g;
    const int64_t                        from = h / (g->h / g->kv);
    find_extras(x, k, n, h);
    x->q = rows_of(p, k->src[0], &g->q, n, h, g->d);
    x->k = rows_of(p, k->src[1], &g->k, n, from, g->d);
    x->v = rows_of(p, k->src[2], &g->v, n, from, g->e);
}

/* The block of scores at rows i * side, columns j * side. */
static weir_attention_block block_at(const head *x, int64_t i, int64_t j)
{
    const weir_attention_geometry *const g = &x->p->g;
    const int64_t                        side = x->p->side;
    const int64_t r = min64(side, g->t - i * side), cols = min64(side, g->s - j * side);
    const int64_t limit = min64(cols, x->keys - j * side);
    return (weir_attention_block){
        .rows = r,
        .cols = cols,
        .seen = g->causal ? (i - j) * side + 1 + x->ahead : limit,
        .limit = limit,
        .scale = g->scale,
        .slope = g->scale};
}

/* Number of column blocks that row block i attends to. */
static int64_t blocks_seen(const head *x, int64_t i)
{
    const int64_t last = min64(x->p->g.t, (i + 1) * x->p->side) + x->ahead;
    const int64_t keys = x->p->g.causal ? min64(x->keys, last) : x->keys;
    return keys < 0 ? 0 : ceil_div(keys, x->p->side);
}

static void multiply(const head *x, const cases *c, const weir_attention_block *b, const void *left,
                     const void *right, void *to, bool add)
{
    const int64_t side = x->p->side;
    weir_gemm_run(&c->of[b->rows < side][b->cols < side], left, right, to, add, x->gemm, NULL);
}

/* multiply_seen if `right` has elements that are not finite: multiplies a copy in which they are 0,
 * then adds them for the pairs that attend to each other. Works on a few columns at a time, which
 * does not change the bits of a sum. */
static void multiply_nonfinite(const head *x, const weir_gemm *g, const weir_attention_block *b,
                               const void *left, const void *right, void *to)
{
    enum { WIDE = 16 };
    const plan *const     p = x->p;
    weir_gemm_shape       s = g->shape;
    _Alignas(UNIT) double zeroed[SIDE * WIDE];
    for (int64_t c = 0; c < g->shape.n; c += WIDE) {
        const char *const from = (const char *)right + (size_t)c * p->size;
        char *const       at = (char *)to + (size_t)c * p->size;
        weir_gemm         part;
        s.n = s.ldb = min64(WIDE, g->shape.n - c);
        weir_gemm_plan_alone(&part, &s);    /* so small that it needs no scratch */
        p->loops.zero_nonfinite(s.k, s.n, from, g->shape.ldb, zeroed);
        weir_gemm_run(&part, left, zeroed, at, true, NULL, NULL);
        p->loops.add_nonfinite(b, s.ta, left, from, s.n, g->shape.ldb, g->shape.ldc, at);
    }
}

/* to += left * right, where left is the scores (0 if masked) or their transpose. Masked pairs add
 * nothing, even where 0 * right would be NaN. */
static void multiply_seen(const head *x, const cases *c, const weir_attention_block *b,
                          const void *left, const void *right, void *to)
{
    const weir_gemm *const       g = &c->of[b->rows < x->p->side][b->cols < x->p->side];
    const weir_gemm_shape *const s = &g->shape;
    const bool                   all = b->seen >= b->cols && b->limit >= b->cols;
    if (all || x->p->loops.finite(s->k, s->n, right, s->ldb))
        multiply(x, c, b, left, right, to, true);
    else
        multiply_nonfinite(x, g, b, left, right, to);
}

/* Computes scores of block (i, j), with the mask added. */
static void score(const head *x, weir_attention_block *b, int64_t i, int64_t j)
{
    const plan *const    p = x->p;
    const int64_t *const step = p->g.mask_step;
    const int64_t        row = i * p->side, col = j * p->side;
    multiply(x, &p->score, b, row_of(p, x->q, row), row_of(p, x->k, col), x->scores, false);
    if (p->g.mask < 0)
        return;
    const int64_t at = row * step[2] + col * step[3];
    p->loops.mask(b, x->scores, x->mask + at * (int64_t)mask_size(&p->g),
                  p->g.mask_type == WEIR_BOOL, step[2], step[3]);
    b->scale = 1;
}

/* Draws dropout's factors of block (i, j). */
static void draw_kept(const head *x, const weir_attention_block *b, int64_t i, int64_t j)
{
    const weir_attention_geometry *const g = &x->p->g;
    const uint64_t                       step = weir_attention_blocks(g);
    const int64_t side = x->p->side, row = x->number * g->t + i * side;
    x->p->loops.drop(b, x->key, (uint64_t)row * step + (uint64_t)(j * side / 4), step, g->dropout,
                     x->kept);
}

/* ---- forward ---- */

static void fill_rows(const plan *p, void *at, int64_t n, double value)
{
    for (int64_t i = 0; i < n; i++)
        real_store(p->size == sizeof(float) ? WEIR_F32 : WEIR_F64, at, i, value);
}

static void clear(const plan *p, rows r, int64_t n, int64_t columns)
{
    for (int64_t i = 0; i < n; i++)
        memset(row_of(p, r, i), 0, (size_t)columns * p->size);
}

static void forward_rows(const head *x, int64_t i)
{
    const plan *const p = x->p;
    const int64_t     first = i * p->side, n = min64(p->side, p->g.t - first), e = p->g.e;
    const rows        y = {row_of(p, x->y, first), x->y.step};
    fill_rows(p, x->most, n, -(double)INFINITY);
    fill_rows(p, x->sum, n, 0);
    clear(p, y, n, e);
    for (int64_t j = 0; j < blocks_seen(x, i); j++) {
        weir_attention_block b = block_at(x, i, j);
        score(x, &b, i, j);
        p->loops.soften(&b, x->scores, x->most, x->sum, y.at, e, y.step);
        if (p->g.seed >= 0) {
            draw_kept(x, &b, i, j);
            p->loops.times(b.rows * b.cols, x->kept, x->scores);
        }
        multiply_seen(x, &p->value, &b, x->scores, row_of(p, x->v, j * p->side), y.at);
    }
    p->loops.finish(n, x->most, x->sum, y.at, e, y.step, x->lse + (size_t)first * p->size);
}

static void forward_task(void *ctx, int64_t task)
{
    const weir_kargs *const              k = ctx;
    const plan *const                    p = k->state;
    const weir_attention_geometry *const g = &p->g;
    const int64_t                        at = task / p->row_blocks, n = at / g->h, h = at % g->h;
    head                                 x = {.p = p};
    find_operands(&x, k, n, h);
    x.y = rows_of(p, k->dst[0], &g->y, n, h, g->e);
    x.lse = (char *)k->dst[1] + (size_t)(at * g->t) * p->size;
    place_scratch(&x, k->work);
    forward_rows(&x, task % p->row_blocks);
}

/* Any worker may have run; the whole workspace counts as used. */
static void touch_end(const weir_kargs *k, const plan *p)
{
    memset((char *)k->work + p->work - UNIT, 0, UNIT);
}

static weir_status run_forward(const weir_kargs *k)
{
    const plan *const p = k->state;
    weir_kargs        own = *k;
    touch_end(k, p);
    weir_parallel(k->threads, p->g.b * p->g.h * p->row_blocks, forward_task, &own);
    return WEIR_OK;
}

/* ---- gradient ---- */

/* Adds the contribution of block (i, j) to the gradients; x->sum holds delta of the rows. */
static void back_block(const head *x, int64_t i, int64_t j)
{
    const plan *const    p = x->p;
    const int64_t        row = i * p->side, col = j * p->side, *const step = p->g.dmask_step;
    char *const          dy = row_of(p, x->dy, row);
    weir_attention_block b = block_at(x, i, j);
    score(x, &b, i, j);
    multiply(x, &p->value, &b, dy, row_of(p, x->v, col), x->dp, false);
    if (p->g.seed >= 0) {
        draw_kept(x, &b, i, j);
        p->loops.times(b.rows * b.cols, x->kept, x->dp);
    }
    if (p->g.dmask >= 0)
        b.slope = 1;
    p->loops.back(&b, x->scores, x->dp, x->lse + (size_t)row * p->size, x->sum);
    if (p->g.dmask >= 0)
        p->loops.mask_sum(&b, x->dp, p->g.scale,
                          x->dmask + (row * step[2] + col * step[3]) * (int64_t)p->size, step[2],
                          step[3]);
    if (p->g.seed >= 0)
        p->loops.times(b.rows * b.cols, x->kept, x->scores);
    multiply_seen(x, &p->dv, &b, x->scores, dy, row_of(p, x->dv, col));
    multiply_seen(x, &p->dq, &b, x->dp, row_of(p, x->k, col), row_of(p, x->dq, row));
    multiply_seen(x, &p->dk, &b, x->dp, row_of(p, x->q, row), row_of(p, x->dk, col));
}

/* Adds what head h of q of batch n contributes. */
static void back_head(head *x, const weir_kargs *k, int64_t n, int64_t h)
{
    const plan *const                    p = x->p;
    const weir_attention_geometry *const g = &p->g;
    find_operands(x, k, n, h);
    x->y = rows_of(p, k->src[3], &g->y, n, h, g->e);
    x->lse = (char *)k->src[4] + (size_t)(x->number * g->t) * p->size;
    x->dy = rows_of(p, k->src[5], &g->dy, n, h, g->e);
    x->dq = rows_of(p, k->dst[0], &g->dq, n, h, g->d);
    clear(p, x->dq, g->t, g->d);
    for (int64_t i = 0; i < p->row_blocks; i++) {
        const int64_t first = i * p->side;
        p->loops.delta(min64(p->side, g->t - first), row_of(p, x->dy, first), x->dy.step,
                       row_of(p, x->y, first), x->y.step, g->e, x->sum);
        for (int64_t j = 0; j < blocks_seen(x, i); j++)
            back_block(x, i, j);
    }
}

/* Head `from` of k and v of batch n, with all heads of q that read it. */
static void back_group(head *x, const weir_kargs *k, int64_t n, int64_t from)
{
    const plan *const                    p = x->p;
    const weir_attention_geometry *const g = &p->g;
    const int64_t                        each = g->h / g->kv;
    x->dk = rows_of(p, k->dst[g->packed ? 0 : 1], &g->dk, n, from, g->d);
    x->dv = rows_of(p, k->dst[g->packed ? 0 : 2], &g->dv, n, from, g->e);
    clear(p, x->dk, g->s, g->d);
    clear(p, x->dv, g->s, g->e);
    for (int64_t h = from * each; h < (from + 1) * each; h++)
        back_head(x, k, n, h);
}

static void back_task(void *ctx, int64_t task)
{
    const weir_kargs *const k = ctx;
    const plan *const       p = k->state;
    const int64_t           across = p->g.kv / p->heads;
    const int64_t           n0 = task / across * p->batches, h0 = task % across * p->heads;
    head                    x = {.p = p};
    place_scratch(&x, k->work);
    for (int64_t n = n0; n < n0 + p->batches; n++)
        for (int64_t h = h0; h < h0 + p->heads; h++)
            back_group(&x, k, n, h);
}

static weir_status run_back(const weir_kargs *k)
{
    const plan *const                    p = k->state;
    const weir_attention_geometry *const g = &p->g;
    weir_kargs                           own = *k;
    touch_end(k, p);
    if (g->dmask >= 0)
        memset(k->dst[g->dmask], 0, weir_shape_bytes(&k->call->out[g->dmask].desc));
    if (g->b > 0)
        weir_parallel(k->threads, g->b / p->batches * (g->kv / p->heads), back_task, &own);
    return WEIR_OK;
}

/* ---- selecting ---- */

/* A size of a product that is the block's rows, its columns, or a fixed number. */
enum { BY_ROWS = -1, BY_COLS = -2 };

static int64_t size_for(int64_t n, int64_t by_rows, int64_t by_cols)
{
    return n == BY_ROWS ? by_rows : n == BY_COLS ? by_cols : n;
}

/* Plans the four cases of a product; s has BY_ROWS and BY_COLS for sizes that depend on the
 * block. */
static void plan_cases(plan *p, cases *c, const weir_gemm_shape *s)
{
    const int64_t r[2] = {p->side, p->g.t % p->side}, n[2] = {p->side, p->g.s % p->side};
    for (int i = 0; i < 4; i++) {
        weir_gemm       *g = &c->of[i / 2][i % 2];
        weir_gemm_shape  one = *s;
        int64_t *const   size[] = {&one.m, &one.n, &one.k, &one.lda, &one.ldb, &one.ldc};
        for (int j = 0; j < 6; j++)
            *size[j] = size_for(*size[j], r[i / 2], n[i % 2]);
        weir_gemm_plan_alone(g, &one);
        p->gemm = g->work > p->gemm ? g->work : p->gemm;
    }
}

static void plan_products(plan *p, weir_dtype type, bool back)
{
    const weir_attention_geometry *const a = &p->g;
    const int64_t         d = a->d, e = a->e, q = a->q.row, k = a->k.row, v = a->v.row;
    const int64_t         y = a->y.row, dy = a->dy.row;
    const weir_gemm_shape score = {type, false, true, BY_ROWS, BY_COLS, d, q, k, BY_COLS};
    const weir_gemm_shape value = {type, false, false, BY_ROWS, e, BY_COLS, BY_COLS, v, y};
    const weir_gemm_shape dp = {type, false, true, BY_ROWS, BY_COLS, e, dy, v, BY_COLS};
    const weir_gemm_shape dq = {type, false, false, BY_ROWS, d, BY_COLS, BY_COLS, k, a->dq.row};
    const weir_gemm_shape dk = {type, true, false, BY_COLS, d, BY_ROWS, BY_COLS, q, a->dk.row};
    const weir_gemm_shape dv = {type, true, false, BY_COLS, e, BY_ROWS, BY_COLS, dy, a->dv.row};
    plan_cases(p, &p->score, &score);
    plan_cases(p, &p->value, back ? &dp : &value);
    if (back) {
        plan_cases(p, &p->dq, &dq);
        plan_cases(p, &p->dk, &dk);
        plan_cases(p, &p->dv, &dv);
    }
}

static size_t in_units(size_t bytes)
{
    return (bytes + UNIT - 1) / UNIT * UNIT;
}

/* Rows of q, and of k, in a block. Long sequences take large blocks, which run faster as long as a
 * block with its operands, scores and their gradients stays in a second-level cache; short ones and
 * wide heads take small blocks. By shape alone, so the bits are those of every machine. */
static int64_t side_for(const weir_attention_geometry *g, size_t size)
{
    enum { LONG = 4 * SIDE, CACHE = 512 << 10 };
    const int64_t elements = 2 * SIDE * (g->d + g->e) + 2 * SIDE * SIDE;
    return min64(g->t, g->s) >= LONG && elements <= CACHE / (int64_t)size ? SIDE : NARROW;
}

/* A task of the gradient has all heads and batches that one element of the mask's gradient sums. */
static void plan_tasks(plan *p)
{
    const weir_attention_geometry *const g = &p->g;
    p->batches = g->dmask >= 0 && g->mask_dim[0] == 1 ? max64(1, g->b) : 1;
    p->heads = g->dmask >= 0 && g->mask_dim[1] == 1 ? g->kv : 1;
}

static weir_status choose(const weir_device *dev, const weir_call *c, bool back, weir_kernel *out)
{
    static const weir_attention_loops *const table[] = WEIR_ISA_TABLE(weir_attention_loops);
    const weir_dtype                         type = c->in[0].desc.dtype;
    plan *const                              p = weir_mem_zalloc(1, sizeof *p);
    if (!p)
        return WEIR_ERR_NOMEM;
    p->loops = table[weir_cpu_isa()][type];
    p->g = weir_attention_geometry_of(c, back);
    p->size = weir_dtype_size(type);
    p->side = side_for(&p->g, p->size);
    p->row_blocks = ceil_div(p->g.t, p->side);
    plan_tasks(p);
    plan_products(p, type, back);
    p->block = in_units((size_t)(min64(p->side, p->g.t) * min64(p->side, p->g.s)) * p->size);
    p->vector = in_units((size_t)min64(p->side, p->g.t) * p->size);
    p->scratch = (p->g.seed < 0 ? 2 : 3) * p->block + 2 * p->vector + in_units(p->gemm) + UNIT;
    p->work = p->scratch * (size_t)weir_threads_count(dev->threads);
    *out = (weir_kernel){.run = back ? run_back : run_forward,
                         .work = p->work,
                         .state = p,
                         .destroy = weir_mem_free,
                         .impl = p->score.of[0][0].impl};
    return WEIR_OK;
}

weir_status weir_cpu_attention(weir_device *d, const weir_call *c, weir_kernel *out)
{
    return weir_is_half(c->in[0].desc.dtype) ? weir_cpu_widened(d, c, weir_cpu_attention, out)
                                             : choose(d, c, false, out);
}

weir_status weir_cpu_attention_grad(weir_device *d, const weir_call *c, weir_kernel *out)
{
    return weir_is_half(c->in[0].desc.dtype) ? weir_cpu_widened(d, c, weir_cpu_attention_grad, out)
                                             : choose(d, c, true, out);
}
