/* loss.c - softmax cross-entropy and its gradient.
 *
 * The loss of a row is lse - logit[class], with lse = log sum exp of the row; for probabilities t
 * it is sum t * (lse - logit). Rows of the ignored class have no loss and no gradient. Rows are
 * divided into tasks by shape; the tasks' f64 sums are added in order. */
#include "device/cpu/kernels/loss.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/status.h"
#include "core/attr.h"
#include "device/common/div.h"
#include "device/cpu/kernels/index.h"
#include "device/cpu/isa.h"
#include "device/cpu/kernels.h"
#include "device/cpu/kernels/real.h"

typedef struct plan {
    weir_loss_loops loops;
    weir_dtype      type, target;
    int64_t         size;               /* bytes of a logit */
    int64_t         n, c;
    int64_t         ignored;            /* a class number */
    int64_t         group, tasks;       /* rows per task; tasks */
} plan;

/* The class number of row i, -1 if it is ignored. */
static int64_t class_of(const plan *p, const void *target, int64_t i)
{
    const int64_t t =
        p->target == WEIR_I32 ? ((const int32_t *)target)[i] : ((const int64_t *)target)[i];
    return t != p->ignored ? t : -1;
}

/* Counts the rows that are not ignored, and fails for a class out of range. */
static weir_status count_rows(const weir_kargs *k, int64_t *counted)
{
    const plan *p = k->state;
    *counted = p->n;
    return p->target == p->type ? WEIR_OK
                                : weir_cpu_check_index_but(k, 1, "class", p->c, p->ignored,
                                                           counted);
}

static double loss_of_row(const plan *p, const weir_kargs *k, int64_t i, double lse)
{
    const int64_t at = i * p->c * p->size;
    const char   *x = (const char *)k->src[0] + at;
    if (p->target == p->type)
        return p->loops.against(x, (const char *)k->src[1] + at, p->c, lse);
    const int64_t class = class_of(p, k->src[1], i);
    return class < 0 ? 0 : lse - real_load(p->type, x, class);
}

static void loss_task(void *ctx, int64_t task)
{
    const weir_kargs *k = ctx;
    const plan       *p = k->state;
    double            sum = 0;
    for (int64_t i = task * p->group; i < min64(p->n, (task + 1) * p->group); i++) {
        const double lse = p->loops.lse((const char *)k->src[0] + i * p->c * p->size, p->c);
        real_store(p->type, k->dst[1], i, lse);
        sum += loss_of_row(p, k, i, lse);
    }
    ((double *)k->work)[task] = sum;
}

static weir_status loss_run(const weir_kargs *k)
{
    const plan *p = k->state;
    weir_kargs  own = *k;
    double      sum = 0;
    int64_t     counted;
    WEIR_TRY(count_rows(k, &counted));
    weir_parallel(k->threads, p->tasks, loss_task, &own);
    for (int64_t i = 0; i < p->tasks; i++)
        sum += ((const double *)k->work)[i];
    real_store(p->type, k->dst[0], 0, counted > 0 ? sum / (double)counted : (double)NAN);
    return WEIR_OK;
}

/* Ignored rows have gradient 0, whatever their logits are. */
static void grad_of_row(const plan *p, const weir_kargs *k, int64_t i, double scale)
{
    const int64_t at = i * p->c * p->size;
    const char   *x = (const char *)k->src[0] + at, *t = (const char *)k->src[1] + at;
    char         *dx = (char *)k->dst[0] + at;
    const double  lse = real_load(p->type, k->src[2], i);
    if (p->target == p->type) {
        p->loops.grad(x, t, p->c, lse, p->loops.total(t, p->c) * scale, scale, dx);
        return;
    }
    const int64_t class = class_of(p, k->src[1], i);
    if (class < 0) {
        memset(dx, 0, (size_t)(p->c * p->size));
        return;
    }
    p->loops.grad(x, NULL, p->c, lse, scale, 0, dx);
    real_store(p->type, dx, class, real_load(p->type, dx, class) - scale);
}

/* Arguments of a gradient, and the factor of each row's loss. */
typedef struct grad_of {
    const weir_kargs *k;
    double            scale;
} grad_of;


static void grad_task(void *ctx, int64_t task)
{
    const grad_of *g = ctx;
    const plan    *p = g->k->state;
    for (int64_t i = task * p->group; i < min64(p->n, (task + 1) * p->group); i++)
        grad_of_row(p, g->k, i, g->scale);
}

static weir_status grad_run(const weir_kargs *k)
{
    const plan *p = k->state;
    int64_t     counted;
    WEIR_TRY(count_rows(k, &counted));
    grad_of g = {k, real_load(p->type, k->src[3], 0) / (double)counted};
    weir_parallel(k->threads, p->tasks, grad_task, &g);
    return WEIR_OK;
}

static weir_status choose(const weir_call *c, weir_status (*run)(const weir_kargs *), bool work,
                          weir_kernel *out)
{
    static const weir_loss_loops *const table[] = WEIR_ISA_TABLE(weir_loss_loops);
    const weir_desc *const              x = &c->in[0].desc;
    const weir_dtype                    target = c->in[1].desc.dtype;
    if (!real_type(x->dtype) ||
        (target != x->dtype && target != WEIR_I32 && target != WEIR_I64))
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "no CPU kernel for %s logits and %s targets",
                              weir_dtype_name(x->dtype), weir_dtype_name(target));
    plan *p = weir_mem_alloc(sizeof *p);
    if (!p)
        return WEIR_ERR_NOMEM;
    const int64_t group = rows_per_task(x->dim[1]);
    *p = (plan){.loops = table[weir_cpu_isa()][x->dtype],
                .type = x->dtype,
                .target = target,
                .size = (int64_t)weir_dtype_size(x->dtype),
                .n = x->dim[0],
                .c = x->dim[1],
                .ignored = ((const weir_cross_entropy_attr *)c->attr)->ignored,
                .group = group,
                .tasks = ceil_div(x->dim[0], group)};
    *out = (weir_kernel){.run = run,
                         .work = work ? (size_t)p->tasks * sizeof(double) : 0,
                         .state = p,
                         .destroy = weir_mem_free,
                         .impl = "c"};
    return WEIR_OK;
}

weir_status weir_cpu_cross_entropy(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    return choose(c, loss_run, true, out);
}

weir_status weir_cpu_cross_entropy_grad(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    return choose(c, grad_run, false, out);
}
