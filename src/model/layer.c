/* layer.c - linear layers, convolutions, batch norm and dropout.
 *
 * Initial values: He et al., "Delving deep into rectifiers", 2015 (normal, fan in) for
 * convolutions; uniform in +-1/sqrt(fan in) for linear layers; biases 0, batch-norm scales 1. */
#include "model/statistics.h"

#include <math.h>
#include <string.h>

/* The part of the name below `outer`, or all of it. */
static const char *below(const char *name, const char *outer)
{
    const size_t n = outer ? strlen(outer) : 0;

    return n > 0 && strncmp(name, outer, n) == 0 && name[n] == '.' ? name + n + 1 : name;
}

weir_status weir_inside_begin(weir_model *m, const char *name, const char **outer)
{
    char              path[WEIR_NAME_MAX];
    const char *const part = below(name, m->inside);
    size_t            n = 0;

    *outer = m->inside;
    for (; part[n] && n + 1 < sizeof path; n++)
        path[n] = part[n] == '.' ? '/'
                  : (unsigned char)part[n] < ' ' || part[n] == 0x7f ? '?' : part[n];
    path[n] = '\0';
    WEIR_TRY(weir_name_scope_begin(m->dev, n ? path : "layer"));
    m->inside = name;
    return WEIR_OK;
}

weir_status weir_inside_end(weir_model *m, const char *outer)
{
    m->inside = outer;
    return weir_name_scope_end(m->dev);
}

/* Puts the open path before the sentence of a failure in the layer that does not have it. */
static void tell_where(weir_device *d)
{
    const char *const path = weir_name_scope(d), *const told = weir_error();
    const size_t      n = strlen(path);

    if (strncmp(told, path, n) != 0 || told[n] != '/')
        (void)weir_fail(weir_error_status(), "%s/%s", path, told);
}

static weir_tensor *apply_scoped(const weir_layer *l, weir_tensor *x)
{
    if (!l->scoped)
        return l->apply(l, x);
    return weir_unit_begin(x) ? weir_unit_end(x, l->apply(l, x)) : NULL;
}

static weir_tensor *apply(const weir_layer *l, weir_tensor *x)
{
    weir_model *const m = l->model;
    const char       *outer;

    if (!*l->name)
        return apply_scoped(l, x);
    if (weir_inside_begin(m, l->name, &outer) != WEIR_OK)
        return NULL;
    weir_tensor *const y = apply_scoped(l, x);
    if (!y)
        tell_where(m->dev);
    return weir_inside_end(m, outer) == WEIR_OK ? y : NULL;
}

/* The outermost layer opens the scope of mixed precision, and returns f32. */
static weir_tensor *apply_outermost(const weir_layer *l, weir_tensor *x)
{
    weir_device *const d = weir_tensor_device(x);

    if (l->model->precision == WEIR_F32 || weir_autocast_type(d) != WEIR_F32)
        return apply(l, x);
    if (weir_autocast_begin(d, l->model->precision) != WEIR_OK)
        return NULL;
    weir_tensor *const y = apply(l, x);
    if (weir_autocast_end(d) != WEIR_OK || !y)
        return NULL;
    const weir_dtype type = weir_tensor_desc(y).dtype;
    return type == WEIR_F16 || type == WEIR_BF16 ? weir_cast(y, WEIR_F32) : y;
}

weir_tensor *weir_apply(weir_layer *l, weir_tensor *x)
{
    if (!l || !x)
        return (void)weir_fail_null("apply", l ? "x" : "layer"), NULL;
    if (l->incomplete) {
        weir_fail(WEIR_ERR_STATE, "apply: a part of the layer '%s' could not be made: check what "
                  "weir_layer_add, weir_layer_add_param and weir_layer_add_state return", l->name);
        return NULL;
    }
    const weir_model_watch *const w = l->model->watch;
    if (!w)
        return apply_outermost(l, x);
    const size_t       entered = w->enter(w->ctx, l);
    weir_tensor *const y = apply_outermost(l, x);
    w->leave(w->ctx, entered, y);
    return y;
}

bool weir_unit_begin(const weir_tensor *x)
{
    return x && weir_scope_begin(weir_tensor_device(x)) == WEIR_OK;
}

weir_tensor *weir_unit_end(const weir_tensor *x, weir_tensor *y)
{
    if (y)
        y = weir_escape(y);
    return weir_scope_end(weir_tensor_device(x)) == WEIR_OK ? y : NULL;
}

/* ---- linear ---- */

typedef struct linear {
    weir_layer   base;
    weir_tensor *w, *bias;      /* (out,in), (out) or NULL */
} linear;

static weir_tensor *linear_apply(const weir_layer *base, weir_tensor *x)
{
    const linear *l = (const linear *)base;
    return weir_linear(x, l->w, l->bias);
}

weir_layer *weir_linear_new(weir_model *m, const char *name, int64_t in, int64_t out, bool bias)
{
    const weir_mark mark = weir_model_mark(m);

    if (in < 1 || out < 1) {
        weir_fail(WEIR_ERR_INVALID, "linear %s: in %lld and out %lld must be 1 or more",
                  name ? name : "", (long long)in, (long long)out);
        return NULL;
    }
    linear *l = weir_layer_make(m, sizeof *l, "linear", name, linear_apply);
    if (!l)
        return NULL;
    const double bound = 1.0 / sqrt((double)in);
    l->w = weir_model_new_param(m, &l->base, "weight", weir_2d(WEIR_F32, out, in), 0);
    if (!l->w || weir_write_uniform(l->w, -bound, bound) != WEIR_OK)
        return weir_model_undo(m, mark);
    if (bias && !(l->bias = weir_model_new_param(m, &l->base, "bias", weir_1d(WEIR_F32, out), 0)))
        return weir_model_undo(m, mark);
    return &l->base;
}

/* ---- convolution ---- */

typedef struct conv2d {
    weir_layer          base;
    weir_tensor        *w, *bias;       /* (out, in/groups, k, k), (out) or NULL */
    weir_conv2d_options options;
} conv2d;

static weir_tensor *conv2d_apply(const weir_layer *base, weir_tensor *x)
{
    const conv2d *l = (const conv2d *)base;
    return weir_conv2d(x, l->w, l->bias, &l->options);
}

static weir_status conv_check(const char *op, const char *name, int64_t in, int64_t out,
                              int64_t kernel, int64_t groups)
{
    if (in < 1 || out < 1 || kernel < 1)
        return weir_fail(WEIR_ERR_INVALID,
                         "%s %s: in %lld, out %lld and kernel %lld must be 1 or more", op, name,
                         (long long)in, (long long)out, (long long)kernel);
    if (groups < 1 || in % groups || out % groups)
        return weir_fail(WEIR_ERR_INVALID, "%s %s: %lld groups do not divide in %lld and out %lld",
                         op, name, (long long)groups, (long long)in, (long long)out);
    return WEIR_OK;
}

weir_layer *weir_conv2d_new(weir_model *m, const char *name, int64_t in, int64_t out,
                            int64_t kernel, const weir_conv2d_options *options, bool bias)
{
    const weir_conv2d_options o = options ? *options : (weir_conv2d_options){.groups = 1};
    const int64_t             groups = o.groups ? o.groups : 1;
    const weir_mark           mark = weir_model_mark(m);

    if (conv_check("conv2d", name ? name : "", in, out, kernel, groups) != WEIR_OK)
        return NULL;
    conv2d *l = weir_layer_make(m, sizeof *l, "conv2d", name, conv2d_apply);
    if (!l)
        return NULL;
    l->options = o;
    const double fan_in = (double)(in / groups) * (double)kernel * (double)kernel;
    l->w = weir_model_new_param(m, &l->base, "weight",
                                weir_4d(WEIR_F32, out, in / groups, kernel, kernel), 0);
    if (!l->w || weir_write_normal(l->w, 0, sqrt(2.0 / fan_in)) != WEIR_OK)
        return weir_model_undo(m, mark);
    if (bias && !(l->bias = weir_model_new_param(m, &l->base, "bias", weir_1d(WEIR_F32, out), 0)))
        return weir_model_undo(m, mark);
    return &l->base;
}

/* ---- transposed convolution ---- */

typedef struct conv_transpose2d {
    weir_layer                    base;
    weir_tensor                  *w, *bias;     /* (in, out/groups, k, k), (out) or NULL */
    weir_conv_transpose2d_options options;
} conv_transpose2d;

static weir_tensor *conv_transpose2d_apply(const weir_layer *base, weir_tensor *x)
{
    const conv_transpose2d *l = (const conv_transpose2d *)base;
    return weir_conv_transpose2d(x, l->w, l->bias, &l->options);
}

weir_layer *weir_conv_transpose2d_new(weir_model *m, const char *name, int64_t in, int64_t out,
                                      int64_t kernel, const weir_conv_transpose2d_options *options,
                                      bool bias)
{
    const weir_conv_transpose2d_options o =
        options ? *options : (weir_conv_transpose2d_options){.groups = 1};
    const int64_t   groups = o.groups ? o.groups : 1;
    const double    step = (double)(o.stride[0] ? o.stride[0] : 1) *
                           (double)(o.stride[1] ? o.stride[1] : 1);
    const weir_mark mark = weir_model_mark(m);

    if (conv_check("conv_transpose2d", name ? name : "", in, out, kernel, groups) != WEIR_OK)
        return NULL;
    conv_transpose2d *l = weir_layer_make(m, sizeof *l, "conv_transpose2d", name,
                                          conv_transpose2d_apply);
    if (!l)
        return NULL;
    l->options = o;
    const double terms = (double)(in / groups) * (double)kernel * (double)kernel / step;
    l->w = weir_model_new_param(m, &l->base, "weight",
                                weir_4d(WEIR_F32, in, out / groups, kernel, kernel), 0);
    if (!l->w || weir_write_normal(l->w, 0, sqrt(1 / terms)) != WEIR_OK)
        return weir_model_undo(m, mark);
    if (bias && !(l->bias = weir_model_new_param(m, &l->base, "bias", weir_1d(WEIR_F32, out), 0)))
        return weir_model_undo(m, mark);
    return &l->base;
}

/* ---- batch normalisation ---- */

typedef struct batch_norm {
    weir_layer   base;
    weir_tensor *scale, *bias, *mean, *var;     /* (channels) each */
} batch_norm;

static weir_tensor *batch_norm_apply(const weir_layer *base, weir_tensor *x)
{
    const batch_norm *l = (const batch_norm *)base;
    if (base->model->training && base->model->statistics)
        return weir_statistics_norm(base->model, x, l->scale, l->bias, l->mean, l->var);
    return weir_batch_norm(x, l->scale, l->bias, l->mean, l->var,
                           &(weir_batch_norm_options){.train = base->model->training});
}

weir_layer *weir_batch_norm_new(weir_model *m, const char *name, int64_t channels)
{
    const weir_mark mark = weir_model_mark(m);
    const weir_desc desc = weir_1d(WEIR_F32, channels);

    if (channels < 1) {
        weir_fail(WEIR_ERR_INVALID, "batch_norm %s: channels is %lld but must be 1 or more",
                  name ? name : "", (long long)channels);
        return NULL;
    }
    batch_norm *l = weir_layer_make(m, sizeof *l, "batch_norm", name, batch_norm_apply);
    if (!l)
        return NULL;
    if (!(l->scale = weir_model_new_param(m, &l->base, "weight", desc, 1)) ||
        !(l->bias = weir_model_new_param(m, &l->base, "bias", desc, 0)) ||
        !(l->mean = weir_model_new_state(m, &l->base, "running_mean", desc, 0)) ||
        !(l->var = weir_model_new_state(m, &l->base, "running_var", desc, 1)))
        return weir_model_undo(m, mark);
    return &l->base;
}

/* ---- dropout ---- */

typedef struct dropout {
    weir_layer base;
    double     p;
} dropout;

static weir_tensor *dropout_apply(const weir_layer *base, weir_tensor *x)
{
    const dropout *l = (const dropout *)base;
    return base->model->training ? weir_dropout(x, l->p) : x;
}

weir_layer *weir_dropout_new(weir_model *m, double p)
{
    if (!(p >= 0 && p <= 1)) {
        weir_fail(WEIR_ERR_INVALID, "dropout: p is %g but must be from 0 to 1", p);
        return NULL;
    }
    dropout *l = weir_layer_make(m, sizeof *l, "dropout", NULL, dropout_apply);
    if (!l)
        return NULL;
    l->p = p;
    return &l->base;
}
