/* execute.h - runs a whole plan.
 * Defined in execute.c and measure.c. */
#ifndef WEIR_GRAPH_RUNTIME_EXECUTE_H
#define WEIR_GRAPH_RUNTIME_EXECUTE_H

#include "graph/plan/plan.h"

/* Gives arena and outputs memory, checks that inputs were written, and sets every pointer. */
weir_status weir_plan_bind(weir_graph *g);

/* Are the pointers still those of the device? */
bool weir_plan_is_bound(const weir_graph *g);

/* Runs the bound plan once. profile: adds up the seconds of its instructions. */
weir_status weir_plan_run(weir_graph *g, bool profile);

/* Binds the plan and calls `run` for one run of it; *peak: bytes from the start of the arena to the
 * highest one that changed. */
weir_status weir_plan_measure(weir_graph *g, weir_status (*run)(weir_graph *g), size_t *peak);

#endif
