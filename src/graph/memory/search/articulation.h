/* articulation.h - tensors whose removal disconnects the forward pass. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_ARTICULATION_H
#define WEIR_GRAPH_MEMORY_SEARCH_ARTICULATION_H

#include "graph/memory/problem/problem.h"

/* Sets is_articulation[tensor] to 1 for articulation points of the undirected graph of forward ops
 * and the temporary tensors between them, to 0 for all others. Returns false if memory runs out.
 * Takes time linear in ops, tensors and uses. */
bool weir_articulation(const weir_mem_problem *p, uint8_t *is_articulation);

#endif
