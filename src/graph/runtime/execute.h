/* execute.h - running a whole plan.
 * Defined in execute.c and measure.c. */
#ifndef WEIR_GRAPH_RUNTIME_EXECUTE_H
#define WEIR_GRAPH_RUNTIME_EXECUTE_H

#include "graph/plan/plan.h"

/* Gives the arena and the outputs memory, checks that inputs were written, fills in every pointer.
 */
weir_status weir_plan_bind(weir_graph *g);

/* The pointers are those of the device as it is. */
bool weir_plan_is_bound(const weir_graph *g);

/* Runs the bound plan once. profile: the seconds of its instructions are added up. */
weir_status weir_plan_run(weir_graph *g, bool profile);

/* Binds the plan, calls `run` for one run of it; *peak: bytes from the arena's begin to the highest
 * one that changed. */
weir_status weir_plan_measure(weir_graph *g, weir_status (*run)(weir_graph *g), size_t *peak);

#endif
