/* greedy.h - lets tensors go one after another until a plan fits, and takes decisions back. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_GREEDY_H
#define WEIR_GRAPH_MEMORY_SEARCH_GREEDY_H

#include "graph/memory/search/search_state.h"

/* From the plan at hand: lets tensors go until the peak fits or none is left. power: of bytes
 * against seconds. False when memory is short. */
bool weir_search_greedy(weir_search_state *a, double power);

/* Takes decisions of the plan at hand back, the dearest first, while the budget holds. False when
 * memory is short. */
bool weir_search_restore(weir_search_state *a);

#endif
