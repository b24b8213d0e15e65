/* gist.h - which pieces wait packed. */
#ifndef WEIR_GRAPH_MEMORY_POLICIES_GIST_H
#define WEIR_GRAPH_MEMORY_POLICIES_GIST_H

#include "graph/memory/policies/policy.h"
#include "graph/memory/problem/lower.h"

/* What is kept from the forward to the backward pass becomes a mask, or is packed, where it can. */
void weir_gist_decide(const weir_walk_room *w, uint8_t *gap);

#endif
