/* resnet.c - ResNet 18, 34, 50 and 101, and the ones of any depth for small images.
 *
 * He et al., "Deep residual learning for image recognition", 2016, as v1.5: a bottleneck strides in
 * its 3x3 convolution. Parameter names are those of torchvision. Where channels double the shortcut
 * is a 1x1 convolution, in the ones for small images, too (the paper's option B). */
#include "model/nets/nets.h"

#include <stdio.h>

/* y = relu(f(x) + shortcut(x)), f of two or three convolutions with batch norm, ReLU between. */
typedef struct block {
    weir_layer   base;
    int          n;
    weir_conv_bn part[3];
    bool         project; /* the shortcut is a 1x1 convolution, not x itself */
    weir_conv_bn shortcut;
} block;

static weir_tensor *block_apply(const weir_layer *base, weir_tensor *x)
{
    const block *l = (const block *)base;
    weir_tensor *y = x;
    for (int i = 0; i + 1 < l->n; i++)
        y = weir_conv_bn_relu(&l->part[i], y);
    y = weir_conv_bn_apply(&l->part[l->n - 1], y);
    return weir_relu(weir_add(y, l->project ? weir_conv_bn_apply(&l->shortcut, x) : x));
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
    static const char *const names[][2] = {{"conv1", "bn1"}, {"conv2", "bn2"}, {"conv3", "bn3"}};
    const int                middle = s->bottleneck ? 1 : 0;
    int64_t                  in = s->in;

    l->n = s->bottleneck ? 3 : 2;
    for (int i = 0; i < l->n; i++) {
        const weir_conv_bn_form form = {.prefix = name,
                                        .conv = names[i][0],
                                        .bn = names[i][1],
                                        .in = in,
                                        .out = i + 1 < l->n ? s->width : width_out(s),
                                        .kernel = s->bottleneck && i != middle ? 1 : 3,
                                        .stride = i == middle ? s->stride : 1,
                                        .groups = 1};
        if (!weir_conv_bn_new(m, &form, &l->part[i]))
            return false;
        in = form.out;
    }
    return true;
}

static weir_layer *block_new(weir_model *m, const char *name, const shape *s)
{
    const weir_mark mark = weir_model_mark(m);
    block          *l = weir_layer_make(m, sizeof *l, s->bottleneck ? "bottleneck" : "basic_block",
                                        name, block_apply);
    if (!l || !block_parts(m, name, s, l))
        return weir_model_undo(m, mark);
    l->project = s->stride != 1 || s->in != width_out(s);
    const weir_conv_bn_form form = {
        name, "downsample.0", "downsample.1", s->in, width_out(s), 1, s->stride, 1};
    return weir_net_finish(m, mark, &l->base,
                           !l->project || weir_conv_bn_new(m, &form, &l->shortcut));
}

enum { STAGES = 4 };

typedef struct resnet {
    weir_layer   base;
    bool         cifar;
    weir_conv_bn stem;
    weir_layer  *fc;
    int          n;
    weir_layer  *block[];
} resnet;

/* 224 px: (n,3,224,224) -> (n,64,56,56) -> blocks -> (n,c,7,7) -> (n,c) -> (n,classes).
 * CIFAR: the stem keeps (n,64,32,32). */
static weir_tensor *resnet_apply(const weir_layer *base, weir_tensor *x)
{
    const resnet *l = (const resnet *)base;
    x = weir_conv_bn_relu(&l->stem, x);
    if (!l->cifar)
        x = weir_max_pool2d(
            x, &(weir_pool2d_options){.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}});
    for (int i = 0; i < l->n; i++)
        x = weir_apply(l->block[i], x);
    return weir_apply(l->fc, weir_flatten(weir_global_avg_pool2d(x)));
}

/* Up to four stages, each of twice the width; the first block of the later ones halves the image.
 * Returns the channels that come out, 0 after a failure. */
static int64_t resnet_stages(weir_model *m, resnet *l, const int count[STAGES], int64_t width,
                             bool bottleneck)
{
    shape s = {.in = width, .width = width, .bottleneck = bottleneck};

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
    weir_fail(WEIR_ERR_INVALID, "resnet: unknown depth %d (expected 18, 34, 50 or 101)", depth);
    return NULL;
}

/* count[i] blocks in stage i; cifar: a stem for small images. */
static weir_layer *resnet_new(weir_model *m, const int count[STAGES], int64_t width,
                              bool bottleneck, int64_t classes, bool cifar)
{
    const weir_mark mark = weir_model_mark(m);
    const size_t    blocks = (size_t)count[0] + (size_t)count[1] + (size_t)count[2] +
                          (size_t)count[3];
    resnet *l = weir_layer_make(m, sizeof *l + blocks * sizeof l->block[0], "resnet", NULL,
                                resnet_apply);
    if (!l)
        return NULL;
    l->cifar = cifar;
    const weir_conv_bn_form stem = {NULL,          "conv1",       "bn1", 3, width,
                                    cifar ? 3 : 7, cifar ? 1 : 2, 1};
    int64_t                 channels = 0;
    const bool              made = weir_conv_bn_new(m, &stem, &l->stem) &&
                      (channels = resnet_stages(m, l, count, width, bottleneck)) > 0 &&
                      (l->fc = weir_linear_new(m, "fc", channels, classes, true));
    return weir_net_finish(m, mark, &l->base, made);
}

weir_layer *weir_resnet_new(weir_model *m, int depth, int64_t classes, bool cifar)
{
    const struct depth *d = depth_find(depth);

    return d ? resnet_new(m, d->count, 64, d->bottleneck, classes, cifar) : NULL;
}

weir_layer *weir_resnet_cifar_new(weir_model *m, int depth, int64_t classes)
{
    enum { MOST_DEPTH = 6 * 100000 + 2 };
    const int blocks = (depth - 2) / 6;

    if (depth < 8 || depth > MOST_DEPTH || depth % 6 != 2) {
        weir_fail(WEIR_ERR_INVALID,
                  "resnet_cifar: unknown depth %d (expected 6 k + 2 for a k of 1 to 100000)",
                  depth);
        return NULL;
    }
    return resnet_new(m, (const int[STAGES]){blocks, blocks, blocks, 0}, 16, false, classes, true);
}
