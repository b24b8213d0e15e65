/* gist.h - which tensors wait in compressed form. */
#ifndef WEIR_GRAPH_MEMORY_POLICIES_GIST_H
#define WEIR_GRAPH_MEMORY_POLICIES_GIST_H

#include "graph/memory/policies/policy.h"
#include "graph/memory/problem/lower.h"

/* Changes decisions from keep to compress or mask for tensors that wait from the forward to the
 * backward pass, where possible. */
void weir_gist_decide(const weir_lower_state *w, uint8_t *decisions);

#endif
