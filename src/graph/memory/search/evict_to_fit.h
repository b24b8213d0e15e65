/* evict_to_fit.h - while a step exceeds its limit, evicts one idle tensor after another, to the
 * host or for recomputation; a policy chooses which, and how. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_EVICT_TO_FIT_H
#define WEIR_GRAPH_MEMORY_SEARCH_EVICT_TO_FIT_H

#include "graph/memory/search/job.h"
#include "graph/memory/search/search_state.h"
#include "graph/memory/search/transfers.h"

/* A tensor that is idle where the limit is exceeded. */
typedef struct weir_victim {
    uint32_t      tensor, number, interval; /* interval: `number` of the tensor, among all */
    bool          offload, drop;            /* decisions that are possible */
    weir_transfer transfer;          /* the offload, for as long as the limit is exceeded */
    double        bytes, recomputed; /* recomputed: seconds to recompute it */
} weir_victim;

typedef struct weir_evict_to_fit {
    weir_policy_job   *job;
    weir_search        search; /* the problem and its lowered decisions */
    weir_search_state  at;     /* the current decisions */
    weir_transfer_list transfers;
    uint8_t           *best, *barred; /* [intervals] best plan so far; intervals not to evict */
    size_t             peak;          /* bytes of `best`; SIZE_MAX: no plan yet */
    double             time;
    WEIR_VEC(weir_victim) idle;
    bool                  earliest; /* look where the limit is exceeded first; else at the peak */
    /* The number in `idle` of the tensor to evict, and how; UINT32_MAX: none. */
    uint32_t       (*choose)(struct weir_evict_to_fit *x, weir_decision *how);
} weir_evict_to_fit;

/* Plans a job with x->choose and x->earliest; all else in x must be zero. WEIR_OK or ERR_NOMEM. */
weir_status weir_evict_to_fit_plan(weir_evict_to_fit *x, weir_policy_job *job);

/* Seconds that the step waits longer if this tensor is offloaded. */
double weir_evict_to_fit_wait(const weir_evict_to_fit *x, const weir_victim *i);

#endif
