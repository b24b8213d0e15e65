/* lstm.c - a whole sequence of an LSTM, and its gradient.
 *
 * The gates already hold the input's part, so a step is one product with the recurrent weights,
 * which are packed into strips once for the whole sequence, and the element-wise part, computed
 * while the product's tile is in cache (Appleyard and others, "Optimizing performance of recurrent
 * neural networks on GPUs", 2016). A task is a tile of rows and of hidden units with all its gates;
 * a step is one parallel loop. The gradient runs backwards in the same way: a product with the next
 * step's gradient gives what flows into the tile. All divisions follow from shapes. */
#include "device/cpu/kernels/lstm.h"

#include <string.h>

#include "core/attr.h"
#include "core/mem.h"
#include "core/status.h"
#include "device/common/div.h"
#include "device/cpu/gemm/gemm.h"
#include "device/cpu/isa.h"
#include "device/cpu/kernels.h"

enum {
    GATES = 4,
    ROWS = 64,          /* most rows of a tile */
    ALONE = 64 * 1024   /* multiply-adds of a step up to which one worker computes it */
};

/* State of the kernel: t steps of n rows, w hidden units. */
typedef struct plan {
    weir_lstm_loops         loops;
    const weir_gemm_kernel *kernel;
    int64_t                 t, n, w;
    int64_t                 strips, blocks; /* tiles along the units; along the rows */
    int64_t                 depth;          /* of the product */
    size_t                  size;           /* bytes of an element */
    bool                    backward, alone;
    bool                    dc;             /* gradient: the call has a sixth input */
} plan;

/* One run, at step `at`. from: the step whose state or gradient flows in; -1: none. */
typedef struct run {
    const weir_kargs *k;
    const plan       *p;
    int64_t           at, from;
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
    return (char *)base + (size_t)(((t * p->n + x->row) * units) * p->w + x->col) * p->size;
}

/* Row `row` of step t. */
static const char *row_at(const plan *p, const void *base, int64_t t, int64_t units, int64_t row)
{
    return (const char *)base + (size_t)((t * p->n + row) * units * p->w) * p->size;
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

/* ---- forward: gates, w_hh, h0, c0 -> gates, h, c ---- */

/* Packs strip s of gate q: its columns of w_hh^T. */
static void pack_forward(void *ctx, int64_t task)
{
    const run *const  r = ctx;
    const plan *const p = r->p;
    const int64_t     nr = p->kernel->nr, col = task / GATES * nr, q = task % GATES;
    p->kernel->pack[WEIR_GEMM_AS_IS](
        (char *)r->k->work + (size_t)task * strip_bytes(p), (int)nr,
        (int)min64(nr, p->w - col), p->depth,
        (const char *)r->k->src[1] + (size_t)((q * p->w + col) * p->w) * p->size, p->w,
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

static weir_status run_forward(const weir_kargs *k)
{
    const plan *const p = k->state;
    run               r = {.k = k, .p = p, .from = -1};
    each(&r, p->strips * GATES, pack_forward);
    for (int64_t i = 0; i < p->t; i++, r.from = r.at) {
        r.at = p->backward ? p->t - 1 - i : i;
        each(&r, p->strips * p->blocks, forward_patch);
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
    p->kernel->pack[WEIR_GEMM_AS_IS](
        (char *)r->k->work + (size_t)task * strip_bytes(p), (int)nr,
        (int)min64(nr, p->w - col), p->depth,
        (const char *)r->k->src[1] + (size_t)col * p->size, p->w, false);
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

static weir_status run_back(const weir_kargs *k)
{
    const plan *const p = k->state;
    run               r = {.k = k, .p = p, .from = -1};
    for (int i = 1; i <= 2; i++)
        if (p->n * p->w > 0)
            memset(k->dst[i], 0, (size_t)(p->n * p->w) * p->size);
    each(&r, p->strips, pack_back);
    for (int64_t i = 0; i < p->t; i++, r.from = r.at) {
        r.at = p->backward ? i : p->t - 1 - i;
        each(&r, p->strips * p->blocks, back_patch);
    }
    each(&r, p->strips * p->blocks, carry_patch);
    return WEIR_OK;
}

/* ---- selecting ---- */

static weir_status choose(const weir_call *c, bool back, weir_kernel *out)
{
    static const weir_lstm_loops *const   loops[] = WEIR_ISA_TABLE(weir_lstm_loops);
    static const weir_gemm_kernels *const kernels[] = WEIR_ISA_TABLE(&weir_gemm_kernels);
    static const char *const              name[] = {"own base", "own avx2", "own avx512"};
    const weir_isa                        isa = weir_cpu_isa();
    const weir_desc *const                gates = &c->in[0].desc;
    plan *const                           p = weir_mem_zalloc(1, sizeof *p);
    if (!p)
        return WEIR_ERR_NOMEM;
    p->loops = loops[isa][gates->dtype];
    p->kernel = gates->dtype == WEIR_F32 ? &kernels[isa]->f32 : &kernels[isa]->f64;
    p->size = weir_dtype_size(gates->dtype);
    p->t = gates->dim[0], p->n = gates->dim[1], p->w = gates->dim[2] / GATES;
    p->depth = back ? GATES * p->w : p->w;
    p->strips = ceil_div(p->w, p->kernel->nr);
    p->blocks = ceil_div(p->n, ROWS);
    p->backward = ((const weir_lstm_attr *)c->attr)->backward != 0;
    p->alone = (double)p->n * (double)p->w * (double)p->w * GATES <= ALONE;
    p->dc = back && c->nin == 6;
    *out = (weir_kernel){.run = back ? run_back : run_forward,
                         .work = (size_t)(p->strips * (back ? 1 : GATES)) * strip_bytes(p),
                         .state = p,
                         .destroy = weir_mem_free,
                         .impl = name[isa]};
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
