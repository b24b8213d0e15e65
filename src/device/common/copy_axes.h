/* copy_axes.h - the axes of a copy: those of input and output paired, in logical (row-major) order.
 *
 * A pair is an axis (dim, input stride, output stride). Pairs cover equal dims in any two physical
 * orders, and reshapes whose dims factor into common ones: channels-last (n,c,h,w) to (n, c*h*w)
 * becomes n transposes of (c, h*w). Strides may be negative on either side. */
#ifndef WEIR_DEVICE_COMMON_COPY_AXES_H
#define WEIR_DEVICE_COMMON_COPY_AXES_H

#include "core/shape.h"

enum { COPY_AXES_MAX = 2 * WEIR_MAX_DIMS };

typedef struct copy_axis {
    int64_t dim, in, out;       /* strides in elements */
} copy_axis;

/* The axes of one layout in logical order, without those of size 1, contiguous ones merged. `in`
 * holds the stride. */
static inline int copy_axes_side(const weir_layout *l, copy_axis side[WEIR_MAX_DIMS])
{
    int n = 0;
    for (int i = 0; i < l->desc.ndim; i++) {
        const int64_t dim = l->desc.dim[i], stride = l->stride[i];
        if (dim == 1)
            continue;
        if (n > 0 && side[n - 1].in == dim * stride) {
            side[n - 1].dim *= dim;
            side[n - 1].in = stride;
        } else {
            side[n++] = (copy_axis){dim, stride, 0};
        }
    }
    return n;
}

static inline int64_t copy_axes_gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* The common axes of both sides, innermost first; -1 if their dims have no common factors. Each
 * axis found uses up one of either side, so there are at most COPY_AXES_MAX. */
static inline int copy_axes_of(const weir_layout *in, const weir_layout *out,
                               copy_axis common[COPY_AXES_MAX])
{
    copy_axis a[WEIR_MAX_DIMS], b[WEIR_MAX_DIMS];
    int       i = copy_axes_side(in, a) - 1, j = copy_axes_side(out, b) - 1, n = 0;

    while (i >= 0 && j >= 0) {
        const int64_t g = copy_axes_gcd(a[i].dim, b[j].dim);
        if (g == 1)
            return -1;
        common[n++] = (copy_axis){g, a[i].in, b[j].in};
        a[i].dim /= g;
        a[i].in *= g;
        b[j].dim /= g;
        b[j].in *= g;
        if (a[i].dim > 1 && b[j].dim > 1)
            return -1;
        i -= a[i].dim == 1;
        j -= b[j].dim == 1;
    }
    return n;
}

/* Sorts by output stride, largest first, and merges axes that are contiguous on both sides. */
static inline int copy_axes_sort(copy_axis *common, int n)
{
    for (int i = 1; i < n; i++) {
        const copy_axis x = common[i];
        int             at = i;
        for (; at > 0 && common[at - 1].out < x.out; at--)
            common[at] = common[at - 1];
        common[at] = x;
    }
    int m = 0;
    for (int i = 0; i < n; i++) {
        copy_axis *const before = &common[m - 1];
        if (m > 0 && before->in == common[i].dim * common[i].in &&
            before->out == common[i].dim * common[i].out)
            *before = (copy_axis){before->dim * common[i].dim, common[i].in, common[i].out};
        else
            common[m++] = common[i];
    }
    return m;
}

/* Index of the axis with the smallest input stride; the last axis unless another is smaller. */
static inline int copy_axes_nearest(const copy_axis *common, int n)
{
    int best = n - 1;
    for (int i = 0; i < n - 1; i++)
        if (common[i].in > 0 && common[i].in < common[best].in)
            best = i;
    return best;
}

#endif
