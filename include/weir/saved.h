/* saved.h - save a recorded graph to a file, and run it without the program that recorded it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A file of weir_graph_save has the step as it was recorded - operations by name with their
 * attributes, shapes and types, before any pass - and the values of its parameters and states. A
 * program that has none of the model's code loads it, writes the inputs, runs it and reads the
 * outputs, all by name. The graph is planned when it is loaded, with the options given then; bits
 * are those of the graph that was saved, if both were planned at the same level, whatever the
 * budget. A training step goes on where it was: optimiser states, step counters, random position.
 *
 * The file is a safetensors file (file.h), so that other programs can read its tensors. It is
 * replaced at once and synced, as file.h says. Reading trusts no file: every number is checked, and
 * shapes and types are inferred again and compared.
 *
 * What a file cannot hold: the program's own operations (callback.h); saving fails and names the
 * first. Names of inputs, outputs, parameters and states are those of the tensors, or of
 * weir_graph_bind; others are numbered: "input0", "output0", "param0", "state0".
 *
 * Errors. ERR_IO for a file that is missing, unreadable, malformed or of another version; ERR_STATE
 * for a graph that is not planned; ERR_INVALID for one that a file cannot hold; NULL arguments as
 * in graph.h. What ran out of memory: ERR_NOMEM.
 *
 * Threads: those of the graph (graph.h). */
#ifndef WEIR_SAVED_PUBLIC_H
#define WEIR_SAVED_PUBLIC_H

#include "weir/base.h"
#include "weir/device.h"
#include "weir/file.h"
#include "weir/graph.h"
#include "weir/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a tensor is to a graph. */
typedef enum weir_role {
    WEIR_ROLE_INPUT,        /* written before a run; a file has no value for it, unless a scalar */
    WEIR_ROLE_PARAM,        /* a parameter: a file has its value */
    WEIR_ROLE_STATE,        /* anything else that outlives a run: a file has its value */
    WEIR_ROLE_OUTPUT        /* a result that was kept (weir_keep) or bound: read after a run */
} weir_role;

/* A tensor of a graph by name. */
typedef struct weir_binding {
    const char  *name;      /* borrowed from the graph; UTF-8 */
    weir_role    role;      /* what it is to the graph */
    weir_tensor *tensor;    /* borrowed from the graph */
} weir_binding;

/* *list becomes the inputs, parameters, states and outputs of a planned graph in the order of their
 * first use, *count their number. The graph owns the list until the next call of this, of
 * weir_graph_bind or of weir_graph_free. */
WEIR_API weir_status weir_graph_bindings(weir_graph *g, const weir_binding **list, size_t *count);

/* The tensor of that name, of any shape and dtype, in a planned graph; borrowed from the graph.
 * NULL, with ERR_INVALID and a sentence that lists names, if no tensor has it. */
WEIR_API weir_tensor *weir_graph_tensor(weir_graph *g, const char *name);

/* Gives a tensor of the graph g, of any shape and dtype, a name and a role for saving; both may
 * differ from what the tensor was made for: a state that the program writes before each run is an
 * input. t: a tensor that the recorded step reads or updates, or, with WEIR_ROLE_OUTPUT, a result
 * that was kept, or retained since before weir_graph_end. name: UTF-8 of 1 to 255 bytes, copied;
 * NULL: as before. ERR_INVALID for a tensor that has no such role, and for a name that is taken. */
WEIR_API weir_status weir_graph_bind(weir_graph *g, weir_tensor *t, weir_role role,
                                     const char *name);

/* The step as it was recorded, as text: what weir_graph_save writes beside the values. You own it
 * (weir_text_free). NULL on failure. docs/reference/graph-file.md describes it. */
WEIR_API char *weir_graph_recorded(weir_graph *g);

/* A graph on device d from the text of weir_graph_recorded, n bytes, planned with these options
 * (NULL: all defaults). Its parameters and states have no values yet: weir_graph_tensor and
 * weir_write. You own it (weir_graph_free). NULL on failure: ERR_IO for a text that is no such
 * graph, with the line; else as weir_graph_end. */
WEIR_API weir_graph *weir_graph_parse(weir_device *d, const char *text, size_t n,
                                      const weir_plan_options *options);

/* Writes the planned graph g, with the values that its parameters and states have now and the
 * device's random position, to the file `path`. options NULL: all defaults. */
WEIR_API weir_status weir_graph_save(weir_graph *g, const char *path,
                                     const weir_save_options *options);

/* Reads a graph from a file of weir_graph_save onto device d and plans it with these options (NULL:
 * all defaults), ready to run. If the step draws random numbers, the device's random stream is set
 * to the file's. You own it (weir_graph_free). NULL on failure; nothing is left then. */
WEIR_API weir_graph *weir_graph_load(weir_device *d, const char *path,
                                     const weir_plan_options *options);

#ifdef __cplusplus
}
#endif
#endif
