/* op.h - the operations: a prototype and a line of meaning each.
 * They stay together, so that one search finds each. SPDX-License-Identifier: Apache-2.0
 *
 * Between weir_graph_begin and weir_graph_end a call is recorded, otherwise it is computed at once.
 * Shapes are written (rows, columns) or (n, channels, height, width). "Broadcast" is NumPy's rule:
 * shapes are aligned at the last axis; an axis that is missing or has size 1 is repeated.
 *
 * Defaults. Options that begin as {0} have every default: a field of 0 means the value that its
 * comment says. To say 0 itself write WEIR_ZERO, or begin with the options' ..._default function,
 * which writes the defaults out and sets `exact`: every field then is what it says, 0 too.
 *
 * Ownership. A result is borrowed from the device's innermost scope (tensor.h). Operands, arrays of
 * sizes and options are only read during the call. options NULL: all defaults.
 *
 * Errors. A function that returns a tensor returns NULL after a mistake (weir_error says which). A
 * NULL operand gives NULL, or its status, and keeps the earlier sentence. ERR_DTYPE: an element
 * type that the operation does not take. ERR_SHAPE: shapes that do not fit together, or a result of
 * more bytes than can be addressed. ERR_INVALID: a number outside its range, an axis that x does
 * not have, an unknown enum. ERR_DEVICE: operands of different devices, or a closed device.
 * ERR_STATE: an operand whose elements were never written or are not kept. ERR_NOMEM, and
 * ERR_BUDGET with the graph off under a budget: memory.
 *
 * Element types. All operations take f32 and f64. Other types are listed here or at the operation;
 * any other type is refused (WEIR_ERR_DTYPE) with a sentence that names operation and type. f16 and
 * bf16 are computed in f32 and rounded once, to nearest even, when a result is stored. They are
 * taken by all element-wise operations (draws and dropout too), comparisons, where, sum, mean,
 * amax, amin, prod, argmax, argmin, softmax, log_softmax, matrix products, gemm, linear, LSTM and
 * GRU, and all that moves data; gradients pass. Trainable tensors of these types are not updated:
 * keep parameters in f32 and weir_cast them. Integers wrap around. They can be added,
 * subtracted, multiplied, divided (below), compared, reduced (sum, prod, amax, amin, argmax,
 * argmin) and moved; neg, abs, sign, square, max, min, clamp, pow, div_floor, div_trunc, remainder,
 * bitwise_... and shift_... take them, too. A sum or product of integers or bools is i64, as in
 * PyTorch; one of i8, i16, u16, u32 or u64 is taken of a copy in i64 (so are amax and its like,
 * cumsum, cumprod and scatter_add). bool is
 * not a number: sum and prod count it, logical_... combine it, where selects by it, and it can be
 * moved.
 *
 * NaN, infinities, zeros. NaN propagates through every operation that computes with the element:
 * relu, max, min, clamp and the pools keep it, a maximum or minimum over a NaN is NaN, argmax and
 * argmin return the first NaN. Slopes at NaN are PyTorch's: relu, relu6, max and min let the
 * gradient through, the slopes of abs, clamp and hardsigmoid are 0, others are NaN. -0 stays -0 in
 * relu, relu6, clamp, floor, ceil, round, sign and sqrt; max and min of -0 and +0 are the second.
 * Subnormal numbers are kept. Sign and payload of a NaN are not promised.
 *
 * Type promotion. add, sub, mul, divisions, max, min, pow, comparisons and where (a and b) first
 * cast operands of different types to weir_dtype_promote's: the later one in bool, u8, i32, i64,
 * f16 and bf16, f32, f64, but f32 for f16 with bf16. These are PyTorch's rules for tensors of one
 * axis or more; scalars (no axes) are no exception here. The casts are recorded, so each gradient
 * has the type of its operand. div of integers is true division, in f32. All other operations
 * require equal types. */
#ifndef WEIR_OP_PUBLIC_H
#define WEIR_OP_PUBLIC_H

#include "weir/base.h"
#include "weir/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- element-wise, one input; the result has the shape and dtype of x ---- */
WEIR_API weir_tensor *weir_relu(weir_tensor *x);        /* max(x, 0), -0 for -0; slope 0 at 0 */
WEIR_API weir_tensor *weir_sigmoid(weir_tensor *x);     /* 1 / (1 + exp(-x)) */
WEIR_API weir_tensor *weir_tanh(weir_tensor *x);        /* hyperbolic tangent */
WEIR_API weir_tensor *weir_exp(weir_tensor *x);         /* e to the power x */
WEIR_API weir_tensor *weir_log(weir_tensor *x);         /* natural logarithm */
WEIR_API weir_tensor *weir_sqrt(weir_tensor *x);        /* square root */
WEIR_API weir_tensor *weir_rsqrt(weir_tensor *x);       /* 1 / sqrt(x) */
WEIR_API weir_tensor *weir_abs(weir_tensor *x);         /* absolute value; slope 0 at 0 */
WEIR_API weir_tensor *weir_neg(weir_tensor *x);         /* -x */
WEIR_API weir_tensor *weir_square(weir_tensor *x);      /* x * x */
WEIR_API weir_tensor *weir_affine(weir_tensor *x, double mul, double add);     /* mul * x + add */

/* Slopes at kinks are PyTorch's. Sources: elu Clevert et al. 2016, selu Klambauer et al. 2017, gelu
 * Hendrycks and Gimpel 2016, silu Elfwing et al. 2018, hardswish Howard et al. 2019. */
WEIR_API weir_tensor *weir_relu6(weir_tensor *x);       /* min(max(x, 0), 6); slope 0 at both */
WEIR_API weir_tensor *weir_leaky_relu(weir_tensor *x, double slope);    /* x > 0 ? x : slope x */
WEIR_API weir_tensor *weir_elu(weir_tensor *x, double alpha);   /* x > 0 ? x : alpha expm1(x) */
WEIR_API weir_tensor *weir_selu(weir_tensor *x);        /* 1.0507 elu(x, 1.67326) */
WEIR_API weir_tensor *weir_gelu(weir_tensor *x);        /* x/2 (1 + erf(x / sqrt 2)) */
WEIR_API weir_tensor *weir_silu(weir_tensor *x);        /* x sigmoid(x) */
WEIR_API weir_tensor *weir_hardsigmoid(weir_tensor *x); /* x/6 + 1/2, clamped to [0, 1] */
WEIR_API weir_tensor *weir_hardswish(weir_tensor *x);   /* x hardsigmoid(x), 0 from -3 down */
WEIR_API weir_tensor *weir_softplus(weir_tensor *x);    /* log(1 + exp(x)) */
WEIR_API weir_tensor *weir_log_sigmoid(weir_tensor *x); /* -log(1 + exp(-x)), without overflow */
WEIR_API weir_tensor *weir_softsign(weir_tensor *x);    /* x / (1 + |x|) */

/* x > 0 ? x : slope x (He et al. 2015). slope has one element, or one per channel: shape (c) for x
 * (n,c) or (n,c,...). Both have a gradient. */
WEIR_API weir_tensor *weir_prelu(weir_tensor *x, weir_tensor *slope);

/* Step functions: slope 0 everywhere. */
WEIR_API weir_tensor *weir_floor(weir_tensor *x);       /* rounded down */
WEIR_API weir_tensor *weir_ceil(weir_tensor *x);        /* rounded up */
WEIR_API weir_tensor *weir_round(weir_tensor *x);       /* to nearest, half away from zero */
WEIR_API weir_tensor *weir_round_even(weir_tensor *x);  /* to nearest, half to even */
WEIR_API weir_tensor *weir_sign(weir_tensor *x);        /* -1, 0 or 1; -0 and NaN stay */

/* min(max(x, lo), hi); slope 1 at lo and hi. Integers are clamped to the integers in [lo, hi].
 * ERR_INVALID if lo > hi, or if x holds integers and none lies in [lo, hi]. */
WEIR_API weir_tensor *weir_clamp(weir_tensor *x, double lo, double hi);

/* Functions of C's <math.h>, angles in radians. */
WEIR_API weir_tensor *weir_reciprocal(weir_tensor *x);  /* 1 / x */
WEIR_API weir_tensor *weir_erf(weir_tensor *x);
WEIR_API weir_tensor *weir_sin(weir_tensor *x);
WEIR_API weir_tensor *weir_cos(weir_tensor *x);
WEIR_API weir_tensor *weir_tan(weir_tensor *x);
WEIR_API weir_tensor *weir_asin(weir_tensor *x);
WEIR_API weir_tensor *weir_acos(weir_tensor *x);
WEIR_API weir_tensor *weir_atan(weir_tensor *x);
WEIR_API weir_tensor *weir_sinh(weir_tensor *x);
WEIR_API weir_tensor *weir_cosh(weir_tensor *x);
WEIR_API weir_tensor *weir_asinh(weir_tensor *x);
WEIR_API weir_tensor *weir_acosh(weir_tensor *x);
WEIR_API weir_tensor *weir_atanh(weir_tensor *x);
WEIR_API weir_tensor *weir_log1p(weir_tensor *x);       /* log(1 + x) */
WEIR_API weir_tensor *weir_expm1(weir_tensor *x);       /* exp(x) - 1 */
WEIR_API weir_tensor *weir_exp2(weir_tensor *x);        /* 2 to the power x; exact for a whole x */

/* ---- element-wise, two inputs; of integers too ----
 *
 * a and b are broadcast to the shape of the result, whose dtype is that of the promoted operands.
 */

/* a + b, a - b, a b, a / b; div of integers gives f32. */
WEIR_API weir_tensor *weir_add(weir_tensor *a, weir_tensor *b);
WEIR_API weir_tensor *weir_sub(weir_tensor *a, weir_tensor *b);
WEIR_API weir_tensor *weir_mul(weir_tensor *a, weir_tensor *b);
WEIR_API weir_tensor *weir_div(weir_tensor *a, weir_tensor *b);

/* Quotients rounded down (floor) or towards 0 (trunc), both with slope 0, and the remainder
 * a - b div_floor(a, b), which has b's sign. As in Python and PyTorch, 1.0 by 0.1 is 9, remainder
 * 0.1; 5 by infinity is 0, remainder 5; by 0.0 the quotient is that of div, the remainder NaN. An
 * integer by 0 has quotient 0 and remainder 0. */
WEIR_API weir_tensor *weir_div_floor(weir_tensor *a, weir_tensor *b);
WEIR_API weir_tensor *weir_div_trunc(weir_tensor *a, weir_tensor *b);
WEIR_API weir_tensor *weir_remainder(weir_tensor *a, weir_tensor *b);

/* Bits of integers, negative ones in two's complement; logical_... are those of bool. */
WEIR_API weir_tensor *weir_bitwise_and(weir_tensor *a, weir_tensor *b);
WEIR_API weir_tensor *weir_bitwise_or(weir_tensor *a, weir_tensor *b);
WEIR_API weir_tensor *weir_bitwise_xor(weir_tensor *a, weir_tensor *b);

/* The bits of an integer a moved by b places, b of a's type (ERR_DTYPE otherwise). Bits that leave
 * the type are lost, all of them if b is negative or not less than their number. On the right the
 * sign of a is repeated. */
WEIR_API weir_tensor *weir_shift_left(weir_tensor *a, weir_tensor *b);
WEIR_API weir_tensor *weir_shift_right(weir_tensor *a, weir_tensor *b);

/* The larger, the smaller of two elements. Equal ones get half the gradient each. */
WEIR_API weir_tensor *weir_max(weir_tensor *a, weir_tensor *b);
WEIR_API weir_tensor *weir_min(weir_tensor *a, weir_tensor *b);

/* a to the power b, as C's pow. Integers wrap; a negative power of an integer is 0, except of 1 and
 * -1. Slope in a: 0 where b is 0; in b: 0 where a is 0 and b is not negative, NaN where a is
 * negative. */
WEIR_API weir_tensor *weir_pow(weir_tensor *a, weir_tensor *b);

/* ---- comparisons: broadcast; the result is bool and has no gradient ---- */

/* a == b, a != b, a < b, a <= b, a > b, a >= b, of numbers of any type; eq and ne of bools, too. A
 * comparison with NaN is false, ne true. */
WEIR_API weir_tensor *weir_eq(weir_tensor *a, weir_tensor *b);
WEIR_API weir_tensor *weir_ne(weir_tensor *a, weir_tensor *b);
WEIR_API weir_tensor *weir_lt(weir_tensor *a, weir_tensor *b);
WEIR_API weir_tensor *weir_le(weir_tensor *a, weir_tensor *b);
WEIR_API weir_tensor *weir_gt(weir_tensor *a, weir_tensor *b);
WEIR_API weir_tensor *weir_ge(weir_tensor *a, weir_tensor *b);

/* Of bools; a xor b is a != b. */
WEIR_API weir_tensor *weir_logical_and(weir_tensor *a, weir_tensor *b);
WEIR_API weir_tensor *weir_logical_or(weir_tensor *a, weir_tensor *b);
WEIR_API weir_tensor *weir_logical_xor(weir_tensor *a, weir_tensor *b);
WEIR_API weir_tensor *weir_logical_not(weir_tensor *a);

/* cond ? a : b; cond is bool, a and b of any type, promoted to that of the result. a and b have a
 * gradient. */
WEIR_API weir_tensor *weir_where(weir_tensor *cond, weir_tensor *a, weir_tensor *b);

/* ---- reductions ----
 *
 * dims is a bit set of the axes to reduce (bit i is axis i); 0 means all. The result has the dtype
 * of x (sums and products of integers and bools: i64) and the shape of x without these axes; keep
 * leaves them with size 1. ERR_INVALID for an axis that x does not have. */

/* Sum, mean (floats and halves alone), maximum and minimum. The gradient of amax and amin goes to
 * the first extreme element, of several NaNs to the first. amax and amin of no elements are
 * ERR_SHAPE. */
WEIR_API weir_tensor *weir_sum(weir_tensor *x, uint32_t dims, bool keep);
WEIR_API weir_tensor *weir_mean(weir_tensor *x, uint32_t dims, bool keep);
WEIR_API weir_tensor *weir_amax(weir_tensor *x, uint32_t dims, bool keep);
WEIR_API weir_tensor *weir_amin(weir_tensor *x, uint32_t dims, bool keep);

/* The product. Its gradient is correct where factors are 0, too. */
WEIR_API weir_tensor *weir_prod(weir_tensor *x, uint32_t dims, bool keep);

/* The index (i64) of the first maximum, minimum along one axis; a negative axis counts from the
 * end. NaN counts as the extreme. No gradient. ERR_SHAPE if the axis has size 0. */
WEIR_API weir_tensor *weir_argmax(weir_tensor *x, int axis, bool keep);
WEIR_API weir_tensor *weir_argmin(weir_tensor *x, int axis, bool keep);

/* Running sums along an axis (negative: counted from the end), own element included, in the shape
 * of x; reverse: from the end of the axis. Of integers, too (u8 wraps). Floats add up in f64. */
WEIR_API weir_tensor *weir_cumsum(weir_tensor *x, int axis, bool reverse);

/* Running products along an axis, as weir_cumsum. The gradient is correct where factors are 0, too.
 * Floats multiply in f64. */
WEIR_API weir_tensor *weir_cumprod(weir_tensor *x, int axis, bool reverse);

/* Variance: the sum of squared distances from the mean divided by n - correction, correction 0 or 1
 * (else ERR_INVALID). Floats; halves add up in f32. */
WEIR_API weir_tensor *weir_var(weir_tensor *x, uint32_t dims, int correction, bool keep);

/* p 1: the sum of absolute values; p 2: the root of the sum of squares; other p: ERR_INVALID.
 * Floats; halves add up in f32. Slope 0 at 0. */
WEIR_API weir_tensor *weir_norm(weir_tensor *x, int p, uint32_t dims, bool keep);

/* exp(x) / sum(exp(x)) along an axis (negative: counted from the end), and its logarithm, in the
 * shape of x; computed without overflow. */
WEIR_API weir_tensor *weir_softmax(weir_tensor *x, int axis);
WEIR_API weir_tensor *weir_log_softmax(weir_tensor *x, int axis);

/* ---- shape and type ---- */

/* The same elements in row-major order with the ndim sizes dim; one of them may be -1, which stands
 * for what is left. A view where the layout permits, else a copy; any dtype. ERR_SHAPE if the
 * numbers of elements differ. */
WEIR_API weir_tensor *weir_reshape(weir_tensor *x, int ndim, const int64_t *dim);

/* (n, ...) -> (n, product of the rest), as weir_reshape. */
WEIR_API weir_tensor *weir_flatten(weir_tensor *x);

/* A view of any dtype; axes[i] is the axis of x that becomes axis i, NULL reverses all. ERR_INVALID
 * unless axes is a permutation of the axes of x. */
WEIR_API weir_tensor *weir_transpose(weir_tensor *x, const int *axes);

/* A view that repeats x in the shape of desc, whose dtype must be x's (else ERR_DTYPE). */
WEIR_API weir_tensor *weir_broadcast_to(weir_tensor *x, weir_desc desc);

/* A dense copy; same shape, any dtype. */
WEIR_API weir_tensor *weir_copy(weir_tensor *x);

/* The elements of x in another type, any to any: float to integer truncates (0 where it does not
 * fit), to bool is x != 0, to f16 and bf16 rounds once, to nearest even. */
WEIR_API weir_tensor *weir_cast(weir_tensor *x, weir_dtype dtype);

/* The bits of x as those of elements of another type of the same size (else ERR_DTYPE); bool is
 * neither taken nor made. No gradient passes. */
WEIR_API weir_tensor *weir_bit_cast(weir_tensor *x, weir_dtype dtype);

/* A view of any dtype that gradients do not pass. */
WEIR_API weir_tensor *weir_detach(weir_tensor *x);

/* New tensors of shape and dtype desc on d. fill: value everywhere, any dtype; fill_int without
 * rounding (ERR_INVALID if the type cannot hold the value). uniform: floats and halves in [lo, hi),
 * lo <= hi, which f16 and bf16 may round up to hi. normal: floats and halves with this mean and
 * standard deviation stddev >= 0. The last two draw from the device's random stream at each run. */
WEIR_API weir_tensor *weir_fill(weir_device *d, weir_desc desc, double value);
WEIR_API weir_tensor *weir_fill_int(weir_device *d, weir_desc desc, int64_t value);
WEIR_API weir_tensor *weir_uniform(weir_device *d, weir_desc desc, double lo, double hi);
WEIR_API weir_tensor *weir_normal(weir_device *d, weir_desc desc, double mean, double stddev);

/* 1 with probability p, 0 <= p <= 1, else 0: floats and halves of shape desc. */
WEIR_API weir_tensor *weir_bernoulli(weir_device *d, weir_desc desc, double p);

/* A vector (count): start, start + step, ...; any type but bool. Computed in f64, then converted.
 * ERR_INVALID if the type cannot hold the first or the last. */
WEIR_API weir_tensor *weir_arange(weir_device *d, weir_dtype dtype, int64_t count, double start,
                                  double step);

/* ---- parts, joins and repeats: any dtype; an axis may be negative, -1 is the last ----
 *
 * Arrays of sizes have an element for each axis of x. ERR_INVALID for an axis that x does not have,
 * ERR_SHAPE for parts that x does not have. */

/* NumPy's x[begin:end:step] on every axis: negative begin and end count from the end, both are
 * clipped. NULL: from the first element (the last, if the step is negative), to the end, by 1;
 * INT64_MAX and INT64_MIN reach the end. ERR_INVALID for a step of 0. A view if all steps are
 * positive, else a copy. */
WEIR_API weir_tensor *weir_slice(weir_tensor *x, const int64_t *begin, const int64_t *end,
                                 const int64_t *step);

/* A view of size elements of one axis, from begin on. */
WEIR_API weir_tensor *weir_narrow(weir_tensor *x, int axis, int64_t begin, int64_t size);

/* Cuts an axis into n views, out[0] to out[n - 1], of size[i] elements; size NULL: equal parts.
 * ERR_SHAPE unless the parts make up the whole axis. */
WEIR_API weir_status weir_split(weir_tensor *x, int axis, int n, const int64_t *size,
                                weir_tensor **out);

/* n tensors of one dtype, one after the other along an axis, in which alone their shapes may
 * differ; stack: n tensors of one shape along a new axis. */
WEIR_API weir_tensor *weir_concat(int n, weir_tensor *const *x, int axis);
WEIR_API weir_tensor *weir_stack(int n, weir_tensor *const *x, int axis);

/* Views without the axis, which must have size 1, and with a new axis of size 1 there. */
WEIR_API weir_tensor *weir_squeeze(weir_tensor *x, int axis);
WEIR_API weir_tensor *weir_unsqueeze(weir_tensor *x, int axis);

/* weir_broadcast_to the ndim sizes dim; -1 keeps the size of an axis. */
WEIR_API weir_tensor *weir_expand(weir_tensor *x, int ndim, const int64_t *dim);

/* tile: the whole x times[i] times along axis i (NumPy's tile). repeat: each element `times` times
 * in a row along one axis (NumPy's repeat). 0 and more. */
WEIR_API weir_tensor *weir_tile(weir_tensor *x, const int64_t *times);
WEIR_API weir_tensor *weir_repeat(weir_tensor *x, int axis, int64_t times);

/* What weir_pad fills with. */
typedef enum weir_pad_mode {
    WEIR_PAD_CONSTANT,      /* value */
    WEIR_PAD_REFLECT,       /* mirrored at the outermost element, which is not repeated */
    WEIR_PAD_EDGE           /* the outermost element */
} weir_pad_mode;

/* x with before[i] elements before and after[i] elements behind axis i, each 0 or more; value is
 * read by WEIR_PAD_CONSTANT alone. ERR_SHAPE if an axis is too short to be mirrored or continued.
 */
WEIR_API weir_tensor *weir_pad(weir_tensor *x, const int64_t *before, const int64_t *after,
                               weir_pad_mode mode, double value);

/* Nearest neighbour: x (n,c,h,w) -> (n, c, h fh, w fw), factors 1 and more. */
WEIR_API weir_tensor *weir_upsample(weir_tensor *x, int64_t fh, int64_t fw);

/* The same size with factors fh and fw, of floats and halves, interpolated between the four nearest
 * pixels (PyTorch's bilinear with align_corners off): pixel i of an axis lies at
 * (i + 1/2) / f - 1/2 of x; the outermost pixels continue beyond the edge. */
WEIR_API weir_tensor *weir_upsample_bilinear(weir_tensor *x, int64_t fh, int64_t fw);

/* (n, b b c, h, w) -> (n, c, b h, b w) and back, b 1 or more; channel (i b + j) c + k is pixel (i,
 * j) of channel k of each block of b x b pixels. ERR_SHAPE if the sizes do not divide. */
WEIR_API weir_tensor *weir_depth_to_space(weir_tensor *x, int64_t b);
WEIR_API weir_tensor *weir_space_to_depth(weir_tensor *x, int64_t b);

/* ---- indexing: indices are i32 or i64 of any shape ----
 *
 * An index outside 0..v-1, negative ones included, is ERR_INDEX; nothing outside a tensor is ever
 * read or written. On the CPU the call fails (graph off), or weir_graph_run does: its sentence says
 * which op, index and range, and how many of the run's updates were done by then. A card detects it
 * in the kernel, skips the row (NaN where rows are read) and goes on; the next weir_read or
 * weir_device_sync on the device fails, once, with that sentence. */

/* table (v, d...), index (...) -> (..., d...): rows of the table, of any dtype; an embedding. */
WEIR_API weir_tensor *weir_gather(weir_tensor *table, weir_tensor *index);

/* x at index along an axis (negative: counted from the end), NumPy's take_along_axis: index has the
 * axes of x, each but that one of x's size, or 1 and repeated. Any dtype. */
WEIR_API weir_tensor *weir_take_along(weir_tensor *x, weir_tensor *index, int axis);

/* The k largest, or smallest, elements along an axis (negative: counted from the end) in that
 * order, of any dtype, and their places in it (i64); values or places NULL: without them. Equal
 * ones stay in the order that they have; a NaN is larger than every number. k as large as the axis
 * sorts it. The values have a gradient. Each element is compared with each of its axis: ERR_SHAPE
 * for one of more than 4096 elements, or of none; ERR_INVALID unless k is 0 to its size. */
WEIR_API weir_status weir_topk(weir_tensor *x, int64_t k, int axis, bool largest,
                               weir_tensor **values, weir_tensor **places);

/* x (v, d...) plus update (..., d...) at the rows index (...), one after the other where an index
 * comes twice; any type but bool. */
WEIR_API weir_tensor *weir_scatter_add(weir_tensor *x, weir_tensor *index, weir_tensor *update);

/* index (...) -> (..., depth) of the given dtype: 1 at the index, 0 elsewhere. No gradient.
 * ERR_SHAPE if depth is negative. */
WEIR_API weir_tensor *weir_one_hot(weir_tensor *index, int64_t depth, weir_dtype dtype);

/* ---- matrices: floats and halves; all operands have one dtype, which the result has, too ---- */

/* (...,m,k) (...,k,n) -> (...,m,n), leading axes broadcast. A vector a counts as one row, a vector
 * b as one column, without that axis in the result. matmul_t transposes a if ta, b if tb. */
WEIR_API weir_tensor *weir_matmul(weir_tensor *a, weir_tensor *b);
WEIR_API weir_tensor *weir_matmul_t(weir_tensor *a, weir_tensor *b, bool ta, bool tb);

/* alpha a b + beta c, with c broadcast to the shape of the product, or NULL; a and b as in
 * weir_matmul_t. */
WEIR_API weir_tensor *weir_gemm(weir_tensor *a, weir_tensor *b, weir_tensor *c, double alpha,
                                double beta, bool ta, bool tb);

/* Einstein's summation of a, or of a and b: "bij,bkj->bik". A term lists the labels of its axes,
 * all different letters; labels missing in the result are summed over, the others may be in any
 * order. A label has one size (else ERR_SHAPE). A product with a sum is one batched weir_matmul. b
 * NULL: one operand. ERR_INVALID for an equation that cannot be read. */
WEIR_API weir_tensor *weir_einsum(const char *equation, weir_tensor *a, weir_tensor *b);

/* Which keys row i of t queries sees where there are n of them: all; 0 to i (PyTorch's is_causal);
 * 0 to i + n - t, so that the last query sees all (queries that follow cached keys). */
typedef enum weir_attention_causal {
    WEIR_ATTENTION_ALL,
    WEIR_ATTENTION_FROM_FIRST,
    WEIR_ATTENTION_FROM_LAST
} weir_attention_causal;

/* Of attention; {0} lacks the number of heads. */
typedef struct weir_attention_options {
    int64_t               heads;        /* of q; must be 1 or more */
    int64_t               kv_heads;     /* of k and v, which divide heads; 0: heads. Head i of q
                                         * reads head i / (heads / kv_heads) */
    weir_attention_causal causal;       /* 0: a row of q sees all rows of k */
    double                scale;        /* of scores; 0 means 1 / sqrt(d) */
    double                dropout;      /* probability of leaving out a weight; 0: none */
    weir_tensor          *mask;         /* NULL, or broadcasts to (b,heads,t,s): bool, true where a
                                         * row of q sees a row of k; or a float that is added to
                                         * the scaled score, of q's type, or f32 beside halves */
    weir_tensor          *lengths;      /* NULL, or (b) i32 or i64: how many rows of k and v each
                                         * batch has; below 0 is 0, above s is s */
} weir_attention_options;

/* Scaled dot-product attention (Vaswani et al. 2017): softmax(q k^T / sqrt(d)) v for each of the
 * heads, which lie side by side in the last axis: q (b,t,heads*d), k (b,s,heads*d),
 * v (b,s,heads*e) -> (b,t,heads*e). causal: WEIR_ATTENTION_FROM_FIRST. Neither scores nor
 * probabilities are stored. Views whose last axis has adjacent elements, such as the parts of a
 * projection, are read in place.
 *
 * Rows of k and v that causal or lengths hide, NaN included, affect neither result nor gradients.
 * A mask hides by weights of 0: v must be finite there. A row of q that sees nothing gives 0, and
 * gradients of 0. Gradients reach a float mask, too. ERR_INVALID if heads is below 1, kv_heads does
 * not divide it, or the dropout is not in [0, 1]; ERR_SHAPE if the columns do not divide into heads
 * or a mask does not broadcast; ERR_DTYPE for other types of mask and lengths. */
WEIR_API weir_tensor *weir_attention(weir_tensor *q, weir_tensor *k, weir_tensor *v, int64_t heads,
                                     bool causal);
WEIR_API weir_tensor *weir_attention_with(weir_tensor *q, weir_tensor *k, weir_tensor *v,
                                          const weir_attention_options *options);

/* The same of queries, keys and values side by side, as one projection returns them:
 * qkv (b,t,(heads + 2 kv_heads)*d) -> (b,t,heads*d). Its gradient is one tensor, too. */
WEIR_API weir_tensor *weir_attention_packed(weir_tensor *qkv,
                                            const weir_attention_options *options);

/* x w^T + bias: x (n,i), w (o,i), bias (o) or NULL -> (n,o). */
WEIR_API weir_tensor *weir_linear(weir_tensor *x, weir_tensor *w, weir_tensor *bias);

/* ---- recurrent networks: floats and halves, x (steps, n, columns) ---- */

/* Of one layer in one direction. LSTM: 4 gates in the order i, f, g, o; GRU: 3, r, z, n. */
typedef struct weir_rnn_weights {
    weir_tensor *w_ih, *w_hh;       /* (gates*hidden, columns of x), (gates*hidden, hidden) */
    weir_tensor *b_ih, *b_hh;       /* (gates*hidden) or NULL */
} weir_rnn_weights;

/* Depth, directions and the lengths of sequences. */
typedef struct weir_rnn_options {
    int          layers;            /* number of layers; 0 means 1 */
    bool         bidirectional;     /* outputs of both directions side by side */
    weir_tensor *mask;              /* NULL, or (steps, n) of bool or x's type: nonzero while a
                                     * sequence lasts, 0 after its end: the state stays, outputs
                                     * are 0, x is not read (it may be NaN). Without a gradient */
    weir_tensor *lengths;           /* NULL, or instead of mask (n) of i32 or i64: the steps of
                                     * each sequence, at most those of x */
} weir_rnn_options;

/* Long short-term memory (Hochreiter and Schmidhuber 1997) and gated recurrent units (Cho et al.
 * 2014) by PyTorch's definitions. The result is the outputs of the last layer, (steps, n, hidden)
 * or (steps, n, 2*hidden). w: one per layer and direction, directions side by side. h0, c0: first
 * states (layers*directions, n, hidden), NULL: 0. The last states, of the same shape, go to *hn and
 * *cn unless these are NULL; they are borrowed like the result. */
WEIR_API weir_tensor *weir_lstm(weir_tensor *x, const weir_rnn_weights *w, weir_tensor *h0,
                                weir_tensor *c0, const weir_rnn_options *options, weir_tensor **hn,
                                weir_tensor **cn);
WEIR_API weir_tensor *weir_gru(weir_tensor *x, const weir_rnn_weights *w, weir_tensor *h0,
                               const weir_rnn_options *options, weir_tensor **hn);

/* ---- convolution and pooling: floats and halves; all operands have one dtype ----
 *
 * Sizes are in pixels. Along each axis the result has
 *
 *     floor((size + pad + pad_end - dilation (kernel - 1) - 1) / stride) + 1
 *
 * pixels, where pad_end is pad unless `asymmetric` is set. ERR_SHAPE if the window does not fit;
 * ERR_INVALID for a negative number, or one above 2^31 - 1. Arrays of two are (height, width). */

/* Of a convolution; {0} is stride 1, no padding, one group. */
typedef struct weir_conv2d_options {
    int64_t stride[2], pad[2], dilation[2];     /* stride and dilation 0 mean 1 */
    int64_t groups;                             /* of channels; 0 means 1 */
    bool    asymmetric;                         /* pad is at the top and left only, */
    int64_t pad_end[2];                         /* this one at the bottom and right; default 0 */
} weir_conv2d_options;

/* Cross-correlation of x (n,c,h,w) with the filters w (out, c/groups, kh, kw), plus bias (out) or
 * NULL -> (n, out, oh, ow). ERR_SHAPE if groups does not divide c and out. */
WEIR_API weir_tensor *weir_conv2d(weir_tensor *x, weir_tensor *w, weir_tensor *bias,
                                  const weir_conv2d_options *options);

/* Of the convolution whose gradient this is; {0} is stride 1, no padding, one group. */
typedef struct weir_conv_transpose2d_options {
    int64_t stride[2], pad[2], dilation[2];     /* stride and dilation 0 mean 1 */
    int64_t output_pad[2];                      /* more rows and columns: 0 to stride - 1 */
    int64_t groups;                             /* of channels; 0 means 1 */
} weir_conv_transpose2d_options;

/* Transposed convolution: x (n,c,h,w), w (c, out/groups, kh, kw), bias (out) or NULL ->
 * (n, out, oh, ow) with oh = (h - 1) stride - 2 pad + dilation (kh - 1) + 1 + output_pad, and ow
 * alike. ERR_INVALID unless output_pad is less than the stride. */
WEIR_API weir_tensor *weir_conv_transpose2d(weir_tensor *x, weir_tensor *w, weir_tensor *bias,
                                            const weir_conv_transpose2d_options *options);

/* As weir_conv2d_options, along one axis. */
typedef struct weir_conv1d_options {
    int64_t stride, pad, dilation, groups;      /* 0 means 1, but for pad */
} weir_conv1d_options;

/* x (n,c,l), w (out, c/groups, k), bias (out) or NULL -> (n, out, ol), ol by the formula above. */
WEIR_API weir_tensor *weir_conv1d(weir_tensor *x, weir_tensor *w, weir_tensor *bias,
                                  const weir_conv1d_options *options);

/* Of windows; kernel must be 1 or more. */
typedef struct weir_pool2d_options {
    int64_t kernel[2], stride[2], pad[2];       /* stride 0: the kernel; pad less than the kernel */
    bool    exclude_pad;                        /* average: divide by the pixels inside the image */
    bool    asymmetric;                         /* pad is at the top and left only, */
    int64_t pad_end[2];                         /* this one at the bottom and right; default 0 */
} weir_pool2d_options;

/* The largest element, the average of each window of images (n,c,h,w) -> (n,c,oh,ow). The gradient
 * of max goes to the first maximum. options must not be NULL; max: at most 255 pixels a
 * window, else ERR_INVALID. */
WEIR_API weir_tensor *weir_max_pool2d(weir_tensor *x, const weir_pool2d_options *options);
WEIR_API weir_tensor *weir_avg_pool2d(weir_tensor *x, const weir_pool2d_options *options);

/* The average of each channel: (n,c,h,w) -> (n,c,1,1). */
WEIR_API weir_tensor *weir_global_avg_pool2d(weir_tensor *x);

/* As weir_pool2d_options, along one axis. */
typedef struct weir_pool1d_options {
    int64_t kernel, stride, pad;                /* stride 0: the kernel; pad less than the kernel */
    bool    exclude_pad;                        /* average: divide by the elements inside */
} weir_pool1d_options;

/* x (n,c,l) -> (n,c,ol), ol by the formula above. options must not be NULL. */
WEIR_API weir_tensor *weir_max_pool1d(weir_tensor *x, const weir_pool1d_options *options);
WEIR_API weir_tensor *weir_avg_pool1d(weir_tensor *x, const weir_pool1d_options *options);

/* ---- normalisation: floats; the result has the shape and dtype of x ----
 *
 * Halves are normalised in f32; beside them scale, bias and running statistics are halves or f32.
 */

/* Of batch normalisation. */
typedef struct weir_batch_norm_options {
    double eps;             /* added to the variance, 0 or more; 0: 1e-5 unless exact */
    double momentum;        /* weight of the new statistics, 0 to 1; 0: 0.1 unless exact */
    bool   train;           /* by the batch's statistics, which update the running ones; else by
                             * the running ones */
    bool   exact;           /* 0 is 0, not a default */
} weir_batch_norm_options;

/* All defaults as numbers: eps 1e-5, momentum 0.1; exact. */
static inline weir_batch_norm_options weir_batch_norm_options_default(void)
{
    return (weir_batch_norm_options){1e-5, 0.1, false, true};
}

/* Batch normalisation over all axes but 1 (Ioffe and Szegedy 2015): x (n,c) or (n,c,...), the other
 * tensors (c); running_mean and running_var are states. In training each channel needs two elements
 * (else ERR_SHAPE). Recorded as statistics, apply and an update of the running statistics (unbiased
 * variance), which are NaN for a channel with an infinity. */
WEIR_API weir_tensor *weir_batch_norm(weir_tensor *x, weir_tensor *scale, weir_tensor *bias,
                                      weir_tensor *running_mean, weir_tensor *running_var,
                                      const weir_batch_norm_options *options);

/* The update of running statistics alone, f32 or f64: running += momentum (new - running) for mean
 * and variance (c), or for each row of (n,c), one after another. */
WEIR_API weir_status weir_running_update(weir_tensor *running_mean, weir_tensor *running_var,
                                         weir_tensor *mean, weir_tensor *var, double momentum);

/* Layer normalisation (Ba et al. 2016) over the last axes of x, which are the shape of scale and
 * bias; group normalisation (Wu and He 2018) of the channels of x (n,c) or (n,c,h,w) in `groups`
 * equal groups, scale and bias (c); RMS normalisation (Zhang and Sennrich 2019), without mean and
 * bias, over the axes of scale. eps is added to the variance, 0 or more; 0: 1e-5. ERR_INVALID if
 * groups does not divide c. Recorded as reductions and an element-wise apply. */
WEIR_API weir_tensor *weir_layer_norm(weir_tensor *x, weir_tensor *scale, weir_tensor *bias,
                                      double eps);
WEIR_API weir_tensor *weir_group_norm(weir_tensor *x, int64_t groups, weir_tensor *scale,
                                      weir_tensor *bias, double eps);
WEIR_API weir_tensor *weir_rms_norm(weir_tensor *x, weir_tensor *scale, double eps);

/* Sets each element to 0, NaN included, with probability p and multiplies the others by 1/(1-p)
 * (Srivastava et al. 2014); 0 <= p <= 1; halves, too. The mask is never stored: the gradient draws
 * it again from the device's counter-based stream (Salmon et al. 2011). */
WEIR_API weir_tensor *weir_dropout(weir_tensor *x, double p);

/* Moves the random stream on to the start of a later part of 2^32 blocks (weir_random): 1 is the
 * next one. What is drawn from there on does not depend on how much was drawn in this part, so
 * processes that share out parts draw what one process does. In a graph that is done in each run:
 * then the whole run ends at the start of a part. ERR_INVALID for parts below 1. */
WEIR_API weir_status weir_random_advance(weir_device *d, int64_t parts);

/* ---- losses: floats; the result is a scalar of the inputs' dtype ----
 *
 * Losses of halves are computed in f32; their results are f32 if one input is, and inside
 * weir_autocast_begin. Targets of the inputs' dtype have a gradient, too. */

/* Mean softmax cross-entropy of logits (n,c) with class numbers (n) in i32 or i64, or with
 * probabilities (n,c) of the logits' dtype. Rows of class WEIR_IGNORED_CLASS have neither loss nor
 * gradient; the mean is over the other rows, and NaN with gradients of 0 if all are ignored.
 * weir_cross_entropy_ignore ignores the class `ignored` instead, which may be one of 0..c-1. Any
 * other class number outside 0..c-1 is ERR_INDEX: see indexing. */
#define WEIR_IGNORED_CLASS (-100)
WEIR_API weir_tensor *weir_cross_entropy(weir_tensor *logits, weir_tensor *target);
WEIR_API weir_tensor *weir_cross_entropy_ignore(weir_tensor *logits, weir_tensor *target,
                                                int64_t ignored);

/* Mean of (a - b)^2 over all elements; a and b have one shape (else ERR_SHAPE). */
WEIR_API weir_tensor *weir_mse_loss(weir_tensor *a, weir_tensor *b);

/* Mean binary cross entropy with targets in [0, 1] of the same shape: of logits, or of
 * probabilities, whose logs are at least -100 (in the targets' gradient too). */
WEIR_API weir_tensor *weir_bce_logits_loss(weir_tensor *logits, weir_tensor *target);
WEIR_API weir_tensor *weir_bce_loss(weir_tensor *p, weir_tensor *target);

/* Mean of max(0, margin - (pos - neg)) over all elements; pos and neg have one shape (else
 * ERR_SHAPE). */
WEIR_API weir_tensor *weir_ranking_loss(weir_tensor *pos, weir_tensor *neg, double margin);

/* a b / (max(|a|, eps) max(|b|, eps)) over the last axis: (..., k) and (..., k) -> (...). eps is
 * 0 or more; 0: 1e-8. */
WEIR_API weir_tensor *weir_cosine_similarity(weir_tensor *a, weir_tensor *b, double eps);

/* The number of rows of logits (n,c) whose largest entry is at the class number, target (n) in i32
 * or i64: a scalar i64. Without a gradient. */
WEIR_API weir_tensor *weir_count_correct(weir_tensor *logits, weir_tensor *target);

/* ---- updates: in place, never differentiated ----
 *
 * Updated tensors are params, states or inputs of f32 or f64 (else ERR_INVALID, ERR_DTYPE). grad
 * and the state of an optimiser have the shape and dtype of param (else ERR_SHAPE, ERR_DTYPE). A
 * failed update makes weir_graph_end fail, too.
 *
 * lr, the learning rate, is a scalar tensor of f32 or f64, or a vector of the rate and then the
 * numbers in the first line of the options, which it replaces without defaults (0 is 0): for values
 * that change between runs of a graph. A rate of NaN makes the update change nothing, so a graph
 * can skip a step by weir_where. */

/* Of SGD; {0} is plain gradient descent. */
typedef struct weir_sgd_options {
    double       momentum, weight_decay, dampening;     /* 0: none; weight_decay is L2 */
    bool         nesterov;  /* needs momentum and no dampening, else ERR_INVALID */
    weir_tensor *step;      /* scalar f64, or NULL; for single updates: optimisers have their own */
} weir_sgd_options;

/* One step of SGD. momentum_buffer: zero before the first step, NULL if momentum is 0 (with a
 * vector lr, NULL sets momentum to 0). step: number of updates of param including this one
 * (weir_increment it first): the first update is then not dampened, as in PyTorch. NULL: dampening
 * applies from the first step on, as in SINGA. */
WEIR_API weir_status weir_sgd_update(weir_tensor *param, weir_tensor *grad,
                                     weir_tensor *momentum_buffer, weir_tensor *lr,
                                     const weir_sgd_options *options);

/* Of Adam and AdamW. 0 <= beta1, beta2 < 1 and eps >= 0, else ERR_INVALID. */
typedef struct weir_adam_options {
    double beta1, beta2, eps, weight_decay;     /* 0 means 0.9, 0.999, 1e-8, none (L2 in Adam) */
    bool   exact;                               /* 0 is 0, not a default */
} weir_adam_options;

/* All defaults as numbers; exact. */
static inline weir_adam_options weir_adam_options_default(void)
{
    return (weir_adam_options){0.9, 0.999, 1e-8, 0, true};
}

/* One step of Adam (Kingma and Ba 2015). m, v: the moments, zero at first; step: scalar f64, number
 * of steps including this one (weir_increment it first). */
WEIR_API weir_status weir_adam_update(weir_tensor *param, weir_tensor *grad, weir_tensor *m,
                                      weir_tensor *v, weir_tensor *step, weir_tensor *lr,
                                      const weir_adam_options *options);

/* The same with decoupled weight decay: param *= 1 - lr weight_decay (Loshchilov, Hutter 2019). */
WEIR_API weir_status weir_adamw_update(weir_tensor *param, weir_tensor *grad, weir_tensor *m,
                                       weir_tensor *v, weir_tensor *step, weir_tensor *lr,
                                       const weir_adam_options *options);

/* Of Adagrad. */
typedef struct weir_adagrad_options {
    double eps, weight_decay;                   /* 0 means 1e-10, none; weight_decay is L2 */
    double lr_decay, initial_accumulator;       /* only for weir_adagrad_new; must be 0 here */
    bool   eps_inside;                          /* / sqrt(square + eps), not sqrt(square) + eps */
    bool   exact;                               /* 0 is 0, not a default */
} weir_adagrad_options;

/* All defaults as numbers; exact. */
static inline weir_adagrad_options weir_adagrad_options_default(void)
{
    return (weir_adagrad_options){1e-10, 0, 0, 0, false, true};
}

/* One step of Adagrad (Duchi et al. 2011). square: the sum of squared gradients. */
WEIR_API weir_status weir_adagrad_update(weir_tensor *param, weir_tensor *grad,
                                         weir_tensor *square, weir_tensor *lr,
                                         const weir_adagrad_options *options);

/* Of RMSProp. 0 <= alpha < 1, eps >= 0, momentum >= 0, else ERR_INVALID. */
typedef struct weir_rmsprop_options {
    double alpha, eps, weight_decay, momentum;  /* 0 means 0.99, 1e-8, none (L2), none */
    bool   centered;                            /* divide by the deviation, not the mean square */
    bool   eps_inside;                          /* as in weir_adagrad_options */
    bool   exact;                               /* 0 is 0, not a default */
} weir_rmsprop_options;

/* All defaults as numbers; exact. */
static inline weir_rmsprop_options weir_rmsprop_options_default(void)
{
    return (weir_rmsprop_options){0.99, 1e-8, 0, 0, false, false, true};
}

/* One step of RMSProp (Tieleman and Hinton 2012) as PyTorch defines it. square, momentum_buffer
 * (NULL when momentum is 0) and mean (NULL unless centered) are zero at first. */
WEIR_API weir_status weir_rmsprop_update(weir_tensor *param, weir_tensor *grad,
                                         weir_tensor *square, weir_tensor *momentum_buffer,
                                         weir_tensor *mean, weir_tensor *lr,
                                         const weir_rmsprop_options *options);

/* Learning-rate schedules inside a graph: every run sets lr, a scalar state or input, from n = step
 * (scalar f64; weir_increment it). step: base gamma^floor(n / every); exponential: base gamma^n;
 * cosine: from base to least in `steps` steps along half a cosine, then least (Loshchilov and
 * Hutter 2017). ERR_INVALID if a rate or gamma is negative or NaN, or if every or steps is below 1.
 */
WEIR_API weir_status weir_lr_step(weir_tensor *lr, weir_tensor *step, double base, double gamma,
                                  int64_t every);
WEIR_API weir_status weir_lr_exponential(weir_tensor *lr, weir_tensor *step, double base,
                                         double gamma);
WEIR_API weir_status weir_lr_cosine(weir_tensor *lr, weir_tensor *step, double base, double least,
                                    int64_t steps);

/* t += by, everywhere. */
WEIR_API weir_status weir_increment(weir_tensor *t, double by);

/* buffer += grad, which has the same shape and dtype: adds up gradients of several micro-batches.
 */
WEIR_API weir_status weir_accumulate(weir_tensor *buffer, weir_tensor *grad);

/* The same by pairwise summation, whose rounding errors grow with the logarithm of the number of
 * gradients: partial (levels, n), zero at first, is a binary counter. Its row l holds the sum of
 * 2^l gradients or zero, and the last row all that is more. count, a scalar f64, is the number of
 * gradients (n) that have been added before; weir_increment it afterwards. The sum of all is that
 * of the rows, added from row 0 on. */
WEIR_API weir_status weir_accumulate_tree(weir_tensor *partial, weir_tensor *grad,
                                          weir_tensor *count);

/* t = value everywhere, in its recorded order. weir_write_fill gives t its first value. */
WEIR_API weir_status weir_reset(weir_tensor *t, double value);

/* to = from, in its recorded order, for tensors of any dtype: from is cast as by weir_cast, may be
 * a view, is broadcast to the shape of `to` (else ERR_SHAPE), and must not share elements with it.
 * `to` need not have been written before. */
WEIR_API weir_status weir_assign(weir_tensor *to, weir_tensor *from);

#ifdef __cplusplus
}
#endif
#endif
