/* portfolio.h - the best plan of the quick policies: to begin with (of those that only recompute),
 * and to be no worse than. */
#ifndef WEIR_GRAPH_MEMORY_POLICIES_PORTFOLIO_H
#define WEIR_GRAPH_MEMORY_POLICIES_PORTFOLIO_H

#include "graph/memory/search/job.h"

typedef struct weir_portfolio {
    weir_schedule s;            /* ended; it fits the job's room and has addresses */
    bool          found;
} weir_portfolio;

/* Free it, also after a failure. */
weir_status weir_portfolio_run(const weir_policy_job *job, weir_portfolio *r);
/* Those that copy, too: r becomes the best of them where that is faster. The job has a link. */
weir_status weir_portfolio_run_offload(const weir_policy_job *job, weir_portfolio *r);
void        weir_portfolio_free(weir_portfolio *r);

#endif
