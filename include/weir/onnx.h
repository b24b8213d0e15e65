/* onnx.h - models in ONNX files: read them, run them, train them, write them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A model is opened once and applied any number of times, with the graph off or on. Applying it
 * calls the operations of op.h for its nodes, with the shapes of the tensors that it is given, so
 * every other shape records another graph over the same parameters. What depends on constants and
 * shapes alone (Shape, Gather, Concat, Range, ...) is computed at once, on the host.
 *
 * Parameters. Initializers of a float type with one axis or more become parameters under their
 * names; mean and variance of BatchNormalization become states. Initializers of other types,
 * scalars, and those that a node needs to know (the shape of Reshape, the scales of Resize) become
 * constants. Elements go from the file to the parameters by a buffer of a megabyte, or of one row
 * of the first axis. Open models while no graph is being recorded.
 *
 * Opsets 6 to 28 of the default domain. Operators, attributes and types that Weir lacks are refused
 * in a sentence; operators before anything is allocated, all of them in one. Opening trusts no
 * file: every length is checked before memory is allocated; external data must lie in the model's
 * folder or below it.
 *
 * Errors. ERR_IO for a file that is missing, unreadable, malformed, or has a node that Weir lacks;
 * ERR_INVALID for an attribute or a use that Weir lacks, and for wrong names; ERR_SHAPE and
 * ERR_DTYPE for inputs that do not fit; else those of the operations. NULL arguments as in model.h.
 *
 * Threads: a model belongs to the thread of its device. */
#ifndef WEIR_ONNX_PUBLIC_H
#define WEIR_ONNX_PUBLIC_H

#include "weir/base.h"
#include "weir/device.h"
#include "weir/graph.h"
#include "weir/model.h"
#include "weir/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An opened ONNX model. */
typedef struct weir_onnx weir_onnx;

/* How a model is opened; {0} is the default. Texts are copied. */
typedef struct weir_onnx_options {
    const char *dims;       /* sizes of named dims, "batch=8,seq=128": for weir_onnx_input_desc, and
                             * inputs must have them; NULL: none is given */
    const char *values;     /* names of inputs, "shape,axes", whose elements are read when the model
                             * is applied, as if they were constants; NULL: none */
    const char *frozen;     /* names of initializers that are not trained; "*": all; NULL: none */
    bool        train;      /* BatchNormalization and Dropout as in training, whatever the file
                             * says; later weir_model_train of the model changes it */
} weir_onnx_options;

/* Opens the file `path`, or n bytes, which are only read during the call, on device d. options
 * NULL: all defaults. You own the model (weir_onnx_free); NULL on failure. */
WEIR_API weir_onnx *weir_onnx_open(weir_device *d, const char *path,
                                   const weir_onnx_options *options);
WEIR_API weir_onnx *weir_onnx_open_bytes(weir_device *d, const void *bytes, size_t n,
                                         const weir_onnx_options *options);
WEIR_API void       weir_onnx_free(weir_onnx *m);

/* Its parameters and states, under their names in the file; borrowed. */
WEIR_API weir_model *weir_onnx_model(weir_onnx *m);

/* Its inputs (without initializers) and outputs: their number, the name of number i (borrowed, ""
 * for an i outside). */
WEIR_API size_t      weir_onnx_input_count(const weir_onnx *m);
WEIR_API size_t      weir_onnx_output_count(const weir_onnx *m);
WEIR_API const char *weir_onnx_input_name(const weir_onnx *m, size_t i);
WEIR_API const char *weir_onnx_output_name(const weir_onnx *m, size_t i);

/* The values that are handed out from now on in place of the model's outputs: names of any values,
 * "features,logits"; NULL: its outputs again. Nodes that none of them needs are left out.
 * ERR_INVALID for a name that the model does not have, and nothing changes. */
WEIR_API weir_status weir_onnx_select(weir_onnx *m, const char *names);

/* Its nodes in the order in which they run: their number; of node number i the name (often ""), the
 * operator ("Conv"), the name of output number k. Borrowed; "" for an i or k outside. */
WEIR_API size_t      weir_onnx_node_count(const weir_onnx *m);
WEIR_API const char *weir_onnx_node_name(const weir_onnx *m, size_t i);
WEIR_API const char *weir_onnx_node_op(const weir_onnx *m, size_t i);
WEIR_API const char *weir_onnx_node_output(const weir_onnx *m, size_t i, size_t k);

/* How many convolutions have a bias in a model without BatchNormalization; 0 if it has one.
 * Exporters fold it into them when they export for inference: the model then trains without it. */
WEIR_API size_t weir_onnx_folded(const weir_onnx *m);

/* *desc becomes type and shape of input i, by the file and the option `dims`. ERR_INVALID if a size
 * is known from neither: the sentence names the first such dim; dtype and ndim are there even then,
 * and -1 for each of those sizes. */
WEIR_API weir_status weir_onnx_input_desc(const weir_onnx *m, size_t i, weir_desc *desc);

/* Operator number i of those that Weir reads; static, NULL for an i outside. The same name may come
 * twice. */
WEIR_API const char *weir_onnx_operator(size_t i);

/* Records or computes the model for n inputs, in their order, and stores its outputs in out, which
 * has room for at least all of them; they are borrowed from the innermost scope. Each input has the
 * dtype of weir_onnx_input_desc and its number of axes, and the sizes that the file or `dims`
 * fixes; the others are free, and the shapes of the outputs follow from them. */
WEIR_API weir_status weir_onnx_apply(weir_onnx *m, size_t n, weir_tensor *const *in, size_t room,
                                     weir_tensor **out);

/* Writes the model to the file `path`, replacing it at once: the bytes of the file that it was
 * opened from, with its parameters and states as they are now. ERR_STATE if it was opened from
 * bytes; ERR_IO if that file has changed its size or a tensor's elements lie in another file or not
 * side by side. Then nothing was replaced. */
WEIR_API weir_status weir_onnx_save(weir_onnx *m, const char *path);

/* How a graph is written; {0} is the default. */
typedef struct weir_onnx_save_options {
    int         opset;      /* of the default domain, 9 to 28; 0: 18 */
    const char *outputs;    /* names of the outputs that are written, "logits,features"; NULL: those
                             * that the forward part computes */
    bool        external;   /* weights of a kilobyte and more go to a file beside, PATH.data */
} weir_onnx_save_options;

/* Writes the forward part of the planned graph g as an ONNX model to the file `path`: the calls, as
 * they were recorded, that its outputs need. Parameters and states become initializers, with the
 * values of now, inputs and outputs keep their names (weir_graph_bind gives others), and shapes are
 * those of the recording. What ONNX lacks is composed of other operators; docs/user/onnx.md has the
 * table. Dropout is written as it is in inference, where it drops nothing; record other layers in
 * evaluation, as batch statistics are written as such. Files are replaced at once and synced, that
 * of the weights first. options NULL: all defaults.
 * ERR_INVALID if an operation cannot be written - the sentence names all - if the graph has no such
 * output, for an unknown opset, and for 2 GB of weights within the file; ERR_STATE for a graph that
 * is not planned; ERR_IO. Then the model's file is as it was. */
WEIR_API weir_status weir_graph_save_onnx(weir_graph *g, const char *path,
                                          const weir_onnx_save_options *options);

/* Recorded operation number i of those that can be written; static, NULL for an i outside. */
WEIR_API const char *weir_onnx_writable(size_t i);

#ifdef __cplusplus
}
#endif
#endif
