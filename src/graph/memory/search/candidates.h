/* candidates.h - the ways in which a piece may leave the device, and what each costs in seconds. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_CANDIDATES_H
#define WEIR_GRAPH_MEMORY_SEARCH_CANDIDATES_H

#include "graph/memory/search/search_state.h"

/* Number of uses of the piece before task `stage`: the gap that covers it. */
uint32_t weir_gap_at(const weir_problem *p, uint32_t piece, uint32_t stage);

/* Can the decision be made for gap j of the piece at all, and is it allowed? */
bool     weir_way_possible(const weir_searcher *a, uint32_t piece, uint32_t j, weir_gap d);

/* Has the gap been let go for good already? */
bool     weir_way_gone(const weir_searcher *a, uint32_t gap, uint32_t piece, uint32_t j);

/* Seconds to make the piece anew at the end of its gap; INFINITY where that is wrong by then. */
double   weir_drop_cost(weir_searcher *a, uint32_t piece, uint32_t j);

/* Seconds on the link to the host in the last walk. */
double   weir_link_load(const weir_searcher *a);

/* The cheapest way to let the piece go in gap j, and its seconds; WEIR_KEEP if no way is allowed.
 * load: weir_link_load. */
weir_gap weir_way_cheapest(weir_searcher *a, uint32_t piece, uint32_t j, double load,
                           double *seconds);

#endif
