/* update.c - SGD_UPDATE, ADAM_UPDATE and INCREMENT: parameters and state overwritten in one pass.
 *
 * All operands of a call are dense and equally laid out, but for the scalars (lr, step), which are
 * read when the call runs. */
#include "device/cpu/update.h"

#include <math.h>

#include "core/attr.h"
#include "core/mem.h"
#include "device/cpu/cut.h"
#include "device/cpu/isa.h"
#include "device/cpu/kernels.h"

enum { TASK = 16 << 10 };   /* elements */

typedef struct update {
    const weir_update_loops *loops;
    int                      type;      /* 0: f32, 1: f64 */
    int                      lr_type;
    size_t                   size;
    int64_t                  n;
    bool                     buffer;    /* SGD has a momentum buffer */
    weir_sgd_args            sgd;
    weir_adam_args           adam;
    double                   by;
} update;

/* A run's arguments, with the scalars of this run. */
typedef struct update_run {
    const weir_kargs *k;
    weir_sgd_args     sgd;
    weir_adam_args    adam;
} update_run;

static double scalar(const void *at, int type)
{
    return type == 0 ? (double)*(const float *)at : *(const double *)at;
}

static void *part(const update *u, const weir_kargs *k, int input, int64_t task)
{
    return (char *)k->src[input] + (size_t)(task * TASK) * u->size;
}

static int64_t part_count(const update *u, int64_t task)
{
    return min64(TASK, u->n - task * TASK);
}

static void over_tasks(update_run *r, weir_task_fn fn)
{
    const update *const u = r->k->state;
    if (u->n > 0)
        weir_parallel(r->k->threads, ceil_div(u->n, TASK), fn, r);
}

static weir_status choose(const weir_call *c, const update *from, int lr,
                          weir_status (*run)(const weir_kargs *), weir_choice *out)
{
    static const weir_update_loops *const table[] = WEIR_ISA_TABLE(&weir_updates);
    const weir_dtype type = c->in[0].desc.dtype;
    if (type != WEIR_F32 && type != WEIR_F64)
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "no CPU kernel for %s", weir_dtype_name(type));
    update *const u = weir_mem_alloc(sizeof *u);
    if (!u)
        return WEIR_ERR_NOMEM;
    *u = *from;
    u->loops = table[weir_cpu_isa()];
    u->type = type == WEIR_F64;
    u->lr_type = c->in[lr].desc.dtype == WEIR_F64;
    u->size = weir_dtype_size(type);
    u->n = weir_shape_count(&c->in[0].desc);
    *out = (weir_choice){.run = run, .state = u, .destroy = weir_mem_free, .impl = "c"};
    return WEIR_OK;
}

/* ---- SGD: param, grad, lr [, momentum buffer] ---- */

static void sgd_task(void *ctx, int64_t task)
{
    const update_run *const r = ctx;
    const update *const     u = r->k->state;
    u->loops->sgd[u->type](part_count(u, task), part(u, r->k, 0, task), part(u, r->k, 1, task),
                           u->buffer ? part(u, r->k, 3, task) : NULL, &r->sgd);
}

static weir_status sgd_run(const weir_kargs *k)
{
    const update *const u = k->state;
    update_run          r = {.k = k, .sgd = u->sgd};
    r.sgd.lr = scalar(k->src[2], u->lr_type);
    over_tasks(&r, sgd_task);
    return WEIR_OK;
}

weir_status weir_cpu_sgd_update(weir_device *d, const weir_call *c, weir_choice *out)
{
    const weir_sgd_attr *const a = c->attr;
    const update               u = {.buffer = c->nin > 3,
                                    .sgd = {.momentum = a->momentum,
                                            .weight_decay = a->weight_decay,
                                            .take = 1 - a->dampening,
                                            .nesterov = a->nesterov != 0}};
    (void)d;
    return choose(c, &u, 2, sgd_run, out);
}

/* ---- Adam: param, grad, m, v, step, lr ---- */

static void adam_task(void *ctx, int64_t task)
{
    const update_run *const r = ctx;
    const update *const     u = r->k->state;
    u->loops->adam[u->type](part_count(u, task), part(u, r->k, 0, task), part(u, r->k, 1, task),
                            part(u, r->k, 2, task), part(u, r->k, 3, task), &r->adam);
}

static weir_status adam_run(const weir_kargs *k)
{
    const update *const u = k->state;
    const double        t = *(const double *)k->src[4];
    update_run          r = {.k = k, .adam = u->adam};
    r.adam.step = scalar(k->src[5], u->lr_type) / (1 - pow(u->adam.beta1, t));
    r.adam.root = sqrt(1 - pow(u->adam.beta2, t));
    over_tasks(&r, adam_task);
    return WEIR_OK;
}

weir_status weir_cpu_adam_update(weir_device *d, const weir_call *c, weir_choice *out)
{
    const weir_adam_attr *const a = c->attr;
    const update                u = {.adam = {.beta1 = a->beta1,
                                              .beta2 = a->beta2,
                                              .eps = a->eps,
                                              .weight_decay = a->weight_decay}};
    (void)d;
    return choose(c, &u, 5, adam_run, out);
}

/* ---- increment ---- */

static void increment_task(void *ctx, int64_t task)
{
    const update_run *const r = ctx;
    const update *const     u = r->k->state;
    u->loops->increment[u->type](part_count(u, task), part(u, r->k, 0, task), u->by);
}

static weir_status increment_run(const weir_kargs *k)
{
    update_run r = {.k = k};
    over_tasks(&r, increment_task);
    return WEIR_OK;
}

weir_status weir_cpu_increment(weir_device *d, const weir_call *c, weir_choice *out)
{
    const weir_increment_attr *const a = c->attr;
    const update                     u = {.by = a->by};
    (void)d;
    return choose(c, &u, 0, increment_run, out);
}
