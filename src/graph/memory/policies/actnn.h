/* actnn.h - the number of bits to which a policy rounds compressed tensors. */
#ifndef WEIR_GRAPH_MEMORY_POLICIES_ACTNN_H
#define WEIR_GRAPH_MEMORY_POLICIES_ACTNN_H

#include "graph/memory/policies/policy.h"

/* Sets *bits to the number of bits to which the policy, or the compression named in its variant,
 * rounds tensors that wait for the backward pass; 0: lossless. Returns ERR_INVALID if no
 * compression has that name. */
weir_status weir_policy_lossy(const weir_policy *policy, const char *variant, uint32_t *bits);

#endif
