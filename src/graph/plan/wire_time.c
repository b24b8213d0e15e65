/* wire_time.c - predicts how long a plan's collectives take, and how long computing waits for them.
 *
 * Two clocks, computing and the wire: a collective begins when the wire is free and computing has
 * reached its start; computing goes on at its wait once it is done. Calls take what was measured of
 * their kernels or, until then, what the device's rates say; collectives what their communicator
 * expects, which was measured on an idle wire: one that ranks hold up by being late or by computing
 * takes longer, and not by a factor that lasts. Copies to and from the offload store go beside both
 * and are left out. On a simulated device this is what a run takes, but for these. */
#include <stdlib.h>

#include "core/attr.h"
#include "device/collective.h"
#include "graph/plan/plan.h"

typedef struct wire_clock {
    weir_plan *p;
    double     compute, wire;   /* seconds at which all so far is done */
    double    *end;             /* [spans] when each is done */
} wire_clock;

static const weir_comm *comm_of(const weir_instr *ins)
{
    return (const weir_comm *)(uintptr_t)((const weir_collective_attr *)ins->call.attr)->comm;
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

/* Lists a collective that instruction i starts. */
static weir_status begin(weir_plan *p, uint32_t i, bool waits_at_once)
{
    const weir_instr *const ins = &p->instr[i];
    const weir_comm *const  c = comm_of(ins);
    const weir_collective   job = weir_collective_of(&ins->call);

    return weir_vec_push(&p->wire, ((weir_wire_span){.start = i,
                                                     .wait = waits_at_once ? i : WEIR_NONE,
                                                     .seconds = c->seconds(c, &job)}))
               ? WEIR_OK
               : WEIR_ERR_NOMEM;
}

/* Notes instruction i as the wait of the oldest collective of its communicator: they are awaited in
 * the order of their starts. */
static void note_wait(weir_plan *p, uint32_t i)
{
    for (uint32_t k = 0; k < p->wire.n; k++) {
        weir_wire_span *const w = &p->wire.at[k];
        if (w->wait == WEIR_NONE && comm_of(&p->instr[w->start]) == comm_of(&p->instr[i])) {
            w->wait = i;
            return;
        }
    }
}

static weir_status list(weir_plan *p)
{
    p->wire.n = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const weir_call *const call = &p->instr[i].call;
        if (call->op == WEIR_OP_ALL_REDUCE_WAIT)
            note_wait(p, i);
        else if (call->def->flags & WEIR_COLLECTIVE)
            WEIR_TRY(begin(p, i, call->op != WEIR_OP_ALL_REDUCE_START));
    }
    return WEIR_OK;
}

/* Moves the clocks over the spans that begin or end at instruction i; *next is the first that has
 * not begun. */
static void pass(wire_clock *c, uint32_t i, uint32_t *next)
{
    weir_wire_spans *const w = &c->p->wire;

    if (*next < w->n && w->at[*next].start == i) {
        w->at[*next].begin = later(c->wire, c->compute);
        c->wire = w->at[*next].begin + w->at[*next].seconds;
        c->end[(*next)++] = c->wire;
    }
    for (uint32_t k = 0; k < *next; k++)
        if (w->at[k].wait == i) {
            w->at[k].exposed = later(0, c->end[k] - c->compute);
            c->compute = later(c->compute, c->end[k]);
        }
}

bool weir_plan_wire_known(const weir_plan *p)
{
    for (uint32_t k = 0; k < p->wire.n; k++)
        if (p->wire.at[k].seconds < 0)
            return false;
    return true;
}

/* Expected seconds of instruction i without waits. */
static double own_seconds(const weir_plan *p, const weir_rates *rates, uint32_t i)
{
    const weir_call *const call = &p->instr[i].call;

    if (weir_spill_attr_of(call->op, call->attr))
        return 0;
    if (p->computing && !(call->def->flags & WEIR_COLLECTIVE))
        return p->computing[i];
    return weir_rates_seconds(rates, call);
}

weir_status weir_plan_predict_wire(weir_plan *p)
{
    const weir_rates rates = p->dev->ops->rates(p->dev);
    wire_clock       c = {.p = p};
    uint32_t         next = 0;

    WEIR_TRY(list(p));
    if (p->wire.n == 0)
        return WEIR_OK;
    if (!weir_plan_wire_known(p)) {
        for (uint32_t k = 0; k < p->wire.n; k++)
            p->wire.at[k].exposed = -1;
        return WEIR_OK;
    }
    c.end = weir_mem_alloc(p->wire.n * sizeof *c.end);
    if (!c.end)
        return WEIR_ERR_NOMEM;
    for (uint32_t i = 0; i < p->n; i++) {
        c.compute += own_seconds(p, &rates, i);
        if (p->instr[i].call.def->flags & WEIR_COLLECTIVE)
            pass(&c, i, &next);
    }
    weir_mem_free(c.end);
    return WEIR_OK;
}

/* ---- measured times ---- */

/* All runs of a kernel. */
typedef struct kernel_time {
    uintptr_t kernel;
    double    seconds;
    uint64_t  runs;
} kernel_time;

static int by_kernel(const void *x, const void *y)
{
    const kernel_time *a = x, *b = y;

    return (a->kernel > b->kernel) - (a->kernel < b->kernel);
}

/* Adds up the times of each kernel; returns the number of kernels. */
static uint32_t merge_times(kernel_time *t, uint32_t n)
{
    uint32_t kernels = 0;

    qsort(t, n, sizeof *t, by_kernel);
    for (uint32_t i = 0; i < n; i++)
        if (kernels > 0 && t[kernels - 1].kernel == t[i].kernel) {
            t[kernels - 1].seconds += t[i].seconds;
            t[kernels - 1].runs += t[i].runs;
        } else {
            t[kernels++] = t[i];
        }
    return kernels;
}

/* Lists the times of the kernels that a profiled plan has run; NULL without memory. */
static kernel_time *times_of(const weir_plan *p, uint32_t *kernels)
{
    kernel_time *const t = weir_mem_alloc((p->n + 1u) * sizeof *t);

    for (uint32_t i = 0; t && i < p->n; i++)
        t[i] = (kernel_time){(uintptr_t)p->instr[i].kernel, p->instr[i].seconds, p->profiled};
    *kernels = t ? merge_times(t, p->n) : 0;
    return t;
}

weir_status weir_plan_take_times(weir_plan *p, const weir_plan *profiled)
{
    const weir_rates   rates = p->dev->ops->rates(p->dev);
    uint32_t           kernels;
    kernel_time *const times = times_of(profiled, &kernels);
    double *const      computing = weir_mem_alloc((p->n + 1u) * sizeof *computing);

    if (!times || !computing) {
        weir_mem_free(times);
        weir_mem_free(computing);
        return WEIR_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < p->n; i++) {
        const kernel_time        want = {.kernel = (uintptr_t)p->instr[i].kernel};
        const kernel_time *const t = bsearch(&want, times, kernels, sizeof *times, by_kernel);
        computing[i] = t && t->runs > 0 ? t->seconds / (double)t->runs
                                        : weir_rates_seconds(&rates, &p->instr[i].call);
    }
    weir_mem_free(times);
    weir_mem_free(p->computing);
    p->computing = computing;
    return WEIR_OK;
}

size_t weir_plan_wire_bytes(const weir_plan *p, const weir_wire_span *w)
{
    const weir_collective job = weir_collective_of(&p->instr[w->start].call);

    return (size_t)job.count * weir_dtype_size(job.dtype);
}

void weir_plan_wire_sums(const weir_plan *p, double *seconds, double *exposed)
{
    const uint32_t n = weir_plan_wire_known(p) ? p->wire.n : 0;

    *seconds = *exposed = 0;
    for (uint32_t k = 0; k < n; k++) {
        *seconds += p->wire.at[k].seconds;
        *exposed += p->wire.at[k].exposed;
    }
}

/* Turns durations into times of begin. */
static void add_up(double *at, uint32_t n)
{
    double sum = 0;

    for (uint32_t i = 0; i <= n; i++) {
        const double own = at[i];
        at[i] = sum;
        sum += own;
    }
}

void weir_plan_estimated_times(const weir_plan *p, double *at)
{
    const weir_rates rates = p->dev->ops->rates(p->dev);

    for (uint32_t i = 0; i < p->n; i++)
        at[i] = own_seconds(p, &rates, i);
    at[p->n] = 0;
    for (uint32_t k = 0; k < p->wire.n; k++)
        at[p->wire.at[k].wait] += later(0, p->wire.at[k].exposed);
    add_up(at, p->n);
}

void weir_plan_profiled_times(const weir_plan *p, double *at)
{
    for (uint32_t i = 0; i < p->n; i++)
        at[i] = p->instr[i].seconds / (double)p->profiled;
    at[p->n] = 0;
    add_up(at, p->n);
}

bool weir_plan_waits_known(const weir_plan *p)
{
    return p->profiled > 0 && !p->dev->ops->join;
}

double weir_plan_profiled_wait(const weir_plan *p, const weir_wire_span *w)
{
    return p->instr[w->wait].seconds / (double)p->profiled;
}
