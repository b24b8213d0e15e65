/* anneal.h - simulated annealing over the decisions of a step. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_ANNEAL_H
#define WEIR_GRAPH_MEMORY_SEARCH_ANNEAL_H

#include "graph/memory/search/search_state.h"

/* Tries `moves` changes, starting from the best plan of the line. False when memory is short. */
bool weir_search_anneal(weir_search_state *a, uint64_t moves);

#endif
