/* compile.c - compiles a closed recording: runs the passes, plans, and applies the budget. */
#include "graph/compile/compile.h"

#include <string.h>

#include "core/status.h"
#include "device/device.h"
#include "graph/compile/buckets.h"
#include "graph/compile/measured_steps.h"
#include "graph/ir/pass_set.h"
#include "graph/ir/session.h"
#include "graph/memory/budget/budget.h"
#include "graph/memory/budget/replan.h"
#include "graph/memory/budget/shared.h"
#include "graph/passes/passes.h"
#include "graph/placement/placement.h"
#include "graph/plan/plan.h"
#include "graph/placement/progress.h"

static const char *const pass_name[WEIR_PASS_COUNT] = {
#define X(ID, id, text) #id,
    WEIR_PASSES(X)
#undef X
};

const char *weir_pass_names(void)
{
#define X(ID, id, text) ", " #id
    return &WEIR_PASSES(X)[2];
#undef X
}

const char *weir_pass_texts(void)
{
#define X(ID, id, text) #id ": " text "\n"
    return WEIR_PASSES(X);
#undef X
}

static bool same_name(const char *pass, const char *name, size_t n)
{
    return strlen(pass) == n && strncmp(pass, name, n) == 0;
}

/* Removes a pass from the set by its name, or by the name that it had in version 0.1. */
static weir_status disable_one(const char *name, size_t n, uint32_t *set)
{
    for (int i = 0; i < WEIR_PASS_COUNT; i++)
        if (same_name(pass_name[i], name, n) ||
            (i == WEIR_PASS_RELU_SIGN_BITS && same_name("mask", name, n)) ||
            (i == WEIR_PASS_REMAT_CAST && same_name("recast", name, n))) {
            *set &= ~(1u << i);
            return WEIR_OK;
        }
    return weir_fail_unknown("plan options: unknown pass", name, n, weir_pass_names());
}

weir_status weir_passes_from(const weir_plan_options *o, uint32_t *set)
{
    const int level = o ? o->level : 0;

    *set = level == WEIR_LEVEL_RECORDED ? 0 : (1u << WEIR_PASS_COUNT) - 1;
    if (level < WEIR_LEVEL_RECORDED || level > 1)
        return weir_fail(WEIR_ERR_INVALID, "plan options: unknown level %d (expected -1, 0 or 1)",
                                           level);
    for (const char *s = o && o->disable ? o->disable : ""; *s;) {
        const size_t n = strcspn(s, ", ");
        if (n > 0)
            WEIR_TRY(disable_one(s, n, set));
        s += n + strspn(s + n, ", ");
    }
    return WEIR_OK;
}

static weir_status run_passes(weir_graph *g, uint32_t passes)
{
    weir_graph_compact(g);
#define X(ID, id, text)                                                                            \
    if (!weir_progress_poll())                                                                     \
        return WEIR_ERR_CANCELLED;                                                                 \
    if (passes >> WEIR_PASS_##ID & 1)                                                              \
        WEIR_TRY(weir_pass_##id(g));
    WEIR_GRAPH_PASSES(X)
#undef X
    return weir_graph_check(g);
}

weir_status weir_device_set_progress(weir_device *d, weir_progress_fn progress, void *context)
{
    WEIR_TRY(weir_device_check(d, "weir_device_set_progress"));
    weir_session *const s = weir_session_of(d);
    if (!s)
        return WEIR_ERR_NOMEM;
    s->progress = progress;
    s->progress_context = context;
    return WEIR_OK;
}

/* Plans the nodes as they are, within the budget of the options, if there is one. */
static weir_status plan(weir_graph *g, uint32_t passes, const weir_plan_options *options)
{
    weir_progress_phase("placement");
    WEIR_TRY(weir_plan_build(g, passes));
    if (options->budget)
        WEIR_TRY(weir_budget_apply(g, passes, options));
    WEIR_TRY(weir_region_apply(g, passes));
    WEIR_TRY(weir_plan_settle(g));
    weir_measured_steps_begin(g, options->profile_steps);
    return WEIR_OK;
}

/* Checks the options and runs the passes. */
static weir_status prepare(weir_graph *g, uint32_t passes, const weir_plan_options *options)
{
    g->placement = weir_place_named(options ? options->placement : NULL);
    if (!g->placement)
        return WEIR_ERR_INVALID;
    if (options)
        WEIR_TRY(weir_budget_check(options));
    return run_passes(g, passes);
}

static weir_status make(weir_graph *g, uint32_t passes, const weir_plan_options *options)
{
    weir_plan_options within = options ? *options : (weir_plan_options){0};
    const bool        of_device = !within.budget && g->session->budget[0];
    weir_status       status = prepare(g, passes, options);

    if (of_device)
        within.budget = g->session->budget;
    if (status == WEIR_OK && (of_device || (within.budget && within.shared_budget)))
        status = weir_shared_budget_join(g, passes, &within, of_device);
    WEIR_TRY(weir_buckets_choose(g, passes, &within, status));
    return plan(g, passes, &within);
}

weir_status weir_plan_make(weir_graph *g, uint32_t passes, const weir_plan_options *options)
{
    weir_progress_watch w;

    weir_progress_begin(&w, g->session->progress, g->session->progress_context);
    return weir_progress_end(&w, "weir_graph_end", make(g, passes, options));
}

static weir_status find_needs(weir_graph *g, uint32_t passes, const weir_plan_options *options,
                              weir_graph_needs *n)
{
    const weir_plan_options none = {0};

    WEIR_TRY(prepare(g, passes, options));
    weir_progress_phase("placement");
    WEIR_TRY(weir_plan_build(g, passes));
    return weir_budget_needs(g, passes, options ? options : &none, n);
}

weir_status weir_plan_needs(weir_graph *g, uint32_t passes, const weir_plan_options *options,
                            weir_graph_needs *n)
{
    weir_progress_watch w;

    weir_progress_begin(&w, g->session->progress, g->session->progress_context);
    return weir_progress_end(&w, "weir_graph_end_needs", find_needs(g, passes, options, n));
}

/* Restores the nodes as they were before the budget changed them. */
static void restore_nodes(weir_graph *g)
{
    weir_replan_free(g);                /* its record has the nodes while steps are measured */
    g->to_measure = 0;
    weir_graph_revert(g, &g->shared->before);
    weir_plan_join_collectives(g);
    g->lossy = 0;
}

static weir_status refit(weir_graph *g)
{
    const weir_shared_budget *const s = g->shared;
    weir_progress_watch             w;

    weir_progress_begin(&w, g->session->progress, g->session->progress_context);
    restore_nodes(g);
    return weir_progress_end(&w, "weir_graph_run", plan(g, s->passes, &s->options));
}

weir_status weir_plan_without_budget(weir_graph *g)
{
    restore_nodes(g);
    weir_status status = weir_plan_build(g, g->shared->passes);
    if (status == WEIR_OK)
        status = weir_plan_settle(g);
    g->state = status == WEIR_OK ? WEIR_GRAPH_PLANNED : WEIR_GRAPH_UNPLANNED;
    return status;
}

weir_status weir_plan_refit(weir_graph *g)
{
    const double began = weir_now();

    WEIR_TRY(g->dev->ops->sync(g->dev));
    weir_status status = refit(g);
    g->plan_ms = (weir_now() - began) * 1e3;
    g->refitted++;
    g->shared->unmet = status != WEIR_OK;
    if (status == WEIR_OK) {
        g->state = WEIR_GRAPH_PLANNED;
        return WEIR_OK;
    }
    char *const why = weir_mem_strdup(weir_error());
    if (weir_plan_without_budget(g) != WEIR_OK)
        status = weir_error_status();
    else if (status == WEIR_ERR_BUDGET)
        status = weir_shared_budget_refuse(g, g->budget, why ? why : "");
    else
        status = weir_fail(status, "%s", why ? why : "memory was short");
    weir_mem_free(why);
    return status;
}
