/* compress.h - packing as an option of any policy: what it keeps waits packed. Behind the policy's
 * name and variant stands a slash: "dtr/gist", "checkpoint:speed/actnn:4". */
#ifndef WEIR_GRAPH_MEMORY_POLICIES_COMPRESS_H
#define WEIR_GRAPH_MEMORY_POLICIES_COMPRESS_H

#include "graph/memory/policies/policy.h"
#include "graph/memory/problem/lower.h"

enum { WEIR_VARIANT = 64 };

/* What stands before the slash of a variant into own, cut where it is too long; the packing behind
 * it, or NULL. */
const char *weir_packing_split(const char *variant, char own[WEIR_VARIANT]);

/* The policy's plan for the job, with the packing that its variant names, if it names one. */
weir_status weir_packing_plan(const weir_policy *policy, weir_policy_job *job);

/* What is kept from the forward to the backward pass becomes a mask, or is packed, where it can. */
void weir_gist_decide(const weir_walk_room *w, uint8_t *gap);

#endif
