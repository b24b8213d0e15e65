/* replan.h - what a graph keeps of its planning until it has been measured and is planned again. */
#ifndef WEIR_GRAPH_MEMORY_BUDGET_REPLAN_H
#define WEIR_GRAPH_MEMORY_BUDGET_REPLAN_H

#include "graph/memory/budget/budget_context.h"

/* For tests: the seconds to use for one run of a call, given the measured ones. */
typedef double (*weir_replan_clock)(void *ctx, const weir_call *c, double seconds);

typedef struct weir_replan {
    weir_budget_context f;      /* with the nodes as recorded, and the decisions */
    char               *policy; /* its text; NULL: auto */
    int                 steps;  /* left to be measured */
    weir_replan_clock   clock;  /* NULL: as measured */
    void               *ctx;
} weir_replan;

/* Gives the graph to which f applied a schedule a replan record, which takes over what f holds and
 * leaves f {0}. ERR_NOMEM leaves f as it is. */
weir_status weir_replan_new(weir_budget_context *f, const weir_plan_options *options);

/* Call it after a measured step of a graph with a replan record (option `profile_steps`). After the
 * last of these steps it plans the graph again and frees the record; a failure keeps the old
 * plan. */
void weir_replan_step(weir_graph *g);
void weir_replan_free(weir_graph *g);

#endif
