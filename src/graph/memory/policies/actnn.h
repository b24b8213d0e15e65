/* actnn.h - the number of bits that quantised tensors keep. */
#ifndef WEIR_GRAPH_MEMORY_POLICIES_ACTNN_H
#define WEIR_GRAPH_MEMORY_POLICIES_ACTNN_H

#include "graph/memory/policies/policy.h"

/* The bits to which the policy, or the compression in its variant, rounds what waits for the
 * backward pass; 0: lossless. ERR_INVALID if no compression has that name. */
weir_status weir_policy_lossy(const weir_policy *policy, const char *variant, uint32_t *bits);

#endif
