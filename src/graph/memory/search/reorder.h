/* reorder.h - a step with its ops in an order with a small peak. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_REORDER_H
#define WEIR_GRAPH_MEMORY_SEARCH_REORDER_H

#include "graph/memory/problem/problem.h"

/* Op i of *q is op order[i] of p; tensors keep their numbers. p has its resident tensors, so that
 * every op reads the version of them that it reads in p. *better: false where the new order's
 * peak, nothing in place, is larger. False when memory is short; free *q, also then. */
bool weir_mem_problem_reorder(const weir_mem_problem *p, weir_mem_problem *q, uint32_t *order,
                              bool *better);

#endif
