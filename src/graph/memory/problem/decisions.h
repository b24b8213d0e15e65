/* decisions.h - recovers the decisions behind a schedule, so that a search can start from it. */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_DECISIONS_H
#define WEIR_GRAPH_MEMORY_PROBLEM_DECISIONS_H

#include "graph/memory/problem/lower.h"


/* Fills decisions[w->intervals] such that weir_lower rebuilds nearly the same schedule: intervals
 * over which it keeps, recomputes, offloads or prefetches a tensor. Compression has no counterpart
 * and is read as recomputation. Returns false if memory runs out. */
bool weir_decisions_from_schedule(const weir_lower_state *w, const weir_schedule *s,
                                  uint8_t *decisions);

/* Returns whether each of decisions[intervals] can be lowered: what it needs (a link, a compressed
 * form, another use) exists. */
bool weir_decisions_are_possible(const weir_mem_problem *p, const uint8_t *decisions);

#endif
