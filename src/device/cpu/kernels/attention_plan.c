/* attention_plan.c - plans a call of attention: blocks by the shape alone, products of blocks, the
 * scratch of a worker. */
#include "device/cpu/kernels/attention_plan.h"

#include "core/dtype.h"
#include "core/mem.h"
#include "device/common/div.h"
#include "device/cpu/gemm/gemm.h"
#include "device/cpu/gemm/gemm_bf16.h"
#include "device/cpu/isa.h"

enum { SIDE = WEIR_ATTENTION_SIDE, NARROW = SIDE / 2, UNIT = WEIR_ATTENTION_UNIT };

typedef weir_attention_plan plan;

/* A size of a product that is the block's rows, its columns, or a fixed number. */
enum { BY_ROWS = -1, BY_COLS = -2 };

static int64_t size_for(int64_t n, int64_t by_rows, int64_t by_cols)
{
    return n == BY_ROWS ? by_rows : n == BY_COLS ? by_cols : n;
}

/* Plans the four cases of a product; s has BY_ROWS and BY_COLS for sizes that depend on the
 * block. */
static void plan_cases(plan *p, weir_attention_products *c, const weir_gemm_shape *s)
{
    const int64_t r[2] = {p->side, p->g.t % p->side}, n[2] = {p->side, p->g.s % p->side};
    for (int i = 0; i < 4; i++) {
        weir_gemm       *g = &c->of[i / 2][i % 2];
        weir_gemm_shape  one = *s;
        int64_t *const   size[] = {&one.m, &one.n, &one.k, &one.lda, &one.ldb, &one.ldc};
        for (int j = 0; j < 6; j++)
            *size[j] = size_for(*size[j], r[i / 2], n[i % 2]);
        if (!p->units || !weir_gemm_plan_alone_bf16(g, &one))
            weir_gemm_plan_alone(g, &one);
        p->gemm = g->work > p->gemm ? g->work : p->gemm;
    }
}

/* The steps of rows as products read and write them. */
static weir_attention_geometry rows_read(const plan *p)
{
    weir_attention_geometry a = p->g;
    if (p->widen) {
        a.dq.row = a.dk.row = a.d;
        a.y.row = a.dv.row = a.e;
    }
    if (p->widen && !p->units) {
        a.q.row = a.k.row = a.d;
        a.v.row = a.dy.row = a.e;
    }
    return a;
}

static void plan_products(plan *p, weir_dtype type, bool back)
{
    const weir_attention_geometry a = rows_read(p);
    const int64_t         d = a.d, e = a.e, q = a.q.row, k = a.k.row, v = a.v.row;
    const int64_t         y = a.y.row, dy = a.dy.row;
    const weir_gemm_shape score = {type, false, true, BY_ROWS, BY_COLS, d, q, k, BY_COLS};
    const weir_gemm_shape value = {type, false, false, BY_ROWS, e, BY_COLS, BY_COLS, v, y};
    const weir_gemm_shape dp = {type, false, true, BY_ROWS, BY_COLS, e, dy, v, BY_COLS};
    const weir_gemm_shape dq = {type, false, false, BY_ROWS, d, BY_COLS, BY_COLS, k, a.dq.row};
    const weir_gemm_shape dk = {type, true, false, BY_COLS, d, BY_ROWS, BY_COLS, q, a.dk.row};
    const weir_gemm_shape dv = {type, true, false, BY_COLS, e, BY_ROWS, BY_COLS, dy, a.dv.row};
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

/* Adds scratch for n rows of f32 to that of a worker; returns its place. */
static size_t add_rows(plan *p, int64_t n, int64_t columns)
{
    const size_t at = p->scratch;
    p->scratch += in_units((size_t)(n * columns) * p->size);
    return at;
}

/* Adds scratch for halves. */
static void plan_wide(plan *p, bool back)
{
    const weir_attention_geometry *const g = &p->g;
    const int64_t                        left = min64(p->side, g->t);
    const int64_t                        above = min64(p->side, g->s);
    if (p->units) {
        p->wide.scores = add_rows(p, left, (above + 1) / 2);
        p->wide.dp = back ? add_rows(p, left, (above + 1) / 2) : 0;
        p->wide.right = add_rows(p, max64(left, above), max64(g->d, g->e));
        p->wide.zeroed = add_rows(p, max64(left, above), (max64(g->d, g->e) + 1) / 2);
    } else {
        p->wide.q = add_rows(p, left, g->d);
        p->wide.k = add_rows(p, above, g->d);
        p->wide.v = add_rows(p, above, g->e);
    }
    p->wide.y = add_rows(p, left, g->e);
    p->wide.mask = g->mask >= 0 && weir_is_half(g->mask_type) ? add_rows(p, left, above) : 0;
    if (back) {
        p->wide.dy = add_rows(p, left, g->e);
        p->wide.dq = add_rows(p, left, g->d);
        p->wide.dk = add_rows(p, g->s, g->d);
        p->wide.dv = add_rows(p, g->s, g->e);
    }
}

weir_attention_plan *weir_attention_plan_new(const weir_call *c, bool back, int threads)
{
    static const weir_attention_loops *const table[] = WEIR_ISA_TABLE(weir_attention_loops);
    const weir_dtype                         stored = c->in[0].desc.dtype;
    const weir_dtype                         type = weir_is_half(stored) ? WEIR_F32 : stored;
    plan *const                              p = weir_mem_zalloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->loops = table[weir_cpu_isa()][type];
    p->g = weir_attention_geometry_of(c, back);
    p->size = weir_dtype_size(type);
    p->stored = weir_dtype_size(stored);
    p->widen = weir_cpu_widen(stored);
    p->narrow = weir_cpu_narrow(stored);
    p->units = stored == WEIR_BF16 && weir_gemm_bf16_leads() && p->g.t > 0 && p->g.s > 0 &&
               p->g.d > 0 && p->g.e > 0;
    p->side = side_for(&p->g, p->size);
    p->row_blocks = ceil_div(p->g.t, p->side);
    plan_tasks(p);
    plan_products(p, p->units ? stored : type, back);
    p->block = in_units((size_t)(min64(p->side, p->g.t) * min64(p->side, p->g.s)) * p->size);
    p->vector = in_units((size_t)min64(p->side, p->g.t) * p->size);
    p->scratch = (p->g.seed < 0 ? 2 : 3) * p->block + 2 * p->vector + in_units(p->gemm) + UNIT;
    if (p->widen)
        plan_wide(p, back);
    if (p->g.dmask >= 0 && weir_is_half(c->out[p->g.dmask].desc.dtype))
        p->mask_sums = weir_shape_count(&c->out[p->g.dmask].desc);
    p->work = p->scratch * (size_t)threads + (size_t)p->mask_sums * p->size;
    return p;
}
