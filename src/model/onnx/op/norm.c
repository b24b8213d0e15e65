/* norm.c - normalisations, dropout and other draws.
 *
 * Random numbers are the device's, which weir_device_seed starts: an attribute `seed` of a node is
 * not read, so that a graph draws other numbers in each step. */
#include <string.h>

#include "model/onnx/op/ops.h"

/* Statistics that are no states of the model: (x - mean) / sqrt(var + eps) scale + bias. */
static weir_tensor *normalise(weir_onnx_call *c, const weir_desc *d, double eps)
{
    weir_tensor *part[4];

    for (size_t i = 0; i < 4; i++)
        part[i] = weir_onnx_per_channel(weir_onnx_x(c, i + 1), d->dim[1], d->ndim);
    weir_tensor *const factor = weir_mul(part[0], weir_rsqrt(weir_affine(part[3], 1, eps)));
    return weir_add(weir_mul(weir_sub(weir_onnx_x(c, 0), part[2]), factor), part[1]);
}

/* Outputs 1 and 2: what the statistics of inputs 3 and 4 become, which stay as they are. */
static weir_status with_statistics(weir_onnx_call *c, weir_tensor *x, double eps)
{
    const weir_desc    d = weir_tensor_desc(x);
    const uint32_t     dims = ((1u << d.ndim) - 1) & ~2u;
    const double       old = weir_onnx_float(c, "momentum", (double)0.9f);
    weir_tensor *const mean = weir_mean(x, dims, false);
    weir_tensor *const off = weir_sub(x, weir_onnx_per_channel(mean, d.dim[1], d.ndim));
    weir_tensor *const var = weir_mean(weir_square(off), dims, false);
    weir_tensor *const now[] = {mean, var};
    weir_tensor       *part[2];

    for (size_t i = 0; i < 2; i++) {
        weir_tensor *const was = weir_onnx_x(c, 3 + i);
        weir_tensor *const next = weir_add(weir_affine(was, old, 0),
                                           weir_affine(weir_detach(now[i]), 1 - old, 0));
        part[i] = weir_onnx_per_channel(weir_onnx_x(c, 1 + i), d.dim[1], d.ndim);
        if (weir_onnx_wants(c, 1 + i))
            WEIR_TRY(weir_onnx_give(c, 1 + i, next));
    }
    weir_tensor *const inverse =
        weir_onnx_per_channel(weir_rsqrt(weir_affine(var, 1, eps)), d.dim[1], d.ndim);
    return weir_onnx_give(c, 0, weir_add(weir_mul(weir_mul(off, inverse), part[0]), part[1]));
}

/* ONNX's momentum is the weight of the old statistics, Weir's that of the new ones. */
weir_status weir_onnx_batch_norm(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    const double       eps = weir_onnx_float(c, "epsilon", (double)1e-5f);
    const bool         said = weir_onnx_int(c, "training_mode", 0) != 0;

    if (!x || !weir_onnx_has(c, 3) || !weir_onnx_has(c, 4))
        return weir_onnx_refuse(c, "%zu inputs", c->node->n_in);
    const weir_desc d = weir_tensor_desc(x);
    if (d.ndim < 2 || weir_onnx_int(c, "spatial", 1) != 1)
        return weir_onnx_refuse(c, "a tensor with %d axes, or spatial 0", d.ndim);
    for (size_t i = 1; i < c->node->n_out; i++)
        if (weir_onnx_wants(c, i) && (said || c->m->last[c->node->out[i]]))
            return said ? with_statistics(c, x, eps)
                        : weir_onnx_refuse(c, "running statistics as outputs");
    const bool trains = said || weir_model_training(c->m->model);
    const bool states = c->m->value[c->node->in[3]].kept && c->m->value[c->node->in[3]].t &&
                        c->m->value[c->node->in[4]].kept && c->m->value[c->node->in[4]].t;
    if (!states || c->fold)
        return trains ? weir_onnx_refuse(c, "training without statistics of its own")
                      : weir_onnx_give(c, 0, normalise(c, &d, eps));
    weir_batch_norm_options o = weir_batch_norm_options_default();
    o.eps = eps;
    o.momentum = 1 - weir_onnx_float(c, "momentum", (double)0.9f);
    o.train = trains;
    return weir_onnx_give(c, 0,
                          weir_batch_norm(x, weir_onnx_x(c, 1), weir_onnx_x(c, 2),
                                          weir_onnx_x(c, 3), weir_onnx_x(c, 4), &o));
}

/* The factors are drawn first, so that the mask is that of the result. */
static weir_status masked_dropout(weir_onnx_call *c, weir_tensor *x, double ratio)
{
    const weir_desc    d = weir_tensor_desc(x);
    weir_tensor *const factor = weir_dropout(weir_fill(c->dev, d, 1), ratio);

    WEIR_TRY(weir_onnx_give(c, 1, weir_gt(factor, weir_onnx_scalar(c, d.dtype, 0))));
    return weir_onnx_give(c, 0, weir_mul(x, factor));
}

/* The mask is all true where nothing is left out. */
weir_status weir_onnx_dropout(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    double             ratio = weir_onnx_float(c, "ratio", 0.5), train = 0;

    if (!x)
        return weir_error_status();
    if (c->opset >= 12 && weir_onnx_has(c, 1))
        WEIR_TRY(weir_onnx_number(c, 1, &ratio));
    if (c->opset >= 12 && weir_onnx_has(c, 2))
        WEIR_TRY(weir_onnx_number(c, 2, &train));
    const bool drops = (train > 0 || weir_model_training(c->m->model)) && ratio > 0;
    if (weir_onnx_wants(c, 1)) {
        weir_desc d = weir_tensor_desc(x);
        d.dtype = WEIR_BOOL;
        if (drops && c->m->last[c->node->out[1]])
            return masked_dropout(c, x, ratio);
        WEIR_TRY(weir_onnx_give(c, 1, weir_fill_int(c->dev, d, 1)));
    }
    return weir_onnx_give(c, 0, drops ? weir_dropout(x, ratio) : weir_onnx_same(x));
}

/* ---- draws ---- */

/* The shape and type of a draw: those of an attribute, or of input 0. */
static weir_status drawn_desc(weir_onnx_call *c, bool like, weir_desc *d)
{
    const int64_t *dim;
    const int64_t  said = weir_onnx_int(c, "dtype", 0);

    if (like) {
        if (!weir_onnx_has(c, 0))
            return weir_onnx_refuse(c, "an input is missing");
        *d = weir_onnx_desc_of(c, 0);
    } else {
        const size_t n = weir_onnx_ints(c, "shape", &dim);
        *d = (weir_desc){.dtype = WEIR_F32, .ndim = (int)n};
        if (n > WEIR_MAX_DIMS)
            return weir_onnx_refuse(c, "a shape of %zu axes", n);
        if (n)
            memcpy(d->dim, dim, n * sizeof *dim);
    }
    if (said && !weir_onnx_dtype(said, &d->dtype))
        return weir_onnx_refuse(c, "Weir lacks the type %s", weir_onnx_type_name(said));
    return WEIR_OK;
}

static weir_status draw(weir_onnx_call *c, bool like, bool normal)
{
    const double a = weir_onnx_float(c, normal ? "mean" : "low", 0);
    const double b = weir_onnx_float(c, normal ? "scale" : "high", 1);
    weir_desc    d;

    WEIR_TRY(drawn_desc(c, like, &d));
    return weir_onnx_give(c, 0, normal ? weir_normal(c->dev, d, a, b)
                                       : weir_uniform(c->dev, d, a, b));
}

weir_status weir_onnx_random_uniform(weir_onnx_call *c)
{
    return draw(c, false, false);
}

weir_status weir_onnx_random_uniform_like(weir_onnx_call *c)
{
    return draw(c, true, false);
}

weir_status weir_onnx_random_normal(weir_onnx_call *c)
{
    return draw(c, false, true);
}

weir_status weir_onnx_random_normal_like(weir_onnx_call *c)
{
    return draw(c, true, true);
}

/* 1 with the probability that the element of input 0 says. */
weir_status weir_onnx_bernoulli(weir_onnx_call *c)
{
    weir_tensor *const p = weir_onnx_x(c, 0);
    weir_desc          d;

    if (!p)
        return weir_error_status();
    WEIR_TRY(drawn_desc(c, true, &d));
    const weir_dtype type = d.dtype;
    d.dtype = weir_tensor_desc(p).dtype;
    return weir_onnx_give(c, 0, weir_cast(weir_lt(weir_uniform(c->dev, d, 0, 1), p), type));
}

/* ---- over the last axes ---- */

static bool same_tail(const weir_desc *d, int axis, const weir_desc *scale)
{
    if (scale->ndim != d->ndim - axis)
        return false;
    for (int i = axis; i < d->ndim; i++)
        if (scale->dim[i - axis] != d->dim[i])
            return false;
    return true;
}

static weir_desc tail(const weir_desc *d, int axis)
{
    weir_desc t = {.dtype = d->dtype, .ndim = d->ndim - axis};

    for (int i = axis; i < d->ndim; i++)
        t.dim[i - axis] = d->dim[i];
    return t;
}

/* With mean and 1 / deviation as outputs. */
static weir_status layer_norm_parts(weir_onnx_call *c, weir_tensor *x, int axis, double eps)
{
    const weir_desc    d = weir_tensor_desc(x);
    const uint32_t     dims = ((1u << d.ndim) - 1) & ~((1u << axis) - 1);
    weir_tensor *const mean = weir_mean(x, dims, true), *const off = weir_sub(x, mean);
    weir_tensor *const var = weir_mean(weir_square(off), dims, true);
    weir_tensor *const inverse = weir_rsqrt(weir_affine(var, 1, eps));
    weir_tensor       *y = weir_mul(weir_mul(off, inverse), weir_onnx_x(c, 1));

    if (weir_onnx_has(c, 2))
        y = weir_add(y, weir_onnx_x(c, 2));
    WEIR_TRY(weir_onnx_give(c, 0, y));
    WEIR_TRY(weir_onnx_give(c, 1, mean));
    return weir_onnx_give(c, 2, inverse);
}

weir_status weir_onnx_layer_norm(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0), *const scale = weir_onnx_x(c, 1);
    const double eps = weir_onnx_float(c, "epsilon", (double)1e-5f);
    int          axis;

    if (!x || !scale)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x), s = weir_tensor_desc(scale);
    WEIR_TRY(weir_onnx_axis(c, weir_onnx_int(c, "axis", -1), d.ndim, &axis));
    const weir_desc b = weir_onnx_has(c, 2) ? weir_onnx_desc_of(c, 2) : s;
    if (weir_onnx_wants(c, 1) || weir_onnx_wants(c, 2) || !same_tail(&d, axis, &s) ||
        !same_tail(&d, axis, &b))
        return layer_norm_parts(c, x, axis, eps);
    weir_tensor *const bias = weir_onnx_has(c, 2) ? weir_onnx_x(c, 2) : weir_fill(c->dev, s, 0);
    return weir_onnx_give(c, 0, weir_layer_norm(x, scale, bias, weir_onnx_eps(eps)));
}

weir_status weir_onnx_rms_norm(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    weir_tensor       *scale = weir_onnx_x(c, 1);
    int                axis;

    if (!x || !scale)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x), s = weir_tensor_desc(scale);
    WEIR_TRY(weir_onnx_axis(c, weir_onnx_int(c, "axis", -1), d.ndim, &axis));
    if (!same_tail(&d, axis, &s))
        scale = weir_copy(weir_broadcast_to(scale, tail(&d, axis)));
    const double eps = weir_onnx_float(c, "epsilon", (double)1e-5f);
    return weir_onnx_give(c, 0, weir_rms_norm(x, scale, weir_onnx_eps(eps)));
}

/* ---- over groups of channels ---- */

static weir_status groups(weir_onnx_call *c, int64_t n, weir_tensor *scale, weir_tensor *bias)
{
    weir_tensor *const x = weir_onnx_x(c, 0);

    if (!x || !scale || !bias)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    if (d.ndim < 2)
        return weir_onnx_refuse(c, "a tensor with %d axes", d.ndim);
    const int64_t flat[4] = {d.dim[0], d.dim[1], 1, weir_onnx_product(&d, 2, d.ndim)};
    const bool    plain = d.ndim == 2 || d.ndim == 4;
    const double  eps = weir_onnx_eps(weir_onnx_float(c, "epsilon", (double)1e-5f));
    weir_tensor  *y = weir_group_norm(plain ? x : weir_reshape(x, 4, flat), n, scale, bias, eps);
    return weir_onnx_give(c, 0, plain || !y ? y : weir_reshape(y, d.ndim, d.dim));
}

weir_status weir_onnx_instance_norm(weir_onnx_call *c)
{
    const weir_desc d = weir_onnx_desc_of(c, 0);
    return groups(c, d.ndim > 1 ? d.dim[1] : 1, weir_onnx_x(c, 1), weir_onnx_x(c, 2));
}

/* Up to opset 20 scale and bias are those of groups. */
weir_status weir_onnx_group_norm(weir_onnx_call *c)
{
    const weir_desc d = weir_onnx_desc_of(c, 0);
    const int64_t   n = weir_onnx_int(c, "num_groups", 1);
    weir_tensor    *scale = weir_onnx_x(c, 1), *bias = weir_onnx_x(c, 2);

    if (n < 1 || d.ndim < 2 || d.dim[1] % n != 0)
        return weir_onnx_refuse(c, "%lld groups", (long long)n);
    if (c->opset < 21) {
        scale = weir_repeat(scale, 0, d.dim[1] / n);
        bias = weir_repeat(bias, 0, d.dim[1] / n);
    }
    return groups(c, n, scale, bias);
}

/* x / (bias + alpha / size (sum of x^2 over `size` channels around))^beta. */
weir_status weir_onnx_lrn(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    const int64_t      size = weir_onnx_int(c, "size", 0);
    const double       alpha = weir_onnx_float(c, "alpha", (double)0.0001f);
    const double       beta = weir_onnx_float(c, "beta", 0.75);
    int64_t            before[WEIR_MAX_DIMS] = {0}, after[WEIR_MAX_DIMS] = {0};
    weir_tensor       *sum = NULL;

    if (!x)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    if (size < 1 || size > 64 || d.ndim < 2)
        return weir_onnx_refuse(c, "size %lld", (long long)size);
    before[1] = (size - 1) / 2;
    after[1] = size - 1 - before[1];
    weir_tensor *const squares = weir_pad(weir_square(x), before, after, WEIR_PAD_CONSTANT, 0);
    for (int64_t i = 0; i < size; i++) {
        weir_tensor *const part = weir_narrow(squares, 1, i, d.dim[1]);
        sum = i ? weir_add(sum, part) : part;
    }
    weir_tensor *const base = weir_affine(sum, alpha / (double)size, weir_onnx_float(c, "bias", 1));
    return weir_onnx_give(c, 0, weir_div(x, weir_pow(base, weir_onnx_scalar(c, d.dtype, beta))));
}

/* (x - mean) / deviation over the axes, 0, 2 and 3 if none are named; 1e-9 beside the deviation. */
weir_status weir_onnx_mean_variance_norm(weir_onnx_call *c)
{
    static const int64_t usual[] = {0, 2, 3};
    weir_tensor *const   x = weir_onnx_x(c, 0);
    const int64_t       *axes;
    size_t               n = weir_onnx_ints(c, "axes", &axes);
    uint32_t             dims = 0;
    int                  axis;

    if (!x)
        return weir_error_status();
    if (n == 0) {
        axes = usual;
        n = 3;
    }
    for (size_t i = 0; i < n; i++) {
        WEIR_TRY(weir_onnx_axis(c, axes[i], weir_tensor_desc(x).ndim, &axis));
        dims |= 1u << axis;
    }
    weir_tensor *const off = weir_sub(x, weir_mean(x, dims, true));
    weir_tensor *const deviation = weir_sqrt(weir_mean(weir_square(off), dims, true));
    return weir_onnx_give(c, 0, weir_div(off, weir_affine(deviation, 1, 1e-9)));
}
