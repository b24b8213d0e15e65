/* budget_context.h - a recorded graph on its way into a budget: what planning it, and planning it
 * again, share. */
#ifndef WEIR_GRAPH_MEMORY_BUDGET_BUDGET_CONTEXT_H
#define WEIR_GRAPH_MEMORY_BUDGET_BUDGET_CONTEXT_H

#include "graph/plan/plan.h"
#include "graph/memory/budget/cache.h"
#include "graph/memory/budget/from_graph.h"

typedef struct weir_fitter {
    weir_graph     *g;
    uint32_t        passes;
    weir_problem    problem;        /* by estimated times */
    weir_problem    timed;          /* by measured ones, if asked for */
    uint32_t       *piece_of;
    weir_cache      cache;
    weir_unexpanded old;            /* the nodes as they were */
    bool            probe;          /* plans are laid out to see their height only */
    size_t          whole, resident;    /* bytes of the step without a budget; beside the arena */
    uint8_t        *gap;            /* decisions of the plan, where the policy makes such */
    size_t          target;         /* that they were made for */
    size_t          limit;          /* of the arena */
    size_t          least;          /* smallest arena met, then named */
    size_t          movable;        /* bytes from which on parameters and states may leave */
    uint32_t        peak_task;      /* of the plan with that arena */
    weir_schedule   answer;         /* what the graph was expanded to ... */
    weir_problem   *answers;        /* ... and which of the two problems it solves; NULL: none */
} weir_fitter;

/* Bytes of what may leave the device and, as the graph is now, does not: the problem counts
 * them. */
size_t      weir_fitter_movable(const weir_fitter *f);

/* weir_fit's way of laying out (ctx: the fitter): expands and places; the graph stays expanded if
 * that is within the limit and no probe. */
weir_status weir_fitter_lay(void *ctx, const weir_schedule *s, size_t *height);
void        weir_fitter_free(weir_fitter *f);

#endif
