/* budget.h - makes a graph fit a number of bytes.
 * Defined in budget.c, region.c and replan.c. */
#ifndef WEIR_GRAPH_MEMORY_BUDGET_BUDGET_H
#define WEIR_GRAPH_MEMORY_BUDGET_BUDGET_H

#include "graph/plan/plan.h"

/* Parses "512MB", "0.5GiB", "4096" or a share ("75%" of `whole`) into bytes; ERR_INVALID. */
weir_status weir_budget_parse(const char *text, size_t whole, size_t *bytes);

/* Checks the options that say how a budget is met, with a budget or without: ERR_INVALID for names
 * and numbers that mean nothing. */
weir_status weir_budget_check(const weir_plan_options *options);

/* Changes g's nodes and its existing plan so that persistent bytes + arena <= budget, with the
 * least extra time; ERR_BUDGET with the smallest budget known to work if that is impossible. */
weir_status weir_budget_apply(weir_graph *g, uint32_t passes, const weir_plan_options *options);

/* Drops and recomputes what regions (weir_region_begin) made, if the graph is still as recorded. */
weir_status weir_region_apply(weir_graph *g, uint32_t passes);

#endif
