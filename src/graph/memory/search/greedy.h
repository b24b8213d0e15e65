/* greedy.h - evicts tensors one after another until a plan fits, and reverts decisions. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_GREEDY_H
#define WEIR_GRAPH_MEMORY_SEARCH_GREEDY_H

#include "graph/memory/search/search_state.h"

/* From the current decisions: evicts tensors until the peak fits or nothing is left to evict.
 * power: the exponent of bytes against seconds. False when memory is short. */
bool weir_search_greedy(weir_search_state *a, double power);

/* Reverts decisions of the current plan, the costliest first, while it stays within the budget.
 * False when memory is short. */
bool weir_search_restore(weir_search_state *a);

#endif
