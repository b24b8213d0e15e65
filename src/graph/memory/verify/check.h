/* check.h - is a plan right? Replayed action by action; nothing that a planner computed is
 * believed. */
#ifndef WEIR_GRAPH_MEMORY_VERIFY_CHECK_H
#define WEIR_GRAPH_MEMORY_VERIFY_CHECK_H

#include "graph/memory/problem/mem_plan.h"

/* What the replay of a right plan finds. */
typedef struct weir_check_result {
    size_t   live, height; /* most live bytes at a time; the end of the highest range */
    uint32_t recomputed;   /* runs that were not the first of their op */
} weir_check_result;

/* Everything that is read is there, in a form that does for its reader and as new as it must be;
 * updates run once; memory is taken over only where that is permitted; ranges that are live
 * together never meet, lie in [0, room) and are aligned; at the end all is where it must be. Else
 * a->status and a sentence. live[i] (NULL: unwanted) gets the bytes during action i. */
weir_status weir_mem_plan_check(const weir_mem_plan *a, weir_check_result *found, size_t *live);

/* The same for an ended, valid schedule, and what it says of itself: lives, live bytes, peak.
 * ERR_STATE and a sentence that begins with "internal: ". lay NULL: without addresses. */
weir_status weir_schedule_check(const weir_schedule *s, const weir_offsets *offsets, size_t align,
                                size_t limit);

#endif
