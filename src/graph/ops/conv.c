/* conv.c - definitions of convolution, its two gradients, and transposed convolution.
 *
 * Shapes: x (n,c,h,w), w (o,c/groups,kh,kw), bias (o), y (n,o,oh,ow). As in other libraries this is
 * a cross-correlation: the kernel is not flipped. Both gradients are separate ops rather than
 * convolutions of rearranged operands, so that a device can choose its best kernel for each. Their
 * attributes are those of the forward call and the sizes that their operands do not imply. */
#include "graph/ops/window.h"

/* (h,w) of an operand with 4 axes, or (kh,kw) of the weights. */
static const int64_t *image_of(const weir_layout *l)
{
    return &l->desc.dim[2];
}

/* flops: 2 per weight and output element. y has the shape of the output, w that of the weights. */
static double conv_cost(const weir_desc *y, const int64_t *w)
{
    return 2 * (double)weir_shape_count(y) * (double)w[0] * (double)w[1] * (double)w[2];
}

/* ---- forward: x, w, [bias] -> y ---- */

/* Channels, groups and bias of a forward call whose operands have 4 axes. */
static weir_status check_channels(const weir_call *c, const weir_conv2d_attr *a)
{
    const weir_desc *const x = &c->in[0].desc, *const w = &c->in[1].desc;
    const weir_desc        bias = weir_1d(w->dtype, w->dim[0]);
    const int64_t          groups = a->groups;

    if (groups < 1 || groups > WEIR_WINDOW_MAX)
        return weir_call_fail(WEIR_ERR_INVALID, c, "groups is %lld but must be at least 1",
                              (long long)groups);
    if (x->dim[1] % groups != 0 || w->dim[0] % groups != 0)
        return weir_call_fail(WEIR_ERR_SHAPE, c, "%lld channels and %lld filters do not divide "
                              "into %lld groups", (long long)x->dim[1], (long long)w->dim[0],
                              (long long)groups);
    if (w->dim[1] != x->dim[1] / groups)
        return weir_call_fail(WEIR_ERR_SHAPE, c, "w takes %lld channels but x has %lld per group",
                              (long long)w->dim[1], (long long)(x->dim[1] / groups));
    return c->nin == 3 ? weir_check_dims(c, 2, "bias", &bias) : WEIR_OK;
}

static weir_status conv2d_infer(weir_call *c)
{
    const weir_conv2d_attr *const a = c->attr;
    int64_t                       o[2];

    WEIR_TRY(weir_check_any_floats(c));
    WEIR_TRY(weir_check_ndim(c, 0, "x", 4));
    WEIR_TRY(weir_check_ndim(c, 1, "w", 4));

    const int64_t *const kernel = image_of(&c->in[1]);
    const weir_window    v = {kernel, a->stride, a->pad, a->pad_end, a->dilation};
    WEIR_TRY(weir_window_check(c, &v));
    WEIR_TRY(check_channels(c, a));
    WEIR_TRY(weir_window_places(c, &v, image_of(&c->in[0]), o));

    const weir_desc *const x = &c->in[0].desc;
    const weir_desc out = weir_4d(x->dtype, x->dim[0], c->in[1].desc.dim[0], o[0], o[1]);
    return weir_out_checked(c, 0, &out);
}

static weir_status conv2d_grad_x(weir_grad *g)
{
    const weir_conv2d_attr *const a = g->attr;
    const int64_t *const          image = image_of(&g->x[0]->layout);
    const weir_conv2d_grad_attr   attr = {.conv = *a, .h = image[0], .w = image[1]};
    weir_tensor *const            in[] = {g->dy[0], g->x[1]};

    return weir_grad_set(g, 0, weir_record1(WEIR_OP_CONV2D_GRAD_X, 2, in, &attr, sizeof attr));
}

/* Gradients of weights and, if wanted, bias in one op, which reads dy once. */
static weir_status conv2d_grad_w(weir_grad *g)
{
    const weir_conv2d_attr *const a = g->attr;
    const int64_t *const          kernel = image_of(&g->x[1]->layout);
    const weir_conv2d_gradw_attr  attr = {.conv = *a, .kh = kernel[0], .kw = kernel[1],
                                          .bias = weir_wants(g, 2)};
    weir_tensor *const            in[] = {g->x[0], g->dy[0]};
    weir_tensor                  *out[WEIR_MAX_OUT] = {NULL};

    WEIR_TRY(weir_record(WEIR_OP_CONV2D_GRAD_W, 2, in, &attr, sizeof attr, out));
    g->dx[1] = out[0];
    return weir_wants(g, 2) ? weir_grad_set(g, 2, out[1]) : WEIR_OK;
}

/* The gradient of the bias alone (frozen weights) is a sum over all axes except channels. */
static weir_status conv2d_grad(weir_grad *g)
{
    if (weir_wants(g, 0))
        WEIR_TRY(conv2d_grad_x(g));
    if (weir_wants(g, 1))
        return conv2d_grad_w(g);
    if (weir_wants(g, 2))
        return weir_grad_set(g, 2, weir_sum(g->dy[0], 1u << 0 | 1u << 2 | 1u << 3, false));
    return WEIR_OK;
}

static double conv2d_flops(const weir_call *c)
{
    const double out = (double)weir_shape_count(&c->out[0].desc);

    return conv_cost(&c->out[0].desc, &c->in[1].desc.dim[1]) + (c->nin == 3 ? out : 0);
}

const weir_opdef weir_op_conv2d = {
    .name = "conv2d",
    .flags = WEIR_PURE | WEIR_PRODUCT,
    .nin_min = 2,
    .nin_max = 3,
    .nout = 1,
    .reads_in = 3, /* not the bias */
    .differentiable = 7,
    .autocast_half = 7,
    .infer = conv2d_infer,
    .grad = conv2d_grad,
    .flops = conv2d_flops,
};

/* ---- dy, w -> dx ---- */

static weir_status conv2d_grad_x_infer(weir_call *c)
{
    const weir_conv2d_grad_attr *const a = c->attr;

    WEIR_TRY(weir_check_any_floats(c));
    WEIR_TRY(weir_check_ndim(c, 0, "dy", 4));
    WEIR_TRY(weir_check_ndim(c, 1, "w", 4));

    const weir_desc *const dy = &c->in[0].desc, *const w = &c->in[1].desc;
    const weir_desc out = weir_4d(dy->dtype, dy->dim[0], w->dim[1] * a->conv.groups, a->h, a->w);
    return weir_out_checked(c, 0, &out);
}

static double conv2d_grad_x_flops(const weir_call *c)
{
    return conv_cost(&c->in[0].desc, &c->in[1].desc.dim[1]);
}

const weir_opdef weir_op_conv2d_grad_x = {
    .name = "conv2d_grad_x",
    .flags = WEIR_PURE | WEIR_PRODUCT,
    .nin_min = 2,
    .nin_max = 2,
    .nout = 1,
    .infer = conv2d_grad_x_infer,
    .flops = conv2d_grad_x_flops,
};

/* ---- x, dy -> dw, and dbias if the attributes ask for it ---- */

/* The attributes determine the number of outputs. */
static weir_status conv2d_grad_w_infer(weir_call *c)
{
    const weir_conv2d_gradw_attr *const a = c->attr;

    WEIR_TRY(weir_check_any_floats(c));
    WEIR_TRY(weir_check_ndim(c, 0, "x", 4));
    WEIR_TRY(weir_check_ndim(c, 1, "dy", 4));

    const weir_desc *const x = &c->in[0].desc, *const dy = &c->in[1].desc;
    const int64_t          channels = x->dim[1] / a->conv.groups;
    const weir_desc        dw = weir_4d(x->dtype, dy->dim[1], channels, a->kh, a->kw);
    const weir_desc        dbias = weir_1d(x->dtype, dy->dim[1]);

    c->nout = a->bias ? 2 : 1;
    if (a->bias)
        weir_out_dense(c, 1, &dbias);
    return weir_out_checked(c, 0, &dw);
}

static double conv2d_grad_w_flops(const weir_call *c)
{
    const double dy = (double)weir_shape_count(&c->in[1].desc);

    return conv_cost(&c->in[1].desc, &c->out[0].desc.dim[1]) + (c->nout == 2 ? dy : 0);
}

const weir_opdef weir_op_conv2d_grad_w = {
    .name = "conv2d_grad_w",
    .flags = WEIR_PURE | WEIR_PRODUCT,
    .nin_min = 2,
    .nin_max = 2,
    .nout = 2,
    .infer = conv2d_grad_w_infer,
    .flops = conv2d_grad_w_flops,
};

/* ---- transposed: x (n,c,h,w), w (c,o/groups,kh,kw) -> y (n,o,H,W) ----
 *
 * This is the gradient, by its input, of the convolution with the same weights that maps y's shape
 * to x's. Its gradients are that convolution and the convolution's gradient by the weights. */

static weir_status conv_transpose2d_infer(weir_call *c)
{
    const weir_conv2d_grad_attr *const a = c->attr;
    int64_t                            back[2];

    WEIR_TRY(weir_check_any_floats(c));
    WEIR_TRY(weir_check_ndim(c, 0, "x", 4));
    WEIR_TRY(weir_check_ndim(c, 1, "w", 4));

    const weir_desc *const x = &c->in[0].desc, *const w = &c->in[1].desc;
    const weir_window      v = {image_of(&c->in[1]), a->conv.stride, a->conv.pad, a->conv.pad_end,
                                a->conv.dilation};
    if (a->conv.groups < 1 || a->conv.groups > WEIR_WINDOW_MAX)
        return weir_call_fail(WEIR_ERR_INVALID, c, "groups is %lld but must be at least 1",
                              (long long)a->conv.groups);
    if (x->dim[1] % a->conv.groups != 0 || w->dim[0] != x->dim[1])
        return weir_call_fail(WEIR_ERR_SHAPE, c, "w takes %lld channels in %lld groups but x has "
                              "%lld", (long long)w->dim[0], (long long)a->conv.groups,
                              (long long)x->dim[1]);
    WEIR_TRY(weir_window_check(c, &v));
    if (a->h < 0 || a->w < 0)
        return weir_call_fail(WEIR_ERR_SHAPE, c, "the padding leaves nothing of %lld x %lld",
                              (long long)x->dim[2], (long long)x->dim[3]);
    WEIR_TRY(weir_window_places(c, &v, &a->h, back));
    if (back[0] != x->dim[2] || back[1] != x->dim[3])
        return weir_call_fail(WEIR_ERR_INVALID, c, "output_pad must be less than the stride");

    const weir_desc out = weir_4d(x->dtype, x->dim[0], w->dim[1] * a->conv.groups, a->h, a->w);
    return weir_out_checked(c, 0, &out);
}

static weir_status conv_transpose2d_grad(weir_grad *g)
{
    const weir_conv2d_grad_attr *const a = g->attr;
    const int64_t *const               kernel = image_of(&g->x[1]->layout);
    const weir_conv2d_gradw_attr       attr = {.conv = a->conv, .kh = kernel[0], .kw = kernel[1]};
    weir_tensor *const                 in[] = {g->dy[0], g->x[1]};
    weir_tensor *const                 both[] = {g->dy[0], g->x[0]};

    if (weir_wants(g, 0))
        WEIR_TRY(weir_grad_set(g, 0, weir_record1(WEIR_OP_CONV2D, 2, in, &a->conv,
                                                  sizeof a->conv)));
    if (weir_wants(g, 1))
        WEIR_TRY(weir_grad_set(g, 1, weir_record1(WEIR_OP_CONV2D_GRAD_W, 2, both, &attr,
                                                  sizeof attr)));
    return WEIR_OK;
}

const weir_opdef weir_op_conv_transpose2d = {
    .name = "conv_transpose2d",
    .flags = WEIR_PURE | WEIR_PRODUCT,
    .nin_min = 2,
    .nin_max = 2,
    .nout = 1,
    .reads_in = 3,
    .differentiable = 3,
    .autocast_half = 3,
    .infer = conv_transpose2d_infer,
    .grad = conv_transpose2d_grad,
    .flops = conv2d_grad_x_flops,
};

/* ---- public functions ---- */

/* Options that are 0 mean 1. */
static int64_t or_1(int64_t v)
{
    return v != 0 ? v : 1;
}

weir_tensor *weir_conv2d(weir_tensor *x, weir_tensor *w, weir_tensor *bias,
                         const weir_conv2d_options *options)
{
    const weir_conv2d_options o = options ? *options : (weir_conv2d_options){.groups = 1};
    const int64_t *const      end = o.asymmetric ? o.pad_end : o.pad;
    const weir_conv2d_attr    a = {
        .stride = {or_1(o.stride[0]), or_1(o.stride[1])},
        .pad = {o.pad[0], o.pad[1]},
        .pad_end = {end[0], end[1]},
        .dilation = {or_1(o.dilation[0]), or_1(o.dilation[1])},
        .groups = or_1(o.groups),
    };

    return weir_record1(WEIR_OP_CONV2D, bias ? 3 : 2, (weir_tensor *[]){x, w, bias}, &a, sizeof a);
}

/* y + bias, a value per channel. */
static weir_tensor *add_bias(weir_tensor *y, weir_tensor *bias)
{
    char text[2][WEIR_DESC_TEXT];

    bias = weir_autocast_to_half(bias, y);
    if (!y || !bias)
        return y;

    const weir_desc *const d = &y->layout.desc, *const b = &bias->layout.desc;
    if (b->dtype != d->dtype)
        return WEIR_FAIL_NULL(WEIR_ERR_DTYPE, "bias is %s but x is %s", weir_dtype_name(b->dtype),
                              weir_dtype_name(d->dtype));
    if (b->ndim != 1 || b->dim[0] != d->dim[1])
        return WEIR_FAIL_NULL(WEIR_ERR_SHAPE, "bias must have one value per channel of the result "
                              "%s, it is %s", weir_desc_text(d, text[0]),
                              weir_desc_text(b, text[1]));
    return weir_add(y, weir_reshape(bias, 4, (int64_t[]){1, b->dim[0], 1, 1}));
}

/* Size along axis k of the result of a transposed convolution; -1 if a number exceeds
 * WEIR_WINDOW_MAX, which infer refuses before it checks sizes. */
static int64_t grown(int64_t n, int64_t kernel, const weir_conv2d_attr *a, int k, int64_t more)
{
    const int64_t arg[] = {n, kernel, a->stride[k], a->pad[k], a->dilation[k], more};

    for (int i = 0; i < 6; i++)
        if (arg[i] < -WEIR_WINDOW_MAX || arg[i] > WEIR_WINDOW_MAX)
            return -1;
    return (n - 1) * a->stride[k] - 2 * a->pad[k] + a->dilation[k] * (kernel - 1) + 1 + more;
}

weir_tensor *weir_conv_transpose2d(weir_tensor *x, weir_tensor *w, weir_tensor *bias,
                                   const weir_conv_transpose2d_options *options)
{
    const weir_conv_transpose2d_options o =
        options ? *options : (weir_conv_transpose2d_options){.groups = 1};

    char text[2][WEIR_DESC_TEXT];
    if (!x || !w)
        return weir_null("weir_conv_transpose2d", x ? "w" : "x");

    weir_conv2d_grad_attr a = {.conv = {.groups = or_1(o.groups)}};
    for (int k = 0; k < 2; k++) {
        if (o.output_pad[k] < 0)
            return WEIR_FAIL_NULL(WEIR_ERR_INVALID, "conv_transpose2d: output_pad is %lld but "
                                  "must be at least 0 (inputs %s, %s)", (long long)o.output_pad[k],
                                  weir_desc_text(&x->layout.desc, text[0]),
                                  weir_desc_text(&w->layout.desc, text[1]));
        a.conv.stride[k] = or_1(o.stride[k]);
        a.conv.pad[k] = a.conv.pad_end[k] = o.pad[k];
        a.conv.dilation[k] = or_1(o.dilation[k]);
    }
    const int64_t *const image = image_of(&x->layout), *const kernel = image_of(&w->layout);
    a.h = grown(image[0], kernel[0], &a.conv, 0, o.output_pad[0]);
    a.w = grown(image[1], kernel[1], &a.conv, 1, o.output_pad[1]);
    weir_tensor *const y =
        weir_record1(WEIR_OP_CONV_TRANSPOSE2D, 2, (weir_tensor *[]){x, w}, &a, sizeof a);
    return weir_retold(add_bias(y, bias), "conv_transpose2d", 3, (weir_tensor *[]){x, w, bias});
}

/* A convolution of images one row high. */
weir_tensor *weir_conv1d(weir_tensor *x, weir_tensor *w, weir_tensor *bias,
                         const weir_conv1d_options *options)
{
    const weir_conv1d_options o = options ? *options : (weir_conv1d_options){.groups = 1};
    const weir_conv2d_options two = {.stride = {1, o.stride},
                                     .pad = {0, o.pad},
                                     .dilation = {1, o.dilation},
                                     .groups = o.groups};

    if (!x || !w)
        return weir_null("weir_conv1d", x ? "w" : "x");
    weir_tensor *const image = weir_line_to_row("x", x), *const filter = weir_line_to_row("w", w);
    weir_tensor *const y = image && filter ? weir_conv2d(image, filter, bias, &two) : NULL;
    return weir_retold(weir_row_to_line(y), "conv1d", 3, (weir_tensor *[]){x, w, bias});
}
