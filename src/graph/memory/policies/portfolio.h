/* portfolio.h - the best plan of the quick policies: a start for the search (those that only
 * recompute), and a plan that the answer must not lose to. */
#ifndef WEIR_GRAPH_MEMORY_POLICIES_PORTFOLIO_H
#define WEIR_GRAPH_MEMORY_POLICIES_PORTFOLIO_H

#include "graph/memory/search/job.h"

typedef struct weir_portfolio {
    weir_schedule s;            /* ended; it fits the job's limit and has addresses */
    bool          found;
} weir_portfolio;

/* The policies that only recompute. Free *r, also after a failure. */
weir_status weir_portfolio_run(const weir_policy_job *job, weir_portfolio *r);
/* Those that offload, too: the best of them replaces r if it is faster. The job must have a
 * link. */
weir_status weir_portfolio_run_offload(const weir_policy_job *job, weir_portfolio *r);
void        weir_portfolio_free(weir_portfolio *r);

#endif
