/* budget_context.h - the state of planning a recorded graph for a budget, kept for replanning. */
#ifndef WEIR_GRAPH_MEMORY_BUDGET_BUDGET_CONTEXT_H
#define WEIR_GRAPH_MEMORY_BUDGET_BUDGET_CONTEXT_H

#include "graph/plan/plan.h"
#include "graph/memory/budget/cache.h"
#include "graph/memory/budget/from_graph.h"

typedef struct weir_budget_context {
    weir_graph        *g;
    uint32_t           passes;
    weir_mem_problem   problem; /* with estimated times */
    weir_mem_problem   timed;   /* with measured times; empty unless requested */
    weir_mem_problem   widest;  /* as in weir_reasons */
    uint32_t          *tensor_of;
    weir_cache         cache;
    weir_revert_record old;             /* the nodes before a schedule was applied */
    bool               probe;           /* true: plans are placed only to learn their heights */
    size_t             whole, resident; /* bytes without a budget; bytes outside the arena */
    uint8_t           *decisions;       /* of the plan, if the policy works by decisions; owned */
    size_t             target;          /* bytes that the policy planned them for */
    size_t             arena_limit;     /* bytes of the arena */
    size_t             least;           /* bytes of the smallest arena found, for error messages */
    /* bytes from which on a parameter or state may be offloaded; SIZE_MAX: none */
    size_t             movable;
    uint32_t           peak_op;         /* the op at the peak of the plan with that arena */
    weir_schedule      answer;          /* the schedule that was applied, owned ... */
    weir_mem_problem  *answers; /* ... and the problem that it solves; NULL: none */
} weir_budget_context;

/* Returns the bytes of parameters and states that may be offloaded but, as the graph is now, are on
 * the device: the problem counts them. */
size_t      weir_budget_context_movable(const weir_budget_context *f);

/* The `place` function of weir_fit (ctx is the budget context): applies the schedule and places the
 * plan. It stays applied if it is within the limit and `probe` is false. */
weir_status weir_budget_context_assign(void *ctx, const weir_schedule *s, size_t limit,
                                       size_t *height);
void        weir_budget_context_free(weir_budget_context *f);

#endif
