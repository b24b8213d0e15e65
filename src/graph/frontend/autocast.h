/* autocast.h - mixed precision: what a scope of weir_autocast_begin does to the inputs of calls.
 *
 * A definition says which inputs a product reads in half (lowers) and which must not be (raises);
 * nothing else is looked at. Casts are recorded, so gradients pass back through them into the
 * types they left. While gradients are made no scope is open: their calls have the types of the
 * forward ones. */
#ifndef WEIR_GRAPH_FRONTEND_AUTOCAST_H
#define WEIR_GRAPH_FRONTEND_AUTOCAST_H

#include "core/op.h"
#include "graph/ir/session.h"

/* The types that the inputs of a call are to be cast to, from what they are. */
void weir_autocast_types(const weir_session *s, const weir_opdef *def, int n, weir_dtype *type);

#endif
