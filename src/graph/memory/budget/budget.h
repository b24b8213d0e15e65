/* budget.h - a graph is made to fit a number of bytes.
 * Defined in budget.c, region.c and replan.c. */
#ifndef WEIR_GRAPH_MEMORY_BUDGET_BUDGET_H
#define WEIR_GRAPH_MEMORY_BUDGET_BUDGET_H

#include "graph/plan/plan.h"

/* Bytes that "512MB", "0.5GiB", "4096" or a share ("75%" of `whole`) stand for. */
weir_status weir_budget_parse(const char *text, size_t whole, size_t *bytes);

/* Of the options that say how a budget is met: names and numbers that mean nothing are ERR_INVALID,
 * with a budget or without. */
weir_status weir_budget_check(const weir_plan_options *options);

/* Changes g's nodes and its plan, which exists, so that persistent bytes + arena <= budget, at the
 * least extra time; ERR_BUDGET with the smallest budget known to work if that is not possible. */
weir_status weir_budget_apply(weir_graph *g, uint32_t passes, const weir_plan_options *options);

/* Drops what regions (weir_region_begin) made, where the graph is as it was recorded so far. */
weir_status weir_region_apply(weir_graph *g, uint32_t passes);

#endif
