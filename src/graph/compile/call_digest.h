/* call_digest.h - a number for each call of a recording, the same in all processes that record the
 * same calls. */
#ifndef WEIR_GRAPH_COMPILE_CALL_DIGEST_H
#define WEIR_GRAPH_COMPILE_CALL_DIGEST_H

#include "core/text.h"
#include "device/collective.h"
#include "graph/ir/graph.h"

typedef struct weir_call_digest {
    uint64_t digest;
    uint32_t node;
} weir_call_digest;

/* The calls of a recording, in order; owned. */
typedef struct weir_call_digests {
    WEIR_VEC(weir_call_digest) calls;
    uint64_t                   all;     /* of the whole list */
} weir_call_digests;

/* Is the call a collective that all ranks of a communicator take part in? */
bool weir_is_of_all_ranks(const weir_node *n);

/* Digests all calls: operation, attributes without addresses, layouts, and which earlier results
 * they read. only: not NULL: the collectives of all its ranks alone, by kind, attributes and
 * layouts. ERR_NOMEM. Free the list even then. */
weir_status weir_call_digests_make(weir_call_digests *d, const weir_graph *g,
                                   const weir_comm *only);
void        weir_call_digests_free(weir_call_digests *d);

/* Appends "matmul fc1/matmul: f32(4,10), f32(10,8) -> f32(4,8)". */
void weir_call_digest_text(weir_string *s, const weir_graph *g, uint32_t node);

#endif
