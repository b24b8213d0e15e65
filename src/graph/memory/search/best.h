/* best.h - the best of several plans for a job: what fits comes before what does not, then time,
 * then bytes. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_BEST_H
#define WEIR_GRAPH_MEMORY_SEARCH_BEST_H

#include "graph/memory/problem/lower.h"
#include "graph/memory/search/job.h"

typedef struct weir_best {
    const weir_policy_job *job;
    weir_lower_state       w;
    uint32_t              *drop;      /* [tensors + 1] the plan to try, as in checkpoint_set.h */
    uint8_t               *decisions; /* [intervals + 1] what it decides */
    bool                   offload; /* what others are made anew from goes to the host meanwhile */
    uint8_t               *best;    /* [intervals + 1] the best decisions so far */
    size_t                 peak;    /* of those; SIZE_MAX: there are none */
    double                 time;
} weir_best;

/* Is a plan with these numbers better than another one? */
bool weir_better(size_t limit, size_t peak, double time, size_t than_peak, double than_time);

/* An ended schedule becomes the job's answer where it is better; then *s is what was there. */
void weir_best_take(weir_policy_job *job, weir_schedule *s);

/* All false when memory is short. The first plan is the one that drops nothing. */
bool weir_best_init(weir_best *b, const weir_policy_job *job);

/* Tries decisions gap; w holds the numbers of the walk afterwards. */
bool weir_best_try_decisions(weir_best *b);

/* Tries what drop says. */
bool weir_best_try_drop(weir_best *b);

static inline bool weir_best_fits(const weir_best *b)
{
    return b->peak <= b->job->limit;
}

/* The best plan becomes the job's answer, if all went well; b is freed. */
weir_status weir_best_end(weir_best *b, bool ok, weir_policy_job *job);

#endif
