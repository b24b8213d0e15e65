/* layer.h - layers of a program's own, layers in a row, and layers that are one function.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A model is a tree of layers. A layer has a name, parameters and states, and layers that are parts
 * of it: "block1" has the part "conv", whose parameter is "block1.conv.weight". Files have these
 * names, so a model that a program puts together loads the weights of an equal one.
 *
 * Ownership. Everything belongs to the model, which frees it (weir_model_free); layers and tensors
 * are borrowed from it. Names are copied.
 *
 * Errors. As in model.h: NULL after a mistake, and a NULL argument keeps the earlier mistake, so a
 * layer whose parts failed can be checked at its first use: weir_apply then fails. ERR_INVALID: a
 * name that is empty, taken, or of more than 255 characters; layers of different models; a layer
 * inside itself. ERR_STATE: a layer that is a part of another already. ERR_NOMEM: memory.
 *
 * Threads: those of the model. */
#ifndef WEIR_LAYER_PUBLIC_H
#define WEIR_LAYER_PUBLIC_H

#include "weir/base.h"
#include "weir/model.h"
#include "weir/op.h"
#include "weir/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- a layer of a program's own ---- */

/* What a layer does. It is copied. */
typedef struct weir_layer_def {
    const char *kind;       /* for texts, such as "attention"; static. NULL: "layer" */

    /* Returns the layer's function of x, of any shape and dtype, by operations and by weir_apply of
     * its parts; NULL after a mistake. Results other than the one returned die when it returns,
     * unless kept (weir_keep), retained or moved (weir_escape). ctx is weir_layer_new's. */
    weir_tensor *(*apply)(void *ctx, weir_tensor *x);

    void (*release)(void *ctx);     /* frees ctx with the model; NULL: nothing to free */
} weir_layer_def;

/* A layer of the model for weir_apply. name NULL: it gets one from the layer that it becomes a part
 * of. ctx must live as long as the model, which passes it to def->release; after a failure it is
 * still yours. ERR_INVALID for a def without apply. */
WEIR_API weir_layer *weir_layer_new(weir_model *m, const char *name, const weir_layer_def *def,
                                    void *ctx);

/* Makes part, which has no name or one of its own, a part of l with the name NAME, below l's name:
 * its parameters become "L.NAME.weight" and so on, and those of its parts alike. Returns part. Add
 * it before an optimiser sees its parameters and before a step is recorded: their texts keep the
 * earlier names. */
WEIR_API weir_layer *weir_layer_add(weir_layer *l, const char *name, weir_layer *part);

/* Renames a layer that is not a part of another, and with it all that is inside. ERR_STATE if it is
 * a part. */
WEIR_API weir_status weir_layer_set_name(weir_layer *l, const char *name);

/* A parameter (any float type, else ERR_DTYPE), a state (any dtype) of shape and dtype desc: of the
 * layer, "L.NAME", or of the model itself, "NAME". Elements are 0 until the program writes them
 * (weir_write_normal). They count as the model's: saving, loading and weir_model_param know them.
 */
WEIR_API weir_tensor *weir_layer_add_param(weir_layer *l, const char *name, weir_desc desc);
WEIR_API weir_tensor *weir_layer_add_state(weir_layer *l, const char *name, weir_desc desc);
WEIR_API weir_tensor *weir_model_add_param(weir_model *m, const char *name, weir_desc desc);
WEIR_API weir_tensor *weir_model_add_state(weir_model *m, const char *name, weir_desc desc);

/* ---- what a model has ---- */

/* The parameter or state with this full name, of any shape and dtype; NULL with ERR_INVALID if
 * no tensor has it. */
WEIR_API weir_tensor *weir_model_find(const weir_model *m, const char *name);

/* The layer's full name, "" if it has none; its kind, such as "conv2d"; its model; the layer that
 * it is a part of, NULL if none. Borrowed. Of NULL: "", "", NULL, NULL. */
WEIR_API const char *weir_layer_name(const weir_layer *l);
WEIR_API const char *weir_layer_kind(const weir_layer *l);
WEIR_API weir_model *weir_layer_model(const weir_layer *l);
WEIR_API weir_layer *weir_layer_parent(const weir_layer *l);

/* Freezes (off) or trains (on, the default) all parameters of the layer and of its parts, of any
 * shape and float type, in later calls: frozen ones get no gradient and no update. One parameter:
 * weir_tensor_set_trainable and weir_tensor_set_needs_grad. */
WEIR_API weir_status weir_layer_set_trainable(weir_layer *l, bool on);

/* ---- a summary ---- */

/* How a summary is written; {0} is the default. */
typedef struct weir_summary_options {
    int  depth;             /* levels of layers that are shown, 1 and more; 0: all. Deeper ones
                             * count for the layer that they are in */
    bool json;              /* JSON, not a table */
} weir_summary_options;

/* A layer of a summary. Operations count for the innermost layer that calls them, parameters for
 * the layer that has them, so every column adds up to its total. */
typedef struct weir_summary_row {
    int         depth;                  /* 0: outermost; at most one more than the row before */
    const char *name, *kind;            /* borrowed */
    weir_desc   output;                 /* shape and dtype of the result */
    bool        applied, shared;        /* there is a result; it came before: counted there */
    size_t      params, trainable;      /* elements of parameters; of those, not frozen */
    size_t      param_bytes;            /* of the parameters */
    size_t      states, state_bytes;    /* elements and bytes */
    double      flops, multiply_adds;   /* as in weir_graph_cost */
} weir_summary_row;

/* A table of the layers that l's function of an input of shape and dtype x goes through: name,
 * kind, output, parameters, bytes, flops and multiplications with an addition (MACs), in
 * evaluation. Nothing is computed: the function is recorded in a graph of its own and forgotten
 * (ERR_STATE while another is being recorded). You own the text (weir_text_free); NULL after a
 * mistake. options NULL: all defaults. */
WEIR_API char *weir_layer_summary(weir_layer *l, weir_desc x, const weir_summary_options *options);

/* The same text of n rows, for layers that another program has. ERR_INVALID for a row without a
 * name or a kind and for a depth that skips a level, ERR_SHAPE for an output of too many axes. */
WEIR_API char *weir_summary_text(size_t n, const weir_summary_row *rows, weir_desc x,
                                 const weir_summary_options *options);

/* ---- layers in a row ---- */

/* layers[n - 1](... layers[0](x)), x as layers[0] takes it. The layers become its parts: one
 * without a name gets its number, as in PyTorch ("0.weight", "2.weight", behind the name, if any,
 * and a point), others keep theirs. A layer may come more than once. Of no layers (n is 0): x
 * itself. The array is copied. After a failure the layers are no parts of it. ERR_INVALID if n is
 * negative. */
WEIR_API weir_layer *weir_sequential_new(weir_model *m, const char *name, int n,
                                         weir_layer *const *layers);

/* ---- layers without parameters: one function of op.h each ----
 *
 * Shapes and dtypes are those of the function. They have no name at first. */

/* A function of one tensor of any shape and dtype, such as weir_softsign; NULL after a mistake. */
typedef weir_tensor *(*weir_function)(weir_tensor *x);

/* The layer of any such function; kind, such as "softsign", is static, for texts. */
WEIR_API weir_layer *weir_function_new(weir_model *m, const char *kind, weir_function function);

/* max(x, 0); x/2 (1 + erf(x / sqrt 2)); x sigmoid(x); tanh; 1 / (1 + exp(-x)), in x's shape. */
WEIR_API weir_layer *weir_relu_new(weir_model *m);
WEIR_API weir_layer *weir_gelu_new(weir_model *m);
WEIR_API weir_layer *weir_silu_new(weir_model *m);
WEIR_API weir_layer *weir_tanh_new(weir_model *m);
WEIR_API weir_layer *weir_sigmoid_new(weir_model *m);

/* x > 0 ? x : slope x, in x's shape; slope is a finite number. */
WEIR_API weir_layer *weir_leaky_relu_new(weir_model *m, double slope);

/* weir_softmax of x along an axis, in x's shape; a negative axis counts from the end. */
WEIR_API weir_layer *weir_softmax_new(weir_model *m, int axis);

/* (n, ...) -> (n, product of the rest). */
WEIR_API weir_layer *weir_flatten_new(weir_model *m);

/* Images (n,c,h,w) -> (n,c,oh,ow) by the formula of op.h; the average of each channel,
 * (n,c,1,1). options is copied and must not be NULL. */
WEIR_API weir_layer *weir_max_pool2d_new(weir_model *m, const weir_pool2d_options *options);
WEIR_API weir_layer *weir_avg_pool2d_new(weir_model *m, const weir_pool2d_options *options);
WEIR_API weir_layer *weir_global_avg_pool2d_new(weir_model *m);

#ifdef __cplusplus
}
#endif
#endif
