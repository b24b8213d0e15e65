/* execute.h - running a whole plan. */
#ifndef WEIR_GRAPH_RUNTIME_EXECUTE_H
#define WEIR_GRAPH_RUNTIME_EXECUTE_H

#include "graph/plan/plan.h"

/* Gives the arena and the outputs memory, checks that inputs were written, fills in every pointer.
 */
weir_status weir_plan_bind(weir_graph *g);

#endif
