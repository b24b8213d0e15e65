/* value_ranges.h - which values of a recorded step fit into fewer bits, for certain. */
#ifndef WEIR_GRAPH_MEMORY_BUDGET_VALUE_RANGES_H
#define WEIR_GRAPH_MEMORY_BUDGET_VALUE_RANGES_H

#include "core/attr.h"
#include "graph/ir/graph.h"

/* pack[store]: how the temporary storage is packed; bits 0: it cannot be, or nothing is gained.
 * Where g->lossy says so, what waits for the backward pass is rounded to as many bits.
 * *pack is the caller's. ERR_NOMEM. */
weir_status weir_value_ranges_pack(const weir_graph *g, weir_pack_attr **pack);

#endif
