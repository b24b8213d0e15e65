/* articulation.c - articulation points by depth-first search (Hopcroft and Tarjan, "Algorithm 447:
 * efficient algorithms for graph manipulation", Communications of the ACM, 1973), with an explicit
 * stack, since graphs may be deep.
 *
 * Vertices: ops have numbers 0 to ops.n - 1, tensors follow. A vertex other than the root of its
 * search separates a child from the rest if nothing below the child reaches above the vertex; the
 * root does so if it has two children. */
#include "graph/memory/search/articulation.h"

typedef struct weir_vertex {
    uint32_t number, low;       /* order of discovery from 1 (0: not yet); lowest number reached */
    uint32_t parent, next;      /* next: number of the neighbour to look at */
} weir_vertex;

typedef struct weir_dfs {
    const weir_mem_problem *p;
    weir_vertex            *at;
    uint8_t                *is_articulation;
    uint32_t                clock;
} weir_dfs;

static bool in_graph(const weir_mem_problem *p, uint32_t v)
{
    const uint32_t op = v < p->ops.n ? v : p->tensors.at[v - p->ops.n].producer;
    return op != WEIR_NO_OP && p->ops.at[op].phase == WEIR_FORWARD;
}

/* Returns neighbour number i of v; WEIR_NO_OP: there are no more. */
static uint32_t neighbour(const weir_mem_problem *p, uint32_t v, uint32_t i)
{
    if (v >= p->ops.n) {
        const weir_mem_tensor *k = &p->tensors.at[v - p->ops.n];
        return i == 0 ? k->producer : i <= k->uses.n ? weir_refs(p, k->uses)[i - 1] : WEIR_NO_OP;
    }
    const weir_mem_op *t = &p->ops.at[v];
    if (i < t->in.n)
        return p->ops.n + weir_refs(p, t->in)[i];
    return i < t->in.n + t->out.n ? p->ops.n + weir_refs(p, t->out)[i - t->in.n] : WEIR_NO_OP;
}

static void discover(weir_dfs *d, uint32_t v, uint32_t parent)
{
    d->clock++;
    d->at[v] = (weir_vertex){d->clock, d->clock, parent, 0};
}

/* Finishes v: tells its parent how far up v reaches. */
static void leave(weir_dfs *d, uint32_t v, uint32_t root, uint32_t *children)
{
    const uint32_t     parent = d->at[v].parent;
    weir_vertex *const up = &d->at[parent];

    up->low = d->at[v].low < up->low ? d->at[v].low : up->low;
    *children += parent == root;
    const bool separates = parent == root ? *children > 1 : d->at[v].low >= up->number;
    if (separates && parent >= d->p->ops.n)
        d->is_articulation[parent - d->p->ops.n] = 1;
}

static void search_from(weir_dfs *d, uint32_t root)
{
    uint32_t v = root, children = 0;

    discover(d, root, root);
    for (;;) {
        const uint32_t to = neighbour(d->p, v, d->at[v].next++);
        if (to == WEIR_NO_OP && v == root)
            return;
        if (to == WEIR_NO_OP) {
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

bool weir_articulation(const weir_mem_problem *p, uint8_t *is_articulation)
{
    const uint32_t n = p->ops.n + p->tensors.n;
    weir_dfs       d = {.p = p, .is_articulation = is_articulation,
                        .at = weir_mem_zalloc(n + 1u, sizeof *d.at)};

    for (uint32_t k = 0; k < p->tensors.n; k++)
        is_articulation[k] = 0;
    for (uint32_t v = 0; d.at && v < n; v++)
        if (in_graph(p, v) && !d.at[v].number)
            search_from(&d, v);
    const bool ok = d.at != NULL;
    weir_mem_free(d.at);
    return ok;
}
