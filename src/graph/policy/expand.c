/* expand.c - decisions become nodes: what runs again is a copy of its node.
 *
 * A copy writes storages of its own and draws the same random numbers (its position in the stream
 * is that of the node). From then on every reader of the piece reads the copy's storage. Nothing
 * after this knows of budgets: lifetimes, places and instructions come from the longer list. */
#include <string.h>

#include "core/status.h"
#include "graph/policy/recorded.h"

typedef struct weir_expander {
    weir_graph           *g;
    const weir_schedule  *s;
    const uint32_t       *piece_of;
    uint32_t             *store_of_life;    /* [lives] */
    WEIR_VEC(weir_node) nodes;
} weir_expander;

/* The piece's life among an event's inputs or outputs. */
static uint32_t life_of(const weir_expander *x, uint32_t event, uint32_t piece, bool output)
{
    uint32_t        nin, nout;
    const uint32_t *life = weir_schedule_refs(x->s, event, &nin, &nout) + (output ? nin : 0);
    uint32_t        i = 0;

    nin = output ? nout : nin;
    while (i + 1 < nin && x->s->lives.at[life[i]].piece != piece)
        i++;
    return life[i];
}

/* The same view of another storage. */
static uint32_t view_in(weir_graph *g, uint32_t value, uint32_t store)
{
    const weir_layout layout = g->values.at[value].layout;
    return weir_graph_value_of(g, store, &layout, g->values.at[value].offset);
}

static weir_status map_inputs(weir_expander *x, uint32_t event, weir_node *n)
{
    for (int k = 0; k < n->nin; k++) {
        const uint32_t piece = x->piece_of[weir_store_of(x->g, n->in[k])];
        if (piece == WEIR_NO_PIECE)
            continue;
        const uint32_t store = x->store_of_life[life_of(x, event, piece, false)];
        if (store == weir_store_of(x->g, n->in[k]))
            continue;
        n->in[k] = view_in(x->g, n->in[k], store);
        if (n->in[k] == WEIR_NONE)
            return WEIR_ERR_NOMEM;
    }
    return WEIR_OK;
}

/* Storages of the event's results: their own at the first run, new ones when it runs again - also
 * in place of outputs that live outside, which have been written. */
static weir_status map_outputs(weir_expander *x, uint32_t event, weir_node *n, bool again)
{
    for (int k = 0; k < n->nout; k++) {
        const uint32_t old = weir_store_of(x->g, n->out[k]), piece = x->piece_of[old];
        uint32_t       store = old;
        if (again) {
            const weir_kind kind = x->g->stores.at[old].external ? WEIR_KIND_ACTIVATION
                                                                 : x->g->stores.at[old].kind;
            store = weir_graph_store_new(x->g, x->g->stores.at[old].bytes, kind);
            if (store == WEIR_NONE)
                return WEIR_ERR_NOMEM;
            n->out[k] = view_in(x->g, n->out[k], store);
            if (n->out[k] == WEIR_NONE)
                return WEIR_ERR_NOMEM;
        }
        if (piece != WEIR_NO_PIECE)
            x->store_of_life[life_of(x, event, piece, true)] = store;
    }
    return WEIR_OK;
}

static weir_status add_event(weir_expander *x, uint32_t event)
{
    const weir_event e = x->s->events.at[event];
    weir_node        n = x->g->nodes.at[e.what];

    if (e.again && n.attr_bytes) {
        n.attr = weir_mem_alloc(n.attr_bytes);
        if (!n.attr)
            return WEIR_ERR_NOMEM;
        memcpy(n.attr, x->g->nodes.at[e.what].attr, n.attr_bytes);
    }
    n.again = e.again;
    if (!weir_vec_push(&x->nodes, n)) {
        if (e.again)
            weir_mem_free(n.attr);
        return WEIR_ERR_NOMEM;
    }
    weir_node *const added = &x->nodes.at[x->nodes.n - 1];
    WEIR_TRY(map_inputs(x, event, added));
    return map_outputs(x, event, added, e.again);
}

static void drop_copies(weir_node *nodes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (nodes[i].again)
            weir_mem_free(nodes[i].attr);
}

/* New storages and values lie behind the old ones; no old list of views has got one of them. */
static void forget_new(weir_graph *g, const weir_unexpanded *old)
{
    g->stores.n = old->stores;
    g->values.n = old->values;
}

weir_status weir_graph_expand(weir_graph *g, const weir_schedule *s, const uint32_t *piece_of,
                              weir_unexpanded *old)
{
    weir_expander x = {.g = g, .s = s, .piece_of = piece_of};
    weir_status   status = WEIR_OK;

    *old = (weir_unexpanded){.stores = g->stores.n, .values = g->values.n};
    x.store_of_life = weir_mem_alloc(((size_t)s->lives.n + 1) * sizeof *x.store_of_life);
    if (!x.store_of_life)
        return WEIR_ERR_NOMEM;
    for (uint32_t e = 0; e < s->events.n && status == WEIR_OK; e++)
        status = add_event(&x, e);
    weir_mem_free(x.store_of_life);
    if (status != WEIR_OK) {
        drop_copies(x.nodes.at, x.nodes.n);
        weir_vec_free(&x.nodes);
        forget_new(g, old);
        return status;
    }
    old->nodes = g->nodes.at;
    old->n = g->nodes.n;
    old->cap = g->nodes.cap;
    g->nodes.at = x.nodes.at;
    g->nodes.n = x.nodes.n;
    g->nodes.cap = x.nodes.cap;
    return WEIR_OK;
}

void weir_graph_unexpand(weir_graph *g, weir_unexpanded *old)
{
    if (!old->nodes)
        return;
    drop_copies(g->nodes.at, g->nodes.n);
    weir_mem_free(g->nodes.at);
    g->nodes.at = old->nodes;
    g->nodes.n = old->n;
    g->nodes.cap = old->cap;
    forget_new(g, old);
    *old = (weir_unexpanded){0};
}

void weir_unexpanded_free(weir_unexpanded *old)
{
    weir_mem_free(old->nodes);
    *old = (weir_unexpanded){0};
}
