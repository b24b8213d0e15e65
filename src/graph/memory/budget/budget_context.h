/* budget_context.h - what planning a recorded graph for a budget, and replanning it later,
 * share. */
#ifndef WEIR_GRAPH_MEMORY_BUDGET_BUDGET_CONTEXT_H
#define WEIR_GRAPH_MEMORY_BUDGET_BUDGET_CONTEXT_H

#include "graph/plan/plan.h"
#include "graph/memory/budget/cache.h"
#include "graph/memory/budget/from_graph.h"

typedef struct weir_budget_context {
    weir_graph        *g;
    uint32_t           passes;
    weir_mem_problem   problem; /* by estimated times */
    weir_mem_problem   timed;   /* by measured times, on request */
    uint32_t          *tensor_of;
    weir_cache         cache;
    weir_revert_record old;             /* the nodes before a schedule was applied */
    bool               probe;           /* plans are placed only to see their height */
    size_t             whole, resident; /* bytes without a budget; bytes outside the arena */
    uint8_t           *decisions;       /* of the plan, if the policy makes any */
    size_t             target;          /* bytes that they were made for */
    size_t             arena_limit;     /* of the arena */
    size_t             least;           /* smallest arena found, named by an error */
    size_t             movable;         /* least bytes of an offloadable parameter or state */
    uint32_t           peak_op;         /* of the plan with that arena */
    weir_schedule      answer;          /* the schedule that was applied ... */
    weir_mem_problem  *answers; /* ... and which of the two problems it solves; NULL: none */
} weir_budget_context;

/* Bytes that may be offloaded but, as the graph is now, stay on the device: the problem counts
 * them. */
size_t      weir_budget_context_movable(const weir_budget_context *f);

/* weir_fit's `place` (ctx: the budget context): applies the schedule and places the plan. It stays
 * applied if it is within the limit and `probe` is false. */
weir_status weir_budget_context_assign(void *ctx, const weir_schedule *s, size_t *height);
void        weir_budget_context_free(weir_budget_context *f);

#endif
