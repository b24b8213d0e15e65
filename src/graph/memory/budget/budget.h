/* budget.h - makes a graph fit a number of bytes.
 * Defined in budget.c, region.c and replan.c. */
#ifndef WEIR_GRAPH_MEMORY_BUDGET_BUDGET_H
#define WEIR_GRAPH_MEMORY_BUDGET_BUDGET_H

#include "graph/plan/plan.h"

/* Checks the options that say how a budget is met, whether or not one is set. Returns ERR_INVALID
 * for unknown names and impossible numbers. */
weir_status weir_budget_check(const weir_plan_options *options);

/* *bytes: the budget of the options, or the one that g shares; a percentage is one of what its plan
 * takes. options->budget must be set. ERR_INVALID. */
weir_status weir_budget_bytes(weir_graph *g, const weir_plan_options *options, size_t *bytes);

/* Changes the nodes of g and its existing plan such that persistent bytes + arena <= budget, with
 * the least extra time found. Returns ERR_BUDGET, naming the smallest budget known to work, if no
 * plan fits; g keeps the plan it had. */
weir_status weir_budget_apply(weir_graph *g, uint32_t passes, const weir_plan_options *options);

/* Sets *n to the memory that the planned g needs under policy and placement of the options; their
 * budget is not read. The plan stays as it is. */
weir_status weir_budget_needs(weir_graph *g, uint32_t passes, const weir_plan_options *options,
                              weir_graph_needs *n);

/* Drops and recomputes the tensors of regions (weir_region_begin) unless a budget has changed the
 * graph already. */
weir_status weir_region_apply(weir_graph *g, uint32_t passes);

#endif
