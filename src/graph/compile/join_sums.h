/* join_sums.h - sums over ranks that become one message: a concatenation of the operands, one
 * all_reduce, and views of its result. */
#ifndef WEIR_GRAPH_COMPILE_JOIN_SUMS_H
#define WEIR_GRAPH_COMPILE_JOIN_SUMS_H

#include "graph/compile/bucket_cuts.h"
#include "graph/ir/graph.h"

typedef WEIR_VEC(weir_bucket_sum) weir_bucket_sums;

/* Lists the all_reduces of the communicator that may be joined, in the order of the nodes. `ready`
 * is when they would start if no collective took time. A sum must begin a bucket that depends on an
 * earlier one, or that another call of the caller's code or another type separates from it.
 * ERR_NOMEM. */
weir_status weir_sums_find(const weir_graph *g, const weir_comm *c, weir_bucket_sums *sums);

/* The graph before its sums were joined. */
typedef struct weir_sums_before {
    weir_node  *nodes;
    weir_value *values;
    uint32_t   *first;          /* [storages] weir_storage.values */
    uint32_t    n, cap, n_values, n_storages;
    WEIR_VEC(void *) made;      /* attributes of new nodes */
    WEIR_VEC(void *) gone;      /* of nodes that the new ones replace */
} weir_sums_before;

/* Joins each bucket of two sums or more where its last sum stood; what reads a sum and stood before
 * that follows. Bits stay the same. The graph must have no plan. *before takes what undoes it.
 * After ERR_NOMEM the graph is unchanged and *before empty. */
weir_status weir_sums_join(weir_graph *g, const weir_bucket_sums *sums, const bool *ends,
                           weir_sums_before *before);

/* Restores the graph, or keeps it as it is. */
void weir_sums_part(weir_graph *g, weir_sums_before *before);
void weir_sums_keep(weir_sums_before *before);

#endif
