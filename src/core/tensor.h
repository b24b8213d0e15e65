/* tensor.h - the tensor handle: a layout over a block, and the call that made the value. */
#ifndef WEIR_CORE_TENSOR_H
#define WEIR_CORE_TENSOR_H

#include "core/dtype.h"
#include "core/ref.h"
#include "core/shape.h"
#include "weir/tensor.h"

/* A handle is cheap; several may share one block (views). Blocks belong to src/device, tape nodes
 * to src/graph: this module only counts references to them. */
struct weir_tensor {
    weir_ref     ref;
    weir_device *dev;           /* referenced */
    weir_layout  layout;
    int64_t      offset;        /* of element 0 in the block, in elements */
    void        *block;         /* weir_block, referenced; NULL in a hollow handle (desc only) */
    void        *tape;          /* weir_tape, referenced; NULL: a leaf */
    uint32_t     out;           /* which output of tape */
    bool         needs_grad;    /* a gradient flows to or through it */
    uint64_t     leaf;          /* number of a leaf (not made by a call) that may have a gradient,
                                 * counted from 1 on the device; 0: any other tensor */
    bool         trainable;     /* weir_backward collects its gradient */
    char        *name;          /* owned, or NULL */
    const char  *gone;          /* set if the end of the recording made the handle hollow: the
                                 * reason, a static string that follows "the tensor" */
    struct weir_tensor *next;   /* in the graph's or the session's list of such handles */
};

/* Integers (pooling winners, class numbers) carry no gradient. */
static inline bool weir_tensor_is_float(const weir_tensor *t)
{
    return weir_is_any_float(t->layout.desc.dtype);
}

/* A handle over `block` (referenced by the handle; may be NULL). dev is a weir_device whose first
 * member is a weir_ref. NULL when memory is short. */
weir_tensor *weir_tensor_make(weir_device *dev, const weir_layout *layout, int64_t offset,
                              void *block);

/* Makes the handle hollow: reading its elements then fails with a sentence that ends in `gone`. */
void weir_tensor_leave(weir_tensor *t, const char *gone);

/* Fails for a handle without elements, with a sentence that begins with `who`. */
weir_status weir_tensor_check_there(const char *who, const weir_tensor *t);

#endif
