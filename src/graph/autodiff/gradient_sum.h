/* gradient_sum.h - the sum of the gradients that arrive at one value.
 *
 * Gradients of slices wait. If they are all that arrives and cover an axis of the value, as those
 * of queries, keys and values cut from one projection, their concatenation is the sum: no slice is
 * padded with zeros and nothing is added. Otherwise they are added in the order of arrival. */
#ifndef WEIR_GRAPH_AUTODIFF_GRADIENT_SUM_H
#define WEIR_GRAPH_AUTODIFF_GRADIENT_SUM_H

#include "core/attr.h"
#include "core/tensor.h"
#include "core/vec.h"
#include "graph/autodiff/tape.h"

/* A gradient of the slice `at` of a value. */
typedef struct weir_gradient_part {
    weir_slice_attr at;         /* begin and step of the slice; dim: those of the whole value */
    weir_tensor    *dy;         /* referenced */
} weir_gradient_part;

typedef struct weir_gradient_sum {
    weir_tensor *total;                     /* referenced; NULL: 0 so far */
    WEIR_VEC(weir_gradient_part) parts;     /* empty if there is a total */
} weir_gradient_sum;

/* *total += g. *total is referenced (NULL: 0), g is borrowed; a g of NULL failed. */
weir_status weir_gradient_add(weir_tensor **total, weir_tensor *g);

/* Adds g, or what call t of SLICE makes of the gradient dy of its result. Both are borrowed. */
weir_status weir_gradient_sum_add(weir_gradient_sum *sum, weir_tensor *g);
weir_status weir_gradient_sum_add_slice(weir_gradient_sum *sum, const weir_tape *t,
                                        weir_tensor *dy);

/* Computes the total of all that was added; *total: a borrowed handle, NULL if nothing was. */
weir_status weir_gradient_sum_close(weir_gradient_sum *sum, weir_tensor **total);

void weir_gradient_sum_drop(weir_gradient_sum *sum);

#endif
