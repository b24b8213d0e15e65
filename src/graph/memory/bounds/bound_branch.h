/* bound_branch.h - the cheapest choice at one moment in which every tensor is kept whole or not at
 * all. */
#ifndef WEIR_GRAPH_MEMORY_BOUNDS_BOUND_BRANCH_H
#define WEIR_GRAPH_MEMORY_BOUNDS_BOUND_BRANCH_H

#include "graph/memory/bounds/mincut_bound.h"

/* After weir_mincut_bound_at, instead of weir_mincut_bound_solve: *extra is that choice's seconds,
 * or a bound below them when `most` halves were looked at. c->fate, again and seconds are the
 * cheapest choice met that fits, if any does. False when memory is short. */
bool weir_bound_branch(weir_mincut_bound *c, size_t budget, uint32_t most, double *extra);

#endif
