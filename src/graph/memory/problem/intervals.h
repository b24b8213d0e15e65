/* intervals.h - who may have which bytes, and since when: ranges that are taken and given back.
 *
 * A tree over the ends of all ranges that will ever be asked for (an interval tree with lazy
 * assignment): every part of the space holds the time from which on it is quiet, infinity while it
 * is taken. Both calls take logarithmic time. */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_INTERVALS_H
#define WEIR_GRAPH_MEMORY_PROBLEM_INTERVALS_H

#include "graph/memory/problem/mem_plan.h"

typedef struct weir_intervals {
    WEIR_VEC(size_t) ends;      /* sorted, each once */
    double  *most;              /* [4 * ends] the latest time of a node's parts */
    uint8_t *same;              /* all of them have it */
} weir_intervals;

/* For the ranges of those actions; false when memory is short. Free it, also then. */
bool weir_intervals_init(weir_intervals *s, const weir_mem_plan *a);
void weir_intervals_free(weir_intervals *s);

/* The time at which the last owner of any of the bytes is done with it, infinity: they are not all
 * free. They are taken then. */
double weir_intervals_acquire(weir_intervals *s, size_t offset, size_t bytes);

/* From `time` on nobody touches them any more. */
void weir_intervals_release(weir_intervals *s, size_t offset, size_t bytes, double time);

#endif
