/* anneal.h - simulated annealing over the decisions of a step. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_ANNEAL_H
#define WEIR_GRAPH_MEMORY_SEARCH_ANNEAL_H

#include "graph/memory/search/search_state.h"

/* Tries `moves` random changes, starting from the best plan of the current line of search. Returns
 * false if memory runs out or the placer fails. */
bool weir_search_anneal(weir_search_state *a, uint64_t moves);

#endif
