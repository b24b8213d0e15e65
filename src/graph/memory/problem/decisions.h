/* decisions.h - from a schedule back to the decisions that mean about it. */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_DECISIONS_H
#define WEIR_GRAPH_MEMORY_PROBLEM_DECISIONS_H

#include "graph/memory/problem/lower.h"

/* Decisions gap[w->gaps] that walk to about the same: what was kept, made anew, copied out and
 * back; packed forms count as made anew. False when memory is short. */
bool weir_decisions_from_schedule(const weir_lower_state *w, const weir_schedule *s,
                                  uint8_t *decisions);

#endif
