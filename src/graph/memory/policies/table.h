/* table.h - finds policies by name. */
#ifndef WEIR_GRAPH_MEMORY_POLICIES_TABLE_H
#define WEIR_GRAPH_MEMORY_POLICIES_TABLE_H

#include "graph/memory/policies/policy.h"

/* Finds the policy of a text such as "auto", "checkpoint:speed" or "dtr/gist" (NULL: auto).
 * *variant receives what follows the colon, with the slash and the compression (compress.h), and
 * points into the text; *policy is static. Returns ERR_INVALID, naming all policies, if the text
 * names none. */
weir_status weir_policy_find(const char *text, const weir_policy **policy, const char **variant);

/* Returns the *n policies, in the order in which tables list them. The array is static. */
const weir_policy *weir_policies(size_t *n);

#endif
