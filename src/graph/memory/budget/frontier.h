/* frontier.h - plans of one step for many budgets: the best known trade-offs of bytes against extra
 * time. */
#ifndef WEIR_GRAPH_MEMORY_BUDGET_FRONTIER_H
#define WEIR_GRAPH_MEMORY_BUDGET_FRONTIER_H

#include "graph/memory/policies/fit.h"

/* Budgets are planned at levels, multiples of 1 / WEIR_FRONTIER_LEVELS of the peak without a
 * budget. */
#define WEIR_FRONTIER_LEVELS 32

typedef struct weir_frontier_point {
    size_t   target;    /* bytes that the policy planned for: copies wait by it */
    size_t   height;    /* bytes of its placement */
    double   extra;     /* seconds */
    /* [intervals] decisions (lower.h); owned. They make the plan unless made_by names a quick plan;
     * then they are only a start for searches. */
    uint8_t        *decisions;
    weir_portfolio_plan made_by; /* entry 0: none */
} weir_frontier_point;

/* For one problem, policy and number of moves. Initialise it to {0}, then set `whole` and
 * `below`. */
typedef struct weir_frontier {
    size_t                        whole;    /* bytes of the step without a budget: 100 % */
    size_t                        below;    /* of these, bytes outside the problem's tensors */
    bool                          complete; /* every level has been tried */
    bool                          grown;    /* points were added since the flag was cleared */
    WEIR_VEC(weir_frontier_point) points; /* fastest first; each is lower than the one before */
} weir_frontier;

/* Frees the points and leaves *l {0}. */
void weir_frontier_free(weir_frontier *l);

/* True if a plan for a smaller budget may be reused for a larger one. Only `auto` allows it:
 * baselines must report exactly what they compute. */
static inline bool weir_frontier_applies(const weir_policy *policy)
{
    return policy->plan == weir_policy_auto;
}

/* Returns the fastest plan within `limit` bytes, owned by the frontier; NULL if no plan fits. */
const weir_frontier_point *weir_frontier_best(const weir_frontier *l, size_t limit);

/* Adds a point unless a known one dominates it, and drops those that it dominates. Copies
 * decisions[intervals]. Returns false if memory runs out. */
bool weir_frontier_add(weir_frontier *l, const weir_frontier_point *r, const uint8_t *decisions,
                       uint32_t intervals);

/* Makes a plan from elsewhere again, by r->made_by or from possible decisions for r->target bytes,
 * places it with f->place, within r->height bytes if it can, and adds the point. *good says whether
 * it is valid. Returns WEIR_OK, ERR_NOMEM or the placer's error. */
weir_status weir_frontier_evaluate(weir_frontier *l, const weir_fit *f,
                                   const weir_frontier_point *r, const uint8_t *decisions,
                                   bool *good);

/* Plans every level not yet tried, from the highest down to the first that fails, and f->limit
 * itself if it lies between levels whose plans differ. `f` holds problem, policy and placer and is
 * not changed. Returns as weir_fit_run does. */
weir_status weir_frontier_build(weir_frontier *l, const weir_fit *f);

/* The counterpart of weir_fit_run: takes the frontier's fastest plan within f->limit. f->fits says
 * whether it has one. */
weir_status weir_frontier_fit(const weir_frontier *l, weir_fit *f);

#endif
