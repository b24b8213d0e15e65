/* portfolio.h - the best plan of the fast policies: those that only recompute give the search a
 * start; policy auto never answers with a slower plan. */
#ifndef WEIR_GRAPH_MEMORY_POLICIES_PORTFOLIO_H
#define WEIR_GRAPH_MEMORY_POLICIES_PORTFOLIO_H

#include "graph/memory/search/job.h"

typedef struct weir_portfolio {
    /* ended; fits the job's limit and can be placed within job->addresses */
    weir_schedule s;
    bool          found;
    weir_portfolio_plan made_by;
} weir_portfolio;

/* Returns whether the portfolio has the entry and the problem the link that it may need. */
bool weir_portfolio_has(const weir_mem_problem *p, uint32_t entry);

/* Makes a plan again: *s receives an ended schedule, which the caller frees in any case. Requires
 * weir_portfolio_has and the problem and alignment for which the plan was made. Returns WEIR_OK or
 * ERR_NOMEM. */
weir_status weir_portfolio_make(const weir_mem_problem *p, weir_portfolio_plan by, size_t align,
                                weir_schedule *s);

/* Runs the policies that only recompute. Returns WEIR_OK or the placer's error; the caller frees *r
 * in either case. */
weir_status weir_portfolio_run(const weir_policy_job *job, weir_portfolio *r);

/* Runs the policies that offload, too; the best of them replaces r->s if it is faster. The job's
 * problem must have a link. */
weir_status weir_portfolio_run_offload(const weir_policy_job *job, weir_portfolio *r);
void        weir_portfolio_free(weir_portfolio *r);

#endif
