/* intervals.h - records for every byte of an address space the time at which it becomes free.
 *
 * A segment tree with lazy assignment. Its leaves are the parts between neighbouring end points of
 * all byte ranges that a plan will ever use, which must be known beforehand. Each part holds the
 * time in seconds at which it becomes free; infinity while it is taken. Acquire and release take
 * O(log n) for n end points; the tree takes 36 n bytes. */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_INTERVALS_H
#define WEIR_GRAPH_MEMORY_PROBLEM_INTERVALS_H

#include "graph/memory/problem/mem_plan.h"

typedef struct weir_intervals {
    WEIR_VEC(size_t) ends;      /* end points in ascending order, without duplicates */
    double  *most;              /* [4 * ends] the latest time among the parts below a tree node */
    uint8_t *same;              /* [4 * ends] 1: all parts below the node have that time */
} weir_intervals;

/* Collects the byte ranges of the plan's steps. Returns false if memory runs out; the caller calls
 * weir_intervals_free in either case. */
bool weir_intervals_init(weir_intervals *s, const weir_mem_plan *a);
void weir_intervals_free(weir_intervals *s);

/* Takes the bytes. Returns the time at which their last owner has finished with them; infinity,
 * taking nothing, if some of them are not free. */
double weir_intervals_acquire(weir_intervals *s, size_t offset, size_t bytes);

/* Marks the bytes as free from `time` (seconds) on. */
void weir_intervals_release(weir_intervals *s, size_t offset, size_t bytes, double time);

#endif
