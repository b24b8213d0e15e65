/* autocast.h - mixed precision: what a scope of weir_autocast_begin does to the inputs of calls.
 *
 * A definition says which inputs a product reads in half (autocast_half) and which must be f32
 * (autocast_f32); no other input is cast. Casts are recorded, so gradients flow back through them
 * into the original types. No scope is open while gradients are made: their calls have the types
 * of the forward ones. */
#ifndef WEIR_GRAPH_FRONTEND_AUTOCAST_H
#define WEIR_GRAPH_FRONTEND_AUTOCAST_H

#include "core/op.h"
#include "graph/ir/session.h"

/* Replaces the types of a call's inputs by those to which they are to be cast. */
void weir_autocast_types(const weir_session *s, const weir_opdef *def, int n, weir_dtype *type);

#endif
