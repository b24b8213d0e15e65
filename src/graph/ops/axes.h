/* axes.h - shared by reductions and operations built on them: shapes, sums over two inputs.
 * Defined in moment.c and reduce.c. */
#ifndef WEIR_GRAPH_OPS_AXES_H
#define WEIR_GRAPH_OPS_AXES_H

#include "graph/ops/define.h"

/* The shape of d after the reduction a. */
static inline weir_desc weir_reduced(const weir_desc *d, const weir_reduce_attr *a)
{
    weir_desc out = {.dtype = d->dtype, .ndim = 0};

    for (int i = 0; i < d->ndim; i++) {
        const bool drop = (a->dims >> i & 1) != 0;
        if (!drop)
            out.dim[out.ndim++] = d->dim[i];
        else if (a->keep)
            out.dim[out.ndim++] = 1;
    }
    return out;
}

/* The shape of d with reduced axes kept as 1, from which gradients broadcast. */
static inline weir_desc weir_reduced_kept(const weir_desc *d, const weir_reduce_attr *a)
{
    const weir_reduce_attr keep = {.dims = a->dims, .keep = 1};

    return weir_reduced(d, &keep);
}

/* Number of elements of d that are reduced to one. */
static inline double weir_reduced_count(const weir_desc *d, const weir_reduce_attr *a)
{
    double n = 1;

    for (int i = 0; i < d->ndim; i++)
        if (a->dims >> i & 1)
            n *= (double)d->dim[i];
    return n;
}

/* Sets the attributes of reducing x over dims. Returns false, with a message, for a wrong axis. */
bool weir_reduce_axes(const char *who, const weir_tensor *x, uint32_t dims, bool keep,
                      weir_reduce_attr *a);

/* scale * the sum of a b over dims (bit i: axis i; 0: all); b broadcasts to a. */
weir_tensor *weir_dot(weir_tensor *a, weir_tensor *b, uint32_t dims, bool keep, double scale);

/* The same of (a - b)^2. */
weir_tensor *weir_dist(weir_tensor *a, weir_tensor *b, uint32_t dims, bool keep, double scale);

#endif
