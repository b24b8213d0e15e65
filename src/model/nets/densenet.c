/* densenet.c - DenseNet-121.
 *
 * Huang et al., "Densely connected convolutional networks", 2017: each layer of a block reads what
 * all layers before it made and adds 32 channels. Parameter names are those of torchvision. */
#include "model/nets/nets.h"

#include <stdio.h>

enum { STAGES = 4, LAYERS = 58, GROWTH = 32, INSIDE = 4 * GROWTH, STEM = 64 };

static const int counts[STAGES] = {6, 12, 24, 16};

/* Batch norm and ReLU before a convolution without bias. */
typedef struct bn_conv {
    weir_layer *bn, *conv;
} bn_conv;

static weir_tensor *bn_conv_apply(const bn_conv *l, weir_tensor *x)
{
    if (!weir_unit_begin(x))
        return NULL;
    return weir_unit_end(x, weir_apply(l->conv, weir_net_relu(l->bn, x)));
}

/* Names PREFIX.BN and PREFIX.CONV. */
static bool bn_conv_new(weir_model *m, const char *prefix, const char *bn, const char *conv,
                        const int64_t size[2], int64_t kernel, bn_conv *out)
{
    const weir_conv2d_options same = {.pad = {kernel / 2, kernel / 2}, .groups = 1};
    char                      name[WEIR_NAME_MAX];

    if (weir_name_join(name, prefix, bn) != WEIR_OK ||
        !(out->bn = weir_batch_norm_new(m, name, size[0])))
        return false;
    return weir_name_join(name, prefix, conv) == WEIR_OK &&
           (out->conv = weir_conv2d_new(m, name, size[0], size[1], kernel, &same, false));
}

/* y = (x, f(x)) along the channels, f of a 1x1 and a 3x3 convolution. */
typedef struct dense {
    weir_layer base;
    bn_conv    narrow, grow;
} dense;

static weir_tensor *dense_apply(const weir_layer *base, weir_tensor *x)
{
    const dense *l = (const dense *)base;
    weir_tensor *y = bn_conv_apply(&l->grow, bn_conv_apply(&l->narrow, x));
    return y ? weir_concat(2, (weir_tensor *const[]){x, y}, 1) : NULL;
}

static weir_layer *dense_new(weir_model *m, const char *name, int64_t in)
{
    const weir_mark mark = weir_model_mark(m);
    dense          *l = weir_layer_make(m, sizeof *l, "dense_layer", name, dense_apply);
    if (!l)
        return NULL;
    const bool made =
        bn_conv_new(m, name, "norm1", "conv1", (const int64_t[]){in, INSIDE}, 1, &l->narrow) &&
        bn_conv_new(m, name, "norm2", "conv2", (const int64_t[]){INSIDE, GROWTH}, 3, &l->grow);
    return weir_net_finish(m, mark, &l->base, made);
}

typedef struct densenet {
    weir_layer   base;
    weir_conv_bn stem;
    weir_layer  *layer[LAYERS];
    bn_conv      between[STAGES - 1];
    weir_layer  *last, *fc;
} densenet;

/* 224 px: (n,3,224,224) -> (n,64,56,56) -> (n,256,56,56) -> (n,128,28,28) -> ... -> (n,1024,7,7) ->
 * (n,1024) -> (n,classes) */
static weir_tensor *densenet_apply(const weir_layer *base, weir_tensor *x)
{
    const densenet *l = (const densenet *)base;
    x = weir_max_pool2d(weir_conv_bn_relu(&l->stem, x),
                        &(weir_pool2d_options){.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}});
    for (int stage = 0, at = 0; stage < STAGES; stage++) {
        if (stage > 0)
            x = weir_avg_pool2d(bn_conv_apply(&l->between[stage - 1], x),
                                &(weir_pool2d_options){.kernel = {2, 2}});
        for (int i = 0; i < counts[stage]; i++)
            x = weir_apply(l->layer[at++], x);
    }
    return weir_apply(l->fc, weir_flatten(weir_global_avg_pool2d(weir_net_relu(l->last, x))));
}

/* Blocks of layers, halved channels between them. Returns the channels that come out, 0 after a
 * failure. */
static int64_t densenet_stages(weir_model *m, densenet *l)
{
    int64_t c = STEM;
    char    name[48];

    for (int stage = 0, at = 0; stage < STAGES; stage++) {
        if (stage > 0) {
            snprintf(name, sizeof name, "features.transition%d", stage);
            if (!bn_conv_new(m, name, "norm", "conv", (const int64_t[]){c, c / 2}, 1,
                             &l->between[stage - 1]))
                return 0;
            c /= 2;
        }
        for (int i = 0; i < counts[stage]; i++, c += GROWTH) {
            snprintf(name, sizeof name, "features.denseblock%d.denselayer%d", stage + 1, i + 1);
            if (!(l->layer[at++] = dense_new(m, name, c)))
                return 0;
        }
    }
    return c;
}

weir_layer *weir_densenet121_new(weir_model *m, int64_t classes)
{
    const weir_mark mark = weir_model_mark(m);
    densenet       *l = weir_layer_make(m, sizeof *l, "densenet", NULL, densenet_apply);
    if (!l)
        return NULL;
    const weir_conv_bn_form stem = {"features", "conv0", "norm0", 3, STEM, 7, 2, 1};
    int64_t                 channels = 0;
    const bool              made = weir_conv_bn_new(m, &stem, &l->stem) &&
                      (channels = densenet_stages(m, l)) > 0 &&
                      (l->last = weir_batch_norm_new(m, "features.norm5", channels)) &&
                      (l->fc = weir_linear_new(m, "classifier", channels, classes, true));
    return weir_net_finish(m, mark, &l->base, made);
}
