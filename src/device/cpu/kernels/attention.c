/* attention.c - scaled dot-product attention and its gradient, one block of scores at a time.
 *
 * Dao and others, "FlashAttention" (2022): a block of rows of q is combined with the blocks of k
 * and v in turn; only one block of scores exists at a time, in the worker's scratch. With a causal
 * mask, blocks above the diagonal are skipped. Forward: a task is a block of rows of one head.
 * Gradient: a task is a whole head of k and v with the heads of q that read it, so that the sums
 * for their gradients have one order; more where the gradient of a mask sums over heads or batches.
 * The products are our own code, each run by one worker. Blocks of halves are widened to f32 in the
 * worker's scratch as they are read; results are summed there and rounded once. Where the processor
 * multiplies bf16, products read it as stored, and scores and their gradients are rounded to bf16
 * before they are multiplied, as PyTorch does. */
#include "device/cpu/kernels/attention_plan.h"

#include <math.h>
#include <string.h>

#include "core/attr.h"
#include "core/dtype.h"
#include "core/mem.h"
#include "core/status.h"
#include "device/common/attention.h"
#include "device/common/div.h"
#include "device/cpu/gemm/gemm.h"
#include "device/cpu/kernels.h"
#include "device/cpu/kernels/real.h"

enum { SIDE = WEIR_ATTENTION_SIDE, UNIT = WEIR_ATTENTION_UNIT };

typedef weir_attention_plan plan;

/* Rows of a head; step: from one to the next, in elements of `size` bytes. */
typedef struct rows {
    char   *at;
    int64_t step;
    size_t  size;
} rows;

/* A head of q with the head of k and v that it reads, and the worker's scratch. */
typedef struct head {
    const plan *p;
    int64_t     number;         /* among the heads of all batches */
    int64_t     keys, ahead;    /* row i attends to keys j < keys and, if causal, j <= i + ahead */
    rows        q, k, v, y, dy, dq, dk, dv; /* as stored */
    rows        dk_sum, dv_sum; /* as summed */
    char       *lse, *mask, *dmask;
    uint64_t    key;            /* of dropout */
    char       *work, *scores, *dp, *kept, *most, *sum, *gemm;
} head;

/* ---- addresses ---- */

static char *row_of(rows r, int64_t row)
{
    return r.at + row * r.step * (int64_t)r.size;
}

/* Rows of head `h` of batch n, of `columns` columns. */
static rows rows_of(const plan *p, void *base, const weir_attention_rows *r, int64_t n, int64_t h,
                    int64_t columns)
{
    const int64_t at = r->offset + n * r->batch + h * columns;
    return (rows){(char *)base + at * (int64_t)p->stored, r->row, p->stored};
}

/* n rows from `first` on as loops read them: in place; of halves a copy in scratch. */
static rows widen_rows(const head *x, rows r, int64_t first, int64_t n, int64_t columns, size_t to)
{
    const rows from = {row_of(r, first), r.step, r.size};
    const rows copy = {x->work + to, columns, x->p->size};
    if (!x->p->widen)
        return from;
    for (int64_t i = 0; i < n; i++)
        x->p->widen(columns, row_of(copy, i), row_of(from, i));
    return copy;
}

/* The same as products read them. */
static rows read_rows(const head *x, rows r, int64_t first, int64_t n, int64_t columns, size_t to)
{
    return x->p->units ? (rows){row_of(r, first), r.step, r.size}
                       : widen_rows(x, r, first, n, columns, to);
}

/* Rows from `first` on where they are summed, begun with 0: in place; of halves in scratch. */
static rows begin_rows(const head *x, rows r, int64_t first, int64_t n, int64_t columns, size_t to)
{
    const rows sums = x->p->widen ? (rows){x->work + to, columns, x->p->size}
                                  : (rows){row_of(r, first), r.step, r.size};
    for (int64_t i = 0; i < n; i++)
        memset(row_of(sums, i), 0, (size_t)columns * sums.size);
    return sums;
}

/* Rounds sums in scratch to the rows from `first` on. */
static void end_rows(const head *x, rows sums, rows r, int64_t first, int64_t n, int64_t columns)
{
    for (int64_t i = 0; i < n && x->p->narrow; i++)
        x->p->narrow(columns, row_of(r, first + i), row_of(sums, i));
}

static void place_scratch(head *x, void *work)
{
    const plan *const p = x->p;
    x->work = (char *)work + (size_t)weir_thread_index() * p->scratch;
    x->scores = x->work;
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

/* Where the gradient of the mask is summed over heads and batches: that of halves in f32, at the
 * end of the workspace. */
static char *mask_sums(const weir_kargs *k, const plan *p)
{
    return p->mask_sums > 0 ? (char *)k->work + p->work - (size_t)p->mask_sums * p->size
                            : k->dst[p->g.dmask];
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
        x->dmask = mask_sums(k, x->p) +
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

static void multiply(const head *x, const weir_attention_products *c,
                     const weir_attention_block *b, const void *left, const void *right, void *to,
                     bool add)
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

/* Rounds the block `from` in f32, the scores or their gradients, for products of halves. */
static void round_block(const head *x, const weir_attention_block *b, const char *from, size_t to)
{
    if (x->p->units)
        x->p->narrow(b->rows * b->cols, x->work + to, from);
}

static bool is_finite(uint16_t bf16)
{
    return (bf16 & 0x7f80) != 0x7f80;
}

static bool are_finite(const uint16_t *at, int64_t n, int64_t columns, int64_t step)
{
    unsigned bad = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < columns; j++)
            bad |= !is_finite(at[i * step + j]);
    return !bad;
}

/* multiply_seen of halves: the block, its rounded copy, and `right` as stored. */
static void multiply_seen_halves(const head *x, const weir_gemm *g, const weir_attention_block *b,
                                 bool all, const void *left, size_t rounded, const void *right,
                                 void *to)
{
    const weir_gemm_shape *const s = &g->shape;
    const rows                   from = {(char *)(uintptr_t)right, s->ldb, x->p->stored};
    const void *const            half = x->work + rounded;
    if (all || are_finite(right, s->k, s->n, s->ldb)) {
        weir_gemm_run(g, half, right, to, true, NULL, NULL);
        return;
    }
    const rows      wide = widen_rows(x, from, 0, s->k, s->n, x->p->wide.right);
    uint16_t *const zeroed = (void *)(x->work + x->p->wide.zeroed);
    weir_gemm       dense = *g;
    dense.shape.ldb = s->n;
    for (int64_t i = 0; i < s->k; i++)
        for (int64_t j = 0; j < s->n; j++) {
            const uint16_t h = ((const uint16_t *)right)[i * s->ldb + j];
            zeroed[i * s->n + j] = is_finite(h) ? h : 0;
        }
    weir_gemm_run(&dense, half, zeroed, to, true, NULL, NULL);
    x->p->loops.add_nonfinite(b, s->ta, left, wide.at, s->n, s->n, s->ldc, to);
}

/* to += left * right, where left is the scores (0 if masked) or their transpose, and `rounded` the
 * place of its halves. Masked pairs add nothing, even where 0 * right would be NaN. */
static void multiply_seen(const head *x, const weir_attention_products *c,
                          const weir_attention_block *b, const void *left, size_t rounded,
                          const void *right, void *to)
{
    const weir_gemm *const       g = &c->of[b->rows < x->p->side][b->cols < x->p->side];
    const weir_gemm_shape *const s = &g->shape;
    const bool                   all = b->seen >= b->cols && b->limit >= b->cols;
    if (x->p->units)
        multiply_seen_halves(x, g, b, all, left, rounded, right, to);
    else if (all || x->p->loops.finite(s->k, s->n, right, s->ldb))
        multiply(x, c, b, left, right, to, true);
    else
        multiply_nonfinite(x, g, b, left, right, to);
}

/* The mask of block (i, j), whose steps along rows and columns are in *row and *column. */
static const void *mask_at(const head *x, const weir_attention_block *b, int64_t i, int64_t j,
                           int64_t *row, int64_t *column)
{
    const plan *const                    p = x->p;
    const weir_attention_geometry *const g = &p->g;
    const int64_t *const                 step = g->mask_step;
    const int64_t     at = i * p->side * step[2] + j * p->side * step[3];
    const char *const from = x->mask + at * (int64_t)mask_size(g);
    *row = step[2], *column = step[3];
    if (!weir_is_half(g->mask_type))
        return from;
    const uint16_t *const half = (const void *)from;
    char *const           to = x->work + p->wide.mask;
    uint16_t              line[SIDE];
    for (int64_t r = 0; r < b->rows; r++) {
        for (int64_t c = 0; c < b->cols; c++)
            line[c] = half[r * step[2] + c * step[3]];
        p->widen(b->cols, to + (size_t)(r * b->cols) * p->size, line);
    }
    *row = b->cols, *column = 1;
    return to;
}

/* Computes scores of block (i, j) from its rows of q and k, with the mask added. */
static void score(const head *x, weir_attention_block *b, int64_t i, int64_t j, rows q, rows k)
{
    const plan *const p = x->p;
    int64_t           row, column;
    multiply(x, &p->score, b, q.at, k.at, x->scores, false);
    if (p->g.mask < 0)
        return;
    const void *const mask = mask_at(x, b, i, j, &row, &column);
    p->loops.mask(b, x->scores, mask, p->g.mask_type == WEIR_BOOL, row, column);
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

static void forward_rows(const head *x, int64_t i)
{
    const plan *const p = x->p;
    const int64_t     first = i * p->side, n = min64(p->side, p->g.t - first), e = p->g.e;
    const rows        q = read_rows(x, x->q, first, n, p->g.d, p->wide.q);
    const rows        y = begin_rows(x, x->y, first, n, e, p->wide.y);
    fill_rows(p, x->most, n, -(double)INFINITY);
    fill_rows(p, x->sum, n, 0);
    for (int64_t j = 0; j < blocks_seen(x, i); j++) {
        weir_attention_block b = block_at(x, i, j);
        const rows           k = read_rows(x, x->k, j * p->side, b.cols, p->g.d, p->wide.k);
        const rows           v = read_rows(x, x->v, j * p->side, b.cols, e, p->wide.v);
        score(x, &b, i, j, q, k);
        p->loops.soften(&b, x->scores, x->most, x->sum, y.at, e, y.step);
        if (p->g.seed >= 0) {
            draw_kept(x, &b, i, j);
            p->loops.times(b.rows * b.cols, x->kept, x->scores);
        }
        round_block(x, &b, x->scores, p->wide.scores);
        multiply_seen(x, &p->value, &b, x->scores, p->wide.scores, v.at, y.at);
    }
    p->loops.finish(n, x->most, x->sum, y.at, e, y.step, x->lse + (size_t)first * p->size);
    end_rows(x, y, x->y, first, n, e);
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

/* Adds the contribution of block (i, j) to the gradients, of whose rows of q those given are;
 * x->sum holds delta of the rows. */
static void back_block(const head *x, int64_t i, int64_t j, rows q, rows dy, rows dq)
{
    const plan *const    p = x->p;
    const int64_t        row = i * p->side, col = j * p->side, *const step = p->g.dmask_step;
    weir_attention_block b = block_at(x, i, j);
    const rows           k = read_rows(x, x->k, col, b.cols, p->g.d, p->wide.k);
    const rows           v = read_rows(x, x->v, col, b.cols, p->g.e, p->wide.v);
    score(x, &b, i, j, q, k);
    multiply(x, &p->value, &b, dy.at, v.at, x->dp, false);
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
    round_block(x, &b, x->scores, p->wide.scores);
    round_block(x, &b, x->dp, p->wide.dp);
    multiply_seen(x, &p->dv, &b, x->scores, p->wide.scores, dy.at, row_of(x->dv_sum, col));
    multiply_seen(x, &p->dq, &b, x->dp, p->wide.dp, k.at, dq.at);
    multiply_seen(x, &p->dk, &b, x->dp, p->wide.dp, q.at, row_of(x->dk_sum, col));
}

/* Adds what the block of rows i of head x contributes. */
static void back_rows(const head *x, int64_t i)
{
    const plan *const p = x->p;
    const int64_t     first = i * p->side, n = min64(p->side, p->g.t - first);
    const int64_t     d = p->g.d, e = p->g.e;
    const rows        q = read_rows(x, x->q, first, n, d, p->wide.q);
    const rows        y = widen_rows(x, x->y, first, n, e, p->wide.y);
    const rows        wide = widen_rows(x, x->dy, first, n, e, p->wide.dy);
    const rows        dy = p->units ? read_rows(x, x->dy, first, n, e, 0) : wide;
    const rows        dq = begin_rows(x, x->dq, first, n, d, p->wide.dq);
    p->loops.delta(n, wide.at, wide.step, y.at, y.step, e, x->sum);
    for (int64_t j = 0; j < blocks_seen(x, i); j++)
        back_block(x, i, j, q, dy, dq);
    end_rows(x, dq, x->dq, first, n, d);
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
    for (int64_t i = 0; i < p->row_blocks; i++)
        back_rows(x, i);
}

/* Head `from` of k and v of batch n, with all heads of q that read it. */
static void back_group(head *x, const weir_kargs *k, int64_t n, int64_t from)
{
    const plan *const                    p = x->p;
    const weir_attention_geometry *const g = &p->g;
    const int64_t                        each = g->h / g->kv;
    x->dk = rows_of(p, k->dst[g->packed ? 0 : 1], &g->dk, n, from, g->d);
    x->dv = rows_of(p, k->dst[g->packed ? 0 : 2], &g->dv, n, from, g->e);
    x->dk_sum = begin_rows(x, x->dk, 0, g->s, g->d, p->wide.dk);
    x->dv_sum = begin_rows(x, x->dv, 0, g->s, g->e, p->wide.dv);
    for (int64_t h = from * each; h < (from + 1) * each; h++)
        back_head(x, k, n, h);
    end_rows(x, x->dk_sum, x->dk, 0, g->s, g->d);
    end_rows(x, x->dv_sum, x->dv, 0, g->s, g->e);
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

static void narrow_mask(void *ctx, int64_t task)
{
    const weir_kargs *const k = ctx;
    const plan *const       p = k->state;
    const int64_t           at = task * WEIR_TASK_ELEMENTS;
    p->narrow(min64(WEIR_TASK_ELEMENTS, p->mask_sums - at), (uint16_t *)k->dst[p->g.dmask] + at,
              mask_sums(k, p) + (size_t)at * p->size);
}

static weir_status run_back(const weir_kargs *k)
{
    const plan *const                    p = k->state;
    const weir_attention_geometry *const g = &p->g;
    weir_kargs                           own = *k;
    touch_end(k, p);
    if (g->dmask >= 0)
        memset(mask_sums(k, p), 0,
               (size_t)weir_shape_count(&k->call->out[g->dmask].desc) * p->size);
    if (g->b > 0)
        weir_parallel(k->threads, g->b / p->batches * (g->kv / p->heads), back_task, &own);
    weir_parallel(k->threads, ceil_div(p->mask_sums, WEIR_TASK_ELEMENTS), narrow_mask, &own);
    return WEIR_OK;
}

/* ---- selecting ---- */

static weir_status choose(const weir_device *dev, const weir_call *c, bool back, weir_kernel *out)
{
    plan *const p = weir_attention_plan_new(c, back, weir_threads_count(dev->threads));

    if (!p)
        return WEIR_ERR_NOMEM;
    *out = (weir_kernel){.run = back ? run_back : run_forward,
                         .work = p->work,
                         .state = p,
                         .destroy = weir_mem_free,
                         .impl = p->score.of[0][0].impl};
    return WEIR_OK;
}

weir_status weir_cpu_attention(weir_device *d, const weir_call *c, weir_kernel *out)
{
    return choose(d, c, false, out);
}

weir_status weir_cpu_attention_grad(weir_device *d, const weir_call *c, weir_kernel *out)
{
    return choose(d, c, true, out);
}
