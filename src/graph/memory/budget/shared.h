/* shared.h - one budget for several graphs of a device. */
#ifndef WEIR_GRAPH_MEMORY_BUDGET_SHARED_H
#define WEIR_GRAPH_MEMORY_BUDGET_SHARED_H

#include "graph/ir/graph.h"
#include "graph/memory/budget/from_graph.h"

/* What a graph under a shared budget needs to be planned again. */
typedef struct weir_shared_budget {
    weir_graph         *g;       /* which owns this */
    struct weir_shared_budget *next;    /* the next one of the device, in no order */
    weir_plan_options   options; /* `budget` is a number of bytes or a percentage */
    char               *text[3]; /* of options: budget, policy, cache; owned */
    uint32_t            passes;
    bool                of_device;      /* the budget is that of weir_device_set_budget */
    bool                unmet;   /* the latest planning failed: the plan must not run */
    size_t              arena;   /* bytes of the arena without a budget */
    weir_revert_record  before;  /* the nodes before the budget changed them; {0}: it did not */
} weir_shared_budget;

/* Adds the graph to those that share a budget; it must not have one yet. Copies the options, with
 * "auto" replaced by the bytes that are free now. ERR_NOMEM, or ERR_INVALID for no budget. */
weir_status weir_shared_budget_join(weir_graph *g, uint32_t passes,
                                    const weir_plan_options *options, bool of_device);

/* Frees g->shared, if there is one. */
void weir_shared_budget_leave(weir_graph *g);

/* Takes over the nodes that a schedule replaced, so that the graph can be planned again; frees them
 * if it shares no budget. Leaves the record empty. g may be NULL if the record is empty. */
void weir_shared_budget_keep(weir_graph *g, weir_revert_record *old);

/* *bytes: the most that the graph may take at a run now. A percentage is a share of what all graphs
 * that share a budget take without one: the bytes of persistent tensors plus the largest arena. */
weir_status weir_shared_budget_limit(const weir_graph *g, size_t *bytes);

/* Does the budget still hold for the graph? That of a device does until another one is set. */
bool weir_shared_budget_holds(const weir_graph *g);

/* Fails with ERR_BUDGET because `limit` is too small: names the graph, what it needs, by the
 * sentence `why` of the failed search, and what holds memory on the device. */
weir_status weir_shared_budget_refuse(const weir_graph *g, size_t limit, const char *why);

#endif
