/* bound.h - lower bounds for every plan: extra seconds within a budget, and bytes at any speed. */
#ifndef WEIR_GRAPH_MEMORY_BOUNDS_BOUND_H
#define WEIR_GRAPH_MEMORY_BOUNDS_BOUND_H

#include "graph/memory/bounds/mincut_bound.h"

typedef struct weir_bound {
    double   extra_seconds;  /* no plan within the budget has less extra time */
    size_t   feasible_bytes; /* no plan needs less memory, however slow */
    uint32_t op;             /* the op whose moment (mincut_bound.h) gave the best single bound */
} weir_bound;

/* Returns the levers that plans for this problem have besides recomputation. */
weir_levers weir_levers_of(const weir_mem_problem *p);

/* Computes both bounds over all plans that keep the first runs in the problem's order. Budget and
 * bytes are those of tensors and workspace, without `resident` and without gaps between addresses;
 * extra_seconds is INFINITY if the budget is below feasible_bytes. `levers` says what plans may do
 * besides dropping and recomputing tensors; NULL: nothing. Returns WEIR_OK or ERR_NOMEM. */
weir_status weir_bound_of(const weir_mem_problem *p, size_t budget, const weir_levers *levers,
                          weir_bound *b);

/* The same in about a tenth of the time, but weaker: only single moments, and fractions of tensors
 * may be kept. */
weir_status weir_bound_quick(const weir_mem_problem *p, size_t budget, const weir_levers *levers,
                             weir_bound *b);

/* Returns the bytes that the most demanding op needs by itself: fast, at most feasible_bytes. */
size_t weir_bound_floor(const weir_mem_problem *p, const weir_levers *levers);

/* Returns whether some op by itself needs more than the budget, so that no plan exists. */
bool weir_bound_excludes(const weir_mem_problem *p, size_t budget);

#endif
