/* passes.h - the passes between recording and the plan; none of them changes a bit of any result.
 * Defined in simplify.c, idempotent.c, relu_sign_bits.c, remat_cast.c, fuse.c and order.c.
 *
 * Each works in place on g's nodes and values and marks nodes dead. ERR_NOMEM leaves a valid
 * graph. */
#ifndef WEIR_GRAPH_PASSES_PASSES_H
#define WEIR_GRAPH_PASSES_PASSES_H

#include "core/deps.h"
#include "graph/ir/graph.h"
#include "graph/ir/pass_set.h"

/* weir_pass_<name> of each row of pass_set.def. */
#define X(ID, id, text) weir_status weir_pass_##id(weir_graph *g);
WEIR_GRAPH_PASSES(X)
#undef X

/* Drops dead nodes from the list; the others keep their order. */
void weir_graph_compact(weir_graph *g);

/* Dependencies of the list through every storage, external ones included. The caller owns them. */
weir_status weir_deps_of(const weir_graph *g, weir_deps *d);

#endif
