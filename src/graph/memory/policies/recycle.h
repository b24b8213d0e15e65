/* recycle.h - what a step needs with everything kept. */
#ifndef WEIR_GRAPH_MEMORY_POLICIES_RECYCLE_H
#define WEIR_GRAPH_MEMORY_POLICIES_RECYCLE_H

#include "graph/memory/policies/policy.h"

/* The peak of tensors and workspace in bytes with everything kept. */
weir_status weir_inplace_peak(const weir_mem_problem *p, size_t *peak);

#endif
