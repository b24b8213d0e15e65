/* bound.h - lower limits for every plan: extra seconds at a budget, and bytes whatever the time. */
#ifndef WEIR_GRAPH_MEMORY_BOUNDS_BOUND_H
#define WEIR_GRAPH_MEMORY_BOUNDS_BOUND_H

#include "graph/memory/bounds/mincut_bound.h"

typedef struct weir_bound {
    double   extra_seconds;  /* no plan within the budget has less extra time */
    size_t   feasible_bytes; /* no plan needs less memory, whatever its time */
    uint32_t op;             /* the op whose first run decides most of it */
} weir_bound;

/* All levers that plans for this problem have. */
weir_levers weir_levers_of(const weir_mem_problem *p);

/* Bounds for plans that keep the first runs in the problem's order, in bytes of tensors and
 * workspace (without `resident` and without gaps between addresses); extra_seconds is INFINITY
 * below feasible_bytes. levers: what plans may do besides dropping and recomputing; NULL: nothing.
 * ERR_NOMEM or WEIR_OK. */
weir_status weir_bound_of(const weir_mem_problem *p, size_t budget, const weir_levers *levers,
                          weir_bound *b);

/* The same in a tenth of the time, but lower: one moment, with tensors kept in part. */
weir_status weir_bound_quick(const weir_mem_problem *p, size_t budget, const weir_levers *levers,
                             weir_bound *b);

/* Bytes that some op needs by itself: quick to compute, and at most feasible_bytes. */
size_t weir_bound_floor(const weir_mem_problem *p, const weir_levers *levers);

/* Does some op by itself need more than the budget, whatever a plan does? */
bool weir_bound_excludes(const weir_mem_problem *p, size_t budget);

#endif
