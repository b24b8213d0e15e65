/* intervals.h - since when every byte of an address space is free.
 *
 * A tree over the ends of all ranges that will ever be asked for (a segment tree with lazy
 * assignment): every part of the space holds the time in seconds at which it becomes free, infinity
 * while it is taken. Acquiring and releasing take logarithmic time. */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_INTERVALS_H
#define WEIR_GRAPH_MEMORY_PROBLEM_INTERVALS_H

#include "graph/memory/problem/mem_plan.h"

typedef struct weir_intervals {
    WEIR_VEC(size_t) ends;      /* sorted, each once */
    double  *most;              /* [4 * ends] the latest time of a node's parts */
    uint8_t *same;              /* [4 * ends] all parts have this time */
} weir_intervals;

/* For the ranges of the plan's steps. False when memory is short; free it either way. */
bool weir_intervals_init(weir_intervals *s, const weir_mem_plan *a);
void weir_intervals_free(weir_intervals *s);

/* Takes the bytes and returns when their last owner is done with them; infinity if some are not
 * free. */
double weir_intervals_acquire(weir_intervals *s, size_t offset, size_t bytes);

/* Frees the bytes from `time` on. */
void weir_intervals_release(weir_intervals *s, size_t offset, size_t bytes, double time);

#endif
