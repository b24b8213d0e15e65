/* graph.h - record a step, plan it, run it repeatedly; gradients; texts of graph and plan.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Between weir_graph_begin and weir_graph_end operations on the device are recorded, not computed.
 * weir_graph_end simplifies, fuses, orders and places them; weir_graph_run then allocates nothing
 * and decides nothing. Parameters updated by one run are the inputs of the next. Several graphs of
 * a device (train, evaluate) share its parameters and one arena: total memory = persistent + the
 * largest arena.
 *
 * Errors. A NULL argument fails with the status of the earlier mistake that made it NULL, else
 * ERR_INVALID; a closed device with ERR_DEVICE. What is not possible at the moment, such as running
 * a graph that is not planned, is ERR_STATE. Every call may need memory: ERR_NOMEM. Functions that
 * return a pointer return NULL then.
 *
 * Threads: a graph belongs to the thread of its device (device.h). */
#ifndef WEIR_GRAPH_PUBLIC_H
#define WEIR_GRAPH_PUBLIC_H

#include "weir/base.h"
#include "weir/device.h"
#include "weir/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A recorded step and, after weir_graph_end, its plan. */
typedef struct weir_graph weir_graph;

#define WEIR_LEVEL_RECORDED (-1)    /* for weir_plan_options.level */

/* How a step is planned; {0} is the default. Texts are only read during the call. */
typedef struct weir_plan_options {
    /* WEIR_LEVEL_RECORDED: no pass, recorded order. 0 (so that {0} is the default) or 1: every pass
     * that keeps all bits. */
    int level;
    /* Names of passes to skip (weir_pass_names), separated by commas: "fuse,order". NULL: run all
     * passes. An unknown name is an error. */
    const char *disable;
    /* Upper limit of the step's total peak - parameters, states, inputs, outputs and intermediates:
     * "512MB", "0.5GiB", "4096" bytes, "75%" of the peak without a budget, or "auto": what is free
     * when the graph is planned (weir_memory.auto_budget), which is what the device holds already
     * and the free memory of machine, cgroup or card, less a reserve for everything else in the
     * process: 1/16 of the total, at least 64 MiB, none on "sim". NULL: no limit. The
     * plan then recomputes or offloads values, with the same bits, in the least extra time found.
     * ERR_BUDGET if no plan fits: the sentence names the smallest budget that works. */
    const char *budget;
    /* How the budget is met: "auto" or NULL; or a policy of the literature, such as
     * "checkpoint:memory", "dtr" or "capuchin" (weir_policy_names lists all). A slash adds
     * compression of the values that wait: exact, "dtr/gist", or rounded,
     * "dtr/actnn:4" (results then differ).
     * ERR_INVALID for an unknown name lists all policies. */
    const char *policy;
    /* How offsets are found, whatever the policy: a strategy of weir_place_options. NULL: "auto".
     */
    const char *placement;
    /* With a budget: time the kernels while planning, in the memory that the budget leaves, and
     * plan by those times; so plans, but not bits, may differ from run to run. Otherwise times are
     * estimated. */
    bool measure;
    /* With a budget and policy auto: a folder, created if it is missing, that stores plans by step,
     * machine and options, for all budgets. A step in it is planned at once, with `measure` by the
     * stored times, and a larger budget never gives a slower plan. NULL: $WEIR_PLAN_CACHE; that
     * unset, or "": no cache. A faulty cache is no error: see weir_graph_stats. */
    const char *cache;
    /* The number of steps to measure, call by call; 0: none. With a budget and policy auto, if they
     * differ from the prediction by over 10 %, the last of them plans the graph again from the
     * measurements (within the budget, except for the host's heap during planning). In a graph with
     * collectives, exposed_predicted_ms follows from the measured computing from then on. */
    int profile_steps;
    /* The budget is one for all graphs of the device that are planned with this option (or under
     * the budget of weir_device_set_budget): each run counts all persistent tensors that are on the
     * device by then, and an arena that a larger graph left is freed where it does not fit. A
     * percentage is a share of what these graphs take without a budget: of the persistent bytes and
     * the largest of their arenas. A plan that other graphs, or tensors made since, left too little
     * is made again by the graph's next run, with the same bits, by the same options. A plan that
     * fits stays. */
    bool shared_budget;
} weir_plan_options;

/* The names of all passes in the order in which they run, separated by ", ". Static. */
WEIR_API const char *weir_pass_names(void);

/* What each of them does, a line "name: text" for each. Static. */
WEIR_API const char *weir_pass_texts(void);

/* *bytes becomes the bytes that a text such as "512MB" or "0.5GiB" stands for. ERR_INVALID for a
 * text that is no number of bytes. */
WEIR_API weir_status weir_bytes(const char *text, size_t *bytes);

/* Starts recording on d. One graph records at a time (else ERR_STATE). You own the result:
 * weir_graph_free. */
WEIR_API weir_graph *weir_graph_begin(weir_device *d);

/* Pauses the recording: operations compute at once until weir_graph_resume, and other graphs may be
 * recorded. Scopes opened since the recording began are closed. A paused graph can also be ended.
 * (weir_device_set_buffering, off and on, does the same for the graph that is being recorded.) */
WEIR_API weir_status weir_graph_pause(weir_graph *g);
WEIR_API weir_status weir_graph_resume(weir_graph *g);

/* Ends the recording and plans it. If the recorded step is incomplete, because an update or
 * weir_minimize failed or weir_keep was given NULL, it fails with the sentence of that call.
 * ERR_INVALID for options that make no sense, ERR_BUDGET if no plan fits the budget, ERR_CANCELLED
 * if the callback of weir_device_set_progress says so. A graph with collectives must be the same on
 * all ranks: ERR_COMM if it is not, and the failure of any rank (weir/comm.h). On failure the graph
 * can only be freed. options NULL: all defaults. */
WEIR_API weir_status weir_graph_end(weir_graph *g, const weir_plan_options *options);

/* The memory that a step needs: bytes of its total peak, as in weir_plan_options.budget. */
typedef struct weir_graph_needs {
    size_t whole_bytes;         /* planned peak without a budget, on one stream */
    size_t least_bytes;         /* of the smallest plan found: weir_graph_end, with the same
                                 * options, accepts any budget from here on */
    size_t floor_bytes;         /* proven: no plan of any kind needs less */
} weir_graph_needs;

/* Ends the recording like weir_graph_end, but finds the memory that the step needs instead of a
 * plan that is fast, in a fraction of the time. Of the options, budget, measure, cache,
 * profile_steps and shared_budget have no influence. Fails as weir_graph_end does, but never with
 * ERR_BUDGET, and *needs is then zero. In either case the graph can only be freed: nothing of it
 * was computed, and the values that were kept are gone. */
WEIR_API weir_status weir_graph_end_needs(weir_graph *g, const weir_plan_options *options,
                                          weir_graph_needs *needs);

/* Runs the planned step once. It fails with the status of the operation or callback that failed
 * (ERR_INDEX for an index out of range), with ERR_STATE before weir_graph_end or if the host holds
 * an address of a value that must leave memory (weir_tensor_memory), with ERR_NOMEM if the arena
 * cannot be allocated, with ERR_IO if the spill file fails. Updates that were done by then stay
 * done; its random numbers are returned to the stream, so that a repeated run draws them again.
 * Under a shared budget that other graphs or tensors left too small for its plan, it first plans
 * the graph again; it fails with ERR_BUDGET, having computed nothing, if no plan fits, and with
 * ERR_CANCELLED if the callback of weir_device_set_progress says so. */
WEIR_API weir_status weir_graph_run(weir_graph *g);

/* ---- a graph with a stop ----
 *
 * The step is recorded and planned as one, within one budget, and runs in two halves: a program
 * that computes the gradient of the loss itself runs the forward pass, reads its results, writes
 * their gradients to inputs that were recorded behind the stop, and runs the backward pass. Both
 * halves together compute what weir_graph_run computes, bit for bit; random numbers of both are
 * those of one run. Between them the graph keeps the device's arena with all that the second half
 * reads. A graph that runs meanwhile gets an arena of its own if the budgets of both allow it, else
 * it fails with ERR_BUDGET (under a shared budget it is planned again first), or with ERR_STATE if
 * the plans of both keep values in the offload store. A graph with a stop uses one stream of a
 * device and cannot be saved in a file. */

/* Marks the stop: what is recorded from here on belongs to the second half. ERR_STATE unless g is
 * being recorded, and for a second stop. */
WEIR_API weir_status weir_graph_stop(weir_graph *g);

/* Runs what was recorded before the stop. It fails as weir_graph_run does, and then may be repeated
 * or not; and with ERR_STATE for a graph without a stop, or if its second half is still to run. */
WEIR_API weir_status weir_graph_run_to_stop(weir_graph *g);

/* Runs what was recorded after the stop. ERR_STATE unless the first half has run since, or if a
 * tensor that both halves read, or that the first made and the second reads, has been changed in
 * between: by weir_write, an operation or the run of another graph (writes to an address from
 * weir_tensor_memory are not noticed). Else it fails as weir_graph_run does. After a failure the
 * first half must run again; its updates and those of the second half that were done stay done. */
WEIR_API weir_status weir_graph_run_rest(weir_graph *g);

/* Gives the second half up: the arena is free for others, and the first half may run again. The
 * random numbers of the run stay used. Does nothing if no second half is to run. */
WEIR_API weir_status weir_graph_drop_rest(weir_graph *g);

/* Frees the graph, and its outputs unless retained. Valid at any time; NULL is fine. */
WEIR_API void weir_graph_free(weir_graph *g);

/* Numbers of a planned graph; bytes, milliseconds, counts. */
typedef struct weir_graph_stats {
    size_t         nodes;              /* recorded operations */
    size_t         instructions;       /* of the plan */
    size_t         persistent_bytes;   /* parameters, states, inputs and outputs of the device */
    size_t         arena_bytes;        /* the plan's arena: the step peak */
    size_t         planned_peak_bytes; /* persistent + arena */
    size_t         lower_bound_bytes;  /* largest sum of live bytes: no placement does better */
    size_t         workspace_bytes;    /* the largest kernel workspace */
    size_t         guard_bytes;  /* of each zone around workspaces and storages; 0: no zones */
    size_t         streams;      /* device streams that instructions use; above 1, some overlap */
    size_t         budget_bytes; /* 0: no budget */
    size_t         unbudgeted_peak_bytes; /* planned_peak_bytes without the budget, on one stream,
                                           * with no collective beside it */
    size_t         recomputed;            /* instructions that recompute dropped values */
    size_t         lossy;        /* instructions that quantise: 0 unless the policy says so */
    double         extra_ms;     /* estimated time that the budget adds to a step */
    double         predicted_ms; /* of a step under its budget's plan; 0: no budget */
    double         measured_ms;  /* of the steps that profile_steps measured; 0: not yet */
    size_t         replanned;    /* plans made from measurements */
    weir_cache_use cache;        /* of the option `cache` */
    double         record_ms, plan_ms; /* begin to end; inside end */
    double         flops, bytes;       /* of one run, by the operations' cost formulas */
    uint64_t       runs;               /* finished so far */
    size_t         dropouts;           /* recorded calls of weir_dropout */
    size_t         batch_statistics;   /* recorded calls of weir_batch_norm in training; with either
                                        * number above 0 results depend on the step or on the other
                                        * samples of the batch: record for use in evaluation */
    bool           trains;             /* it computes gradients or updates */
    size_t         refitted;           /* plans made again because a shared budget left less */
    size_t         first_half;         /* instructions before the stop of weir_graph_stop */
    size_t         collectives;        /* of the plan, among its instructions */
    /* Of a step, if how long each of them takes is known: by weir_comm_measure before the recording
     * ended, or on a simulated device; else 0. Computing takes its estimated times, until
     * profile_steps has measured it. */
    double         wire_predicted_ms;  /* in which a collective is under way */
    double         exposed_predicted_ms;       /* in which computing waits for one: beside
                                                * predicted_ms */
} weir_graph_stats;

/* Fills s with the numbers of an ended recording; ERR_STATE before weir_graph_end. */
WEIR_API weir_status weir_graph_stats_of(const weir_graph *g, weir_graph_stats *s);

/* What is probably wrong with a graph for inference: a sentence that names the operations of
 * training that it has, dropout or batch norm with the statistics of the batch, if the planned
 * graph g has no gradients and no updates. It was recorded without weir_model_train(m, false), so
 * results depend on the step or on the other samples of the batch. "" if there is nothing to say,
 * for NULL and for a graph that is not planned. Static; never fails. Ask after weir_graph_load: the
 * library prints nothing. */
WEIR_API const char *weir_graph_remark(const weir_graph *g);

/* Costs of recorded operations, once each. */
typedef struct weir_graph_cost {
    size_t operations;          /* their number */
    double flops;               /* floating-point operations, by the operations' cost formulas */
    double multiply_adds;       /* multiplications with an addition in convolutions, matrix
                                 * products, attention and LSTM, without biases: the MACs of the
                                 * literature */
    double bytes;               /* read and written, every operand once */
} weir_graph_cost;

/* Fills c with the costs of what has been recorded so far, at any time: before weir_graph_end as
 * the program called it, after it as the passes left it. */
WEIR_API weir_status weir_graph_cost_of(const weir_graph *g, weir_graph_cost *c);

/* Runs the step once over an arena full of canaries and reports the highest arena byte that changed
 * (rounded up to the alignment): the measured step peak, in bytes. It equals arena_bytes; anything
 * else is a bug. It is a real run: parameters are updated. Fails as weir_graph_run (ERR_BUDGET
 * too). */
WEIR_API weir_status weir_graph_measure(weir_graph *g, size_t *arena_peak);

/* The first operation of a run, in the order of execution, whose result holds a NaN or an infinity.
 * Texts are cut to their length. */
typedef struct weir_nonfinite {
    bool    found;          /* false: all results are finite, and the rest is empty */
    char    name[256];      /* of the call, "layer3/conv2/conv2d:grad" */
    char    op[128];        /* the operation that ran, "conv2d_grad_w" */
    size_t  instruction;    /* its number in WEIR_TEXT_PLAN */
    bool    updates;        /* the values are those of an input that it updates */
    int     result;         /* number of the result, or of that input */
    int64_t index;          /* of the first such element, row-major in the dims of the result */
    double  value;          /* NAN, INFINITY or -INFINITY */
    int     bad_input;      /* first input that was not finite before the run; -1: all inputs are
                             * finite, so the operation itself made the value */
    char    input[128];     /* the name of that parameter, state or input, "" if it has no name */
} weir_nonfinite;

/* Runs the planned step once and looks at every result. Afterwards parameters, states and the
 * random stream are as before; kept results have the values of this run. The host holds a copy of
 * what the step overwrites meanwhile, outside any budget. nan_only: an infinity, such as that of an
 * attention mask, is fine. Fails as weir_graph_run (ERR_BUDGET too), and with ERR_NOMEM. */
WEIR_API weir_status weir_graph_find_nonfinite(weir_graph *g, bool nan_only,
                                               weir_nonfinite *found);

/* What weir_graph_text describes, and how. */
typedef enum weir_text {
    WEIR_TEXT_GRAPH,         /* nodes after the passes, one line each */
    WEIR_TEXT_PLAN,          /* instructions with offsets: what runs is what is printed */
    WEIR_TEXT_COST,          /* flops, bytes, chosen kernel of each; sums by operation */
    WEIR_TEXT_DOT,           /* the graph for Graphviz */
    WEIR_TEXT_TIMELINE_SVG,  /* live bytes by kind over the instructions, planned peak marked */
    WEIR_TEXT_ADDRESSES_SVG, /* address map: lifetime x offset rectangles */
    WEIR_TEXT_JSON,          /* graph and plan as JSON */
    WEIR_TEXT_STEPFILE,      /* weir_graph_stepfile(g, NULL, WEIR_TIMES_ROOFLINE) */
    WEIR_TEXT_EXPLAIN,       /* the plan's decision for each tensor, its reason and its cost */
    WEIR_TEXT_HTML           /* all of it as one web page: zoom, search, comparison of two plans */
} weir_text;

/* Text of a planned graph; you own it (weir_text_free). NULL on failure. */
WEIR_API char *weir_graph_text(const weir_graph *g, weir_text what);

/* Where the seconds of operations in a step file come from. */
typedef enum weir_times {
    WEIR_TIMES_ROOFLINE,        /* flops / 10 TFLOP/s + bytes / 600 GB/s: the same everywhere */
    WEIR_TIMES_ESTIMATED,       /* as a budget's plan estimates them */
    WEIR_TIMES_MEASURED         /* runs each kernel on zeros; estimates those that cannot run */
} weir_times;

/* The step, as planned without a budget, in the JSON that weir_stepfile_read takes: for other
 * planners, and for planning on another machine. name NULL: "step" and its number. You own the text
 * (weir_text_free). NULL on failure. */
WEIR_API char *weir_graph_stepfile(const weir_graph *g, const char *name, weir_times times);

/* ---- gradients ----
 *
 * A gradient reads what the forward read. If the elements of such an operand, or of a view of it,
 * changed in between - by an update, an operation in place, weir_write, the run of a graph, or a
 * write to an address from weir_tensor_memory - the gradient fails with ERR_STATE. The sentence
 * names the operand, what changed it and the remedies: take all gradients before the change,
 * compute the forward again after it, or call the operation with a weir_copy of the value. While a
 * graph is being recorded only its recorded updates count as changes: forward and gradient of the
 * next run both read what the host writes. The failed call consumes the tape up to the error.
 *
 * A gradient has the shape and dtype of its tensor. ERR_SHAPE and ERR_DTYPE if a given gradient
 * does not, ERR_SHAPE for a loss that is not a scalar, ERR_INVALID if it depends on nothing that a
 * gradient flows to, ERR_DEVICE for tensors of different devices. */

/* A parameter and its gradient. */
typedef struct weir_pair {
    weir_tensor *param;     /* borrowed */
    weir_tensor *grad;      /* borrowed from the innermost scope */
} weir_pair;

/* Gradients of the scalar `loss` for every trainable tensor it depends on, as recorded (or, with
 * the graph off, computed) operations. *pairs is owned by the device until the next call of
 * weir_backward on it or its close. Consumes the tape (but see weir_retain_begin): what only a
 * gradient needed is dropped. */
WEIR_API weir_status weir_backward(weir_tensor *loss, const weir_pair **pairs, size_t *count);

/* Gradients of the scalar `loss` for the n given tensors (trainable, or results on the way to
 * loss); grads[i] is borrowed from the innermost scope, NULL where loss does not depend on wrt[i];
 * ERR_INVALID if it depends on none of them. */
WEIR_API weir_status weir_gradients(weir_tensor *loss, size_t n, weir_tensor *const *wrt,
                                    weir_tensor **grads);

/* The same from any result y, given its gradient dy (same shape and type): vector-Jacobian products
 * through all calls that led to y, for every trainable tensor or the n tensors wrt. dy NULL: ones.
 */
WEIR_API weir_status weir_backward_from(weir_tensor *y, weir_tensor *dy, const weir_pair **pairs,
                                        size_t *count);
WEIR_API weir_status weir_gradients_from(weir_tensor *y, weir_tensor *dy, size_t n,
                                         weir_tensor *const *wrt, weir_tensor **grads);

/* The vector-Jacobian product of the one call that made y: given dy (shape of y) fills dx[i] for
 * the call's inputs, NULL where an input has no gradient. *n: on entry the length of dx, on return
 * the number of inputs. */
WEIR_API weir_status weir_vjp(weir_tensor *y, weir_tensor *dy, size_t *n, weir_tensor **dx);

/* The vector-Jacobian product of all calls between the nx tensors x and the ny results y. Each x[i]
 * counts as independent: the
 * calls that made it are ignored (of y = add(a, relu(a)) with x = {a, relu(a)} each gets dy). dy[i]
 * has shape and type of y[i]; NULL: no gradient from y[i]. dy NULL, or all NULL, with one scalar
 * y: 1. dx[i] is borrowed from the innermost scope. It is NULL if no gradient reaches x[i], for an
 * integer x[i], and for a value that x lists before, which has the whole gradient. A y that is also
 * an x passes its dy on to it. Consumes the calls between. */
WEIR_API weir_status weir_vjp_from(size_t ny, weir_tensor *const *y, weir_tensor *const *dy,
                                   size_t nx, weir_tensor *const *x, weir_tensor **dx);

/* Limits the elements of each gradient of the n pairs, of any shape and dtype, to [-limit, limit],
 * limit above 0 and finite (else ERR_INVALID); a NaN stays one. clipped
 * (length n; may be pairs itself if that is writable) gets the pairs with the new gradients, which
 * are borrowed from the innermost scope. */
WEIR_API weir_status weir_clip_value(const weir_pair *pairs, size_t n, double limit,
                                     weir_pair *clipped);

/* Multiplies all gradients by min(1, limit / (norm + 1e-6)) (Pascanu et al. 2013), where norm is
 * the root of the sum of squares over all their elements, added in the order of the pairs. *norm
 * (may be NULL) gets it, a scalar f64; NULL when n is 0. */
WEIR_API weir_status weir_clip_norm(const weir_pair *pairs, size_t n, double limit,
                                    weir_pair *clipped, weir_tensor **norm);

/* For gradients of a loss that was multiplied by `scale` (a scalar f32): multiplies each by
 * 1 / scale in its type, which is exact for powers of two. *finite gets a scalar bool: true if no
 * element of any gradient is an infinity or a NaN. (The test adds elements up, so elements near the
 * largest number may fail it.) For unscaled (length n) see weir_clip_value's clipped. */
WEIR_API weir_status weir_unscale(const weir_pair *pairs, size_t n, weir_tensor *scale,
                                  weir_pair *unscaled, weir_tensor **finite);

/* Sets the scale of the next step by weir_scaler_options (growth 1 or more, backoff between 0 and
 * 1, interval in steps; else ERR_INVALID): `finite` is this step's, a scalar bool; the scalar f32
 * states scale and good (the count of finite steps in a row) are updated. */
WEIR_API weir_status weir_scale_adjust(weir_tensor *scale, weir_tensor *good, weir_tensor *finite,
                                       double growth, double backoff, int64_t interval);

/* Calls between begin and the matching end are not taped; nests. ERR_STATE for an end without a
 * begin. */
WEIR_API weir_status weir_no_grad_begin(weir_device *d);
WEIR_API weir_status weir_no_grad_end(weir_device *d);

/* Gradients taken between begin and the matching end do not consume the tape, so they can be taken
 * again; nests. What the gradients read is kept until the results of the calls are released; a
 * graph that is being recorded keeps it until weir_graph_end, so its plan stays the same.
 * ERR_STATE for an end without a begin. */
WEIR_API weir_status weir_retain_begin(weir_device *d);
WEIR_API weir_status weir_retain_end(weir_device *d);

/* ---- mixed precision ---- */

/* Until the matching end, matrix products, linear layers, convolutions and attention run in `half`,
 * WEIR_BF16 or WEIR_F16: recorded operations cast their f32 and half inputs to it, and gradients
 * pass through the casts, so parameters, their gradients and updates stay f32. Norms compute in f32
 * and return the type of their input; softmax, sums, losses, LSTM steps, exp, log and pow read
 * halves as f32; all other operations have the type of their inputs. Gradients have the types of
 * the forward calls, even if they are taken outside. A graph merges equal casts: one per weight and
 * step. Nests; WEIR_F32: as if no scope were open. Gradients in f16 need a scaled loss:
 * weir_scaler_new (Micikevicius et al. 2018). ERR_DTYPE for another type, ERR_STATE for an end
 * without a begin. */
WEIR_API weir_status weir_autocast_begin(weir_device *d, weir_dtype half);
WEIR_API weir_status weir_autocast_end(weir_device *d);

/* The half type of the innermost scope; WEIR_F32 outside any scope. */
WEIR_API weir_dtype weir_autocast_type(weir_device *d);

/* ---- checkpointing: parts that are recomputed for the gradient ---- */

/* Values recorded between begin and end are dropped after their last use in the forward pass and
 * recomputed when a gradient reads them; values that forward operations outside read are the
 * region's results and stay. Regions are marks for the planner, so a graph must be recording (else
 * ERR_STATE: use weir_checkpoint); a region inside another belongs to it. If the whole step exceeds
 * the graph's budget, the budget's policy decides instead: "checkpoint:manual" does the same. */
WEIR_API weir_status weir_region_begin(weir_device *d);
WEIR_API weir_status weir_region_end(weir_device *d);

/* A part of a forward computation: reads in[] and fills out[] with results. Equal elements must
 * always give equal results: if what it reads through ctx changes before the gradient, the gradient
 * fails. Trainable tensors read through ctx get their gradients; other results that a gradient
 * flows through must be passed by in. It must not call weir_keep. It returns WEIR_OK or the status
 * of its mistake, with which weir_checkpoint then fails. */
typedef weir_status (*weir_checkpoint_fn)(void *ctx, weir_tensor *const *in, weir_tensor **out);

/* Calls fn once and keeps only in and out; the gradient calls fn again and differentiates that call
 * (Chen et al. 2016). All bits are those of a plain call of fn: the second call draws the same
 * random numbers and skips updates (running statistics), and gradients add up in the same order. A
 * callback inside runs twice. in and out have any shapes and dtypes; nin is 1 to 8, nout 1 to 4
 * (else ERR_INVALID); nests. fn and ctx must live until the gradient is taken or out is released.
 * out[i] is borrowed from the innermost scope. */
WEIR_API weir_status weir_checkpoint(weir_checkpoint_fn fn, void *ctx, int nin,
                                     weir_tensor *const *in, int nout, weir_tensor **out);

/* fn[n - 1](... fn[0](in)): a chain of functions of one input and one result of any shape and
 * dtype, cut into `segments` parts of n / segments functions, segments from 1 to n (else
 * ERR_INVALID). Each part is a checkpoint except the last, which has the remaining functions and
 * keeps its values. ctx may be NULL, or has n pointers; both arrays are copied. */
WEIR_API weir_status weir_checkpoint_sequential(int n, const weir_checkpoint_fn *fn,
                                                void *const *ctx, int segments, weir_tensor *in,
                                                weir_tensor **out);

/* ---- a step that runs either way ---- */

/* A step function with the switch between recording and computing. */
typedef struct weir_step weir_step;

/* Records or computes one step: called once with the graph on, in every run with it off. Pass
 * results that are read after the step to weir_keep and store them through ctx. Its status is that
 * of the run. */
typedef weir_status (*weir_step_fn)(void *ctx);

/* Of a step. */
typedef struct weir_step_options {
    bool              graph;    /* record and plan in the first run; else compute in every run */
    weir_plan_options plan;     /* of the graph; {0}: all defaults */
} weir_step_options;

/* A step of the device; nothing happens until it runs. You own it: weir_step_free. ctx is passed to
 * fn and must outlive the step; options (NULL: graph off) is copied, but not its texts. A run fails
 * with the status of fn, weir_graph_end or weir_graph_run. */
WEIR_API weir_step *weir_step_new(weir_device *d, weir_step_fn fn, void *ctx,
                                  const weir_step_options *options);
WEIR_API weir_status weir_step_run(weir_step *s);

/* What a callback learns of a step. */
typedef struct weir_step_event {
    int64_t             step;       /* its number */
    size_t              kept_count; /* values that the step's function kept (weir_keep), */
    weir_tensor *const *kept;       /* in that order, borrowed; before: none */
    bool               *stop;       /* set to true to end the loop after this step */
} weir_step_event;

/* Called with the ctx of the loop. A status other than WEIR_OK ends the loop with it. */
typedef weir_status (*weir_step_callback)(void *ctx, const weir_step_event *event);

/* Of a loop; {0} runs steps from number 0 on without callbacks. */
typedef struct weir_step_loop_options {
    weir_step_callback before;      /* ahead of each step: writes its inputs; NULL: nothing */
    weir_step_callback after;       /* behind each step: reads what it kept; NULL: nothing */
    void              *ctx;         /* of both; borrowed */
    int64_t            first;       /* number of the first step, 0 or more: of a resumed training */
} weir_step_loop_options;

/* Runs the step n times, n 0 or more, numbered from options->first on, with the callbacks around
 * each; a step that `before` stops still runs. *done (may be NULL) gets the number of steps that
 * ran. options NULL: all defaults. Fails as weir_step_run, with the status of a callback, and with
 * ERR_INVALID for a negative number. */
WEIR_API weir_status weir_step_loop(weir_step *s, int64_t n, const weir_step_loop_options *options,
                                    int64_t *done);

/* Borrowed; NULL with the graph off or before the first run. */
WEIR_API weir_graph *weir_step_graph(const weir_step *s);

/* Frees the step, its graph and what it kept. NULL is fine. */
WEIR_API void weir_step_free(weir_step *s);

#ifdef __cplusplus
}
#endif
#endif
