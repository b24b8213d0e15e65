/* compress.h - packing as an option of any policy: what it keeps waits packed. Behind the policy's
 * name and variant stands a slash: "dtr/gist", "checkpoint:speed/actnn:4". */
#ifndef WEIR_GRAPH_MEMORY_POLICIES_COMPRESS_H
#define WEIR_GRAPH_MEMORY_POLICIES_COMPRESS_H

#include "graph/memory/policies/policy.h"

/* The policy's plan for the job, with the packing that its variant names, if it names one. */
weir_status weir_compress_plan(const weir_policy *policy, weir_policy_job *job);

#endif
