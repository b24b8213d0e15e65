/* anneal.h - simulated annealing over the decisions of a step. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_ANNEAL_H
#define WEIR_GRAPH_MEMORY_SEARCH_ANNEAL_H

#include "graph/memory/search/search_state.h"

/* Tries `moves` random changes, starting from the best plan of the current line of search. Returns
 * false if memory runs out or the placer fails. */
bool weir_search_anneal(weir_search_state *a, uint64_t moves);

/* The same for a good plan at a link: colder; every round first offloads what costs nothing, and
 * bytes below the limit are worth something, so that savings too small to make room for a tensor
 * add up. */
bool weir_search_refine(weir_search_state *a, uint64_t moves);

#endif
