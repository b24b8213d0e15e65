/* compress.h - compression as an option of any policy, applied to what it keeps. A slash follows
 * the policy's name and variant: "dtr/gist", "checkpoint:speed/actnn:4". */
#ifndef WEIR_GRAPH_MEMORY_POLICIES_COMPRESS_H
#define WEIR_GRAPH_MEMORY_POLICIES_COMPRESS_H

#include "graph/memory/policies/policy.h"

/* Plans the job by the policy, with the compression that job->variant names, if any. Returns
 * ERR_INVALID if no compression has that name, or the policy's error. */
weir_status weir_compress_plan(const weir_policy *policy, weir_policy_job *job);

#endif
