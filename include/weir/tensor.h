/* tensor.h - make, write, read, keep, retain and release tensors.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Tensors have any shape and dtype unless a function says otherwise.
 *
 * Ownership. weir_input, weir_param and weir_state return a reference that you own (weir_release).
 * Results of operations are borrowed from the innermost scope of the device and die with it;
 * weir_retain makes one yours. A graph being recorded is a scope.
 *
 * Errors. A NULL tensor or device fails with the status of the earlier mistake that made it NULL,
 * else ERR_INVALID. A closed device is ERR_DEVICE. New tensors need memory: ERR_NOMEM, and
 * ERR_BUDGET with the graph off under a budget. Functions that return a tensor return NULL then.
 *
 * Threads: see device.h; a tensor belongs to the thread of its device. */
#ifndef WEIR_TENSOR_PUBLIC_H
#define WEIR_TENSOR_PUBLIC_H

#include "weir/base.h"
#include "weir/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A handle of a value: elements of one type in up to WEIR_MAX_DIMS axes, on one device. Handles are
 * counted references; several may stand for one value. */
typedef struct weir_tensor weir_tensor;

/* A tensor of shape and dtype desc that the host writes: data, labels. Not differentiated. You own
 * it. ERR_DTYPE or ERR_SHAPE for a desc that describes no tensor, here and below. */
WEIR_API weir_tensor *weir_input(weir_device *d, weir_desc desc);

/* A trainable tensor of any float type (else ERR_DTYPE): gradients are computed for it. You own it.
 * name (copied, may be NULL) appears in messages, dumps and checkpoints. */
WEIR_API weir_tensor *weir_param(weir_device *d, weir_desc desc, const char *name);

/* A tensor that operations update but nothing differentiates (momentum, running mean). You own it.
 * name: as above. */
WEIR_API weir_tensor *weir_state(weir_device *d, weir_desc desc, const char *name);

/* Copies `bytes` of host data, row-major in the order of the dims, into the tensor, at once, even
 * while a graph is being recorded; into a view of a param, state or input, too, if the view was
 * made with the graph off. data is only read during the call. ERR_SHAPE unless bytes equals
 * weir_tensor_bytes; ERR_STATE for the result of an operation. */
WEIR_API weir_status weir_write(weir_tensor *t, const void *data, size_t bytes);

/* Copies the tensor's elements to the host, row-major, into `bytes` bytes at data. ERR_SHAPE unless
 * bytes equals weir_tensor_bytes. Reading never starts a run: a recorded result can be read after
 * its graph has run, if it was kept, else ERR_STATE, as for elements that were never written.
 * Failures of work that a card has queued are reported here. */
WEIR_API weir_status weir_read(const weir_tensor *t, void *data, size_t bytes);

/* Fill parameters, states and inputs at once: with value, rounded to the dtype; uniform in [lo,
 * hi), lo <= hi, which f16 and bf16 may round up to hi; normal with this mean and standard
 * deviation stddev >= 0. The last two are for floats (else ERR_DTYPE) and draw from the device's
 * random stream; ERR_INVALID for numbers that the dtype cannot hold and for a view, ERR_STATE for
 * the result of an operation. */
WEIR_API weir_status weir_write_fill(weir_tensor *t, double value);
WEIR_API weir_status weir_write_uniform(weir_tensor *t, double lo, double hi);
WEIR_API weir_status weir_write_normal(weir_tensor *t, double mean, double stddev);

/* Turns a result that was computed with the graph off into a state, as if made by weir_state and
 * written: operations may update it, graphs read and update it from run to run, and its memory
 * counts as persistent. Other handles of the same elements see the updates. Params, states and
 * inputs stay as they are. ERR_STATE for results of graphs, ERR_INVALID for views and for results
 * that a gradient flows through: copy them first. */
WEIR_API weir_status weir_tensor_make_state(weir_tensor *t);

/* The host address of the elements, and the stride along each axis in elements (4-D floats are
 * channels-last, except views; an axis of a view may have stride 0). For params, states and inputs,
 * which are zeroed if they were never written and count as written from then on; for results
 * computed with the graph off; for outputs of a planned graph, which each run writes. The address
 * stays valid while the handle is held and the device is open. A write there counts as a change for
 * gradients (graph.h): calls on the tape compare all elements of such memory. ERR_DEVICE if the
 * host cannot reach the device's memory, ERR_STATE for recorded results. */
WEIR_API weir_status weir_tensor_memory(weir_tensor *t, void **data,
                                        int64_t stride[WEIR_MAX_DIMS]);

/* Keeps a result after the step. In a graph it becomes an output that lives until the graph is
 * freed; in a weir_step it lives until the step's next run; otherwise its scope decides. Returns t.
 * Handles of results that were not kept live as long as the graph, so that reading their elements
 * fails with ERR_STATE; of freed graphs the device keeps the last 1024 handles for this. keep(NULL)
 * while a graph is being recorded makes weir_graph_end fail. */
WEIR_API weir_tensor *weir_keep(weir_tensor *t);

/* One more reference, which you own / one less; at none the value is freed. weir_retain returns t,
 * weir_release(NULL) does nothing. Both fail only while another thread is inside a call on the
 * device: weir_retain returns NULL then, and weir_release leaks the handle (ERR_STATE). */
WEIR_API weir_tensor *weir_retain(weir_tensor *t);
WEIR_API void         weir_release(weir_tensor *t);

/* A handle of the same value that does not keep its elements alive; you own it. It has the value's
 * desc and stands for the value in gradient functions (y, loss, wrt, x); operations and weir_read
 * refuse it. For a binding whose own tape names results that the planner may still drop. */
WEIR_API weir_tensor *weir_hollow(weir_tensor *t);

/* Properties of the value; these calls never wait for elements. Of NULL they return a scalar
 * f32, 0, NULL, "" and false. */
WEIR_API weir_desc    weir_tensor_desc(const weir_tensor *t);       /* shape and dtype */
WEIR_API size_t       weir_tensor_bytes(const weir_tensor *t);      /* of the elements, row-major */
WEIR_API weir_device *weir_tensor_device(const weir_tensor *t);     /* borrowed */
WEIR_API const char  *weir_tensor_name(const weir_tensor *t);       /* borrowed; "" if none */
WEIR_API bool         weir_tensor_needs_grad(const weir_tensor *t); /* a gradient flows to it */

/* Sets whether later calls carry a gradient to t, for weir_gradients and the like. On for params at
 * first; off freezes one. ERR_DTYPE unless t holds floats; ERR_INVALID for the result of a call
 * that a gradient flows through. */
WEIR_API weir_status weir_tensor_set_needs_grad(weir_tensor *t, bool on);

/* Sets whether weir_backward, and so weir_minimize, collects the gradient of t in later calls. On
 * for params at first. On also makes t need a gradient, with the same errors (ERR_DTYPE,
 * ERR_INVALID); off leaves that as it is. */
WEIR_API weir_status weir_tensor_set_trainable(weir_tensor *t, bool on);

/* Results made between begin and end die at end, unless retained. Scopes nest. With the graph off,
 * make each training step a scope, or its results pile up until the device closes. ERR_STATE for an
 * end without a begin. */
WEIR_API weir_status weir_scope_begin(weir_device *d);
WEIR_API weir_status weir_scope_end(weir_device *d);

/* Until the matching end, operations that are recorded or computed belong to `name`, for all texts
 * about a graph and for error messages: a scope "conv1" inside "layer1" makes "layer1/conv1/relu".
 * weir_apply opens one for each layer that has a name. Names do not change plans. Scopes nest, and
 * are closed in the reverse order; a name may be "block1/attention". ERR_INVALID for an empty name,
 * a control character, or a path of more than 511 bytes; ERR_STATE for an end without a begin. */
WEIR_API weir_status weir_name_scope_begin(weir_device *d, const char *name);
WEIR_API weir_status weir_name_scope_end(weir_device *d);

/* The open path, "layer1/conv1"; "" outside any scope. Valid until the next begin or end. */
WEIR_API const char *weir_name_scope(weir_device *d);

/* Names an input, parameter, state or result (copied; NULL or "": no name) for texts and errors. A
 * result of a graph is named while the graph is being recorded. States of optimisers keep the name
 * that their parameter had. ERR_INVALID for a name with control characters, ERR_STATE for a handle
 * without elements. */
WEIR_API weir_status weir_set_name(weir_tensor *t, const char *name);

/* Releases what the innermost scope holds so far and leaves it open. A graph being recorded is such
 * a scope; with no scope open it is the device's. For bindings that retain each handle they use. */
WEIR_API weir_status weir_scope_clear(weir_device *d);

/* Moves a result to the enclosing scope, so that a function can close its scope and return it. */
WEIR_API weir_tensor *weir_escape(weir_tensor *t);

#ifdef __cplusplus
}
#endif
#endif
