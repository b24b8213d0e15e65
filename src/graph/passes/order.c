/* order.c - reorders the list of nodes for a small peak of the arena.
 *
 * core/schedule/call_order.c finds the order; here the nodes are listed for it: what they read,
 * write and make, which results may take over memory, and the workspaces of their kernels. The
 * second run of a checkpoint stays after the call recorded just before it: its inputs are available
 * much earlier, but recomputing before the gradient arrives would save nothing. In a graph with a
 * stop the first half stays before the second. */
#include <string.h>

#include "core/schedule/call_order.h"
#include "core/status.h"
#include "device/kernel.h"
#include "device/memory/guard.h"
#include "graph/passes/passes.h"
#include "graph/placement/placement.h"

typedef struct weir_order {
    weir_dep_list list;
    uint32_t      caller;   /* last node that runs the caller's code */
    uint32_t      segment;  /* number of the latest second run so far, */
    uint32_t      gate;     /* and the node before it, which all its nodes must follow */
    uint32_t      stop;     /* last node of the first half, which all others of it must precede and
                             * the second half must follow; WEIR_NO_CALL: none */
} weir_order;

static weir_order order_of(const weir_graph *g)
{
    weir_order w = {.caller = WEIR_NO_CALL, .gate = WEIR_NO_CALL, .stop = WEIR_NO_CALL};

    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i].half == WEIR_FIRST_HALF)
            w.stop = i;
    return w;
}

/* Adds the edges that keep the halves of a graph with a stop apart. */
static bool note_half(weir_order *w, uint32_t i)
{
    bool ok = true;

    if (w->stop == WEIR_NO_CALL || i < w->stop)
        return true;
    if (i > w->stop)
        return weir_dep_edge_to(&w->list, w->stop, i);
    for (uint32_t k = 0; k < i && ok; k++)
        ok = weir_dep_edge_to(&w->list, k, i);
    return ok;
}

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
    size_t              bytes = 0;

    if (!s->external && !weir_guard_size(g->dev, s->bytes, &bytes))
        bytes = s->bytes;       /* too large to align: planning fails later and says so */
    return weir_dep_make(&w->list, weir_storage_of(g, value), bytes);
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
    ok = ok && note_segment(w, n, i) && note_half(w, i);
    for (int k = 0; k < n->nin && ok; k++)
        ok = weir_dep_read(&w->list, weir_storage_of(g, n->in[k]));
    for (int k = 0; k < n->nin && ok; k++)
        if (mutates >> k & 1)
            ok = weir_dep_write(&w->list, weir_storage_of(g, n->in[k]));
    for (int k = 0; k < n->nout && ok; k++)
        ok = make(w, g, n->out[k]);
    return ok;
}

/* Lists which results of the node may be made in place. */
static bool note_pairs(weir_order *w, const weir_graph *g, const weir_node *n)
{
    bool ok = true;

    for (int o = 0; o < n->nout && ok; o++)
        for (int k = 0; k < n->nin && ok; k++)
            if (weir_may_take_over(g, n, k, o))
                ok = weir_dep_take_over(&w->list, weir_storage_of(g, n->in[k]),
                                        weir_storage_of(g, n->out[o]));
    return ok;
}

/* Lists the workspace of the node's kernel. */
static weir_status note_work(weir_order *w, const weir_graph *g, const weir_node *n)
{
    weir_layout        in[WEIR_EW_MAX_IN], out[WEIR_MAX_OUT];
    const weir_call    call = weir_node_call(g, n, in, out);
    const weir_kernel *kernel;
    size_t             bytes;

    WEIR_TRY(weir_kernel_of(g->dev, &call, &kernel));
    if (weir_guard_size(g->dev, weir_guard_work(g->dev, kernel->work), &bytes))
        weir_dep_work(&w->list, bytes);
    return WEIR_OK;
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
    weir_order w = order_of(g);

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

/* Lists all nodes with the bytes that a plan of these passes would count. */
static weir_status note_bytes(weir_order *w, const weir_graph *g)
{
    if (!weir_dep_begin(&w->list, g->storages.n))
        return WEIR_ERR_NOMEM;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const weir_node *n = &g->nodes.at[i];
        if (!note_node(w, g, i) || !note_pairs(w, g, n))
            return WEIR_ERR_NOMEM;
        WEIR_TRY(note_work(w, g, n));
    }
    return WEIR_OK;
}

/* What measures orders: they share the lists. */
typedef struct weir_order_placer {
    const weir_dep_list *list;
    weir_live_ranges     ranges;
    weir_items           items;
    weir_status          status;        /* the first failure */
} weir_order_placer;

static weir_status place_order(weir_order_placer *p, const uint32_t *order, size_t *height)
{
    const weir_placement_options quick = {.strategy = "life", .repairs = 8};
    weir_placement_result        placed;

    p->items.n = 0;
    if (!weir_deps_live_ranges(p->list, order, &p->ranges) ||
        !weir_vec_reserve(&p->items, p->ranges.n))
        return WEIR_ERR_NOMEM;
    for (uint32_t i = 0; i < p->ranges.n; i++) {
        const weir_range_of_bytes r = p->ranges.at[i];
        p->items.at[p->items.n++] = (weir_item){.bytes = r.bytes, .first = r.first, .last = r.last,
                                                .storage = i};
    }
    WEIR_TRY(weir_place_items(p->items.at, p->items.n, p->list->calls, &quick, &placed));
    *height = placed.height;
    return WEIR_OK;
}

/* The height of the arena that a quick placement of the order needs. */
static size_t height_of(void *context, const uint32_t *order, size_t peak)
{
    weir_order_placer *const p = context;
    size_t                   height = peak;

    if (p->status == WEIR_OK)
        p->status = place_order(p, order, &height);
    return height;
}

static weir_status find_order(const weir_dep_list *list, uint32_t *order)
{
    weir_order_placer        p = {.list = list};
    const weir_order_measure measure = {.height = height_of, .context = &p};
    const bool               ok = weir_deps_order(list, &measure, order);

    weir_vec_free(&p.ranges);
    weir_vec_free(&p.items);
    return ok ? p.status : WEIR_ERR_NOMEM;
}

weir_status weir_pass_order(weir_graph *g)
{
    weir_order      w = order_of(g);
    uint32_t *const order = weir_mem_alloc((g->nodes.n + 1) * sizeof *order);
    weir_status     status = order ? note_bytes(&w, g) : WEIR_ERR_NOMEM;

    if (status == WEIR_OK)
        status = find_order(&w.list, order);
    if (status == WEIR_OK && !apply_order(g, order))
        status = WEIR_ERR_NOMEM;
    weir_dep_free(&w.list);
    weir_mem_free(order);
    return status;
}
