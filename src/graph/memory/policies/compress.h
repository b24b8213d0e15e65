/* compress.h - compression as an option of any policy, for what it keeps. A slash follows the
 * policy's name and variant: "dtr/gist", "checkpoint:speed/actnn:4". */
#ifndef WEIR_GRAPH_MEMORY_POLICIES_COMPRESS_H
#define WEIR_GRAPH_MEMORY_POLICIES_COMPRESS_H

#include "graph/memory/policies/policy.h"

/* Plans the job by the policy, with the compression that its variant names, if any. */
weir_status weir_compress_plan(const weir_policy *policy, weir_policy_job *job);

#endif
