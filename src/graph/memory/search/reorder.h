/* reorder.h - puts the ops of a step into an order with a small peak. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_REORDER_H
#define WEIR_GRAPH_MEMORY_SEARCH_REORDER_H

#include "graph/memory/problem/problem.h"

/* Makes *q a copy of p in another valid order: op i of *q is op order[i] of p; tensors keep their
 * numbers. p must contain its resident tensors, so that every op still reads the same version of
 * them. The peak of the new order is no larger. Returns false if memory runs out; the caller frees
 * *q in either case. */
bool weir_mem_problem_reorder(const weir_mem_problem *p, weir_mem_problem *q, uint32_t *order);

#endif
