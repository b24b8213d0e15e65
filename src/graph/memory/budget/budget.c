/* budget.c - makes a graph fit a number of bytes: search, apply, place, until the arena fits.
 *
 * The search knows only live bytes. If the placed arena is larger, the search must use that much
 * less. The last resort is the tightest plan: a search for zero bytes with estimated times. It is
 * the same in every run, so the budget that the error names works when it is given.
 *
 * Parameters and states stay on the device if the step fits beside them. If it does not, all large
 * ones become tensors of the problem, and those that the plan offloads live in the spill file. */
#include "graph/ir/format.h"
#include "graph/memory/budget/budget.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/status.h"
#include "core/text.h"
#include "device/kernel.h"
#include "device/offload/spill_slots.h"
#include "graph/eager/evict.h"
#include "graph/ir/pass_set.h"
#include "graph/ir/session.h"
#include "graph/memory/bounds/bound.h"
#include "graph/memory/budget/amount.h"
#include "graph/memory/budget/replan.h"
#include "graph/memory/budget/shared.h"
#include "graph/memory/policies/actnn.h"
#include "graph/memory/policies/auto.h"
#include "graph/memory/policies/table.h"
#include "graph/memory/search/request.h"
#include "graph/placement/progress.h"

/* The budget "auto" now. */
static size_t free_bytes(const weir_device *d)
{
    weir_memory m;

    weir_device_memory(d, &m);
    return m.auto_budget;
}

weir_status weir_budget_check(const weir_plan_options *o)
{
    const weir_policy *policy;
    const char        *variant;
    uint32_t           bits;

    if (o->profile_steps < 0)
        return weir_fail(WEIR_ERR_INVALID, "plan options: profile_steps is %d but must be 0 or "
                                           "more",
                         o->profile_steps);
    WEIR_TRY(weir_policy_find(o->policy, &policy, &variant));
    return weir_policy_lossy(policy, variant, &bits);
}

/* ---- fitting ---- */

/* Fits by the frontier: places its plans only to learn their heights, then the best one finally. */
static weir_status fit_by_cache(weir_budget_context *f, weir_fit *a)
{
    weir_frontier l = {.whole = f->whole, .below = f->resident};

    f->probe = true;
    weir_status status = weir_cache_build_frontier(&f->cache, &l, a);
    f->probe = false;
    if (status == WEIR_OK)
        status = weir_cache_fit(&f->cache, &l, a);
    weir_frontier_free(&l);
    return status;
}

/* Keeps the decisions, and the schedule if it is the answer (p is not NULL), and frees the fit. */
static void keep(weir_budget_context *f, weir_fit *a, weir_mem_problem *p)
{
    weir_mem_free(f->decisions);
    f->decisions = a->decisions;
    f->target = a->target;
    a->decisions = NULL;
    if (p) {
        f->answer = a->s;
        f->answers = p;
        a->s = (weir_schedule){0};
    }
    weir_fit_free(a);
}

/* Plans by the policy for the budget. */
static weir_status fit_budget(weir_budget_context *f, const char *policy, bool *fits)
{
    weir_mem_problem *const p = f->timed.ops.n ? &f->timed : &f->problem;
    weir_fit a = {.p = p, .limit = f->arena_limit, .place = weir_budget_context_assign, .ctx = f};

    WEIR_TRY(weir_policy_find(policy, &a.policy, &a.variant));
    const weir_status status =
        f->cache.path && weir_frontier_applies(a.policy) ? fit_by_cache(f, &a) : weir_fit_run(&a);
    *fits = a.fits;
    keep(f, &a, status == WEIR_OK && a.fits ? p : NULL);
    return status;
}

/* Plans by the policy for zero bytes, which gives the smallest plan found. */
static weir_status fit_tightest(weir_budget_context *f, const char *policy, bool *fits)
{
    weir_fit b = {.p = &f->problem, .place = weir_budget_context_assign, .ctx = f};
    const size_t   met = f->least;
    const uint32_t peak = f->peak_op;

    WEIR_TRY(weir_policy_find(policy, &b.policy, &b.variant));
    /* any budget may get this plan; what was found before, only this budget */
    f->least = SIZE_MAX;
    const weir_status status = weir_fit_run(&b);
    if (f->least == SIZE_MAX) {
        f->least = met;
        f->peak_op = peak;
    }
    *fits = b.height <= f->arena_limit && b.s.valid;
    keep(f, &b, status == WEIR_OK && *fits ? &f->problem : NULL);
    return status;
}

/* If some op by itself exceeds the limit, only the smallest plan is searched, for the error to
 * name. (With a cache, the whole search runs: it fills the cache.) */
static weir_status fit(weir_budget_context *f, const char *policy, bool *fits)
{
    if (weir_bound_excludes(&f->problem, f->arena_limit) && !f->cache.path) {
        WEIR_TRY(fit_tightest(f, policy, fits));
        return f->least < SIZE_MAX ? WEIR_OK : fit_budget(f, policy, fits);
    }
    WEIR_TRY(fit_budget(f, policy, fits));
    return *fits ? WEIR_OK : fit_tightest(f, policy, fits);
}

/* Reports a budget too small for a graph without nodes: no op can be named. */
static weir_status fail_empty_step(const weir_budget_context *f, size_t budget)
{
    return weir_fail(WEIR_ERR_BUDGET,
                     "budget of %zu bytes: the smallest that works is %zu (parameters, states, "
                     "inputs and outputs; nothing of the step is left to run)",
                     budget, f->resident);
}

/* Finds the proven lower bound on the bytes of any plan. */
static weir_status floor_of(const weir_budget_context *f, size_t budget, size_t *bytes)
{
    const weir_mem_problem *p = f->widest.ops.n ? &f->widest : &f->problem;
    const weir_levers       levers = weir_levers_of(p);
    const size_t            base = f->resident - weir_mem_problem_resident_bytes(&f->widest);
    weir_bound              b;

    WEIR_TRY(weir_bound_quick(p, budget > base ? budget - base : 0, &levers, &b));
    *bytes = base + b.feasible_bytes;
    return WEIR_OK;
}

static weir_status fail_too_small(const weir_budget_context *f, size_t budget)
{
    if (f->g->nodes.n == 0)
        return fail_empty_step(f, budget);
    weir_string peak = {0};
    size_t      least;

    WEIR_TRY(floor_of(f, budget, &least));
    weir_format_node(&peak, f->g, f->peak_op, NULL);
    const weir_status status = weir_fail(
        WEIR_ERR_BUDGET, "budget of %zu bytes: the smallest that works is %zu (%zu of parameters, "
        "states, inputs and outputs, %zu for the step, most of it at %s, %s); no plan of any kind "
        "needs less than %zu", budget, f->resident + f->least, f->resident, f->least,
        peak.at ? peak.at : "", weir_phase_name[f->g->nodes.at[f->peak_op].phase], least);
    weir_mem_free(peak.at);
    return status;
}

/* Hashes device, threads, placement and kernels: what plans depend on besides the problem. */
static weir_status hash_machine(const weir_graph *g, uint64_t *h)
{
    weir_layout        in[WEIR_EW_MAX_IN], out[WEIR_MAX_OUT];
    const weir_kernel *kernel;

    *h = weir_hash_bytes(WEIR_HASH_SEED, g->dev->ops->name, strlen(g->dev->ops->name));
    *h = weir_hash_u64(*h, (uint64_t)weir_threads_count(g->dev->threads));
    if (g->placement)
        *h = weir_hash_bytes(*h, g->placement, strlen(g->placement));
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const weir_call call = weir_node_call(g, &g->nodes.at[i], in, out);
        WEIR_TRY(weir_kernel_of(g->dev, &call, &kernel));
        *h = weir_hash_bytes(*h, kernel->impl, strlen(kernel->impl));
        *h = weir_hash_u64(*h, g->nodes.at[i].op);
    }
    return WEIR_OK;
}

static weir_status open_cache(weir_budget_context *f, const weir_plan_options *options)
{
    weir_cache_key key = {.policy = options->policy, .align = f->g->dev->ops->align,
                          .whole = f->whole, .below = f->resident, .times = !options->measure};

    WEIR_TRY(hash_machine(f->g, &key.machine));
    return weir_cache_open(&f->cache, options->cache, &f->problem, &key);
}

/* Times the kernels and the link now; what cannot be timed is estimated. */
static weir_status measure(weir_budget_context *f)
{
    WEIR_TRY(weir_device_spill_speed(f->g->dev, &f->cache.rates[0], &f->cache.rates[1]));
    WEIR_TRY(weir_graph_time(f->g, f->arena_limit, &f->cache.seconds));
    for (uint32_t i = 0; i < f->problem.ops.n; i++)
        if (f->cache.seconds[i] < 0)
            f->cache.seconds[i] = f->problem.ops.at[i].time;
    return WEIR_OK;
}

/* Makes the problem with estimated times and, if requested, a second one with measured times. */
static weir_status make_planned(weir_budget_context *f, size_t budget,
                                 const weir_plan_options *options)
{
    const bool inplace = f->passes >> WEIR_PASS_INPLACE & 1;
    uint32_t  *same;

    WEIR_TRY(
        weir_mem_problem_from_graph(f->g, NULL, inplace, f->movable, &f->problem, &f->tensor_of));
    f->resident = weir_plan_resident(f->g) - weir_budget_context_movable(f);
    f->arena_limit = budget > f->resident ? budget - f->resident : 0;
    weir_progress_fixed(f->resident);
    weir_mem_problem_set_rates(&f->problem, f->g->dev);
    WEIR_TRY(open_cache(f, options));
    if (!options->measure)
        return WEIR_OK;
    if (f->cache.path)
        WEIR_TRY(weir_cache_read_times(&f->cache, &f->problem));
    if (!f->cache.seconds)
        WEIR_TRY(measure(f));
    WEIR_TRY(
        weir_mem_problem_from_graph(f->g, f->cache.seconds, inplace, f->movable, &f->timed, &same));
    weir_mem_free(same);
    f->timed.link_out = f->cache.rates[0];
    f->timed.link_in = f->cache.rates[1];
    f->timed.copy_latency = f->problem.copy_latency;
    f->timed.copy_interference = f->problem.copy_interference;
    return WEIR_OK;
}

/* Makes them and, if parameters and states stay where they are, the widest problem. */
static weir_status make_problems(weir_budget_context *f, size_t budget,
                                 const weir_plan_options *options)
{
    WEIR_TRY(make_planned(f, budget, options));
    if (f->movable < SIZE_MAX)
        return WEIR_OK;
    return weir_mem_problem_widen(f->g, f->cache.seconds, f->passes >> WEIR_PASS_INPLACE & 1,
                                  f->whole, f->timed.ops.n ? &f->timed : &f->problem, &f->widest);
}

weir_status weir_device_set_budget(weir_device *d, const char *budget)
{
    size_t bytes;
    char   now[24];

    WEIR_VISIT(d, "weir_device_set_budget", weir_error_status());
    weir_session *s = weir_session_of(d);
    if (!s)
        return WEIR_ERR_NOMEM;
    if (budget && strcmp(budget, "auto") == 0) {
        snprintf(now, sizeof now, "%zu", free_bytes(d));
        budget = now;
    }
    if (budget)
        WEIR_TRY(weir_budget_parse(budget, 0, &bytes));
    if (budget && strlen(budget) >= sizeof s->budget)
        return weir_fail(WEIR_ERR_INVALID, "weir_device_set_budget: '%s' is too long", budget);
    WEIR_TRY(weir_evict_limit(s, budget && !strchr(budget, '%') ? bytes : SIZE_MAX));
    strcpy(s->budget, budget ? budget : "");
    return WEIR_OK;
}

/* Sets *hopeless if a bound proves that no plan fits. */
static weir_status is_hopeless(const weir_budget_context *f, bool *hopeless)
{
    const weir_levers levers = weir_levers_of(&f->problem);
    weir_bound        b;

    WEIR_TRY(weir_bound_quick(&f->problem, f->arena_limit, &levers, &b));
    *hopeless = b.feasible_bytes > f->arena_limit;
    return WEIR_OK;
}

/* Makes one attempt with f->movable as set. `first`: another attempt follows if this one fails. */
static weir_status attempt(weir_budget_context *f, size_t budget, const weir_plan_options *options,
                           bool first, bool *fits)
{
    bool hopeless = false;

    WEIR_TRY(make_problems(f, budget, options));
    if (first)
        WEIR_TRY(is_hopeless(f, &hopeless));
    if (hopeless)
        return WEIR_OK;
    WEIR_TRY(fit(f, options->policy, fits));
    *fits = *fits && f->resident <= budget;
    return WEIR_OK;
}

/* Can parameters and states be offloaded? Only by policies that may offload resident tensors. */
static bool may_move(const weir_graph *g, const char *text)
{
    const weir_policy *policy;
    const char        *variant;

    return g->dev->ops->spill_slots && weir_policy_find(text, &policy, &variant) == WEIR_OK &&
           weir_auto_uses(policy, variant, WEIR_LEVER_OFFLOAD);
}

/* Returns the smallest budget that an attempt found to work; SIZE_MAX if it found none. */
static size_t needs(const weir_budget_context *f)
{
    return f->least < SIZE_MAX ? f->resident + f->least : SIZE_MAX;
}

weir_status weir_budget_bytes(weir_graph *g, const weir_plan_options *options, size_t *bytes)
{
    if (g->shared) {
        g->shared->arena = g->plan->arena;
        return weir_shared_budget_limit(g, bytes);
    }
    *bytes = free_bytes(g->dev);
    return strcmp(options->budget, "auto") == 0
               ? WEIR_OK
               : weir_budget_parse(options->budget, weir_plan_resident(g) + g->plan->arena, bytes);
}

weir_status weir_budget_apply(weir_graph *g, uint32_t passes, const weir_plan_options *options)
{
    const size_t whole = weir_plan_resident(g) + g->plan->arena;
    weir_budget_context f = {.g = g,
                             .passes = passes,
                             .whole = whole,
                             .least = SIZE_MAX,
                             .movable = SIZE_MAX},
                        all = f;
    size_t       budget;
    bool         fits = false;

    WEIR_TRY(weir_budget_bytes(g, options, &budget));
    g->budget = budget;
    g->unbudgeted = whole;
    if (whole <= budget)
        return WEIR_OK;
    const weir_policy *policy;
    const char        *variant;
    WEIR_TRY(weir_policy_find(options->policy, &policy, &variant));
    WEIR_TRY(weir_policy_lossy(policy, variant, &g->lossy));
    const bool  move = may_move(g, options->policy);
    weir_status status = WEIR_OK;
    if (!move || weir_plan_resident(g) <= budget)
        status = attempt(&f, budget, options, move, &fits);
    if (status == WEIR_OK && !fits && move) {
        all.movable = weir_least_movable(whole);
        status = attempt(&all, budget, options, false, &fits);
    }
    if (status == WEIR_OK && !fits)
        status = fail_too_small(needs(&all) < needs(&f) ? &all : &f, budget);
    weir_budget_context *const won = f.answers ? &f : &all;
    g->cache = all.cache.use != WEIR_CACHE_OFF ? all.cache.use : f.cache.use;
    if (status == WEIR_OK && options->profile_steps > 0 && f.decisions && all.movable == SIZE_MAX)
        status = weir_replan_new(&f, options->policy);
    else if (status == WEIR_OK && won->answers)
        status = weir_reasons_keep(g, won->answers, &won->widest, &won->answer, &won->tensor_of,
                                   won->old.storages);
    weir_budget_context_free(&f);
    weir_budget_context_free(&all);
    weir_mem_trim();                        /* returns the memory of the search to the system */
    return status;
}

/* Finds the smallest plan as attempt() does for a budget that nothing fits. */
static weir_status find_needs(weir_budget_context *f, const weir_plan_options *options,
                              weir_graph_needs *n)
{
    bool   fits;
    size_t floor;

    WEIR_TRY(make_problems(f, 0, options));
    WEIR_TRY(fit_tightest(f, options->policy, &fits));
    WEIR_TRY(floor_of(f, 0, &floor));
    const size_t least = needs(f);
    n->least_bytes = least < f->whole ? least : f->whole;
    n->floor_bytes = floor < n->least_bytes ? floor : n->least_bytes;
    return WEIR_OK;
}

weir_status weir_budget_needs(weir_graph *g, uint32_t passes, const weir_plan_options *options,
                              weir_graph_needs *n)
{
    const size_t      whole = weir_plan_resident(g) + g->plan->arena;
    weir_plan_options how = {.policy = options->policy, .cache = ""};
    const weir_policy *policy;
    const char        *variant;

    *n = (weir_graph_needs){whole, whole, whole};
    if (g->nodes.n == 0)
        return WEIR_OK;
    WEIR_TRY(weir_policy_find(how.policy, &policy, &variant));
    WEIR_TRY(weir_policy_lossy(policy, variant, &g->lossy));
    weir_budget_context f = {.g = g, .passes = passes, .whole = whole, .least = SIZE_MAX,
                             .movable = may_move(g, how.policy) ? weir_least_movable(whole)
                                                                : SIZE_MAX};
    const weir_status status = find_needs(&f, &how, n);
    weir_budget_context_free(&f);
    weir_mem_trim();
    return status;
}
