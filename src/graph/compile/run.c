/* run.c - runs a planned graph, whole or in two halves: offloads, binds and notes changes before
 * the run, and uses the times of measured steps after it. */
#include "core/status.h"
#include "device/memory/arena.h"
#include "device/memory/pool.h"
#include "graph/compile/agreement.h"
#include "graph/compile/compile.h"
#include "graph/compile/measured_steps.h"
#include "graph/compile/waiting.h"
#include "graph/eager/evict.h"
#include "graph/frontend/parts.h"
#include "graph/ir/session.h"
#include "graph/memory/budget/budget.h"
#include "graph/memory/budget/shared.h"
#include "graph/plan/plan.h"
#include "graph/runtime/execute.h"
#include "graph/runtime/nonfinite.h"

/* Offloads one storage, after weir_evict_overwrite has made values computed from it independent. */
static weir_status offload_storage(const weir_storage *s)
{
    weir_block *const b = s->block;

    if (b->offloaded)
        return WEIR_OK;
    if (!b->written)
        return weir_fail(WEIR_ERR_STATE, "weir_graph_run: a %s of %zu bytes in the spill file no "
                         "longer has a value", weir_kind_name[s->kind], s->bytes);
    if (b->shared)
        return weir_fail(WEIR_ERR_STATE, "weir_graph_run: a %s of %zu bytes lives in the spill "
                         "file within this budget, but its address was given away",
                         weir_kind_name[s->kind], s->bytes);
    WEIR_TRY(weir_block_touch(b));
    WEIR_TRY(weir_evict_fix(b));
    WEIR_TRY(weir_evict_overwrite(b));
    return weir_block_offload(b);
}

/* Offloads the storages that the graph keeps in the spill file. */
static weir_status offload_all(weir_graph *g)
{
    const uint64_t moves = g->dev->moves;

    for (uint32_t i = 0; i < g->storages.n && g->n_offloaded > 0; i++)
        if (g->storages.at[i].offloaded)
            WEIR_TRY(offload_storage(&g->storages.at[i]));
    if (g->dev->moves != moves)
        weir_pool_trim(g->dev);         /* free the memory instead of keeping it for reuse */
    return WEIR_OK;
}

/* Before the run: makes values that were computed with the graph off independent of the storages
 * that the span overwrites. */
static weir_status settle_readers(const weir_graph *g, weir_instr_range span)
{
    for (uint32_t i = span.from; i < span.to; i++) {
        const weir_instr *ins = &g->plan->instr[i];
        for (int k = 0; k < ins->call.nin; k++)
            if (ins->call.def->mutates >> k & 1 && ins->in[k].external)
                WEIR_TRY(weir_evict_overwrite(g->storages.at[ins->in[k].storage].block));
        for (int k = 0; k < ins->call.nout; k++)
            if (ins->out[k].external)
                WEIR_TRY(weir_evict_overwrite(g->storages.at[ins->out[k].storage].block));
    }
    return WEIR_OK;
}

/* Gives storages that the span overwrites a new version, so that gradients of values computed with
 * the graph off from the old one are refused. */
static void note_changes(const weir_graph *g, weir_instr_range span)
{
    const bool     whole = span.from == 0 && span.to == g->plan->n;
    const uint32_t half = span.from < g->plan->stop ? WEIR_FIRST_HALF : WEIR_SECOND_HALF;

    for (uint32_t i = 0; i < g->storages.n; i++) {
        const weir_storage *const s = &g->storages.at[i];
        if (s->external && (s->changed_by || s->made) && (whole || s->written_in & half))
            weir_block_changed(s->block, s->changed_by ? s->changed_by : "weir_graph_run");
    }
}

static weir_status check_runnable(const char *who, const weir_graph *g)
{
    if (!g)
        return weir_fail_null(who, "the graph");
    WEIR_TRY(weir_device_check(g->dev, who));
    if (g->state == WEIR_GRAPH_PLANNED || g->state == WEIR_GRAPH_UNPLANNED)
        return WEIR_OK;
    if (g->state == WEIR_GRAPH_BROKEN)
        return weir_fail(WEIR_ERR_STATE, "%s: the graph is broken: %s", who,
                         g->broken_by ? g->broken_by : "its weir_graph_end failed");
    return weir_fail(WEIR_ERR_STATE, "%s: the graph is still being recorded: call weir_graph_end",
                     who);
}

static void free_arena(weir_device *d)
{
    weir_device_arena_free(d);
    d->moves++;                         /* plans are bound again, even to the same address */
}

/* Plans a graph under a shared budget again if other graphs, or tensors made since it was planned,
 * leave it less than its plan needs. The arena is freed before: planning may time kernels, and
 * afterwards it becomes as large as the largest plan that runs. */
static weir_status fit_shared_budget(weir_graph *g)
{
    if (!weir_shared_budget_holds(g))
        return g->state == WEIR_GRAPH_UNPLANNED ? weir_plan_without_budget(g) : WEIR_OK;
    WEIR_TRY(weir_shared_budget_limit(g, &g->budget));
    if (!g->shared->unmet && weir_plan_resident(g) + g->plan->arena <= g->budget)
        return WEIR_OK;
    free_arena(g->dev);
    return weir_plan_refit(g);
}

/* Frees an arena that other graphs left larger than the shared budget allows while g runs. */
static void shrink_arena(const weir_graph *g)
{
    weir_device *const d = g->dev;

    if (weir_shared_budget_holds(g) && d->arena.used > g->plan->arena &&
        d->arena.used > g->budget - weir_plan_resident(g))
        free_arena(d);
}

/* Keeps the graph within its budget, whatever was made since it was planned. */
static weir_status keep_budget(weir_graph *g)
{
    WEIR_TRY(fit_shared_budget(g));
    WEIR_TRY(offload_all(g));
    shrink_arena(g);
    return WEIR_OK;
}

/* Binds the plan, unless it is bound, and notes what the span overwrites. */
static weir_status bind(weir_graph *g, weir_instr_range span)
{
    if (!weir_plan_is_bound(g, span))
        WEIR_TRY(weir_plan_bind(g, span));
    if (g->session->evict)
        WEIR_TRY(settle_readers(g, span));
    note_changes(g, span);
    return WEIR_OK;
}

/* All that precedes the first instruction of a run, whole or up to the stop; a graph under a shared
 * budget may be planned again. *span gets the instructions to run. */
static weir_status prepare(const char *who, weir_graph *g, bool to_stop, weir_instr_range *span)
{
    WEIR_TRY(weir_waiting_check_none(who, g));
    WEIR_TRY(keep_budget(g));
    WEIR_TRY(weir_waiting_leave_room(who, g));
    *span = (weir_instr_range){0, to_stop ? g->plan->stop : g->plan->n};
    return bind(g, *span);
}

static bool is_profiled(const weir_graph *g)
{
    const weir_session *const s = g->session;

    return g->to_measure > 0 || (s->verbosity > 0 && g->runs >= (uint64_t)s->skip);
}

/* The position of the random stream after a run that began at rng. */
static uint64_t rng_after(const weir_graph *g, uint64_t rng)
{
    return g->rng_parts ? weir_part_of(rng, 0) + weir_part_of(g->rng_total + WEIR_PART_MASK, 0)
                        : rng + g->rng_total;
}

/* Runs a span from instruction 0 on. *rng gets the position of its random numbers; after a failure
 * they are returned to the stream, so that a repeated run draws them again. */
static weir_status begin_run(weir_graph *g, weir_instr_range span, bool profile, uint64_t *rng)
{
    g->session->last_run = g;
    g->runs++;
    *rng = g->dev->rng;
    g->dev->rng = rng_after(g, *rng);
    weir_agreed_begin(g);
    const weir_status status = weir_plan_run(g, span, *rng, profile);
    weir_agreed_end(g);
    if (status != WEIR_OK)
        g->dev->rng = *rng;
    return status;
}

weir_status weir_graph_run(weir_graph *g)
{
    WEIR_TRY(check_runnable("weir_graph_run", g));
    WEIR_VISIT(g->dev, "weir_graph_run", weir_error_status());
    weir_instr_range whole;
    uint64_t  rng;

    WEIR_TRY(prepare("weir_graph_run", g, false, &whole));
    WEIR_TRY(begin_run(g, whole, is_profiled(g), &rng));
    g->completed++;
    if (g->to_measure > 0)
        weir_measured_step(g);
    return WEIR_OK;
}

/* ---- the halves ---- */

weir_status weir_graph_run_to_stop(weir_graph *g)
{
    static const char who[] = "weir_graph_run_to_stop";

    WEIR_TRY(check_runnable(who, g));
    WEIR_VISIT(g->dev, who, weir_error_status());
    if (!g->stops)
        return weir_fail(WEIR_ERR_STATE, "%s: the graph has no stop: call weir_graph_stop while it "
                         "is being recorded", who);
    const bool profile = is_profiled(g);
    weir_instr_range  half;
    uint64_t   rng;
    WEIR_TRY(prepare(who, g, true, &half));
    WEIR_TRY(begin_run(g, half, profile, &rng));
    weir_waiting_begin(g, rng, profile);
    return WEIR_OK;
}

/* Runs the second half in the arena of the first. */
static weir_status run_rest(weir_graph *g, const weir_waiting *w)
{
    weir_device *const d = g->dev;
    const weir_instr_range    half = {g->plan->stop, g->plan->n};
    const uint64_t     seed = d->seed;

    WEIR_TRY(offload_all(g));
    WEIR_TRY(bind(g, half));
    d->seed = w->seed;
    weir_agreed_begin(g);
    const weir_status status = weir_plan_run(g, half, w->rng, w->profile);
    weir_agreed_end(g);
    d->seed = seed;
    /* Repeated, the run draws the same numbers, unless others were drawn between its halves. */
    if (status != WEIR_OK && d->rng == rng_after(g, w->rng) && seed == w->seed)
        d->rng = w->rng;
    return status;
}

weir_status weir_graph_run_rest(weir_graph *g)
{
    static const char who[] = "weir_graph_run_rest";

    WEIR_TRY(check_runnable(who, g));
    WEIR_VISIT(g->dev, who, weir_error_status());
    weir_waiting w;
    weir_arena   aside;

    WEIR_TRY(weir_waiting_check(who, g));
    weir_waiting_end(g, &w, &aside);
    const weir_status status = run_rest(g, &w);
    weir_device_arena_merge(g->dev, &aside);
    WEIR_TRY(status);
    g->completed++;
    if (g->to_measure > 0)
        weir_measured_step(g);
    return WEIR_OK;
}

weir_status weir_graph_drop_rest(weir_graph *g)
{
    WEIR_VISIT_OF(g, "weir_graph_drop_rest", "the graph");
    weir_waiting_drop(g);
    return WEIR_OK;
}

/* Saves, runs and restores. Reading and writing what is offloaded may move memory, so that the plan
 * is bound again afterwards. */
static weir_status search(weir_nonfinite_search *s)
{
    weir_graph *const g = s->g;
    const uint64_t    rng = g->dev->rng;
    weir_instr_range         whole;

    WEIR_TRY(weir_nonfinite_begin(s));
    WEIR_TRY(prepare("weir_graph_find_nonfinite", g, false, &whole));
    weir_agreed_begin(g);
    const weir_status status = weir_plan_watch(g, weir_nonfinite_look, s);
    weir_agreed_end(g);
    g->dev->rng = rng;
    return status;
}

weir_status weir_graph_find_nonfinite(weir_graph *g, bool nan_only, weir_nonfinite *found)
{
    if (!found)
        return weir_fail_null("weir_graph_find_nonfinite", "found");
    *found = (weir_nonfinite){.bad_input = -1};
    WEIR_TRY(check_runnable("weir_graph_find_nonfinite", g));
    WEIR_VISIT(g->dev, "weir_graph_find_nonfinite", weir_error_status());
    weir_nonfinite_search s = {.g = g, .nan_only = nan_only, .found = found};

    weir_instr_range whole;

    WEIR_TRY(prepare("weir_graph_find_nonfinite", g, false, &whole));
    return weir_nonfinite_end(&s, search(&s));
}

weir_status weir_graph_measure(weir_graph *g, size_t *arena_peak)
{
    if (!g || !arena_peak)
        return weir_fail_null("weir_graph_measure", "the graph or the place for the number");
    *arena_peak = 0;
    WEIR_VISIT(g->dev, "weir_graph_measure", weir_error_status());
    if (g->state != WEIR_GRAPH_PLANNED)
        return weir_fail(WEIR_ERR_STATE, "weir_graph_measure: the graph is not planned");
    WEIR_TRY(weir_waiting_check_none("weir_graph_measure", g));
    WEIR_TRY(keep_budget(g));           /* now: a run must not free the arena that is painted */
    return weir_plan_measure(g, weir_graph_run, arena_peak);
}
