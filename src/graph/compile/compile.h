/* compile.h - a closed recording becomes a plan. */
#ifndef WEIR_GRAPH_COMPILE_COMPILE_H
#define WEIR_GRAPH_COMPILE_COMPILE_H

#include "graph/ir/graph.h"

/* Bit set of passes from options; an unknown name is ERR_INVALID. */
weir_status weir_passes_from(const weir_plan_options *o, uint32_t *set);

/* Runs the passes and builds the plan of a closed recording, within a budget if there is one. */
weir_status weir_plan_make(weir_graph *g, uint32_t passes, const weir_plan_options *options);

#endif
