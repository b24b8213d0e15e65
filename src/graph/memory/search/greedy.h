/* greedy.h - evicts tensors one after another until a plan fits, and takes evictions back. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_GREEDY_H
#define WEIR_GRAPH_MEMORY_SEARCH_GREEDY_H

#include "graph/memory/search/search_state.h"

/* Continues from the current decisions: evicts tensors until the peak fits or nothing is left to
 * evict. `power` is the exponent of bytes in the score bytes^power / seconds. Returns false if
 * memory runs out. */
bool weir_search_greedy(weir_search_state *a, double power);

/* Takes evictions of the current plan back, the costliest first, while it stays within the budget
 * and takes no longer. Returns false if memory runs out. */
bool weir_search_restore(weir_search_state *a);

#endif
