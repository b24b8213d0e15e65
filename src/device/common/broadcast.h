/* broadcast.h - the axes of a copy: those of input and output paired, in logical (row-major) order.
 *
 * A pair is an axis (dim, input stride, output stride). That covers equal dims with any two
 * physical orders, and a reshape whose dims factor into common ones: channels-last (n,c,h,w) to
 * (n, c*h*w) becomes n transposes of (c, h*w). Strides may be negative on either side. */
#ifndef WEIR_DEVICE_COMMON_BROADCAST_H
#define WEIR_DEVICE_COMMON_BROADCAST_H

#include "core/shape.h"

enum { PAIRS_MAX = 2 * WEIR_MAX_DIMS };

typedef struct paired {
    int64_t dim, in, out;       /* strides in elements */
} paired;

/* Axes of one layout in logical order, size 1 dropped, merged where memory goes on. `in` holds the
 * stride. */
static inline int pairs_side(const weir_layout *l, paired side[WEIR_MAX_DIMS])
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
            side[n++] = (paired){dim, stride, 0};
        }
    }
    return n;
}

static inline int64_t pairs_gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* Common axes of both sides, innermost first; -1 if their dims have no common factors. Each axis
 * found finishes one of either side, so there are at most PAIRS_MAX. */
static inline int pairs_of(const weir_layout *in, const weir_layout *out, paired pair[PAIRS_MAX])
{
    paired a[WEIR_MAX_DIMS], b[WEIR_MAX_DIMS];
    int    i = pairs_side(in, a) - 1, j = pairs_side(out, b) - 1, n = 0;

    while (i >= 0 && j >= 0) {
        const int64_t g = pairs_gcd(a[i].dim, b[j].dim);
        if (g == 1)
            return -1;
        pair[n++] = (paired){g, a[i].in, b[j].in};
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

/* Outermost in the output's memory first, merged where both sides go on. */
static inline int pairs_physical(paired *pair, int n)
{
    for (int i = 1; i < n; i++) {
        const paired x = pair[i];
        int          at = i;
        for (; at > 0 && pair[at - 1].out < x.out; at--)
            pair[at] = pair[at - 1];
        pair[at] = x;
    }
    int m = 0;
    for (int i = 0; i < n; i++) {
        paired *const before = &pair[m - 1];
        if (m > 0 && before->in == pair[i].dim * pair[i].in &&
            before->out == pair[i].dim * pair[i].out)
            *before = (paired){before->dim * pair[i].dim, pair[i].in, pair[i].out};
        else
            pair[m++] = pair[i];
    }
    return m;
}

/* The axis that is nearest in the input's memory, the last one if none is nearer than that. */
static inline int pairs_nearest(const paired *pair, int n)
{
    int best = n - 1;
    for (int i = 0; i < n - 1; i++)
        if (pair[i].in > 0 && pair[i].in < pair[best].in)
            best = i;
    return best;
}

#endif
