/* compile.h - turns a closed recording into a plan. */
#ifndef WEIR_GRAPH_COMPILE_COMPILE_H
#define WEIR_GRAPH_COMPILE_COMPILE_H

#include "graph/ir/graph.h"

/* Parses the options into a bit set of passes; ERR_INVALID for an unknown name. */
weir_status weir_passes_from(const weir_plan_options *o, uint32_t *set);

/* Runs the passes and builds the plan of a closed recording, within a budget if there is one. */
weir_status weir_plan_make(weir_graph *g, uint32_t passes, const weir_plan_options *options);

#endif
