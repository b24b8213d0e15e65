/* from_graph.h - between a recorded graph and the planner: the graph as a problem, decisions as
 * nodes of the graph.
 * Defined in apply.c, from_graph.c and timing.c. */
#ifndef WEIR_GRAPH_MEMORY_BUDGET_FROM_GRAPH_H
#define WEIR_GRAPH_MEMORY_BUDGET_FROM_GRAPH_H

#include "graph/ir/graph.h"
#include "graph/memory/problem/schedule.h"

/* Seconds of each node's kernel, run on zeros in at most `room` bytes; below 0 where it was not
 * measured. *seconds is the caller's. */
weir_status weir_graph_time(const weir_graph *g, size_t limit, double **seconds);

/* The graph's nodes as ops, its temporary storages as tensors: tensor_of[store] (owned by the
 * caller, WEIR_NO_TENSOR for others). seconds[node]: measured times; NULL, or below 0:
 * estimated from flops and bytes. inplace: results may take over dying inputs. Parameters and
 * states of at least `movable` bytes are resident tensors; SIZE_MAX: none. */
weir_status weir_mem_problem_from_graph(const weir_graph *g, const double *seconds, bool inplace,
                                        size_t movable, weir_mem_problem *p, uint32_t **tensor_of);

/* Replaces the graph's nodes by the runs of a schedule: an op that runs again becomes a copy of
 * its node with storages of its own. *old gets the nodes as they were, for weir_graph_revert. */
typedef struct weir_revert_record {
    weir_node *nodes;
    uint32_t   n, cap, storages, values;
    uint64_t   rng;
} weir_revert_record;

weir_status weir_graph_apply(weir_graph *g, const weir_schedule *s, const uint32_t *tensor_of,
                             weir_revert_record *old);
void        weir_graph_revert(weir_graph *g, weir_revert_record *old);
/* Frees what nodes of an expansion have for themselves. */
void        weir_applied_nodes_free(weir_node *nodes, uint32_t n);
/* Frees what unexpand would need: the expansion stays. */
void        weir_revert_record_free(weir_revert_record *old);

/* What a plan was expanded from, kept for the texts about it. `s` speaks of `p`. */
typedef struct weir_reasons {
    weir_ref         ref;
    weir_mem_problem p;
    weir_schedule    s;
    uint32_t        *tensor_of; /* [stores] as they were */
    uint32_t         storages;
} weir_reasons;

/* Empty, one reference; NULL when memory is short. */
weir_reasons *weir_reasons_new(void);

/* Moves the three into the graph's plan (those given are empty then); ERR_NOMEM. */
weir_status weir_reasons_keep(weir_graph *g, weir_mem_problem *p, weir_schedule *s,
                              uint32_t **tensor_of, uint32_t storages);

#endif
