/* from_graph.h - between a recorded graph and the planner: states the graph as a problem, and
 * applies a schedule to its nodes.
 * Defined in apply.c, from_graph.c and timing.c. */
#ifndef WEIR_GRAPH_MEMORY_BUDGET_FROM_GRAPH_H
#define WEIR_GRAPH_MEMORY_BUDGET_FROM_GRAPH_H

#include "graph/ir/graph.h"
#include "graph/memory/problem/schedule.h"

/* Measures the seconds of each node's kernel on zeros, in at most `limit` bytes; below 0: not
 * measured. The caller owns *seconds. */
weir_status weir_graph_time(const weir_graph *g, size_t limit, double **seconds);

/* Makes the graph's nodes ops and its temporary storages tensors. tensor_of[storage] is owned by
 * the caller (WEIR_NO_TENSOR: none). seconds[node]: measured times; NULL, or below 0: estimated
 * from flops and bytes. inplace: outputs may take over dying inputs. Parameters and states of at
 * least `movable` bytes are resident tensors; SIZE_MAX: none. */
weir_status weir_mem_problem_from_graph(const weir_graph *g, const double *seconds, bool inplace,
                                        size_t movable, weir_mem_problem *p, uint32_t **tensor_of);

/* weir_graph_apply replaces the graph's nodes by the events of a schedule; an op that runs again
 * becomes a copy of its node with its own storages. *old gets the old nodes, for
 * weir_graph_revert. */
typedef struct weir_revert_record {
    weir_node *nodes;
    uint32_t   n, cap, storages, values;
    uint64_t   rng;
} weir_revert_record;

weir_status weir_graph_apply(weir_graph *g, const weir_schedule *s, const uint32_t *tensor_of,
                             weir_revert_record *old);
void        weir_graph_revert(weir_graph *g, weir_revert_record *old);
/* Frees what nodes that were added own. */
void        weir_applied_nodes_free(weir_node *nodes, uint32_t n);
/* Frees what reverting would need: the schedule stays applied. */
void        weir_revert_record_free(weir_revert_record *old);

/* What a plan was made from, kept for the texts about it. `s` is a schedule for `p`. */
typedef struct weir_reasons {
    weir_ref         ref;
    weir_mem_problem p;
    weir_schedule    s;
    uint32_t        *tensor_of; /* [storages] before the schedule was applied */
    uint32_t         storages;
} weir_reasons;

/* New and empty, with one reference; NULL when memory is short. */
weir_reasons *weir_reasons_new(void);

/* Moves the three into the graph's plan and leaves the arguments empty. ERR_NOMEM. */
weir_status weir_reasons_keep(weir_graph *g, weir_mem_problem *p, weir_schedule *s,
                              uint32_t **tensor_of, uint32_t storages);

#endif
