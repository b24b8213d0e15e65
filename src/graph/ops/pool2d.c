/* pool2d.c - definitions of maximum and average pooling over (h,w), bilinear upsampling, gradients.
 *
 * Padding is smaller than the kernel, so every window contains a cell of the image. Maximum pooling
 * also returns, per output cell, the number of the window's largest cell (row-major, u8), which is
 * all that the gradient reads. */
#include "graph/ops/window.h"

#define MAX_AREA 255    /* most cells of a window of maximum pooling: their numbers fit into u8 */

static const int64_t no_dilation[2] = {1, 1};

/* Checks x and the window; out is the desc of y. */
static weir_status pool_shape(const weir_call *c, weir_desc *out)
{
    const weir_pool2d_attr *const a = c->attr;
    int64_t                       o[2];     /* oh, ow */

    WEIR_TRY(weir_check_any_floats(c));
    WEIR_TRY(weir_check_ndim(c, 0, "x", 4));

    const weir_desc *const x = &c->in[0].desc;
    const weir_window      v = {a->kernel, a->stride, a->pad, a->pad_end, no_dilation};
    WEIR_TRY(weir_window_check(c, &v));
    for (int k = 0; k < 2; k++) {
        const int64_t pad = a->pad[k] > a->pad_end[k] ? a->pad[k] : a->pad_end[k];
        if (pad >= a->kernel[k])
            return weir_call_fail(WEIR_ERR_INVALID, c, "pad %lld must be less than the kernel %lld",
                                  (long long)pad, (long long)a->kernel[k]);
        if (x->dim[2 + k] == 0)
            return weir_call_fail(WEIR_ERR_SHAPE, c, "an image of %lld x %lld has nothing to pool",
                                  (long long)x->dim[2], (long long)x->dim[3]);
    }
    WEIR_TRY(weir_window_places(c, &v, &x->dim[2], o));
    *out = weir_4d(x->dtype, x->dim[0], x->dim[1], o[0], o[1]);
    return WEIR_OK;
}

static double window_area(const weir_pool2d_attr *a)
{
    return (double)a->kernel[0] * (double)a->kernel[1];
}

/* One per cell of each window. */
static double pool_flops(const weir_call *c)
{
    return window_area(c->attr) * (double)weir_shape_count(&c->out[0].desc);
}

/* inputs -> dx, with (n,c) of dy and (h,w) of the attributes. */
static weir_status pool_grad_infer(weir_call *c)
{
    const weir_pool2d_grad_attr *const a = c->attr;

    WEIR_TRY(weir_check_ndim(c, 0, "dy", 4));

    const weir_desc *const dy = &c->in[0].desc;
    const weir_desc        out = weir_4d(dy->dtype, dy->dim[0], dy->dim[1], a->h, a->w);
    return weir_out_checked(c, 0, &out);
}

static double pool_grad_flops(const weir_call *c)
{
    const weir_pool2d_grad_attr *const a = c->attr;

    return window_area(&a->pool) * weir_flops_input(c);
}

/* Records the gradient op. Its attributes hold the size of x, which y does not imply: windows may
 * not cover the edges. */
static weir_status pool_grad(weir_grad *g, weir_op op, int nin, weir_tensor *const *in)
{
    const weir_pool2d_attr *const a = g->attr;
    const weir_desc *const        x = &g->x[0]->layout.desc;
    const weir_pool2d_grad_attr   attr = {.pool = *a, .h = x->dim[2], .w = x->dim[3]};

    return weir_grad_set(g, 0, weir_record1(op, nin, in, &attr, sizeof attr));
}

/* ---- maximum: x -> y, winners (n*oh*ow, c) ---- */

static weir_status max_pool2d_infer(weir_call *c)
{
    const weir_pool2d_attr *const a = c->attr;
    weir_desc                     y;

    WEIR_TRY(pool_shape(c, &y));
    if (a->kernel[0] * a->kernel[1] > MAX_AREA)
        return weir_call_fail(WEIR_ERR_INVALID, c, "a window of %lld x %lld has more than %d cells",
                              (long long)a->kernel[0], (long long)a->kernel[1], MAX_AREA);
    WEIR_TRY(weir_out_checked(c, 0, &y));

    const weir_desc winners = weir_2d(WEIR_U8, y.dim[0] * y.dim[2] * y.dim[3], y.dim[1]);
    weir_out_dense(c, 1, &winners);
    return WEIR_OK;
}

static weir_status max_pool2d_grad(weir_grad *g)
{
    return pool_grad(g, WEIR_OP_MAX_POOL2D_GRAD, 2, (weir_tensor *[]){g->dy[0], g->y[1]});
}

const weir_opdef weir_op_max_pool2d = {
    .name = "max_pool2d",
    .flags = WEIR_PURE,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 2,
    .reads_out = 2,         /* the winners, not y */
    .differentiable = 1,
    .infer = max_pool2d_infer,
    .grad = max_pool2d_grad,
    .flops = pool_flops,
};

const weir_opdef weir_op_max_pool2d_grad = {
    .name = "max_pool2d_grad",
    .flags = WEIR_PURE,
    .nin_min = 2,
    .nin_max = 2,
    .nout = 1,
    .infer = pool_grad_infer,
    .flops = weir_flops_input,
};

/* ---- average: the gradient needs dy alone ---- */

static weir_status avg_pool2d_infer(weir_call *c)
{
    weir_desc y;

    WEIR_TRY(pool_shape(c, &y));
    return weir_out_checked(c, 0, &y);
}

static weir_status avg_pool2d_grad(weir_grad *g)
{
    return pool_grad(g, WEIR_OP_AVG_POOL2D_GRAD, 1, g->dy);
}

const weir_opdef weir_op_avg_pool2d = {
    .name = "avg_pool2d",
    .flags = WEIR_PURE,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .differentiable = 1,
    .infer = avg_pool2d_infer,
    .grad = avg_pool2d_grad,
    .flops = pool_flops,
};

const weir_opdef weir_op_avg_pool2d_grad = {
    .name = "avg_pool2d_grad",
    .flags = WEIR_PURE,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .infer = pool_grad_infer,
    .flops = pool_grad_flops,
};

/* ---- bilinear upsampling: a window is the pixels between which an output pixel lies ---- */

static weir_status upsample_infer(weir_call *c)
{
    const weir_upsample_attr *const a = c->attr;
    weir_desc                       d = c->in[0].desc;

    WEIR_TRY(weir_check_any_floats(c));
    WEIR_TRY(weir_check_ndim(c, 0, "x", 4));
    for (int k = 0; k < 2; k++) {
        if (a->factor[k] < 1)
            return weir_call_fail(WEIR_ERR_INVALID, c, "factors must be 1 or more, not %lld and "
                                  "%lld", (long long)a->factor[0], (long long)a->factor[1]);
        if (__builtin_mul_overflow(d.dim[2 + k], a->factor[k], &d.dim[2 + k]))
            d.dim[2 + k] = INT64_MAX;
    }
    return weir_out_checked(c, 0, &d);
}

static weir_status upsample_grad(weir_grad *g)
{
    return weir_grad_set(g, 0, weir_record1(WEIR_OP_UPSAMPLE_BILINEAR_GRAD, 1, g->dy, g->attr,
                                            sizeof(weir_upsample_attr)));
}

static weir_status upsample_grad_infer(weir_call *c)
{
    const weir_upsample_attr *const a = c->attr;
    weir_desc                       d = c->in[0].desc;

    for (int k = 0; k < 2; k++)
        d.dim[2 + k] /= a->factor[k];
    return weir_out_checked(c, 0, &d);
}

/* Four products and sums for each pixel of the larger image. */
static double upsample_flops(const weir_call *c)
{
    const double in = (double)weir_shape_count(&c->in[0].desc);
    const double out = (double)weir_shape_count(&c->out[0].desc);

    return 8 * (in > out ? in : out);
}

const weir_opdef weir_op_upsample_bilinear = {
    .name = "upsample_bilinear",
    .flags = WEIR_PURE,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .differentiable = 1,
    .infer = upsample_infer,
    .grad = upsample_grad,
    .flops = upsample_flops,
};

const weir_opdef weir_op_upsample_bilinear_grad = {
    .name = "upsample_bilinear_grad",
    .flags = WEIR_PURE,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .infer = upsample_grad_infer,
    .flops = upsample_flops,
};

/* ---- public functions ---- */

weir_tensor *weir_upsample_bilinear(weir_tensor *x, int64_t fh, int64_t fw)
{
    return weir_record1(WEIR_OP_UPSAMPLE_BILINEAR, 1, &x, &(weir_upsample_attr){{fh, fw}},
                        sizeof(weir_upsample_attr));
}

/* A stride of 0 means that of the kernel: windows side by side. */
static weir_tensor *pool(const char *who, weir_op op, weir_tensor *x, const weir_pool2d_options *o)
{
    if (!x)
        return weir_null(who, "x");
    if (!o)
        return WEIR_FAIL_NULL(WEIR_ERR_INVALID, "%s: options is NULL", who);

    weir_pool2d_attr a = {.exclude_pad = o->exclude_pad};
    for (int k = 0; k < 2; k++) {
        a.kernel[k] = o->kernel[k];
        a.stride[k] = o->stride[k] != 0 ? o->stride[k] : o->kernel[k];
        a.pad[k] = o->pad[k];
        a.pad_end[k] = o->asymmetric ? o->pad_end[k] : o->pad[k];
    }
    return weir_record1(op, 1, &x, &a, sizeof a);
}

weir_tensor *weir_max_pool2d(weir_tensor *x, const weir_pool2d_options *options)
{
    return pool("weir_max_pool2d", WEIR_OP_MAX_POOL2D, x, options);
}

weir_tensor *weir_avg_pool2d(weir_tensor *x, const weir_pool2d_options *options)
{
    return pool("weir_avg_pool2d", WEIR_OP_AVG_POOL2D, x, options);
}

/* Pooling of images one row high. */
static weir_tensor *pool_line(const char *who, weir_op op, weir_tensor *x,
                              const weir_pool1d_options *o)
{
    if (!x)
        return weir_null(who, "x");
    if (!o)
        return WEIR_FAIL_NULL(WEIR_ERR_INVALID, "%s: options is NULL", who);

    const weir_pool2d_options two = {.kernel = {1, o->kernel},
                                     .stride = {1, o->stride},
                                     .pad = {0, o->pad},
                                     .exclude_pad = o->exclude_pad};
    weir_tensor *const row = weir_line_to_row("x", x);
    return weir_retold(row ? weir_row_to_line(pool(who, op, row, &two)) : NULL, who, 1, &x);
}

weir_tensor *weir_max_pool1d(weir_tensor *x, const weir_pool1d_options *options)
{
    return pool_line("max_pool1d", WEIR_OP_MAX_POOL2D, x, options);
}

weir_tensor *weir_avg_pool1d(weir_tensor *x, const weir_pool1d_options *options)
{
    return pool_line("avg_pool1d", WEIR_OP_AVG_POOL2D, x, options);
}

/* A mean over (h,w), computed by the kernels of reductions. */
weir_tensor *weir_global_avg_pool2d(weir_tensor *x)
{
    char text[WEIR_DESC_TEXT];

    if (!x)
        return weir_null("weir_global_avg_pool2d", "x");
    if (x->layout.desc.ndim != 4)
        return WEIR_FAIL_NULL(WEIR_ERR_SHAPE, "global_avg_pool2d: x must be (n,c,h,w), not %s",
                              weir_desc_text(&x->layout.desc, text));
    if (!weir_is_any_float(x->layout.desc.dtype))
        return WEIR_FAIL_NULL(WEIR_ERR_DTYPE, "global_avg_pool2d: x must be a float, not %s",
                              weir_desc_text(&x->layout.desc, text));
    return weir_mean(x, 1u << 2 | 1u << 3, true);
}
