/* autocast.h - mixed precision: the casts that a scope of weir_autocast_begin adds to calls
 * (Micikevicius et al., "Mixed precision training", ICLR 2018).
 *
 * The op's definition says which inputs are cast to the half type (autocast_half) and which halves
 * to f32 (autocast_f32); other inputs are not cast. Casts are recorded calls, so gradients flow
 * back through them into the original types. Calls of gradients are not cast: they have the types
 * of the forward calls. */
#ifndef WEIR_GRAPH_FRONTEND_AUTOCAST_H
#define WEIR_GRAPH_FRONTEND_AUTOCAST_H

#include "core/op.h"
#include "graph/ir/session.h"

/* Replaces type[n], the types of a call's inputs, by the types to which they must be cast. */
void weir_autocast_types(const weir_session *s, const weir_opdef *def, int n, weir_dtype *type);

#endif
