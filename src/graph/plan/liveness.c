/* liveness.c - computes the live range of every temporary storage, and which outputs take over a
 * dying input.
 *
 * Live ranges are closed intervals of instruction numbers, one instruction per node. In place: an
 * output may take over the memory of an input that dies there if the op allows it (opdef.inplace),
 * both are dense and equally large, and no other operand views that memory differently. */
#include <string.h>

#include "core/status.h"
#include "device/memory/guard.h"
#include "graph/plan/plan.h"

static bool temporary(const weir_graph *g, uint32_t storage)
{
    return !g->storages.at[storage].external;
}

/* Adds an item per temporary storage, from the node that computes it to its last reader. */
static weir_status lifetimes(const weir_graph *g, weir_plan *p)
{
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const weir_node *n = &g->nodes.at[i];
        for (int k = 0; k < n->nout; k++) {
            const uint32_t s = weir_storage_of(g, n->out[k]);
            if (!temporary(g, s))
                continue;
            const weir_item it = {.bytes = g->storages.at[s].bytes,
                                  .first = i,
                                  .last = i,
                                  .storage = s,
                                  .kind = g->storages.at[s].kind};
            p->item_of[s] = p->items.n;
            if (!weir_vec_push(&p->items, it))
                return WEIR_ERR_NOMEM;
        }
        for (int k = 0; k < n->nin; k++) {
            const uint32_t s = weir_storage_of(g, n->in[k]);
            if (temporary(g, s))
                p->items.at[p->item_of[s]].last = i;
        }
    }
    return WEIR_OK;
}

/* Do all inputs of n in the same item as value v view it exactly as v does, and is no output of n
 * in that item yet? */
static bool sole_view(const weir_graph *g, const weir_plan *p, const weir_node *n, uint32_t v)
{
    const uint32_t item = p->item_of[weir_storage_of(g, v)];

    for (int k = 0; k < n->nin; k++) {
        const uint32_t s = weir_storage_of(g, n->in[k]);
        if (temporary(g, s) && p->item_of[s] == item && !weir_view_equal(g, n->in[k], v))
            return false;
    }
    for (int k = 0; k < n->nout; k++) {
        const uint32_t s = weir_storage_of(g, n->out[k]);
        if (temporary(g, s) && p->item_of[s] == item)
            return false;           /* another output has taken over the memory */
    }
    return true;
}

static bool can_take_over(const weir_graph *g, const weir_plan *p, uint32_t i, uint32_t in,
                          uint32_t out)
{
    const weir_value *x = &g->values.at[in], *y = &g->values.at[out];

    return temporary(g, x->storage) && p->items.at[p->item_of[x->storage]].last == i &&
           x->offset == 0 && x->layout.desc.dtype == y->layout.desc.dtype &&
           weir_shape_equal(&x->layout.desc, &y->layout.desc) && weir_shape_is_dense(&x->layout) &&
           p->items.at[p->item_of[x->storage]].bytes == g->storages.at[y->storage].bytes &&
           sole_view(g, p, &g->nodes.at[i], in);
}

static void take_over(const weir_graph *g, weir_plan *p, uint32_t i)
{
    const weir_node *n = &g->nodes.at[i];
    const uint32_t   allowed = n->def->inplace;

    for (int o = 0; o < n->nout; o++) {
        const uint32_t out = weir_storage_of(g, n->out[o]);
        if (!temporary(g, out) || g->storages.at[out].bytes == 0 ||
            (o > 0 && n->op != WEIR_OP_FUSED))
            continue;
        for (int k = 0; k < n->nin; k++) {
            if (!(allowed >> k & 1) || !can_take_over(g, p, i, n->in[k], n->out[o]))
                continue;
            const uint32_t from = p->item_of[weir_storage_of(g, n->in[k])];
            weir_item     *gone = &p->items.at[p->item_of[out]];
            p->items.at[from].last = gone->last;
            gone->bytes = 0;
            gone->storage = WEIR_NONE;
            p->item_of[out] = from;
            break;
        }
    }
}

static bool add_workspaces(weir_plan *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const size_t    work = p->instr[i].kernel->work;
        const weir_item it = {.bytes = weir_guard_work(p->dev, work), .first = i, .last = i,
                              .storage = WEIR_NONE, .kind = WEIR_KIND_WORKSPACE};
        if (work == 0)
            continue;
        p->workspace = work > p->workspace ? work : p->workspace;
        p->instr[i].work_item = p->items.n;
        if (!weir_vec_push(&p->items, it))
            return false;
    }
    return true;
}

/* The wait for the collective that node i starts. */
static uint32_t wait_of(const weir_graph *g, uint32_t i)
{
    const uint32_t result = weir_storage_of(g, g->nodes.at[i].out[0]);
    uint32_t       k = i + 1;

    while (k + 1 < g->nodes.n && (g->nodes.at[k].op != WEIR_OP_ALL_REDUCE_WAIT ||
                                  weir_storage_of(g, g->nodes.at[k].in[0]) != result))
        k++;
    return k;
}

static void extend(weir_plan *p, uint32_t item, uint32_t last)
{
    p->items.at[item].last = last > p->items.at[item].last ? last : p->items.at[item].last;
}

/* A collective uses its operands and its window from its start to its wait, whether or not its
 * input has another reader. */
static void hold_collectives(const weir_graph *g, weir_plan *p)
{
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const weir_node *const n = &g->nodes.at[i];
        if (n->op != WEIR_OP_ALL_REDUCE_START)
            continue;
        const uint32_t wait = wait_of(g, i), in = weir_storage_of(g, n->in[0]);
        if (temporary(g, in))
            extend(p, p->item_of[in], wait);
        if (p->instr[i].kernel->work > 0)
            extend(p, p->instr[i].work_item, wait);
    }
}

weir_status weir_live_items(const weir_graph *g, weir_plan *p, bool inplace)
{
    p->item_of = weir_mem_alloc((g->storages.n + 1) * sizeof *p->item_of);
    if (!p->item_of)
        return WEIR_ERR_NOMEM;
    memset(p->item_of, 0xff, (g->storages.n + 1) * sizeof *p->item_of);
    WEIR_TRY(lifetimes(g, p));
    for (uint32_t i = 0; i < g->nodes.n && inplace; i++)
        take_over(g, p, i);
    if (!add_workspaces(p))
        return WEIR_ERR_NOMEM;
    hold_collectives(g, p);
    for (uint32_t i = 0; i < p->items.n; i++)
        if (!weir_guard_size(g->dev, p->items.at[i].bytes, &p->items.at[i].bytes))
            return weir_fail(WEIR_ERR_NOMEM,
                             "planning: a storage of %zu bytes is too large to align",
                             p->items.at[i].bytes);
    return WEIR_OK;
}
