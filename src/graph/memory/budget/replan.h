/* replan.h - the record of a graph whose first steps are measured before it is planned again. */
#ifndef WEIR_GRAPH_MEMORY_BUDGET_REPLAN_H
#define WEIR_GRAPH_MEMORY_BUDGET_REPLAN_H

#include "graph/memory/budget/budget_context.h"

/* For tests: returns the seconds to use for one run of a call, given the measured ones. */
typedef double (*weir_replan_clock)(void *ctx, const weir_call *c, double seconds);

typedef struct weir_replan {
    weir_budget_context f;      /* with the recorded nodes and the decisions */
    char               *policy; /* its name and variant, owned; NULL: auto */
    weir_replan_clock   clock;  /* NULL: seconds as measured */
    void               *ctx;
} weir_replan;

/* Gives the graph to which f has applied a schedule a replan record, which takes over the contents
 * of f and leaves it {0}. policy: its name and variant; NULL: auto. Returns WEIR_OK, or ERR_NOMEM
 * with f unchanged. */
weir_status weir_replan_new(weir_budget_context *f, const char *policy);

/* Plans a graph with a replan record again if the profiled runs of its plan took another time than
 * predicted, and frees the record; a failure keeps the old plan. */
void weir_replan_graph(weir_graph *g);
void weir_replan_free(weir_graph *g);

#endif
