/* nets.c - shared parts of networks, and the small ones: MLP, LeNet, the digits CNN.
 *
 * LeNet: LeCun et al., "Gradient-based learning applied to document recognition", 1998, in the
 * wider form with 20 and 50 channels. */
#include "model/nets/nets.h"

#include <stdio.h>

weir_layer *weir_net_finish(weir_model *m, weir_mark mark, weir_layer *l, bool made)
{
    if (!made)
        return weir_model_undo(m, mark);
    weir_layer_adopt(l, mark);
    l->scoped = true;
    return l;
}

weir_tensor *weir_net_relu(weir_layer *l, weir_tensor *x)
{
    return weir_unit_begin(x) ? weir_unit_end(x, weir_relu(weir_apply(l, x))) : NULL;
}

/* ---- MLP ---- */

typedef struct mlp {
    weir_layer  base;
    int         n;
    weir_layer *fc[];
} mlp;

static weir_tensor *mlp_apply(const weir_layer *base, weir_tensor *x)
{
    const mlp *l = (const mlp *)base;
    for (int i = 0; i < l->n; i++)
        x = i + 1 < l->n ? weir_net_relu(l->fc[i], x) : weir_apply(l->fc[i], x);
    return x;
}

weir_layer *weir_mlp_new(weir_model *m, int n, const int64_t *widths)
{
    const weir_mark mark = weir_model_mark(m);

    if (n < 2) {
        weir_fail(WEIR_ERR_INVALID, "mlp: %d widths are given, but an input and an output width "
                                    "are needed", n);
        return NULL;
    }
    if (!widths) {
        weir_fail(WEIR_ERR_INVALID, "mlp: widths is NULL");
        return NULL;
    }
    const size_t count = (size_t)n - 1;
    mlp         *l = weir_layer_make(m, sizeof *l + count * sizeof l->fc[0], "mlp", NULL,
                                     mlp_apply);
    if (!l)
        return NULL;
    bool made = true;
    l->n = n - 1;
    for (int i = 0; made && i < l->n; i++) {
        char name[24];
        snprintf(name, sizeof name, "fc%d", i + 1);
        l->fc[i] = weir_linear_new(m, name, widths[i], widths[i + 1], true);
        made = l->fc[i] != NULL;
    }
    return weir_net_finish(m, mark, &l->base, made);
}

/* ---- LeNet ---- */

typedef struct lenet {
    weir_layer  base;
    weir_layer *conv1, *conv2, *fc1, *fc2;
} lenet;

static weir_tensor *half(weir_tensor *x)
{
    return weir_max_pool2d(x, &(weir_pool2d_options){.kernel = {2, 2}});
}

/* (n,1,28,28) -> (n,20,12,12) -> (n,50,4,4) -> (n,500) -> (n,classes) */
static weir_tensor *lenet_apply(const weir_layer *base, weir_tensor *x)
{
    const lenet *l = (const lenet *)base;
    x = half(weir_net_relu(l->conv1, x));
    x = half(weir_net_relu(l->conv2, x));
    x = weir_net_relu(l->fc1, weir_flatten(x));
    return weir_apply(l->fc2, x);
}

weir_layer *weir_lenet_new(weir_model *m, int64_t classes)
{
    const weir_mark mark = weir_model_mark(m);
    lenet          *l = weir_layer_make(m, sizeof *l, "lenet", NULL, lenet_apply);
    if (!l)
        return NULL;
    const bool made = (l->conv1 = weir_conv2d_new(m, "conv1", 1, 20, 5, NULL, true)) &&
                      (l->conv2 = weir_conv2d_new(m, "conv2", 20, 50, 5, NULL, true)) &&
                      (l->fc1 = weir_linear_new(m, "fc1", 50 * 4 * 4, 500, true)) &&
                      (l->fc2 = weir_linear_new(m, "fc2", 500, classes, true));
    return weir_net_finish(m, mark, &l->base, made);
}

/* ---- a convolution without bias and its batch norm ---- */

weir_tensor *weir_conv_bn_apply(const weir_conv_bn *l, weir_tensor *x)
{
    return weir_apply(l->bn, weir_apply(l->conv, x));
}

weir_tensor *weir_conv_bn_relu(const weir_conv_bn *l, weir_tensor *x)
{
    return weir_unit_begin(x) ? weir_unit_end(x, weir_relu(weir_conv_bn_apply(l, x))) : NULL;
}

bool weir_conv_bn_new(weir_model *m, const weir_conv_bn_form *f, weir_conv_bn *out)
{
    const weir_conv2d_options options = {.stride = {f->stride, f->stride},
                                         .pad = {f->kernel / 2, f->kernel / 2},
                                         .groups = f->groups};
    char                      name[WEIR_NAME_MAX];

    if (weir_name_join(name, f->prefix, f->conv) != WEIR_OK)
        return false;
    out->conv = weir_conv2d_new(m, name, f->in, f->out, f->kernel, &options, false);
    if (!out->conv || weir_name_join(name, f->prefix, f->bn) != WEIR_OK)
        return false;
    out->bn = weir_batch_norm_new(m, name, f->out);
    return out->bn != NULL;
}

/* ---- the digits CNN ---- */

typedef struct digits_cnn {
    weir_layer   base;
    weir_conv_bn first, second;
    weir_layer  *drop, *fc;
} digits_cnn;

/* (n,1,8,8) -> (n,32,8,8) -> (n,64,8,8) -> (n,64,4,4) -> (n,classes) */
static weir_tensor *digits_cnn_apply(const weir_layer *base, weir_tensor *x)
{
    const digits_cnn *l = (const digits_cnn *)base;
    x = weir_conv_bn_relu(&l->first, x);
    x = weir_conv_bn_relu(&l->second, x);
    x = weir_apply(l->drop, weir_flatten(half(x)));
    return weir_apply(l->fc, x);
}

weir_layer *weir_digits_cnn_new(weir_model *m, int64_t classes)
{
    const weir_mark mark = weir_model_mark(m);
    digits_cnn     *l = weir_layer_make(m, sizeof *l, "digits_cnn", NULL, digits_cnn_apply);
    if (!l)
        return NULL;
    const bool made =
        weir_conv_bn_new(m, &(weir_conv_bn_form){NULL, "conv1", "bn1", 1, 32, 3, 1, 1},
                         &l->first) &&
        weir_conv_bn_new(m, &(weir_conv_bn_form){NULL, "conv2", "bn2", 32, 64, 3, 1, 1},
                         &l->second) &&
        (l->drop = weir_dropout_new(m, 0.25)) &&
        (l->fc = weir_linear_new(m, "fc", 64 * 4 * 4, classes, true));
    return weir_net_finish(m, mark, &l->base, made);
}
