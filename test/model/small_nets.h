/* small_nets.h - small forms of networks for tests of many; the including file defines CLASSES. */
#ifndef WEIR_TEST_MODEL_SMALL_NETS_H
#define WEIR_TEST_MODEL_SMALL_NETS_H

#include "weir.h"

static inline weir_layer *make_mobilenet(weir_model *m, int64_t px)
{
    (void)px;
    return weir_mobilenet_v2_new(m, CLASSES);
}

static inline weir_layer *make_densenet(weir_model *m, int64_t px)
{
    (void)px;
    return weir_densenet121_new(m, CLASSES);
}

static inline weir_layer *make_unet_upsample(weir_model *m, int64_t px)
{
    (void)px;
    return weir_unet_new(m, 3, CLASSES, 4, true);
}

static inline weir_layer *make_gpt(weir_model *m, int64_t px)
{
    return weir_gpt_new(m, CLASSES, px, 24, 3, 2);
}

static inline weir_layer *make_lstm(weir_model *m, int64_t px)
{
    (void)px;
    return weir_char_lstm_new(m, CLASSES, 24, 2);
}

/* The logits with one row for each label: those of pixels are (n,classes,h,w). */
static inline weir_tensor *rows_of(weir_tensor *logits, bool pixels)
{
    if (!pixels || !logits)
        return logits;
    return weir_reshape(weir_transpose(logits, (const int[]){0, 2, 3, 1}), 2,
                        (const int64_t[]){-1, CLASSES});
}

#endif
