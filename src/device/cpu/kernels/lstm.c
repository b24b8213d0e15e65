/* lstm.c - a whole sequence of an LSTM, and its gradient.
 *
 * The gates already hold the input's part, so a step is one product with the recurrent weights,
 * which are packed into strips once for the whole sequence, and the element-wise part, computed
 * while the product's tile is in cache (Appleyard and others, "Optimizing performance of recurrent
 * neural networks on GPUs", 2016). A task is a tile of rows and of hidden units with all its gates;
 * a step is one parallel loop. The gradient runs backwards in the same way: a product with the next
 * step's gradient gives what flows into the tile. All divisions follow from shapes.
 *
 * Halves are computed in f32: weights are widened while they are packed, and the other operands a
 * few rows at a time, on the stack. What flows from a step to the next stays f32, in the workspace,
 * and has the size of a step; each result is rounded once. */
#include "device/cpu/kernels/lstm.h"

#include <assert.h>
#include <string.h>

#include "core/attr.h"
#include "core/dtype.h"
#include "core/mem.h"
#include "core/status.h"
#include "device/common/div.h"
#include "device/cpu/gemm/gemm.h"
#include "device/cpu/isa.h"
#include "device/cpu/kernels.h"

enum {
    GATES = 4,
    ROWS = 64,          /* most rows of a tile */
    MOST_MR = 14,       /* most rows and columns of a product's kernel in f32 */
    MOST_NR = 32,
    ALONE = 64 * 1024   /* multiply-adds of a step up to which one worker computes it */
};

/* State of the kernel: t steps of n rows, w hidden units. */
typedef struct plan {
    weir_lstm_loops         loops;
    const weir_gemm_kernel *kernel;
    int64_t                 t, n, w;
    int64_t                 strips, blocks; /* tiles along the units; along the rows */
    int64_t                 depth;          /* of the product */
    size_t                  size;           /* bytes of an element that is computed */
    size_t                  stored;         /* of one of a tensor */
    size_t                  weight;         /* of one of w_hh */
    weir_gemm_read          read;           /* how w_hh is packed */
    const weir_lstm_halves *half;           /* NULL: floats */
    bool                    backward, alone;
    bool                    dc;             /* gradient: the call has a sixth input */
} plan;

/* One run, at step `at`, before which `done` steps were computed. from: the step whose state or
 * gradient flows in; -1: none. */
typedef struct run {
    const weir_kargs *k;
    const plan       *p;
    int64_t           at, from, done;
} run;

typedef struct patch {
    weir_lstm_patch size;
    int64_t         row, col;
} patch;

static patch patch_of(const plan *p, int64_t task)
{
    const int64_t row = task / p->strips * ROWS, col = task % p->strips * p->kernel->nr;
    return (patch){.size = {.rows = min64(ROWS, p->n - row),
                            .cols = min64(p->kernel->nr, p->w - col),
                            .hidden = p->w},
                   .row = row,
                   .col = col};
}

/* Address of tile x in step t of a tensor whose rows have `units` times w elements. */
static char *at(const plan *p, void *base, int64_t t, int64_t units, const patch *x)
{
    return (char *)base + (size_t)(((t * p->n + x->row) * units) * p->w + x->col) * p->stored;
}

/* Row `row` of step t. */
static const char *row_at(const plan *p, const void *base, int64_t t, int64_t units, int64_t row)
{
    return (const char *)base + (size_t)((t * p->n + row) * units * p->w) * p->stored;
}

/* C (+)= A * strip for the tile's rows: A has rows of `depth`, C of `units` times w elements. */
static void multiply(const plan *p, const patch *x, const char *a, const char *strip, char *c,
                     int64_t units, bool add)
{
    const weir_gemm_kernel *const k = p->kernel;
    const int64_t                 each = ceil_div(x->size.rows, ceil_div(x->size.rows, k->mr));
    for (int64_t r = 0; r < x->size.rows; r += each)
        k->direct((int)min64(each, x->size.rows - r), (int)x->size.cols, p->depth,
                  a + (size_t)(r * p->depth) * p->size, p->depth, 1, strip, k->nr,
                  c + (size_t)(r * units * p->w) * p->size, units * p->w, add);
}

static void each(const run *r, int64_t tasks, weir_task_fn fn)
{
    run own = *r;
    if (!r->p->alone)
        weir_parallel(r->k->threads, tasks, fn, &own);
    for (int64_t i = 0; r->p->alone && i < tasks; i++)
        fn(&own, i);
}

static size_t strip_bytes(const plan *p)
{
    return (size_t)(p->kernel->nr * p->depth) * p->size;
}

/* ---- halves: what flows between steps, in f32 behind the strips ----
 *
 * Two steps of states, or of gradients of gates, the one read and the one written; then the cells
 * of one step, or their gradients. units: elements of a row by w, 1 or GATES. */

static size_t flow_bytes(const plan *p, int64_t units)
{
    return p->half ? (size_t)((2 * units + 1) * p->n * p->w) * sizeof(float) : 0;
}

static int64_t strips_of(const plan *p, int64_t units)
{
    return p->strips * (units == 1 ? GATES : 1);
}

static float *state_f32(const run *r, int64_t step, int64_t units)
{
    const plan *const p = r->p;
    char *const       flow = (char *)r->k->work + (size_t)strips_of(p, units) * strip_bytes(p);
    return (float *)(void *)flow + step % 2 * units * p->n * p->w;
}

static float *cells_f32(const run *r, int64_t units)
{
    return state_f32(r, 0, units) + 2 * units * r->p->n * r->p->w;
}

/* A few rows of a tile, `nr` elements from a unit's gate to the next and from a row to the next. */
typedef struct rows_f32 {
    float gates[MOST_MR * GATES * MOST_NR];
    float before[MOST_MR * MOST_NR], c[MOST_MR * MOST_NR], h[MOST_MR * MOST_NR];
    float dh[MOST_MR * MOST_NR], dc[MOST_MR * MOST_NR], flow[MOST_MR * MOST_NR];
} rows_f32;

typedef void (*rows_fn)(const run *r, const patch *x, rows_f32 *to);

/* Calls fn for groups of rows that the product's kernel computes at once. */
static void by_rows(const run *r, int64_t task, rows_fn fn)
{
    const patch   whole = patch_of(r->p, task);
    const int64_t each = ceil_div(whole.size.rows, ceil_div(whole.size.rows, r->p->kernel->mr));
    rows_f32      own;
    for (int64_t i = 0; i < whole.size.rows; i += each) {
        patch x = whole;
        x.row += i;
        x.size.rows = min64(each, whole.size.rows - i);
        x.size.hidden = r->p->kernel->nr;
        fn(r, &x, &own);
    }
}

/* Widens the rows of a tensor with `units` times w elements in each, of which the tile's begin at
 * `from`; store narrows them. */
static void load(const run *r, const patch *x, int64_t units, float *to, const void *from)
{
    const plan *const p = r->p;
    for (int64_t q = 0; q < units; q++)
        p->half->widen(x->size.rows, x->size.cols, to + q * x->size.hidden,
                       units * x->size.hidden,
                       (const uint16_t *)from + q * p->w, units * p->w);
}

static void store(const run *r, const patch *x, int64_t units, void *to, const float *from)
{
    const plan *const p = r->p;
    for (int64_t q = 0; q < units; q++)
        p->half->narrow(x->size.rows, x->size.cols, (uint16_t *)to + q * p->w, units * p->w,
                        from + q * x->size.hidden, units * x->size.hidden);
}

/* Copies rows of the tile into those of the step that flows on; fetch: the other way. */
static void keep(const plan *p, const patch *x, int64_t units, float *to, const float *from)
{
    const int64_t width = units * x->size.hidden;
    to += (x->row * units) * p->w + x->col;
    for (int64_t i = 0; i < x->size.rows; i++)
        for (int64_t q = 0; q < units; q++)
            memcpy(to + (i * units + q) * p->w, from + i * width + q * x->size.hidden,
                   (size_t)x->size.cols * sizeof *to);
}

static void fetch(const plan *p, const patch *x, float *to, const float *from)
{
    for (int64_t i = 0; i < x->size.rows; i++)
        memcpy(to + i * x->size.hidden, from + (x->row + i) * p->w + x->col,
               (size_t)x->size.cols * sizeof *to);
}

/* ---- forward: gates, w_hh, h0, c0 -> gates, h, c ---- */

/* Packs strip s of gate q: its columns of w_hh^T. */
static void pack_forward(void *ctx, int64_t task)
{
    const run *const  r = ctx;
    const plan *const p = r->p;
    const int64_t     nr = p->kernel->nr, col = task / GATES * nr, q = task % GATES;
    p->kernel->pack[p->read](
        (char *)r->k->work + (size_t)task * strip_bytes(p), (int)nr,
        (int)min64(nr, p->w - col), p->depth,
        (const char *)r->k->src[1] + (size_t)((q * p->w + col) * p->w) * p->weight, p->w,
        true);
}

static void forward_patch(void *ctx, int64_t task)
{
    const run *const        r = ctx;
    const plan *const       p = r->p;
    const weir_kargs *const k = r->k;
    const patch             x = patch_of(p, task);
    const bool              first = r->from < 0;
    const char *const       h =
        row_at(p, first ? k->src[2] : k->dst[1], first ? 0 : r->from, 1, x.row);
    char *const strips = (char *)k->work + (size_t)(task % p->strips * GATES) * strip_bytes(p);
    char *const gates = at(p, k->dst[0], r->at, GATES, &x);
    const char *const sums = at(p, k->src[0], r->at, GATES, &x);
    const size_t      row = (size_t)(GATES * p->w) * p->size;
    for (int64_t q = 0; q < GATES; q++) {
        const size_t gate = (size_t)(q * p->w) * p->size;
        for (int64_t i = 0; i < x.size.rows && gates != sums; i++)
            memcpy(gates + gate + (size_t)i * row, sums + gate + (size_t)i * row,
                   (size_t)x.size.cols * p->size);
        multiply(p, &x, h, strips + (size_t)q * strip_bytes(p), gates + gate, GATES, true);
    }
    p->loops.cell(&x.size, gates, at(p, first ? k->src[3] : k->dst[2], first ? 0 : r->from, 1, &x),
                  at(p, k->dst[2], r->at, 1, &x), at(p, k->dst[1], r->at, 1, &x));
}

static void forward_rows(const run *r, const patch *x, rows_f32 *own)
{
    const plan *const             p = r->p;
    const weir_gemm_kernel *const kernel = p->kernel;
    const char *const strips =
        (const char *)r->k->work + (size_t)(x->col / kernel->nr * GATES) * strip_bytes(p);
    load(r, x, GATES, own->gates, at(p, r->k->src[0], r->at, GATES, x));
    for (int64_t q = 0; q < GATES; q++)
        kernel->direct((int)x->size.rows, (int)x->size.cols, p->depth,
                       state_f32(r, r->done, 1) + x->row * p->w, p->w, 1,
                       strips + (size_t)q * strip_bytes(p), kernel->nr,
                       own->gates + q * kernel->nr, GATES * kernel->nr, true);
    fetch(p, x, own->before, cells_f32(r, 1));
    p->loops.cell(&x->size, own->gates, own->before, own->c, own->h);
    keep(p, x, 1, cells_f32(r, 1), own->c);
    keep(p, x, 1, state_f32(r, r->done + 1, 1), own->h);
    store(r, x, GATES, at(p, r->k->dst[0], r->at, GATES, x), own->gates);
    store(r, x, 1, at(p, r->k->dst[1], r->at, 1, x), own->h);
    store(r, x, 1, at(p, r->k->dst[2], r->at, 1, x), own->c);
}

static void forward_half(void *ctx, int64_t task)
{
    by_rows(ctx, task, forward_rows);
}

static weir_status run_forward(const weir_kargs *k)
{
    const plan *const p = k->state;
    run               r = {.k = k, .p = p, .from = -1};
    each(&r, p->strips * GATES, pack_forward);
    if (p->half && p->n * p->w > 0) {
        p->half->widen(1, p->n * p->w, state_f32(&r, 0, 1), 0, k->src[2], 0);
        p->half->widen(1, p->n * p->w, cells_f32(&r, 1), 0, k->src[3], 0);
    }
    for (; r.done < p->t; r.done++, r.from = r.at) {
        r.at = p->backward ? p->t - 1 - r.done : r.done;
        each(&r, p->strips * p->blocks, p->half ? forward_half : forward_patch);
    }
    return WEIR_OK;
}

/* ---- gradient: gates, w_hh, c, c0, dh, (dc) -> dgates, dh0, dc0 ----
 *
 * dh0 and dc0 carry the gradients that flow from a step to the one before it. */

static void pack_back(void *ctx, int64_t task)
{
    const run *const  r = ctx;
    const plan *const p = r->p;
    const int64_t     nr = p->kernel->nr, col = task * nr;
    p->kernel->pack[p->read](
        (char *)r->k->work + (size_t)task * strip_bytes(p), (int)nr,
        (int)min64(nr, p->w - col), p->depth,
        (const char *)r->k->src[1] + (size_t)col * p->weight, p->w, false);
}

/* Adds the gradient that step `from` passes to the state before it. */
static void carry(const run *r, const patch *x, int64_t task)
{
    const plan *const p = r->p;
    multiply(p, x, row_at(p, r->k->dst[0], r->from, GATES, x->row),
             (char *)r->k->work + (size_t)(task % p->strips) * strip_bytes(p),
             at(p, r->k->dst[1], 0, 1, x), 1, false);
}

static void carry_patch(void *ctx, int64_t task)
{
    const run *const r = ctx;
    const patch      x = patch_of(r->p, task);
    carry(r, &x, task);
}

static void back_patch(void *ctx, int64_t task)
{
    const run *const        r = ctx;
    const plan *const       p = r->p;
    const weir_kargs *const k = r->k;
    const patch             x = patch_of(p, task);
    const bool              first = r->at == (p->backward ? p->t - 1 : 0);
    const int64_t           before = p->backward ? r->at + 1 : r->at - 1;
    if (r->from >= 0)
        carry(r, &x, task);
    p->loops.back(&x.size, at(p, k->src[0], r->at, GATES, &x),
                  at(p, first ? k->src[3] : k->src[2], first ? 0 : before, 1, &x),
                  at(p, k->src[2], r->at, 1, &x), at(p, k->src[4], r->at, 1, &x),
                  p->dc ? at(p, k->src[5], r->at, 1, &x) : NULL, at(p, k->dst[1], 0, 1, &x),
                  at(p, k->dst[2], 0, 1, &x), at(p, k->dst[0], r->at, GATES, &x));
}

/* own->h, own->flow = the gradients that flow into the rows' state and cells. */
static void carry_rows(const run *r, const patch *x, rows_f32 *own)
{
    const plan *const             p = r->p;
    const weir_gemm_kernel *const kernel = p->kernel;
    kernel->direct((int)x->size.rows, (int)x->size.cols, p->depth,
                   state_f32(r, r->done, GATES) + x->row * p->depth, p->depth, 1,
                   (const char *)r->k->work + (size_t)(x->col / kernel->nr) * strip_bytes(p),
                   kernel->nr, own->h, kernel->nr, false);
    fetch(p, x, own->flow, cells_f32(r, GATES));
}

static void last_rows(const run *r, const patch *x, rows_f32 *own)
{
    carry_rows(r, x, own);
    store(r, x, 1, at(r->p, r->k->dst[1], 0, 1, x), own->h);
    store(r, x, 1, at(r->p, r->k->dst[2], 0, 1, x), own->flow);
}

static void carry_half(void *ctx, int64_t task)
{
    by_rows(ctx, task, last_rows);
}

static void back_rows(const run *r, const patch *x, rows_f32 *own)
{
    const plan *const       p = r->p;
    const weir_kargs *const k = r->k;
    const bool              first = r->at == (p->backward ? p->t - 1 : 0);
    const int64_t           before = p->backward ? r->at + 1 : r->at - 1;
    if (r->from >= 0) {
        carry_rows(r, x, own);
    } else {
        memset(own->h, 0, sizeof own->h);
        memset(own->flow, 0, sizeof own->flow);
    }
    load(r, x, GATES, own->gates, at(p, k->src[0], r->at, GATES, x));
    load(r, x, 1, own->before, at(p, first ? k->src[3] : k->src[2], first ? 0 : before, 1, x));
    load(r, x, 1, own->c, at(p, k->src[2], r->at, 1, x));
    load(r, x, 1, own->dh, at(p, k->src[4], r->at, 1, x));
    if (p->dc)
        load(r, x, 1, own->dc, at(p, k->src[5], r->at, 1, x));
    p->loops.back(&x->size, own->gates, own->before, own->c, own->dh, p->dc ? own->dc : NULL,
                  own->h, own->flow, own->gates);
    keep(p, x, 1, cells_f32(r, GATES), own->flow);
    keep(p, x, GATES, state_f32(r, r->done + 1, GATES), own->gates);
    store(r, x, GATES, at(p, k->dst[0], r->at, GATES, x), own->gates);
}

static void back_half(void *ctx, int64_t task)
{
    by_rows(ctx, task, back_rows);
}

static weir_status run_back(const weir_kargs *k)
{
    const plan *const p = k->state;
    run               r = {.k = k, .p = p, .from = -1};
    for (int i = 1; i <= 2; i++)
        if (p->n * p->w > 0 && !p->half)
            memset(k->dst[i], 0, (size_t)(p->n * p->w) * p->size);
    each(&r, p->strips, pack_back);
    for (; r.done < p->t; r.done++, r.from = r.at) {
        r.at = p->backward ? r.done : p->t - 1 - r.done;
        each(&r, p->strips * p->blocks, p->half ? back_half : back_patch);
    }
    each(&r, p->strips * p->blocks, p->half ? carry_half : carry_patch);
    return WEIR_OK;
}

/* ---- selecting ---- */

/* How the weights are packed beside gates of a type: f32 among halves is rounded to them. */
static weir_gemm_read read_of(weir_dtype gates, weir_dtype weights)
{
    const bool f16 = gates == WEIR_F16;
    if (!weir_is_half(gates))
        return WEIR_GEMM_AS_IS;
    return weights == WEIR_F32 ? f16 ? WEIR_GEMM_TO_F16 : WEIR_GEMM_TO_BF16
           : f16               ? WEIR_GEMM_F16
                               : WEIR_GEMM_BF16;
}

static weir_status choose(const weir_call *c, bool back, weir_kernel *out)
{
    static const weir_lstm_loops *const  loops[] = WEIR_ISA_TABLE(weir_lstm_loops);
    static const weir_lstm_halves *const halves[] = WEIR_ISA_TABLE(weir_lstm_halves);
    const weir_isa                       isa = weir_cpu_isa();
    const weir_desc *const               gates = &c->in[0].desc;
    const weir_dtype type = weir_is_half(gates->dtype) ? WEIR_F32 : gates->dtype;
    const char      *impl;
    plan *const      p = weir_mem_zalloc(1, sizeof *p);
    if (!p)
        return WEIR_ERR_NOMEM;
    p->loops = loops[isa][type];
    p->kernel = weir_gemm_own(type, &impl);
    p->half = gates->dtype != type ? &halves[isa][gates->dtype == WEIR_BF16] : NULL;
    p->read = read_of(gates->dtype, c->in[1].desc.dtype);
    p->size = weir_dtype_size(type);
    p->stored = weir_dtype_size(gates->dtype);
    p->weight = weir_dtype_size(c->in[1].desc.dtype);
    assert(p->kernel->mr <= MOST_MR && (!p->half || p->kernel->nr <= MOST_NR));
    p->t = gates->dim[0], p->n = gates->dim[1], p->w = gates->dim[2] / GATES;
    p->depth = back ? GATES * p->w : p->w;
    p->strips = ceil_div(p->w, p->kernel->nr);
    p->blocks = ceil_div(p->n, ROWS);
    p->backward = ((const weir_lstm_attr *)c->attr)->backward != 0;
    p->alone = (double)p->n * (double)p->w * (double)p->w * GATES <= ALONE;
    p->dc = back && c->nin == 6;
    *out = (weir_kernel){.run = back ? run_back : run_forward,
                         .work = (size_t)strips_of(p, back ? GATES : 1) * strip_bytes(p) +
                                 flow_bytes(p, back ? GATES : 1),
                         .state = p,
                         .destroy = weir_mem_free,
                         .impl = impl};
    return WEIR_OK;
}

weir_status weir_cpu_lstm(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    return choose(c, false, out);
}

weir_status weir_cpu_lstm_grad(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    return choose(c, true, out);
}
