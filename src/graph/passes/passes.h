/* passes.h - the passes between recording and planning; none of them changes a bit of any result.
 * Defined in simplify.c, idempotent.c, relu_sign_bits.c, remat_cast.c, fuse.c,
 * update_rows.c and order.c.
 *
 * Each pass rewrites g's nodes and values in place. It may assume the invariants that
 * weir_graph_check verifies and must preserve them, also where it fails with ERR_NOMEM. */
#ifndef WEIR_GRAPH_PASSES_PASSES_H
#define WEIR_GRAPH_PASSES_PASSES_H

#include "core/schedule/deps.h"
#include "graph/ir/graph.h"
#include "graph/ir/pass_set.h"

/* weir_pass_<name> of each row of pass_set.def. */
#define X(ID, id, text) weir_status weir_pass_##id(weir_graph *g);
WEIR_GRAPH_PASSES(X)
#undef X

/* Removes dead nodes from the list and frees their attributes; the others keep their order. Node
 * indices change. */
void weir_graph_compact(weir_graph *g);

/* Fills *d with the dependencies (read after write, write after read, write after write) between
 * nodes through every storage, external ones included, and between calls of the caller's code. The
 * caller frees it (weir_deps_free). Fails with ERR_NOMEM only. */
weir_status weir_deps_of(const weir_graph *g, weir_deps *d);

#endif
