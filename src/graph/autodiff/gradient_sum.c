/* gradient_sum.c - sums of gradients. See gradient_sum.h. */
#include "graph/autodiff/gradient_sum.h"

#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/status.h"
#include "graph/ops/op.h"

weir_status weir_gradient_add(weir_tensor **total, weir_tensor *g)
{
    weir_tensor *const sum = g && *total ? weir_add(*total, g) : g;

    if (!sum)
        return weir_error_status();
    weir_retain(sum);
    weir_release(*total);
    *total = sum;
    return WEIR_OK;
}

static weir_status add_scattered(weir_gradient_sum *sum, const weir_slice_attr *at,
                                 weir_tensor *dy)
{
    return weir_gradient_add(&sum->total,
                             weir_record1(WEIR_OP_SLICE_SCATTER, 1, &dy, at, sizeof *at));
}

static void drop_parts(weir_gradient_sum *sum)
{
    for (uint32_t i = 0; i < sum->parts.n; i++)
        weir_release(sum->parts.at[i].dy);
    weir_vec_free(&sum->parts);
}

/* Adds the parts one by one. */
static weir_status add_parts(weir_gradient_sum *sum)
{
    weir_status status = WEIR_OK;

    for (uint32_t i = 0; i < sum->parts.n && status == WEIR_OK; i++)
        status = add_scattered(sum, &sum->parts.at[i].at, sum->parts.at[i].dy);
    drop_parts(sum);
    return status;
}

weir_status weir_gradient_sum_add(weir_gradient_sum *sum, weir_tensor *g)
{
    WEIR_TRY(add_parts(sum));
    return weir_gradient_add(&sum->total, g);
}

weir_status weir_gradient_sum_add_slice(weir_gradient_sum *sum, const weir_tape *t,
                                        weir_tensor *dy)
{
    const weir_desc *const x = &t->x[0]->layout.desc;
    weir_gradient_part     part = {.dy = dy};

    WEIR_TRY(weir_tape_check_unused(t));
    memcpy(&part.at, t->attr, sizeof part.at);
    for (int i = 0; i < x->ndim; i++)
        part.at.dim[i] = x->dim[i];
    if (sum->total)
        return add_scattered(sum, &part.at, dy);
    if (!weir_vec_push(&sum->parts, part))
        return WEIR_ERR_NOMEM;
    weir_retain(dy);
    return WEIR_OK;
}

/* ---- parts that cover an axis ---- */

/* The axis that the part does not fill; -1 if it fills all axes, or leaves several. */
static int axis_of(const weir_gradient_part *p)
{
    int axis = -1;

    for (int i = 0; i < (int)p->at.ndim; i++)
        if (p->at.step[i] != 1)
            return -1;
        else if (p->dy->layout.desc.dim[i] != p->at.dim[i]) {
            if (axis >= 0)
                return -1;
            axis = i;
        }
    return axis;
}

typedef struct placed {
    int64_t      begin, end;
    weir_tensor *dy;
} placed;

static int by_begin(const void *a, const void *b)
{
    const placed *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Writes the parts in the order of the axis that they cover without gap or overlap, and returns
 * that axis; -1 if they do not. */
static int covered(const weir_gradient_sum *sum, placed *part)
{
    const int axis = axis_of(&sum->parts.at[0]);
    int64_t   end = 0;

    for (uint32_t i = 0; i < sum->parts.n; i++) {
        const weir_gradient_part *const p = &sum->parts.at[i];
        if (axis < 0 || axis_of(p) != axis)
            return -1;
        const int64_t begin = p->at.begin[axis];
        part[i] = (placed){begin, begin + p->dy->layout.desc.dim[axis], p->dy};
    }
    qsort(part, sum->parts.n, sizeof *part, by_begin);
    for (uint32_t i = 0; i < sum->parts.n; end = part[i++].end)
        if (part[i].begin != end || part[i].end == end)
            return -1;
    return end == sum->parts.at[0].at.dim[axis] ? axis : -1;
}

/* Concatenates the parts if they cover an axis, else adds them one by one. */
static weir_status join_parts(weir_gradient_sum *sum)
{
    const uint32_t      n = sum->parts.n;
    placed *const       part = weir_mem_alloc(n * sizeof *part);
    weir_tensor **const dy = weir_mem_alloc(n * sizeof(weir_tensor *));
    const int           axis = part && dy ? covered(sum, part) : -1;
    weir_status         status = part && dy ? WEIR_OK : WEIR_ERR_NOMEM;

    if (axis >= 0) {
        for (uint32_t i = 0; i < n; i++)
            dy[i] = part[i].dy;
        status = weir_gradient_add(&sum->total, weir_concat((int)n, dy, axis));
        drop_parts(sum);
    } else if (status == WEIR_OK) {
        status = add_parts(sum);
    }
    weir_mem_free(part);
    weir_mem_free(dy);
    return status;
}

weir_status weir_gradient_sum_close(weir_gradient_sum *sum, weir_tensor **total)
{
    WEIR_TRY(sum->parts.n < 2 ? add_parts(sum) : join_parts(sum));
    *total = sum->total;
    return WEIR_OK;
}

void weir_gradient_sum_drop(weir_gradient_sum *sum)
{
    drop_parts(sum);
    weir_release(sum->total);
    sum->total = NULL;
}
