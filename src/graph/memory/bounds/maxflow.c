/* maxflow.c - Dinic's algorithm ("Algorithm for solution of a problem of maximum flow in a network
 * with power estimation", 1970): breadth-first levels and a blocking flow along them, until the
 * sink is unreachable. Capacities are integers, so flow and cut are exactly equal. There is no
 * recursion, since paths are as long as the network is deep. */
#include "graph/memory/bounds/maxflow.h"
#include "graph/placement/progress.h"

#include <string.h>


#define NONE UINT32_MAX

bool weir_flow_begin(weir_flow *f)
{
    f->edges.n = f->first.n = 0;
    return weir_flow_node(f) && weir_flow_node(f);
}

bool weir_flow_node(weir_flow *f)
{
    return weir_vec_push(&f->first, NONE);
}

bool weir_flow_edge_add(weir_flow *f, uint32_t from, uint32_t to, int64_t capacity)
{
    if (!weir_vec_reserve(&f->edges, (uint64_t)f->edges.n + 2))
        return false;
    const uint32_t e = f->edges.n;
    f->edges.at[e] = (weir_flow_edge){to, f->first.at[from], capacity};
    f->first.at[from] = e;
    f->edges.at[e + 1] = (weir_flow_edge){from, f->first.at[to], 0};
    f->first.at[to] = e + 1;
    f->edges.n += 2;
    return true;
}

void weir_flow_free(weir_flow *f)
{
    weir_vec_free(&f->edges);
    weir_vec_free(&f->first);
    weir_vec_free(&f->scratch);
}

/* Computes the levels of all nodes that can be reached. Returns whether the sink is among them. */
static bool find_levels(weir_flow *f, uint32_t *queue)
{
    memset(f->level, 0xff, f->first.n * sizeof *f->level);
    f->level[0] = 0;
    queue[0] = 0;
    for (uint32_t head = 0, tail = 1; head < tail; head++)
        for (uint32_t e = f->first.at[queue[head]]; e != NONE; e = f->edges.at[e].next) {
            const weir_flow_edge *const g = &f->edges.at[e];
            if (g->residual == 0 || f->level[g->to] != NONE)
                continue;
            f->level[g->to] = f->level[queue[head]] + 1;
            queue[tail++] = g->to;
        }
    return f->level[1] != NONE;
}

/* Pushes as much flow as fits along path[0..n). Returns the length of the path up to the first edge
 * that is now full. */
static uint32_t push(weir_flow *f, const uint32_t *path, uint32_t n, int64_t *value)
{
    int64_t  most = INT64_MAX;
    uint32_t full = n;

    for (uint32_t i = 0; i < n; i++)
        if (f->edges.at[path[i]].residual < most)
            most = f->edges.at[path[i]].residual;
    for (uint32_t i = n; i-- > 0;) {
        f->edges.at[path[i]].residual -= most;
        f->edges.at[path[i] ^ 1].residual += most;
        if (f->edges.at[path[i]].residual == 0)
            full = i;
    }
    *value += most;
    return full;
}

/* Finds a blocking flow: depth first along rising levels, looking at each edge once. */
static void block(weir_flow *f, uint32_t *cursor, uint32_t *path, int64_t *value)
{
    uint32_t n = 0, at = 0;

    memcpy(cursor, f->first.at, f->first.n * sizeof *cursor);
    for (;;) {
        if (at == 1) {
            n = push(f, path, n, value);
            at = f->edges.at[path[n] ^ 1].to;
            continue;
        }
        uint32_t e = cursor[at];
        while (e != NONE &&
               (f->edges.at[e].residual == 0 || f->level[f->edges.at[e].to] != f->level[at] + 1))
            e = f->edges.at[e].next;
        cursor[at] = e;
        if (e != NONE) {
            path[n++] = e;
            at = f->edges.at[e].to;
        } else if (n == 0) {
            return;
        } else {                            /* a dead end: drop the edge that led to it */
            at = f->edges.at[path[--n] ^ 1].to;
            cursor[at] = f->edges.at[path[n]].next;
        }
    }
}

bool weir_flow_run(weir_flow *f, int64_t *value)
{
    const uint32_t n = f->first.n;

    if (!weir_vec_reserve(&f->scratch, 4 * (uint64_t)n))
        return false;
    f->level = f->scratch.at;
    *value = 0;
    while (find_levels(f, f->scratch.at + n)) {
        if (!weir_progress_poll())
            return false;
        block(f, f->scratch.at + 2 * (size_t)n, f->scratch.at + 3 * (size_t)n, value);
    }
    return true;
}
