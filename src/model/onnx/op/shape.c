/* shape.c - constants, shapes, casts, views. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "model/onnx/op/ops.h"

/* ---- types ---- */

static weir_status type_of(weir_onnx_call *c, int64_t type, weir_dtype *t)
{
    if (weir_onnx_dtype(type, t))
        return WEIR_OK;
    return weir_onnx_refuse(c, "Weir lacks the type %s", weir_onnx_type_name(type));
}

static weir_status cast_to(weir_onnx_call *c, weir_dtype t)
{
    weir_tensor *const x = weir_onnx_x(c, 0);

    if (!x)
        return weir_error_status();
    return weir_onnx_give(c, 0,
                          weir_tensor_desc(x).dtype == t ? weir_onnx_same(x) : weir_cast(x, t));
}

weir_status weir_onnx_cast(weir_onnx_call *c)
{
    weir_dtype t;

    WEIR_TRY(type_of(c, weir_onnx_int(c, "to", 0), &t));
    return cast_to(c, t);
}

weir_status weir_onnx_cast_like(weir_onnx_call *c)
{
    return cast_to(c, weir_onnx_desc_of(c, 1).dtype);
}

/* ---- constants ---- */

weir_status weir_onnx_literal(weir_onnx_call *c)
{
    for (size_t i = 0; i < c->node->n_attr; i++) {
        const weir_onnx_attr *const a = &c->node->attr[i];
        const float                 f = (float)a->f;
        weir_desc                   d;
        if (strcmp(a->name, "value") == 0 && a->t && a->t->bytes) {
            WEIR_TRY(weir_onnx_desc(&c->m->proto, a->t, &d));
            return weir_onnx_tell(c, d, a->t->bytes);
        }
        if (strcmp(a->name, "value_int") == 0)
            return weir_onnx_tell(c, weir_scalar(WEIR_I64), &a->i);
        if (strcmp(a->name, "value_float") == 0)
            return weir_onnx_tell(c, weir_scalar(WEIR_F32), &f);
        if (strcmp(a->name, "value_ints") == 0)
            return weir_onnx_tell(c, weir_1d(WEIR_I64, (int64_t)a->n_ints), a->ints);
        if (strcmp(a->name, "value_floats") == 0)
            return weir_onnx_tell(c, weir_1d(WEIR_F32, (int64_t)a->n_floats), a->floats);
    }
    return weir_onnx_refuse(c, "a constant of another kind than numbers");
}

weir_status weir_onnx_constant_of_shape(weir_onnx_call *c)
{
    const weir_onnx_attr *const a = weir_onnx_attr_of(c, "value");
    weir_desc                   one = weir_scalar(WEIR_F32), d = {0};
    const float                 zero = 0;
    const void                 *value = &zero;
    size_t                      n;

    if (a && a->t && a->t->bytes) {
        WEIR_TRY(weir_onnx_desc(&c->m->proto, a->t, &one));
        value = a->t->bytes;
        if (weir_onnx_elements(&one) != 1)
            return weir_onnx_refuse(c, "value has not one element");
    }
    WEIR_TRY(weir_onnx_list(c, 0, d.dim, WEIR_MAX_DIMS, &n));
    d.dtype = one.dtype;
    d.ndim = (int)n;
    one.ndim = 0;
    weir_tensor *const t = weir_onnx_constant(c, one, value);
    return weir_onnx_give(c, 0, t ? weir_copy(weir_broadcast_to(t, d)) : NULL);
}

/* 1 on diagonal k of a matrix of the input's shape. */
weir_status weir_onnx_eye_like(weir_onnx_call *c)
{
    const weir_desc d = weir_onnx_desc_of(c, 0);
    weir_dtype      t = d.dtype;

    if (d.ndim != 2)
        return weir_onnx_refuse(c, "a tensor with %d axes", d.ndim);
    if (weir_onnx_attr_of(c, "dtype"))
        WEIR_TRY(type_of(c, weir_onnx_int(c, "dtype", 0), &t));
    weir_tensor *const k = weir_fill_int(c->dev, weir_scalar(WEIR_I64), weir_onnx_int(c, "k", 0));
    weir_tensor *const row = weir_onnx_ramp(c, d.dim[0], 1, 2, 0);
    weir_tensor *const column = weir_onnx_ramp(c, d.dim[1], 1, 2, 1);
    return weir_onnx_give(c, 0, weir_cast(weir_eq(weir_sub(column, row), k), t));
}

weir_status weir_onnx_range(weir_onnx_call *c)
{
    double start, limit, step;

    WEIR_TRY(weir_onnx_number(c, 0, &start));
    WEIR_TRY(weir_onnx_number(c, 1, &limit));
    WEIR_TRY(weir_onnx_number(c, 2, &step));
    const double n = ceil((limit - start) / step);
    if (!(fabs(step) > 0) || !(n < 1e9))
        return weir_onnx_refuse(c, "a range from %g to %g by %g", start, limit, step);
    return weir_onnx_give(
        c, 0,
        weir_arange(c->dev, weir_onnx_desc_of(c, 0).dtype, n > 0 ? (int64_t)n : 0, start, step));
}

/* ---- shapes as values ---- */

static int64_t clamp(int64_t v, int64_t lo, int64_t hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

weir_status weir_onnx_shape(weir_onnx_call *c)
{
    const weir_desc d = weir_onnx_desc_of(c, 0);
    int64_t         from = weir_onnx_int(c, "start", 0), to = weir_onnx_int(c, "end", d.ndim);

    from = clamp(from < 0 ? from + d.ndim : from, 0, d.ndim);
    to = clamp(to < 0 ? to + d.ndim : to, from, d.ndim);
    return weir_onnx_tell(c, weir_1d(WEIR_I64, to - from), d.dim + from);
}

weir_status weir_onnx_size(weir_onnx_call *c)
{
    const weir_desc d = weir_onnx_desc_of(c, 0);
    const int64_t   n = (int64_t)weir_onnx_elements(&d);

    return weir_onnx_tell(c, weir_scalar(WEIR_I64), &n);
}

/* ---- views ---- */

weir_status weir_onnx_reshape(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    int64_t            dim[WEIR_MAX_DIMS];
    size_t             n;

    if (!x)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    const bool      zero = weir_onnx_int(c, "allowzero", 0) != 0;
    WEIR_TRY(weir_onnx_list(c, 1, dim, WEIR_MAX_DIMS, &n));
    int64_t product = 1;
    int     open = -1;
    for (size_t i = 0; i < n; i++) {
        if (dim[i] == 0 && !zero)
            dim[i] = i < (size_t)d.ndim ? d.dim[i] : 0;
        if (dim[i] == -1)
            open = (int)i;
        else
            product *= dim[i] > 0 && dim[i] < INT32_MAX && product < INT32_MAX ? dim[i] : 1;
    }
    if (open >= 0 && product > 0 && weir_tensor_bytes(x) == 0)
        dim[open] = 0; /* -1 of an empty tensor is not unique */
    return weir_onnx_give(c, 0, weir_reshape(x, (int)n, dim));
}

weir_status weir_onnx_flatten(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);

    if (!x)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    int64_t         axis = weir_onnx_int(c, "axis", 1);
    if (axis < -d.ndim || axis > d.ndim)
        return weir_onnx_refuse(c, "axis %" PRId64 " of a tensor with %d", axis, d.ndim);
    axis = axis < 0 ? axis + d.ndim : axis;
    const int64_t dim[2] = {weir_onnx_product(&d, 0, (int)axis),
                            weir_onnx_product(&d, (int)axis, d.ndim)};
    return weir_onnx_give(c, 0, weir_reshape(x, 2, dim));
}

weir_status weir_onnx_transpose(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    const int64_t     *perm;
    int                axes[WEIR_MAX_DIMS];
    const size_t       n = weir_onnx_ints(c, "perm", &perm);

    if (!x)
        return weir_error_status();
    if (n == 0)
        return weir_onnx_give(c, 0, weir_transpose(x, NULL));
    if (n != (size_t)weir_tensor_desc(x).ndim)
        return weir_onnx_refuse(c, "perm has %zu axes, the tensor %d", n, weir_tensor_desc(x).ndim);
    for (size_t i = 0; i < n; i++)
        axes[i] = perm[i] >= 0 && perm[i] < WEIR_MAX_DIMS ? (int)perm[i] : -1;
    return weir_onnx_give(c, 0, weir_transpose(x, axes));
}

/* The axes of the attribute or of input 1 as bits; all of size 1 where none is given. */
static weir_status axis_bits(weir_onnx_call *c, int ndim, const weir_desc *d, uint32_t *bits)
{
    int64_t axes[WEIR_MAX_DIMS];
    size_t  n;
    bool    given;
    int     axis;

    *bits = 0;
    WEIR_TRY(weir_onnx_axes(c, "axes", 1, axes, WEIR_MAX_DIMS, &n, &given));
    for (size_t i = 0; i < n; i++) {
        WEIR_TRY(weir_onnx_axis(c, axes[i], ndim, &axis));
        *bits |= 1u << axis;
    }
    for (int i = 0; !given && d && i < ndim; i++)
        *bits |= d->dim[i] == 1 ? 1u << i : 0;
    return WEIR_OK;
}

weir_status weir_onnx_squeeze(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    int64_t            dim[WEIR_MAX_DIMS];
    uint32_t           bits;
    int                n = 0;

    if (!x)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    WEIR_TRY(axis_bits(c, d.ndim, &d, &bits));
    for (int i = 0; i < d.ndim; i++) {
        if (!(bits >> i & 1))
            dim[n++] = d.dim[i];
        else if (d.dim[i] != 1)
            return weir_onnx_refuse(c, "axis %d has size %" PRId64 ", not 1", i, d.dim[i]);
    }
    return weir_onnx_give(c, 0, weir_reshape(x, n, dim));
}

weir_status weir_onnx_unsqueeze(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    int64_t            dim[WEIR_MAX_DIMS], axes[WEIR_MAX_DIMS];
    size_t             n;
    bool               given;
    uint32_t           bits;

    if (!x)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    WEIR_TRY(weir_onnx_axes(c, "axes", 1, axes, WEIR_MAX_DIMS, &n, &given));
    const int ndim = d.ndim + (int)n;
    if (ndim > WEIR_MAX_DIMS)
        return weir_onnx_refuse(c, "a result with %d axes; Weir has up to %d", ndim, WEIR_MAX_DIMS);
    WEIR_TRY(axis_bits(c, ndim, NULL, &bits));
    int k = 0;
    for (int i = 0; i < ndim; i++) {
        if (!(bits >> i & 1) && k == d.ndim)
            return weir_onnx_refuse(c, "an axis is given twice");
        dim[i] = bits >> i & 1 ? 1 : d.dim[k++];
    }
    return weir_onnx_give(c, 0, weir_reshape(x, ndim, dim));
}

weir_status weir_onnx_expand(weir_onnx_call *c)
{
    weir_tensor *x = weir_onnx_x(c, 0);
    int64_t      dim[WEIR_MAX_DIMS];
    size_t       n;

    if (!x)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    WEIR_TRY(weir_onnx_list(c, 1, dim, WEIR_MAX_DIMS, &n));
    weir_desc to = {.dtype = d.dtype, .ndim = d.ndim > (int)n ? d.ndim : (int)n};
    for (int i = 0; i < to.ndim; i++) {
        const int     a = i - (to.ndim - d.ndim), b = i - (to.ndim - (int)n);
        const int64_t have = a < 0 ? 1 : d.dim[a], want = b < 0 ? 1 : dim[b];
        to.dim[i] = want == 1 ? have : want;
    }
    return weir_onnx_give(c, 0, weir_broadcast_to(x, to));
}

weir_status weir_onnx_concat(weir_onnx_call *c)
{
    const size_t n = c->node->n_in;
    int          axis;

    if (n == 0 || n > INT32_MAX)
        return weir_onnx_refuse(c, "%zu inputs", n);
    weir_tensor **const x = weir_host_alloc(n * sizeof *x);
    if (!x)
        return weir_error_status();
    weir_status s = WEIR_OK;
    for (size_t i = 0; i < n && s == WEIR_OK; i++)
        s = (x[i] = weir_onnx_x(c, i)) ? WEIR_OK : weir_error_status();
    if (s == WEIR_OK)
        s = weir_onnx_axis(c, weir_onnx_int(c, "axis", 0), weir_tensor_desc(x[0]).ndim, &axis);
    if (s == WEIR_OK)
        s = weir_onnx_give(c, 0, n == 1 ? weir_onnx_same(x[0]) : weir_concat((int)n, x, axis));
    weir_host_free((void *)x);
    return s;
}

/* ---- blocks of pixels ---- */

static weir_status block(weir_onnx_call *c, weir_desc *d, int64_t *b)
{
    weir_tensor *const x = weir_onnx_x(c, 0);

    *d = weir_tensor_desc(x);
    *b = weir_onnx_int(c, "blocksize", 0);
    if (!x)
        return weir_error_status();
    return d->ndim == 4 && *b > 0 && *b < 1 << 15 ? WEIR_OK
                                                  : weir_onnx_refuse(c, "blocksize %" PRId64, *b);
}

/* CRD: channel (k b + i) b + j is pixel (i, j) of channel k. */
weir_status weir_onnx_depth_to_space(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    weir_desc          d;
    int64_t            b;

    WEIR_TRY(block(c, &d, &b));
    if (strcmp(weir_onnx_str(c, "mode", "DCR"), "DCR") == 0)
        return weir_onnx_give(c, 0, weir_depth_to_space(x, b));
    const int64_t in[] = {d.dim[0], d.dim[1] / (b * b), b, b, d.dim[2], d.dim[3]};
    const int64_t out[] = {in[0], in[1], in[4] * b, in[5] * b};
    const int     axes[] = {0, 1, 4, 2, 5, 3};
    weir_tensor  *y = weir_transpose(weir_reshape(x, 6, in), axes);
    return weir_onnx_give(c, 0, y ? weir_reshape(y, 4, out) : NULL);
}

/* CRD: pixel (i, j) of channel k becomes channel (k b + i) b + j. */
weir_status weir_onnx_space_to_depth(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    weir_desc          d;
    int64_t            b;

    WEIR_TRY(block(c, &d, &b));
    if (strcmp(weir_onnx_str(c, "mode", "DCR"), "DCR") == 0)
        return weir_onnx_give(c, 0, weir_space_to_depth(x, b));
    const int64_t in[] = {d.dim[0], d.dim[1], d.dim[2] / b, b, d.dim[3] / b, b};
    const int64_t out[] = {in[0], in[1] * b * b, in[2], in[4]};
    const int     axes[] = {0, 1, 3, 5, 2, 4};
    weir_tensor  *y = weir_transpose(weir_reshape(x, 6, in), axes);
    return weir_onnx_give(c, 0, y ? weir_reshape(y, 4, out) : NULL);
}

/* The middle of each axis, or zeros on both sides of it; an odd element is cut or added behind. */
weir_status weir_onnx_center_crop_pad(weir_onnx_call *c)
{
    weir_tensor *x = weir_onnx_x(c, 0);
    int64_t      size[WEIR_MAX_DIMS], front[WEIR_MAX_DIMS] = {0}, back[WEIR_MAX_DIMS] = {0};
    const int64_t *axes;
    size_t         n;
    int            axis;

    if (!x)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    const size_t    named = weir_onnx_ints(c, "axes", &axes);
    WEIR_TRY(weir_onnx_list(c, 1, size, WEIR_MAX_DIMS, &n));
    if (n != (named ? named : (size_t)d.ndim))
        return weir_onnx_refuse(c, "%zu sizes for %zu axes", n, named ? named : (size_t)d.ndim);
    for (size_t i = 0; i < n; i++) {
        WEIR_TRY(weir_onnx_axis(c, named ? axes[i] : (int64_t)i, d.ndim, &axis));
        const int64_t more = size[i] - d.dim[axis];
        if (size[i] < 0)
            return weir_onnx_refuse(c, "a size of %lld", (long long)size[i]);
        front[axis] = more > 0 ? more / 2 : 0;
        back[axis] = more > 0 ? more - more / 2 : 0;
        x = more < 0 ? weir_narrow(x, axis, -more / 2, size[i]) : x;
    }
    return weir_onnx_give(c, 0, weir_pad(x, front, back, WEIR_PAD_CONSTANT, 0));
}
