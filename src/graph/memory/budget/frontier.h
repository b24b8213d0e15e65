/* frontier.h - plans of one step for many budgets; the levels are 1 / WEIR_FRONTIER_LEVELS of the
 * peak apart. */
#ifndef WEIR_GRAPH_MEMORY_BUDGET_FRONTIER_H
#define WEIR_GRAPH_MEMORY_BUDGET_FRONTIER_H

#include "graph/memory/policies/fit.h"

/* Budgets at the levels are multiples of 1 / WEIR_FRONTIER_LEVELS of the peak without a budget. */
#define WEIR_FRONTIER_LEVELS 32

typedef struct weir_frontier_point {
    size_t   target;    /* limit that the policy was given: copies wait by it */
    size_t   height;    /* of its addresses */
    double   extra;     /* seconds */
    uint8_t *decisions; /* [intervals] lower.h's decisions */
} weir_frontier_point;

/* For one problem, policy and number of moves; begins as {0} with `whole` and `below` set. */
typedef struct weir_frontier {
    size_t                        whole;    /* bytes of the step without a budget: 100 % */
    size_t                        below;    /* of these, bytes outside the problem's tensors */
    bool                          complete; /* every level was tried */
    bool                          grown;    /* points were added since this was cleared */
    WEIR_VEC(weir_frontier_point) points; /* fastest first, and each lower than the one before it */
} weir_frontier;

void weir_frontier_free(weir_frontier *l);

/* True if a plan for a smaller budget may be reused for a larger one. Only `auto` allows it:
 * baselines must report exactly what they compute. */
static inline bool weir_frontier_applies(const weir_policy *policy)
{
    return policy->plan == weir_policy_auto;
}

/* The fastest plan within `limit` bytes, or NULL. */
const weir_frontier_point *weir_frontier_best(const weir_frontier *l, size_t limit);

/* Adds a point unless a known one dominates it, and drops those that it dominates. Copies the
 * decisions[intervals]. False when memory is short. */
bool weir_frontier_add(weir_frontier *l, const weir_frontier_point *r, const uint8_t *decisions,
                       uint32_t intervals);

/* Lowers possible decisions from elsewhere, made for `target` bytes, places them by f's means and
 * adds the point. *good: they are a valid plan. */
weir_status weir_frontier_evaluate(weir_frontier *l, const weir_fit *f, size_t target,
                                   const uint8_t *decisions, bool *good);

/* Plans every level not tried yet, from the highest down to the first that is impossible, and
 * f->limit itself if it lies between levels whose plans differ. f says what to plan with; it is not
 * changed. */
weir_status weir_frontier_build(weir_frontier *l, const weir_fit *f);

/* weir_fit_run by the frontier: the fastest of its plans within f->limit; f->fits says whether one
 * exists. */
weir_status weir_frontier_fit(const weir_frontier *l, weir_fit *f);

#endif
