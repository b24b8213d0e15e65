/* reorder.h - puts the ops of a step into an order with a small peak. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_REORDER_H
#define WEIR_GRAPH_MEMORY_SEARCH_REORDER_H

#include "graph/memory/problem/problem.h"

/* Op i of *q is op order[i] of p; tensors keep their numbers. p must include its resident tensors,
 * so that every op still reads the version of them that it reads in p. *better: is the new order's
 * peak, with nothing in place, no larger? False when memory is short; free *q either way. */
bool weir_mem_problem_reorder(const weir_mem_problem *p, weir_mem_problem *q, uint32_t *order,
                              bool *better);

#endif
