/* policy.h - a memory policy makes a schedule for a problem and a limit in bytes. policies.def
 * lists the functions; each is in a file of its name.
 *
 * A policy receives a job (job.h), sets job->s to an ended schedule, and returns WEIR_OK,
 * ERR_INVALID (unknown variant, no link) or ERR_NOMEM. Its answer must not depend on clocks or
 * addresses: the same job gives the same schedule. */
#ifndef WEIR_GRAPH_MEMORY_POLICIES_POLICY_H
#define WEIR_GRAPH_MEMORY_POLICIES_POLICY_H

#include "graph/memory/policies/policies.def"
#include "graph/memory/search/job.h"

typedef struct weir_policy {
    const char *name;
    const char *variants;       /* examples, separated by spaces; "": no variants */
    weir_status (*plan)(weir_policy_job *job);
    bool        slow;           /* tables include it only on request */
    bool        link;           /* offloads: needs a link */
} weir_policy;

#define WEIR_POLICY_DECLARE(name, ...) weir_status weir_policy_##name(weir_policy_job *job);
WEIR_POLICIES(WEIR_POLICY_DECLARE)
#undef WEIR_POLICY_DECLARE

#endif
