/* maxflow.h - the maximum flow through a directed graph, and the minimum cut of the same value. */
#ifndef WEIR_GRAPH_MEMORY_BOUNDS_MAXFLOW_H
#define WEIR_GRAPH_MEMORY_BOUNDS_MAXFLOW_H

#include "core/vec.h"

/* a capacity so large that no minimum cut contains the edge */
#define WEIR_FLOW_MOST (INT64_MAX / 4)

typedef struct weir_flow_edge {
    uint32_t to, next; /* next: the next edge that leaves the same node */
    int64_t  residual; /* capacity that is left */
} weir_flow_edge;

typedef struct weir_flow {
    WEIR_VEC(weir_flow_edge) edges;   /* edge number e is at 2 e, its reverse at 2 e + 1 */
    WEIR_VEC(uint32_t)       first;   /* [nodes] first edge that leaves the node */
    WEIR_VEC(uint32_t)       scratch; /* levels, cursors, queue and path of a run */
    uint32_t                *level;   /* [nodes] after a run: UINT32_MAX on the sink's side */
} weir_flow;

/* Build a graph. Node 0 is the source, node 1 the sink; nodes and edges are numbered in the order
 * in which they are added. All return false if memory runs out. */
bool weir_flow_begin(weir_flow *f);                 /* drops an earlier graph */
bool weir_flow_node(weir_flow *f);
bool weir_flow_edge_add(weir_flow *f, uint32_t from, uint32_t to, int64_t capacity);
void weir_flow_free(weir_flow *f);

/* Sets the capacity of edge number `edge` and clears its flow. */
static inline void weir_flow_set(weir_flow *f, uint32_t edge, int64_t capacity)
{
    f->edges.at[2 * edge].residual = capacity;
    f->edges.at[2 * edge + 1].residual = 0;
}

/* Computes the maximum flow into *value; no edge may carry flow before. The capacities that leave
 * the source, or those that enter the sink, must add up to less than 2^63. Returns false if memory
 * runs out. Takes O(nodes^2 edges) at worst, far less on the planner's shallow graphs. */
bool weir_flow_run(weir_flow *f, int64_t *value);

/* After a run: returns whether the node is on the sink's side of the minimum cut that is nearest
 * the source. */
static inline bool weir_flow_far(const weir_flow *f, uint32_t node)
{
    return f->level[node] == UINT32_MAX;
}

#endif
