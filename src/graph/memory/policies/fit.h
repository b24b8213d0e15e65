/* fit.h - runs a policy on a problem, repeatedly for fewer bytes, until its schedule can be placed
 * within the limit. */
#ifndef WEIR_GRAPH_MEMORY_POLICIES_FIT_H
#define WEIR_GRAPH_MEMORY_POLICIES_FIT_H

#include "graph/memory/policies/policy.h"

/* The fields down to `ctx` are inputs. */
typedef struct weir_fit {
    const weir_mem_problem *p;
    const weir_policy      *policy;
    const char             *variant;
    size_t                  limit, align;
    uint64_t                moves;
    bool                    quick; /* true: check addresses after the search only, not inside */
    weir_status (*place)(void *ctx, const weir_schedule *s, size_t limit,
                         size_t *height);
    void         *ctx;
    weir_schedule s;         /* the last schedule that was placed; owned */
    uint8_t      *decisions; /* in: decisions to begin with, or NULL; out: the last ones; owned */
    weir_portfolio_plan made_by; /* the quick plan that the schedule is; entry 0: none (job.h) */
    size_t        target;    /* bytes that the policy was last asked to stay within */
    size_t        height;    /* bytes: height of that schedule's placement */
    bool          fits;      /* height <= limit */
    double        proven;    /* the lower bound (job.h) for the whole limit */
} weir_fit;

/* Fits. `place` assigns offsets to a schedule, within `limit` bytes if it can, and returns their
 * height in bytes. f->fits says whether a plan was found, f->s.valid whether the policy found any.
 * Returns the error of policy or placer. The caller calls weir_fit_free in either case. */
weir_status weir_fit_run(weir_fit *f);

/* Frees the schedule and the decisions. */
void        weir_fit_free(weir_fit *f);

#endif
