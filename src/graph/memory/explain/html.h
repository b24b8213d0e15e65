/* html.h - a plan as one web page. */
#ifndef WEIR_GRAPH_MEMORY_EXPLAIN_HTML_H
#define WEIR_GRAPH_MEMORY_EXPLAIN_HTML_H

#include "core/text.h"
#include "graph/ir/graph.h"

/* Appends the page of view.html with a planned graph's plan and decisions inside. If memory runs
 * out, the string is marked as failed. */
void weir_format_html(const weir_graph *g, weir_string *s);

#endif
