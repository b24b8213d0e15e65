/* waiting.c - the stop of a graph, and the time between its two halves. */
#include "graph/compile/waiting.h"

#include "core/status.h"
#include "core/tensor.h"
#include "device/memory/arena.h"
#include "graph/ir/format.h"
#include "graph/plan/plan.h"

weir_status weir_graph_stop(weir_graph *g)
{
    WEIR_VISIT_OF(g, "weir_graph_stop", "the graph");
    if (g->state != WEIR_GRAPH_RECORDING)
        return weir_fail(WEIR_ERR_STATE, "weir_graph_stop: the graph is not being recorded");
    if (g->stops)
        return weir_fail(WEIR_ERR_STATE, "weir_graph_stop: the graph has a stop already");
    g->stops = true;
    for (uint32_t i = 0; i < g->nodes.n; i++)
        g->nodes.at[i].half = WEIR_FIRST_HALF;
    return WEIR_OK;
}

weir_status weir_waiting_check_none(const char *who, const weir_graph *g)
{
    if (!g->waiting.yes)
        return WEIR_OK;
    return weir_fail(WEIR_ERR_STATE, "%s: the second half of the graph's last run is still to run: "
                     "call weir_graph_run_rest, or weir_graph_drop_rest to give it up", who);
}

/* Fails if a storage that crosses the stop has changed since the first half ran. */
static weir_status check_unchanged(const char *who, const weir_graph *g)
{
    for (uint32_t i = 0; i < g->storages.n; i++) {
        const weir_storage *const s = &g->storages.at[i];
        if (!s->external || !s->crosses || s->block->changed <= g->waiting.changes)
            continue;
        const char *const name = weir_storage_name(g, i);
        return weir_fail(WEIR_ERR_STATE, "%s: a %s of %zu bytes%s%s%s, which the first half used "
                         "and the second reads, has been changed by %s in between", who,
                         weir_kind_name[s->kind], s->bytes, *name ? ", '" : "", name,
                         *name ? "'," : "",
                         s->block->changed_by ? s->block->changed_by : "the program");
    }
    return WEIR_OK;
}

weir_status weir_waiting_check(const char *who, const weir_graph *g)
{
    if (!g->waiting.yes)
        return weir_fail(WEIR_ERR_STATE, "%s: no first half has run: call weir_graph_run_to_stop "
                         "before", who);
    if (g->plan->offloads && g->waiting.slots != g->dev->spill_slots_end)
        return weir_fail(WEIR_ERR_STATE, "%s: since the first half ran, a graph was planned that "
                         "keeps tensors in the offload store, where the values of this run were: "
                         "call weir_graph_drop_rest and repeat the first half", who);
    return check_unchanged(who, g);
}

/* Fails if g does not fit beside the graph that keeps h, within the budgets of both. */
static weir_status check_beside(const char *who, const weir_graph *g, const weir_held_arena *h)
{
    const size_t all = weir_plan_resident(g) + g->plan->arena;
    const size_t limit = !g->budget || (h->budget && h->budget < g->budget) ? h->budget : g->budget;

    if (h->offloads && g->plan->offloads)
        return weir_fail(WEIR_ERR_STATE, "%s: another graph waits between its halves with values "
                         "in the offload store, and this graph's plan would overwrite them: run "
                         "the second half of the other one before, or give it up", who);
    if (!limit || all <= limit)
        return WEIR_OK;
    return weir_fail(WEIR_ERR_BUDGET, "%s: another graph waits between its halves and keeps its "
                     "arena of %zu bytes; with an arena of its own, of %zu bytes, this graph takes "
                     "the device to %zu bytes, but the budget is %zu: run the second half of the "
                     "other one before, or give it up", who, h->arena.used, g->plan->arena, all,
                     limit);
}

weir_status weir_waiting_leave_room(const char *who, const weir_graph *g)
{
    for (const weir_held_arena *h = g->dev->held; h; h = h->next)
        WEIR_TRY(check_beside(who, g, h));
    return WEIR_OK;
}

void weir_waiting_begin(weir_graph *g, uint64_t rng, bool profile)
{
    weir_device *const d = g->dev;

    g->waiting = (weir_waiting){.yes = true, .seed = d->seed, .rng = rng, .changes = d->changes,
                                .slots = d->spill_slots_end, .profile = profile};
    g->waiting.held.budget = g->budget;
    g->waiting.held.offloads = g->plan->offloads;
    weir_device_arena_hold(d, &g->waiting.held);
}

void weir_waiting_end(weir_graph *g, weir_waiting *w, weir_arena *aside)
{
    *w = g->waiting;
    weir_device_arena_give_back(g->dev, &g->waiting.held, aside);
    g->waiting = (weir_waiting){.yes = false};
}

void weir_waiting_drop(weir_graph *g)
{
    weir_waiting w;
    weir_arena   aside;

    if (!g->waiting.yes || g->dev->closed)
        return;
    weir_waiting_end(g, &w, &aside);
    weir_device_arena_merge(g->dev, &aside);
}
