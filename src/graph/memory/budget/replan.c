/* replan.c - plans a graph again from the times of its first steps, which ran under the plan from
 * estimates and were measured call by call (measured and guided execution in Capuchin, Peng and
 * others, ASPLOS 2020).
 *
 * The time of a call is the median of its runs. The running plan is rated by the measured times as
 * well and stays unless the new one is faster. The graph keeps the running plan until the new one
 * is complete, so after a failure it continues as before, within its budget. Planning uses heap
 * memory of the host, not the arena. */
#include "graph/memory/budget/replan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "device/kernel.h"
#include "device/offload/spill_slots.h"
#include "graph/memory/policies/table.h"
#include "graph/memory/problem/lower.h"

/* Relative difference of a step's time from the prediction from which on replanning pays off. */
#define TOLERANCE 0.10

weir_status weir_replan_new(weir_budget_context *f, const char *policy)
{
    weir_replan *const replan = weir_mem_zalloc(1, sizeof *replan);

    if (replan && policy)
        replan->policy = weir_mem_strdup(policy);
    if (!replan || (policy && !replan->policy)) {
        weir_mem_free(replan);
        return WEIR_ERR_NOMEM;
    }
    replan->f = *f;
    replan->f.answers = f->answers == &f->timed ? &replan->f.timed : &replan->f.problem;
    replan->f.answer.p = replan->f.answers;
    f->g->replan = replan;
    *f = (weir_budget_context){0};
    return WEIR_OK;
}

void weir_replan_free(weir_graph *g)
{
    if (!g->replan)
        return;
    weir_budget_context_free(&g->replan->f);
    weir_mem_free(g->replan->policy);
    weir_mem_free(g->replan);
    g->replan = NULL;
}

/* ---- times ---- */

typedef struct weir_sample {
    uintptr_t kernel;
    double    seconds;
} weir_sample;

static int by_choice(const void *x, const void *y)
{
    const weir_sample *a = x, *b = y;
    if (a->kernel != b->kernel)
        return a->kernel < b->kernel ? -1 : 1;
    return (a->seconds > b->seconds) - (a->seconds < b->seconds);
}

/* Returns one sample per instruction, sorted by kernel, owned by the caller; *sum receives all
 * seconds. NULL if memory runs out. */
static weir_sample *samples_of(const weir_replan *replan, const weir_plan *plan, double *sum)
{
    weir_sample *const s = weir_mem_alloc((plan->n + 1u) * sizeof *s);

    *sum = 0;
    for (uint32_t i = 0; s && i < plan->n; i++) {
        const weir_instr *ins = &plan->instr[i];
        s[i].kernel = (uintptr_t)ins->kernel;
        s[i].seconds = ins->seconds / (double)(plan->profiled ? plan->profiled : 1);
        if (replan->clock)
            s[i].seconds = replan->clock(replan->ctx, &ins->call, s[i].seconds);
        *sum += s[i].seconds;
    }
    if (s)
        qsort(s, plan->n, sizeof *s, by_choice);
    return s;
}

/* Returns the median of the kernel's samples in seconds; -1 if it has none. */
static double median(const weir_sample *s, uint32_t n, const weir_kernel *kernel)
{
    uint32_t lo = 0, hi = n;

    while (lo < hi) {
        const uint32_t mid = (lo + hi) / 2;
        if (s[mid].kernel < (uintptr_t)kernel)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (hi = lo; hi < n && s[hi].kernel == (uintptr_t)kernel;)
        hi++;
    return hi > lo ? s[(lo + hi - 1) / 2].seconds : -1;
}

/* What a problem takes from measurements. */
typedef struct weir_measured {
    double *seconds; /* [ops] */
    double  link_out, link_in;
} weir_measured;

/* Measures what the problem's ops take, which correspond to the graph's nodes now, and the link.
 * The caller owns m->seconds. */
static weir_status measure(const weir_replan *replan, const weir_sample *s, uint32_t n,
                           weir_measured *m)
{
    weir_layout             in[WEIR_EW_MAX_IN], out[WEIR_MAX_OUT];
    const weir_graph       *g = replan->f.g;
    const weir_mem_problem *p = &replan->f.problem;
    const weir_kernel      *kernel;

    *m = (weir_measured){weir_mem_alloc((p->ops.n + 1u) * sizeof *m->seconds), p->link_out,
                         p->link_in};
    if (!m->seconds)
        return WEIR_ERR_NOMEM;
    for (uint32_t i = 0; i < p->ops.n; i++) {
        const weir_call call = weir_node_call(g, &g->nodes.at[i], in, out);
        WEIR_TRY(weir_kernel_of(g->dev, &call, &kernel));
        const double seconds = median(s, n, kernel);
        m->seconds[i] = seconds >= 0 ? seconds : p->ops.at[i].time;
    }
    double to, from;            /* a spill file that cannot be timed keeps its estimate */
    if (weir_device_spill_speed(g->dev, &to, &from) == WEIR_OK) {
        m->link_out = to;
        m->link_in = from;
    }
    return WEIR_OK;
}

/* Exchanges the times of the problem and of its widest form for those of `m`. */
static void exchange_times(weir_budget_context *f, weir_measured *m)
{
    weir_mem_problem *const p = &f->problem, *const widest = &f->widest;
    const weir_measured     old = {NULL, p->link_out, p->link_in};

    p->time = 0;
    for (uint32_t i = 0; i < p->ops.n; i++) {
        const double seconds = p->ops.at[i].time;
        p->ops.at[i].time = m->seconds[i];
        p->time += m->seconds[i];
        m->seconds[i] = seconds;
        if (i < widest->ops.n)
            widest->ops.at[i].time = p->ops.at[i].time;
    }
    widest->time = p->time;
    p->link_out = widest->link_out = m->link_out;
    p->link_in = widest->link_in = m->link_in;
    m->link_out = old.link_out;
    m->link_in = old.link_in;
}

/* ---- replanning ---- */

/* Extends tensor_of by the storages that the running plan added, none of which is a tensor. */
static weir_status cover_storages(weir_budget_context *f)
{
    const size_t    n = f->g->storages.n + 1u;
    uint32_t *const all = weir_mem_alloc(n * sizeof *all);

    if (!all)
        return WEIR_ERR_NOMEM;
    memset(all, 0xff, n * sizeof *all);
    memcpy(all, f->tensor_of, f->old.storages * sizeof *all);
    weir_mem_free(f->tensor_of);
    f->tensor_of = all;
    return WEIR_OK;
}

/* Rates the running plan and plans a new one by the measured times; applies the new one if it is
 * faster. *fits says whether it did. */
static weir_status replan_graph(weir_replan *replan, bool *fits)
{
    weir_budget_context *const f = &replan->f;
    weir_frontier              l = {.whole = f->whole, .below = f->resident};
    weir_fit                   a = {.p = &f->problem, .limit = f->arena_limit,
                                    .place = weir_budget_context_assign, .ctx = f};
    const uint32_t intervals = weir_lower_intervals(&f->problem);
    const weir_frontier_point running = {.target = f->target, .height = f->arena_limit};
    bool           good;

    WEIR_TRY(weir_policy_find(replan->policy, &a.policy, &a.variant));
    f->probe = true;
    weir_status status = weir_frontier_evaluate(&l, &a, &running, f->decisions, &good);
    if (status == WEIR_OK)
        status = weir_fit_run(&a);
    f->probe = false;
    const weir_frontier_point r = {a.target, a.height, a.s.time - f->problem.time, NULL,
                                   a.made_by};
    if (status == WEIR_OK && a.fits && a.decisions &&
        !weir_frontier_add(&l, &r, a.decisions, intervals))
        status = WEIR_ERR_NOMEM;
    const weir_frontier_point *const best = weir_frontier_best(&l, f->arena_limit);
    a.fits = false;
    if (status == WEIR_OK && best &&
        (best->made_by.entry || memcmp(best->decisions, f->decisions, intervals) != 0))
        status = weir_frontier_fit(&l, &a);
    *fits = status == WEIR_OK && a.fits;
    if (*fits) {
        f->answer = a.s;
        f->answers = &f->problem;
        a.s = (weir_schedule){0};
    }
    weir_frontier_free(&l);
    weir_fit_free(&a);
    return status;
}

/* Exchanges the running plan for the new one; on failure restores it. */
static weir_status exchange(weir_replan *replan, const weir_sample *s, uint32_t n)
{
    weir_measured         m = {0};
    weir_budget_context *const    f = &replan->f;
    weir_graph *const     g = f->g;
    const weir_revert_record running = {.nodes = g->nodes.at, .n = g->nodes.n, .cap = g->nodes.cap};
    weir_plan *const      plan = g->plan;
    weir_schedule         answer = f->answer;
    weir_mem_problem *const answers = f->answers;
    bool                  fits = false;

    WEIR_TRY(cover_storages(f));
    f->answer = (weir_schedule){0};
    g->nodes.at = f->old.nodes;
    g->nodes.n = f->old.n;
    g->nodes.cap = f->old.cap;
    f->old = (weir_revert_record){0};
    g->plan = NULL;
    weir_status status = measure(replan, s, n, &m);
    const bool  measured = status == WEIR_OK;
    if (measured) {
        exchange_times(f, &m);
        status = replan_graph(replan, &fits);
    }
    if (fits && weir_plan_settle(g) == WEIR_OK) {
        if (weir_plan_waits_known(plan))
            (void)weir_plan_take_times(g->plan, plan);
        weir_revert_record gone = running;
        weir_applied_nodes_free(running.nodes, running.n);
        weir_revert_record_free(&gone);
        weir_plan_free(plan);
        g->replanned++;
        weir_mem_free(m.seconds);
        weir_schedule_free(&answer);
        return WEIR_OK;
    }
    if (measured)
        exchange_times(f, &m);
    weir_mem_free(m.seconds);
    weir_schedule_free(&f->answer);
    f->answer = answer;
    f->answers = answers;
    weir_graph_revert(g, &f->old);            /* for example, the spill file is full */
    weir_plan_free(g->plan);
    g->plan = plan;
    f->old = (weir_revert_record){.nodes = g->nodes.at, .n = g->nodes.n, .cap = g->nodes.cap};
    g->nodes.at = running.nodes;
    g->nodes.n = running.n;
    g->nodes.cap = running.cap;
    return status;
}

void weir_replan_graph(weir_graph *g)
{
    weir_replan *const replan = g->replan;
    weir_plan *const   plan = g->plan;
    double             sum;
    weir_sample *const s = samples_of(replan, plan, &sum);

    g->measured = s ? sum : 0;
    if (s && fabs(sum - plan->seconds) > TOLERANCE * plan->seconds)
        (void)exchange(replan, s, plan->n);
    weir_mem_free(s);
    (void)weir_reasons_keep(g, replan->f.answers, &replan->f.widest, &replan->f.answer,
                            &replan->f.tensor_of, replan->f.old.storages);
    weir_replan_free(g);
}
