/* norm.c - the reductions of batch normalisation: statistics of a batch, sums for the gradient, and
 * the running statistics.
 *
 * x, (n,c) or channels-last (n,c,h,w), is a matrix of rows of c adjacent channels. Rows are divided
 * into pieces that fit a cache; pieces form chunks, which run in parallel and are combined in
 * order. The shape determines all divisions. x and dy may be halves beside statistics in f32. */
#include "device/cpu/kernels/norm.h"

#include <math.h>

#include "core/attr.h"
#include "core/mem.h"
#include "core/status.h"
#include "device/common/div.h"
#include "device/cpu/isa.h"
#include "device/cpu/kernels.h"
#include "device/cpu/kernels/real.h"

typedef struct plan {
    weir_norm_loops loops;
    weir_dtype      type;               /* of the statistics */
    weir_dtype      x, dy;              /* of the tensors, which may be halves */
    int64_t         rows, channels;
    int64_t         blocks;             /* tasks along the channels */
    int64_t         chunk, chunks;      /* rows per task; tasks along the rows */
    double          eps;
} plan;

static void plan_tasks(plan *p, const weir_desc *x)
{
    p->channels = x->dim[1];
    p->rows = x->dim[0] * (x->ndim == 4 ? x->dim[2] * x->dim[3] : 1);
    p->blocks = ceil_div(p->channels, WEIR_NORM_COLS);
    const int64_t segments = ceil_div(p->rows, WEIR_NORM_ROWS);
    const int64_t worth = p->rows * p->channels / WEIR_TASK_ELEMENTS;
    const int64_t most = min64(segments, min64(WEIR_TASKS / max64(1, p->blocks), worth));
    p->chunk = WEIR_NORM_ROWS * max64(1, ceil_div(segments, max64(1, most)));
    p->chunks = max64(1, ceil_div(p->rows, p->chunk));
}

/* The first `tensors` inputs are as large as x, the last of them. */
static weir_status choose(const weir_call *c, int tensors,
                          weir_status (*run)(const weir_kargs *), double eps, weir_kernel *out)
{
    static const weir_norm_loops *const table[] = WEIR_ISA_TABLE(weir_norm_loops);
    const weir_desc *const              x = &c->in[tensors - 1].desc;
    const weir_dtype                    type = c->out[0].desc.dtype;
    if (!real_type(type))
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "no CPU kernel for %s", weir_dtype_name(type));
    plan *p = weir_mem_alloc(sizeof *p);
    if (!p)
        return WEIR_ERR_NOMEM;
    *p = (plan){.loops = table[weir_cpu_isa()][x->dtype],
                .type = type,
                .x = x->dtype,
                .dy = c->in[0].desc.dtype,
                .eps = eps};
    plan_tasks(p, x);
    *out = (weir_kernel){.run = run,
                         .work = (size_t)(p->chunks * 2 * p->channels) * sizeof(double),
                         .state = p,
                         .destroy = weir_mem_free,
                         .impl = "c"};
    return WEIR_OK;
}

/* ---- tasks ---- */

typedef struct job {
    const plan       *p;
    const weir_kargs *k;
    double           *partial; /* [chunks][2][channels]: two accumulators of each channel */
} job;

static double *partial_of(const job *j, int64_t chunk, int64_t channel)
{
    return j->partial + chunk * 2 * j->p->channels + channel;
}

typedef struct task_place {
    int64_t first, last;        /* rows */
    int64_t channel, cols;
    double *a, *b;              /* accumulators of the chunk */
} task_place;

/* The accumulators of a task, set to 0, and its ranges. */
static task_place place_of(const job *j, int64_t task)
{
    const plan   *p = j->p;
    const int64_t chunk = task / p->blocks, channel = task % p->blocks * WEIR_NORM_COLS;
    double       *a = partial_of(j, chunk, channel);
    task_place    t = {.first = chunk * p->chunk,
                       .last = min64(p->rows, (chunk + 1) * p->chunk),
                       .channel = channel,
                       .cols = min64(WEIR_NORM_COLS, p->channels - channel),
                       .a = a,
                       .b = a + p->channels};
    for (int64_t c = 0; c < t.cols; c++)
        t.a[c] = t.b[c] = 0;
    return t;
}

/* Element `at` of input i, which has type t. */
static const char *element(const job *j, int i, weir_dtype t, int64_t at)
{
    return (const char *)j->k->src[i] + at * (int64_t)weir_dtype_size(t);
}

static void stats_task(void *ctx, int64_t task)
{
    const job       *j = ctx;
    const plan      *p = j->p;
    const task_place t = place_of(j, task);
    for (int64_t r = t.first; r < t.last; r += WEIR_NORM_ROWS)
        p->loops.stats(element(j, 0, p->x, r * p->channels + t.channel),
                       min64(WEIR_NORM_ROWS, t.last - r), p->channels, t.cols, r - t.first, t.a,
                       t.b);
}

static void grads_task(void *ctx, int64_t task)
{
    const job       *j = ctx;
    const plan      *p = j->p;
    const task_place t = place_of(j, task);
    const char      *mean = element(j, 2, p->type, t.channel);
    for (int64_t r = t.first; r < t.last; r += WEIR_NORM_ROWS) {
        const int64_t at = r * p->channels + t.channel;
        p->loops.grads[p->dy](element(j, 0, p->dy, at), element(j, 1, p->x, at),
                              min64(WEIR_NORM_ROWS, t.last - r), p->channels, t.cols, mean, t.a,
                              t.b);
    }
}

/* ---- statistics ---- */

static weir_status stats_run(const weir_kargs *k)
{
    const plan *p = k->state;
    job         j = {p, k, k->work};
    weir_parallel(k->threads, p->chunks * p->blocks, stats_task, &j);
    double *mean = partial_of(&j, 0, 0), *m2 = mean + p->channels;
    for (int64_t i = 1; i < p->chunks; i++) {
        const int64_t done = i * p->chunk, n = min64(p->chunk, p->rows - done);
        const double *next = partial_of(&j, i, 0);
        p->loops.join(p->channels, done, mean, m2, n, next, next + p->channels);
    }
    for (int64_t c = 0; c < p->channels; c++) {
        const double var = p->rows > 0 ? m2[c] / (double)p->rows : (double)NAN;
        real_store(p->type, k->dst[0], c, p->rows > 0 ? mean[c] : (double)NAN);
        real_store(p->type, k->dst[1], c, var);
        real_store(p->type, k->dst[2], c, 1 / sqrt(var + p->eps));
    }
    return WEIR_OK;
}

weir_status weir_cpu_bn_stats(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    return choose(c, 1, stats_run, ((const weir_bn_attr *)c->attr)->eps, out);
}

/* ---- sums for the gradient ---- */

static weir_status grads_run(const weir_kargs *k)
{
    const plan *p = k->state;
    job         j = {p, k, k->work};
    weir_parallel(k->threads, p->chunks * p->blocks, grads_task, &j);
    for (int64_t c = 0; c < p->channels; c++) {
        double ds = 0, db = 0;
        for (int64_t i = 0; i < p->chunks; i++) {
            const double *partial = partial_of(&j, i, c);
            ds += partial[0];
            db += partial[p->channels];
        }
        real_store(p->type, k->dst[0], c, ds * real_load(p->type, k->src[3], c));
        real_store(p->type, k->dst[1], c, db);
    }
    return WEIR_OK;
}

weir_status weir_cpu_bn_grad_reduce(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    return choose(c, 2, grads_run, 0, out);
}

/* ---- running statistics ---- */

typedef struct update {
    int64_t             rows, channels;
    weir_bn_update_attr attr;
} update;

/* With one element per channel there is no unbiased variance, so the biased one is used. */
#define UPDATE(name, T)                                                                            \
    static void name(const update *u, void *const *src)                                            \
    {                                                                                              \
        T           *running_mean = src[0], *running_var = src[1];                                 \
        const T     *mean = src[2], *var = src[3];                                                 \
        const T      w = (T)u->attr.momentum, keep = (T)(1 - u->attr.momentum);                    \
        const double n = u->attr.count;                                                            \
        const T      unbias = (T)(n > 1 ? n / (n - 1) : 1);                                        \
        for (int64_t row = 0; row < u->rows; row++, mean += u->channels, var += u->channels)       \
            for (int64_t c = 0; c < u->channels; c++) {                                            \
                running_mean[c] = keep * running_mean[c] + w * mean[c];                            \
                running_var[c] = keep * running_var[c] + w * (var[c] * unbias);                    \
            }                                                                                      \
    }
UPDATE(update_f32, float)
UPDATE(update_f64, double)

static weir_status update_run_f32(const weir_kargs *k)
{
    update_f32(k->state, k->src);
    return WEIR_OK;
}

static weir_status update_run_f64(const weir_kargs *k)
{
    update_f64(k->state, k->src);
    return WEIR_OK;
}

weir_status weir_cpu_bn_update(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    const weir_dtype type = c->in[0].desc.dtype;
    if (!real_type(type))
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "no CPU kernel for %s", weir_dtype_name(type));
    update *u = weir_mem_alloc(sizeof *u);
    if (!u)
        return WEIR_ERR_NOMEM;
    *u = (update){c->in[2].desc.ndim == 2 ? c->in[2].desc.dim[0] : 1, c->in[0].desc.dim[0],
                  *(const weir_bn_update_attr *)c->attr};
    *out = (weir_kernel){.run = type == WEIR_F32 ? update_run_f32 : update_run_f64,
                         .state = u,
                         .destroy = weir_mem_free,
                         .impl = "c"};
    return WEIR_OK;
}
