/* best.h - keeps the best of several plans for a job: a plan that fits beats one that does not;
 * between two that fit, time decides, then bytes; otherwise bytes, then time. The job must outlive
 * the weir_best. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_BEST_H
#define WEIR_GRAPH_MEMORY_SEARCH_BEST_H

#include "graph/memory/problem/lower.h"
#include "graph/memory/search/job.h"

typedef struct weir_best {
    const weir_policy_job *job;
    weir_lower_state       w;
    /* [tensors + 1] a plan to try, as in checkpoint_set.h; set by the caller */
    uint32_t              *drop;
    uint8_t               *decisions; /* [intervals + 1] decisions to try; set by the caller */
    /* true: checkpoints wait on the host until recomputation needs them */
    bool                   offload;
    uint8_t               *best;    /* [intervals + 1] the best decisions so far */
    size_t                 peak;    /* bytes of that plan; SIZE_MAX: no plan yet */
    double                 time;
} weir_best;

/* Returns whether a plan of `peak` bytes and `time` seconds is better than another one. */
bool weir_better(size_t limit, size_t peak, double time, size_t than_peak, double than_time);

/* Exchanges an ended schedule with the job's answer if it is better. The caller frees *s
 * afterwards, whichever schedule it is. */
void weir_best_take(weir_policy_job *job, weir_schedule *s);

/* Initialises *b and tries the plan that evicts nothing. These functions return false if memory
 * runs out. */
bool weir_best_init(weir_best *b, const weir_policy_job *job);

/* Tries b->decisions; b->w holds the lowered schedule afterwards. */
bool weir_best_try_decisions(weir_best *b);

/* Tries the plan in b->drop; b->decisions holds its decisions afterwards. */
bool weir_best_try_drop(weir_best *b);

/* Returns whether the best plan so far is within the limit. */
static inline bool weir_best_fits(const weir_best *b)
{
    return b->peak <= b->job->limit;
}

/* If `ok`, makes the best plan the job's answer. Frees *b in either case. Returns WEIR_OK or
 * ERR_NOMEM. */
weir_status weir_best_end(weir_best *b, bool ok, weir_policy_job *job);

#endif
