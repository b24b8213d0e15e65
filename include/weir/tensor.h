/* tensor.h - make, write, read, keep, retain and release tensors. SPDX-License-Identifier:
 * Apache-2.0
 *
 * Ownership: weir_input, weir_param and weir_state give a reference you own (weir_release).
 * Results of operations are borrowed from the innermost scope of the device and die with it;
 * weir_retain makes one yours. A graph being recorded is a scope. */
#ifndef WEIR_TENSOR_PUBLIC_H
#define WEIR_TENSOR_PUBLIC_H

#include "weir/base.h"
#include "weir/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_tensor weir_tensor;

/* A tensor the host writes: data, labels. Not differentiated. You own it. */
WEIR_API weir_tensor *weir_input(weir_device *d, weir_desc desc);

/* A trainable tensor of floats: gradients are computed for it. Its memory lives until released. You
 * own it.
 * name (copied, may be NULL) is used in messages, dumps and checkpoints. */
WEIR_API weir_tensor *weir_param(weir_device *d, weir_desc desc, const char *name);

/* A tensor that operations update but nothing differentiates (momentum, running mean). You own it.
 */
WEIR_API weir_tensor *weir_state(weir_device *d, weir_desc desc, const char *name);

/* Copies `bytes` of host data, row-major in the order of the dims, into the tensor, at once - while
 * a graph is being recorded too. bytes must be exactly the tensor's. A recorded result cannot be
 * written. */
WEIR_API weir_status weir_write(weir_tensor *t, const void *data, size_t bytes);

/* Copies the tensor to the host, row-major. A recorded result can be read after its graph has run,
 * if it was kept. Never runs anything by itself. */
WEIR_API weir_status weir_read(const weir_tensor *t, void *data, size_t bytes);

/* Fill at once, for parameters, state and inputs: a constant; uniform in [lo, hi), which f16 and
 * bf16 may round up to hi, not lo > hi; normal, not stddev < 0. The random ones
 * draw from the device's stream. */
WEIR_API weir_status weir_write_fill(weir_tensor *t, double value);
WEIR_API weir_status weir_write_uniform(weir_tensor *t, double lo, double hi);
WEIR_API weir_status weir_write_normal(weir_tensor *t, double mean, double stddev);

/* A result that was computed with the graph off becomes a state, as if made by weir_state and
 * written: operations may update it, graphs read and update it from run to run, its memory counts
 * as persistent. Other handles of the same elements see the updates. Refuses results of graphs,
 * results that a gradient flows through, and views; params, states and inputs stay what they are.
 */
WEIR_API weir_status weir_tensor_make_state(weir_tensor *t);

/* Where the elements lie, in the address space of the host, and how many elements apart along each
 * axis (4-D floats are channels-last; an axis of a view may have 0). Of params, states and inputs,
 * which are zero then if nothing was written before and count as written; of results computed with
 * the graph off; of outputs of a planned graph, which each run writes. The address stays good as
 * long as the handle is held and the device open. What is written there counts as a change for
 * gradients (graph.h): calls on the tape look at all elements of such memory for it. Devices whose
 * memory the host cannot reach: ERR_DEVICE; recorded results: ERR_STATE. */
WEIR_API weir_status weir_tensor_memory(weir_tensor *t, void **data,
                                        int64_t stride[WEIR_MAX_DIMS]);

/* Marks a result as wanted after the step. In a graph it becomes an output that lives until the
 * graph is freed; in a weir_step it lives until the step's next run; otherwise its scope decides.
 * Handles of a graph's scope whose results were not kept live as long as the graph: asking for
 * their elements is an error that says so. Of freed graphs the device keeps the last 1024 handles
 * for that. Returns t. */
WEIR_API weir_tensor *weir_keep(weir_tensor *t);

/* One more reference to hold / one less; release(NULL) is fine. retain returns t. */
WEIR_API weir_tensor *weir_retain(weir_tensor *t);
WEIR_API void         weir_release(weir_tensor *t);

/* A handle of the same value that keeps none of its elements alive; you own it. It tells its desc
 * and stands for the value in gradient functions (y, loss, wrt, x); operations and weir_read refuse
 * it. For a binding whose own tape names results that the planner may still drop. */
WEIR_API weir_tensor *weir_hollow(weir_tensor *t);

/* What a handle knows of its value; none of these waits for elements. */
WEIR_API weir_desc    weir_tensor_desc(const weir_tensor *t);
WEIR_API size_t       weir_tensor_bytes(const weir_tensor *t);      /* of the elements, row-major */
WEIR_API weir_device *weir_tensor_device(const weir_tensor *t);     /* borrowed */
WEIR_API const char  *weir_tensor_name(const weir_tensor *t);       /* "" if it has none */
WEIR_API bool         weir_tensor_needs_grad(const weir_tensor *t);

/* Whether calls made from now on carry a gradient to t, so that weir_gradients and the like may be
 * asked for it: of any f32 or f64 tensor that no taped call made. Params do; off freezes one. */
WEIR_API weir_status weir_tensor_set_needs_grad(weir_tensor *t, bool on);

/* Whether weir_backward (so weir_minimize too) collects the gradient of t, in calls made from now
 * on. Params are trainable. On makes it need a gradient as well; off leaves that as it is. */
WEIR_API weir_status weir_tensor_set_trainable(weir_tensor *t, bool on);

/* Results made between begin and end die at end, unless retained. Scopes nest. With the graph off
 * one training step should be a scope, or its results pile up until the device closes. */
WEIR_API weir_status weir_scope_begin(weir_device *d);
WEIR_API weir_status weir_scope_end(weir_device *d);

/* Releases what the innermost scope holds so far (the root's, if none is open; that of the graph
 * being recorded inside one) and leaves it open. For bindings that retain every handle they use. */
WEIR_API weir_status weir_scope_clear(weir_device *d);

/* Moves a result to the enclosing scope, so that a function can close its scope and return it. */
WEIR_API weir_tensor *weir_escape(weir_tensor *t);

#ifdef __cplusplus
}
#endif
#endif
