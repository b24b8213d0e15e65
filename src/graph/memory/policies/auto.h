/* auto.h - which levers a variant of policy auto may use. */
#ifndef WEIR_GRAPH_MEMORY_POLICIES_AUTO_H
#define WEIR_GRAPH_MEMORY_POLICIES_AUTO_H

#include "graph/memory/policies/portfolio.h"
#include "graph/memory/policies/policy.h"

/* Returns whether the policy is auto and its variant allows the lever (weir_lever, request.h). */
bool weir_auto_uses(const weir_policy *policy, const char *variant, unsigned lever);

/* Finds the best plan of the portfolio that job->variant allows, as the policy does when it starts
 * without decisions: it is found within job->addresses, and never slower than any of the quick
 * policies. Returns as weir_policy_auto does; the caller frees *r in either case. */
weir_status weir_auto_portfolio(const weir_policy_job *job, weir_portfolio *r);

#endif
