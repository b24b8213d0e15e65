/* measured_steps.h - the first steps of a graph, measured call by call (option `profile_steps`). */
#ifndef WEIR_GRAPH_COMPILE_MEASURED_STEPS_H
#define WEIR_GRAPH_COMPILE_MEASURED_STEPS_H

#include "graph/ir/graph.h"

/* Begins to measure a planned graph, if something follows from its times: a plan within a budget,
 * or a prediction of its collectives. */
void weir_measured_steps_begin(weir_graph *g, int steps);

/* Must be called after each profiled step while g->to_measure is above 0. The last one plans the
 * graph again if it has a replan record (replan.h), and predicts the times of its collectives from
 * the measured computing. What fails leaves plan and prediction as they were. */
void weir_measured_step(weir_graph *g);

#endif
