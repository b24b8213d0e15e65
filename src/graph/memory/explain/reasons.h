/* reasons.h - explains what a planned graph does with its tensors, and why. */
#ifndef WEIR_GRAPH_MEMORY_EXPLAIN_REASONS_H
#define WEIR_GRAPH_MEMORY_EXPLAIN_REASONS_H

#include "core/text.h"
#include "graph/ir/graph.h"

/* Appends the text WEIR_TEXT_EXPLAIN of a planned graph. If memory runs out, the string is marked
 * as failed. */
void weir_format_explain(const weir_graph *g, weir_string *s);

/* Appends the same decisions as a JSON list, [[storage, "decision", "reason and cost"], ...]. A
 * copy made by the memory planner has none: its origin has. Errors as above. */
void weir_format_decisions(const weir_graph *g, weir_string *s);

#endif
