/* model.h - shared by the files of src/model: growing lists, layers, rolling back.
 * Defined in layer.c, model.c and normal.c.
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
    bool        scoped;         /* a network: weir_apply closes a scope around it */
    weir_tensor *(*apply)(const weir_layer *l, weir_tensor *x);
};

struct weir_model {
    weir_device *dev;           /* borrowed */
    bool         training;
    weir_dtype   precision;     /* of products: a half type; f32: no autocast scope is opened */
    weir_list    layers, params, states;
};

/* Sizes of the model's lists when a constructor began. */
typedef struct weir_mark {
    size_t layers, params, states;
} weir_mark;

weir_mark weir_model_mark(const weir_model *m);

/* Frees everything made since the mark. Returns NULL, for the constructor to return. */
weir_layer *weir_model_undo(weir_model *m, weir_mark mark);

/* Creates a layer of `bytes` bytes, weir_layer included, owned by m; NULL after a failure. */
void *weir_layer_new(weir_model *m, size_t bytes,
                     weir_tensor *(*apply)(const weir_layer *l, weir_tensor *x));

/* A scope around a few operations on x, so that intermediate results do not outlive them. begin
 * returns false if x is NULL or memory is short; do not call end then. end moves y to the caller's
 * scope and returns it. */
bool         weir_unit_begin(const weir_tensor *x);
weir_tensor *weir_unit_end(const weir_tensor *x, weir_tensor *y);

/* A parameter or state "LAYER.PART" (PART alone if layer is NULL), filled with `value`, owned by
 * m. */
weir_tensor *weir_model_new_param(weir_model *m, const char *layer, const char *part,
                                  weir_desc desc, double value);
weir_tensor *weir_model_new_state(weir_model *m, const char *layer, const char *part,
                                  weir_desc desc, double value);

/* A parameter "LAYER.weight" (rows, width), normal with the deviation: a vector for each row. */
weir_tensor *weir_model_new_table(weir_model *m, const char *layer, int64_t rows, int64_t width,
                                  weir_dtype dtype, double deviation);

/* Fails, and names layer and size, unless each of the n sizes is at least 1 and fits into 32
 * bits. */
weir_status weir_sizes_check(const char *op, const char *layer, int n, const char *const *names,
                             const int64_t *sizes);

/* Writes "A.B" (B alone if a is NULL) into buf of WEIR_NAME_MAX bytes; fails if it does not fit. */
#define WEIR_NAME_MAX 256
weir_status weir_name_join(char buf[WEIR_NAME_MAX], const char *a, const char *b);

#endif
