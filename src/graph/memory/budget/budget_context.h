/* budget_context.h - a recorded graph on its way into a budget: what planning it, and planning it
 * again, share. */
#ifndef WEIR_GRAPH_MEMORY_BUDGET_BUDGET_CONTEXT_H
#define WEIR_GRAPH_MEMORY_BUDGET_BUDGET_CONTEXT_H

#include "graph/plan/plan.h"
#include "graph/memory/budget/cache.h"
#include "graph/memory/budget/from_graph.h"

typedef struct weir_budget_context {
    weir_graph        *g;
    uint32_t           passes;
    weir_mem_problem   problem; /* by estimated times */
    weir_mem_problem   timed;   /* by measured ones, if asked for */
    uint32_t          *tensor_of;
    weir_cache         cache;
    weir_revert_record old;             /* the nodes as they were */
    bool               probe;           /* plans are laid out to see their height only */
    size_t             whole, resident; /* bytes of the step without a budget; beside the arena */
    uint8_t           *decisions;       /* decisions of the plan, where the policy makes such */
    size_t             target;          /* that they were made for */
    size_t             arena_limit;     /* of the arena */
    size_t             least;           /* smallest arena met, then named */
    size_t             movable;         /* bytes from which on parameters and states may leave */
    uint32_t           peak_op;         /* of the plan with that arena */
    weir_schedule      answer;          /* what the graph was expanded to ... */
    weir_mem_problem  *answers; /* ... and which of the two problems it solves; NULL: none */
} weir_budget_context;

/* Bytes of what may leave the device and, as the graph is now, does not: the problem counts
 * them. */
size_t      weir_budget_context_movable(const weir_budget_context *f);

/* weir_fit's way of laying out (ctx: the fitter): expands and places; the graph stays expanded if
 * that is within the limit and no probe. */
weir_status weir_budget_context_assign(void *ctx, const weir_schedule *s, size_t *height);
void        weir_budget_context_free(weir_budget_context *f);

#endif
