/* frontier.h - plans of one step for many budgets: a ladder whose rungs are 1/WEIR_RUNGS of the
 * peak apart. */
#ifndef WEIR_GRAPH_MEMORY_BUDGET_FRONTIER_H
#define WEIR_GRAPH_MEMORY_BUDGET_FRONTIER_H

#include "graph/memory/policies/fit.h"

/* Budgets are multiples of 1 / WEIR_RUNGS of the peak without one. */
#define WEIR_RUNGS 32

typedef struct weir_rung {
    size_t   target;            /* bytes that were asked of the policy: copies wait by them */
    size_t   height;            /* of its addresses */
    double   extra;             /* seconds */
    uint8_t *gap;               /* [gaps] lower.h's decisions */
} weir_rung;

/* Belongs to one problem, policy and number of moves; {0} and the two sizes begin one. */
typedef struct weir_ladder {
    size_t whole;               /* bytes of the step without a budget: 100 % */
    size_t below;               /* of them those that are no pieces */
    bool   climbed;             /* every rung was tried */
    bool   grown;               /* plans came in since this was cleared */
    WEIR_VEC(weir_rung) rungs;  /* fastest first, and each lower than the one before it */
} weir_ladder;

void weir_ladder_free(weir_ladder *l);

/* May its plans stand in for each other? Of policies beside the own the tables show what they are.
 */
static inline bool weir_ladder_suits(const weir_policy *policy)
{
    return policy->plan == weir_policy_auto;
}

/* The fastest plan within `room` bytes, or NULL. */
const weir_rung *weir_ladder_best(const weir_ladder *l, size_t room);

/* A plan becomes a rung unless a known one is as low and as fast; those that it beats go. Its
 * decisions gap[gaps] are copied. False when memory is short. */
bool weir_ladder_add(weir_ladder *l, const weir_rung *r, const uint8_t *gap, uint32_t gaps);

/* Decisions from elsewhere, made for `target` bytes: walked, laid out by f's means and added.
 * *good: they are a plan. They must be possible. */
weir_status weir_ladder_judge(weir_ladder *l, const weir_fit *f, size_t target, const uint8_t *gap,
                              bool *good);

/* Plans every rung that was not tried yet, from the highest down to the first that cannot be done,
 * and f->room itself where it lies between rungs that differ. f says what to plan with; it is not
 * changed. */
weir_status weir_ladder_climb(weir_ladder *l, const weir_fit *f);

/* weir_fit_run by the ladder: the fastest of its plans within f->room; f->fits says whether there
 * is one. */
weir_status weir_ladder_fit(const weir_ladder *l, weir_fit *f);

#endif
