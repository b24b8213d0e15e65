/* report.h - writes a planned graph as text, one function per format.
 * Defined in dump.c, cost.c, dot.c, timeline.c, json.c and step_json.c.
 *
 * Instruction i and node i are the same call. */
#ifndef WEIR_GRAPH_REPORT_REPORT_H
#define WEIR_GRAPH_REPORT_REPORT_H

#include "core/text.h"
#include "graph/plan/plan.h"

/* Fails, and names the function, if the graph is NULL or not planned. */
weir_status weir_format_check(const weir_graph *g, const char *function);

/* One function per weir_text; the graph must be planned. If memory is short, the string is marked
 * as failed. */
void weir_format_graph(const weir_graph *g, weir_string *s);
void weir_format_plan(const weir_graph *g, weir_string *s);
void weir_format_cost(const weir_graph *g, weir_string *s);
void weir_format_dot(const weir_graph *g, weir_string *s);
void weir_format_timeline(const weir_graph *g, weir_string *s);
void weir_format_addresses(const weir_graph *g, weir_string *s);
void weir_format_json(const weir_graph *g, weir_string *s);
void weir_format_stepfile(const weir_graph *g, weir_string *s);

/* The instruction that awaits the transfer begun by instruction i of a plan with streams. */
uint32_t weir_awaited(const weir_graph *g, uint32_t i);

/* Writes the step as the JSON that planners exchange. name: NULL for the graph's number; seconds as
 * below. */
void weir_show_step(const weir_graph *g, const char *name, const double *seconds, weir_string *s);

/* Writes "tensors": [...], "ops": [...] of the step description. seconds[i] of instruction i; NULL,
 * or a value below 0, means the roofline model's. recomputed: with nodes that the memory planner
 * added; else the step without them. */
void weir_format_lists(const weir_graph *g, const double *seconds, bool recomputed, weir_string *s);

#endif
