/* auto.h - which levers a variant of policy auto may use. */
#ifndef WEIR_GRAPH_MEMORY_POLICIES_AUTO_H
#define WEIR_GRAPH_MEMORY_POLICIES_AUTO_H

#include "graph/memory/policies/policy.h"

/* Returns whether the policy is auto and its variant allows the lever (weir_lever, request.h). */
bool weir_auto_uses(const weir_policy *policy, const char *variant, unsigned lever);

#endif
