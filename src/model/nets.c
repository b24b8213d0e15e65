/* nets.c - whole networks as layers: MLP, LeNet, the digits CNN, ResNet 18, 34, 50 and 101.
 *
 * LeNet: LeCun et al., "Gradient-based learning applied to document recognition", 1998, in the
 * wider form with 20 and 50 channels. ResNet: He et al., "Deep residual learning for image
 * recognition", 2016, as v1.5: a bottleneck strides in its 3x3 convolution. Parameter names are
 * those of torchvision. */
#include "model/model.h"

#include <stdio.h>

/* The layer if everything in it was made; else the model rolled back to `mark`, and NULL. */
static weir_layer *finish(weir_model *m, weir_mark mark, weir_layer *l, bool made)
{
    if (!made)
        return weir_model_undo(m, mark);
    l->scoped = true;
    return l;
}

/* relu(l(x)); what the layer computes dies here, unless a gradient reads it. */
static weir_tensor *relu_of(weir_layer *l, weir_tensor *x)
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
        x = i + 1 < l->n ? relu_of(l->fc[i], x) : weir_apply(l->fc[i], x);
    return x;
}

weir_layer *weir_mlp_new(weir_model *m, int n, const int64_t *widths)
{
    const weir_mark mark = weir_model_mark(m);

    if (n < 2 || !widths) {
        weir_fail(WEIR_ERR_INVALID, "mlp: %d widths, needs an input and an output width", n);
        return NULL;
    }
    const size_t count = (size_t)n - 1;
    mlp         *l = weir_layer_new(m, sizeof *l + count * sizeof l->fc[0], mlp_apply);
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
    return finish(m, mark, &l->base, made);
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
    x = half(relu_of(l->conv1, x));
    x = half(relu_of(l->conv2, x));
    x = relu_of(l->fc1, weir_flatten(x));
    return weir_apply(l->fc2, x);
}

weir_layer *weir_lenet_new(weir_model *m, int64_t classes)
{
    const weir_mark mark = weir_model_mark(m);
    lenet          *l = weir_layer_new(m, sizeof *l, lenet_apply);
    if (!l)
        return NULL;
    const bool made = (l->conv1 = weir_conv2d_new(m, "conv1", 1, 20, 5, NULL, true)) &&
                      (l->conv2 = weir_conv2d_new(m, "conv2", 20, 50, 5, NULL, true)) &&
                      (l->fc1 = weir_linear_new(m, "fc1", 50 * 4 * 4, 500, true)) &&
                      (l->fc2 = weir_linear_new(m, "fc2", 500, classes, true));
    return finish(m, mark, &l->base, made);
}

/* ---- a convolution without bias and its batch norm ---- */

typedef struct conv_bn {
    weir_layer *conv, *bn;
} conv_bn;

static weir_tensor *conv_bn_apply(const conv_bn *l, weir_tensor *x)
{
    return weir_apply(l->bn, weir_apply(l->conv, x));
}

static weir_tensor *conv_bn_relu(const conv_bn *l, weir_tensor *x)
{
    return weir_unit_begin(x) ? weir_unit_end(x, weir_relu(conv_bn_apply(l, x))) : NULL;
}

/* "Same" padding for odd kernels; names PREFIX.conv and PREFIX.bn. */
static bool conv_bn_new(weir_model *m, const char *prefix, const char *conv, const char *bn,
                        const int64_t size[2], int64_t kernel, int64_t stride, conv_bn *out)
{
    const weir_conv2d_options options = {
        .stride = {stride, stride}, .pad = {kernel / 2, kernel / 2}, .groups = 1};
    char name[WEIR_NAME_ROOM];

    if (weir_name_join(name, prefix, conv) != WEIR_OK)
        return false;
    out->conv = weir_conv2d_new(m, name, size[0], size[1], kernel, &options, false);
    if (!out->conv || weir_name_join(name, prefix, bn) != WEIR_OK)
        return false;
    out->bn = weir_batch_norm_new(m, name, size[1]);
    return out->bn != NULL;
}

/* ---- the digits CNN ---- */

typedef struct digits_cnn {
    weir_layer  base;
    conv_bn     first, second;
    weir_layer *drop, *fc;
} digits_cnn;

/* (n,1,8,8) -> (n,32,8,8) -> (n,64,8,8) -> (n,64,4,4) -> (n,classes) */
static weir_tensor *digits_cnn_apply(const weir_layer *base, weir_tensor *x)
{
    const digits_cnn *l = (const digits_cnn *)base;
    x = conv_bn_relu(&l->first, x);
    x = conv_bn_relu(&l->second, x);
    x = weir_apply(l->drop, weir_flatten(half(x)));
    return weir_apply(l->fc, x);
}

weir_layer *weir_digits_cnn_new(weir_model *m, int64_t classes)
{
    const weir_mark mark = weir_model_mark(m);
    digits_cnn     *l = weir_layer_new(m, sizeof *l, digits_cnn_apply);
    if (!l)
        return NULL;
    const bool made =
        conv_bn_new(m, NULL, "conv1", "bn1", (const int64_t[]){1, 32}, 3, 1, &l->first) &&
        conv_bn_new(m, NULL, "conv2", "bn2", (const int64_t[]){32, 64}, 3, 1, &l->second) &&
        (l->drop = weir_dropout_new(m, 0.25)) &&
        (l->fc = weir_linear_new(m, "fc", 64 * 4 * 4, classes, true));
    return finish(m, mark, &l->base, made);
}

/* ---- ResNet ---- */

/* y = relu(f(x) + shortcut(x)), f of two or three convolutions with batch norm, ReLU between. */
typedef struct block {
    weir_layer base;
    int        n;
    conv_bn    part[3];
    bool       project;         /* the shortcut is a 1x1 convolution, not x itself */
    conv_bn    shortcut;
} block;

static weir_tensor *block_apply(const weir_layer *base, weir_tensor *x)
{
    const block *l = (const block *)base;
    weir_tensor *y = x;
    for (int i = 0; i + 1 < l->n; i++)
        y = conv_bn_relu(&l->part[i], y);
    y = conv_bn_apply(&l->part[l->n - 1], y);
    return weir_relu(weir_add(y, l->project ? conv_bn_apply(&l->shortcut, x) : x));
}

/* What a stage needs to know: channels in and inside, stride, and the form of its blocks. */
typedef struct shape {
    int64_t in, width, stride;
    bool    bottleneck;
} shape;

static int64_t width_out(const shape *s)
{
    return s->bottleneck ? 4 * s->width : s->width;
}

/* 3x3, 3x3 (18 and 34) or 1x1, 3x3, 1x1 (50 and 101). */
static bool block_parts(weir_model *m, const char *name, const shape *s, block *l)
{
    const int64_t w = s->width, out = width_out(s);
    l->n = s->bottleneck ? 3 : 2;
    if (s->bottleneck)
        return conv_bn_new(m, name, "conv1", "bn1", (const int64_t[]){s->in, w}, 1, 1,
                           &l->part[0]) &&
               conv_bn_new(m, name, "conv2", "bn2", (const int64_t[]){w, w}, 3, s->stride,
                           &l->part[1]) &&
               conv_bn_new(m, name, "conv3", "bn3", (const int64_t[]){w, out}, 1, 1, &l->part[2]);
    return conv_bn_new(m, name, "conv1", "bn1", (const int64_t[]){s->in, w}, 3, s->stride,
                       &l->part[0]) &&
           conv_bn_new(m, name, "conv2", "bn2", (const int64_t[]){w, out}, 3, 1, &l->part[1]);
}

static weir_layer *block_new(weir_model *m, const char *name, const shape *s)
{
    block *l = weir_layer_new(m, sizeof *l, block_apply);
    if (!l || !block_parts(m, name, s, l))
        return NULL;
    l->project = s->stride != 1 || s->in != width_out(s);
    if (l->project && !conv_bn_new(m, name, "downsample.0", "downsample.1",
                                   (const int64_t[]){s->in, width_out(s)}, 1, s->stride,
                                   &l->shortcut))
        return NULL;
    l->base.scoped = true;
    return &l->base;
}

enum { STAGES = 4 };

typedef struct resnet {
    weir_layer  base;
    bool        cifar;
    conv_bn     stem;
    weir_layer *fc;
    int         n;
    weir_layer *block[];
} resnet;

/* 224 px: (n,3,224,224) -> (n,64,56,56) -> blocks -> (n,c,7,7) -> (n,c) -> (n,classes).
 * CIFAR: the stem keeps (n,64,32,32). */
static weir_tensor *resnet_apply(const weir_layer *base, weir_tensor *x)
{
    const resnet *l = (const resnet *)base;
    x = conv_bn_relu(&l->stem, x);
    if (!l->cifar)
        x = weir_max_pool2d(x, &(weir_pool2d_options){
                                   .kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}});
    for (int i = 0; i < l->n; i++)
        x = weir_apply(l->block[i], x);
    return weir_apply(l->fc, weir_flatten(weir_global_avg_pool2d(x)));
}

/* Four stages of widths 64, 128, 256, 512; the first block of the later ones halves the image.
 * Returns the channels that come out, 0 after a failure. */
static int64_t resnet_stages(weir_model *m, resnet *l, const int count[STAGES], bool bottleneck)
{
    shape s = {.in = 64, .width = 64, .bottleneck = bottleneck};

    for (int stage = 0; stage < STAGES; stage++, s.width *= 2) {
        for (int i = 0; i < count[stage]; i++) {
            char name[24];
            snprintf(name, sizeof name, "layer%d.%d", stage + 1, i);
            s.stride = stage > 0 && i == 0 ? 2 : 1;
            if (!(l->block[l->n++] = block_new(m, name, &s)))
                return 0;
            s.in = width_out(&s);
        }
    }
    return s.in;
}

static const struct depth {
    int  depth, count[STAGES];
    bool bottleneck;
} depths[] = {
    {18, {2, 2, 2, 2}, false},
    {34, {3, 4, 6, 3}, false},
    {50, {3, 4, 6, 3}, true},
    {101, {3, 4, 23, 3}, true},
};

static const struct depth *depth_find(int depth)
{
    for (size_t i = 0; i < sizeof depths / sizeof depths[0]; i++)
        if (depths[i].depth == depth)
            return &depths[i];
    weir_fail(WEIR_ERR_INVALID, "resnet: depth %d is none of 18, 34, 50, 101", depth);
    return NULL;
}

weir_layer *weir_resnet_new(weir_model *m, int depth, int64_t classes, bool cifar)
{
    const weir_mark     mark = weir_model_mark(m);
    const struct depth *d = depth_find(depth);
    if (!d)
        return NULL;
    const int blocks = d->count[0] + d->count[1] + d->count[2] + d->count[3];
    resnet   *l = weir_layer_new(m, sizeof *l + (size_t)blocks * sizeof l->block[0], resnet_apply);
    if (!l)
        return NULL;
    l->cifar = cifar;
    int64_t    channels = 0;
    const bool made =
        conv_bn_new(m, NULL, "conv1", "bn1", (const int64_t[]){3, 64}, cifar ? 3 : 7, cifar ? 1 : 2,
                    &l->stem) &&
        (channels = resnet_stages(m, l, d->count, d->bottleneck)) > 0 &&
        (l->fc = weir_linear_new(m, "fc", channels, classes, true));
    return finish(m, mark, &l->base, made);
}
