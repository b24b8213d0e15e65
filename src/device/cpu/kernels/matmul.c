/* matmul.c - selects and runs the matrix product, single and batched, and the linear layer.
 *
 * Small products use our own code, since libraries have a higher fixed cost. Larger ones use what
 * measured fastest on this kind of processor, our own code or a library. f64 never uses oneDNN.
 * Large products of halves use it where the processor multiplies them, else our own code, which
 * widens them as it packs; others are widened first (widen.h).
 *
 * Batches: a few large products run one after another, each on all workers; many or small ones run
 * in parallel, each on one worker with our own code. The shapes decide which.
 *
 * Large products A^T B with few terms in a sum, the gradients of weights, are computed in blocks of
 * rows, so that a graph may use each block at once (graph/passes/update_rows.c). */
#include <string.h>

#include "core/attr.h"
#include "core/dtype.h"
#include "core/mem.h"
#include "core/status.h"
#include "device/common/div.h"
#include "device/cpu/gemm/gemm.h"
#include "device/cpu/kernels.h"
#include "device/cpu/gemm/onednn.h"
#include "device/cpu/gemm/openblas.h"
#include "device/cpu/kernels/elementwise.h"
#include "device/cpu/kernels/product.h"
#include "device/cpu/kernels/widen.h"

/* ---- selecting ---- */

static weir_status plan(weir_device *d, const weir_gemm_shape *s, weir_cpu_product *p)
{
    weir_gemm_want       want;
    const weir_openblas *blas;
    WEIR_TRY(weir_gemm_libraries(d, "WEIR_GEMM", &want, &blas));
    weir_gemm_plan(&p->gemm, s, blas, want);
    if (s->dtype == WEIR_F32 && weir_gemm_asks_onednn(&p->gemm, want))
        return weir_onednn_matmul(d, s, p->bias, &p->lib);
    return WEIR_OK;
}

static weir_status choose(weir_device *d, const weir_gemm_shape *s, bool bias, weir_kernel *out)
{
    weir_cpu_product *const p = weir_mem_zalloc(1, sizeof *p);
    if (!p)
        return WEIR_ERR_NOMEM;
    p->bias = bias;
    const weir_status status = plan(d, s, p);
    if (status != WEIR_OK) {
        weir_cpu_product_free(p);
        return status;
    }
    *out = weir_cpu_product_kernel(p);
    return WEIR_OK;
}

/* ---- halves ---- */

/* Our own product of halves: out->run is NULL where it does not serve the call. */
static weir_status choose_own_half(const weir_call *c, const weir_gemm_shape *s, weir_kernel *out)
{
    const weir_gemm_types types = {
        .a = c->in[0].desc.dtype, .b = c->in[1].desc.dtype, .c = c->out[0].desc.dtype,
        .biased = c->nin == 3, .bias = c->nin == 3 ? c->in[2].desc.dtype : WEIR_F32};
    weir_gemm gemm;
    *out = (weir_kernel){0};
    if (c->in[0].stride[0] > c->in[0].desc.dim[1] || !weir_gemm_plan_halves(&gemm, s, &types))
        return WEIR_OK;
    weir_cpu_product *const p = weir_mem_zalloc(1, sizeof *p);
    if (!p)
        return WEIR_ERR_NOMEM;
    *p = (weir_cpu_product){.gemm = gemm, .bias = types.biased};
    *out = weir_cpu_product_kernel(p);
    return WEIR_OK;
}

/* f16 or bf16: oneDNN where the processor multiplies them; else our own product, which converts as
 * it packs; else `wide`, which selects the product for f32. */
static weir_status choose_half(weir_device *d, const weir_call *c, const weir_gemm_shape *s,
                               weir_choose_fn wide, weir_kernel *out)
{
    enum { FEW = 32 * 1024 }; /* multiply-adds below which a library's fixed cost is too high */
    weir_gemm_want       want;
    const weir_openblas *blas;
    weir_onednn         *lib = NULL;
    const double         volume = (double)s->m * (double)s->n * (double)s->k;
    WEIR_TRY(weir_gemm_libraries(d, "WEIR_GEMM", &want, &blas));
    if (want == WEIR_GEMM_ONEDNN ? volume > 0 : want == WEIR_GEMM_ANY && volume >= FEW)
        WEIR_TRY(weir_onednn_matmul(d, s, c->nin == 3, &lib));
    if (lib)
        return weir_cpu_narrowed(d, c, UINT32_MAX, weir_onednn_kernel(lib), out);
    *out = (weir_kernel){0};
    if (want == WEIR_GEMM_ANY || want == WEIR_GEMM_OWN)
        WEIR_TRY(choose_own_half(c, s, out));
    return out->run ? WEIR_OK : weir_cpu_widened(d, c, wide, out);
}

/* ---- blocks of rows ---- */

/* State of a product whose first operand is a part of the columns of a matrix: they are packed,
 * since libraries have no fast kernel for them, and `dense` computes the product. */
typedef struct columns {
    weir_kernel dense;
    int64_t     rows;               /* of the operand as stored */
    size_t      bytes, stride;      /* of a row: packed; from one to the next as stored */
    size_t      packed;             /* bytes of the packed operand, in units of alignment */
} columns;

static void columns_free(void *state)
{
    columns *const p = state;
    weir_kernel_drop(&p->dense);
    weir_mem_free(p);
}

static void pack_columns(void *ctx, int64_t task)
{
    const weir_kargs *const k = ctx;
    const columns *const    p = k->state;
    if (p->bytes > 0)   /* without elements the operand may be null, which memcpy does not allow */
        memcpy((char *)k->work + (size_t)task * p->bytes,
               (const char *)k->src[0] + (size_t)task * p->stride, p->bytes);
}

static weir_status run_columns(const weir_kargs *k)
{
    const columns *const p = k->state;
    weir_kargs           own = *k;
    weir_parallel(k->threads, p->rows, pack_columns, &own);
    void *const src[2] = {k->work, k->src[1]};
    own.src = src;
    own.state = p->dense.state;
    own.work = p->dense.work > 0 ? (char *)k->work + p->packed : NULL;
    return p->dense.run(&own);
}

static weir_status choose_columns(weir_device *d, const weir_call *c, weir_kernel *out)
{
    enum { ALIGN = 64 };
    const weir_layout *const a = &c->in[0];
    const size_t             size = weir_dtype_size(a->desc.dtype);
    weir_layout              in[2] = {*a, c->in[1]};
    weir_call                dense = *c;
    columns *const           p = weir_mem_zalloc(1, sizeof *p);
    if (!p)
        return WEIR_ERR_NOMEM;
    in[0].stride[0] = a->desc.dim[1];
    dense.in = in;
    const weir_status status = weir_cpu_matmul(d, &dense, &p->dense);
    if (status != WEIR_OK) {
        columns_free(p);
        return status;
    }
    p->rows = a->desc.dim[0];
    p->bytes = (size_t)a->desc.dim[1] * size;
    p->stride = (size_t)a->stride[0] * size;
    p->packed = ((size_t)p->rows * p->bytes + ALIGN - 1) / ALIGN * ALIGN;
    *out = (weir_kernel){.run = run_columns,
                         .state = p,
                         .destroy = columns_free,
                         .work = p->packed + p->dense.work,
                         .impl = p->dense.impl};
    return WEIR_OK;
}

/* State: whole blocks, the last one, and how far apart they are in the first operand and in the
 * result, in bytes. */
typedef struct row_blocks {
    weir_kernel block, last;
    int64_t     blocks;
    size_t      a_step, c_step;
} row_blocks;

static void row_blocks_free(void *state)
{
    row_blocks *const p = state;
    weir_kernel_drop(&p->block);
    weir_kernel_drop(&p->last);
    weir_mem_free(p);
}

static weir_status run_rows(const weir_kargs *k)
{
    const row_blocks *const p = k->state;
    for (int64_t i = 0; i < p->blocks; i++) {
        const weir_kernel *const part = i + 1 < p->blocks ? &p->block : &p->last;
        void *const src[2] = {(char *)k->src[0] + (size_t)i * p->a_step, k->src[1]};
        void *const dst = (char *)k->dst[0] + (size_t)i * p->c_step;
        weir_kargs  own = *k;
        own.state = part->state;
        own.src = src;
        own.dst = &dst;
        own.work = part->work > 0 ? k->work : NULL;
        WEIR_TRY(part->run(&own));
    }
    return WEIR_OK;
}

/* Rows of a block of A^T B: 0 if blocks would cost time, or save little memory. A block packs B
 * again: 2 k n elements are moved, while R n are written and R n k products added. So R grows with
 * k up to a number that keeps the units busy for longer than packing takes. Each block is shorter
 * than twice the least, so a call of it alone is not divided. */
static int64_t rows_of_block(const weir_gemm_shape *s, size_t size)
{
    enum { LEAST = 64, MOST = 1792, EVEN = 16, BYTES = 8 << 20 };
    const int64_t least = s->k < MOST / LEAST ? LEAST * max64(s->k, 1) : MOST;
    const int64_t blocks = s->m / least;
    if (blocks < 2 || (size_t)s->m * (size_t)s->n * size < BYTES)
        return 0;
    return ceil_div(ceil_div(s->m, blocks), EVEN) * EVEN;
}

/* Selects the kernel for rows of the result: columns of the first operand. */
static weir_status choose_part(weir_device *d, const weir_call *c, int64_t rows, weir_kernel *out)
{
    weir_layout in[2] = {c->in[0], c->in[1]}, y = c->out[0];
    weir_call   part = *c;
    in[0].desc.dim[1] = rows;
    y.desc.dim[0] = rows;
    part.in = in;
    part.out = &y;
    return weir_cpu_matmul(d, &part, out);
}

static weir_status choose_rows(weir_device *d, const weir_call *c, int64_t rows, weir_kernel *out)
{
    const weir_desc *const y = &c->out[0].desc;
    const size_t           size = weir_dtype_size(y->dtype);
    row_blocks *const      p = weir_mem_zalloc(1, sizeof *p);
    if (!p)
        return WEIR_ERR_NOMEM;
    p->blocks = ceil_div(y->dim[0], rows);
    p->a_step = (size_t)rows * size;
    p->c_step = (size_t)rows * (size_t)y->dim[1] * size;
    weir_status status = choose_part(d, c, rows, &p->block);
    if (status == WEIR_OK)
        status = choose_part(d, c, y->dim[0] - (p->blocks - 1) * rows, &p->last);
    if (status != WEIR_OK) {
        row_blocks_free(p);
        return status;
    }
    *out = (weir_kernel){.run = run_rows,
                         .state = p,
                         .destroy = row_blocks_free,
                         .work = p->block.work > p->last.work ? p->block.work : p->last.work,
                         .impl = p->block.impl,
                         .rows = rows};
    return WEIR_OK;
}

weir_status weir_cpu_matmul(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_matmul_attr *const t = c->attr;
    const weir_desc *const a = &c->in[0].desc, *const b = &c->in[1].desc;
    const weir_gemm_shape s = {.dtype = a->dtype,
                               .ta = t->ta != 0,
                               .tb = t->tb != 0,
                               .m = a->dim[t->ta ? 1 : 0],
                               .k = a->dim[t->ta ? 0 : 1],
                               .n = b->dim[t->tb ? 0 : 1],
                               .lda = a->dim[1],
                               .ldb = b->dim[1],
                               .ldc = b->dim[t->tb ? 0 : 1]};
    if (weir_is_half(s.dtype))
        return choose_half(d, c, &s, weir_cpu_matmul, out);
    if (c->in[0].stride[0] > a->dim[1])
        return choose_columns(d, c, out);
    const int64_t rows = s.ta ? rows_of_block(&s, weir_dtype_size(s.dtype)) : 0;
    return rows > 0 ? choose_rows(d, c, rows, out) : choose(d, &s, false, out);
}

weir_status weir_cpu_linear(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_desc *const x = &c->in[0].desc, *const w = &c->in[1].desc;
    const weir_gemm_shape s = {.dtype = x->dtype,
                               .tb = true,
                               .m = x->dim[0],
                               .n = w->dim[0],
                               .k = x->dim[1],
                               .lda = x->dim[1],
                               .ldb = x->dim[1],
                               .ldc = w->dim[0]};
    if (weir_is_half(s.dtype))
        return choose_half(d, c, &s, weir_cpu_linear, out);
    return choose(d, &s, c->nin == 3, out);
}

/* ---- batches ---- */

enum {
    TOGETHER = 16 * 1024 * 1024, /* multiply-adds from which all workers share a product, */
    TOGETHER_FEW = 256 * 1024,   /* ... or from which they do if there are at most FEW products */
    FEW = 8,
    TASK_VOLUME = 256 * 1024,    /* multiply-adds that are worth a task */
    UNIT = 64                    /* alignment of scratch in bytes */
};

/* State of the kernel. Offsets in elements; a repeated axis has stride 0. */
typedef struct batches {
    weir_cpu_product one;
    bool    aside;                 /* products run in parallel, each by `one.gemm` alone */
    int     ndim;                  /* axes before the matrices */
    int64_t dim[WEIR_MAX_DIMS], stride_a[WEIR_MAX_DIMS], stride_b[WEIR_MAX_DIMS];
    int64_t n, each, step;         /* products; per task; elements of a result */
    size_t  scratch;               /* bytes per worker; if products run one by one, of all */
    size_t  work;
    weir_half_fn widen, narrow;    /* small products of halves: copies in f32, by each worker */
} batches;

static void batches_free(void *state)
{
    batches *const p = state;
    weir_onednn_free(p->one.lib);
    weir_mem_free(p);
}

/* The operands of product i. */
static void operands_of(const batches *p, const weir_kargs *k, int64_t i, void *src[2], void **dst)
{
    const weir_gemm *const g = &p->one.gemm;
    int64_t                a = 0, b = 0, rest = i;
    for (int axis = p->ndim - 1; axis >= 0; axis--) {
        const int64_t at = rest % p->dim[axis];
        rest /= p->dim[axis];
        a += at * p->stride_a[axis];
        b += at * p->stride_b[axis];
    }
    src[0] = (char *)k->src[0] + (size_t)a * g->size_a;
    src[1] = (char *)k->src[1] + (size_t)b * g->size_b;
    *dst = (char *)k->dst[0] + (size_t)(i * p->step) * g->size_c;
}

/* A small product of halves: the operands are widened in the worker's scratch. */
static void run_widened(const batches *p, void *const src[2], void *dst, void *work)
{
    const weir_gemm_shape *const s = &p->one.gemm.shape;
    float *const                 a = work, *const b = a + s->m * s->k, *const c = b + s->k * s->n;
    p->widen(s->m * s->k, a, src[0]);
    p->widen(s->k * s->n, b, src[1]);
    weir_gemm_run(&p->one.gemm, a, b, c, false, NULL, NULL);
    p->narrow(s->m * s->n, dst, c);
}

static void batch_task(void *ctx, int64_t task)
{
    const weir_kargs *const k = ctx;
    const batches *const    p = k->state;
    char *const             work = k->work;
    for (int64_t i = task * p->each; i < min64(p->n, (task + 1) * p->each); i++) {
        void *src[2], *dst;
        char *const own = work ? work + (size_t)weir_thread_index() * p->scratch : NULL;
        operands_of(p, k, i, src, &dst);
        if (p->widen)
            run_widened(p, src, dst, own);
        else
            weir_gemm_run(&p->one.gemm, src[0], src[1], dst, false, own, NULL);
    }
}

static weir_status run_batches(const weir_kargs *k)
{
    const batches *const p = k->state;
    if (p->aside) {
        /* Any worker may have run; the whole workspace counts as used. */
        if (p->work > 0)
            memset((char *)k->work + p->work - UNIT, 0, UNIT);
        weir_kargs own = *k;
        weir_parallel(k->threads, ceil_div(p->n, p->each), batch_task, &own);
        return WEIR_OK;
    }
    WEIR_TRY(weir_gemm_ready(&p->one.gemm, k->threads));
    for (int64_t i = 0; i < p->n; i++) {
        void *src[2], *dst;
        operands_of(p, k, i, src, &dst);
        if (p->one.lib)
            WEIR_TRY(weir_onednn_run(p->one.lib, src, &dst, k->work, k->threads));
        else
            weir_gemm_run(&p->one.gemm, src[0], src[1], dst, false, k->work, k->threads);
    }
    return WEIR_OK;
}

/* Strides from matrix to matrix of operand i along the result's batch axes. */
static void batch_strides(const weir_call *c, int i, int ndim, int64_t stride[WEIR_MAX_DIMS])
{
    const weir_desc *const in = &c->in[i].desc;
    weir_desc              to = c->out[0].desc;
    weir_layout            seen;
    for (int axis = 1; axis <= 2; axis++)
        to.dim[to.ndim - axis] = in->dim[in->ndim - axis];
    weir_shape_expand(&c->in[i], &to, &seen);
    memcpy(stride, seen.stride, (size_t)ndim * sizeof *stride);
}

static weir_status plan_batches(weir_device *d, const weir_gemm_shape *s, batches *p)
{
    weir_gemm_want       want;
    const weir_openblas *blas;
    const double         volume = (double)s->m * (double)s->n * (double)s->k;
    WEIR_TRY(weir_gemm_libraries(d, "WEIR_GEMM", &want, &blas));
    p->aside = volume < TOGETHER && (volume < TOGETHER_FEW || p->n > FEW) &&
               (want == WEIR_GEMM_ANY || want == WEIR_GEMM_OWN);
    if (!p->aside) {
        WEIR_TRY(plan(d, s, &p->one));
        p->work = p->one.lib ? weir_onednn_work(p->one.lib) : p->one.gemm.work;
        return WEIR_OK;
    }
    weir_gemm_plan_alone(&p->one.gemm, s);
    p->each = volume > 0 ? max64(1, (int64_t)(TASK_VOLUME / volume)) : max64(1, p->n);
    p->scratch = (p->one.gemm.work + UNIT - 1) / UNIT * UNIT;
    p->work = p->scratch * (size_t)weir_threads_count(d->threads);
    return WEIR_OK;
}

/* Plans products of halves: by our own kernels, which convert as they pack, or if they are small in
 * copies that each worker makes. False on a processor too old for those kernels. */
static bool plan_half_batches(const weir_device *d, const weir_gemm_shape *s, batches *p)
{
    const weir_gemm_types types = {.a = s->dtype, .b = s->dtype, .c = s->dtype};
    const double          volume = (double)s->m * (double)s->n * (double)s->k;
    weir_gemm *const      g = &p->one.gemm;
    weir_gemm_shape       wide = *s;
    p->aside = volume < TOGETHER && (volume < TOGETHER_FEW || p->n > FEW);
    p->each = volume > 0 ? max64(1, (int64_t)(TASK_VOLUME / volume)) : max64(1, p->n);
    if (volume == 0) {
        weir_gemm_plan_alone(g, s);
    } else if (weir_gemm_plan_halves(g, s, &types)) {
        g->serial |= p->aside;
        p->scratch = g->work;
    } else {
        wide.dtype = WEIR_F32;
        weir_gemm_plan_alone(g, &wide);
        if (g->work > 0)
            return false;
        g->size_a = g->size_b = g->size_c = weir_dtype_size(s->dtype);
        p->aside = true;
        p->widen = weir_cpu_widen(s->dtype);
        p->narrow = weir_cpu_narrow(s->dtype);
        p->scratch = (size_t)(s->m * s->k + s->k * s->n + s->m * s->n) * sizeof(float);
    }
    p->scratch = p->aside ? (p->scratch + UNIT - 1) / UNIT * UNIT : p->scratch;
    p->work = p->scratch * (size_t)(p->aside ? weir_threads_count(d->threads) : 1);
    return true;
}

weir_status weir_cpu_batch_matmul(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_matmul_attr *const t = c->attr;
    const weir_desc *const a = &c->in[0].desc, *const b = &c->in[1].desc;
    const weir_desc *const y = &c->out[0].desc;
    const int64_t *const   da = a->dim + a->ndim - 2, *const db = b->dim + b->ndim - 2;
    const weir_gemm_shape  s = {.dtype = a->dtype,
                                .ta = t->ta != 0,
                                .tb = t->tb != 0,
                                .m = da[t->ta ? 1 : 0],
                                .k = da[t->ta ? 0 : 1],
                                .n = db[t->tb ? 0 : 1],
                                .lda = da[1],
                                .ldb = db[1],
                                .ldc = db[t->tb ? 0 : 1]};
    batches *const p = weir_mem_zalloc(1, sizeof *p);
    if (!p)
        return WEIR_ERR_NOMEM;
    p->ndim = y->ndim - 2;
    p->n = 1;
    for (int i = 0; i < p->ndim; i++)
        p->n *= p->dim[i] = y->dim[i];
    p->step = s.m * s.n;
    batch_strides(c, 0, p->ndim, p->stride_a);
    batch_strides(c, 1, p->ndim, p->stride_b);
    const bool        half = weir_is_half(s.dtype), own = half && plan_half_batches(d, &s, p);
    const weir_status status = half ? WEIR_OK : plan_batches(d, &s, p);
    if (status != WEIR_OK || half != own) {
        batches_free(p);
        return half ? weir_cpu_widened(d, c, weir_cpu_batch_matmul, out) : status;
    }
    *out = (weir_kernel){.run = run_batches,
                         .state = p,
                         .destroy = batches_free,
                         .work = p->work,
                         .impl = p->one.lib ? weir_onednn_impl(p->one.lib) : p->one.gemm.impl};
    return WEIR_OK;
}
