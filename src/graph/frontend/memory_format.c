/* memory_format.c - row-major results of operations on row-major tensors of four axes.
 *
 * A dense float tensor of four axes is channels-last (shape.h), which is right for images. Tokens
 * (n,h,w,c) and scores (n,heads,rows,columns) of a transformer are views whose last axis is
 * innermost, since products and reshapes make them. A dense result would transpose them, and the
 * next product would transpose them back. So an operation with WEIR_PRESERVE_FORMAT, PyTorch's
 * preserve_format, is recorded on views of its operands with a fifth axis of size 1: five axes are
 * row-major, and a view of the result has four again. Nothing is moved for that. */
#include "graph/frontend/memory_format.h"

#include "core/attr.h"
#include "core/dtype.h"
#include "graph/ops/define.h"

enum { IMAGE = 4 };     /* axes of the tensors that may be channels-last */

/* 1 if the last axis is inside axis 1, as in row-major memory; -1 if it is outside, as in
 * channels-last memory; 0 if the layout has no order of the two. */
static int order_of(const weir_layout *l)
{
    if (l->desc.ndim != IMAGE || !weir_is_any_float(l->desc.dtype) || l->desc.dim[1] < 2 ||
        l->desc.dim[3] < 2 || l->stride[1] == 0 || l->stride[3] == 0)
        return 0;
    return l->stride[3] < l->stride[1] ? 1 : -1;
}

/* A reshape to four axes that has to copy, of memory whose last axis is innermost. */
static bool copies_rows(const weir_layout *in, const weir_shape_attr *a)
{
    weir_desc   to = {.dtype = in->desc.dtype, .ndim = (int)a->ndim};
    weir_layout view;
    const int   last = in->desc.ndim - 1;

    if (a->ndim != IMAGE || !weir_is_any_float(in->desc.dtype) || last < 0)
        return false;
    for (int i = 0; i < IMAGE; i++)
        to.dim[i] = a->dim[i];
    for (int i = 0; i < last; i++)
        if (in->desc.dim[i] > 1 && in->stride[i] < in->stride[last])
            return false;
    return to.dim[1] > 1 && to.dim[3] > 1 && in->desc.dim[last] > 1 && in->stride[last] != 0 &&
           weir_shape_count(&to) == weir_shape_count(&in->desc) &&
           !weir_shape_reshape(in, &to, &view);
}

bool weir_format_is_row_major(const weir_opdef *def, weir_op op, int nin, weir_tensor *const *in,
                              const void *attr)
{
    double elements = 0;        /* of row-major operands, less those of channels-last ones */

    if (!(def->flags & WEIR_PRESERVE_FORMAT))
        return false;
    if (op == WEIR_OP_RESHAPE)
        return copies_rows(&in[0]->layout, attr);
    for (int i = 0; i < nin; i++)
        if (in[i]->layout.desc.ndim > IMAGE)
            return false;
    for (int i = 0; i < nin; i++)
        elements += order_of(&in[i]->layout) * (double)weir_shape_count(&in[i]->layout.desc);
    return elements > 0;
}

/* t with an axis of size 1 at the end; a scalar as it is. */
static weir_tensor *with_axis(weir_tensor *t)
{
    weir_desc d = t->layout.desc;

    if (d.ndim == 0)
        return t;
    d.dim[d.ndim++] = 1;
    return weir_reshape_as(t, &d);
}

/* The attributes for calls with a fifth axis: those that hold a size for each axis. */
static const void *attr_with_axis(weir_op op, const void *attr, weir_slice_attr *slice,
                                  weir_shape_attr *shape)
{
    if (op == WEIR_OP_SLICE_SCATTER) {
        *slice = *(const weir_slice_attr *)attr;
        slice->begin[slice->ndim] = 0;
        slice->step[slice->ndim] = slice->dim[slice->ndim] = 1;
        slice->ndim++;
        return slice;
    }
    if (op == WEIR_OP_RESHAPE) {
        *shape = *(const weir_shape_attr *)attr;
        shape->dim[shape->ndim++] = 1;
        return shape;
    }
    return attr;
}

weir_status weir_format_record(weir_op op, int nin, weir_tensor *const *in, const void *attr,
                               size_t attr_bytes, const uint64_t *rng, weir_tensor **out)
{
    weir_slice_attr    slice;
    weir_shape_attr    shape;
    const void *const  a = attr_with_axis(op, attr, &slice, &shape);
    weir_tensor       *wide[WEIR_MAX_IN], *y[WEIR_MAX_OUT] = {NULL};

    for (int i = 0; i < nin; i++) {
        wide[i] = op == WEIR_OP_RESHAPE ? in[i] : with_axis(in[i]);
        if (!wide[i])
            return weir_error_status();
    }
    WEIR_TRY(rng ? weir_record_at_rng(op, nin, wide, a, attr_bytes, *rng, y)
                 : weir_record(op, nin, wide, a, attr_bytes, y));

    weir_desc d = y[0]->layout.desc;
    d.ndim--;
    out[0] = weir_reshape_as(y[0], &d);
    return out[0] ? WEIR_OK : weir_error_status();
}
