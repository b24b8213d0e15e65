/* nets.h - what the networks share: a layer with ReLU, a convolution with batch norm, the end of a
 * constructor.
 *
 * Every unit has a scope of its own, so that with the graph off its intermediate results are freed
 * at its end, unless a gradient reads them. */
#ifndef WEIR_MODEL_NETS_NETS_H
#define WEIR_MODEL_NETS_NETS_H

#include "model/model.h"

/* Returns the layer if `made`, with the layers made since `mark` as its parts; else rolls the model
 * back to `mark` and returns NULL. */
weir_layer *weir_net_finish(weir_model *m, weir_mark mark, weir_layer *l, bool made);

/* relu(l(x)) as one unit. */
weir_tensor *weir_net_relu(weir_layer *l, weir_tensor *x);

/* A convolution without bias and its batch norm. */
typedef struct weir_conv_bn {
    weir_layer *conv, *bn;
} weir_conv_bn;

/* "Same" padding for odd kernels; names PREFIX.CONV and PREFIX.BN, without the point if prefix is
 * NULL. */
typedef struct weir_conv_bn_form {
    const char *prefix, *conv, *bn;
    int64_t     in, out, kernel, stride, groups;
} weir_conv_bn_form;

bool         weir_conv_bn_new(weir_model *m, const weir_conv_bn_form *f, weir_conv_bn *out);
weir_tensor *weir_conv_bn_apply(const weir_conv_bn *l, weir_tensor *x);
weir_tensor *weir_conv_bn_relu(const weir_conv_bn *l, weir_tensor *x);     /* as one unit */

#endif
