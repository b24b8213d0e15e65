/* check.h - verifies a plan: replays it step by step and trusts no number that a planner
 * computed. */
#ifndef WEIR_GRAPH_MEMORY_VERIFY_CHECK_H
#define WEIR_GRAPH_MEMORY_VERIFY_CHECK_H

#include "graph/memory/problem/mem_plan.h"

/* What the replay of a correct plan measured. */
typedef struct weir_check_result {
    size_t   live, height; /* bytes: the most live at a time; the end of the highest byte range */
    uint32_t recomputed;   /* runs that were not the first of their op */
} weir_check_result;

/* Verifies the plan; *found receives what the replay measured. Returns WEIR_OK if
 * - every step finds what it reads, in a form that its reader accepts and in the right version;
 * - updates run once, and memory is taken over in place only where that is permitted;
 * - byte ranges that are live together never overlap, lie in [0, limit) and are aligned;
 * - step outputs and resident tensors are in their places at the end.
 * Otherwise returns a->status with a message that names the step, or ERR_NOMEM. `live` may be NULL;
 * live[i] receives the bytes during step i. Takes O(log n) per step and operand. */
weir_status weir_mem_plan_check(const weir_mem_plan *a, weir_check_result *found, size_t *live);

/* The same for an ended, valid schedule. Also verifies what the schedule claims: live ranges, live
 * bytes, peak. Returns ERR_STATE, with a message that begins with "internal: ", if it is wrong.
 * `offsets` may be NULL: addresses are then not verified. */
weir_status weir_schedule_check(const weir_schedule *s, const weir_offsets *offsets, size_t align,
                                size_t limit);

#endif
