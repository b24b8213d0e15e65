/* value_ranges.h - which values of a recorded step provably fit into fewer bits. */
#ifndef WEIR_GRAPH_MEMORY_BUDGET_VALUE_RANGES_H
#define WEIR_GRAPH_MEMORY_BUDGET_VALUE_RANGES_H

#include "core/attr.h"
#include "graph/ir/graph.h"

/* Finds for each storage how it can be compressed: (*pack)[storage], with 0 bits if it cannot. If
 * g->lossy is set, f32 tensors that wait for the backward pass are rounded to that many bits. The
 * caller owns *pack. Returns WEIR_OK or ERR_NOMEM. */
weir_status weir_value_ranges_pack(const weir_graph *g, weir_pack_attr **pack);

#endif
