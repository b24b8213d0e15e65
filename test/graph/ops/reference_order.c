/* reference_order.c - elements of an axis by index, and the first ones in order. */
#include <stdbool.h>
#include <stdlib.h>

#include "graph/ops/reference.h"

static int axis_of(const ref_call *c)
{
    return c->o->axis < 0 ? c->o->axis + c->in[0].desc.ndim : c->o->axis;
}

void ref_take_along(ref_call *c)
{
    const ref_array *const x = &c->in[0], *const by = &c->in[1];
    const int              axis = axis_of(c);
    weir_desc              d = x->desc;
    int64_t                at[WEIR_MAX_DIMS], own[WEIR_MAX_DIMS] = {0};

    d.dim[axis] = by->desc.dim[axis];
    c->out = ref_new(d);
    for (int64_t i = 0; i < ref_count(&d); i++) {
        ref_unravel(&d, i, at);
        for (int k = 0; k < d.ndim; k++)
            own[k] = by->desc.dim[k] == 1 ? 0 : at[k];
        at[axis] = (int64_t)by->at[ref_ravel(&by->desc, own)];
        c->out.at[i] = x->at[ref_ravel(&x->desc, at)];
    }
}

/* True if a stands before b, which is further behind. */
static bool before(double a, double b, bool largest)
{
    if (isnan(a) || isnan(b))
        return largest ? isnan(a) && !isnan(b) : isnan(b) && !isnan(a);
    return largest ? a > b : a < b;
}

/* The place in its axis of element number `rank` in order, by counting those before each. */
static int64_t ranked(const ref_array *x, int64_t *at, int axis, int64_t rank, bool largest)
{
    const int64_t n = x->desc.dim[axis];

    for (int64_t i = 0; i < n; i++) {
        int64_t ahead = 0;
        at[axis] = i;
        const double own = x->at[ref_ravel(&x->desc, at)];
        for (int64_t j = 0; j < n; j++) {
            at[axis] = j;
            const double other = x->at[ref_ravel(&x->desc, at)];
            ahead += before(other, own, largest) || (j < i && !before(own, other, largest));
        }
        if (ahead == rank)
            return i;
    }
    return -1;
}

static void first(ref_call *c, bool places)
{
    const ref_array *const x = &c->in[0];
    const int              axis = axis_of(c);
    weir_desc              d = x->desc;
    int64_t                at[WEIR_MAX_DIMS];

    d.dim[axis] = c->o->to[0];
    d.dtype = places ? WEIR_I64 : d.dtype;
    c->out = ref_new(d);
    for (int64_t i = 0; i < ref_count(&d); i++) {
        ref_unravel(&d, i, at);
        const int64_t place = ranked(x, at, axis, at[axis], !c->o->keep);
        at[axis] = place;
        c->out.at[i] = places ? (double)place : x->at[ref_ravel(&x->desc, at)];
    }
}

void ref_topk(ref_call *c)
{
    first(c, false);
}

void ref_topk_places(ref_call *c)
{
    first(c, true);
}
