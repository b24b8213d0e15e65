/* graph.h - record a step, plan it, run it again and again; gradients; what the plan looks like.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Between weir_graph_begin and weir_graph_end operations on the device are written down, not
 * computed. weir_graph_end simplifies, fuses, orders and places them; weir_graph_run then allocates
 * and decides nothing. Parameters updated by one run are the inputs of the next. Several graphs of
 * a device (train, evaluate) share its parameters and one arena: total memory = persistent + the
 * largest arena. */
#ifndef WEIR_GRAPH_PUBLIC_H
#define WEIR_GRAPH_PUBLIC_H

#include "weir/base.h"
#include "weir/device.h"
#include "weir/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_graph weir_graph;

#define WEIR_LEVEL_RECORDED (-1)

typedef struct weir_plan_options {
    /* WEIR_LEVEL_RECORDED: no pass, recorded order. 0 (so that {0} is the default) or 1: every pass
     * that keeps all bits. */
    int level;
    /* Passes to leave out, by name (weir_pass_names), separated by commas: "fuse,order". NULL: none
     * left out. An unknown name is an error. */
    const char *disable;
    /* The most that the whole step may take at any moment - parameters, states, inputs, outputs and
     * all that is made in between (the total peak): "512MB", "0.5GiB", "4096" bytes, or "75%" of
     * what it takes without a budget. NULL: any. Values are then dropped and made anew where
     * needed, with the same bits, at the least extra time found. ERR_BUDGET if it cannot be done:
     * the sentence names the smallest budget that works. */
    const char *budget;
    /* How: "auto" or NULL; or a policy of the literature, such as "checkpoint:memory", "dtr" or
     * "capuchin" (README.md has a table). Behind a slash: what it keeps waits packed, "dtr/gist",
     * or rounded, "dtr/actnn:4" (results differ then). ERR_INVALID names all there are. */
    const char *policy;
    /* How offsets are found, whatever the policy: a strategy of weir_place_options. NULL: "auto".
     */
    const char *placement;
    /* With a budget: the kernels are timed while planning, in the memory that the budget leaves,
     * and the plan follows those times; so plans, not bits, may differ from run to run. Else times
     * are estimated. */
    bool measure;
    /* With a budget and policy auto: a folder (made if it is not there) in which plans are kept by
     * step, machine and options, for all budgets: steps planned once are planned at once, with
     * `measure` by the times that were measured then, and more room is never slower. NULL:
     * $WEIR_PLAN_CACHE; neither, or "": no cache. What is wrong with it is no error: see
     * weir_graph_stats. */
    const char *cache;
    /* With a budget and policy auto: so many steps are measured, call by call; if they took 10 %
     * more or less than predicted, the last of them plans the graph again by what was measured
     * (within the budget, but for the host's heap while it plans). 0: never. */
    int profile_steps;
} weir_plan_options;

/* The names of all passes in the order in which they run, separated by ", ". Static. */
WEIR_API const char *weir_pass_names(void);

/* What each of them does, a line "name: text" for each. Static. */
WEIR_API const char *weir_pass_texts(void);

/* Bytes that a text such as "512MB" or "0.5GiB" stands for. */
WEIR_API weir_status weir_bytes(const char *text, size_t *bytes);

/* Starts recording on d. One graph records at a time. You own the result: weir_graph_free. */
WEIR_API weir_graph *weir_graph_begin(weir_device *d);

/* Stops recording for a while: operations compute at once until weir_graph_resume, and other graphs
 * may be recorded. Scopes opened since the recording began are closed. A paused graph can be ended
 * as well. (weir_device_set_buffering does the same for the device's anonymous graph.) */
WEIR_API weir_status weir_graph_pause(weir_graph *g);
WEIR_API weir_status weir_graph_resume(weir_graph *g);

/* Ends the recording and plans it. Fails with the sentence of a call that failed while it was
 * recorded if the step is not what was asked for: an update or weir_minimize failed, or weir_keep
 * was given NULL. On failure the graph can only be freed. */
WEIR_API weir_status weir_graph_end(weir_graph *g, const weir_plan_options *options);

/* Runs the planned step once. */
WEIR_API weir_status weir_graph_run(weir_graph *g);

/* Frees the graph, and its outputs unless retained. Valid at any time; NULL is fine. */
WEIR_API void weir_graph_free(weir_graph *g);

typedef struct weir_graph_stats {
    size_t         nodes;              /* recorded operations */
    size_t         instructions;       /* of the plan */
    size_t         persistent_bytes;   /* parameters, states, inputs and outputs of the device */
    size_t         arena_bytes;        /* the plan's arena: the step peak */
    size_t         planned_peak_bytes; /* persistent + arena */
    size_t         lower_bound_bytes;  /* largest sum of live bytes: no placement does better */
    size_t         workspace_bytes;    /* the largest kernel workspace */
    size_t         guard_bytes;  /* of each zone round them and storages; 0: none (WEIR_GUARD) */
    size_t         streams;      /* of the device that instructions are on: 1, or more where
                                     * they run beside each other */
    size_t         budget_bytes; /* 0: none */
    size_t         unbudgeted_peak_bytes; /* planned_peak_bytes without the budget, on one queue */
    size_t         recomputed;            /* instructions that make dropped values anew */
    size_t         lossy;        /* instructions that quantise: 0 unless the policy says so */
    double         extra_ms;     /* what they take, as estimated */
    double         predicted_ms; /* of a step under its budget's plan; 0: no budget */
    double         measured_ms;  /* of the steps measured by the option `guided`; 0: none yet */
    size_t         replanned;    /* plans made by what was measured */
    weir_cache_use cache;        /* of the option `cache` */
    double         record_ms, plan_ms; /* begin to end; inside end */
    double         flops, bytes;       /* of one run, by the operations' own cost formulas */
    uint64_t       runs;
} weir_graph_stats;

/* The numbers of an ended recording; ERR_STATE before weir_graph_end. */
WEIR_API weir_status weir_graph_stats_of(const weir_graph *g, weir_graph_stats *s);

/* Runs the step once over an arena full of canaries and reports the highest arena byte that changed
 * (counted to the end of its alignment unit): the measured step peak. Equal to arena_bytes, or
 * there is a bug. It is a real run: parameters move on. */
WEIR_API weir_status weir_graph_measure(weir_graph *g, size_t *arena_peak);

typedef enum weir_text {
    WEIR_TEXT_GRAPH,         /* nodes after the passes, one line each */
    WEIR_TEXT_PLAN,          /* instructions with offsets: what runs is what is printed */
    WEIR_TEXT_COST,          /* flops, bytes, chosen kernel of each; sums by operation */
    WEIR_TEXT_DOT,           /* the graph for Graphviz */
    WEIR_TEXT_TIMELINE_SVG,  /* live bytes by kind over the instructions, planned peak marked */
    WEIR_TEXT_ADDRESSES_SVG, /* address map: lifetime x offset rectangles */
    WEIR_TEXT_JSON,          /* graph and plan as JSON */
    WEIR_TEXT_STEPFILE,      /* weir_graph_stepfile(g, NULL, WEIR_TIMES_ROOFLINE) */
    WEIR_TEXT_EXPLAIN        /* what is done with each tensor, why, and what it costs */
} weir_text;

/* Text of a planned graph; you own it (weir_text_free). NULL on failure. */
WEIR_API char *weir_graph_text(const weir_graph *g, weir_text what);

typedef enum weir_times {
    WEIR_TIMES_ROOFLINE,        /* flops / 10 TFLOP/s + bytes / 600 GB/s: of no machine */
    WEIR_TIMES_ESTIMATED,       /* as a budget's plan estimates them */
    WEIR_TIMES_MEASURED         /* each kernel is run on zeros; what cannot be is estimated */
} weir_times;

/* The planned step, as it is without a budget, in the JSON that weir_stepfile_read takes: for other
 * planners, and for planning elsewhere. name NULL: "step" and its number. You own the text
 * (weir_text_free). NULL on failure. */
WEIR_API char *weir_graph_stepfile(const weir_graph *g, const char *name, weir_times times);

/* ---- gradients ----
 *
 * A gradient reads what the forward read. If an operand whose elements it reads has been changed in
 * between - by an update, an operation in place, weir_write, the run of a graph, a write to memory
 * that weir_tensor_memory gave away, of a view as well - asking for it is an error (ERR_STATE) that
 * names the operand, who changed it and what to do: take all gradients before the change, compute
 * the forward again after it, or call the operation with a weir_copy of the value. With a graph
 * being recorded, changes are the updates recorded in it: what the host writes is read by forward
 * and gradient of the next run alike. The tape is used up to where that was found out. */

typedef struct weir_pair {
    weir_tensor *param;     /* borrowed */
    weir_tensor *grad;      /* borrowed from the innermost scope */
} weir_pair;

/* Gradients of the scalar `loss` for every trainable tensor it depends on, as recorded (or, with
 * the graph off, computed) operations. *pairs is owned by the device until the next call of
 * weir_backward on it or its close. Consumes the tape: what only a gradient needed is dropped. */
WEIR_API weir_status weir_backward(weir_tensor *loss, const weir_pair **pairs, size_t *count);

/* Gradients of the scalar `loss` for the n given tensors (trainable, or results on the way to
 * loss); grads[i] is borrowed from the innermost scope, NULL where loss does not depend on wrt[i];
 * ERR_INVALID if it depends on none of them. */
WEIR_API weir_status weir_gradients(weir_tensor *loss, size_t n, weir_tensor *const *wrt,
                                    weir_tensor **grads);

/* The same from any result y, given the gradient dy of y (same shape and type): vector-Jacobian
 * products through all calls that led to y. dy NULL: ones. */
WEIR_API weir_status weir_backward_from(weir_tensor *y, weir_tensor *dy, const weir_pair **pairs,
                                        size_t *count);
WEIR_API weir_status weir_gradients_from(weir_tensor *y, weir_tensor *dy, size_t n,
                                         weir_tensor *const *wrt, weir_tensor **grads);

/* The vector-Jacobian product of the one call that made y: given dy (shape of y) fills dx[i] for
 * the call's inputs, NULL where an input has no gradient. *n is in: room in dx, out: number of
 * inputs. */
WEIR_API weir_status weir_vjp(weir_tensor *y, weir_tensor *dy, size_t *n, weir_tensor **dx);

/* The vector-Jacobian product of all calls between x and y, each x taken as independent: what made
 * one is not looked at, whatever else it leads to (of y = add(x, relu(x)) with both operands given
 * as x each gets dy). dy[i] has shape and type of y[i]; NULL: nothing comes from y[i]. dy NULL, or
 * all NULL, with one scalar y: 1. dx[i] is borrowed from the innermost scope; NULL where nothing
 * flows, for an integer x, and for a value that stands in x earlier, which then has the whole
 * gradient. A y that is one of x gives it its dy. Consumes the calls between. */
WEIR_API weir_status weir_vjp_from(size_t ny, weir_tensor *const *y, weir_tensor *const *dy,
                                   size_t nx, weir_tensor *const *x, weir_tensor **dx);

/* Each gradient of the n pairs with its elements limited to [-limit, limit]; a NaN stays one.
 * clipped (room for n; may be pairs itself if that is writable) gets the pairs with the new
 * gradients, which are borrowed from the innermost scope. */
WEIR_API weir_status weir_clip_value(const weir_pair *pairs, size_t n, double limit,
                                     weir_pair *clipped);

/* All gradients times min(1, limit / (norm + 1e-6)), where norm, the root of the sum of the squares
 * of all elements of all of them, is summed in the order of the pairs (Pascanu et al. 2013). *norm
 * (may be NULL) gets it, a scalar f64; NULL when n is 0. */
WEIR_API weir_status weir_clip_norm(const weir_pair *pairs, size_t n, double limit,
                                    weir_pair *clipped, weir_tensor **norm);

/* Gradients of a loss that was multiplied by `scale` (a scalar f32): each times 1 / scale, in its
 * type, which is exact for powers of two. *finite gets a scalar bool: no element of any gradient is
 * an infinity or a NaN. (It is found by sums, so elements near the largest number may count as
 * such.) For unscaled see weir_clip_value. */
WEIR_API weir_status weir_unscale(const weir_pair *pairs, size_t n, weir_tensor *scale,
                                  weir_pair *unscaled, weir_tensor **finite);

/* The scale of the next step, as weir_scaler_options say: `finite` is that of this one, scale and
 * good (steps in a row that were) are f32 states, which are set. */
WEIR_API weir_status weir_scale_adjust(weir_tensor *scale, weir_tensor *good, weir_tensor *finite,
                                       double growth, double backoff, int64_t interval);

/* No tape between off (false) and the matching on (true) on this device; nests. */
WEIR_API weir_status weir_no_grad_begin(weir_device *d);
WEIR_API weir_status weir_no_grad_end(weir_device *d);

/* ---- mixed precision ---- */

/* From here to the matching end matrix products, linear layers, convolutions and attention run in
 * `half`, WEIR_BF16 or WEIR_F16: their f32 and half inputs are cast to it by recorded operations,
 * through which gradients come back. So parameters, their gradients and updates stay f32. Norms are
 * computed in f32 and return the type they were given; softmax, sums, losses, LSTM steps, exp, log
 * and pow read halves as f32; all else has the type of what it reads. Gradients are in the types of
 * the forward calls, wherever they are asked for. In a graph equal casts are one: of a weight, one
 * per step. Nests; WEIR_F32: as if no scope were open. Gradients of f16 need a scaled loss:
 * weir_scaler_new. */
WEIR_API weir_status weir_autocast_begin(weir_device *d, weir_dtype half);
WEIR_API weir_status weir_autocast_end(weir_device *d);

/* The half type of the innermost scope; WEIR_F32: none is open. */
WEIR_API weir_dtype weir_autocast_type(weir_device *d);

/* ---- memory for time: parts that are computed again ---- */

/* What is recorded between begin and end is dropped when the forward pass is done with it and
 * computed again where a gradient reads it; what forward operations outside read stays, being its
 * results. A mark for the planner, with a graph being recorded only (else ERR_STATE: use
 * weir_checkpoint); a region inside another belongs to it. Where the graph has a budget that is too
 * small for the whole step, the budget's policy decides instead: "checkpoint:manual" does the
 * same. */
WEIR_API weir_status weir_region_begin(weir_device *d);
WEIR_API weir_status weir_region_end(weir_device *d);

/* A part of a forward computation: from in to out[], which it fills with results. It computes the
 * same whenever it is called with the same elements: what it reads through ctx must not change
 * before the gradient, which is an error then. Trainable tensors read through ctx get their
 * gradients; other results that a gradient flows through must come in by in. It keeps nothing
 * (weir_keep). */
typedef weir_status (*weir_checkpoint_fn)(void *ctx, weir_tensor *const *in, weir_tensor **out);

/* Calls fn once, of which only in and out stay; the gradient calls it again and goes back through
 * that (Chen et al. 2016). All bits are those of a plain call of fn: the second call draws the same
 * random numbers and leaves updates (running statistics) out, gradients add up in the same order.
 * A callback inside runs twice. nin is 1 to 8, nout 1 to 4; nests. fn and ctx must live until the
 * gradient is taken, or nothing refers to out any more. out[i] is borrowed from the innermost
 * scope. */
WEIR_API weir_status weir_checkpoint(weir_checkpoint_fn fn, void *ctx, int nin,
                                     weir_tensor *const *in, int nout, weir_tensor **out);

/* fn[n - 1](... fn[0](in)): a chain of functions of one input and one result, cut into `segments`
 * parts of n / segments functions, each a checkpoint but the last, which takes what is left over
 * and is run plainly. ctx may be NULL, or has n pointers; the two arrays are copied. */
WEIR_API weir_status weir_checkpoint_sequential(int n, const weir_checkpoint_fn *fn,
                                                void *const *ctx, int segments, weir_tensor *in,
                                                weir_tensor **out);

/* ---- a step that runs either way ---- */

typedef struct weir_step weir_step;

/* Writes down or computes one step: called once when the graph is on, at every run when it is off.
 * Results wanted afterwards are passed to weir_keep and stored by the caller through ctx. */
typedef weir_status (*weir_step_fn)(void *ctx);

typedef struct weir_step_options {
    bool              graph;
    weir_plan_options plan;
} weir_step_options;

/* A step of the device; nothing happens until it runs. You own it: weir_step_free. */
WEIR_API weir_step *weir_step_new(weir_device *d, weir_step_fn fn, void *ctx,
                                  const weir_step_options *options);
WEIR_API weir_status weir_step_run(weir_step *s);

/* Borrowed; NULL with the graph off or before the first run. */
WEIR_API weir_graph *weir_step_graph(const weir_step *s);
WEIR_API void        weir_step_free(weir_step *s);

#ifdef __cplusplus
}
#endif
#endif
