/* candidates.h - the decisions that may evict a tensor over an interval, and the estimated cost of
 * each in seconds. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_CANDIDATES_H
#define WEIR_GRAPH_MEMORY_SEARCH_CANDIDATES_H

#include "graph/memory/search/search_state.h"

/* The interval of the tensor that spans op `stage`: its number of uses before that op. */
uint32_t weir_interval_at(const weir_mem_problem *p, uint32_t tensor, uint32_t stage);

/* Is the decision possible and allowed for interval j of the tensor? */
bool weir_candidate_possible(const weir_search_state *a, uint32_t tensor, uint32_t j,
                             weir_decision d);

/* Is the tensor evicted over interval j already, so that no further decision saves more? */
bool weir_candidate_evicted(const weir_search_state *a, uint32_t interval, uint32_t tensor,
                            uint32_t j);

/* Seconds to recompute the tensor at the end of interval j; INFINITY if it is too late by then. */
double   weir_recompute_cost(weir_search_state *a, uint32_t tensor, uint32_t j);

/* Seconds of offloads on the link in the schedule lowered last. */
double   weir_link_load(const weir_search_state *a);

/* The cheapest decision that evicts the tensor in interval j, and its seconds; WEIR_KEEP if no
 * other is allowed. load: weir_link_load. */
weir_decision weir_candidate_cheapest(weir_search_state *a, uint32_t tensor, uint32_t j,
                                      double load, double *seconds);

#endif
