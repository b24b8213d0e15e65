/* replan.c - the first steps run under the plan from estimates and are measured, call by call; then
 * the graph is planned again by those times (Capuchin, Peng et al. 2020, calls it measured, then
 * guided).
 *
 * Runs of one call count with their median; the first of several steps only warms caches and is
 * left out. The plan that ran is judged by the measured times as well, and stays unless the new one
 * is faster. While planning, the graph keeps the running plan until the new one is complete, so
 * whatever goes wrong leaves it as it was: the step is trained on, within its budget. Planning
 * takes memory of the host's heap, none of the arena. */
#include "graph/memory/budget/replan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "graph/memory/budget/budget.h"
#include "graph/memory/policies/table.h"
#include "graph/memory/problem/lower.h"

/* Planning again is worth it where a step took so much more or less than predicted. */
#define TOLERANCE 0.10

weir_status weir_guide_new(weir_fitter *f, const weir_plan_options *options)
{
    weir_guide *const guide = weir_mem_zalloc(1, sizeof *guide);

    if (guide && options->policy)
        guide->policy = weir_mem_strdup(options->policy);
    if (!guide || (options->policy && !guide->policy)) {
        weir_mem_free(guide);
        return WEIR_ERR_NOMEM;
    }
    guide->f = *f;
    guide->steps = options->guided;
    f->g->guide = guide;
    *f = (weir_fitter){0};
    return WEIR_OK;
}

void weir_guide_free(weir_graph *g)
{
    if (!g->guide)
        return;
    weir_fitter_free(&g->guide->f);
    weir_mem_free(g->guide->policy);
    weir_mem_free(g->guide);
    g->guide = NULL;
}

/* ---- times ---- */

typedef struct weir_sample {
    uintptr_t choice;
    double    seconds;
} weir_sample;

static int by_choice(const void *x, const void *y)
{
    const weir_sample *a = x, *b = y;
    if (a->choice != b->choice)
        return a->choice < b->choice ? -1 : 1;
    return (a->seconds > b->seconds) - (a->seconds < b->seconds);
}

/* One sample per instruction, equal calls together; *sum: of all. NULL when memory is short. */
static weir_sample *samples_of(const weir_guide *guide, const weir_plan *plan, double *sum)
{
    weir_sample *const s = weir_mem_alloc((plan->n + 1u) * sizeof *s);

    *sum = 0;
    for (uint32_t i = 0; s && i < plan->n; i++) {
        const weir_instr *ins = &plan->instr[i];
        s[i].choice = (uintptr_t)ins->choice;
        s[i].seconds = ins->seconds / (double)(plan->profiled ? plan->profiled : 1);
        if (guide->clock)
            s[i].seconds = guide->clock(guide->ctx, &ins->call, s[i].seconds);
        *sum += s[i].seconds;
    }
    if (s)
        qsort(s, plan->n, sizeof *s, by_choice);
    return s;
}

/* The median of the choice's samples; below 0: there are none. */
static double median(const weir_sample *s, uint32_t n, const weir_choice *choice)
{
    uint32_t lo = 0, hi = n;

    while (lo < hi) {
        const uint32_t mid = (lo + hi) / 2;
        if (s[mid].choice < (uintptr_t)choice)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (hi = lo; hi < n && s[hi].choice == (uintptr_t)choice;)
        hi++;
    return hi > lo ? s[(lo + hi - 1) / 2].seconds : -1;
}

/* The problem's tasks, which are the graph's nodes now, get their times. */
static weir_status set_times(weir_guide *guide, const weir_sample *s, uint32_t n)
{
    weir_layout         in[WEIR_EW_MAX_IN], out[WEIR_MAX_OUT];
    const weir_graph   *g = guide->f.g;
    weir_problem *const p = &guide->f.problem;
    const weir_choice  *choice;

    p->time = 0;
    for (uint32_t i = 0; i < p->tasks.n; i++) {
        const weir_call call = weir_node_call(g, &g->nodes.at[i], in, out);
        WEIR_TRY(weir_choice_of(g->dev, &call, &choice));
        const double seconds = median(s, n, choice);
        if (seconds >= 0)
            p->tasks.at[i].time = seconds;
        p->time += p->tasks.at[i].time;
    }
    double to, from;            /* a spill file that cannot be measured keeps its estimate */
    if (weir_device_spill_speed(g->dev, &to, &from) == WEIR_OK) {
        p->link_out = to;
        p->link_in = from;
    }
    return WEIR_OK;
}

/* ---- planning again ---- */

/* Storages of the plan that runs are no pieces. */
static weir_status cover_stores(weir_fitter *f)
{
    const size_t    n = f->g->stores.n + 1u;
    uint32_t *const all = weir_mem_alloc(n * sizeof *all);

    if (!all)
        return WEIR_ERR_NOMEM;
    memset(all, 0xff, n * sizeof *all);
    memcpy(all, f->piece_of, f->old.stores * sizeof *all);
    weir_mem_free(f->piece_of);
    f->piece_of = all;
    return WEIR_OK;
}

/* The plan that runs and a new one by the measured times, as a ladder; then the faster one, if it
 * is the new one, as the graph's. *fits: it is. */
static weir_status plan_again(weir_guide *guide, bool *fits)
{
    weir_fitter *const f = &guide->f;
    weir_ladder        l = {.whole = f->whole, .below = f->resident};
    weir_fit           a = {.p = &f->problem, .room = f->limit, .lay = weir_fitter_lay, .ctx = f};
    const uint32_t     gaps = weir_walk_gaps(&f->problem);
    bool               good;

    WEIR_TRY(weir_policy_find(guide->policy, &a.policy, &a.variant));
    f->probe = true;
    weir_status status = weir_ladder_judge(&l, &a, f->target, f->gap, &good);
    if (status == WEIR_OK)
        status = weir_fit_run(&a);
    f->probe = false;
    const weir_rung r = {a.target, a.height, a.s.time - f->problem.time, NULL};
    if (status == WEIR_OK && a.fits && a.gap && !weir_ladder_add(&l, &r, a.gap, gaps))
        status = WEIR_ERR_NOMEM;
    const weir_rung *const best = weir_ladder_best(&l, f->limit);
    a.fits = false;
    if (status == WEIR_OK && best && memcmp(best->gap, f->gap, gaps) != 0)
        status = weir_ladder_fit(&l, &a);
    *fits = status == WEIR_OK && a.fits;
    weir_ladder_free(&l);
    weir_fit_free(&a);
    return status;
}

/* The graph between its running plan and the new one. */
static weir_status exchange(weir_guide *guide, const weir_sample *s, uint32_t n)
{
    weir_fitter *const    f = &guide->f;
    weir_graph *const     g = f->g;
    const weir_unexpanded running = {.nodes = g->nodes.at, .n = g->nodes.n, .cap = g->nodes.cap};
    weir_plan *const      plan = g->plan;
    bool                  fits = false;

    WEIR_TRY(cover_stores(f));
    g->nodes.at = f->old.nodes;
    g->nodes.n = f->old.n;
    g->nodes.cap = f->old.cap;
    f->old = (weir_unexpanded){0};
    g->plan = NULL;
    weir_status status = set_times(guide, s, n);
    if (status == WEIR_OK)
        status = plan_again(guide, &fits);
    if (fits && weir_plan_settle(g) == WEIR_OK) {
        weir_unexpanded gone = running;
        weir_expanded_drop(running.nodes, running.n);
        weir_unexpanded_free(&gone);
        weir_plan_free(plan);
        g->replanned++;
        return WEIR_OK;
    }
    weir_graph_unexpand(g, &f->old);            /* where the spill file had no room */
    weir_plan_free(g->plan);
    g->plan = plan;
    f->old = (weir_unexpanded){.nodes = g->nodes.at, .n = g->nodes.n, .cap = g->nodes.cap};
    g->nodes.at = running.nodes;
    g->nodes.n = running.n;
    g->nodes.cap = running.cap;
    return status;
}

void weir_guide_step(weir_graph *g)
{
    weir_guide *const guide = g->guide;
    weir_plan *const  plan = g->plan;
    double            sum;

    guide->steps--;
    if (guide->steps == 0) {
        weir_sample *const s = samples_of(guide, plan, &sum);
        g->measured = s ? sum : 0;
        if (s && fabs(sum - plan->seconds) > TOLERANCE * plan->seconds)
            (void)exchange(guide, s, plan->n);
        weir_mem_free(s);
        weir_guide_free(g);
    }
    if (g->plan == plan && (!g->guide || plan->profiled == 1)) {
        plan->profiled = 0;
        for (uint32_t i = 0; i < plan->n; i++)
            plan->instr[i].seconds = 0;
    }
}
