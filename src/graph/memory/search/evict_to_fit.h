/* evict_to_fit.h - while a step takes more than its room, one of the tensors that lie idle there
 * goes, to the host or to be made anew: a policy says which, and how. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_EVICT_TO_FIT_H
#define WEIR_GRAPH_MEMORY_SEARCH_EVICT_TO_FIT_H

#include "graph/memory/search/job.h"
#include "graph/memory/search/search_state.h"
#include "graph/memory/search/transfers.h"

/* A tensor that lies idle where the room does not suffice. */
typedef struct weir_victim {
    uint32_t      tensor, number, interval; /* interval: `number` of the tensor, among all */
    bool          offload, drop;            /* ways in which it may go */
    weir_transfer transfer;          /* to the host, for as long as the room does not suffice */
    double        bytes, recomputed; /* again: seconds to make it anew */
} weir_victim;

typedef struct weir_evict_to_fit {
    weir_policy_job   *job;
    weir_search        search; /* the problem and its walk */
    weir_search_state  at;     /* the plan at hand */
    weir_transfer_list transfers;
    uint8_t           *best, *barred; /* [intervals] the best plan so far; gaps that led nowhere */
    size_t             peak;          /* of best; SIZE_MAX: there is none */
    double             time;
    WEIR_VEC(weir_victim) idle;
    bool                  earliest; /* look where the room is exceeded first; else at the peak */
    /* Which of `idle` goes (its number), and how; UINT32_MAX: none. */
    uint32_t       (*choose)(struct weir_evict_to_fit *x, weir_decision *how);
} weir_evict_to_fit;

/* Plans a job under x->choose and x->earliest; all else in x is empty. */
weir_status weir_evict_to_fit_plan(weir_evict_to_fit *x, weir_policy_job *job);

/* Seconds that the step waits more if this one goes to the host. */
double weir_evict_to_fit_wait(const weir_evict_to_fit *x, const weir_victim *i);

#endif
