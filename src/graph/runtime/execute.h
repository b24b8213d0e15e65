/* execute.h - running: one call at once, a call on bare pointers, a whole plan. */
#ifndef WEIR_GRAPH_RUNTIME_EXECUTE_H
#define WEIR_GRAPH_RUNTIME_EXECUTE_H

#include "core/tensor.h"
#include "device/device.h"
#include "graph/plan/plan.h"

/* Graph off: gives the outputs memory, borrows a workspace, runs. */
weir_status weir_run_once(weir_device *d, const weir_call *c, weir_tensor *const *in,
                          weir_tensor *const *out, uint64_t rng);

/* Runs a call on memory of the caller's, with a random position of its own if the op draws. b: the
 * block, NULL if none, that operand `operand` (inputs, then outputs) lies in, for guard zones. */
weir_status weir_run_raw(weir_device *d, const weir_call *c, void *const *src, void *const *dst,
                         int operand, const weir_block *b);

/* Gives the arena and the outputs memory, checks that inputs were written, fills in every pointer.
 */
weir_status weir_plan_bind(weir_graph *g);

#endif
