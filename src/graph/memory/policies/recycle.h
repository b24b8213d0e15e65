/* recycle.h - what a step takes with everything kept. */
#ifndef WEIR_GRAPH_MEMORY_POLICIES_RECYCLE_H
#define WEIR_GRAPH_MEMORY_POLICIES_RECYCLE_H

#include "graph/memory/policies/policy.h"

/* The peak of pieces and workspace in bytes with everything kept. */
weir_status weir_recycled_peak(const weir_problem *p, size_t *peak);

#endif
