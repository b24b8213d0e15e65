/* attr.h - the attribute structs of recorded calls, one per family of ops.
 *
 * Every field is 8 bytes wide, so no struct has padding and attributes can be compared and hashed
 * as bytes. Pairs are (height, width). Options are stored resolved: defaults and negative axes have
 * been replaced by the values they stand for. */
#ifndef WEIR_CORE_ATTR_H
#define WEIR_CORE_ATTR_H

#include "core/fused.h"
#include "core/op.h"
#include "weir/base.h"

/* ---- element-wise (core/fused.h has weir_ew_attr and weir_ew_program) ---- */

/* A tensor description as attributes, for calls without inputs. */
typedef struct weir_desc_attr {
    int64_t dtype, ndim, dim[WEIR_MAX_DIMS];
} weir_desc_attr;

/* UNIFORM (s, t = lo, hi) and NORMAL (mean, stddev). ew comes first: kernels read it alone. */
typedef struct weir_draw_attr {
    weir_ew_attr   ew;
    weir_desc_attr desc;
} weir_draw_attr;

/* BN_APPLY; ew is all zero. train: mean and rstd are statistics of this very x, so the gradient of
 * x also passes through them. */
typedef struct weir_bn_apply_attr {
    weir_ew_attr ew;
    int64_t      train;
} weir_bn_apply_attr;

/* LN_APPLY; ew is all zero. groups: number of channel groups, each normalised by itself; 0: layer
 * norm of images, which normalises over the axes that the scale has. */
typedef struct weir_ln_apply_attr {
    weir_ew_attr ew;
    int64_t      groups;
} weir_ln_apply_attr;

/* ---- move ---- */

/* RESHAPE and BROADCAST: the new dims. TRANSPOSE: dim[i] is the input axis that becomes axis i. */
typedef struct weir_shape_attr {
    int64_t ndim, dim[WEIR_MAX_DIMS];
} weir_shape_attr;

typedef struct weir_cast_attr {
    int64_t dtype;
} weir_cast_attr;

/* FILL: value is converted to the element type as weir_cast converts. */
typedef struct weir_fill_attr {
    double         value;
    weir_desc_attr desc;
} weir_fill_attr;

/* SLICE: output element i of an axis is input element begin + i * step, 0 <= i < dim.
 * SLICE_SCATTER: input element i is written to begin + i * step of an axis of size dim; all other
 * output elements are `value`. */
typedef struct weir_slice_attr {
    int64_t ndim, begin[WEIR_MAX_DIMS], step[WEIR_MAX_DIMS], dim[WEIR_MAX_DIMS];
    double  value;
} weir_slice_attr;

typedef struct weir_axis_attr {
    int64_t axis;
} weir_axis_attr;

/* GATHER: `missing` is what a card writes into the row of an invalid index before it reports the
 * index. GATHER_GRAD: `rows` is the number of rows of the table. */
typedef struct weir_gather_attr {
    double  missing;
    int64_t rows;
} weir_gather_attr;

typedef struct weir_one_hot_attr {
    int64_t dtype, depth;
} weir_one_hot_attr;

/* ARANGE: element i is start + i * step. */
typedef struct weir_arange_attr {
    double  start, step;
    int64_t dtype, count;
} weir_arange_attr;

/* ---- reduce ---- */

/* All reductions and their gradients. Bit i of dims: axis i is reduced (no bit only for a scalar).
 * keep: reduced axes stay with size 1. scale multiplies the finished sum: 1 for a sum, 1 /
 * (elements reduced) for a mean. */
typedef struct weir_reduce_attr {
    uint64_t dims;
    int64_t  keep;
    double   scale;
} weir_reduce_attr;

/* CUMSUM along the one axis of reduce.dims, which stays. reverse: sums run from the axis's end. */
typedef struct weir_cumsum_attr {
    weir_reduce_attr reduce;
    int64_t          reverse;
} weir_cumsum_attr;

/* ---- matmul ---- */

/* MATMUL, BATCH_MATMUL. ta, tb: operand a, b is stored transposed. */
typedef struct weir_matmul_attr {
    int64_t ta, tb;
} weir_matmul_attr;

/* ---- attention ---- */

/* The values of weir_attention_causal, for kernels, which do not include weir/op.h. */
enum { WEIR_SIGHT_ALL, WEIR_SIGHT_FROM_FIRST, WEIR_SIGHT_FROM_LAST };

/* ATTENTION, ATTENTION_GRAD. The heads lie side by side in the last axis; packed: those of q, k and
 * v in one tensor, which is given three times. causal: WEIR_SIGHT. mask, lengths, dropout > 0: the
 * call has these operands, the last being the key of the random numbers, after the others.
 * mask_grad: the gradient has that of the mask as its last output. */
typedef struct weir_attention_attr {
    int64_t heads, kv_heads, causal, packed, mask, lengths, mask_grad;
    double  scale, dropout;
} weir_attention_attr;

/* ---- lstm ---- */

/* LSTM, LSTM_GRAD. backward: the sequence is processed from its last step to its first. */
typedef struct weir_lstm_attr {
    int64_t backward;
} weir_lstm_attr;

/* ---- conv ---- */

/* pad lies before the image, pad_end after it. Kernels need only pad: the operands' shapes imply
 * pad_end. */
typedef struct weir_conv2d_attr {
    int64_t stride[2], pad[2], pad_end[2], dilation[2], groups;
} weir_conv2d_attr;

/* CONV2D_GRAD_X, CONV_TRANSPOSE2D. h, w: size of x, which dy's shape does not determine. */
typedef struct weir_conv2d_grad_attr {
    weir_conv2d_attr conv;
    int64_t          h, w;
} weir_conv2d_grad_attr;

/* CONV2D_GRAD_W. kh, kw: size of the kernel window. bias: the call also has the bias's gradient as
 * its second output. */
typedef struct weir_conv2d_gradw_attr {
    weir_conv2d_attr conv;
    int64_t          kh, kw, bias;
} weir_conv2d_gradw_attr;

typedef struct weir_pool2d_attr {
    int64_t kernel[2], stride[2], pad[2], pad_end[2], exclude_pad;
} weir_pool2d_attr;

/* MAX_POOL2D_GRAD, AVG_POOL2D_GRAD. h, w: size of x. */
typedef struct weir_pool2d_grad_attr {
    weir_pool2d_attr pool;
    int64_t          h, w;
} weir_pool2d_grad_attr;

/* UPSAMPLE_BILINEAR and its gradient: output pixels per input pixel along height and width. */
typedef struct weir_upsample_attr {
    int64_t factor[2];
} weir_upsample_attr;

/* ---- norm ---- */

/* BN_STATS: rstd = 1 / sqrt(var + eps). */
typedef struct weir_bn_attr {
    double eps;
} weir_bn_attr;

/* LAYER_NORM: rstd = 1 / sqrt(var + eps). */
typedef struct weir_layer_norm_attr {
    double eps;
} weir_layer_norm_attr;

/* BN_UPDATE. momentum: weight of the new statistics; count: elements per channel, for the unbiased
 * variance. */
typedef struct weir_bn_update_attr {
    double momentum, count;
} weir_bn_update_attr;

/* CROSS_ENTROPY and its gradient. ignored: rows of this class number count for nothing. */
typedef struct weir_cross_entropy_attr {
    int64_t ignored;
} weir_cross_entropy_attr;

/* ---- update ---- */

typedef struct weir_sgd_attr {
    double  momentum, weight_decay, dampening;
    int64_t nesterov;
} weir_sgd_attr;

typedef struct weir_adam_attr {
    double beta1, beta2, eps, weight_decay;
} weir_adam_attr;

typedef struct weir_adagrad_attr {
    double  eps, weight_decay;
    int64_t eps_inside;         /* eps is added under the square root */
} weir_adagrad_attr;

/* momentum != 0: a momentum buffer is one more state. centered: the running mean is the state after
 * that. */
typedef struct weir_rmsprop_attr {
    double  alpha, eps, weight_decay, momentum;
    int64_t centered, eps_inside;
} weir_rmsprop_attr;

/* LR_SCHEDULE: the learning rate at step n. */
enum { WEIR_LR_STEP, WEIR_LR_EXPONENTIAL, WEIR_LR_COSINE };

/* STEP: base to^floor(n / period); EXPONENTIAL: base to^n; COSINE: from base to `to` in period
 * steps along half a cosine, then `to`. */
typedef struct weir_lr_attr {
    int64_t kind;
    double  base, to, period;
} weir_lr_attr;

typedef struct weir_increment_attr {
    double by;
} weir_increment_attr;

typedef struct weir_reset_attr {
    double value;
} weir_reset_attr;

/* ---- spill ---- */

/* SPILL_OUT, SPILL_IN: byte offset (slot) and bytes in the offload store; SPILL_WAIT: 0, 0. ticket:
 * the number, from 0, by which SPILL_WAIT names the copy that it waits for. persistent: 1 if the
 * slot belongs to a value that stays in the store between steps, 0 if it belongs to this plan. */
typedef struct weir_spill_attr {
    uint64_t slot, bytes, ticket, persistent;
} weir_spill_attr;

/* The attributes of SPILL_OUT, SPILL_IN or SPILL_WAIT; NULL for any other op. */
static inline const weir_spill_attr *weir_spill_attr_of(weir_op op, const void *attr)
{
    const bool spills = op == WEIR_OP_SPILL_OUT || op == WEIR_OP_SPILL_IN ||
                        op == WEIR_OP_SPILL_WAIT;
    return spills ? (const weir_spill_attr *)attr : NULL;
}

/* ---- packed values ---- */

/* How an element is stored in fewer bits. All but GROUPS are lossless for the values named. */
typedef enum weir_pack_kind {
    WEIR_PACK_WHOLE,        /* whole numbers base .. base + 2^bits - 1 of any type, without -0 */
    WEIR_PACK_BF16,         /* f32 and f64 values that bf16 represents exactly */
    WEIR_PACK_F16,          /* f32 and f64 values that f16 represents exactly */
    WEIR_PACK_F32,          /* f64 values that f32 represents exactly */
    WEIR_PACK_KINDS,
    WEIR_PACK_GROUPS = WEIR_PACK_KINDS  /* QUANTIZE: f32, rounded within the range of its group */
} weir_pack_kind;

#define WEIR_QUANT_GROUP 256    /* elements that share one range */

/* PACK, UNPACK, QUANTIZE, DEQUANTIZE of `count` dense elements of a dtype. bits: bits per element,
 * 1, 2, 4, 8, 16 or 32; the first element has the lowest bits of a word. */
typedef struct weir_pack_attr {
    int64_t kind, dtype, count, bits, base;
} weir_pack_attr;

/* Bytes of the group ranges, two floats per group. */
static inline size_t weir_quant_ranges(const weir_pack_attr *a)
{
    return ((size_t)a->count + WEIR_QUANT_GROUP - 1) / WEIR_QUANT_GROUP * 2 * sizeof(float);
}

static inline size_t weir_pack_bytes(const weir_pack_attr *a)
{
    return (a->kind == WEIR_PACK_GROUPS ? weir_quant_ranges(a) : 0) +
           ((size_t)a->count * (size_t)a->bits + 7) / 8;
}

/* True for the ops that only the planner inserts, to move, to compress or to await a value. */
static inline bool weir_op_moves(weir_op op)
{
    return op == WEIR_OP_SPILL_OUT || op == WEIR_OP_SPILL_IN || op == WEIR_OP_SPILL_WAIT ||
           op == WEIR_OP_PACK || op == WEIR_OP_UNPACK || op == WEIR_OP_QUANTIZE ||
           op == WEIR_OP_DEQUANTIZE || op == WEIR_OP_ALL_REDUCE_WAIT;
}

/* ---- callback ---- */

/* CALLBACK and CALLBACK_GRAD. def, ctx: the caller's pointers. desc: of nx inputs, then of ny
 * results. want: bit i asks for the gradient of input i (0 in CALLBACK). */
typedef struct weir_callback_attr {
    uint64_t       def, ctx;
    int64_t        nx, ny;
    uint64_t       want;
    weir_desc_attr desc[12];    /* WEIR_MAX_IN + WEIR_MAX_OUT */
} weir_callback_attr;

/* ---- collective ---- */

/* bucket: of an ALL_REDUCE that the plan may join with its neighbours in one message, the most
 * bytes that these take together; WEIR_BUCKET_PLANNED: as the plan chooses; 0: it stays alone. */
#define WEIR_BUCKET_PLANNED (-1)

/* Bytes of a message of several sums where neither the program nor a plan chooses. */
#define WEIR_BUCKET_BYTES ((size_t)1 << 20)

/* All collectives. comm: the caller's pointer. peer: the root, or the other rank; -1: none. desc:
 * of the result of RECV_FROM, else 0. */
typedef struct weir_collective_attr {
    uint64_t       comm;
    int64_t        rank, world, peer, bucket;
    weir_desc_attr desc;
} weir_collective_attr;

#endif
