/* attention.c - scaled dot-product attention and its gradient, one block of scores at a time.
 *
 * Dao and others, "FlashAttention" (2022): a block of rows of q is combined with the blocks of k
 * and v in turn; only one block of scores exists at a time, in the worker's scratch. With a causal
 * mask, blocks above the diagonal are skipped. Forward: a task is a block of rows of one head.
 * Gradient: a task is a whole head, so that the sums for k's and v's gradients have one order. The
 * products are our own code, each run by one worker. */
#include "device/cpu/kernels/attention.h"

#include <math.h>
#include <string.h>

#include "core/attr.h"
#include "core/dtype.h"
#include "core/mem.h"
#include "core/status.h"
#include "device/common/div.h"
#include "device/cpu/gemm/gemm.h"
#include "device/cpu/isa.h"
#include "device/cpu/kernels.h"
#include "device/cpu/kernels/real.h"
#include "device/cpu/kernels/widen.h"

enum { ROWS = WEIR_ATTENTION_ROWS, COLS = WEIR_ATTENTION_COLS, UNIT = 64 };

/* A product of blocks: [full or last block of rows][full or last block of columns]. */
typedef struct cases {
    weir_gemm of[2][2];
} cases;

/* State of the kernel: b batches of h heads, t rows of q, s rows of k and v; a head has d columns
 * of q and k, e columns of v. */
typedef struct plan {
    weir_attention_loops loops;
    int64_t              b, h, t, s, d, e;
    bool                 causal;
    int64_t              row_blocks, col_blocks;
    double               scale;
    size_t               size;                  /* bytes of an element */
    cases                score, value;          /* q k^T; forward: p v, gradient: dy v^T */
    cases                dq, dk, dv;            /* ds k, ds^T q, p^T dy */
    size_t               block, vector, gemm;   /* bytes of scratch: scores, a row each, products */
    size_t               scratch, work;         /* bytes per worker; for all workers */
} plan;

/* One head's operands, and the worker's scratch. */
typedef struct head {
    const plan *p;
    char       *q, *k, *v, *y, *dy, *dq, *dk, *dv, *lse;
    char       *scores, *dp, *most, *sum, *gemm;
} head;

/* ---- addresses ---- */

static char *row_of(const plan *p, void *base, int64_t row, int64_t columns)
{
    return (char *)base + (size_t)(row * p->h * columns) * p->size;
}

/* Address of head `task` in a tensor of `rows` rows and `columns` columns per head. */
static char *head_of(const plan *p, void *base, int64_t task, int64_t rows, int64_t columns)
{
    return row_of(p, base, task / p->h * rows, columns) +
           (size_t)(task % p->h * columns) * p->size;
}

static void place_scratch(head *x, void *work)
{
    const plan *const p = x->p;
    x->scores = (char *)work + (size_t)weir_thread_index() * p->scratch;
    x->dp = x->scores + p->block;
    x->most = x->dp + p->block;
    x->sum = x->most + p->vector;
    x->gemm = x->sum + p->vector;
}

/* The block of scores at rows i * ROWS, columns j * COLS. */
static weir_attention_block block_at(const plan *p, int64_t i, int64_t j)
{
    const int64_t rows = min64(ROWS, p->t - i * ROWS), cols = min64(COLS, p->s - j * COLS);
    return (weir_attention_block){.rows = rows,
                                  .cols = cols,
                                  .seen = p->causal ? i * ROWS - j * COLS + 1 : cols,
                                  .scale = p->scale};
}

/* Number of column blocks that row block i attends to. */
static int64_t blocks_seen(const plan *p, int64_t i)
{
    const int64_t rows = min64(p->t, (i + 1) * ROWS);
    return p->causal ? min64(p->col_blocks, ceil_div(rows, COLS)) : p->col_blocks;
}

static void multiply(const head *x, const cases *c, const weir_attention_block *b, const void *left,
                     const void *right, void *to, bool add)
{
    weir_gemm_run(&c->of[b->rows < ROWS][b->cols < COLS], left, right, to, add, x->gemm, NULL);
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
    _Alignas(UNIT) double zeroed[(ROWS > COLS ? ROWS : COLS) * WIDE];
    for (int64_t c = 0; c < g->shape.n; c += WIDE) {
        const char *const from = (const char *)right + (size_t)c * p->size;
        char *const       at = (char *)to + (size_t)c * p->size;
        weir_gemm         part;
        s.n = s.ldb = min64(WIDE, g->shape.n - c);
        weir_gemm_plan_alone(&part, &s);    /* so small that it needs no scratch */
        p->loops.zero_nonfinite(s.k, s.n, from, g->shape.ldb, zeroed);
        weir_gemm_run(&part, left, zeroed, at, true, NULL, NULL);
        p->loops.add_nonfinite(b, s.ta, left, from, s.n, g->shape.ldb, at);
    }
}

/* to += left * right, where left is the scores (0 if masked) or their transpose. Masked pairs add
 * nothing, even where 0 * right would be NaN. */
static void multiply_seen(const head *x, const cases *c, const weir_attention_block *b,
                          const void *left, const void *right, void *to)
{
    const weir_gemm *const       g = &c->of[b->rows < ROWS][b->cols < COLS];
    const weir_gemm_shape *const s = &g->shape;
    if (b->seen >= b->cols || x->p->loops.finite(s->k, s->n, right, s->ldb))
        multiply(x, c, b, left, right, to, true);
    else
        multiply_nonfinite(x, g, b, left, right, to);
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
    const int64_t     first = i * ROWS, rows = min64(ROWS, p->t - first);
    char *const       y = row_of(p, x->y, first, p->e);
    fill_rows(p, x->most, rows, -(double)INFINITY);
    fill_rows(p, x->sum, rows, 0);
    for (int64_t r = 0; r < rows; r++)
        memset(row_of(p, y, r, p->e), 0, (size_t)p->e * p->size);
    for (int64_t j = 0; j < blocks_seen(p, i); j++) {
        const weir_attention_block b = block_at(p, i, j);
        multiply(x, &p->score, &b, row_of(p, x->q, first, p->d), row_of(p, x->k, j * COLS, p->d),
                 x->scores, false);
        p->loops.soften(&b, x->scores, x->most, x->sum, y, p->e, p->h * p->e);
        multiply_seen(x, &p->value, &b, x->scores, row_of(p, x->v, j * COLS, p->e), y);
    }
    p->loops.finish(rows, x->most, x->sum, y, p->e, p->h * p->e,
                    x->lse + (size_t)first * p->size);
}

static void forward_task(void *ctx, int64_t task)
{
    const weir_kargs *const k = ctx;
    const plan *const       p = k->state;
    const int64_t           at = task / p->row_blocks;
    head                    x = {.p = p,
                                 .q = head_of(p, k->src[0], at, p->t, p->d),
                                 .k = head_of(p, k->src[1], at, p->s, p->d),
                                 .v = head_of(p, k->src[2], at, p->s, p->e),
                                 .y = head_of(p, k->dst[0], at, p->t, p->e),
                                 .lse = (char *)k->dst[1] + (size_t)(at * p->t) * p->size};
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
    weir_parallel(k->threads, p->b * p->h * p->row_blocks, forward_task, &own);
    return WEIR_OK;
}

/* ---- gradient ---- */

static void clear(const plan *p, void *at, int64_t rows, int64_t columns)
{
    for (int64_t r = 0; r < rows; r++)
        memset(row_of(p, at, r, columns), 0, (size_t)columns * p->size);
}

/* Adds the contribution of block (i, j) to the gradients; x->sum holds delta of the rows. */
static void back_block(const head *x, int64_t i, int64_t j)
{
    const plan *const          p = x->p;
    const weir_attention_block b = block_at(p, i, j);
    const int64_t              row = i * ROWS, col = j * COLS;
    char *const q = row_of(p, x->q, row, p->d), *const k = row_of(p, x->k, col, p->d);
    char *const dy = row_of(p, x->dy, row, p->e);
    multiply(x, &p->score, &b, q, k, x->scores, false);
    multiply(x, &p->value, &b, dy, row_of(p, x->v, col, p->e), x->dp, false);
    p->loops.back(&b, x->scores, x->dp, x->lse + (size_t)row * p->size, x->sum);
    multiply_seen(x, &p->dv, &b, x->scores, dy, row_of(p, x->dv, col, p->e));
    multiply_seen(x, &p->dq, &b, x->dp, k, row_of(p, x->dq, row, p->d));
    multiply_seen(x, &p->dk, &b, x->dp, q, row_of(p, x->dk, col, p->d));
}

static void back_task(void *ctx, int64_t task)
{
    const weir_kargs *const k = ctx;
    const plan *const       p = k->state;
    head                    x = {.p = p,
                                 .q = head_of(p, k->src[0], task, p->t, p->d),
                                 .k = head_of(p, k->src[1], task, p->s, p->d),
                                 .v = head_of(p, k->src[2], task, p->s, p->e),
                                 .y = head_of(p, k->src[3], task, p->t, p->e),
                                 .lse = (char *)k->src[4] + (size_t)(task * p->t) * p->size,
                                 .dy = head_of(p, k->src[5], task, p->t, p->e),
                                 .dq = head_of(p, k->dst[0], task, p->t, p->d),
                                 .dk = head_of(p, k->dst[1], task, p->s, p->d),
                                 .dv = head_of(p, k->dst[2], task, p->s, p->e)};
    place_scratch(&x, k->work);
    clear(p, x.dq, p->t, p->d);
    clear(p, x.dk, p->s, p->d);
    clear(p, x.dv, p->s, p->e);
    for (int64_t i = 0; i < p->row_blocks; i++) {
        const int64_t first = i * ROWS;
        p->loops.delta(min64(ROWS, p->t - first), row_of(p, x.dy, first, p->e),
                       row_of(p, x.y, first, p->e), p->e, p->h * p->e, x.sum);
        for (int64_t j = 0; j < blocks_seen(p, i); j++)
            back_block(&x, i, j);
    }
}

static weir_status run_back(const weir_kargs *k)
{
    const plan *const p = k->state;
    weir_kargs        own = *k;
    touch_end(k, p);
    weir_parallel(k->threads, p->b * p->h, back_task, &own);
    return WEIR_OK;
}

/* ---- selecting ---- */

/* A size of a product that is the block's rows, its columns, or a fixed number. */
enum { BY_ROWS = -1, BY_COLS = -2 };

static int64_t size_for(int64_t n, int64_t rows, int64_t cols)
{
    return n == BY_ROWS ? rows : n == BY_COLS ? cols : n;
}

/* Plans the four cases of a product; s has BY_ROWS and BY_COLS for sizes that depend on the
 * block. */
static void plan_cases(plan *p, cases *c, const weir_gemm_shape *s)
{
    const int64_t rows[2] = {ROWS, p->t % ROWS}, cols[2] = {COLS, p->s % COLS};
    for (int i = 0; i < 4; i++) {
        const int64_t    r = rows[i / 2], n = cols[i % 2];
        weir_gemm       *g = &c->of[i / 2][i % 2];
        weir_gemm_shape  one = *s;
        int64_t *const   size[] = {&one.m, &one.n, &one.k, &one.lda, &one.ldb, &one.ldc};
        for (int j = 0; j < 6; j++)
            *size[j] = size_for(*size[j], r, n);
        weir_gemm_plan_alone(g, &one);
        p->gemm = g->work > p->gemm ? g->work : p->gemm;
    }
}

static void plan_products(plan *p, weir_dtype type, bool back)
{
    const int64_t         d = p->d, e = p->e, ld = p->h * d, le = p->h * e;
    const weir_gemm_shape score = {type, false, true, BY_ROWS, BY_COLS, d, ld, ld, BY_COLS};
    const weir_gemm_shape value = {type, false, false, BY_ROWS, e, BY_COLS, BY_COLS, le, le};
    const weir_gemm_shape dp = {type, false, true, BY_ROWS, BY_COLS, e, le, le, BY_COLS};
    const weir_gemm_shape dq = {type, false, false, BY_ROWS, d, BY_COLS, BY_COLS, ld, ld};
    const weir_gemm_shape dk = {type, true, false, BY_COLS, d, BY_ROWS, BY_COLS, ld, ld};
    const weir_gemm_shape dv = {type, true, false, BY_COLS, e, BY_ROWS, BY_COLS, le, le};
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

static weir_status choose(const weir_device *dev, const weir_call *c, bool back, weir_kernel *out)
{
    static const weir_attention_loops *const table[] = WEIR_ISA_TABLE(weir_attention_loops);
    const weir_attention_attr *const         a = c->attr;
    const weir_desc *const q = &c->in[0].desc, *const v = &c->in[2].desc;
    plan *const            p = weir_mem_zalloc(1, sizeof *p);
    if (!p)
        return WEIR_ERR_NOMEM;
    p->loops = table[weir_cpu_isa()][q->dtype];
    p->b = q->dim[0], p->h = a->heads, p->t = q->dim[1], p->s = v->dim[1];
    p->d = q->dim[2] / p->h, p->e = v->dim[2] / p->h;
    p->causal = a->causal != 0;
    p->row_blocks = ceil_div(p->t, ROWS);
    p->col_blocks = ceil_div(p->s, COLS);
    p->scale = p->d > 0 ? 1 / sqrt((double)p->d) : 1;
    p->size = weir_dtype_size(q->dtype);
    plan_products(p, q->dtype, back);
    p->block = in_units((size_t)(min64(ROWS, p->t) * min64(COLS, p->s)) * p->size);
    p->vector = in_units((size_t)min64(ROWS, p->t) * p->size);
    p->scratch = 2 * (p->block + p->vector) + in_units(p->gemm) + UNIT;
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
