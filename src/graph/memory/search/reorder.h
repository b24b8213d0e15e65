/* reorder.h - a step with its tasks in an order with a small peak. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_REORDER_H
#define WEIR_GRAPH_MEMORY_SEARCH_REORDER_H

#include "graph/memory/problem/problem.h"

/* Task i of *q is task order[i] of p; pieces keep their numbers. p has its resident pieces, so that
 * every task reads the version of them that it reads in p. *better: false where the new order's
 * peak, nothing in place, is larger. False when memory is short; free *q, also then. */
bool weir_problem_reorder(const weir_problem *p, weir_problem *q, uint32_t *order, bool *better);

#endif
