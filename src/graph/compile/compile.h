/* compile.h - turns a closed recording into a plan. */
#ifndef WEIR_GRAPH_COMPILE_COMPILE_H
#define WEIR_GRAPH_COMPILE_COMPILE_H

#include "graph/ir/graph.h"

/* Parses level and disabled passes into a bit set of passes (ir/pass_set.h). Fails with ERR_INVALID
 * for an unknown name or level. `o` NULL: the defaults. */
weir_status weir_passes_from(const weir_plan_options *o, uint32_t *set);

/* Runs the passes of the set and plans a closed recording, within the budget of the options or else
 * of the session. Fails with ERR_BUDGET if no plan fits, ERR_INVALID for wrong options, ERR_NOMEM;
 * the graph cannot be run then. */
weir_status weir_plan_make(weir_graph *g, uint32_t passes, const weir_plan_options *options);

/* Runs the passes and finds the memory that a closed recording needs; it cannot be run then. Fails
 * as weir_plan_make, but for ERR_BUDGET. */
weir_status weir_plan_needs(weir_graph *g, uint32_t passes, const weir_plan_options *options,
                            weir_graph_needs *n);

/* Plans a graph under a shared budget again, within what the budget leaves it now. On failure it
 * has a plan without a budget, which must not run (unmet), or, without memory for that, none
 * (WEIR_GRAPH_UNPLANNED). */
weir_status weir_plan_refit(weir_graph *g);

/* Plans a graph under a shared budget as if it had none. ERR_NOMEM: it has no plan then. */
weir_status weir_plan_without_budget(weir_graph *g);

#endif
