/* move.c - definitions of operations that move, view, convert or set elements without arithmetic.
 *
 * A view shares its input's block: infer returns strides and alias 0, and nothing runs. A reshape
 * is a view where strides allow it (channels-last memory often forbids merging axes), else a dense
 * copy. */
#include <inttypes.h>

#include "graph/ops/define.h"

enum { VIEW = WEIR_PURE | WEIR_STRIDED | WEIR_VIEW, MOVE = WEIR_PURE | WEIR_STRIDED };

/* The shape of the attributes with the type of the input. */
static weir_desc attr_desc(const weir_call *c)
{
    const weir_shape_attr *const a = c->attr;
    weir_desc                    d = {.dtype = c->in[0].desc.dtype, .ndim = (int)a->ndim};

    for (int i = 0; i < d.ndim; i++)
        d.dim[i] = a->dim[i];
    return d;
}

/* ---- reshape: elements keep their row-major order ---- */

static weir_status reshape_infer(weir_call *c)
{
    const weir_desc to = attr_desc(c);
    char            text[WEIR_DESC_TEXT];

    WEIR_TRY(weir_shape_check("reshape", &to));
    if (weir_shape_count(&to) != weir_shape_count(&c->in[0].desc))
        return weir_call_fail(WEIR_ERR_SHAPE, c, "%lld elements do not make %s",
                              (long long)weir_shape_count(&c->in[0].desc),
                              weir_desc_text(&to, text));
    if (weir_shape_reshape(&c->in[0], &to, &c->out[0]))
        c->alias = 0;
    else
        weir_out_dense(c, 0, &to);
    return WEIR_OK;
}

static weir_status reshape_grad(weir_grad *g)
{
    return weir_grad_set(g, 0, weir_reshape_as(g->dy[0], &g->x[0]->layout.desc));
}

const weir_opdef weir_op_reshape = {
    .name = "reshape",
    .flags = VIEW | WEIR_PRESERVE_FORMAT,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .differentiable = 1,
    .infer = reshape_infer,
    .grad = reshape_grad,
    .flops = weir_flops_none,
};

/* ---- transpose: axis i of the view is axis dim[i] of the input ---- */

static weir_status transpose_infer(weir_call *c)
{
    const weir_shape_attr *const a = c->attr;
    const weir_layout *const     in = &c->in[0];
    weir_layout                  out = {.desc = in->desc};

    if (a->ndim != in->desc.ndim)
        return weir_call_fail(WEIR_ERR_SHAPE, c, "the order names %lld axes but x has %d",
                              (long long)a->ndim, in->desc.ndim);
    for (int i = 0; i < in->desc.ndim; i++) {
        out.desc.dim[i] = in->desc.dim[a->dim[i]];
        out.stride[i] = in->stride[a->dim[i]];
    }
    c->out[0] = out;
    c->alias = 0;
    return WEIR_OK;
}

/* Transposes by the inverse permutation. */
static weir_status transpose_grad(weir_grad *g)
{
    const weir_shape_attr *const a = g->attr;
    int                          back[WEIR_MAX_DIMS] = {0};

    for (int i = 0; i < (int)a->ndim; i++)
        back[a->dim[i]] = i;
    return weir_grad_set(g, 0, weir_transpose(g->dy[0], back));
}

const weir_opdef weir_op_transpose = {
    .name = "transpose",
    .flags = VIEW,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .differentiable = 1,
    .infer = transpose_infer,
    .grad = transpose_grad,
    .flops = weir_flops_none,
};

/* ---- broadcast: repeated axes get stride 0 ---- */

static weir_status broadcast_infer(weir_call *c)
{
    const weir_desc to = attr_desc(c);
    weir_desc       both;
    char            text[WEIR_DESC_TEXT];

    WEIR_TRY(weir_shape_check("broadcast", &to));
    if (!weir_shape_broadcast(&c->in[0].desc, &to, &both) || !weir_shape_equal(&both, &to))
        return weir_call_fail(WEIR_ERR_SHAPE, c, "does not broadcast to %s",
                              weir_desc_text(&to, text));
    weir_shape_expand(&c->in[0], &to, &c->out[0]);
    c->alias = 0;
    return WEIR_OK;
}

static weir_status broadcast_grad(weir_grad *g)
{
    return weir_grad_set(g, 0, weir_sum_to(g->dy[0], &g->x[0]->layout.desc));
}

const weir_opdef weir_op_broadcast = {
    .name = "broadcast",
    .flags = VIEW,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .differentiable = 1,
    .infer = broadcast_infer,
    .grad = broadcast_grad,
    .flops = weir_flops_none,
};

/* ---- detach: a view without a gradient function, where the tape ends ---- */

static weir_status detach_infer(weir_call *c)
{
    c->out[0] = c->in[0];
    c->alias = 0;
    return WEIR_OK;
}

const weir_opdef weir_op_detach = {
    .name = "detach",
    .flags = VIEW,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .infer = detach_infer,
    .flops = weir_flops_none,
};

/* ---- copy, cast, fill: dense outputs of their own ---- */

static weir_status copy_grad(weir_grad *g)
{
    return weir_grad_set(g, 0, g->dy[0]);
}

const weir_opdef weir_op_copy = {
    .name = "copy",
    .flags = MOVE,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .differentiable = 1,
    .infer = weir_infer_like,
    .grad = copy_grad,
    .flops = weir_flops_none,
};

static weir_status cast_infer(weir_call *c)
{
    const weir_cast_attr *const a = c->attr;
    weir_desc                   d = c->in[0].desc;

    d.dtype = (weir_dtype)a->dtype;
    if (weir_dtype_size(d.dtype) == 0)
        return weir_call_fail(WEIR_ERR_DTYPE, c, "unknown element type %lld (expected a "
                                                 "weir_dtype)",
                              (long long)a->dtype);
    return weir_out_checked(c, 0, &d);
}

/* Casts back. Only between floats: the tape ends at integers. */
static weir_status cast_grad(weir_grad *g)
{
    return weir_grad_set(g, 0, weir_cast(g->dy[0], g->x[0]->layout.desc.dtype));
}

const weir_opdef weir_op_cast = {
    .name = "cast",
    .flags = MOVE | WEIR_PRESERVE_FORMAT,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .differentiable = 1,
    .infer = cast_infer,
    .grad = cast_grad,
    .flops = weir_flops_none,
};

/* A copy, not a view: what is known of a value's elements holds for all of its storage. */
static weir_status bit_cast_infer(weir_call *c)
{
    const weir_cast_attr *const a = c->attr;
    weir_desc                   d = c->in[0].desc;
    const size_t                size = weir_dtype_size(d.dtype);

    if (size != weir_dtype_size((weir_dtype)a->dtype) || d.dtype == WEIR_BOOL ||
        a->dtype == WEIR_BOOL)
        return weir_call_fail(WEIR_ERR_DTYPE, c, "bits of %s do not make elements of %s",
                              weir_dtype_name(d.dtype), weir_dtype_name((weir_dtype)a->dtype));
    d.dtype = (weir_dtype)a->dtype;
    return weir_out_checked(c, 0, &d);
}

const weir_opdef weir_op_bit_cast = {
    .name = "bit_cast",
    .flags = MOVE,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .infer = bit_cast_infer,
    .flops = weir_flops_none,
};

static weir_status fill_infer(weir_call *c)
{
    const weir_fill_attr *const a = c->attr;
    const weir_desc             d = weir_desc_unpack(&a->desc);

    return weir_out_checked(c, 0, &d);
}

const weir_opdef weir_op_fill = {
    .name = "fill",
    .flags = WEIR_PURE,
    .nin_min = 0,
    .nin_max = 0,
    .nout = 1,
    .infer = fill_infer,
    .flops = weir_flops_none,
};

/* ---- public functions ---- */

/* *known = the product of all dims except a -1; *open = the axis of the -1, or -1. */
static weir_status reshape_known(const char *from, int ndim, const int64_t *dim, int64_t *known,
                                 int *open)
{
    *known = 1;
    *open = -1;
    for (int i = 0; i < ndim; i++) {
        if (dim[i] == -1 && *open >= 0)
            return weir_fail(WEIR_ERR_INVALID, "reshape: axes %d and %d for %s are both -1", *open,
                             i, from);
        if (dim[i] == -1)
            *open = i;
        else if (dim[i] < 0 || __builtin_mul_overflow(*known, dim[i], known))
            return weir_fail(WEIR_ERR_SHAPE, "reshape: axis %d cannot have size %lld, x is %s", i,
                             (long long)dim[i], from);
    }
    return WEIR_OK;
}

/* Replaces a -1 among the dims by the size that the number of elements implies. */
static weir_status reshape_attr(const weir_desc *from, int ndim, const int64_t *dim,
                                weir_shape_attr *a)
{
    int64_t known;
    int     open;
    char    text[WEIR_DESC_TEXT];

    if (ndim < 0 || ndim > WEIR_MAX_DIMS)
        return weir_fail(WEIR_ERR_INVALID, "reshape: %d axes are given, but 0 to %d are allowed",
                                           ndim,
                         WEIR_MAX_DIMS);
    if (ndim > 0 && !dim)
        return weir_fail(WEIR_ERR_INVALID, "reshape: dim is NULL");
    WEIR_TRY(reshape_known(weir_desc_text(from, text), ndim, dim, &known, &open));
    *a = (weir_shape_attr){.ndim = ndim};
    for (int i = 0; i < ndim; i++)
        a->dim[i] = dim[i];
    if (open < 0)
        return WEIR_OK;

    const int64_t count = weir_shape_count(from);
    if (known == 0 || count % known != 0)
        return weir_fail(WEIR_ERR_SHAPE, "reshape: axis %d is -1, but %lld elements of %s do not "
                         "divide by the other axes' %lld", open, (long long)count, text,
                         (long long)known);
    a->dim[open] = count / known;
    return WEIR_OK;
}

weir_tensor *weir_reshape(weir_tensor *x, int ndim, const int64_t *dim)
{
    weir_shape_attr a;

    if (!x)
        return weir_null("weir_reshape", "x");
    if (reshape_attr(&x->layout.desc, ndim, dim, &a) != WEIR_OK)
        return NULL;
    return weir_record1(WEIR_OP_RESHAPE, 1, &x, &a, sizeof a);
}

/* Multiplies sizes instead of using a -1, whose size an empty x would not imply. */
weir_tensor *weir_flatten(weir_tensor *x)
{
    if (!x)
        return weir_null("weir_flatten", "x");

    const weir_desc *const d = &x->layout.desc;
    int64_t                dim[2] = {1, 1};     /* a scalar becomes (1, 1) */

    for (int i = 0; i < d->ndim; i++)
        if (__builtin_mul_overflow(dim[i > 0], d->dim[i], &dim[i > 0]))
            return WEIR_FAIL_NULL(WEIR_ERR_SHAPE, "flatten: the axes after the first are too big");
    return weir_reshape(x, 2, dim);
}

weir_tensor *weir_transpose(weir_tensor *x, const int *axes)
{
    if (!x)
        return weir_null("weir_transpose", "x");

    const int       ndim = x->layout.desc.ndim;
    weir_shape_attr a = {.ndim = ndim};
    uint32_t        seen = 0;

    for (int i = 0; i < ndim; i++) {
        const int from = axes ? axes[i] : ndim - 1 - i;
        if (from < 0 || from >= ndim || (seen >> from & 1) != 0)
            return WEIR_FAIL_NULL(WEIR_ERR_INVALID, "transpose: axes[%d] is %d, the axes must be a "
                                  "permutation of 0 to %d", i, from, ndim - 1);
        seen |= 1u << from;
        a.dim[i] = from;
    }
    return weir_record1(WEIR_OP_TRANSPOSE, 1, &x, &a, sizeof a);
}

weir_tensor *weir_broadcast_to(weir_tensor *x, weir_desc desc)
{
    if (!x)
        return weir_null("weir_broadcast_to", "x");
    char text[WEIR_DESC_TEXT];
    weir_desc_text(&x->layout.desc, text);
    if (desc.dtype != x->layout.desc.dtype)
        return WEIR_FAIL_NULL(WEIR_ERR_DTYPE, "broadcast: x is %s, which cannot become %s", text,
                              weir_dtype_name(desc.dtype));
    if (weir_shape_check("broadcast", &desc) != WEIR_OK)
        return WEIR_FAIL_NULL(weir_error_status(), "%s; x is %s", weir_error(), text);

    weir_shape_attr a = {.ndim = desc.ndim};
    for (int i = 0; i < desc.ndim; i++)
        a.dim[i] = desc.dim[i];
    return weir_record1(WEIR_OP_BROADCAST, 1, &x, &a, sizeof a);
}

weir_tensor *weir_copy(weir_tensor *x)
{
    return weir_record1(WEIR_OP_COPY, 1, &x, NULL, 0);
}

weir_tensor *weir_detach(weir_tensor *x)
{
    return weir_record1(WEIR_OP_DETACH, 1, &x, NULL, 0);
}

weir_tensor *weir_cast(weir_tensor *x, weir_dtype dtype)
{
    const weir_cast_attr a = {.dtype = (int64_t)dtype};

    return weir_record1(WEIR_OP_CAST, 1, &x, &a, sizeof a);
}

weir_tensor *weir_bit_cast(weir_tensor *x, weir_dtype dtype)
{
    const weir_cast_attr a = {.dtype = (int64_t)dtype};

    return weir_record1(WEIR_OP_BIT_CAST, 1, &x, &a, sizeof a);
}

weir_tensor *weir_fill(weir_device *d, weir_desc desc, double value)
{
    weir_fill_attr a = {.value = value};
    weir_tensor   *out[WEIR_MAX_OUT] = {NULL};

    if (!d)
        return weir_null("weir_fill", "device");
    if (weir_desc_pack("fill", &desc, &a.desc) != WEIR_OK)
        return NULL;
    return weir_record_on(d, WEIR_OP_FILL, 0, NULL, &a, sizeof a, out) == WEIR_OK ? out[0] : NULL;
}

/* The value of a fill is an f64; an integer that it cannot represent is the sum of two that it
 * can. */
weir_tensor *weir_fill_int(weir_device *d, weir_desc desc, int64_t value)
{
    const int64_t low = value & UINT32_MAX, unit = INT64_C(1) << 53;

    if (weir_is_any_float(desc.dtype) || (unsigned)desc.dtype >= WEIR_DTYPES)
        return weir_fill(d, desc, (double)value);
    if (value > weir_integer_most(desc.dtype) || value < weir_integer_least(desc.dtype))
        return WEIR_FAIL_NULL(WEIR_ERR_INVALID, "fill_int: %s has no %" PRId64,
                              weir_dtype_name(desc.dtype), value);
    if (value >= -unit && value <= unit)
        return weir_fill(d, desc, (double)value);
    weir_tensor *const high = weir_fill(d, desc, (double)(value - low));
    return high ? weir_add(high, weir_fill(d, weir_scalar(desc.dtype), (double)low)) : NULL;
}
