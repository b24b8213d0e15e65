/* lowering.c - lowers the nodes of a closed recording, after the passes, to the instruction list.
 */
#include "graph/plan/plan.h"

#include "core/status.h"
#include "core/attr.h"
#include "device/kernel.h"
#include "device/memory/guard.h"
#include "graph/ir/pass_set.h"
#include "graph/placement/placement.h"
#include "graph/placement/placement_check.h"

static bool plan_alloc(weir_plan *p, const weir_graph *g)
{
    size_t operands = 0;

    for (uint32_t i = 0; i < g->nodes.n; i++)
        operands += (size_t)g->nodes.at[i].nin + g->nodes.at[i].nout;
    p->n = g->nodes.n;
    p->instr = weir_mem_zalloc(p->n + 1u, sizeof *p->instr);
    p->layouts = weir_mem_zalloc(operands + 1, sizeof *p->layouts);
    p->operands = weir_mem_zalloc(operands + 1, sizeof *p->operands);
    p->pointers = weir_mem_zalloc(operands + 1, sizeof *p->pointers);
    return p->instr && p->layouts && p->operands && p->pointers;
}

/* Creates one instruction per node: its call, and the kernel that the device selects for it. */
static weir_status lower(weir_graph *g, weir_plan *p)
{
    weir_layout  *l = p->layouts;
    weir_operand *o = p->operands;
    void        **ptr = p->pointers;

    for (uint32_t i = 0; i < p->n; i++) {
        const weir_node *n = &g->nodes.at[i];
        weir_instr      *ins = &p->instr[i];
        ins->call = weir_node_call(g, n, l, l + n->nin);
        ins->in = o;
        ins->out = o + n->nin;
        ins->args.src = ptr;
        ins->args.dst = ptr + n->nin;
        ins->rng = n->rng;
        ins->phase = n->phase;
        WEIR_TRY(weir_kernel_of(g->dev, &ins->call, &ins->kernel));
        l += n->nin + n->nout;
        o += n->nin + n->nout;
        ptr += n->nin + n->nout;
    }
    return WEIR_OK;
}

/* Offset in the arena of an item's storage or workspace, which begins after the guard zone. */
static size_t begin_of(const weir_plan *p, uint32_t item)
{
    return p->items.at[item].offset + weir_guard_begin(p->dev, p->items.at[item].bytes);
}

static weir_operand operand(const weir_graph *g, const weir_plan *p, uint32_t value)
{
    const weir_value *v = &g->values.at[value];
    const size_t      at = (size_t)v->offset * weir_dtype_size(v->layout.desc.dtype);
    const bool        external = g->storages.at[v->storage].external;

    const size_t      part = p->part_at ? p->part_at[v->storage] : 0;

    return (weir_operand){
        .storage = v->storage,
        .external = external,
        .offset = external ? at : begin_of(p, p->item_of[v->storage]) + part + at};
}

void weir_plan_resolve(weir_graph *g)
{
    weir_plan *const p = g->plan;

    for (uint32_t i = 0; i < p->n; i++) {
        const weir_node *n = &g->nodes.at[i];
        weir_instr      *ins = &p->instr[i];
        for (int k = 0; k < n->nin; k++)
            ins->in[k] = operand(g, p, n->in[k]);
        for (int k = 0; k < n->nout; k++)
            ins->out[k] = operand(g, p, n->out[k]);
        if (ins->kernel->work)
            ins->work = begin_of(p, ins->work_item);
        ins->args.call = &ins->call;
        ins->args.state = ins->kernel->state;
        ins->args.threads = g->dev->threads;
        ins->args.dev = g->dev;
    }
}

weir_status weir_plan_lower(weir_graph *g, uint32_t passes)
{
    weir_plan *p = g->plan = weir_mem_zalloc(1, sizeof *p);

    if (!p || !plan_alloc(p, g))
        return WEIR_ERR_NOMEM;
    p->dev = g->dev;
    p->passes = passes;
    p->placement = g->placement;
    WEIR_TRY(lower(g, p));
    return weir_live_items(g, p, passes >> WEIR_PASS_INPLACE & 1);
}

static void take(weir_plan *p, const weir_placement_result *placed)
{
    p->arena = placed->height;
    p->lower_bound = placed->lower_bound;
    p->strategy = placed->strategy;
}

weir_status weir_plan_place(weir_plan *p)
{
    weir_placement_options how = {.strategy = p->placement};
    weir_placement_result  placed;

    WEIR_TRY(weir_place_slack(p->items.at, p->items.n, p->n, &how.slack));
    WEIR_TRY(weir_place_items(p->items.at, p->items.n, p->n, &how, &placed));
    take(p, &placed);
    return WEIR_OK;
}

static weir_status place_within(weir_plan *p, const char *strategy, size_t limit)
{
    weir_placement_result placed;

    WEIR_TRY(weir_place_within(p->items.at, p->items.n, p->n, strategy, limit, &placed));
    take(p, &placed);
    return WEIR_OK;
}

weir_status weir_plan_place_within(weir_plan *p, size_t limit)
{
    return place_within(p, p->placement, limit);
}

weir_status weir_plan_check(const weir_plan *p)
{
    return weir_place_check(p->items.at, p->items.n, p->dev->ops->align, p->arena);
}

weir_status weir_plan_place_lowered(weir_graph *g, const weir_plan *like, size_t limit)
{
    enum { MANY = 1500 };       /* more items take a second and more by all strategies */
    weir_plan *const p = g->plan;

    if (g->budget)
        WEIR_TRY(weir_plan_place_within(p, limit));
    else if (like && p->items.n > MANY)
        WEIR_TRY(place_within(p, like->strategy, limit));
    else
        WEIR_TRY(weir_plan_place(p));
    WEIR_TRY(weir_plan_check(p));
    weir_plan_resolve(g);
    return WEIR_OK;
}

weir_status weir_plan_build(weir_graph *g, uint32_t passes)
{
    weir_plan_free(g->plan);
    WEIR_TRY(weir_plan_lower(g, passes));
    WEIR_TRY(weir_plan_place(g->plan));
    WEIR_TRY(weir_plan_check(g->plan));
    weir_plan_resolve(g);
    return WEIR_OK;
}

void weir_plan_forget_replay(weir_plan *p)
{
    if (p->replay)
        p->dev->ops->streams->replay_free(p->dev, p->replay);
    p->replay = NULL;
    p->ran = false;
}

void weir_plan_free(weir_plan *p)
{
    if (!p)
        return;
    weir_plan_forget_replay(p);
    weir_mem_free(p->unrecorded);
    weir_vec_free(&p->items);
    weir_mem_free(p->wait);
    weir_mem_free(p->item_of);
    weir_mem_free(p->part_at);
    weir_mem_free(p->instr);
    weir_mem_free(p->layouts);
    weir_mem_free(p->operands);
    weir_mem_free(p->pointers);
    weir_mem_free(p->scheduled);
    weir_vec_free(&p->wire);
    weir_mem_free(p->computing);
    weir_ref_drop(p->reasons);
    weir_mem_free(p);
}

void weir_plan_succeed(weir_plan *p, weir_plan *old)
{
    p->extra_seconds = old->extra_seconds;
    p->seconds = old->seconds;
    p->reasons = old->reasons;
    old->reasons = NULL;
    weir_plan_free(old);
}

/* ---- numbers ---- */

size_t weir_plan_taken(const weir_graph *g, uint32_t i)
{
    const weir_storage *s = &g->storages.at[i];
    size_t              bytes = SIZE_MAX;

    if (s->block->data)
        return s->block->got;
    (void)weir_guard_size(g->dev, s->bytes, &bytes);
    return bytes;
}

/* Outputs without memory count, since they get it at the first run. Storages kept in the spill file
 * do not, even if they are on the device now: they are offloaded before the run. */
size_t weir_plan_resident(const weir_graph *g)
{
    size_t bytes = g->dev->pool.persistent, there = 0;

    bytes += weir_device_arenas_held(g->dev, &g->waiting.held);
    for (uint32_t i = 0; i < g->storages.n; i++) {
        const weir_storage *s = &g->storages.at[i];
        if (!s->external)
            continue;
        if (s->offloaded && s->block->data)
            there += weir_plan_taken(g, i);
        else if (!s->offloaded && !s->block->data)
            bytes += weir_plan_taken(g, i);
    }
    return bytes - there;
}

weir_status weir_graph_stats_of(const weir_graph *g, weir_graph_stats *s)
{
    if (!g || !s)
        return weir_fail_null("weir_graph_stats_of", "the graph or the place for the numbers");
    if (g->state != WEIR_GRAPH_PLANNED)
        return weir_fail(WEIR_ERR_STATE, "weir_graph_stats_of: the graph is not planned");
    const weir_plan *p = g->plan;
    *s = (weir_graph_stats){.nodes = g->recorded,
                            .instructions = p->n,
                            .arena_bytes = p->arena,
                            .persistent_bytes = weir_plan_resident(g),
                            .lower_bound_bytes = p->lower_bound,
                            .workspace_bytes = p->workspace,
                            .guard_bytes = g->dev->guard,
                            .streams = (size_t)weir_streams_used(p),
                            .record_ms = g->record_ms,
                            .plan_ms = g->plan_ms,
                            .runs = g->runs,
                            .dropouts = g->dropouts,
                            .batch_statistics = g->batch_statistics,
                            .trains = g->trains,
                            .first_half = p->halves ? p->stop : 0};
    s->planned_peak_bytes = s->persistent_bytes + p->arena;
    s->budget_bytes = g->budget;
    s->cache = g->cache;
    s->unbudgeted_peak_bytes = g->unbudgeted ? g->unbudgeted : s->planned_peak_bytes;
    s->extra_ms = p->extra_seconds * 1e3;
    s->predicted_ms = p->seconds * 1e3;
    s->collectives = p->wire.n;
    weir_plan_wire_sums(p, &s->wire_predicted_ms, &s->exposed_predicted_ms);
    s->wire_predicted_ms *= 1e3;
    s->exposed_predicted_ms *= 1e3;
    s->measured_ms = g->measured * 1e3;
    s->replanned = g->replanned;
    s->refitted = g->refitted;
    for (uint32_t i = 0; i < p->n; i++) {
        s->recomputed += g->nodes.at[i].recomputed;
        s->lossy += g->nodes.at[i].op == WEIR_OP_QUANTIZE;
        s->flops += weir_call_flops(&p->instr[i].call);
        s->bytes += weir_call_bytes(&p->instr[i].call);
    }
    return WEIR_OK;
}
