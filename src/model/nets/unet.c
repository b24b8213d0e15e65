/* unet.c - U-Net: an image in, a class for each of its pixels out.
 *
 * Ronneberger et al., "U-Net: convolutional networks for biomedical image segmentation", 2015, with
 * batch norm and padded convolutions, so that images keep their size. Going down, four levels halve
 * the image and double the channels; going up, each level joins what its twin on the way down
 * made. */
#include "model/nets/nets.h"

#include <stdio.h>

enum { LEVELS = 4 };

/* Two 3x3 convolutions, each with batch norm and ReLU. */
typedef struct twice {
    weir_conv_bn first, second;
} twice;

static bool twice_new(weir_model *m, const char *name, int64_t in, int64_t out, twice *l)
{
    return weir_conv_bn_new(m, &(weir_conv_bn_form){name, "conv1", "bn1", in, out, 3, 1, 1},
                            &l->first) &&
           weir_conv_bn_new(m, &(weir_conv_bn_form){name, "conv2", "bn2", out, out, 3, 1, 1},
                            &l->second);
}

/* (n,c,h,w) -> (n,c/2,2h,2w): a transposed convolution, or the nearest neighbour and a 3x3
 * convolution. */
typedef struct rise {
    weir_layer *layer;
    bool        upsample; /* before the layer */
} rise;

static weir_tensor *rise_apply(const rise *l, weir_tensor *x)
{
    if (!l->upsample)
        return weir_apply(l->layer, x);
    return weir_unit_begin(x) ? weir_unit_end(x, weir_apply(l->layer, weir_upsample(x, 2, 2)))
                              : NULL;
}

static bool rise_new(weir_model *m, const char *name, int64_t c, bool upsample, rise *l)
{
    l->upsample = upsample;
    l->layer = upsample ? weir_conv2d_new(m, name, c, c / 2, 3,
                                          &(weir_conv2d_options){.pad = {1, 1}, .groups = 1}, true)
                        : weir_conv_transpose2d_new(
                              m, name, c, c / 2, 2,
                              &(weir_conv_transpose2d_options){.stride = {2, 2}}, true);
    return l->layer != NULL;
}

typedef struct unet {
    weir_layer  base;
    twice       down[LEVELS + 1]; /* the last one is the bottom */
    rise        rise[LEVELS];     /* of the level it leads to, as are these: */
    twice       up[LEVELS];
    weir_layer *out;
} unet;

/* Both convolutions of a level, named "down0" or "up0" in texts about the graph. */
static weir_tensor *twice_apply(const unet *l, const char *way, int level, weir_tensor *x)
{
    const twice *const both = *way == 'd' ? &l->down[level] : &l->up[level];
    char               part[24], name[WEIR_NAME_MAX];
    const char        *outer;

    snprintf(part, sizeof part, "%s%d", way, level);
    if (!x || weir_name_join(name, l->base.name, part) != WEIR_OK ||
        weir_inside_begin(l->base.model, name, &outer) != WEIR_OK)
        return NULL;
    x = weir_conv_bn_relu(&both->second, weir_conv_bn_relu(&both->first, x));
    return weir_inside_end(l->base.model, outer) == WEIR_OK ? x : NULL;
}

static weir_tensor *join(weir_tensor *a, weir_tensor *b)
{
    return a && b ? weir_concat(2, (weir_tensor *const[]){a, b}, 1) : NULL;
}

/* One level up, as one unit; skip is the result of the same level on the way down. */
static weir_tensor *up_apply(const unet *l, int level, weir_tensor *skip, weir_tensor *x)
{
    if (!weir_unit_begin(x))
        return NULL;
    x = join(skip, rise_apply(&l->rise[level], x));
    return weir_unit_end(skip, twice_apply(l, "up", level, x));
}

/* (n,in,h,w) -> (n,c,h,w) -> (n,2c,h/2,w/2) ... (n,16c,h/16,w/16) ... -> (n,c,h,w) ->
 * (n,classes,h,w) */
static weir_tensor *unet_apply(const weir_layer *base, weir_tensor *x)
{
    const unet     *l = (const unet *)base;
    const weir_desc in = weir_tensor_desc(x);
    weir_tensor    *skip[LEVELS];

    if (in.ndim == 4 && (in.dim[2] % (1 << LEVELS) || in.dim[3] % (1 << LEVELS))) {
        weir_fail(WEIR_ERR_SHAPE, "unet: height %lld and width %lld must be multiples of %d",
                  (long long)in.dim[2], (long long)in.dim[3], 1 << LEVELS);
        return NULL;
    }
    for (int i = 0; i < LEVELS; i++) {
        skip[i] = twice_apply(l, "down", i, x);
        x = weir_max_pool2d(skip[i], &(weir_pool2d_options){.kernel = {2, 2}});
    }
    x = twice_apply(l, "down", LEVELS, x);
    for (int i = LEVELS - 1; i >= 0; i--)
        x = up_apply(l, i, skip[i], x);
    return weir_apply(l->out, x);
}

/* The levels of both ways; w is the width of the level, twice that of the one above. */
static bool unet_levels(weir_model *m, unet *l, int64_t in, int64_t width, bool upsample)
{
    char    name[24];
    int64_t w = width;

    for (int i = 0; i <= LEVELS; i++, in = w, w *= 2) {
        snprintf(name, sizeof name, "down%d", i);
        if (!twice_new(m, name, in, w, &l->down[i]))
            return false;
    }
    w = width << (LEVELS - 1);
    for (int i = LEVELS - 1; i >= 0; i--, w /= 2) {
        snprintf(name, sizeof name, "rise%d", i);
        if (!rise_new(m, name, 2 * w, upsample, &l->rise[i]))
            return false;
        snprintf(name, sizeof name, "up%d", i);
        if (!twice_new(m, name, 2 * w, w, &l->up[i]))
            return false;
    }
    return true;
}

weir_layer *weir_unet_new(weir_model *m, int64_t channels, int64_t classes, int64_t width,
                          bool upsample)
{
    enum { WIDEST = 1 << 12 };
    const weir_mark mark = weir_model_mark(m);

    if (width < 1 || width > WIDEST) {
        weir_fail(WEIR_ERR_INVALID, "unet: width is %lld but must be from 1 to %d",
                                    (long long)width,
                  WIDEST);
        return NULL;
    }
    unet *l = weir_layer_make(m, sizeof *l, "unet", NULL, unet_apply);
    if (!l)
        return NULL;
    const bool made = unet_levels(m, l, channels, width, upsample) &&
                      (l->out = weir_conv2d_new(m, "out", width, classes, 1, NULL, true));
    return weir_net_finish(m, mark, &l->base, made);
}
