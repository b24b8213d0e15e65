/* value_ranges.h - which values of a recorded step provably fit into fewer bits. */
#ifndef WEIR_GRAPH_MEMORY_BUDGET_VALUE_RANGES_H
#define WEIR_GRAPH_MEMORY_BUDGET_VALUE_RANGES_H

#include "core/attr.h"
#include "graph/ir/graph.h"

/* pack[storage]: how the temporary storage is compressed; bits 0: not at all. If g->lossy is set,
 * what waits for the backward pass is rounded to that many bits. The caller owns *pack.
 * ERR_NOMEM. */
weir_status weir_value_ranges_pack(const weir_graph *g, weir_pack_attr **pack);

#endif
