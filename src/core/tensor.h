/* tensor.h - the tensor handle: a layout over a block, and the call that produced the value. */
#ifndef WEIR_CORE_TENSOR_H
#define WEIR_CORE_TENSOR_H

#include "core/dtype.h"
#include "core/ref.h"
#include "core/shape.h"
#include "weir/tensor.h"

/* Handles are cheap; several may share one block (views). Blocks are defined in src/device, tape
 * nodes in src/graph: this module only counts references to them. */
struct weir_tensor {
    weir_ref     ref;
    weir_device *dev;           /* referenced */
    weir_layout  layout;
    int64_t      offset;        /* of element 0 in the block, in elements */
    void        *block;         /* weir_block, referenced; NULL in a hollow handle (desc only) */
    void        *tape;          /* weir_tape, referenced; NULL: a leaf */
    uint32_t     out;           /* which output of tape */
    bool         needs_grad;    /* a gradient flows to or through it */
    uint64_t     leaf;          /* number of a leaf that may have a gradient, counted from 1 per
                                 * device; 0: any other tensor */
    bool         trainable;     /* weir_backward collects its gradient */
    char        *name;          /* of a view: owned, or NULL; other names are in the block */
    const char  *gone;          /* why the handle became hollow: a static string that follows "the
                                 * tensor"; NULL otherwise */
    struct weir_tensor *next;   /* in the graph's or the session's list of handles */
};

/* Integers (pooling winners, class numbers) carry no gradient. */
static inline bool weir_tensor_is_float(const weir_tensor *t)
{
    return weir_is_any_float(t->layout.desc.dtype);
}

/* Creates a handle over `block`, which it references (NULL: hollow). dev is a weir_device, whose
 * first member is a weir_ref. Returns NULL if memory runs out. */
weir_tensor *weir_tensor_make(weir_device *dev, const weir_layout *layout, int64_t offset,
                              void *block);

/* Makes the handle hollow: reading its elements then fails with a sentence that ends in `gone`. */
void weir_tensor_leave(weir_tensor *t, const char *gone);

/* Fails with ERR_STATE if the handle has no elements; the sentence begins with `who`. */
weir_status weir_tensor_check_there(const char *who, const weir_tensor *t);

#endif
