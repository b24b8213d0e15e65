/* vgg.c - VGG-16.
 *
 * Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition",
 * 2015, configuration D without batch norm. Parameter names are those of torchvision. */
#include "model/nets/nets.h"

#include <stdio.h>

enum { CONVS = 13, HALVINGS = 5, DEEPEST = 512, HIDDEN = 4096 };

/* Channels of the convolutions in their order; 0: the image is halved. */
static const int64_t features[CONVS + HALVINGS] = {64, 64,  0,   128, 128, 0,   256, 256, 256,
                                                   0,  512, 512, 512, 0,   512, 512, 512, 0};

typedef struct vgg {
    weir_layer  base;
    weir_layer *conv[CONVS];
    weir_layer *fc1, *drop1, *fc2, *drop2, *fc3;
} vgg;

/* 224 px: (n,3,224,224) -> (n,64,112,112) -> ... -> (n,512,7,7) -> (n,4096) -> (n,classes) */
static weir_tensor *vgg_apply(const weir_layer *base, weir_tensor *x)
{
    const vgg *l = (const vgg *)base;
    int        conv = 0;

    for (int i = 0; i < CONVS + HALVINGS; i++)
        x = features[i] ? weir_net_relu(l->conv[conv++], x)
                        : weir_max_pool2d(x, &(weir_pool2d_options){.kernel = {2, 2}});
    x = weir_apply(l->drop1, weir_net_relu(l->fc1, weir_flatten(x)));
    x = weir_apply(l->drop2, weir_net_relu(l->fc2, x));
    return weir_apply(l->fc3, x);
}

/* torchvision counts a convolution and its ReLU as two features. */
static bool vgg_features(weir_model *m, vgg *l)
{
    const weir_conv2d_options same = {.pad = {1, 1}, .groups = 1};
    int64_t                   in = 3;

    for (int i = 0, conv = 0, at = 0; i < CONVS + HALVINGS; i++) {
        char name[24];
        snprintf(name, sizeof name, "features.%d", at);
        at += features[i] ? 2 : 1;
        if (!features[i])
            continue;
        if (!(l->conv[conv++] = weir_conv2d_new(m, name, in, features[i], 3, &same, true)))
            return false;
        in = features[i];
    }
    return true;
}

weir_layer *weir_vgg16_new(weir_model *m, int64_t classes, int64_t image)
{
    enum { SHRINK = 1 << HALVINGS, LARGEST = 1 << 14 };
    const weir_mark mark = weir_model_mark(m);

    if (image < SHRINK || image > LARGEST || image % SHRINK) {
        weir_fail(WEIR_ERR_INVALID,
                  "vgg16: image size is %lld but must be a multiple of %d from %d to %d",
                  (long long)image, SHRINK, SHRINK, LARGEST);
        return NULL;
    }
    vgg *l = weir_layer_make(m, sizeof *l, "vgg", NULL, vgg_apply);
    if (!l)
        return NULL;
    const int64_t side = image / SHRINK;
    const bool    made =
        vgg_features(m, l) &&
        (l->fc1 = weir_linear_new(m, "classifier.0", DEEPEST * side * side, HIDDEN, true)) &&
        (l->drop1 = weir_dropout_new(m, 0.5)) &&
        (l->fc2 = weir_linear_new(m, "classifier.3", HIDDEN, HIDDEN, true)) &&
        (l->drop2 = weir_dropout_new(m, 0.5)) &&
        (l->fc3 = weir_linear_new(m, "classifier.6", HIDDEN, classes, true));
    return weir_net_finish(m, mark, &l->base, made);
}
