/* axes.h - the axes of a reduction, sorted by memory and merged: shared by all reductions.
 *
 * Axes are sorted by stride (largest first) and merged where they are adjacent in memory. `in` is
 * the step in the first input, `in2` in the second (0 if none), `out` in the result; all in
 * elements. */
#ifndef WEIR_DEVICE_COMMON_AXES_H
#define WEIR_DEVICE_COMMON_AXES_H

#include "core/attr.h"
#include "core/shape.h"

typedef struct axis {
    int64_t size, in, in2, out;     /* out is 0 when reduced */
    bool    reduced;
} axis;

typedef struct axes {
    int  n;
    axis at[WEIR_MAX_DIMS];
} axes;

typedef struct axes_place {
    int64_t in, in2, out;
} axes_place;

static inline int64_t axes_count(const axes *a)
{
    int64_t n = 1;
    for (int i = 0; i < a->n; i++)
        n *= a->at[i].size;
    return n;
}

/* Offsets of element `i` of the (row-major) product of the axes. */
static inline axes_place axes_at(const axes *a, int64_t i)
{
    axes_place p = {0, 0, 0};
    for (int k = a->n - 1; k >= 0; k--) {
        const int64_t q = k > 0 ? i / a->at[k].size : 0, at = i - q * a->at[k].size;
        p.in += at * a->at[k].in;
        p.in2 += at * a->at[k].in2;
        p.out += at * a->at[k].out;
        i = q;
    }
    return p;
}

static inline int64_t axes_step(const axis *a)
{
    const int64_t s = a->in < 0 ? -a->in : a->in;
    return s == 0 ? INT64_MAX : s;      /* a repeated axis belongs outermost */
}

/* The axes of x with more than one element (and of x2, laid out over the same dims; may be NULL),
 * reduced to y; in logical order, or if `sorted` with the largest step first. */
static inline axes axes_of(const weir_layout *x, const weir_layout *x2, const weir_layout *y,
                           const weir_reduce_attr *attr, bool sorted)
{
    axes a = {0};
    for (int i = 0, o = 0; i < x->desc.ndim; i++) {
        const bool    reduced = (attr->dims >> i & 1) != 0;
        const int64_t out = reduced ? 0 : y->stride[o];
        const axis    one = {x->desc.dim[i], x->stride[i], x2 ? x2->stride[i] : 0, out, reduced};
        o += !reduced || attr->keep;
        if (one.size == 1)
            continue;
        int k = a.n++;
        for (; sorted && k > 0 && axes_step(&a.at[k - 1]) < axes_step(&one); k--)
            a.at[k] = a.at[k - 1];
        a.at[k] = one;
    }
    return a;
}

static inline void axes_merge(axes *a)
{
    int n = 0;
    for (int i = 0; i < a->n; i++) {
        const axis in = a->at[i], *last = n > 0 ? &a->at[n - 1] : NULL;
        if (last && last->reduced == in.reduced && last->in == in.size * in.in &&
            last->in2 == in.size * in.in2 && last->out == in.size * in.out)
            a->at[n - 1] = (axis){last->size * in.size, in.in, in.in2, in.out, in.reduced};
        else
            a->at[n++] = in;
    }
    a->n = n;
}

#endif
