/* replan.h - measured, then guided: what a graph keeps of its planning until it is planned
 * again. */
#ifndef WEIR_GRAPH_MEMORY_BUDGET_REPLAN_H
#define WEIR_GRAPH_MEMORY_BUDGET_REPLAN_H

#include "graph/memory/budget/budget_context.h"

/* Seconds of one run of a call, given those that were measured: for tests. */
typedef double (*weir_replan_clock)(void *ctx, const weir_call *c, double seconds);

typedef struct weir_replan {
    weir_budget_context f;      /* with the nodes as they were, and the decisions */
    char               *policy; /* its text; NULL: auto */
    int                 steps;  /* to be measured still */
    weir_replan_clock   clock;  /* NULL: as measured */
    void               *ctx;
} weir_replan;

/* The graph that f has expanded gets a guide, which takes over what f holds: f is {0} then.
 * ERR_NOMEM leaves f as it is. */
weir_status weir_replan_new(weir_budget_context *f, const weir_plan_options *options);

/* A graph with a guide (option `guided`) has run a measured step: it is planned again when it has
 * run enough of them, and has no guide then. What goes wrong leaves its plan as it is. */
void weir_replan_step(weir_graph *g);
void weir_replan_free(weir_graph *g);

#endif
