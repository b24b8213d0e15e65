/* evict_to_fit.h - while a step takes more than its room, one of the pieces that lie idle there
 * goes, to the host or to be made anew: a policy says which, and how. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_EVICT_TO_FIT_H
#define WEIR_GRAPH_MEMORY_SEARCH_EVICT_TO_FIT_H

#include "graph/memory/search/job.h"
#include "graph/memory/search/search_state.h"
#include "graph/memory/search/transfers.h"

/* A piece that lies idle where the room does not suffice. */
typedef struct weir_idle {
    uint32_t  piece, number, gap;   /* gap: `number` of the piece, among all */
    bool      swap, drop;           /* ways in which it may go */
    weir_trip trip;                 /* to the host, for as long as the room does not suffice */
    double    bytes, again;         /* again: seconds to make it anew */
} weir_idle;

typedef struct weir_pressure {
    weir_policy_job *job;
    weir_search      search;        /* the problem and its walk */
    weir_searcher    at;            /* the plan at hand */
    weir_trips       trips;
    uint8_t         *best, *barred; /* [gaps] the best plan so far; gaps that led nowhere */
    size_t           peak;          /* of best; SIZE_MAX: there is none */
    double           time;
    WEIR_VEC(weir_idle) idle;
    bool             earliest;      /* look where the room is exceeded first; else at the peak */
    /* Which of `idle` goes (its number), and how; UINT32_MAX: none. */
    uint32_t       (*choose)(struct weir_pressure *x, weir_gap *how);
} weir_pressure;

/* Plans a job under x->choose and x->earliest; all else in x is empty. */
weir_status weir_pressure_plan(weir_pressure *x, weir_policy_job *job);

/* Seconds that the step waits more if this one goes to the host. */
double weir_pressure_wait(const weir_pressure *x, const weir_idle *i);

#endif
