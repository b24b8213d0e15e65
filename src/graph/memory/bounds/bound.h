/* bound.h - what no plan can do better: extra time at a budget, bytes at all. */
#ifndef WEIR_GRAPH_MEMORY_BOUNDS_BOUND_H
#define WEIR_GRAPH_MEMORY_BOUNDS_BOUND_H

#include "graph/memory/bounds/mincut_bound.h"

typedef struct weir_bound {
    double   extra_seconds;  /* every plan within the budget takes longer by so much */
    size_t   feasible_bytes; /* every plan needs so many, whatever it costs */
    uint32_t op;             /* the first run that by itself asks for most of it */
} weir_bound;

/* All that plans for this problem may do. */
weir_levers weir_levers_of(const weir_mem_problem *p);

/* Bounds for plans of first runs in the problem's order, by tensors and workspace (no `resident`,
 * no gaps between addresses); extra_seconds is INFINITY below feasible_bytes. levers: what plans
 * may do besides dropping and running again; NULL: nothing. ERR_NOMEM, or WEIR_OK. */
weir_status weir_bound_of(const weir_mem_problem *p, size_t budget, const weir_levers *levers,
                          weir_bound *b);

/* Likewise, in a tenth of the time and lower: one moment, with tensors kept in part. */
weir_status weir_bound_quick(const weir_mem_problem *p, size_t budget, const weir_levers *levers,
                             weir_bound *b);

/* Bytes that some op needs by itself: cheap, and at most feasible_bytes. */
size_t weir_bound_floor(const weir_mem_problem *p, const weir_levers *levers);

#endif
