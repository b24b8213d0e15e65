/* gap_fit.h - the greedy orders, tried one after another. */
#ifndef WEIR_GRAPH_PLACEMENT_GAP_FIT_H
#define WEIR_GRAPH_PLACEMENT_GAP_FIT_H

#include "graph/placement/placer.h"

/* Tries the orders of placements.def in their turn until one is low enough. Returns WEIR_OK or
 * ERR_NOMEM. */
weir_status weir_place_orders(weir_placer *p);

#endif
