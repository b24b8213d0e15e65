/* candidates.h - the decisions that may evict a tensor over an interval, and an estimate of the
 * seconds that each costs. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_CANDIDATES_H
#define WEIR_GRAPH_MEMORY_SEARCH_CANDIDATES_H

#include "graph/memory/search/search_state.h"

/* Returns whether decision d is possible for interval j of the tensor and allowed by a->levers. */
bool weir_candidate_possible(const weir_search_state *a, uint32_t tensor, uint32_t j,
                             weir_decision d);

/* Returns whether the tensor is evicted over interval j already, so that no other decision saves
 * more. */
bool weir_candidate_evicted(const weir_search_state *a, uint32_t interval, uint32_t tensor,
                            uint32_t j);

/* Returns the seconds that it takes to recompute the tensor at the end of interval j, including the
 * evicted tensors that it depends on; INFINITY if some op must not run again by then. */
double   weir_recompute_cost(weir_search_state *a, uint32_t tensor, uint32_t j);

/* Returns the seconds of all offloads in the schedule that was lowered last. */
double   weir_link_load(const weir_search_state *a);

/* Returns the cheapest decision that evicts the tensor over interval j, with its estimated seconds
 * in *seconds; WEIR_KEEP if none is possible. `load` is weir_link_load(a). */
weir_decision weir_candidate_cheapest(weir_search_state *a, uint32_t tensor, uint32_t j,
                                      double load, double *seconds);

#endif
