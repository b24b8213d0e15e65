/* reasons.c - explains a planned graph by the schedule from which its plan was made. A graph
 * without a schedule is explained as it is, with everything kept. */
#include "graph/memory/explain/reasons.h"

#include "core/attr.h"
#include "core/status.h"
#include "graph/ir/pass_set.h"
#include "graph/memory/bounds/bound.h"
#include "graph/memory/explain/collective_times.h"
#include "graph/memory/explain/explain.h"
#include "graph/memory/policies/policy.h"
#include "graph/memory/budget/from_graph.h"
#include "graph/memory/budget/replan.h"
#include "graph/ir/format.h"
#include "graph/plan/plan.h"

typedef struct weir_explained {
    const weir_graph *g;
    uint32_t         *storage; /* [tensors] the storage of each */
    uint32_t         *instr;   /* [ops] the instruction of the first run */
} weir_explained;

static void add_tensor(const void *ctx, uint32_t tensor, weir_string *s)
{
    const weir_explained *n = ctx;
    weir_format_tensor(s, n->g, n->storage[tensor], NULL);
}

static void add_op(const void *ctx, uint32_t op, weir_string *s)
{
    const weir_explained *n = ctx;
    weir_format_node(s, n->g, n->instr[op], NULL);
}

static long long number_of(const void *ctx, uint32_t op)
{
    const weir_explained *n = ctx;
    return n->instr[op];
}

static weir_kind kind_of(const void *ctx, uint32_t tensor)
{
    const weir_explained *n = ctx;
    return n->g->storages.at[n->storage[tensor]].kind;
}

/* Sets order[] to the plan's instructions in the order of the schedule; returns their number. Those
 * that were added since, waits for collectives, are in none. */
static uint32_t order_of(const weir_plan *p, uint32_t *order)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n; i++) {
        const uint32_t at = p->scheduled ? p->scheduled[i] : i;
        if (at == WEIR_NONE)
            continue;
        order[at] = i;
        n++;
    }
    return n;
}

/* Maps ops to instructions. The schedule's runs are the instructions in `order`, without copies
 * unless these are ops of the problem themselves. */
static void fill(weir_explained *n, const weir_reasons *r, uint32_t *order)
{
    const bool as_it_is = r->p.ops.n == n->g->nodes.n;
    const bool copies = as_it_is || r->p.ops.n == order_of(n->g->plan, order);
    uint32_t   i = 0;

    for (uint32_t k = 0; k < r->storages; k++)
        if (r->tensor_of[k] != WEIR_NO_TENSOR)
            n->storage[r->tensor_of[k]] = k;
    for (uint32_t e = 0; e < r->s.events.n; e++) {
        const weir_event v = r->s.events.at[e];
        if (v.kind != WEIR_EVENT_RUN)
            continue;
        while (!copies && weir_spill_attr_of(n->g->nodes.at[order[i]].op,
                                             n->g->nodes.at[order[i]].attr))
            i++;
        if (!v.recomputed)
            n->instr[v.what] = as_it_is ? i : order[i];
        i++;
    }
}

/* Returns the bytes of parameters and states that are on the device between steps and are tensors
 * of the schedule: it might have offloaded them. */
static size_t movable_bytes(const weir_graph *g, const weir_reasons *r)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < r->storages; i++) {
        const weir_storage *const s = &g->storages.at[i];
        if (s->external && !s->offloaded && r->tensor_of[i] != WEIR_NO_TENSOR)
            bytes += weir_plan_taken(g, i);
    }
    return bytes;
}

/* ---- the text ---- */

/* Sets what no plan of any policy does better: its bytes, and its extra time within the budget.
 * `resident`: bytes that are on the device between steps. */
static weir_status find_bounds(const weir_graph *g, const weir_reasons *r, size_t resident,
                               weir_naming *n)
{
    const bool              wider = r->widest.ops.n > 0;
    const weir_mem_problem *p = wider ? &r->widest : &r->p;
    const size_t            base = wider ? resident - weir_mem_problem_resident_bytes(p) : n->base;
    const weir_levers       levers = weir_levers_of(p);
    weir_bound              b;

    WEIR_TRY(weir_bound_quick(p, g->budget > base ? g->budget - base : SIZE_MAX, &levers, &b));
    n->floor = base + b.feasible_bytes;
    n->least = b.extra_seconds;
    return WEIR_OK;
}

/* Where the decisions go, as JSON. */
typedef struct weir_decisions {
    const uint32_t *storage; /* [tensors] */
    weir_string    *s;
    bool            any;
} weir_decisions;

static void add_decision(void *to, uint32_t tensor, const char *decision, const char *why)
{
    weir_decisions *const d = to;

    weir_string_add(d->s, "%s[%u, \"%s\", \"", d->any ? ",\n" : "\n", d->storage[tensor], decision);
    weir_string_add_json(d->s, why);
    weir_string_add(d->s, "\"]");
    d->any = true;
}

/* json: as weir_format_decisions; else as weir_format_explain. */
static weir_status explain(const weir_graph *g, const weir_reasons *r, bool json, weir_string *s)
{
    const size_t resident = weir_plan_resident(g), base = resident - movable_bytes(g, r);
    weir_explained   n = {.g = g};
    weir_naming       naming = {.title = "the step",
                                .base = base,
                                .budget = g->budget,
                                .planned = resident + g->plan->arena,
                                .extra = g->plan->extra_seconds,
                                .ctx = &n,
                                .tensor = add_tensor,
                                .op = add_op,
                                .number = number_of,
                                .kind = kind_of};

    WEIR_TRY(find_bounds(g, r, resident, &naming));
    n.storage = weir_mem_zalloc(r->p.tensors.n + 1u, sizeof *n.storage);
    n.instr = weir_mem_zalloc(r->p.ops.n + 1u, sizeof *n.instr);
    uint32_t *const order = weir_mem_alloc((g->plan->n + 1u) * sizeof *order);
    const bool      ok = n.storage && n.instr && order;
    if (ok) {
        fill(&n, r, order);
        weir_decisions to = {.storage = n.storage, .s = s};
        if (json)
            s->failed |= !weir_explain_each(&r->s, &naming, add_decision, &to);
        else
            weir_explain(&r->s, &naming, s);
    }
    weir_mem_free(order);
    weir_mem_free(n.storage);
    weir_mem_free(n.instr);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}

/* Makes the reasons for a graph's nodes as they are. */
static weir_status as_it_is(const weir_graph *g, weir_reasons *r)
{
    weir_policy_job job = {.p = &r->p, .limit = SIZE_MAX, .variant = ""};

    WEIR_TRY(weir_mem_problem_from_graph(g, NULL, g->plan->passes >> WEIR_PASS_INPLACE & 1,
                                         SIZE_MAX, &r->p, &r->tensor_of));
    r->storages = g->storages.n;
    weir_mem_problem_set_rates(&r->p, g->dev);
    WEIR_TRY(weir_mem_problem_widen(g, NULL, g->plan->passes >> WEIR_PASS_INPLACE & 1,
                                    weir_plan_resident(g) + g->plan->arena, &r->p, &r->widest));
    const weir_status status = weir_policy_recycle(&job);
    r->s = job.s;
    return status;
}

/* Explains a graph that will be planned again: its replan record has the reasons. */
static weir_status explain_measured(const weir_graph *g, bool json, weir_string *s)
{
    const weir_budget_context *f = &g->replan->f;
    const weir_reasons         r = {.p = *f->answers, .s = f->answer, .widest = f->widest,
                                    .tensor_of = f->tensor_of, .storages = f->old.storages};

    return explain(g, &r, json, s);
}

static weir_status explain_planned(const weir_graph *g, bool json, weir_string *s)
{
    if (g->replan)
        return explain_measured(g, json, s);
    if (g->plan->reasons)
        return explain(g, g->plan->reasons, json, s);

    weir_reasons *const made = weir_reasons_new();
    weir_status         status = made ? as_it_is(g, made) : WEIR_ERR_NOMEM;

    if (status == WEIR_OK)
        status = explain(g, made, json, s);
    weir_ref_drop(made);
    return status;
}

void weir_format_explain(const weir_graph *g, weir_string *s)
{
    s->failed |= explain_planned(g, false, s) != WEIR_OK;
    weir_explain_collectives(g->plan, s);
}

void weir_format_decisions(const weir_graph *g, weir_string *s)
{
    weir_string_add(s, "[");
    s->failed |= explain_planned(g, true, s) != WEIR_OK;
    weir_string_add(s, "]");
}
