/* capuchin.h - the measured step of Capuchin. */
#ifndef WEIR_GRAPH_MEMORY_POLICIES_CAPUCHIN_H
#define WEIR_GRAPH_MEMORY_POLICIES_CAPUCHIN_H

#include "graph/memory/policies/policy.h"

/* Plans the job on demand. */
weir_status weir_capuchin_passive(weir_policy_job *job);

#endif
