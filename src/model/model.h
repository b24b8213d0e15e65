/* model.h - shared by the files of src/model: growing lists, layers, rolling back.
 * Defined in layer.c, layer_tree.c, model.c and normal.c.
 *
 * A model owns and frees everything created on it. A layer is one host allocation that begins with
 * a weir_layer and borrows its tensors and children. A constructor takes a mark first and rolls the
 * model back to it on failure, so a failed layer leaves no parameters. */
#ifndef WEIR_MODEL_MODEL_H
#define WEIR_MODEL_MODEL_H

#include "weir.h"

/* Pointers in the order they were added. */
typedef struct weir_list {
    void **at;
    size_t n, capacity;
} weir_list;

/* Ensures capacity for one more element, so that adding it cannot fail. ERR_NOMEM. */
weir_status weir_list_reserve(weir_list *l);
void        weir_list_free(weir_list *l);

struct weir_layer {
    weir_model *model;          /* borrowed */
    weir_layer *parent;         /* the layer that it is a part of; NULL: none */
    const char *kind;           /* static: "linear" */
    char       *name;           /* full, "layer1.0.conv1"; owned, "" if none */
    bool        scoped;         /* a network: weir_apply closes a scope around it */
    bool        incomplete;     /* a part of it could not be made */
    weir_tensor *(*apply)(const weir_layer *l, weir_tensor *x);
    void       (*release)(weir_layer *l);       /* frees what l owns; NULL: nothing */
};

/* Tensors in the order in which they were made, and the layers that they belong to. */
typedef struct weir_owned {
    weir_list tensors, layers;  /* of the same length; a layer may be NULL: the model itself */
} weir_owned;

/* Told of every call of weir_apply: enter before a layer's function, whose result is then passed to
 * leave with its result y (NULL: it failed). */
typedef struct weir_model_watch {
    size_t (*enter)(void *ctx, weir_layer *l);
    void   (*leave)(void *ctx, size_t entered, const weir_tensor *y);
    void    *ctx;
} weir_model_watch;

typedef struct weir_statistics weir_statistics;

struct weir_model {
    weir_device *dev;           /* borrowed */
    bool         training;
    weir_dtype   precision;     /* of products: a half type; f32: no autocast scope is opened */
    weir_list    layers;
    weir_owned   params, states;
    const weir_model_watch *watch;    /* borrowed; NULL: nobody watches */
    weir_statistics *statistics; /* of micro-batches, data parallelism; NULL: layers update
                                         * their running statistics themselves */
    void       (*statistics_free)(weir_statistics *s);  /* set with it */
    const char  *inside;        /* full name of the layer being applied; NULL: none */
};

/* Sizes of the model's lists when a constructor began. */
typedef struct weir_mark {
    size_t layers, params, states;
} weir_mark;

weir_mark weir_model_mark(const weir_model *m);

/* Frees everything made since the mark. Returns NULL, for the constructor to return. */
weir_layer *weir_model_undo(weir_model *m, weir_mark mark);

/* Creates a layer of `bytes` bytes, weir_layer included, owned by m; NULL after a failure. kind is
 * static; name is copied, NULL: none. */
void *weir_layer_make(weir_model *m, size_t bytes, const char *kind, const char *name,
                      weir_tensor *(*apply)(const weir_layer *l, weir_tensor *x));

/* Makes `part` a part of l with a name below l's; it and its parts are renamed (weir_layer_add). */
weir_status weir_layer_join(weir_layer *l, const char *name, weir_layer *part);

/* A copy that the caller owns (weir_host_free); NULL if memory runs out. */
char *weir_text_copy(const char *text);

/* Makes the layers that were made since the mark parts of l, unless they are parts of others. */
void weir_layer_adopt(weir_layer *l, weir_mark mark);

/* Is l the layer `of` or inside it? */
bool weir_layer_is_within(const weir_layer *l, const weir_layer *of);

/* A scope around a few operations on x, so that intermediate results do not outlive them. begin
 * returns false if x is NULL or memory is short; do not call end then. end moves y to the caller's
 * scope and returns it. */
bool         weir_unit_begin(const weir_tensor *x);
weir_tensor *weir_unit_end(const weir_tensor *x, weir_tensor *y);

/* Opens a name scope for what has the full name, below that of the layer being applied:
 * "0/conv1" for "layer1.0.conv1" inside "layer1". Sets *outer for the call that ends it. */
weir_status weir_inside_begin(weir_model *m, const char *name, const char **outer);
weir_status weir_inside_end(weir_model *m, const char *outer);

/* A parameter or state "LAYER.PART" (PART alone if the layer has no name) of l, or of the model if
 * l is NULL, filled with `value`, owned by m. */
weir_tensor *weir_model_new_param(weir_model *m, weir_layer *l, const char *part, weir_desc desc,
                                  double value);
weir_tensor *weir_model_new_state(weir_model *m, weir_layer *l, const char *part, weir_desc desc,
                                  double value);

/* A parameter of l (rows, width), normal with the deviation: a vector for each row. */
weir_tensor *weir_layer_new_table(weir_layer *l, const char *part, int64_t rows, int64_t width,
                                  weir_dtype dtype, double deviation);

/* Fails, and names layer and size, unless each of the n sizes is at least 1 and fits into 32
 * bits. */
weir_status weir_sizes_check(const char *op, const char *layer, int n, const char *const *names,
                             const int64_t *sizes);

/* Writes "A.B" (B alone if a is NULL or "") into buf of WEIR_NAME_MAX bytes; fails if it does not
 * fit. */
#define WEIR_NAME_MAX 256
weir_status weir_name_join(char buf[WEIR_NAME_MAX], const char *a, const char *b);

#endif
