/* model.h - layers, models, optimisers: parameters with names, and the networks of the examples.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A model owns its layers, their parameters and states; a layer is borrowed from its model. All of
 * it is written in terms of the other public headers, so a program can do the same. */
#ifndef WEIR_MODEL_PUBLIC_H
#define WEIR_MODEL_PUBLIC_H

#include "weir/base.h"
#include "weir/device.h"
#include "weir/graph.h"
#include "weir/op.h"
#include "weir/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_model weir_model;
typedef struct weir_layer weir_layer;
typedef struct weir_optim weir_optim;
typedef struct weir_scaler weir_scaler;

/* You own the model: weir_model_free frees its layers, parameters and states (retained ones live
 * on). */
WEIR_API weir_model *weir_model_new(weir_device *d);
WEIR_API void        weir_model_free(weir_model *m);

/* Training (default) or evaluation, in which batch norm and dropout differ; for later calls. */
WEIR_API void weir_model_train(weir_model *m, bool on);
WEIR_API bool weir_model_training(const weir_model *m);

/* Parameters and states in the order they were made; tensors are borrowed. */
WEIR_API size_t       weir_model_param_count(const weir_model *m);
WEIR_API weir_tensor *weir_model_param(const weir_model *m, size_t i);
WEIR_API size_t       weir_model_state_count(const weir_model *m);
WEIR_API weir_tensor *weir_model_state(const weir_model *m, size_t i);

/* Layers; names (copied) prefix their parameters' ("fc1.weight"). Weights start He-normal (He et
 * al. 2015, fan in, gain for ReLU) for conv2d and uniform in +-1/sqrt(fan in) for linear, drawn
 * from the device's stream; biases start at 0. NULL after a mistake. */
WEIR_API weir_layer *weir_linear_new(weir_model *m, const char *name, int64_t in, int64_t out,
                                     bool bias);
WEIR_API weir_layer *weir_conv2d_new(weir_model *m, const char *name, int64_t in, int64_t out,
                                     int64_t kernel, const weir_conv2d_options *options, bool bias);
WEIR_API weir_layer *weir_batch_norm_new(weir_model *m, const char *name, int64_t channels);

/* Transposed: weights start normal with variance 1 / (in / groups * kernel^2 / stride^2), the
 * number of terms of an output element; no gain for ReLU. */
WEIR_API weir_layer *weir_conv_transpose2d_new(weir_model *m, const char *name, int64_t in,
                                               int64_t out, int64_t kernel,
                                               const weir_conv_transpose2d_options *options,
                                               bool bias);

/* Over the last axis of size width; over groups of channels; scales start at 1, biases at 0. */
WEIR_API weir_layer *weir_layer_norm_new(weir_model *m, const char *name, int64_t width);
WEIR_API weir_layer *weir_rms_norm_new(weir_model *m, const char *name, int64_t width);
WEIR_API weir_layer *weir_group_norm_new(weir_model *m, const char *name, int64_t groups,
                                         int64_t channels);

/* Token numbers (...) in i32 or i64 -> (..., width): rows of a table (rows, width) of the float
 * type dtype that starts normal with the deviation; 0 means 1. Optimisers update tables in f32 and
 * f64 only. */
WEIR_API weir_layer *weir_embedding_new(weir_model *m, const char *name, int64_t rows,
                                        int64_t width, weir_dtype dtype, double deviation);

/* x (steps, n, in) -> (steps, n, hidden), or 2 * hidden if bidirectional; see weir_lstm. */
WEIR_API weir_layer *weir_lstm_new(weir_model *m, const char *name, int64_t in, int64_t hidden,
                                   int layers, bool bidirectional);
WEIR_API weir_layer *weir_gru_new(weir_model *m, const char *name, int64_t in, int64_t hidden,
                                  int layers, bool bidirectional);

/* Dropout with probability p while the model trains, the identity otherwise; see weir_dropout. */
WEIR_API weir_layer *weir_dropout_new(weir_model *m, double p);

/* The layer's function of x: recorded or computed. Borrowed result. */
WEIR_API weir_tensor *weir_apply(weir_layer *l, weir_tensor *x);

/* Whole networks as layers that return logits. Each closes its own scope: only the result (and the
 * tape) stays alive. */

/* n widths: input, hidden ..., output; ReLU between. */
WEIR_API weir_layer *weir_mlp_new(weir_model *m, int n, const int64_t *widths);

/* x (n,1,28,28); 20 and 50 channels, 500 hidden. */
WEIR_API weir_layer *weir_lenet_new(weir_model *m, int64_t classes);

/* x (n,1,8,8); batch norm, dropout. */
WEIR_API weir_layer *weir_digits_cnn_new(weir_model *m, int64_t classes);

/* depth 18, 34, 50 or 101; x (n,3,h,w); cifar: the stem for small images. */
WEIR_API weir_layer *weir_resnet_new(weir_model *m, int depth, int64_t classes, bool cifar);

/* The networks for small images: depth 6 k + 2 (20, 56, 110, 1202), three stages of 16, 32 and 64
 * channels. */
WEIR_API weir_layer *weir_resnet_cifar_new(weir_model *m, int depth, int64_t classes);

/* x (n,3,image,image), image a multiple of 32; two hidden layers of 4096 with dropout 0.5. */
WEIR_API weir_layer *weir_vgg16_new(weir_model *m, int64_t classes, int64_t image);

/* x (n,3,h,w); inverted residuals, ReLU6, dropout 0.2. */
WEIR_API weir_layer *weir_mobilenet_v2_new(weir_model *m, int64_t classes);

/* x (n,3,h,w), h and w at least 29. */
WEIR_API weir_layer *weir_densenet121_new(weir_model *m, int64_t classes);

/* x (n,channels,h,w), h and w multiples of 16 -> (n,classes,h,w): a class for each pixel. width:
 * channels of the first level (64 in the paper); upsample: nearest neighbour and a convolution on
 * the way up in place of transposed convolutions. */
WEIR_API weir_layer *weir_unet_new(weir_model *m, int64_t channels, int64_t classes, int64_t width,
                                   bool upsample);

/* Text: token numbers x (n,t), i32 or i64 below vocab -> logits (n*t,vocab) of the token that comes
 * next, row i*t + s for position s of sequence i. */

/* A transformer decoder, layer norm first: t at most context, heads divide width. */
WEIR_API weir_layer *weir_gpt_new(weir_model *m, int64_t vocab, int64_t context, int64_t width,
                                  int64_t heads, int layers);

/* An embedding, LSTM layers that start from zero states, a linear layer; any t. */
WEIR_API weir_layer *weir_char_lstm_new(weir_model *m, int64_t vocab, int64_t width, int layers);

/* How the leaves of a tree are joined: neighbours pair by pair, random neighbours (the same in each
 * run), or one after another from the left, which is an LSTM over steps. */
typedef enum weir_tree { WEIR_TREE_BALANCED, WEIR_TREE_RANDOM, WEIR_TREE_CHAIN } weir_tree;

/* A binary tree-LSTM over tokens x (n,leaves) below vocab: logits (n,classes) of the whole tree. */
WEIR_API weir_layer *weir_tree_lstm_new(weir_model *m, int64_t vocab, int64_t width,
                                        int64_t classes, int64_t leaves, weir_tree shape);

/* Optimisers own their state and keep the parameters they updated alive. Their rate is a tensor, so
 * it can change between runs of a graph. */
WEIR_API weir_optim *weir_sgd_new(weir_device *d, double lr, const weir_sgd_options *options);
WEIR_API weir_optim *weir_adam_new(weir_device *d, double lr, const weir_adam_options *options);
WEIR_API weir_optim *weir_adamw_new(weir_device *d, double lr, const weir_adam_options *options);

/* lr_decay: step n (from 1) has the rate lr / (1 + (n - 1) lr_decay); sums of squares start at
 * initial_accumulator. */
WEIR_API weir_optim *weir_adagrad_new(weir_device *d, double lr,
                                      const weir_adagrad_options *options);
WEIR_API weir_optim *weir_rmsprop_new(weir_device *d, double lr,
                                      const weir_rmsprop_options *options);
WEIR_API weir_status weir_optim_set_lr(weir_optim *o, double lr);

/* The rate that parameters of this type (f32, f64) read, a borrowed scalar: for schedules inside a
 * graph (weir_lr_cosine and its like). */
WEIR_API weir_tensor *weir_optim_lr(weir_optim *o, weir_dtype dtype);
WEIR_API void        weir_optim_free(weir_optim *o);

/* weir_minimize and weir_optim_apply clip gradients by weir_clip_value and then weir_clip_norm; for
 * later calls. 0, the default: no clipping. */
WEIR_API weir_status weir_optim_set_clip_norm(weir_optim *o, double limit);
WEIR_API weir_status weir_optim_set_clip_value(weir_optim *o, double limit);

/* weir_minimize, weir_optim_accumulate and weir_optim_apply scale losses and gradients by s, skip
 * steps whose gradients are not finite, and adjust s; for later calls. s is borrowed: it must
 * outlive o. NULL, the default: no scale. */
WEIR_API weir_status weir_optim_set_scaler(weir_optim *o, weir_scaler *s);

/* State tensors (momentum buffers, moments) made so far; borrowed. */
WEIR_API size_t       weir_optim_state_count(const weir_optim *o);
WEIR_API weir_tensor *weir_optim_state(const weir_optim *o, size_t i);

/* Takes the gradients of the scalar loss and updates every trainable tensor it depends on once. The
 * first call for a parameter makes its state tensors. */
WEIR_API weir_status weir_minimize(weir_optim *o, weir_tensor *loss);

/* The second half of weir_minimize, for gradients that the program has changed (weir_clip_norm):
 * one update for each of the n pairs. */
WEIR_API weir_status weir_optim_update(weir_optim *o, const weir_pair *pairs, size_t n);

/* The same if the condition, a scalar bool, is true when the update runs; else parameters, states
 * and the number of steps do not change. */
WEIR_API weir_status weir_optim_update_if(weir_optim *o, weir_tensor *condition,
                                          const weir_pair *pairs, size_t n);

/* weir_minimize in two parts, for micro-batches: accumulate adds the gradients of a loss to buffers
 * (states), apply updates every parameter that has one with the sum and zeroes it. Scale the losses
 * by 1 / their number for a mean. Each part may be a graph that runs any number of times. */
WEIR_API weir_status weir_optim_accumulate(weir_optim *o, weir_tensor *loss);
WEIR_API weir_status weir_optim_apply(weir_optim *o);

/* ---- mixed precision: f32 parameters, products in half ---- */

/* Runs the model's layers inside weir_autocast_begin(half): WEIR_BF16 or WEIR_F16; WEIR_F32, the
 * default: without autocast. Parameters stay f32. weir_apply returns f32, unless the program calls
 * it inside its own autocast scope, whose type then applies. For later calls. */
WEIR_API weir_status weir_model_set_precision(weir_model *m, weir_dtype half);
WEIR_API weir_dtype  weir_model_precision(const weir_model *m);

/* The loss is multiplied by a scale, so that gradients in f16 do not vanish; the gradients are then
 * divided by it. After `interval` steps in a row with finite gradients the scale is multiplied by
 * growth. A step whose gradients are not finite updates nothing and multiplies the scale by
 * backoff. 0 means scale 65536, growth 2, backoff 0.5, interval 2000. fixed: the scale never
 * changes. All of it happens on the device: a graph never waits for the host. bf16 has the range of
 * f32 and needs no scale. */
typedef struct weir_scaler_options {
    double  scale, growth, backoff;
    int64_t interval;
    bool    fixed;
} weir_scaler_options;

/* You own it: weir_scaler_free, after the optimisers that use it (weir_optim_set_scaler). */
WEIR_API weir_scaler *weir_scaler_new(weir_device *d, const weir_scaler_options *options);
WEIR_API void         weir_scaler_free(weir_scaler *s);

/* Its states, borrowed: 0 the scale (f32), 1 finite steps in a row (f32), 2 skipped steps so far
 * (f64). Save them with the parameters; they may be written. */
WEIR_API size_t       weir_scaler_state_count(const weir_scaler *s);
WEIR_API weir_tensor *weir_scaler_state(const weir_scaler *s, size_t i);

/* The parts of a step, for a program that acts between them: scale multiplies the loss; unscale
 * does weir_unscale; adjust, called after weir_optim_update_if(finite), sets the next scale. */
WEIR_API weir_tensor *weir_scaler_scale(const weir_scaler *s, weir_tensor *loss);
WEIR_API weir_status  weir_scaler_unscale(const weir_scaler *s, const weir_pair *pairs, size_t n,
                                          weir_pair *unscaled, weir_tensor **finite);
WEIR_API weir_status  weir_scaler_adjust(weir_scaler *s, weir_tensor *finite);

#ifdef __cplusplus
}
#endif
#endif
