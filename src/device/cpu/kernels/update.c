/* update.c - optimiser updates, learning rates, counters, accumulation: memory overwritten in one
 * pass.
 *
 * All operands of a call are dense with equal layouts, except the rate (optionally followed by
 * option values) and the step count, which are read when the call runs. If the rate is NaN, the
 * update is skipped. */
#include "device/cpu/kernels/update.h"

#include <math.h>

#include "core/attr.h"
#include "core/mem.h"
#include "device/common/div.h"
#include "device/cpu/isa.h"
#include "device/cpu/kernels.h"
#include "device/cpu/kernels/elementwise.h"
#include "device/common/update_rate.h"

enum { TASK = 16 << 10, PART = 2 << 10 };   /* elements; of a part of a half gradient */

typedef struct update {
    const weir_update_loops *loops;
    int                      type;      /* 0: f32, 1: f64 */
    int                      lr_type;
    bool                     numbers;   /* option values follow the rate in memory */
    size_t                   size;
    weir_half_fn             widen;     /* of the gradient; NULL: it has the parameter's type */
    int64_t                  n;
    bool                     buffer;    /* there is a momentum buffer */
    bool                     steps;     /* there is a step count: the first step is undamped */
    bool                     mean;      /* RMSProp is centered */
    bool                     decouple;  /* AdamW: weight decay separate from the gradient */
    weir_sgd_args            sgd;
    weir_adam_args           adam;
    weir_square_args         square;    /* Adagrad, RMSProp */
    weir_lr_attr             rate;
    double                   by;        /* amount of INCREMENT; value of RESET */
} update;

/* A range of elements, and where its gradient begins. */
typedef struct range {
    int64_t     at, n;
    const void *grad;
} range;

/* Arguments of a run, with its scalars. */
typedef struct update_run {
    const weir_kargs *k;
    weir_sgd_args     sgd;
    weir_adam_args    adam;
    weir_square_args  square;
    int               carries;  /* of ACCUMULATE_TREE: rows that are full */
    void            (*apply)(const struct update_run *r, const range *e);
} update_run;

static double scalar(const void *at, int type)
{
    return type == 0 ? (double)*(const float *)at : *(const double *)at;
}

/* Value i after the rate at `lr`, or `option` if the rate stands alone. */
static double number(const update *u, const void *lr, int i, double option)
{
    const size_t size = u->lr_type == 0 ? sizeof(float) : sizeof(double);
    return u->numbers ? scalar((const char *)lr + (size_t)(1 + i) * size, u->lr_type) : option;
}

/* Where the range begins in an input of the parameter's type. */
static void *part(const update_run *r, int input, const range *e)
{
    const update *const u = r->k->state;
    return (char *)r->k->src[input] + (size_t)e->at * u->size;
}

/* Applies the update to a task's elements: at once, or, if the gradient is a half, part by part,
 * so that its widened part stays in cache. */
static void range_task(void *ctx, int64_t task)
{
    const update_run *const r = ctx;
    const update *const     u = r->k->state;
    const int64_t           end = min64(u->n, (task + 1) * TASK), most = u->widen ? PART : TASK;
    float                   wide[PART];
    for (range e = {.at = task * TASK}; e.at < end; e.at += e.n) {
        e.n = min64(most, end - e.at);
        e.grad = u->widen ? wide : r->k->call->nin > 1 ? part(r, 1, &e) : NULL;
        if (u->widen)
            u->widen(e.n, wide, (const uint16_t *)r->k->src[1] + e.at);
        r->apply(r, &e);
    }
}

static void over_ranges(update_run *r, void (*apply)(const update_run *r, const range *e))
{
    const update *const u = r->k->state;
    r->apply = apply;
    if (u->n > 0)
        weir_parallel(r->k->threads, ceil_div(u->n, TASK), range_task, r);
}

static weir_status choose(const weir_call *c, const update *from, int lr,
                          weir_status (*run)(const weir_kargs *), weir_kernel *out)
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
    u->numbers = weir_shape_count(&c->in[lr].desc) > 1;
    u->size = weir_dtype_size(type);
    u->n = weir_shape_count(&c->in[0].desc);
    if (c->nin > 1)
        u->widen = weir_cpu_widen(c->in[1].desc.dtype);
    *out = (weir_kernel){.run = run, .state = u, .destroy = weir_mem_free, .impl = "c"};
    return WEIR_OK;
}

/* ---- SGD: param, grad, lr [, momentum buffer [, step]] ---- */

static void sgd_range(const update_run *r, const range *e)
{
    const update *const u = r->k->state;
    u->loops->sgd[u->type](e->n, part(r, 0, e), e->grad, u->buffer ? part(r, 3, e) : NULL,
                           &r->sgd);
}

static weir_status sgd_run(const weir_kargs *k)
{
    const update *const u = k->state;
    update_run          r = {.k = k, .sgd = u->sgd};
    r.sgd.lr = scalar(k->src[2], u->lr_type);
    if (isnan(r.sgd.lr))
        return WEIR_OK;
    r.sgd.momentum = number(u, k->src[2], 0, u->sgd.momentum);
    r.sgd.weight_decay = number(u, k->src[2], 1, u->sgd.weight_decay);
    r.sgd.take = u->numbers ? 1 - number(u, k->src[2], 2, 0) : u->sgd.take;
    if (u->steps && *(const double *)k->src[4] == 1)
        r.sgd.take = 1;
    over_ranges(&r, sgd_range);
    return WEIR_OK;
}

weir_status weir_cpu_sgd_update(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_sgd_attr *const a = c->attr;
    const update               u = {.buffer = c->nin > 3,
                                    .steps = c->nin > 4,
                                    .sgd = {.momentum = a->momentum,
                                            .weight_decay = a->weight_decay,
                                            .take = 1 - a->dampening,
                                            .nesterov = a->nesterov != 0}};
    (void)d;
    return choose(c, &u, 2, sgd_run, out);
}

/* ---- Adam: param, grad, m, v, step, lr ---- */

static void adam_range(const update_run *r, const range *e)
{
    const update *const u = r->k->state;
    u->loops->adam[u->type](e->n, part(r, 0, e), e->grad, part(r, 2, e), part(r, 3, e), &r->adam);
}

static weir_status adam_run(const weir_kargs *k)
{
    const update *const u = k->state;
    const double        t = *(const double *)k->src[4];
    update_run          r = {.k = k, .adam = u->adam};
    const double        lr = scalar(k->src[5], u->lr_type);
    const double        decay = number(u, k->src[5], 3, u->adam.weight_decay);
    if (isnan(lr))
        return WEIR_OK;
    r.adam.beta1 = number(u, k->src[5], 0, u->adam.beta1);
    r.adam.beta2 = number(u, k->src[5], 1, u->adam.beta2);
    r.adam.eps = number(u, k->src[5], 2, u->adam.eps);
    r.adam.weight_decay = u->decouple ? 0 : decay;
    r.adam.keep = 1 - lr * (u->decouple ? decay : 0);
    r.adam.step = lr / (1 - weir_count_power(r.adam.beta1, t));
    r.adam.root = sqrt(1 - weir_count_power(r.adam.beta2, t));
    over_ranges(&r, adam_range);
    return WEIR_OK;
}

static weir_status choose_adam(const weir_call *c, bool decouple, weir_kernel *out)
{
    const weir_adam_attr *const a = c->attr;
    const update                u = {.decouple = decouple,
                                     .adam = {.beta1 = a->beta1,
                                              .beta2 = a->beta2,
                                              .eps = a->eps,
                                              .weight_decay = a->weight_decay}};
    return choose(c, &u, 5, adam_run, out);
}

weir_status weir_cpu_adam_update(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    return choose_adam(c, false, out);
}

/* AdamW: weight decay applies to the parameter, not to the gradient. */
weir_status weir_cpu_adamw_update(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    return choose_adam(c, true, out);
}

/* ---- Adagrad: param, grad, lr, sum of squares ---- */

static void adagrad_range(const update_run *r, const range *e)
{
    const update *const u = r->k->state;
    u->loops->adagrad[u->type](e->n, part(r, 0, e), e->grad, part(r, 3, e), &r->square);
}

static weir_status adagrad_run(const weir_kargs *k)
{
    const update *const u = k->state;
    update_run          r = {.k = k, .square = u->square};
    r.square.lr = scalar(k->src[2], u->lr_type);
    if (isnan(r.square.lr))
        return WEIR_OK;
    r.square.eps = number(u, k->src[2], 0, u->square.eps);
    r.square.weight_decay = number(u, k->src[2], 1, u->square.weight_decay);
    over_ranges(&r, adagrad_range);
    return WEIR_OK;
}

weir_status weir_cpu_adagrad_update(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_adagrad_attr *const a = c->attr;
    const update u = {.square = {.eps = a->eps,
                                 .weight_decay = a->weight_decay,
                                 .eps_inside = a->eps_inside != 0}};
    (void)d;
    return choose(c, &u, 2, adagrad_run, out);
}

/* ---- RMSProp: param, grad, lr, mean square [, momentum buffer] [, mean] ---- */

static void rmsprop_range(const update_run *r, const range *e)
{
    const update *const u = r->k->state;
    void *const buffer = u->buffer ? part(r, 4, e) : NULL;
    void *const mean = u->mean ? part(r, 4 + u->buffer, e) : NULL;
    u->loops->rmsprop[u->type](e->n, part(r, 0, e), e->grad, part(r, 3, e), buffer, mean,
                               &r->square);
}

static weir_status rmsprop_run(const weir_kargs *k)
{
    const update *const u = k->state;
    update_run          r = {.k = k, .square = u->square};
    r.square.lr = scalar(k->src[2], u->lr_type);
    if (isnan(r.square.lr))
        return WEIR_OK;
    r.square.alpha = number(u, k->src[2], 0, u->square.alpha);
    r.square.eps = number(u, k->src[2], 1, u->square.eps);
    r.square.weight_decay = number(u, k->src[2], 2, u->square.weight_decay);
    r.square.momentum = number(u, k->src[2], 3, u->square.momentum);
    over_ranges(&r, rmsprop_range);
    return WEIR_OK;
}

weir_status weir_cpu_rmsprop_update(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_rmsprop_attr *const a = c->attr;
    const update                   u = {.buffer = a->momentum != 0,
                                        .mean = a->centered != 0,
                                        .square = {.alpha = a->alpha,
                                                   .eps = a->eps,
                                                   .weight_decay = a->weight_decay,
                                                   .momentum = a->momentum,
                                                   .eps_inside = a->eps_inside != 0}};
    (void)d;
    return choose(c, &u, 2, rmsprop_run, out);
}

/* ---- learning rate: lr, step ---- */

static weir_status lr_run(const weir_kargs *k)
{
    const update *const u = k->state;
    const double        rate = weir_rate_at(&u->rate, *(const double *)k->src[1]);
    if (u->type == 0)
        *(float *)k->src[0] = (float)rate;
    else
        *(double *)k->src[0] = rate;
    return WEIR_OK;
}

weir_status weir_cpu_lr_schedule(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const update u = {.rate = *(const weir_lr_attr *)c->attr};
    (void)d;
    return choose(c, &u, 0, lr_run, out);
}

/* ---- increment ---- */

static void increment_range(const update_run *r, const range *e)
{
    const update *const u = r->k->state;
    u->loops->increment[u->type](e->n, part(r, 0, e), u->by);
}

static weir_status increment_run(const weir_kargs *k)
{
    update_run r = {.k = k};
    over_ranges(&r, increment_range);
    return WEIR_OK;
}

weir_status weir_cpu_increment(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_increment_attr *const a = c->attr;
    const update                     u = {.by = a->by};
    (void)d;
    return choose(c, &u, 0, increment_run, out);
}

/* ---- accumulate: buffer, grad ---- */

static void accumulate_range(const update_run *r, const range *e)
{
    const update *const u = r->k->state;
    u->loops->accumulate[u->type](e->n, part(r, 0, e), e->grad);
}

static weir_status accumulate_run(const weir_kargs *k)
{
    update_run r = {.k = k};
    over_ranges(&r, accumulate_range);
    return WEIR_OK;
}

weir_status weir_cpu_accumulate(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const update u = {.loops = NULL};
    (void)d;
    return choose(c, &u, 0, accumulate_run, out);
}

/* ---- accumulate_tree: partial, grad, count ---- */

/* Adds the range's gradients to row 0, and each full row to the one after it. */
static void accumulate_tree_range(const update_run *r, const range *e)
{
    const update *const            u = r->k->state;
    const weir_update_loops *const l = u->loops;
    char                          *row = part(r, 0, e);
    const size_t                   next = (size_t)u->n * u->size;

    l->accumulate[u->type](e->n, row, e->grad);
    for (int i = 0; i < r->carries; i++, row += next) {
        l->accumulate[u->type](e->n, row + next, row);
        l->reset[u->type](e->n, row, 0);
    }
}

static weir_status accumulate_tree_run(const weir_kargs *k)
{
    update_run r = {.k = k, .carries = weir_carries(*(const double *)k->src[2],
                                                    k->call->in[0].desc.dim[0])};
    over_ranges(&r, accumulate_tree_range);
    return WEIR_OK;
}

weir_status weir_cpu_accumulate_tree(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const update u = {.loops = NULL};
    (void)d;
    WEIR_TRY(choose(c, &u, 0, accumulate_tree_run, out));
    ((update *)out->state)->n = c->in[1].desc.dim[0];
    return WEIR_OK;
}

/* ---- reset ---- */

static void reset_range(const update_run *r, const range *e)
{
    const update *const u = r->k->state;
    u->loops->reset[u->type](e->n, part(r, 0, e), u->by);
}

static weir_status reset_run(const weir_kargs *k)
{
    update_run r = {.k = k};
    over_ranges(&r, reset_range);
    return WEIR_OK;
}

weir_status weir_cpu_reset(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_reset_attr *const a = c->attr;
    const update                 u = {.by = a->value};
    (void)d;
    return choose(c, &u, 0, reset_run, out);
}
