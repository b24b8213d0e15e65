/* capuchin.h - the measured step of Capuchin. */
#ifndef WEIR_GRAPH_POLICY_CAPUCHIN_H
#define WEIR_GRAPH_POLICY_CAPUCHIN_H

#include "graph/policy/policy.h"

/* Plans the job on demand. */
weir_status weir_capuchin_passive(weir_policy_job *job);

#endif
