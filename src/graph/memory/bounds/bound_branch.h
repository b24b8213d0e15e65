/* bound_branch.h - the cheapest choice at one moment in which every tensor is kept whole or not at
 * all. */
#ifndef WEIR_GRAPH_MEMORY_BOUNDS_BOUND_BRANCH_H
#define WEIR_GRAPH_MEMORY_BOUNDS_BOUND_BRANCH_H

#include "graph/memory/bounds/mincut_bound.h"

/* Replaces weir_mincut_bound_solve after weir_mincut_bound_at. *extra gets the seconds of that
 * choice, or a lower bound on them if `most` halves were bounded first. c->fate, c->recomputed and
 * c->seconds are those of the cheapest choice found that fits, if any does. False when memory is
 * short. */
bool weir_bound_branch(weir_mincut_bound *c, size_t budget, uint32_t most, double *extra);

#endif
