/* portfolio.h - the best plan of the quick policies: to begin with (of those that only recompute),
 * and to be no worse than. */
#ifndef WEIR_GRAPH_MEMORY_POLICIES_PORTFOLIO_H
#define WEIR_GRAPH_MEMORY_POLICIES_PORTFOLIO_H

#include "graph/memory/search/job.h"

typedef struct weir_rival {
    weir_schedule s;            /* ended; it fits the job's room and has addresses */
    bool          found;
} weir_rival;

/* Free it, also after a failure. */
weir_status weir_rivals_run(const weir_policy_job *job, weir_rival *r);
/* Those that copy, too: r becomes the best of them where that is faster. The job has a link. */
weir_status weir_rivals_swap(const weir_policy_job *job, weir_rival *r);
void        weir_rival_free(weir_rival *r);

#endif
