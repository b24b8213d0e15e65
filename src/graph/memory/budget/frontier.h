/* frontier.h - plans of one step for many budgets: a ladder whose rungs are 1/WEIR_FRONTIER_LEVELS
 * of the peak apart. */
#ifndef WEIR_GRAPH_MEMORY_BUDGET_FRONTIER_H
#define WEIR_GRAPH_MEMORY_BUDGET_FRONTIER_H

#include "graph/memory/policies/fit.h"

/* Budgets are multiples of 1 / WEIR_FRONTIER_LEVELS of the peak without one. */
#define WEIR_FRONTIER_LEVELS 32

typedef struct weir_frontier_point {
    size_t   target;    /* bytes that were asked of the policy: copies wait by them */
    size_t   height;    /* of its addresses */
    double   extra;     /* seconds */
    uint8_t *decisions; /* [intervals] lower.h's decisions */
} weir_frontier_point;

/* Belongs to one problem, policy and number of moves; {0} and the two sizes begin one. */
typedef struct weir_frontier {
    size_t                        whole;    /* bytes of the step without a budget: 100 % */
    size_t                        below;    /* of them those that are no tensors */
    bool                          complete; /* every rung was tried */
    bool                          grown;    /* plans came in since this was cleared */
    WEIR_VEC(weir_frontier_point) points; /* fastest first, and each lower than the one before it */
} weir_frontier;

void weir_frontier_free(weir_frontier *l);

/* May its plans stand in for each other? Of policies beside the own the tables show what they are.
 */
static inline bool weir_frontier_applies(const weir_policy *policy)
{
    return policy->plan == weir_policy_auto;
}

/* The fastest plan within `room` bytes, or NULL. */
const weir_frontier_point *weir_frontier_best(const weir_frontier *l, size_t limit);

/* A plan becomes a rung unless a known one is as low and as fast; those that it beats go. Its
 * decisions gap[intervals] are copied. False when memory is short. */
bool weir_frontier_add(weir_frontier *l, const weir_frontier_point *r, const uint8_t *decisions,
                       uint32_t intervals);

/* Decisions from elsewhere, made for `target` bytes: walked, laid out by f's means and added.
 * *good: they are a plan. They must be possible. */
weir_status weir_frontier_evaluate(weir_frontier *l, const weir_fit *f, size_t target,
                                   const uint8_t *decisions, bool *good);

/* Plans every rung that was not tried yet, from the highest down to the first that cannot be done,
 * and f->room itself where it lies between rungs that differ. f says what to plan with; it is not
 * changed. */
weir_status weir_frontier_build(weir_frontier *l, const weir_fit *f);

/* weir_fit_run by the ladder: the fastest of its plans within f->room; f->fits says whether there
 * is one. */
weir_status weir_frontier_fit(const weir_frontier *l, weir_fit *f);

#endif
