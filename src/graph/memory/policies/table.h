/* table.h - the policies by name. */
#ifndef WEIR_GRAPH_MEMORY_POLICIES_TABLE_H
#define WEIR_GRAPH_MEMORY_POLICIES_TABLE_H

#include "graph/memory/policies/policy.h"

/* The policy of a text such as "auto", "checkpoint:speed" or "dtr/gist" (NULL: auto), and what
 * follows the colon, with the slash and the compression (compress.h) if given. ERR_INVALID, naming
 * all policies. The results are static. */
weir_status weir_policy_find(const char *text, const weir_policy **policy, const char **variant);

/* The policies, in the order in which tables list them. */
const weir_policy *weir_policies(size_t *n);

#endif
