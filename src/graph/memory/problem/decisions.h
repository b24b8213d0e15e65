/* decisions.h - recovers the decisions that a schedule amounts to. */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_DECISIONS_H
#define WEIR_GRAPH_MEMORY_PROBLEM_DECISIONS_H

#include "graph/memory/problem/lower.h"

/* Sets decisions[w->intervals] so that lowering them gives about the schedule again: what was kept,
 * recomputed, offloaded and prefetched; compressed forms count as recomputed. False when memory is
 * short. */
bool weir_decisions_from_schedule(const weir_lower_state *w, const weir_schedule *s,
                                  uint8_t *decisions);

#endif
