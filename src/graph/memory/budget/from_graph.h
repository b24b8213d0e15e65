/* from_graph.h - the bridge between recorded graphs and the planner: states a graph as a problem
 * and applies a schedule to its nodes. Defined in apply.c, from_graph.c and timing.c. */
#ifndef WEIR_GRAPH_MEMORY_BUDGET_FROM_GRAPH_H
#define WEIR_GRAPH_MEMORY_BUDGET_FROM_GRAPH_H

#include "graph/ir/graph.h"
#include "graph/memory/problem/schedule.h"

/* Times the kernel of each node on zeros, with at most `limit` bytes. The caller owns *seconds
 * [nodes]; a negative entry was not measured. Returns ERR_NOMEM or a kernel's error. */
weir_status weir_graph_time(const weir_graph *g, size_t limit, double **seconds);

/* States the graph as problem *p: nodes become ops, temporary storages tensors. The caller owns *p
 * and *tensor_of [storages], which maps to tensors (WEIR_NO_TENSOR: none). seconds[node] are
 * measured times; where it is NULL or negative, times are estimated from flops and bytes. inplace:
 * outputs may take over dying inputs. Parameters and states of at least `movable` bytes become
 * resident tensors; SIZE_MAX: none do. Returns ERR_NOMEM, or an error of finding kernels, with both
 * results empty. */
weir_status weir_mem_problem_from_graph(const weir_graph *g, const double *seconds, bool inplace,
                                        size_t movable, weir_mem_problem *p, uint32_t **tensor_of);

/* Returns the bytes of the problem's resident tensors, which are parameters and states. */
size_t weir_mem_problem_resident_bytes(const weir_mem_problem *p);

/* weir_graph_apply replaces the graph's nodes by the events of a schedule; a repeated op becomes a
 * copy of its node with new storages. *old keeps the previous nodes for weir_graph_revert, which
 * restores them. After a failure the graph is unchanged. */
typedef struct weir_revert_record {
    weir_node *nodes;
    uint32_t   n, cap, storages, values;
    uint64_t   rng;
} weir_revert_record;

weir_status weir_graph_apply(weir_graph *g, const weir_schedule *s, const uint32_t *tensor_of,
                             weir_revert_record *old);
void        weir_graph_revert(weir_graph *g, weir_revert_record *old);

/* Frees the attributes owned by nodes that weir_graph_apply added. */
void        weir_applied_nodes_free(weir_node *nodes, uint32_t n);

/* Frees the previous nodes, so that the schedule stays applied. */
void        weir_revert_record_free(weir_revert_record *old);

/* What a plan was made from, kept for texts about it; `s` is a schedule for `p`. Reference
 * counted. */
typedef struct weir_reasons {
    weir_ref         ref;
    weir_mem_problem p;
    weir_schedule    s;
    /* the same step where parameters and states may be offloaded, for bounds that hold for all
     * plans; empty: p allows that already, or the device cannot */
    weir_mem_problem widest;
    uint32_t        *tensor_of; /* [storages] of the graph before the schedule was applied */
    uint32_t         storages;
} weir_reasons;

/* Returns an empty record with one reference; NULL if memory runs out. */
weir_reasons *weir_reasons_new(void);

/* Moves *p, *widest, *s and *tensor_of into the graph's plan and leaves the arguments empty.
 * Returns WEIR_OK, or ERR_NOMEM with nothing moved. */
weir_status weir_reasons_keep(weir_graph *g, weir_mem_problem *p, weir_mem_problem *widest,
                              weir_schedule *s, uint32_t **tensor_of, uint32_t storages);

/* Sets the speeds of copies of *p from the device's rates. */
void weir_mem_problem_set_rates(weir_mem_problem *p, weir_device *d);

/* States the graph as weir_mem_problem_from_graph does, with all parameters and states that a plan
 * may offload as resident tensors and the speeds of copies and compression of `p`, a problem of the
 * same graph. `whole`: bytes of the step without a budget. *widest stays empty if the device cannot
 * offload. Returns as that function does. */
weir_status weir_mem_problem_widen(const weir_graph *g, const double *seconds, bool inplace,
                                   size_t whole, const weir_mem_problem *p,
                                   weir_mem_problem *widest);

/* Returns the bytes from which on plans for a step of `whole` bytes offload a parameter or state;
 * copies of smaller ones would save too little. */
static inline size_t weir_least_movable(size_t whole)
{
    return whole / 1024 + 1;
}

#endif
