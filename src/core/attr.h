/* attr.h - the attribute structs of recorded calls, one per family of ops.
 *
 * All fields are 8 bytes wide, so that no struct has padding and attributes compare and hash as
 * bytes. Pairs are (height, width). Options are stored resolved: defaults and -1 are filled in. */
#ifndef WEIR_CORE_ATTR_H
#define WEIR_CORE_ATTR_H

#include "core/elementwise.h"
#include "weir/base.h"

/* ---- element-wise (core/elementwise.h has weir_ew_attr and weir_ew_program) ---- */

/* A desc as attributes, for calls without inputs. */
typedef struct weir_desc_attr {
    int64_t dtype, ndim, dim[WEIR_MAX_DIMS];
} weir_desc_attr;

/* UNIFORM (s, t = lo, hi) and NORMAL (mean, stddev). ew comes first: kernels read it alone. */
typedef struct weir_draw_attr {
    weir_ew_attr   ew;
    weir_desc_attr desc;
} weir_draw_attr;

/* BN_APPLY; ew is all zero. train: mean and rstd are statistics of the same x, and the gradient
 * with respect to x goes through them. */
typedef struct weir_bn_apply_attr {
    weir_ew_attr ew;
    int64_t      train;
} weir_bn_apply_attr;

/* ---- move ---- */

/* RESHAPE and BROADCAST: the new dims. TRANSPOSE: dim[i] is the source of axis i. */
typedef struct weir_shape_attr {
    int64_t ndim, dim[WEIR_MAX_DIMS];
} weir_shape_attr;

typedef struct weir_cast_attr {
    int64_t dtype;
} weir_cast_attr;

/* FILL: value is converted to the dtype as weir_cast would. */
typedef struct weir_fill_attr {
    double         value;
    weir_desc_attr desc;
} weir_fill_attr;

/* ---- reduce ---- */

/* SUM, AMAX, AMAX_GRAD. Bit i of dims: axis i is reduced (0 only for a scalar). keep: reduced axes
 * stay with size 1. scale multiplies the finished sum: 1, or 1 / elements reduced for a mean. */
typedef struct weir_reduce_attr {
    uint64_t dims;
    int64_t  keep;
    double   scale;
} weir_reduce_attr;

/* ---- matmul ---- */

/* MATMUL: operand a, b is stored transposed. */
typedef struct weir_matmul_attr {
    int64_t ta, tb;
} weir_matmul_attr;

/* ---- conv ---- */

typedef struct weir_conv2d_attr {
    int64_t stride[2], pad[2], dilation[2], groups;
} weir_conv2d_attr;

/* CONV2D_GRAD_X; h, w of x, which dy does not tell. */
typedef struct weir_conv2d_grad_attr {
    weir_conv2d_attr conv;
    int64_t          h, w;
} weir_conv2d_grad_attr;

/* CONV2D_GRAD_W; kh, kw of the weights. bias: a second output, the bias's gradient, is wanted. */
typedef struct weir_conv2d_gradw_attr {
    weir_conv2d_attr conv;
    int64_t          kh, kw, bias;
} weir_conv2d_gradw_attr;

typedef struct weir_pool2d_attr {
    int64_t kernel[2], stride[2], pad[2], exclude_pad;
} weir_pool2d_attr;

/* MAX_POOL2D_GRAD, AVG_POOL2D_GRAD; h, w of x. */
typedef struct weir_pool2d_grad_attr {
    weir_pool2d_attr pool;
    int64_t          h, w;
} weir_pool2d_grad_attr;

/* ---- norm ---- */

/* BN_STATS: rstd = 1 / sqrt(var + eps). */
typedef struct weir_bn_attr {
    double eps;
} weir_bn_attr;

/* BN_UPDATE: weight of the new statistics; elements per channel, for the unbiased variance. */
typedef struct weir_bn_update_attr {
    double momentum, count;
} weir_bn_update_attr;

/* ---- update ---- */

typedef struct weir_sgd_attr {
    double  momentum, weight_decay, dampening;
    int64_t nesterov;
} weir_sgd_attr;

typedef struct weir_adam_attr {
    double beta1, beta2, eps, weight_decay;
} weir_adam_attr;

typedef struct weir_increment_attr {
    double by;
} weir_increment_attr;

#endif
