/* capuchin_passive.h - the measured step of Capuchin, which offloads on demand. */
#ifndef WEIR_GRAPH_MEMORY_POLICIES_CAPUCHIN_PASSIVE_H
#define WEIR_GRAPH_MEMORY_POLICIES_CAPUCHIN_PASSIVE_H

#include "graph/memory/search/job.h"

/* Plans the job: whenever memory runs out, offloads the least recently used tensor. Returns WEIR_OK
 * or ERR_NOMEM. */
weir_status weir_capuchin_passive(weir_policy_job *job);

#endif
