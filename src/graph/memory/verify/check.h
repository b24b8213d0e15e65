/* check.h - is a plan correct? The checker replays it step by step and trusts nothing that a
 * planner computed. */
#ifndef WEIR_GRAPH_MEMORY_VERIFY_CHECK_H
#define WEIR_GRAPH_MEMORY_VERIFY_CHECK_H

#include "graph/memory/problem/mem_plan.h"

/* What the replay of a correct plan measured. */
typedef struct weir_check_result {
    size_t   live, height; /* bytes: the peak; the end of the highest range */
    uint32_t recomputed;   /* runs that were not the first of their op */
} weir_check_result;

/* WEIR_OK if every step finds what it reads, in a form that its reader accepts and in the right
 * version; updates run once; memory is taken over only where that is permitted; ranges that are
 * live together never overlap, lie in [0, limit) and are aligned; and everything is in its place at
 * the end. Otherwise a->status and a sentence, or ERR_NOMEM. live[i] (NULL: not wanted) gets the
 * bytes during step i. */
weir_status weir_mem_plan_check(const weir_mem_plan *a, weir_check_result *found, size_t *live);

/* The same for an ended, valid schedule, including what it claims itself: live ranges, live bytes,
 * peak. ERR_STATE and a sentence that begins with "internal: ". offsets NULL: without addresses. */
weir_status weir_schedule_check(const weir_schedule *s, const weir_offsets *offsets, size_t align,
                                size_t limit);

#endif
