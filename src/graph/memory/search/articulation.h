/* articulation.h - pieces without which the forward pass falls apart. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_ARTICULATION_H
#define WEIR_GRAPH_MEMORY_SEARCH_ARTICULATION_H

#include "graph/memory/problem/problem.h"

/* cut[piece] is set for articulation points of the undirected graph of forward tasks and the
 * temporary pieces between them. False when memory is short. */
bool weir_articulation(const weir_problem *p, uint8_t *cut);

#endif
