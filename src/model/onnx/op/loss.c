/* loss.c - losses over classes, and normalisation by a norm. */
#include <string.h>

#include "model/onnx/op/ops.h"

/* x (n,classes,d...) and classes (n,d...) -> x at the class of each place, (n,d...). */
static weir_tensor *at_class(weir_onnx_call *c, weir_tensor *x, weir_tensor *class_)
{
    const weir_desc    d = weir_tensor_desc(x), t = weir_tensor_desc(class_);
    const int64_t      inner = weir_onnx_product(&d, 2, d.ndim), n = d.dim[0];
    const int64_t      all = n * d.dim[1] * inner;
    weir_tensor *const step = weir_fill_int(c->dev, weir_scalar(WEIR_I64), inner);
    weir_tensor       *at = weir_mul(weir_reshape(class_, 2, (int64_t[]){n, inner}), step);

    at = weir_add(at, weir_onnx_ramp(c, n, d.dim[1] * inner, 2, 0));
    at = weir_add(at, weir_onnx_ramp(c, inner, 1, 2, 1));
    weir_tensor *const y = at ? weir_gather(weir_reshape(x, 1, &all), at) : NULL;
    return y ? weir_reshape(y, t.ndim, t.dim) : NULL;
}

/* -w[class] x[class] where the class is not the ignored one; x holds logarithms. */
static weir_status likelihood(weir_onnx_call *c, weir_tensor *x)
{
    weir_tensor *const target = weir_onnx_x(c, 1);
    const char *const  how = weir_onnx_str(c, "reduction", "mean");

    if (!x || !target)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x), t = weir_tensor_desc(target);
    bool            fits = d.ndim >= 2 && t.ndim == d.ndim - 1 && t.dim[0] == d.dim[0];
    for (int i = 1; fits && i < t.ndim; i++)
        fits = t.dim[i] == d.dim[i + 1];
    if (!fits)
        return weir_onnx_refuse(c, "the classes do not have the shape of the scores");
    weir_tensor *const class_ = weir_onnx_as(target, WEIR_I64);
    weir_tensor *const zero = weir_onnx_scalar(c, d.dtype, 0);
    weir_tensor       *weight = weir_onnx_scalar(c, d.dtype, 1), *safe = class_;
    if (weir_onnx_attr_of(c, "ignore_index")) {
        weir_tensor *const ignored =
            weir_fill_int(c->dev, weir_scalar(WEIR_I64), weir_onnx_int(c, "ignore_index", 0));
        weir_tensor *const kept = weir_ne(class_, ignored);
        safe = weir_where(kept, class_, weir_fill_int(c->dev, weir_scalar(WEIR_I64), 0));
        weight = weir_where(kept, weight, zero);
    }
    if (weir_onnx_has(c, 2))
        weight = weir_mul(weight, weir_gather(weir_onnx_x(c, 2), safe));
    weir_desc shape = t;
    shape.dtype = d.dtype;
    weight = weight ? weir_broadcast_to(weight, shape) : NULL;
    weir_tensor *const loss = weir_neg(weir_mul(at_class(c, x, safe), weight));
    if (strcmp(how, "none") == 0)
        return weir_onnx_give(c, 0, loss);
    weir_tensor *const sum = weir_sum(loss, 0, false);
    if (strcmp(how, "sum") == 0)
        return weir_onnx_give(c, 0, sum);
    return weir_onnx_give(c, 0, weir_div(sum, weir_sum(weight, 0, false)));
}

weir_status weir_onnx_negative_log_likelihood(weir_onnx_call *c)
{
    return likelihood(c, weir_onnx_x(c, 0));
}

/* The mean over rows without weights, which is a function of Weir. */
static bool is_own_loss(weir_onnx_call *c, weir_desc x)
{
    const weir_desc  t = weir_onnx_desc_of(c, 1);

    return x.ndim == 2 && (x.dtype == WEIR_F32 || x.dtype == WEIR_F64) && t.ndim == 1 &&
           t.dim[0] == x.dim[0] && (t.dtype == WEIR_I32 || t.dtype == WEIR_I64) &&
           strcmp(weir_onnx_str(c, "reduction", "mean"), "mean") == 0 && !weir_onnx_has(c, 2) &&
           !weir_onnx_wants(c, 1);
}

weir_status weir_onnx_softmax_cross_entropy(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);

    if (!x)
        return weir_error_status();
    if (weir_tensor_desc(x).ndim < 2)
        return weir_onnx_refuse(c, "scores with fewer than 2 axes");
    if (is_own_loss(c, weir_tensor_desc(x)))
        return weir_onnx_give(c, 0, weir_cross_entropy_ignore(
                                        x, weir_onnx_x(c, 1),
                                        weir_onnx_int(c, "ignore_index", WEIR_IGNORED_CLASS)));
    weir_tensor *const y = weir_log_softmax(x, 1);
    if (weir_onnx_wants(c, 1))
        WEIR_TRY(weir_onnx_give(c, 1, weir_onnx_same(y)));
    return likelihood(c, y);
}

/* x / |x|_p along an axis, 0 where the norm is 0. */
weir_status weir_onnx_lp_norm(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    const int64_t      p = weir_onnx_int(c, "p", 2);
    int                axis;

    if (!x)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    WEIR_TRY(weir_onnx_axis(c, weir_onnx_int(c, "axis", -1), d.ndim, &axis));
    if (p != 1 && p != 2)
        return weir_onnx_refuse(c, "p %lld", (long long)p);
    weir_tensor *const parts = p == 1 ? weir_abs(x) : weir_square(x);
    weir_tensor       *norm = weir_sum(parts, 1u << axis, true);
    norm = p == 1 ? norm : weir_sqrt(norm);
    weir_tensor *const zero = weir_onnx_scalar(c, d.dtype, 0);
    weir_tensor *const one = weir_onnx_scalar(c, d.dtype, 1);
    weir_tensor *const some = weir_gt(norm, zero);
    return weir_onnx_give(c, 0, weir_where(some, weir_div(x, weir_where(some, norm, one)), zero));
}
