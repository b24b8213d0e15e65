/* model.h - layers, models, optimisers: parameters with names, and the networks of the examples.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A model owns its layers, their parameters and states; a layer is borrowed from its model. All of
 * it is written in terms of the other public headers, so a program can do the same.
 *
 * Ownership. Models, optimisers and scalers are yours until you free them; layers, and tensors that
 * these functions return, are borrowed. Names and options are copied.
 *
 * Errors. A function that returns a pointer returns NULL after a mistake. A NULL argument fails
 * with the status of the earlier mistake that made it NULL, else ERR_INVALID. A number outside its
 * range is ERR_INVALID; layers refuse tensors as the operations do that they are made of (op.h).
 * Memory: ERR_NOMEM, and ERR_BUDGET with the graph off under a budget.
 *
 * Threads: a model, its layers and its optimisers belong to the thread of their device. */
#ifndef WEIR_MODEL_PUBLIC_H
#define WEIR_MODEL_PUBLIC_H

#include "weir/base.h"
#include "weir/comm.h"
#include "weir/device.h"
#include "weir/graph.h"
#include "weir/op.h"
#include "weir/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_model weir_model;        /* layers with their parameters and states */
typedef struct weir_layer weir_layer;        /* a function of one tensor with parameters */
typedef struct weir_optim weir_optim;        /* a rule that updates parameters, with its state */
typedef struct weir_scaler weir_scaler;      /* the scale of a loss in f16 */

/* You own the model: weir_model_free frees its layers, parameters and states (retained ones live
 * on). */
WEIR_API weir_model *weir_model_new(weir_device *d);
WEIR_API void        weir_model_free(weir_model *m);

/* Training (default) or evaluation, in which batch norm and dropout differ; for later calls. */
WEIR_API void weir_model_train(weir_model *m, bool on);
WEIR_API bool weir_model_training(const weir_model *m);

/* The number of parameters and of states, and number i of them in the order in which they were
 * made, from 0: borrowed tensors of any shape and dtype. ERR_INVALID for an i outside. */
WEIR_API size_t       weir_model_param_count(const weir_model *m);
WEIR_API weir_tensor *weir_model_param(const weir_model *m, size_t i);
WEIR_API size_t       weir_model_state_count(const weir_model *m);
WEIR_API weir_tensor *weir_model_state(const weir_model *m, size_t i);

/* ---- layers: f32 parameters, tensors as their operations take them (op.h) ----
 *
 * Sizes are numbers of columns or channels: `in` of the input, `out` of the result, all 1 and more.
 * The name is put before the names of the parameters ("fc1.weight"). Weights are drawn from the
 * device's random stream; biases start at 0 and scales at 1. */

/* linear: x (n,in) -> (n,out), weights uniform in +-1/sqrt(in). conv2d: x (n,in,h,w) ->
 * (n,out,oh,ow) with square filters of kernel x kernel pixels, weights normal with variance
 * 2 / (in / groups * kernel^2) (He et al. 2015: fan in, gain for ReLU). batch_norm: x (n,c) or
 * (n,c,...) of c = channels. bias: with a bias. options NULL: all defaults. */
WEIR_API weir_layer *weir_linear_new(weir_model *m, const char *name, int64_t in, int64_t out,
                                     bool bias);
WEIR_API weir_layer *weir_conv2d_new(weir_model *m, const char *name, int64_t in, int64_t out,
                                     int64_t kernel, const weir_conv2d_options *options, bool bias);
WEIR_API weir_layer *weir_batch_norm_new(weir_model *m, const char *name, int64_t channels);

/* Transposed convolution with filters of kernel x kernel pixels. Weights start normal with variance
 * 1 / (in / groups * kernel^2 / stride^2), the number of terms of an output element; no gain for
 * ReLU. in and out: channels. */
WEIR_API weir_layer *weir_conv_transpose2d_new(weir_model *m, const char *name, int64_t in,
                                               int64_t out, int64_t kernel,
                                               const weir_conv_transpose2d_options *options,
                                               bool bias);

/* Normalisation over the last axis, of size width; over `groups` equal groups of the channels. */
WEIR_API weir_layer *weir_layer_norm_new(weir_model *m, const char *name, int64_t width);
WEIR_API weir_layer *weir_rms_norm_new(weir_model *m, const char *name, int64_t width);
WEIR_API weir_layer *weir_group_norm_new(weir_model *m, const char *name, int64_t groups,
                                         int64_t channels);

/* Token numbers (...) in i32 or i64 -> (..., width): rows of a table (rows, width) of the float
 * type dtype (else ERR_DTYPE) that starts normal with the deviation; 0 means 1, WEIR_ZERO 0.
 * Optimisers update tables in f32 and f64 only. */
WEIR_API weir_layer *weir_embedding_new(weir_model *m, const char *name, int64_t rows,
                                        int64_t width, weir_dtype dtype, double deviation);

/* x (steps, n, in) -> (steps, n, hidden), or 2 * hidden if bidirectional, through `layers` layers;
 * see weir_lstm. Weights and biases start uniform in +-1/sqrt(hidden). */
WEIR_API weir_layer *weir_lstm_new(weir_model *m, const char *name, int64_t in, int64_t hidden,
                                   int layers, bool bidirectional);
WEIR_API weir_layer *weir_gru_new(weir_model *m, const char *name, int64_t in, int64_t hidden,
                                  int layers, bool bidirectional);

/* Dropout with probability p, 0 to 1, while the model trains, the identity otherwise; see
 * weir_dropout. */
WEIR_API weir_layer *weir_dropout_new(weir_model *m, double p);

/* The layer's function of x: recorded or computed. The result is borrowed from the device's
 * innermost scope; shape and dtype as at the layer. ERR_STATE if a part of it could not be made. */
WEIR_API weir_tensor *weir_apply(weir_layer *l, weir_tensor *x);

/* ---- whole networks, as layers that return f32 logits (n,classes) ----
 *
 * classes is the number of classes, 1 and more. Each closes its own scope: only the result (and the
 * tape) stays alive. */

/* A multilayer perceptron, x (n, widths[0]): n widths, input, hidden ..., output; ReLU between. n
 * at least 2. */
WEIR_API weir_layer *weir_mlp_new(weir_model *m, int n, const int64_t *widths);

/* LeNet (LeCun et al. 1998), x (n,1,28,28); 20 and 50 channels, 500 hidden. */
WEIR_API weir_layer *weir_lenet_new(weir_model *m, int64_t classes);

/* x (n,1,8,8); batch norm, dropout. */
WEIR_API weir_layer *weir_digits_cnn_new(weir_model *m, int64_t classes);

/* ResNet (He et al. 2016) of depth 18, 34, 50 or 101, x (n,3,h,w); cifar: the stem for small
 * images. */
WEIR_API weir_layer *weir_resnet_new(weir_model *m, int depth, int64_t classes, bool cifar);

/* Those for small images (He et al. 2016, section 4.2), x (n,3,h,w): depth 6 k + 2 (20, 56, 110,
 * 1202), three stages of 16, 32 and 64 channels. */
WEIR_API weir_layer *weir_resnet_cifar_new(weir_model *m, int depth, int64_t classes);

/* VGG-16 (Simonyan and Zisserman 2015), x (n,3,image,image), image in pixels, a multiple of 32; two
 * hidden layers of 4096 with dropout 0.5. */
WEIR_API weir_layer *weir_vgg16_new(weir_model *m, int64_t classes, int64_t image);

/* MobileNetV2 (Sandler et al. 2018), x (n,3,h,w); inverted residuals, ReLU6, dropout 0.2. */
WEIR_API weir_layer *weir_mobilenet_v2_new(weir_model *m, int64_t classes);

/* DenseNet-121 (Huang et al. 2017), x (n,3,h,w), h and w at least 29. */
WEIR_API weir_layer *weir_densenet121_new(weir_model *m, int64_t classes);

/* U-Net (Ronneberger et al. 2015): x (n,channels,h,w), h and w multiples of 16 -> (n,classes,h,w),
 * a class for each pixel. width: channels of the first level (64 in the paper); upsample: nearest
 * neighbour and a convolution on the way up in place of transposed convolutions. */
WEIR_API weir_layer *weir_unet_new(weir_model *m, int64_t channels, int64_t classes, int64_t width,
                                   bool upsample);

/* Text: token numbers x (n,t), i32 or i64 below vocab -> logits (n*t,vocab) of the token that comes
 * next, row i*t + s for position s of sequence i. */

/* A transformer decoder, layer norm first (Radford et al. 2019): t at most context, `layers` blocks
 * of width columns, heads divide width. */
WEIR_API weir_layer *weir_gpt_new(weir_model *m, int64_t vocab, int64_t context, int64_t width,
                                  int64_t heads, int layers);

/* An embedding of width columns, `layers` LSTM layers of that width which start from zero states, a
 * linear layer; any t. */
WEIR_API weir_layer *weir_char_lstm_new(weir_model *m, int64_t vocab, int64_t width, int layers);

/* How the leaves of a tree are joined: neighbours pair by pair, random neighbours (the same in each
 * run), or one after another from the left, which is an LSTM over steps. */
typedef enum weir_tree { WEIR_TREE_BALANCED, WEIR_TREE_RANDOM, WEIR_TREE_CHAIN } weir_tree;

/* A binary tree-LSTM (Tai et al. 2015) of `width` units over tokens x (n,leaves) below vocab:
 * logits (n,classes) of the whole tree. */
WEIR_API weir_layer *weir_tree_lstm_new(weir_model *m, int64_t vocab, int64_t width,
                                        int64_t classes, int64_t leaves, weir_tree shape);

/* ---- optimisers: parameters of any shape, f32 and f64 ----
 *
 * Optimisers own their state and keep the parameters they updated alive. Their rate is a tensor, so
 * it can change between runs of a graph. lr, the learning rate, is finite. Their options are those
 * of single updates, checked at the first update; NULL: all defaults. An update that fails makes
 * weir_graph_end fail, too. */

WEIR_API weir_optim *weir_sgd_new(weir_device *d, double lr, const weir_sgd_options *options);
WEIR_API weir_optim *weir_adam_new(weir_device *d, double lr, const weir_adam_options *options);
WEIR_API weir_optim *weir_adamw_new(weir_device *d, double lr, const weir_adam_options *options);

/* lr_decay: step n (from 1) has the rate lr / (1 + (n - 1) lr_decay); sums of squares start at
 * initial_accumulator. */
WEIR_API weir_optim *weir_adagrad_new(weir_device *d, double lr,
                                      const weir_adagrad_options *options);
WEIR_API weir_optim *weir_rmsprop_new(weir_device *d, double lr,
                                      const weir_rmsprop_options *options);

/* Sets the rate for later runs and calls, at once. */
WEIR_API weir_status weir_optim_set_lr(weir_optim *o, double lr);

/* The rate that parameters of this type (f32, f64; else ERR_DTYPE) read, a borrowed scalar: for
 * schedules inside a graph (weir_lr_cosine and its like). */
WEIR_API weir_tensor *weir_optim_lr(weir_optim *o, weir_dtype dtype);

/* Frees the optimiser and its state. NULL is fine. */
WEIR_API void weir_optim_free(weir_optim *o);

/* weir_minimize and weir_optim_apply clip gradients by weir_clip_value and then weir_clip_norm to
 * limit, 0 or more and finite; for later calls. 0, the default: no clipping. */
WEIR_API weir_status weir_optim_set_clip_norm(weir_optim *o, double limit);
WEIR_API weir_status weir_optim_set_clip_value(weir_optim *o, double limit);

/* weir_minimize, weir_optim_accumulate and weir_optim_apply scale losses and gradients by s, skip
 * steps whose gradients are not finite, and adjust s; for later calls. s is borrowed: it must
 * outlive o. NULL, the default: no scale. */
WEIR_API weir_status weir_optim_set_scaler(weir_optim *o, weir_scaler *s);

/* The number of state tensors (momentum buffers, moments) made so far, and number i of them, from
 * 0; borrowed. */
WEIR_API size_t       weir_optim_state_count(const weir_optim *o);
WEIR_API weir_tensor *weir_optim_state(const weir_optim *o, size_t i);

/* Takes the gradients of the scalar loss and updates every trainable tensor it depends on once. The
 * first call for a parameter makes its state tensors. */
WEIR_API weir_status weir_minimize(weir_optim *o, weir_tensor *loss);

/* The second half of weir_minimize, for gradients that the program has changed (weir_clip_norm):
 * one update for each of the n pairs. */
WEIR_API weir_status weir_optim_update(weir_optim *o, const weir_pair *pairs, size_t n);

/* The same with n pairs if the condition, a scalar bool (else ERR_SHAPE, ERR_DTYPE), is true when
 * the update runs; else parameters, states and the number of steps do not change. */
WEIR_API weir_status weir_optim_update_if(weir_optim *o, weir_tensor *condition,
                                          const weir_pair *pairs, size_t n);

/* weir_minimize in two parts, for micro-batches: accumulate adds the gradients of a loss to buffers
 * (states), apply updates every parameter that has one with the sum and zeroes it (ERR_STATE if
 * none has). Scale the losses by 1 / their number for a mean. Each part may be a graph that runs
 * any number of times. If accumulate fails half way, say because memory runs out, the next apply
 * fails with ERR_STATE, changes no parameter and zeroes the sums. Other failures of apply are those
 * of weir_optim_update, such as ERR_SHAPE and ERR_DTYPE. */
WEIR_API weir_status weir_optim_accumulate(weir_optim *o, weir_tensor *loss);
WEIR_API weir_status weir_optim_apply(weir_optim *o);

/* ---- data parallelism: one model on all ranks of a communicator, each with its own data ---- */

/* micro_batches: calls of weir_optim_accumulate for each weir_optim_apply; 0: 1. bucket: gradients
 * that take at most this many bytes together share a message; larger ones are sent one by one; 0:
 * as weir_all_reduce_coalesced chooses. Neither changes a bit. model: its parameters and states
 * become those of rank 0 at once; NULL: none do. wire: WEIR_BF16 or WEIR_F16 sends gradients of f32
 * and f64 in that type, half the bytes: each rank's is rounded once, they are summed in f32, and
 * the sum is rounded once; f16 overflows above 65,504. WEIR_F32 (0): they are sent as they are. */
typedef struct weir_parallel_options {
    int64_t     micro_batches;
    size_t      bucket;
    weir_model *model;
    weir_dtype  wire;
} weir_parallel_options;

/* From now on weir_minimize and weir_optim_apply sum the gradients over the ranks of c, in its
 * order, and scale the sums by 1 / (ranks * micro_batches), before clipping and updates. So ranks
 * stay equal to the bit, and where each has one micro-batch, order serial gives the bits of one
 * process that accumulates the micro-batches in the order of ranks: the same call there, with a
 * communicator of one rank and micro_batches = their number. Order tree gives them for any number
 * of ranks with the same number of micro-batches together, a power of two on each rank of several:
 * sums of more than three micro-batches then have log2(micro_batches) parts, each as large as the
 * parameters. Each micro-batch draws in its own part of rank 0's random stream
 * (weir_random_advance), so dropout has the masks of one process. The running statistics of the
 * model's batch norm layers (weir_batch_norm_new) are updated by those of all micro-batches, in
 * their order, when parameters are: equal on all ranks. Without a model they are each rank's own.
 * All ranks must call this with the same options: ERR_COMM. A parameter that differs between ranks
 * at its first gradient is ERR_STATE. c and the model, borrowed, must outlive o. options NULL: all
 * defaults. ERR_INVALID for micro_batches below 0; ERR_DTYPE for another wire; ERR_STATE after the
 * first update. */
WEIR_API weir_status weir_data_parallel(weir_optim *o, weir_comm *c,
                                        const weir_parallel_options *options);

/* The first part of such a step, for programs that go on with weir_optim_update: the gradients of n
 * pairs, of any shapes and of dtype f32 or f64, summed over the ranks and scaled, into out, which
 * may be pairs; pairs themselves for an optimiser without a communicator. ERR_STATE for a parameter
 * that differs between ranks. The new gradients are borrowed from the innermost scope. */
WEIR_API weir_status weir_optim_reduce(weir_optim *o, const weir_pair *pairs, size_t n,
                                       weir_pair *out);

/* ---- mixed precision: f32 parameters, products in half ---- */

/* Runs the model's layers inside weir_autocast_begin(half): WEIR_BF16 or WEIR_F16; WEIR_F32, the
 * default: without autocast; any other type is ERR_DTYPE. Parameters stay f32. weir_apply returns
 * f32, unless the program calls it inside its own autocast scope, whose type then applies. For
 * later calls. */
WEIR_API weir_status weir_model_set_precision(weir_model *m, weir_dtype half);
WEIR_API weir_dtype  weir_model_precision(const weir_model *m);

/* The loss is multiplied by a scale, so that gradients in f16 do not vanish; the gradients are then
 * divided by it. After `interval` steps in a row with finite gradients the scale is multiplied by
 * growth. A step whose gradients are not finite updates nothing and multiplies the scale by
 * backoff. 0 means scale 65536, growth 2, backoff 0.5, interval 2000. fixed: the scale never
 * changes. All of it happens on the device: a graph never waits for the host. bf16 has the range of
 * f32 and needs no scale. Scale above 0, growth 1 or more, backoff between 0 and 1, interval 1 to
 * 2^24. (Micikevicius et al. 2018.) */
typedef struct weir_scaler_options {
    double  scale, growth, backoff;
    int64_t interval;
    bool    fixed;
} weir_scaler_options;

/* A dynamic scale of losses (Micikevicius et al. 2018). You own it: weir_scaler_free, after the
 * optimisers that use it (weir_optim_set_scaler). options NULL: all defaults. */
WEIR_API weir_scaler *weir_scaler_new(weir_device *d, const weir_scaler_options *options);
WEIR_API void         weir_scaler_free(weir_scaler *s);

/* The number of its states and state i, a borrowed scalar: 0 the scale (f32), 1 finite steps in a
 * row (f32), 2 skipped steps so far (f64). Save them with the parameters; they may be written. */
WEIR_API size_t       weir_scaler_state_count(const weir_scaler *s);
WEIR_API weir_tensor *weir_scaler_state(const weir_scaler *s, size_t i);

/* The parts of a step, for a program that acts between them: scale multiplies the loss; unscale
 * does weir_unscale to n pairs; adjust, called after weir_optim_update_if(finite), sets the next
 * scale. */
WEIR_API weir_tensor *weir_scaler_scale(const weir_scaler *s, weir_tensor *loss);
WEIR_API weir_status  weir_scaler_unscale(const weir_scaler *s, const weir_pair *pairs, size_t n,
                                          weir_pair *unscaled, weir_tensor **finite);
WEIR_API weir_status  weir_scaler_adjust(weir_scaler *s, weir_tensor *finite);

#ifdef __cplusplus
}
#endif
#endif
