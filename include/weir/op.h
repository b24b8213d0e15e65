/* op.h - the operations: one prototype and one line of meaning each.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each returns a result borrowed from the device's innermost scope, NULL after a mistake
 * (weir_error). With the graph on it is recorded, with the graph off computed at once. Shapes are
 * written (rows, columns) or (n, channels, height, width). "Broadcast" is NumPy's rule. f32 and f64
 * unless said. */
#ifndef WEIR_OP_PUBLIC_H
#define WEIR_OP_PUBLIC_H

#include "weir/base.h"
#include "weir/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- element-wise, one input ---- */
WEIR_API weir_tensor *weir_relu(weir_tensor *x);        /* max(x, 0); slope 0 at 0 */
WEIR_API weir_tensor *weir_sigmoid(weir_tensor *x);     /* 1 / (1 + exp(-x)) */
WEIR_API weir_tensor *weir_tanh(weir_tensor *x);
WEIR_API weir_tensor *weir_exp(weir_tensor *x);
WEIR_API weir_tensor *weir_log(weir_tensor *x);
WEIR_API weir_tensor *weir_sqrt(weir_tensor *x);
WEIR_API weir_tensor *weir_rsqrt(weir_tensor *x);       /* 1 / sqrt(x) */
WEIR_API weir_tensor *weir_abs(weir_tensor *x);         /* slope 0 at 0 */
WEIR_API weir_tensor *weir_neg(weir_tensor *x);
WEIR_API weir_tensor *weir_square(weir_tensor *x);
WEIR_API weir_tensor *weir_affine(weir_tensor *x, double mul, double add);     /* mul * x + add */

/* ---- element-wise, two inputs, broadcast; add, sub and mul take i32 and i64 too ---- */
WEIR_API weir_tensor *weir_add(weir_tensor *a, weir_tensor *b);
WEIR_API weir_tensor *weir_sub(weir_tensor *a, weir_tensor *b);
WEIR_API weir_tensor *weir_mul(weir_tensor *a, weir_tensor *b);
WEIR_API weir_tensor *weir_div(weir_tensor *a, weir_tensor *b);
WEIR_API weir_tensor *weir_max(weir_tensor *a, weir_tensor *b);     /* a tie: half the gradient */
WEIR_API weir_tensor *weir_min(weir_tensor *a, weir_tensor *b);     /* to each */

/* ---- reductions ----
 * dims is a bit set of axes (bit i is axis i), 0 means all; keep leaves axes of size 1. The
 * gradient of amax goes to the first maximum. */
WEIR_API weir_tensor *weir_sum(weir_tensor *x, uint32_t dims, bool keep);
WEIR_API weir_tensor *weir_mean(weir_tensor *x, uint32_t dims, bool keep);
WEIR_API weir_tensor *weir_amax(weir_tensor *x, uint32_t dims, bool keep);

/* ---- shape and type ---- */

/* The same elements, in row-major order, with other dims; one of them may be -1. */
WEIR_API weir_tensor *weir_reshape(weir_tensor *x, int ndim, const int64_t *dim);

/* (n, ...) -> (n, product of the rest) */
WEIR_API weir_tensor *weir_flatten(weir_tensor *x);

/* A view; axes[i] is the source of axis i, NULL reverses all. */
WEIR_API weir_tensor *weir_transpose(weir_tensor *x, const int *axes);

/* A view that repeats x; dtype of desc must be x's. */
WEIR_API weir_tensor *weir_broadcast_to(weir_tensor *x, weir_desc desc);

/* A dense tensor of its own; any dtype. */
WEIR_API weir_tensor *weir_copy(weir_tensor *x);

/* Any type to any; float to integer truncates, to bool is x != 0. */
WEIR_API weir_tensor *weir_cast(weir_tensor *x, weir_dtype dtype);

/* A view that gradients do not pass. */
WEIR_API weir_tensor *weir_detach(weir_tensor *x);

/* One value everywhere, any dtype; uniform in [lo, hi); normal. */
WEIR_API weir_tensor *weir_fill(weir_device *d, weir_desc desc, double value);
WEIR_API weir_tensor *weir_uniform(weir_device *d, weir_desc desc, double lo, double hi);
WEIR_API weir_tensor *weir_normal(weir_device *d, weir_desc desc, double mean, double stddev);

/* ---- matrices ---- */

/* (m,k) (k,n) -> (m,n); matmul_t takes a transposed if ta, b transposed if tb. */
WEIR_API weir_tensor *weir_matmul(weir_tensor *a, weir_tensor *b);
WEIR_API weir_tensor *weir_matmul_t(weir_tensor *a, weir_tensor *b, bool ta, bool tb);

/* x (n,i), w (o,i), bias (o) or NULL -> x w^T + bias (n,o) */
WEIR_API weir_tensor *weir_linear(weir_tensor *x, weir_tensor *w, weir_tensor *bias);

/* ---- convolution and pooling, x (n,c,h,w) ---- */
typedef struct weir_conv2d_options {
    int64_t stride[2], pad[2], dilation[2];     /* height, width; stride and dilation 0 mean 1 */
    int64_t groups;                             /* 0 means 1 */
} weir_conv2d_options;

/* w (out, c/groups, kh, kw), bias (out) or NULL -> (n, out, oh, ow); options NULL: all defaults. */
WEIR_API weir_tensor *weir_conv2d(weir_tensor *x, weir_tensor *w, weir_tensor *bias,
                                  const weir_conv2d_options *options);

typedef struct weir_pool2d_options {
    int64_t kernel[2], stride[2], pad[2];       /* stride 0: the kernel */
    bool    exclude_pad;                        /* average: divide by the cells inside the image */
} weir_pool2d_options;

WEIR_API weir_tensor *weir_max_pool2d(weir_tensor *x, const weir_pool2d_options *options);
WEIR_API weir_tensor *weir_avg_pool2d(weir_tensor *x, const weir_pool2d_options *options);
WEIR_API weir_tensor *weir_global_avg_pool2d(weir_tensor *x);       /* (n,c,h,w) -> (n,c,1,1) */

/* ---- normalisation ---- */
typedef struct weir_batch_norm_options {
    double eps;             /* 0: 1e-5 */
    double momentum;        /* weight of the new statistics; 0: 0.1 */
    bool   train;           /* the batch's statistics, running ones updated; else the running */
} weir_batch_norm_options;

/* Batch normalisation over all axes but 1 (Ioffe and Szegedy 2015). x (n,c,...), the others (c).
 * Recorded as statistics + apply + an update of the running statistics (unbiased variance). */
WEIR_API weir_tensor *weir_batch_norm(weir_tensor *x, weir_tensor *scale, weir_tensor *bias,
                                      weir_tensor *running_mean, weir_tensor *running_var,
                                      const weir_batch_norm_options *options);

/* Zeroes each element with probability p and scales the rest by 1/(1-p) (Srivastava et al. 2014).
 * The mask is never stored: it is drawn again from the counter-based stream. */
WEIR_API weir_tensor *weir_dropout(weir_tensor *x, double p);

/* ---- losses ---- */
/* Mean softmax cross-entropy of logits (n,c) with class numbers (n) in i32 or i64, or with
 * probabilities (n,c) of the logits' type. A class number outside 0..c-1 makes the loss NaN. */
WEIR_API weir_tensor *weir_cross_entropy(weir_tensor *logits, weir_tensor *target);

/* Number of rows of logits (n,c) whose largest entry is at the class number (n): a scalar, i64. */
WEIR_API weir_tensor *weir_count_correct(weir_tensor *logits, weir_tensor *target);

/* ---- updates: in place, never differentiated; every tensor is a param, state or input ---- */
typedef struct weir_sgd_options {
    double momentum, weight_decay, dampening;
    bool   nesterov;
} weir_sgd_options;

/* One step of SGD as PyTorch defines it. lr: scalar tensor; momentum_buffer: shape of param, NULL
 * when momentum is 0, all zero before the first step. (With dampening the first step is dampened
 * too.) */
WEIR_API weir_status weir_sgd_update(weir_tensor *param, weir_tensor *grad,
                                     weir_tensor *momentum_buffer, weir_tensor *lr,
                                     const weir_sgd_options *options);

typedef struct weir_adam_options {
    double beta1, beta2, eps, weight_decay;     /* 0 means 0.9, 0.999, 1e-8; weight_decay is L2 */
} weir_adam_options;

/* One step of Adam (Kingma and Ba 2015). m, v: shape of param; step: scalar f64, steps done
 * including this one (weir_increment it first); lr: scalar tensor of param's type. */
WEIR_API weir_status weir_adam_update(weir_tensor *param, weir_tensor *grad, weir_tensor *m,
                                      weir_tensor *v, weir_tensor *step, weir_tensor *lr,
                                      const weir_adam_options *options);

/* t += by, in place; t a state of any float type. */
WEIR_API weir_status weir_increment(weir_tensor *t, double by);

#ifdef __cplusplus
}
#endif
#endif
