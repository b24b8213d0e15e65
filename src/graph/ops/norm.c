/* norm.c - definitions of batch normalisation: statistics, gradient of bn_apply, running
 * statistics.
 *
 * Ioffe and Szegedy, "Batch normalization", 2015, as three recorded ops: bn_stats (a reduction),
 * bn_apply (a row of elementwise.def: fusable, cheap to recompute), bn_update (runs once). bn_stats
 * is not differentiated: the gradient of bn_apply treats mean and rstd as functions of x and
 * computes the gradient of both ops together. mean, rstd, scale and bias enter bn_apply as views
 * (c,1,1) or (c), which broadcast to x. */
#include "graph/ops/define.h"

/* Fails unless input i is (n,c) or (n,c,h,w). */
static weir_status check_x(const weir_call *c, int i, const char *name)
{
    const int ndim = c->in[i].desc.ndim;

    if (ndim != 2 && ndim != 4)
        return weir_call_fail(WEIR_ERR_SHAPE, c, "%s must be (n,c) or (n,c,h,w) but has %d axes",
                              name, ndim);
    return WEIR_OK;
}

/* The desc of one number per channel: (c). */
static weir_desc channels(const weir_desc *x)
{
    return weir_1d(x->dtype, x->dim[1]);
}

/* ---- statistics: x -> mean, var (biased), rstd, each (c) ---- */

static weir_status bn_stats_infer(weir_call *c)
{
    WEIR_TRY(weir_check_floats(c));
    WEIR_TRY(check_x(c, 0, "x"));

    const weir_desc d = channels(&c->in[0].desc);
    for (int i = 0; i < 3; i++)
        weir_out_dense(c, i, &d);
    return WEIR_OK;
}

/* Two passes: mean, then squared differences. */
static double bn_stats_flops(const weir_call *c)
{
    return 4 * weir_flops_input(c);
}

const weir_opdef weir_op_bn_stats = {
    .name = "bn_stats",
    .flags = WEIR_PURE,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 3,
    .autocast_f32 = 1,
    .infer = bn_stats_infer,
    .flops = bn_stats_flops,
};

/* ---- dy, x, mean, rstd -> dscale, dbias, each (c) ---- */

static weir_status bn_grad_reduce_infer(weir_call *c)
{
    WEIR_TRY(weir_check_floats(c));
    WEIR_TRY(check_x(c, 1, "x"));

    const weir_desc d = channels(&c->in[1].desc);
    WEIR_TRY(weir_check_dims(c, 0, "dy", &c->in[1].desc));
    WEIR_TRY(weir_check_dims(c, 2, "mean", &d));
    WEIR_TRY(weir_check_dims(c, 3, "rstd", &d));
    for (int i = 0; i < 2; i++)
        weir_out_dense(c, i, &d);
    return WEIR_OK;
}

/* Normalise, multiply, two sums. */
static double bn_grad_reduce_flops(const weir_call *c)
{
    return 5 * weir_flops_input(c);
}

const weir_opdef weir_op_bn_grad_reduce = {
    .name = "bn_grad_reduce",
    .flags = WEIR_PURE,
    .nin_min = 4,
    .nin_max = 4,
    .nout = 2,
    .infer = bn_grad_reduce_infer,
    .flops = bn_grad_reduce_flops,
};

/* ---- the gradient of bn_apply ---- */

/* mean, rstd or scale, viewed for broadcasting, as (c). */
static weir_tensor *per_channel(weir_tensor *t)
{
    const weir_desc c = weir_1d(t->layout.desc.dtype, weir_shape_count(&t->layout.desc));

    return weir_reshape_as(t, &c);
}

/* In training, mean and rstd are functions of x: dx = scale rstd (dy - dbias / m - (x - mean) rstd
 * dscale / m), where m is the number of elements per channel. */
static weir_tensor *bn_train_dx(weir_grad *g, weir_tensor *dscale, weir_tensor *dbias)
{
    const double elements = (double)weir_shape_count(&g->x[0]->layout.desc),
                 channels = (double)weir_shape_count(&g->x[1]->layout.desc);
    const weir_ew_attr attr = {.s = channels / elements};
    weir_tensor *const in[] = {g->dy[0], g->x[0], g->x[1], g->x[2], g->x[3], dscale, dbias};

    return weir_record1(WEIR_OP_BN_GRAD_APPLY, 7, in, &attr, sizeof attr);
}

/* In evaluation mean and rstd are constants: dx = dy rstd scale. */
weir_status weir_bn_apply_grad(weir_grad *g)
{
    const weir_bn_apply_attr *const a = g->attr;
    const bool                      train = a->train != 0;
    weir_tensor                    *sum[WEIR_MAX_OUT] = {NULL};    /* dscale, dbias */

    if (weir_wants(g, 3) || weir_wants(g, 4) || train) {
        weir_tensor *const in[] = {g->dy[0], g->x[0], per_channel(g->x[1]), per_channel(g->x[2])};
        WEIR_TRY(weir_record(WEIR_OP_BN_GRAD_REDUCE, 4, in, NULL, 0, sum));
        for (int i = 0; i < 2; i++) {
            sum[i] = weir_reshape_as(sum[i], &g->x[3 + i]->layout.desc);
            WEIR_TRY(weir_made(sum[i]));
            if (weir_wants(g, 3 + i))
                g->dx[3 + i] = sum[i];
        }
    }
    if (!weir_wants(g, 0))
        return WEIR_OK;
    return weir_grad_set(g, 0, train ? bn_train_dx(g, sum[0], sum[1])
                                     : weir_mul(g->dy[0], weir_mul(g->x[2], g->x[3])));
}

/* ---- running statistics: running_mean, running_var (both updated), mean, var, each (c) or rows of
 * them that are applied one after another ---- */

static weir_status bn_update_infer(weir_call *c)
{
    static const char *const name[] = {"running_mean", "running_var", "mean", "var"};

    const weir_desc *const new = &c->in[2].desc;

    WEIR_TRY(weir_check_floats(c));
    if (new->ndim < 1 || new->ndim > 2)
        return weir_call_fail(WEIR_ERR_SHAPE, c, "new statistics must be (c) or (n,c)");
    const weir_desc channel = weir_1d(new->dtype, new->dim[new->ndim - 1]);
    for (int i = 0; i < 4; i++)
        WEIR_TRY(weir_check_dims(c, i, name[i], i < 2 ? &channel : new));
    return WEIR_OK;
}

/* r += momentum (new - r), for mean and variance. */
static double bn_update_flops(const weir_call *c)
{
    return 6 * (double)weir_shape_count(&c->in[2].desc);
}

const weir_opdef weir_op_bn_update = {
    .name = "bn_update",
    .flags = WEIR_UPDATE,
    .nin_min = 4,
    .nin_max = 4,
    .nout = 0,
    .mutates = 3,
    .infer = bn_update_infer,
    .flops = bn_update_flops,
};

weir_status weir_running_update(weir_tensor *running_mean, weir_tensor *running_var,
                                weir_tensor *mean, weir_tensor *var, double momentum)
{
    const weir_bn_update_attr attr = {.momentum = momentum, .count = 1};
    weir_tensor *const        in[] = {running_mean, running_var, mean, var};

    if (!(momentum >= 0 && momentum <= 1))
        return weir_poison(weir_fail(WEIR_ERR_INVALID, "running_update: momentum %g must be in "
                                     "[0, 1]", momentum));
    return weir_record(WEIR_OP_BN_UPDATE, 4, in, &attr, sizeof attr, NULL);
}

/* ---- public function ---- */

typedef struct bn_args {
    weir_tensor *x, *scale, *bias, *running_mean, *running_var;
    double       eps, momentum, count;      /* count: elements per channel */
} bn_args;

/* Fails unless t has one element per channel of x, and its type. */
static weir_status bn_check_channels(const weir_tensor *t, const char *name, const weir_desc *x)
{
    const weir_desc want = channels(x);
    char            have[WEIR_DESC_TEXT], need[WEIR_DESC_TEXT], whole[WEIR_DESC_TEXT];

    if (weir_desc_equal(&t->layout.desc, &want))
        return WEIR_OK;
    return weir_fail(t->layout.desc.dtype == want.dtype ? WEIR_ERR_SHAPE : WEIR_ERR_DTYPE,
                     "batch_norm: %s is %s but must be %s for x %s", name,
                     weir_desc_text(&t->layout.desc, have), weir_desc_text(&want, need),
                     weir_desc_text(x, whole));
}

/* Finds all mistakes before the first call is recorded. */
static weir_status bn_check(const bn_args *a)
{
    const struct {
        const weir_tensor *t;
        const char        *name;
    } arg[] = {{a->x, "x"}, {a->scale, "scale"}, {a->bias, "bias"},
               {a->running_mean, "running_mean"}, {a->running_var, "running_var"}};

    for (int i = 0; i < 5; i++)
        if (!arg[i].t)
            return weir_fail_null("weir_batch_norm", arg[i].name);

    const weir_desc *const x = &a->x->layout.desc;
    char                   text[WEIR_DESC_TEXT];
    if (!weir_is_float(x->dtype))
        return weir_fail(WEIR_ERR_DTYPE, "batch_norm: x must be a float, not %s",
                         weir_desc_text(x, text));
    if (x->ndim < 2)
        return weir_fail(WEIR_ERR_SHAPE, "batch_norm: x is %s but must be (n,c) or (n,c,...)",
                         weir_desc_text(x, text));
    for (int i = 1; i < 5; i++)
        WEIR_TRY(bn_check_channels(arg[i].t, arg[i].name, x));
    if (!(a->eps >= 0) || !(a->momentum >= 0 && a->momentum <= 1))
        return weir_fail(WEIR_ERR_INVALID, "batch_norm: eps %g must be >= 0, momentum %g in [0, 1]",
                         a->eps, a->momentum);
    return WEIR_OK;
}

/* The apply step: (x - mean) rstd scale + bias. */
static weir_tensor *bn_apply(const bn_args *a, weir_tensor *mean, weir_tensor *rstd, bool train)
{
    const weir_desc *const   x = &a->x->layout.desc;
    const weir_desc          view = {x->dtype, x->ndim - 1, {x->dim[1], 1, 1}};
    const weir_bn_apply_attr attr = {.train = train};
    weir_tensor             *in[] = {a->x, mean, rstd, a->scale, a->bias};

    for (int i = 1; i < 5; i++)
        in[i] = weir_reshape_as(in[i], &view);
    return weir_record1(WEIR_OP_BN_APPLY, 5, in, &attr, sizeof attr);
}

/* half = (1 - momentum) wide + momentum new, in f32 and rounded once; wide is half in f32. */
static weir_status update_half(weir_tensor *half, weir_tensor *wide, weir_tensor *new,
                               double momentum)
{
    weir_tensor *const now = weir_add(weir_affine(wide, 1 - momentum, 0),
                                      weir_affine(new, momentum, 0));

    WEIR_TRY(weir_made(now));
    return weir_assign(half, now);
}

/* Updates the running statistics `mean` and `var`, as given, by the batch's, f32 or f64. */
static weir_status update_running(const bn_args *a, weir_tensor *mean, weir_tensor *var,
                                  weir_tensor *const *batch)
{
    const weir_bn_update_attr attr = {.momentum = a->momentum, .count = a->count};
    weir_tensor *const        in[] = {mean, var, batch[0], batch[1]};

    if (mean == a->running_mean && var == a->running_var)       /* no half was widened */
        return weir_record(WEIR_OP_BN_UPDATE, 4, in, &attr, sizeof attr, NULL);
    weir_tensor *const unbiased = weir_affine(batch[1], a->count / (a->count - 1), 0);
    WEIR_TRY(update_half(mean, a->running_mean, batch[0], a->momentum));
    return update_half(var, a->running_var, unbiased, a->momentum);
}

/* Normalises by the statistics of the batch and updates the running ones. */
static weir_tensor *bn_train(const bn_args *a, weir_tensor *running_mean, weir_tensor *running_var)
{
    const weir_bn_attr stats = {.eps = a->eps};
    weir_tensor       *out[WEIR_MAX_OUT] = {NULL};      /* mean, var, rstd */
    char               text[WEIR_DESC_TEXT];

    /* The unbiased variance of one element is NaN and would spoil the running variance. */
    if (a->count < 2)
        return WEIR_FAIL_NULL(WEIR_ERR_SHAPE, "batch_norm: training needs at least 2 elements per "
                              "channel, x %s has %g", weir_desc_text(&a->x->layout.desc, text),
                              a->count);
    if (weir_record(WEIR_OP_BN_STATS, 1, &a->x, &stats, sizeof stats, out) != WEIR_OK)
        return NULL;
    if (update_running(a, running_mean, running_var, out) != WEIR_OK)
        return NULL;
    return bn_apply(a, out[0], out[2], true);
}

/* The shape that the ops take: all axes after the channels of (n,c,l) or (n,c,d,h,w) merged. */
static weir_desc bn_shape(const weir_desc *x)
{
    weir_desc d = weir_4d(x->dtype, x->dim[0], x->dim[1], 1, 1);

    if (x->ndim == 2 || x->ndim == 4)
        return *x;
    for (int i = 2; i < x->ndim; i++)
        d.dim[3] *= x->dim[i];
    return d;
}

weir_tensor *weir_batch_norm(weir_tensor *x, weir_tensor *scale, weir_tensor *bias,
                             weir_tensor *running_mean, weir_tensor *running_var,
                             const weir_batch_norm_options *options)
{
    const weir_batch_norm_options o = options ? *options : (weir_batch_norm_options){0};
    bn_args                       a = {weir_half_to_f32(x),
                                       weir_half_to_f32(scale),
                                       weir_half_to_f32(bias),
                                       weir_half_to_f32(running_mean),
                                       weir_half_to_f32(running_var),
                                       .eps = weir_option(o.exact, o.eps, 1e-5),
                                       .momentum = weir_option(o.exact, o.momentum, 0.1),
                                       .count = 1};
    weir_tensor *y;

    if (bn_check(&a) != WEIR_OK)
        return NULL;
    for (int i = 0; i < x->layout.desc.ndim; i++)
        if (i != 1)
            a.count *= (double)x->layout.desc.dim[i];

    const weir_desc whole = a.x->layout.desc, known = bn_shape(&whole);
    a.x = weir_reshape_as(a.x, &known);
    if (!a.x)
        return NULL;
    if (o.train)
        y = bn_train(&a, running_mean, running_var);
    else
        y = bn_apply(&a, a.running_mean, weir_rstd(a.running_var, a.eps), false);
    return weir_f32_to_half(y ? weir_reshape_as(y, &whole) : NULL, x);
}
