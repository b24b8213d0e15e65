/* candidates.h - the ways in which a tensor may leave the device, and what each costs in
 * seconds. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_CANDIDATES_H
#define WEIR_GRAPH_MEMORY_SEARCH_CANDIDATES_H

#include "graph/memory/search/search_state.h"

/* Number of uses of the tensor before op `stage`: the gap that covers it. */
uint32_t weir_interval_at(const weir_mem_problem *p, uint32_t tensor, uint32_t stage);

/* Can the decision be made for gap j of the tensor at all, and is it allowed? */
bool weir_candidate_possible(const weir_search_state *a, uint32_t tensor, uint32_t j,
                             weir_decision d);

/* Has the gap been let go for good already? */
bool weir_candidate_evicted(const weir_search_state *a, uint32_t decisions, uint32_t tensor,
                            uint32_t j);

/* Seconds to make the tensor anew at the end of its gap; INFINITY where that is wrong by then. */
double   weir_recompute_cost(weir_search_state *a, uint32_t tensor, uint32_t j);

/* Seconds on the link to the host in the last walk. */
double   weir_link_load(const weir_search_state *a);

/* The cheapest way to let the tensor go in gap j, and its seconds; WEIR_KEEP if no way is allowed.
 * load: weir_link_load. */
weir_decision weir_candidate_cheapest(weir_search_state *a, uint32_t tensor, uint32_t j,
                                      double load, double *seconds);

#endif
