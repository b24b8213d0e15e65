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

/* A trainable tensor of floats: gradients are computed for it. It lives until you release it.
 * name (copied, may be NULL) appears in messages, dumps and checkpoints. */
WEIR_API weir_tensor *weir_param(weir_device *d, weir_desc desc, const char *name);

/* A tensor that operations update but nothing differentiates (momentum, running mean). You own it.
 */
WEIR_API weir_tensor *weir_state(weir_device *d, weir_desc desc, const char *name);

/* Copies `bytes` of host data, row-major in the order of the dims, into the tensor, at once, even
 * while a graph is being recorded. bytes must equal weir_tensor_bytes. A recorded result cannot be
 * written. */
WEIR_API weir_status weir_write(weir_tensor *t, const void *data, size_t bytes);

/* Copies the tensor to the host, row-major. A recorded result can be read after its graph has run,
 * if it was kept. Reading never starts a run. */
WEIR_API weir_status weir_read(const weir_tensor *t, void *data, size_t bytes);

/* Fill parameters, states and inputs at once: with a constant; uniform in [lo, hi), lo <= hi, which
 * f16 and bf16 may round up to hi; normal, stddev >= 0. The last two draw from the device's random
 * stream. */
WEIR_API weir_status weir_write_fill(weir_tensor *t, double value);
WEIR_API weir_status weir_write_uniform(weir_tensor *t, double lo, double hi);
WEIR_API weir_status weir_write_normal(weir_tensor *t, double mean, double stddev);

/* Turns a result that was computed with the graph off into a state, as if made by weir_state and
 * written: operations may update it, graphs read and update it from run to run, and its memory
 * counts as persistent. Other handles of the same elements see the updates. Results of graphs,
 * results that a gradient flows through, and views are refused; params, states and inputs stay as
 * they are. */
WEIR_API weir_status weir_tensor_make_state(weir_tensor *t);

/* The host address of the elements, and the stride along each axis in elements (4-D floats are
 * channels-last; an axis of a view may have stride 0). For params, states and inputs, which are
 * zeroed if they were never written and count as written from then on; for results computed with
 * the graph off; for outputs of a planned graph, which each run writes. The address stays valid
 * while the handle is held and the device is open. A write there counts as a change for gradients
 * (graph.h): calls on the tape compare all elements of such memory. ERR_DEVICE if the host cannot
 * reach the device's memory, ERR_STATE for recorded results. */
WEIR_API weir_status weir_tensor_memory(weir_tensor *t, void **data,
                                        int64_t stride[WEIR_MAX_DIMS]);

/* Keeps a result after the step. In a graph it becomes an output that lives until the graph is
 * freed; in a weir_step it lives until the step's next run; otherwise its scope decides. Returns t.
 * Handles of results that were not kept live as long as the graph, so that reading their elements
 * is an error that says so; of freed graphs the device keeps the last 1024 handles for it. */
WEIR_API weir_tensor *weir_keep(weir_tensor *t);

/* One more reference to hold / one less; release(NULL) is fine. retain returns t. */
WEIR_API weir_tensor *weir_retain(weir_tensor *t);
WEIR_API void         weir_release(weir_tensor *t);

/* A handle of the same value that does not keep its elements alive; you own it. It has the value's
 * desc and stands for the value in gradient functions (y, loss, wrt, x); operations and weir_read
 * refuse it. For a binding whose own tape names results that the planner may still drop. */
WEIR_API weir_tensor *weir_hollow(weir_tensor *t);

/* Properties of the value; these calls never wait for elements. */
WEIR_API weir_desc    weir_tensor_desc(const weir_tensor *t);
WEIR_API size_t       weir_tensor_bytes(const weir_tensor *t);      /* of the elements, row-major */
WEIR_API weir_device *weir_tensor_device(const weir_tensor *t);     /* borrowed */
WEIR_API const char  *weir_tensor_name(const weir_tensor *t);       /* "" if it has none */
WEIR_API bool         weir_tensor_needs_grad(const weir_tensor *t);

/* Sets whether later calls carry a gradient to t, for weir_gradients and the like: any f32 or f64
 * tensor that is not the result of a call on the tape. On for params at first; off freezes one. */
WEIR_API weir_status weir_tensor_set_needs_grad(weir_tensor *t, bool on);

/* Sets whether weir_backward, and so weir_minimize, collects the gradient of t in later calls. On
 * for params at first. On also makes t need a gradient; off leaves that as it is. */
WEIR_API weir_status weir_tensor_set_trainable(weir_tensor *t, bool on);

/* Results made between begin and end die at end, unless retained. Scopes nest. With the graph off,
 * make each training step a scope, or its results pile up until the device closes. */
WEIR_API weir_status weir_scope_begin(weir_device *d);
WEIR_API weir_status weir_scope_end(weir_device *d);

/* Releases what the innermost scope holds so far and leaves it open. A graph being recorded is such
 * a scope; with no scope open it is the device's. For bindings that retain each handle they use. */
WEIR_API weir_status weir_scope_clear(weir_device *d);

/* Moves a result to the enclosing scope, so that a function can close its scope and return it. */
WEIR_API weir_tensor *weir_escape(weir_tensor *t);

#ifdef __cplusplus
}
#endif
#endif
