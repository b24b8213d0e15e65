/* layer_norm.c - definitions of layer, group and RMS normalisation.
 *
 * Ba et al., "Layer normalization", 2016; Wu and He, "Group normalization", 2018; Zhang and
 * Sennrich, "Root mean square layer normalization", 2019. With g = dy scale, xhat = (x - mean) rstd
 * and means over the m elements normalised together: dx = rstd (g - mean(g) - xhat mean(g xhat)).
 *
 * Layer norm of rows of adjacent elements is one op, and its gradient another: a row stays in cache
 * until it is normalised, so each reads and writes its tensors once. The other norms, and layer
 * norm of images, whose elements lie channels-last, consist of statistics (reductions over x) and
 * an apply step (a row of elementwise.def: fusable, cheap to recompute), as batch norm does. These
 * statistics are computed from x detached; the gradient of the apply step treats them as functions
 * of x. It needs dy xhat, a tensor as large as x. */
#include "graph/ops/axes.h"

/* The last n axes of d as a set of axes. */
static uint32_t last_axes(const weir_desc *d, int n)
{
    return ((1u << n) - 1) << (d->ndim - n);
}

/* The type of statistics and scales beside elements of type t. */
static weir_dtype wide_type(weir_dtype t)
{
    return weir_is_half(t) ? WEIR_F32 : t;
}

/* ---- layer norm of rows: x, scale, bias -> y, mean, rstd; y has x's type, and the other two are
 * those of its rows, with the axes of scale as 1 ---- */

/* Fails unless input i is scale or bias: the last axes of x, in the type of its statistics. */
static weir_status check_last(const weir_call *c, int i, const char *name, const weir_desc *x)
{
    const weir_desc *const d = &c->in[i].desc;
    weir_desc              want = {wide_type(x->dtype), d->ndim, {0}};

    if (d->ndim < 1 || d->ndim > x->ndim)
        return weir_call_fail(WEIR_ERR_SHAPE, c, "%s must have the last axes of x", name);
    for (int k = 0; k < d->ndim; k++)
        want.dim[k] = x->dim[x->ndim - d->ndim + k];
    WEIR_TRY(weir_check_dims(c, i, name, &want));
    return d->dtype == want.dtype ? WEIR_OK
                                  : weir_call_fail(WEIR_ERR_DTYPE, c, "%s must be %s", name,
                                                   weir_dtype_name(want.dtype));
}

/* x with the last n axes as 1, in the type of its statistics. */
static weir_desc row_desc(const weir_desc *x, int n)
{
    weir_desc d = *x;

    d.dtype = wide_type(x->dtype);
    for (int i = x->ndim - n; i < x->ndim; i++)
        d.dim[i] = 1;
    return d;
}

/* Fails unless x is a float and its elements lie in the order of its axes. */
static weir_status check_rows(const weir_call *c, const weir_desc *x)
{
    if (!weir_is_any_float(x->dtype))
        return weir_call_fail(WEIR_ERR_DTYPE, c, "x must be a float, not %s",
                              weir_dtype_name(x->dtype));
    return x->ndim == 4 ? weir_call_fail(WEIR_ERR_SHAPE, c, "x must be rows, not images") : WEIR_OK;
}

static weir_status layer_norm_infer(weir_call *c)
{
    const weir_desc *const x = &c->in[0].desc;

    WEIR_TRY(check_rows(c, x));
    WEIR_TRY(check_last(c, 1, "scale", x));
    WEIR_TRY(check_last(c, 2, "bias", x));
    if (c->in[2].desc.ndim != c->in[1].desc.ndim)
        return weir_call_fail(WEIR_ERR_SHAPE, c, "bias must have the axes of scale");

    const weir_desc row = row_desc(x, c->in[1].desc.ndim);
    weir_out_dense(c, 0, x);
    weir_out_dense(c, 1, &row);
    weir_out_dense(c, 2, &row);
    return WEIR_OK;
}

/* Mean, deviations, apply. */
static double layer_norm_flops(const weir_call *c)
{
    return 9 * weir_flops_input(c);
}

static weir_status layer_norm_grad(weir_grad *g)
{
    weir_tensor *const in[] = {g->dy[0], g->x[0], g->y[1], g->y[2], g->x[1]};
    weir_tensor       *out[WEIR_MAX_OUT] = {NULL};

    WEIR_TRY(weir_record(WEIR_OP_LAYER_NORM_GRAD, 5, in, NULL, 0, out));
    for (int i = 0; i < 3; i++)
        if (weir_wants(g, i))
            WEIR_TRY(weir_grad_set(g, i, out[i]));
    return WEIR_OK;
}

const weir_opdef weir_op_layer_norm = {
    .name = "layer_norm",
    .flags = WEIR_PURE,
    .nin_min = 3,
    .nin_max = 3,
    .nout = 3,
    .inplace = 1,           /* a row's statistics are known before its first element is written */
    .reads_in = 3,
    .reads_out = 6,
    .differentiable = 7,
    .infer = layer_norm_infer,
    .grad = layer_norm_grad,
    .flops = layer_norm_flops,
};

/* dy, x, mean, rstd, scale -> dx, dscale, dbias */
static weir_status layer_norm_grad_infer(weir_call *c)
{
    const weir_desc *const x = &c->in[1].desc, *const scale = &c->in[4].desc;

    WEIR_TRY(check_rows(c, x));
    WEIR_TRY(weir_check_dims(c, 0, "dy", x));
    WEIR_TRY(check_last(c, 4, "scale", x));

    const weir_desc row = row_desc(x, scale->ndim);
    WEIR_TRY(weir_check_dims(c, 2, "mean", &row));
    WEIR_TRY(weir_check_dims(c, 3, "rstd", &row));
    if (c->in[0].desc.dtype != x->dtype || c->in[2].desc.dtype != row.dtype ||
        c->in[3].desc.dtype != row.dtype)
        return weir_call_fail(WEIR_ERR_DTYPE, c, "dy must be %s, mean and rstd %s",
                              weir_dtype_name(x->dtype), weir_dtype_name(row.dtype));
    weir_out_dense(c, 0, x);
    weir_out_dense(c, 1, scale);
    weir_out_dense(c, 2, scale);
    return WEIR_OK;
}

/* Two sums over a row, dx, two sums over the rows. */
static double layer_norm_grad_flops(const weir_call *c)
{
    return 16 * weir_flops_input(c);
}

const weir_opdef weir_op_layer_norm_grad = {
    .name = "layer_norm_grad",
    .flags = WEIR_PURE,
    .nin_min = 5,
    .nin_max = 5,
    .nout = 3,
    .inplace = 3,           /* a row's sums are known before its first element is written */
    .infer = layer_norm_grad_infer,
    .flops = layer_norm_grad_flops,
};

/* ---- statistics of groups of channels, one number per (n, group) ---- */

/* t, with one number per group (n,groups,1...), repeated to one per channel: (n,c) or (n,c,1,1). */
static weir_tensor *per_channel(weir_tensor *t, const weir_desc *x, int64_t groups)
{
    const weir_desc small = {x->dtype, 3, {x->dim[0], groups, 1}};
    const weir_desc wide = {x->dtype, 3, {x->dim[0], groups, x->dim[1] / groups}};
    const weir_desc out = {x->dtype, x->ndim, {x->dim[0], x->dim[1], 1, 1}};

    return weir_reshape_as(weir_broadcast_to(weir_reshape_as(t, &small), wide), &out);
}

/* Sums of t, (n,c) or (n,c,1,1), over the channels of each group, repeated for each of them. */
static weir_tensor *group_sum(weir_tensor *t, const weir_desc *x, int64_t groups)
{
    const weir_desc split = {x->dtype, 3, {x->dim[0], groups, x->dim[1] / groups}};

    return per_channel(weir_sum(weir_reshape_as(t, &split), 1u << 2, true), x, groups);
}

/* ---- the gradient of group normalisation, and of layer normalisation of images ---- */

/* Sums from which dx and the gradients of scale and bias are computed. */
typedef struct sums {
    weir_tensor *g, *g_xhat;        /* sums of g and g xhat over elements normalised together */
    weir_tensor *dy, *dy_xhat;      /* partial sums of dbias and dscale */
    double       count;             /* elements normalised together */
} sums;

static sums layer_sums(const weir_grad *g, weir_tensor *dy_xhat)
{
    const weir_desc *const d = &g->x[0]->layout.desc;
    const uint32_t         dims = last_axes(d, g->x[3]->layout.desc.ndim);

    return (sums){weir_dot(g->dy[0], g->x[3], dims, true, 1),
                  weir_dot(dy_xhat, g->x[3], dims, true, 1), g->dy[0], dy_xhat,
                  weir_reduced_count(d, &(weir_reduce_attr){.dims = dims})};
}

/* The scale is constant within a channel, so height and width are summed first. */
static sums group_sums(const weir_grad *g, weir_tensor *dy_xhat, int64_t groups)
{
    const weir_desc *const d = &g->x[0]->layout.desc;
    const uint32_t         plane = last_axes(d, d->ndim - 2);
    sums s = {.dy = plane ? weir_sum(g->dy[0], plane, true) : g->dy[0],
              .dy_xhat = plane ? weir_sum(dy_xhat, plane, true) : dy_xhat};

    s.g = group_sum(weir_mul(s.dy, g->x[3]), d, groups);
    s.g_xhat = group_sum(weir_mul(s.dy_xhat, g->x[3]), d, groups);
    s.count = (double)(d->dim[1] / groups) *
              weir_reduced_count(d, &(weir_reduce_attr){.dims = plane});
    return s;
}

weir_status weir_ln_apply_grad(weir_grad *g)
{
    const weir_ln_apply_attr *const a = g->attr;
    const weir_ew_attr              none = {0, 0};
    weir_tensor *const q = weir_record1(WEIR_OP_LN_XHAT, 4,
                                        (weir_tensor *[]){g->dy[0], g->x[0], g->x[1], g->x[2]},
                                        &none, sizeof none);

    WEIR_TRY(weir_made(q));

    const sums s = a->groups ? group_sums(g, q, a->groups) : layer_sums(g, q);
    if (weir_wants(g, 3))
        WEIR_TRY(weir_grad_set(g, 3, weir_sum_to(s.dy_xhat, &g->x[3]->layout.desc)));
    if (weir_wants(g, 4))
        WEIR_TRY(weir_grad_set(g, 4, weir_sum_to(s.dy, &g->x[4]->layout.desc)));
    if (!weir_wants(g, 0))
        return WEIR_OK;

    const weir_ew_attr attr = {.s = 1 / s.count};
    weir_tensor *const in[] = {g->dy[0], g->x[0], g->x[1], g->x[2], g->x[3], s.g, s.g_xhat};
    return weir_grad_set(g, 0, weir_record1(WEIR_OP_LN_GRAD_APPLY, 7, in, &attr, sizeof attr));
}

/* Of x rstd scale, without a mean. */
weir_status weir_rms_apply_grad(weir_grad *g)
{
    const weir_desc *const d = &g->x[0]->layout.desc;
    const uint32_t         dims = last_axes(d, g->x[2]->layout.desc.ndim);
    weir_tensor *const     q = weir_mul(weir_mul(g->dy[0], g->x[0]), g->x[1]);

    if (weir_wants(g, 2))
        WEIR_TRY(weir_grad_set(g, 2, weir_sum_to(q, &g->x[2]->layout.desc)));
    if (!weir_wants(g, 0))
        return WEIR_OK;

    const weir_ew_attr attr = {
        .s = 1 / weir_reduced_count(d, &(weir_reduce_attr){.dims = dims})};
    weir_tensor *const in[] = {g->dy[0], g->x[0], g->x[1], g->x[2],
                               weir_dot(q, g->x[2], dims, true, 1)};
    return weir_grad_set(g, 0, weir_record1(WEIR_OP_RMS_GRAD_APPLY, 5, in, &attr, sizeof attr));
}

/* ---- checks: all before the first call is recorded ---- */

static weir_status check_x(const char *who, const weir_tensor *x, double eps)
{
    char text[WEIR_DESC_TEXT];

    if (!x)
        return weir_fail_null(who, "x");
    if (!weir_is_any_float(x->layout.desc.dtype))
        return weir_fail(WEIR_ERR_DTYPE, "%s: x must be a float, not %s", who,
                         weir_desc_text(&x->layout.desc, text));
    if (!(eps >= 0))
        return weir_fail(WEIR_ERR_INVALID, "%s: eps %g must be >= 0", who, eps);
    return WEIR_OK;
}

/* Fails unless t, called `name`, has the given shape and the type of x's statistics. */
static weir_status check_like(const char *who, const weir_tensor *x, const weir_tensor *t,
                              const char *name, const weir_desc *want)
{
    char have[WEIR_DESC_TEXT], need[WEIR_DESC_TEXT], whole[WEIR_DESC_TEXT];

    if (!t)
        return weir_fail_null(who, name);
    if (weir_desc_equal(&t->layout.desc, want))
        return WEIR_OK;
    return weir_fail(t->layout.desc.dtype == want->dtype ? WEIR_ERR_SHAPE : WEIR_ERR_DTYPE,
                     "%s: %s is %s but must be %s for x %s", who, name,
                     weir_desc_text(&t->layout.desc, have), weir_desc_text(want, need),
                     weir_desc_text(&x->layout.desc, whole));
}

/* Fails unless the dims of scale are the last ones of x, at least one. */
static weir_status check_scale(const char *who, const weir_tensor *x, const weir_tensor *scale)
{
    if (!scale)
        return weir_fail_null(who, "scale");

    const weir_desc *const d = &x->layout.desc;
    const int              n = scale->layout.desc.ndim;
    weir_desc              want = {.dtype = wide_type(d->dtype), .ndim = n};
    char                   have[WEIR_DESC_TEXT], whole[WEIR_DESC_TEXT];
    if (n < 1 || n > d->ndim)
        return weir_fail(WEIR_ERR_SHAPE, "%s: scale %s must have the last axes of x %s", who,
                         weir_desc_text(&scale->layout.desc, have), weir_desc_text(d, whole));
    for (int i = 0; i < n; i++)
        want.dim[i] = d->dim[d->ndim - n + i];
    return check_like(who, x, scale, "scale", &want);
}

/* ---- whole norms ---- */

/* x, or a view of row-major tokens (n,h,w,c) as rows, (nhw,c), whose results are row-major again.
 * The last `axes` axes are kept. */
static weir_tensor *as_rows(weir_tensor *x, int axes)
{
    const weir_desc *const d = &x->layout.desc;
    weir_desc              rows = {.dtype = d->dtype, .ndim = 1 + axes, .dim = {1}};
    weir_layout            view;

    for (int i = 0; i < d->ndim; i++)
        if (i < d->ndim - axes)
            rows.dim[0] *= d->dim[i];
        else
            rows.dim[1 + i - (d->ndim - axes)] = d->dim[i];
    return d->ndim == 4 && axes < 3 && weir_shape_reshape(&x->layout, &rows, &view)
               ? weir_reshape_as(x, &rows)
               : x;
}

/* y with the dims of x; NULL gives NULL. */
static weir_tensor *from_rows(weir_tensor *y, const weir_tensor *x)
{
    return y ? weir_reshape_as(y, &x->layout.desc) : NULL;
}

/* mean and 1 / sqrt(var + eps) of x over dims, axes kept. */
static weir_tensor *statistics(weir_tensor *x, uint32_t dims, double eps, weir_tensor **mean)
{
    weir_tensor *const fixed = weir_detach(x);

    *mean = weir_mean(fixed, dims, true);
    return weir_rstd(weir_var(fixed, dims, 0, true), eps);
}

/* Of images, whose elements lie channels-last; in f32 or f64. */
static weir_tensor *layer_norm_images(weir_tensor *x, weir_tensor *scale, weir_tensor *bias,
                                      double eps)
{
    const int                axes = scale->layout.desc.ndim;
    const weir_ln_apply_attr attr = {.groups = 0};
    weir_tensor             *mean;
    weir_tensor *const rstd = statistics(x, last_axes(&x->layout.desc, axes), eps, &mean);
    weir_tensor *const in[] = {x, mean, rstd, scale, bias};

    return weir_record1(WEIR_OP_LN_APPLY, 5, in, &attr, sizeof attr);
}

/* scale and bias are f32 if x is a half. */
static weir_tensor *layer_norm(weir_tensor *x, weir_tensor *scale, weir_tensor *bias, double eps)
{
    const char *const          who = "layer_norm";
    const weir_layer_norm_attr attr = {.eps = weir_option(false, eps, 1e-5)};
    weir_tensor               *out[WEIR_MAX_OUT] = {NULL};

    if (check_x(who, x, attr.eps) != WEIR_OK || check_scale(who, x, scale) != WEIR_OK ||
        check_like(who, x, bias, "bias", &scale->layout.desc) != WEIR_OK)
        return NULL;

    weir_tensor *const rows = as_rows(x, scale->layout.desc.ndim);
    if (!rows)
        return NULL;
    if (rows->layout.desc.ndim == 4)
        return weir_f32_to_half(layer_norm_images(weir_half_to_f32(rows), scale, bias, attr.eps),
                                x);
    weir_tensor *const in[] = {rows, scale, bias};
    weir_record(WEIR_OP_LAYER_NORM, 3, in, &attr, sizeof attr, out);
    return from_rows(out[0], x);
}

static weir_tensor *rms_norm(weir_tensor *x, weir_tensor *scale, double eps)
{
    const char *const who = "rms_norm";
    const double      e = weir_option(false, eps, 1e-5);

    if (check_x(who, x, e) != WEIR_OK || check_scale(who, x, scale) != WEIR_OK)
        return NULL;

    const int          axes = scale->layout.desc.ndim;
    weir_tensor *const rows = as_rows(x, axes);
    if (!rows)
        return NULL;
    const weir_desc *const d = &rows->layout.desc;
    const uint32_t         dims = last_axes(d, axes);
    const double           m = weir_reduced_count(d, &(weir_reduce_attr){.dims = dims});
    weir_tensor *const     fixed = weir_detach(rows);
    weir_tensor *const     square = weir_dot(fixed, fixed, dims, true, 1 / m);
    return from_rows(weir_row3(WEIR_OP_RMS_APPLY, rows, weir_rstd(square, e), scale), x);
}

/* x is (n,c) or (n,c,h,w), with c a multiple of groups. */
static weir_status check_groups(const weir_tensor *x, int64_t groups)
{
    const weir_desc *const d = &x->layout.desc;
    char                   text[WEIR_DESC_TEXT];

    if (d->ndim != 2 && d->ndim != 4)
        return weir_fail(WEIR_ERR_SHAPE, "group_norm: x is %s but must be (n,c) or (n,c,h,w)",
                         weir_desc_text(d, text));
    if (groups < 1 || d->dim[1] % groups != 0)
        return weir_fail(WEIR_ERR_INVALID, "group_norm: the channels of x %s do not make %lld "
                         "groups", weir_desc_text(d, text), (long long)groups);
    return WEIR_OK;
}

static weir_tensor *group_norm(weir_tensor *x, int64_t groups, weir_tensor *scale,
                               weir_tensor *bias, double eps)
{
    const char *const who = "group_norm";
    const double      e = weir_option(false, eps, 1e-5);

    if (check_x(who, x, e) != WEIR_OK || check_groups(x, groups) != WEIR_OK)
        return NULL;

    const weir_desc *const d = &x->layout.desc;
    const weir_desc        c = weir_1d(d->dtype, d->dim[1]);
    if (check_like(who, x, scale, "scale", &c) != WEIR_OK ||
        check_like(who, x, bias, "bias", &c) != WEIR_OK)
        return NULL;

    /* Splitting the channels and adding axes of size 1 to scale and bias are views. */
    const int64_t            each = d->dim[1] / groups;
    const weir_desc          split = {d->dtype, d->ndim + 1,
                                      {d->dim[0], groups, each, d->dim[2], d->dim[3]}};
    const weir_desc          view = {d->dtype, d->ndim - 1, {d->dim[1], 1, 1}};
    const weir_ln_apply_attr attr = {.groups = groups};
    weir_tensor *mean, *const rstd = statistics(weir_reshape_as(x, &split),
                                                last_axes(&split, split.ndim - 2), e, &mean);
    weir_tensor *const in[] = {x, per_channel(mean, d, groups), per_channel(rstd, d, groups),
                               weir_reshape_as(scale, &view), weir_reshape_as(bias, &view)};
    return weir_record1(WEIR_OP_LN_APPLY, 5, in, &attr, sizeof attr);
}

/* ---- public functions: halves are normalised in f32, layer norm's within its kernels ---- */

weir_tensor *weir_layer_norm(weir_tensor *x, weir_tensor *scale, weir_tensor *bias, double eps)
{
    return layer_norm(x, weir_half_to_f32(scale), weir_half_to_f32(bias), eps);
}

weir_tensor *weir_rms_norm(weir_tensor *x, weir_tensor *scale, double eps)
{
    return weir_f32_to_half(rms_norm(weir_half_to_f32(x), weir_half_to_f32(scale), eps), x);
}

weir_tensor *weir_group_norm(weir_tensor *x, int64_t groups, weir_tensor *scale, weir_tensor *bias,
                             double eps)
{
    return weir_f32_to_half(group_norm(weir_half_to_f32(x), groups, weir_half_to_f32(scale),
                                       weir_half_to_f32(bias), eps), x);
}
