/* capuchin_passive.h - the measured step of Capuchin, on demand. */
#ifndef WEIR_GRAPH_MEMORY_POLICIES_CAPUCHIN_PASSIVE_H
#define WEIR_GRAPH_MEMORY_POLICIES_CAPUCHIN_PASSIVE_H

#include "graph/memory/search/job.h"

/* Plans the job: when memory runs out, offloads the least recently used tensor. */
weir_status weir_capuchin_passive(weir_policy_job *job);

#endif
