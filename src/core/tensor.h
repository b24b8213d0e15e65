/* tensor.h - the tensor handle: a layout over a block, and where the value came from. */
#ifndef WEIR_CORE_TENSOR_H
#define WEIR_CORE_TENSOR_H

#include "core/dtype.h"
#include "core/ref.h"
#include "core/shape.h"
#include "weir/tensor.h"

/* A handle is cheap; several may look at one block (views). The block is the device room's, the
 * tape node the graph room's: this room only counts references to them. */
struct weir_tensor {
    weir_ref     ref;
    weir_device *dev;           /* referenced */
    weir_layout  layout;
    int64_t      offset;        /* of element 0 in the block, in elements */
    void        *block;         /* weir_block, referenced; NULL in a hollow handle (desc only) */
    void        *tape;          /* weir_tape, referenced; NULL: a leaf */
    uint32_t     out;           /* which output of tape */
    bool         needs_grad;    /* a gradient flows to or through it */
    uint64_t     leaf;          /* its number among the device's tensors that no call made and that
                                 * a gradient may be asked for; 0: none of these */
    bool         trainable;     /* weir_backward collects its gradient */
    char        *name;          /* owned, or NULL */
    const char  *gone;          /* of a handle that its recording left hollow: why, a static string
                                 * that follows "the tensor"; else NULL */
    struct weir_tensor *next;   /* in the list of such handles, that of its graph or the session */
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

/* The handle becomes hollow; what is asked of its elements is an error that ends in `gone`. */
void weir_tensor_leave(weir_tensor *t, const char *gone);

/* The error of a handle that has no elements, else WEIR_OK; `who` begins the sentence. */
weir_status weir_tensor_check_there(const char *who, const weir_tensor *t);

#endif
