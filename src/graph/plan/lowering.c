/* lowering.c - runs the passes over a closed recording and lowers it to the instruction list. */
#include "graph/plan/plan.h"

#include <string.h>

#include "core/status.h"
#include "core/attr.h"
#include "device/memory/guard.h"
#include "graph/runtime/execute.h"
#include "graph/passes/passes.h"
#include "graph/placement/placement.h"
#include "graph/memory/budget/budget.h"

static const char *const pass_name[WEIR_PASS_COUNT] = {
#define X(ID, id) #id,
    WEIR_PASSES(X)
#undef X
};

static weir_status disable_one(const char *name, size_t n, uint32_t *set)
{
    for (int i = 0; i < WEIR_PASS_COUNT; i++)
        if (strlen(pass_name[i]) == n && strncmp(pass_name[i], name, n) == 0) {
            *set &= ~(1u << i);
            return WEIR_OK;
        }
    return weir_fail(WEIR_ERR_INVALID,
                     "plan options: there is no pass '%.*s'; the passes are fold, "
                     "copies, cse, dce, mask, recast, fuse, order, inplace",
                     (int)n, name);
}

weir_status weir_passes_from(const weir_plan_options *o, uint32_t *set)
{
    const int level = o ? o->level : 0;

    *set = level == WEIR_LEVEL_RECORDED ? 0 : (1u << WEIR_PASS_COUNT) - 1;
    if (level < WEIR_LEVEL_RECORDED || level > 1)
        return weir_fail(WEIR_ERR_INVALID, "plan options: level %d is none of -1, 0, 1", level);
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
    static const struct { weir_pass pass; weir_status (*run)(weir_graph *g); } list[] = {
        {WEIR_PASS_FOLD, weir_pass_fold}, {WEIR_PASS_COPIES, weir_pass_copies},
        {WEIR_PASS_CSE, weir_pass_cse},   {WEIR_PASS_DCE, weir_pass_dce},
        {WEIR_PASS_MASK, weir_pass_mask}, {WEIR_PASS_RECAST, weir_pass_recast},
        {WEIR_PASS_FUSE, weir_pass_fuse},
        {WEIR_PASS_ORDER, weir_pass_order}};

    weir_graph_compact(g);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (passes >> list[i].pass & 1)
            WEIR_TRY(list[i].run(g));
    return weir_graph_check(g);
}

/* ---- lowering ---- */

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

/* One instruction per node: its call, and the kernel that the device chose for it. */
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
        WEIR_TRY(weir_choice_of(g->dev, &ins->call, &ins->choice));
        l += n->nin + n->nout;
        o += n->nin + n->nout;
        ptr += n->nin + n->nout;
    }
    return WEIR_OK;
}

/* Where the memory of an item's storage or workspace begins: after its guard zone. */
static size_t begin_of(const weir_plan *p, uint32_t item)
{
    return p->items.at[item].offset + weir_guard_begin(p->dev, p->items.at[item].bytes);
}

static weir_operand operand(const weir_graph *g, const weir_plan *p, uint32_t value)
{
    const weir_value *v = &g->values.at[value];
    const size_t      at = (size_t)v->offset * weir_dtype_size(v->layout.desc.dtype);
    const bool        external = g->stores.at[v->store].external;

    return (weir_operand){.store = v->store, .external = external,
                          .offset = external ? at : begin_of(p, p->item_of[v->store]) + at};
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
        if (ins->choice->work)
            ins->work = begin_of(p, ins->work_item);
        ins->args.call = &ins->call;
        ins->args.state = ins->choice->state;
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

static void take(weir_plan *p, const weir_placed *placed)
{
    p->arena = placed->height;
    p->lower_bound = placed->lower_bound;
    p->strategy = placed->strategy;
}

weir_status weir_plan_place(weir_plan *p)
{
    const weir_place_how how = {.strategy = p->placement};
    weir_placed          placed;

    WEIR_TRY(weir_place_items(p->items.at, p->items.n, p->n, &how, &placed));
    take(p, &placed);
    return WEIR_OK;
}

weir_status weir_plan_place_within(weir_plan *p, size_t limit)
{
    weir_placed placed;

    WEIR_TRY(weir_place_within(p->items.at, p->items.n, p->n, p->placement, limit, &placed));
    take(p, &placed);
    return WEIR_OK;
}

weir_status weir_plan_check(const weir_plan *p)
{
    return weir_place_check(p->items.at, p->items.n, p->dev->ops->align, p->arena);
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

weir_status weir_plan_make(weir_graph *g, uint32_t passes, const weir_plan_options *options)
{
    g->placement = weir_place_named(options ? options->placement : NULL);
    if (!g->placement)
        return WEIR_ERR_INVALID;
    if (options)
        WEIR_TRY(weir_budget_check(options));
    WEIR_TRY(run_passes(g, passes));
    WEIR_TRY(weir_plan_build(g, passes));
    weir_plan_options within = options ? *options : (weir_plan_options){0};
    if (!within.budget && g->session->budget[0])
        within.budget = g->session->budget;
    if (within.budget)
        WEIR_TRY(weir_budget_apply(g, passes, &within));
    WEIR_TRY(weir_region_apply(g, passes));
    return weir_plan_settle(g);
}

/* The spill store has room for what leaves. */
static weir_status make_room(const weir_graph *g)
{
    size_t   bytes = 0;
    uint64_t tickets = 0;

    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const weir_spill_attr *a = weir_spill_attr_of(g->nodes.at[i].op, g->nodes.at[i].attr);
        if (!a)
            continue;
        if (!a->home && a->slot + a->bytes > bytes)
            bytes = a->slot + a->bytes;
        tickets = a->ticket + 1 > tickets ? a->ticket + 1 : tickets;
    }
    return tickets ? weir_device_spill(g->dev, bytes, (uint32_t)tickets) : WEIR_OK;
}

weir_status weir_plan_settle(weir_graph *g)
{
    const weir_device_queues *const q = g->dev->ops->queues;
    const weir_rates                rates = g->dev->ops->rates(g->dev);

    if (q)
        WEIR_TRY(weir_plan_spread(g, q->count(g->dev), &rates));
    return make_room(g);
}

void weir_plan_forget_replay(weir_plan *p)
{
    if (p->replay)
        p->dev->ops->queues->replay_free(p->dev, p->replay);
    p->replay = NULL;
    p->ran = false;
}

void weir_plan_free(weir_plan *p)
{
    if (!p)
        return;
    weir_plan_forget_replay(p);
    weir_vec_free(&p->items);
    weir_mem_free(p->wait);
    weir_mem_free(p->item_of);
    weir_mem_free(p->instr);
    weir_mem_free(p->layouts);
    weir_mem_free(p->operands);
    weir_mem_free(p->pointers);
    weir_reasons_free(p->reasons);
    weir_mem_free(p);
}

/* ---- numbers ---- */

size_t weir_plan_taken(const weir_graph *g, uint32_t i)
{
    const weir_store *s = &g->stores.at[i];
    size_t            bytes = SIZE_MAX;

    if (s->block->data)
        return s->block->got;
    (void)weir_guard_size(g->dev, s->bytes, &bytes);
    return bytes;
}

/* Outputs without memory yet get it at the first run, values that are away come back then; what
 * leaves before a run does not count. */
size_t weir_plan_resident(const weir_graph *g)
{
    size_t bytes = g->dev->pool.persistent, there = 0;

    for (uint32_t i = 0; i < g->stores.n; i++) {
        const weir_store *s = &g->stores.at[i];
        if (!s->external)
            continue;
        if (s->away && s->block->data)
            there += weir_plan_taken(g, i);
        else if (!s->away && !s->block->data)
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
    *s = (weir_graph_stats){.nodes = g->recorded, .instructions = p->n, .arena_bytes = p->arena,
                            .persistent_bytes = weir_plan_resident(g),
                            .lower_bound_bytes = p->lower_bound, .workspace_bytes = p->workspace,
                            .guard_bytes = g->dev->guard,
                            .queues = (size_t)weir_lanes_used(p), .record_ms = g->record_ms,
                            .plan_ms = g->plan_ms, .runs = g->runs};
    s->planned_peak_bytes = s->persistent_bytes + p->arena;
    s->budget_bytes = g->budget;
    s->cache = g->cache;
    s->unbudgeted_peak_bytes = g->unbudgeted ? g->unbudgeted : s->planned_peak_bytes;
    s->extra_ms = p->extra_seconds * 1e3;
    s->predicted_ms = p->seconds * 1e3;
    s->measured_ms = g->measured * 1e3;
    s->replanned = g->replanned;
    for (uint32_t i = 0; i < p->n; i++) {
        s->again += g->nodes.at[i].again;
        s->lossy += g->nodes.at[i].op == WEIR_OP_QUANTIZE;
        s->flops += weir_call_flops(&p->instr[i].call);
        s->bytes += weir_call_bytes(&p->instr[i].call);
    }
    return WEIR_OK;
}
