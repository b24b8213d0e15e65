/* evict_to_fit.h - while the peak of a step exceeds its limit, evicts one idle tensor after
 * another, to the host or for recomputation; the caller chooses which, and how. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_EVICT_TO_FIT_H
#define WEIR_GRAPH_MEMORY_SEARCH_EVICT_TO_FIT_H

#include "graph/memory/search/job.h"
#include "graph/memory/search/search_state.h"
#include "graph/memory/search/transfers.h"

/* A tensor that is idle where the limit is exceeded. */
typedef struct weir_victim {
    /* interval: number of its interval `number` among all */
    uint32_t      tensor, number, interval;
    bool          offload, drop;            /* possible decisions: offload it, recompute it */
    weir_transfer transfer;          /* the offload and prefetch that would free its memory there */
    double        bytes, recomputed; /* recomputed: seconds to recompute it */
} weir_victim;

typedef struct weir_evict_to_fit {
    weir_policy_job   *job;
    weir_search        search; /* the problem and the lowered decisions */
    weir_search_state  at;     /* the current decisions */
    weir_transfer_list transfers;
    uint8_t           *best, *barred; /* [intervals] best plan so far; 1: must not be evicted */
    size_t             peak;          /* bytes of the best plan; SIZE_MAX: no plan yet */
    double             time;
    WEIR_VEC(weir_victim) idle;
    /* true: look at the first event that exceeds the limit; false: at the peak */
    bool                  earliest;
    /* Returns the index in `idle` of the tensor to evict, and how; UINT32_MAX: none. */
    uint32_t       (*choose)(struct weir_evict_to_fit *x, weir_decision *how);
} weir_evict_to_fit;

/* Plans a job with x->choose and x->earliest; all else in *x must be zero. The answer is in job->s.
 * Frees what it allocates in *x. Returns WEIR_OK or ERR_NOMEM. */
weir_status weir_evict_to_fit_plan(weir_evict_to_fit *x, weir_policy_job *job);

/* Returns the additional seconds for which the step waits if this tensor is offloaded. */
double weir_evict_to_fit_wait(const weir_evict_to_fit *x, const weir_victim *i);

#endif
