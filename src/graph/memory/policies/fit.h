/* fit.h - runs a policy on a problem, and again for fewer bytes until addresses are found within
 * the limit. */
#ifndef WEIR_GRAPH_MEMORY_POLICIES_FIT_H
#define WEIR_GRAPH_MEMORY_POLICIES_FIT_H

#include "graph/memory/policies/policy.h"

typedef struct weir_fit {
    const weir_mem_problem *p;
    const weir_policy      *policy;
    const char             *variant;
    size_t                  limit, align;
    uint64_t                moves;
    bool                    quick; /* look for addresses after the search only, not inside */
    weir_status (*place)(void *ctx, const weir_schedule *s, size_t *height);
    void         *ctx;
    weir_schedule s;         /* the last schedule that was given addresses */
    uint8_t      *decisions; /* decisions to begin with, or NULL; then the last ones */
    size_t        target;    /* bytes that the policy was last asked for */
    size_t        height;    /* bytes of its addresses */
    bool          fits;      /* height <= limit */
    double        proven;    /* of the job with the whole limit */
} weir_fit;

weir_status weir_fit_run(weir_fit *f);

/* Frees the schedule and the decisions. */
void        weir_fit_free(weir_fit *f);

#endif
