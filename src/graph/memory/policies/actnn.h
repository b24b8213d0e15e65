/* actnn.h - how many bits quantised tensors keep. */
#ifndef WEIR_GRAPH_MEMORY_POLICIES_ACTNN_H
#define WEIR_GRAPH_MEMORY_POLICIES_ACTNN_H

#include "graph/memory/policies/policy.h"

/* Bits to which the policy, or the packing of its variant, rounds what waits for the backward pass;
 * 0: nothing is lost. ERR_INVALID where no packing has that name. */
weir_status weir_policy_lossy(const weir_policy *policy, const char *variant, uint32_t *bits);

#endif
