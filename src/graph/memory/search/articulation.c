/* articulation.c - articulation points by depth-first search (Hopcroft and Tarjan, "Efficient
 * algorithms for graph manipulation", 1973), with a stack of its own: graphs may be deep.
 *
 * Vertices: forward tasks 0 .. tasks, then pieces. A vertex that is not the first of its search
 * separates a child from the rest if nothing below that child reaches above the vertex. */
#include "graph/memory/search/articulation.h"

typedef struct weir_vertex {
    uint32_t number, low;       /* order of discovery from 1 (0: not yet), the earliest reached */
    uint32_t parent, next;      /* next: neighbour to look at */
} weir_vertex;

typedef struct weir_dfs {
    const weir_problem *p;
    weir_vertex        *at;
    uint8_t            *cut;
    uint32_t            clock;
} weir_dfs;

static bool in_graph(const weir_problem *p, uint32_t v)
{
    const uint32_t task = v < p->tasks.n ? v : p->pieces.at[v - p->tasks.n].maker;
    return task != WEIR_NO_TASK && p->tasks.at[task].phase == WEIR_FORWARD;
}

/* Neighbour number i of v; WEIR_NO_TASK: there are no more. */
static uint32_t neighbour(const weir_problem *p, uint32_t v, uint32_t i)
{
    if (v >= p->tasks.n) {
        const weir_piece *k = &p->pieces.at[v - p->tasks.n];
        return i == 0 ? k->maker : i <= k->uses.n ? weir_refs(p, k->uses)[i - 1] : WEIR_NO_TASK;
    }
    const weir_task *t = &p->tasks.at[v];
    if (i < t->in.n)
        return p->tasks.n + weir_refs(p, t->in)[i];
    return i < t->in.n + t->out.n ? p->tasks.n + weir_refs(p, t->out)[i - t->in.n] : WEIR_NO_TASK;
}

static void discover(weir_dfs *d, uint32_t v, uint32_t parent)
{
    d->clock++;
    d->at[v] = (weir_vertex){d->clock, d->clock, parent, 0};
}

/* v is done: its parent learns how far up it reaches. */
static void leave(weir_dfs *d, uint32_t v, uint32_t root, uint32_t *children)
{
    const uint32_t     parent = d->at[v].parent;
    weir_vertex *const up = &d->at[parent];

    up->low = d->at[v].low < up->low ? d->at[v].low : up->low;
    *children += parent == root;
    const bool separates = parent == root ? *children > 1 : d->at[v].low >= up->number;
    if (separates && parent >= d->p->tasks.n)
        d->cut[parent - d->p->tasks.n] = 1;
}

static void search_from(weir_dfs *d, uint32_t root)
{
    uint32_t v = root, children = 0;

    discover(d, root, root);
    for (;;) {
        const uint32_t to = neighbour(d->p, v, d->at[v].next++);
        if (to == WEIR_NO_TASK && v == root)
            return;
        if (to == WEIR_NO_TASK) {
            leave(d, v, root, &children);
            v = d->at[v].parent;
        } else if (in_graph(d->p, to) && !d->at[to].number) {
            discover(d, to, v);
            v = to;
        } else if (in_graph(d->p, to) && to != d->at[v].parent && d->at[to].number < d->at[v].low) {
            d->at[v].low = d->at[to].number;
        }
    }
}

bool weir_articulation(const weir_problem *p, uint8_t *cut)
{
    const uint32_t n = p->tasks.n + p->pieces.n;
    weir_dfs       d = {.p = p, .cut = cut, .at = weir_mem_zalloc(n + 1u, sizeof *d.at)};

    for (uint32_t k = 0; k < p->pieces.n; k++)
        cut[k] = 0;
    for (uint32_t v = 0; d.at && v < n; v++)
        if (in_graph(p, v) && !d.at[v].number)
            search_from(&d, v);
    const bool ok = d.at != NULL;
    weir_mem_free(d.at);
    return ok;
}
