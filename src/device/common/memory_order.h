/* memory_order.h - the axes of a layout in the order of its memory.
 *
 * Kernels that write a dense output from its first byte to its last use this order. */
#ifndef WEIR_DEVICE_COMMON_MEMORY_ORDER_H
#define WEIR_DEVICE_COMMON_MEMORY_ORDER_H

#include "core/shape.h"

/* Fills `order` with the axes of more than one element, outermost in memory first; returns their
 * number. */
static inline int axes_in_memory_order(const weir_layout *out, int order[WEIR_MAX_DIMS])
{
    int n = 0;
    for (int i = 0; i < out->desc.ndim; i++) {
        if (out->desc.dim[i] == 1)
            continue;
        int at = n++;
        for (; at > 0 && out->stride[order[at - 1]] < out->stride[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    return n;
}

#endif
