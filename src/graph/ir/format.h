/* format.h - what all texts about a graph share: names of operations, storages and layouts.
 *
 * Writers append to a string and only read the graph. A shortage of memory marks the string as
 * failed. */
#ifndef WEIR_GRAPH_IR_FORMAT_H
#define WEIR_GRAPH_IR_FORMAT_H

#include "core/text.h"
#include "graph/ir/graph.h"

/* The name of the op; a fused call is the chain of its rows, "bn_apply+add+relu", joined by
 * `plus`. */
void weir_format_op(weir_string *s, const weir_call *c, const char *plus);

/* A letter for the kind and the number of the storage: p3, s4, i0, o7, t45 (t: temporary). */
void weir_format_storage(weir_string *s, const weir_graph *g, uint32_t storage);

/* "f32(2,3)", and the strides in brackets if the layout is not dense. */
void weir_format_layout(weir_string *s, const weir_layout *l);

/* Pads with spaces up to `width` bytes from position `start`. */
void weir_format_pad(weir_string *s, size_t start, int width);

/* Does the call, or a row of its chain, draw random numbers? */
bool weir_call_draws(const weir_call *c);

/* a / b; 0 if b is 0. */
static inline double weir_format_ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

#endif
