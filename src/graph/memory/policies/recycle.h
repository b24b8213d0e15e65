/* recycle.h - what a step needs with everything kept. */
#ifndef WEIR_GRAPH_MEMORY_POLICIES_RECYCLE_H
#define WEIR_GRAPH_MEMORY_POLICIES_RECYCLE_H

#include "graph/memory/policies/policy.h"

/* Sets *peak to the bytes of tensors and workspace at the peak with everything kept until its last
 * reader. Returns WEIR_OK or ERR_NOMEM. */
weir_status weir_inplace_peak(const weir_mem_problem *p, size_t *peak);

#endif
