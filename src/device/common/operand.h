/* operand.h - element-wise calls for devices: each call as a program, and each input in the order
 * of the output's memory, with axes of size 1 dropped and adjacent ones merged. */
#ifndef WEIR_DEVICE_COMMON_OPERAND_H
#define WEIR_DEVICE_COMMON_OPERAND_H

#include "core/fused.h"
#include "device/common/memory_order.h"

/* The call of a single row as a program of one step. Longer attributes begin with weir_ew_attr. */
static inline weir_ew_program weir_ew_program_of(const weir_call *c)
{
    weir_ew_program p = {.type = c->out[0].desc.dtype, .nin = c->nin, .nstep = 1, .nout = 1,
                         .step = {{.op = c->op}}};

    if (c->attr_bytes >= sizeof(weir_ew_attr)) {
        const weir_ew_attr *const a = (const weir_ew_attr *)c->attr;
        p.step[0].s = a->s;
        p.step[0].t = a->t;
    }
    for (int i = 0; i < c->nin; i++)
        p.step[0].src[i] = i;
    return p;
}

/* Outermost axis first; strides in elements of the input. n = 0: a single element. */
typedef struct operand_axes {
    int     n;
    int64_t dim[WEIR_MAX_DIMS], stride[WEIR_MAX_DIMS];
} operand_axes;

/* `in` must broadcast to the dense layout `out`. */
static inline void operand_axes_make(const weir_layout *out, const weir_layout *in,
                                     operand_axes *o)
{
    weir_layout view;
    int         order[WEIR_MAX_DIMS];
    const int   n = axes_in_memory_order(out, order);

    o->n = 0;
    weir_shape_expand(in, &out->desc, &view);
    for (int i = 0; i < n; i++) {
        const int64_t dim = view.desc.dim[order[i]], stride = view.stride[order[i]];
        if (o->n > 0 && o->stride[o->n - 1] == dim * stride) {
            o->dim[o->n - 1] *= dim;
            o->stride[o->n - 1] = stride;
        } else {
            o->dim[o->n] = dim;
            o->stride[o->n++] = stride;
        }
    }
}

/* True if position i is element i. */
static inline bool operand_is_dense(const operand_axes *o)
{
    return o->n == 0 || (o->n == 1 && o->stride[0] == 1);
}

/* True if all positions are one element. */
static inline bool operand_is_scalar(const operand_axes *o)
{
    return o->n == 1 && o->stride[0] == 0;
}

/* True if the input repeats after dim[1] contiguous elements. */
static inline bool operand_is_periodic(const operand_axes *o)
{
    return o->n == 2 && o->stride[0] == 0 && o->stride[1] == 1;
}

#endif
