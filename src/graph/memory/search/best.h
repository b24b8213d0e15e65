/* best.h - keeps the best of several plans for a job: a plan that fits beats one that does not,
 * then time decides, then bytes. The job must outlive it. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_BEST_H
#define WEIR_GRAPH_MEMORY_SEARCH_BEST_H

#include "graph/memory/problem/lower.h"
#include "graph/memory/search/job.h"

typedef struct weir_best {
    const weir_policy_job *job;
    weir_lower_state       w;
    uint32_t              *drop;      /* [tensors + 1] the plan to try, as in checkpoint_set.h */
    uint8_t               *decisions; /* [intervals + 1] what it decides */
    bool                   offload; /* checkpoints wait on the host until recomputation */
    uint8_t               *best;    /* [intervals + 1] the best decisions so far */
    size_t                 peak;    /* bytes of `best`; SIZE_MAX: no plan yet */
    double                 time;
} weir_best;

/* Is a plan with these bytes and seconds better than another one? */
bool weir_better(size_t limit, size_t peak, double time, size_t than_peak, double than_time);

/* Swaps an ended schedule with the job's answer if it is better; the caller frees what *s is
 * then. */
void weir_best_take(weir_policy_job *job, weir_schedule *s);

/* These return false when memory is short. The first plan tried is the one that drops nothing. */
bool weir_best_init(weir_best *b, const weir_policy_job *job);

/* Tries `decisions`; `w` holds the lowered schedule afterwards. */
bool weir_best_try_decisions(weir_best *b);

/* Tries the plan in `drop`. */
bool weir_best_try_drop(weir_best *b);

static inline bool weir_best_fits(const weir_best *b)
{
    return b->peak <= b->job->limit;
}

/* Makes the best plan the job's answer if `ok`, and frees b. WEIR_OK or ERR_NOMEM. */
weir_status weir_best_end(weir_best *b, bool ok, weir_policy_job *job);

#endif
