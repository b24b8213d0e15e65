/* wire_rows.h - draws computing and collectives over time, below the timeline of a plan. */
#ifndef WEIR_GRAPH_REPORT_WIRE_ROWS_H
#define WEIR_GRAPH_REPORT_WIRE_ROWS_H

#include "graph/plan/plan.h"
#include "graph/report/svg.h"

/* Pixels that the rows need below the axis; 0 for a plan without collectives. */
int weir_wire_rows_height(const weir_plan *p);

/* Draws them: computing and the wire as predicted, and computing as profiled, if it was. Draws
 * nothing for a plan without collectives. If memory runs out, the string is marked as failed. */
void weir_draw_wire_rows(weir_chart *c, const weir_graph *g);

#endif
