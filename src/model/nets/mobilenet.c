/* mobilenet.c - MobileNetV2.
 *
 * Sandler et al., "MobileNetV2: inverted residuals and linear bottlenecks", 2018, width 1.
 * Parameter names are those of torchvision. */
#include "model/nets/nets.h"

#include <stdio.h>

/* Of the stages: widening inside a block, channels out, blocks, stride of the first. */
static const struct stage {
    int expand, out, blocks, stride;
} stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
              {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};

enum { STAGES = sizeof stages / sizeof stages[0], BLOCKS = 17, STEM = 32, LAST = 1280 };

/* min(max(f(x), 0), 6) as one unit. */
static weir_tensor *conv_bn_relu6(const weir_conv_bn *l, weir_tensor *x)
{
    return weir_unit_begin(x) ? weir_unit_end(x, weir_relu6(weir_conv_bn_apply(l, x))) : NULL;
}

/* 1x1 that widens (not if it would not), 3x3 on each channel alone, 1x1 that narrows without an
 * activation; x added where the shape stays. */
typedef struct inverted {
    weir_layer   base;
    bool         widens, residual;
    weir_conv_bn widen, depthwise, narrow;
} inverted;

static weir_tensor *inverted_apply(const weir_layer *base, weir_tensor *x)
{
    const inverted *l = (const inverted *)base;
    weir_tensor    *y = l->widens ? conv_bn_relu6(&l->widen, x) : x;
    y = weir_conv_bn_apply(&l->narrow, conv_bn_relu6(&l->depthwise, y));
    return l->residual ? weir_add(y, x) : y;
}

/* Block `at` of the features. torchvision numbers what there is, so names move on by one where
 * nothing widens. */
static weir_layer *inverted_new(weir_model *m, int at, int64_t in, const struct stage *s,
                                int64_t stride)
{
    static const char *const names[] = {"0.0", "0.1", "1.0", "1.1", "2", "3"};
    static const char *const narrow_names[] = {"0.0", "0.1", "1", "2"};
    char                     prefix[32];
    const int64_t            inside = in * s->expand;
    const weir_mark          mark = weir_model_mark(m);

    snprintf(prefix, sizeof prefix, "features.%d.conv", at);
    inverted *l = weir_layer_make(m, sizeof *l, "inverted_residual", prefix, inverted_apply);
    if (!l)
        return NULL;
    l->widens = s->expand != 1;
    l->residual = stride == 1 && in == s->out;

    const char *const *name = l->widens ? names : narrow_names;
    if (l->widens) {
        if (!weir_conv_bn_new(
                m, &(weir_conv_bn_form){prefix, name[0], name[1], in, inside, 1, 1, 1}, &l->widen))
            return weir_model_undo(m, mark);
        name += 2;
    }
    const weir_conv_bn_form depthwise = {prefix, name[0], name[1], inside,
                                         inside, 3,       stride,  inside};
    const weir_conv_bn_form narrow = {prefix, name[2], name[3], inside, s->out, 1, 1, 1};
    const bool              made =
        weir_conv_bn_new(m, &depthwise, &l->depthwise) && weir_conv_bn_new(m, &narrow, &l->narrow);
    return weir_net_finish(m, mark, &l->base, made);
}

typedef struct mobilenet {
    weir_layer   base;
    weir_conv_bn stem, last;
    weir_layer  *block[BLOCKS];
    weir_layer  *drop, *fc;
} mobilenet;

/* 224 px: (n,3,224,224) -> (n,32,112,112) -> blocks -> (n,320,7,7) -> (n,1280,7,7) -> (n,1280) ->
 * (n,classes) */
static weir_tensor *mobilenet_apply(const weir_layer *base, weir_tensor *x)
{
    const mobilenet *l = (const mobilenet *)base;
    x = conv_bn_relu6(&l->stem, x);
    for (int i = 0; i < BLOCKS; i++)
        x = weir_apply(l->block[i], x);
    x = conv_bn_relu6(&l->last, x);
    x = weir_apply(l->drop, weir_flatten(weir_global_avg_pool2d(x)));
    return weir_apply(l->fc, x);
}

/* Returns the channels that come out, 0 after a failure. */
static int64_t mobilenet_blocks(weir_model *m, mobilenet *l)
{
    int64_t in = STEM;
    int     n = 0;

    for (const struct stage *s = stages; s < stages + STAGES; s++)
        for (int i = 0; i < s->blocks; i++, n++, in = s->out)
            if (!(l->block[n] = inverted_new(m, n + 1, in, s, i == 0 ? s->stride : 1)))
                return 0;
    return in;
}

weir_layer *weir_mobilenet_v2_new(weir_model *m, int64_t classes)
{
    const weir_mark mark = weir_model_mark(m);
    mobilenet      *l = weir_layer_make(m, sizeof *l, "mobilenet", NULL, mobilenet_apply);
    if (!l)
        return NULL;
    const weir_conv_bn_form stem = {"features.0", "0", "1", 3, STEM, 3, 2, 1};
    weir_conv_bn_form       last = {"features.18", "0", "1", 0, LAST, 1, 1, 1};
    const bool              made =
        weir_conv_bn_new(m, &stem, &l->stem) && (last.in = mobilenet_blocks(m, l)) > 0 &&
        weir_conv_bn_new(m, &last, &l->last) && (l->drop = weir_dropout_new(m, 0.2)) &&
        (l->fc = weir_linear_new(m, "classifier.1", LAST, classes, true));
    return weir_net_finish(m, mark, &l->base, made);
}
