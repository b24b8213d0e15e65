/* bound_branch.h - the cheapest choice at one moment if every tensor is kept whole or not at
 * all. */
#ifndef WEIR_GRAPH_MEMORY_BOUNDS_BOUND_BRANCH_H
#define WEIR_GRAPH_MEMORY_BOUNDS_BOUND_BRANCH_H

#include "graph/memory/bounds/mincut_bound.h"

/* Call it after weir_mincut_bound_at, instead of weir_mincut_bound_solve. *extra receives the
 * seconds of the cheapest choice; a lower bound on them once `most` subproblems have been bounded.
 * c->fate, c->recomputed and c->seconds describe the cheapest choice found that fits, if any.
 * Returns false if memory runs out. */
bool weir_bound_branch(weir_mincut_bound *c, size_t budget, uint32_t most, double *extra);

#endif
