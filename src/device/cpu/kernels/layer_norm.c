/* layer_norm.c - layer normalisation of dense rows and its gradient, each in one pass over memory.
 *
 * A row is read from memory once: while it is in cache its mean, then the deviations from it, then
 * the result are computed (no difference of large sums is taken). The gradient reads four rows of
 * dy and x for their sums and, from cache, once more for dx and the sums over rows. Chunks of rows
 * run in parallel, each with sums in f64 of its own, which are added in order; the shape determines
 * all divisions. Halves are widened to f32 and rounded segment by segment within the cache; rows of
 * one segment are widened once. */
#include "device/cpu/kernels/layer_norm.h"

#include <math.h>

#include "core/attr.h"
#include "core/dtype.h"
#include "core/mem.h"
#include "core/status.h"
#include "device/common/div.h"
#include "device/cpu/isa.h"
#include "device/cpu/kernels.h"
#include "device/cpu/kernels/elementwise.h"
#include "device/cpu/kernels/real.h"

enum {
    SEGMENT = WEIR_LAYER_NORM_SEGMENT,
    ROWS  = WEIR_LAYER_NORM_ROWS,
    CHUNK = 32      /* least rows per chunk: partial sums have an eighth of the bytes of f32 rows */
};

/* How the elements of a tensor are stored. */
typedef struct form {
    size_t       size;
    weir_half_fn widen, narrow;     /* of halves; else NULL */
} form;

typedef struct plan {
    weir_layer_norm_loops loops;
    weir_dtype            type;             /* of statistics, scale and bias: f32 or f64 */
    form                  x, dy, result;    /* result: y or dx */
    double                eps;
    int64_t               rows, n;          /* n: elements per row */
    int64_t               chunk, chunks;    /* rows per task; tasks */
} plan;

typedef struct job {
    const plan       *p;
    const weir_kargs *k;
} job;

/* ---- segments of rows ---- */

/* Elements [at, at + n) of t, in `wide` if they are halves. */
static const void *read_segment(const form *f, const void *t, int64_t at, int64_t n, float *wide)
{
    const char *const from = (const char *)t + (size_t)at * f->size;

    if (!f->widen)
        return from;
    f->widen(n, wide, from);
    return wide;
}

/* The same of a row that was read before: `wide` still has a row of one segment. */
static const void *cached_segment(const plan *p, const form *f, const void *t, int64_t at,
                                  int64_t n, float *wide)
{
    return f->widen && p->n <= SEGMENT ? wide : read_segment(f, t, at, n, wide);
}

/* Where they are computed, and afterwards rounded from. */
static void *result_segment(const form *f, void *t, int64_t at, float *wide)
{
    return f->narrow ? (void *)wide : (char *)t + (size_t)at * f->size;
}

static void round_segment(const form *f, void *t, int64_t at, int64_t n, const void *wide)
{
    if (f->narrow)
        f->narrow(n, (char *)t + (size_t)at * f->size, wide);
}

/* Element `at` of a tensor of the statistics' type. */
static const void *element(const plan *p, const void *t, int64_t at)
{
    return (const char *)t + (size_t)at * weir_dtype_size(p->type);
}

static double rounded(const plan *p, double v)
{
    return p->type == WEIR_F32 ? (double)(float)v : v;
}

/* ---- the norm: x, scale, bias -> y, mean, rstd ---- */

static double row_mean(const job *j, int64_t row, float *wide)
{
    const plan *const p = j->p;
    double            sum = 0;

    for (int64_t c = 0; c < p->n; c += SEGMENT) {
        const int64_t some = min64(SEGMENT, p->n - c);
        sum += p->loops.sum(some, read_segment(&p->x, j->k->src[0], row * p->n + c, some, wide));
    }
    return rounded(p, sum / (double)p->n);
}

/* The first mean is rounded, so the sum of deviations is not exactly 0: it corrects the mean and
 * the squared deviations (Chan, Golub and LeVeque 1983). */
static void row_statistics(const job *j, int64_t row, float *wide, double *mean, double *rstd)
{
    const plan *const p = j->p;
    const double      n = (double)p->n, first = *mean;
    double            off[2] = {0, 0};

    for (int64_t c = 0; c < p->n; c += SEGMENT) {
        const int64_t some = min64(SEGMENT, p->n - c);
        p->loops.deviations(
            some, cached_segment(p, &p->x, j->k->src[0], row * p->n + c, some, wide), first, off);
    }
    const double var = (off[1] - off[0] * (off[0] / n)) / n;
    *mean = rounded(p, first + off[0] / n);
    *rstd = rounded(p, 1 / sqrt((var < 0 ? 0 : var) + p->eps));
}

static void apply_row(const job *j, int64_t row, float *wide, double mean, double rstd)
{
    const plan *const       p = j->p;
    const weir_kargs *const k = j->k;

    for (int64_t c = 0; c < p->n; c += SEGMENT) {
        const int64_t some = min64(SEGMENT, p->n - c), at = row * p->n + c;
        const void   *x = cached_segment(p, &p->x, k->src[0], at, some, wide);
        void         *y = result_segment(&p->result, k->dst[0], at, wide);
        p->loops.apply(some, x, mean, rstd, element(p, k->src[1], c), element(p, k->src[2], c), y);
        round_segment(&p->result, k->dst[0], at, some, y);
    }
    real_store(p->type, k->dst[1], row, mean);
    real_store(p->type, k->dst[2], row, rstd);
}

/* Rows [first, first + rows). While the lanes of one row's sum are added, the processor begins with
 * the next row. */
static void norm_rows(const job *j, int64_t first, int rows)
{
    float  wide[ROWS][SEGMENT];
    double mean[ROWS], rstd[ROWS];

    for (int i = 0; i < rows; i++)
        mean[i] = row_mean(j, first + i, wide[i]);
    for (int i = 0; i < rows; i++)
        row_statistics(j, first + i, wide[i], &mean[i], &rstd[i]);
    for (int i = 0; i < rows; i++)
        apply_row(j, first + i, wide[i], mean[i], rstd[i]);
}

/* Rows of several segments come one by one: together they would not stay in the first cache. */
static void norm_task(void *ctx, int64_t task)
{
    const job *const  j = ctx;
    const plan *const p = j->p;
    const int64_t     end = min64(p->rows, (task + 1) * p->chunk), some = p->n > SEGMENT ? 1 : ROWS;

    for (int64_t row = task * p->chunk; row < end; row += some)
        norm_rows(j, row, (int)min64(some, end - row));
}

static weir_status norm_run(const weir_kargs *k)
{
    const plan *const p = k->state;
    job               j = {p, k};

    weir_parallel(k->threads, p->chunks, norm_task, &j);
    return WEIR_OK;
}

/* ---- the gradient: dy, x, mean, rstd, scale -> dx, dscale, dbias ---- */

/* Segments of rows of halves, widened. */
typedef struct wide_rows {
    float dy[ROWS][SEGMENT], x[ROWS][SEGMENT];
} wide_rows;

/* Sums of a chunk: [2][n], of dy xhat and of dy. */
static double *sums_of(const job *j, int64_t chunk)
{
    return (double *)j->k->work + chunk * 2 * j->p->n;
}

/* The numbers of a row. */
static weir_layer_norm_row row_sums(const job *j, int64_t row, float *dy, float *x)
{
    const plan *const       p = j->p;
    const weir_kargs *const k = j->k;
    weir_layer_norm_row     r = {.mean = real_load(p->type, k->src[2], row),
                                 .rstd = real_load(p->type, k->src[3], row)};
    double                  sum[2] = {0, 0};

    for (int64_t c = 0; c < p->n; c += SEGMENT) {
        const int64_t some = min64(SEGMENT, p->n - c), at = row * p->n + c;
        r.dy = read_segment(&p->dy, k->src[0], at, some, dy);
        r.x = read_segment(&p->x, k->src[1], at, some, x);
        p->loops.grad_sums(some, &r, element(p, k->src[4], c), sum);
    }
    r.g = rounded(p, sum[0] / (double)p->n);
    r.g_xhat = rounded(p, sum[1] / (double)p->n);
    return r;
}

/* Rows [first, first + rows). */
static void grad_rows(const job *j, int64_t first, int rows, double *sums)
{
    const plan *const       p = j->p;
    const weir_kargs *const k = j->k;
    weir_layer_norm_row     r[ROWS] = {{0}};
    wide_rows               w;

    for (int i = 0; i < rows; i++)
        r[i] = row_sums(j, first + i, w.dy[i], w.x[i]);
    for (int64_t c = 0; c < p->n; c += SEGMENT) {
        const int64_t some = min64(SEGMENT, p->n - c);
        for (int i = 0; i < rows; i++) {
            const int64_t at = (first + i) * p->n + c;
            r[i].dy = cached_segment(p, &p->dy, k->src[0], at, some, w.dy[i]);
            r[i].x = cached_segment(p, &p->x, k->src[1], at, some, w.x[i]);
            r[i].dx = result_segment(&p->result, k->dst[0], at, w.x[i]);
        }
        p->loops.grad(some, rows, r, element(p, k->src[4], c), sums + c, sums + p->n + c);
        for (int i = 0; i < rows; i++)
            round_segment(&p->result, k->dst[0], (first + i) * p->n + c, some, r[i].dx);
    }
}

static void grad_task(void *ctx, int64_t task)
{
    const job *const  j = ctx;
    const plan *const p = j->p;
    const int64_t     end = min64(p->rows, (task + 1) * p->chunk);
    double *const     sums = sums_of(j, task);

    for (int64_t c = 0; c < 2 * p->n; c++)
        sums[c] = 0;
    for (int64_t row = task * p->chunk; row < end; row += ROWS)
        grad_rows(j, row, (int)min64(ROWS, end - row), sums);
}

/* Adds the chunks' sums of a segment of the columns in order. */
static void join_task(void *ctx, int64_t task)
{
    const job *const  j = ctx;
    const plan *const p = j->p;
    const int64_t     begin = task * SEGMENT, end = min64(2 * p->n, begin + SEGMENT);
    double *const     sums = sums_of(j, 0);

    for (int64_t chunk = 1; chunk < p->chunks; chunk++) {
        const double *const more = sums_of(j, chunk);
        for (int64_t c = begin; c < end; c++)
            sums[c] += more[c];
    }
    for (int64_t c = begin; c < end; c++)
        real_store(p->type, j->k->dst[c < p->n ? 1 : 2], c < p->n ? c : c - p->n, sums[c]);
}

static weir_status grad_run(const weir_kargs *k)
{
    const plan *const p = k->state;
    job               j = {p, k};

    weir_parallel(k->threads, p->chunks, grad_task, &j);
    weir_parallel(k->threads, ceil_div(2 * p->n, SEGMENT), join_task, &j);
    return WEIR_OK;
}

/* ---- selecting ---- */

static form form_of(weir_dtype t)
{
    return (form){weir_dtype_size(t), weir_cpu_widen(t), weir_cpu_narrow(t)};
}

/* Input x has the rows, input `scale` the elements of one. */
static weir_status choose(const weir_call *c, int x, int scale, weir_kernel *out)
{
    static const weir_layer_norm_loops *const table[] = WEIR_ISA_TABLE(weir_layer_norm_loops);
    const weir_dtype                          type = c->in[scale].desc.dtype;

    if (!real_type(type))
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "no CPU kernel for %s", weir_dtype_name(type));
    plan *const p = weir_mem_alloc(sizeof *p);
    if (!p)
        return WEIR_ERR_NOMEM;
    *p = (plan){.loops = table[weir_cpu_isa()][type],
                .type = type,
                .x = form_of(c->in[x].desc.dtype),
                .dy = form_of(c->in[0].desc.dtype),
                .result = form_of(c->out[0].desc.dtype),
                .n = weir_shape_count(&c->in[scale].desc)};
    p->rows = weir_shape_count(&c->out[1].desc);
    *out = (weir_kernel){.state = p, .destroy = weir_mem_free, .impl = "c"};
    return WEIR_OK;
}

weir_status weir_cpu_layer_norm(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    WEIR_TRY(choose(c, 0, 1, out));
    plan *const p = out->state;
    p->eps = ((const weir_layer_norm_attr *)c->attr)->eps;
    p->chunk = rows_per_task(p->n);
    p->chunks = ceil_div(p->rows, p->chunk);
    out->run = norm_run;
    return WEIR_OK;
}

weir_status weir_cpu_layer_norm_grad(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    WEIR_TRY(choose(c, 1, 4, out));
    plan *const p = out->state;
    p->rows = weir_shape_count(&c->in[2].desc);
    const int64_t worth = min64(WEIR_TASKS, p->rows * p->n / WEIR_TASK_ELEMENTS);
    p->chunk = max64(CHUNK, ceil_div(ceil_div(p->rows, max64(1, worth)), ROWS) * ROWS);
    p->chunks = max64(1, ceil_div(p->rows, p->chunk));
    out->work = (size_t)(p->chunks * 2 * p->n) * sizeof(double);
    out->run = grad_run;
    return WEIR_OK;
}
