/* collective_times.h - explains how long the collectives of a planned graph take: as predicted,
 * and as profiled where it was. */
#ifndef WEIR_GRAPH_MEMORY_EXPLAIN_COLLECTIVE_TIMES_H
#define WEIR_GRAPH_MEMORY_EXPLAIN_COLLECTIVE_TIMES_H

#include "core/text.h"
#include "graph/plan/plan.h"

/* Appends a line with the sums and one for each collective; nothing for a plan without any. If
 * memory runs out, the string is marked as failed. */
void weir_explain_collectives(const weir_plan *p, weir_string *s);

#endif
