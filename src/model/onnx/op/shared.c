/* shared.c - helpers of several operators: scalars, ramps, indices, sizes. */
#include "model/onnx/op/ops.h"

weir_tensor *weir_onnx_scalar(weir_onnx_call *c, weir_dtype t, double v)
{
    return weir_fill(c->dev, weir_scalar(t), v);
}

weir_tensor *weir_onnx_ramp(weir_onnx_call *c, int64_t count, int64_t step, int ndim, int axis)
{
    int64_t dim[WEIR_MAX_DIMS];

    for (int i = 0; i < ndim; i++)
        dim[i] = i == axis ? count : 1;
    weir_tensor *const t = weir_arange(c->dev, WEIR_I64, count, 0, (double)step);
    return t ? weir_reshape(t, ndim, dim) : NULL;
}

weir_tensor *weir_onnx_wrap(weir_onnx_call *c, weir_tensor *index, int64_t n)
{
    const weir_dtype   t = weir_tensor_desc(index).dtype;
    weir_tensor *const zero = weir_fill_int(c->dev, weir_scalar(t), 0);
    weir_tensor *const size = weir_fill_int(c->dev, weir_scalar(t), n);

    return weir_where(weir_lt(index, zero), weir_add(index, size), index);
}

weir_tensor *weir_onnx_as(weir_tensor *x, weir_dtype t)
{
    return x && weir_tensor_desc(x).dtype != t ? weir_cast(x, t) : x;
}

weir_tensor *weir_onnx_same(weir_tensor *x)
{
    const weir_desc d = weir_tensor_desc(x);
    return x ? weir_reshape(x, d.ndim, d.dim) : NULL;
}

double weir_onnx_eps(double eps)
{
    return eps > 0 ? eps : WEIR_ZERO;
}

int64_t weir_onnx_product(const weir_desc *d, int from, int to)
{
    int64_t n = 1;

    for (int i = from; i < to; i++)
        n *= d->dim[i];
    return n;
}

weir_tensor *weir_onnx_per_channel(weir_tensor *t, int64_t channels, int ndim)
{
    int64_t dim[WEIR_MAX_DIMS];

    for (int i = 0; i < ndim; i++)
        dim[i] = i == 1 ? channels : 1;
    return t ? weir_reshape(t, ndim, dim) : NULL;
}
