/* order.c - reorders the list of nodes for a small peak of live bytes.
 *
 * The heuristic and its count of live bytes are in core/deps.c. The recorded order stays if the new
 * one's peak is larger. If the peaks are equal, the new order is taken: it usually leaves more
 * space for workspaces, which the count does not include. The second run of a checkpoint stays
 * after the call recorded just before it: its inputs are available much earlier, but recomputing
 * before the gradient arrives would save nothing. */
#include <string.h>

#include "core/status.h"
#include "core/deps.h"
#include "graph/passes/passes.h"

typedef struct weir_order {
    weir_dep_list list;
    uint32_t      caller;   /* last node that runs the caller's code */
    uint32_t      segment;  /* number of the latest second run so far, */
    uint32_t      gate;     /* and the node before it, which all its nodes must follow */
} weir_order;

/* Second runs are numbered in recorded order: adds the edge from the gate to each of its nodes. */
static bool note_segment(weir_order *w, const weir_node *n, uint32_t i)
{
    if (n->segment > w->segment) {
        w->segment = n->segment;
        w->gate = i > 0 ? i - 1 : WEIR_NO_CALL;
    }
    return n->segment == 0 || n->segment != w->segment ||
           weir_dep_edge_to(&w->list, w->gate, i);
}

static bool make(weir_order *w, const weir_graph *g, uint32_t value)
{
    const weir_storage *s = weir_storage_at(g, value);
    return weir_dep_make(&w->list, weir_storage_of(g, value), s->external ? 0 : s->bytes);
}

static bool note_node(weir_order *w, const weir_graph *g, uint32_t i)
{
    const weir_node *n = &g->nodes.at[i];
    const uint32_t   mutates = n->def->mutates;
    bool             ok = weir_dep_call(&w->list);

    if (n->def->flags & WEIR_CALLER) {
        ok = ok && weir_dep_edge_to(&w->list, w->caller, i);
        w->caller = i;
    }
    ok = ok && note_segment(w, n, i);
    for (int k = 0; k < n->nin && ok; k++)
        ok = weir_dep_read(&w->list, weir_storage_of(g, n->in[k]));
    for (int k = 0; k < n->nin && ok; k++)
        if (mutates >> k & 1)
            ok = weir_dep_write(&w->list, weir_storage_of(g, n->in[k]));
    for (int k = 0; k < n->nout && ok; k++)
        ok = make(w, g, n->out[k]);
    return ok;
}

static bool note_all(weir_order *w, const weir_graph *g)
{
    bool ok = weir_dep_begin(&w->list, g->storages.n);

    for (uint32_t i = 0; i < g->nodes.n && ok; i++)
        ok = note_node(w, g, i);
    return ok;
}

weir_status weir_deps_of(const weir_graph *g, weir_deps *d)
{
    weir_order w = {.caller = WEIR_NO_CALL, .gate = WEIR_NO_CALL};

    *d = (weir_deps){0};
    const bool ok = note_all(&w, g) && weir_deps_of_list(&w.list, d);
    weir_dep_free(&w.list);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}

static bool apply_order(weir_graph *g, const uint32_t *order)
{
    weir_node *const nodes = weir_mem_alloc((g->nodes.n + 1) * sizeof *nodes);

    if (!nodes)
        return false;
    for (uint32_t i = 0; i < g->nodes.n; i++)
        nodes[i] = g->nodes.at[order[i]];
    if (g->nodes.n > 0)                 /* memcpy must not be given the NULL of an empty list */
        memcpy(g->nodes.at, nodes, g->nodes.n * sizeof *nodes);
    weir_mem_free(nodes);
    return true;
}

weir_status weir_pass_order(weir_graph *g)
{
    weir_order      w = {.caller = WEIR_NO_CALL, .gate = WEIR_NO_CALL};
    uint32_t *const order = weir_mem_alloc((g->nodes.n + 1) * sizeof *order);
    bool            better = false;

    const bool ok = order && note_all(&w, g) && weir_deps_order(&w.list, order, &better) &&
                    (!better || apply_order(g, order));
    weir_dep_free(&w.list);
    weir_mem_free(order);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}
