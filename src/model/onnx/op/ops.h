/* ops.h - the functions of the table's rows, and what several of them share.
 * Defined beside it; shared.c has the helpers, index.c, matrix.c and pool.c some. */
#ifndef WEIR_MODEL_ONNX_OPS_H
#define WEIR_MODEL_ONNX_OPS_H

#include "model/onnx/call.h"

#define NODE(op, since, until, known, fn) weir_status weir_onnx_##fn(weir_onnx_call *c);
#define DRAW(op, since, until, known, fn) weir_status weir_onnx_##fn(weir_onnx_call *c);
#define BODY(op, since, until, known, fn) weir_status weir_onnx_##fn(weir_onnx_call *c);
#include "model/onnx/onnx.def"
#undef NODE
#undef DRAW
#undef BODY

/* A scalar of the type of `like`, on its device. */
weir_tensor *weir_onnx_scalar(weir_onnx_call *c, weir_dtype t, double v);

/* start, start + step, ... (i64) along one axis of ndim, the other axes of size 1. */
weir_tensor *weir_onnx_ramp(weir_onnx_call *c, int64_t count, int64_t step, int ndim, int axis);

/* Indices with negative ones counted from n. */
weir_tensor *weir_onnx_wrap(weir_onnx_call *c, weir_tensor *index, int64_t n);

/* x in another type, x itself if it has the type; x without changes as a result of its own. */
weir_tensor *weir_onnx_as(weir_tensor *x, weir_dtype t);
weir_tensor *weir_onnx_same(weir_tensor *x);

/* x with its axis replaced by those of the index, which is inside. */
weir_tensor *weir_onnx_gather_axis(weir_tensor *x, weir_tensor *index, int axis);

/* Flat numbers of elements: that of the index along its axis, of the place along the others; *all:
 * how many elements d has. In index.c. */
weir_status weir_onnx_flat_elements(weir_onnx_call *c, const weir_desc *d, weir_tensor *index,
                                    weir_tensor **flat, int64_t *all);

/* Flat numbers of the rows of the first `batch` and the next k axes; *rows: the tensor's shape with
 * these axes as one. In index.c. */
weir_status weir_onnx_flat_rows(weir_onnx_call *c, const weir_desc *d, weir_tensor *index,
                                int64_t batch, weir_tensor **flat, weir_desc *rows);

/* Pooling and convolution over windows that Weir's own lack; in pool.c. */
weir_status weir_onnx_pool_windows(weir_onnx_call *c, bool largest);
weir_status weir_onnx_conv_volume(weir_onnx_call *c);
weir_status weir_onnx_conv_transpose_volume(weir_onnx_call *c);

/* A convolution over one or two axes with the attributes of the node; in matrix.c. */
weir_status weir_onnx_conv_of(weir_onnx_call *c, weir_tensor *x, weir_tensor *filters,
                              weir_tensor *bias, weir_tensor **y);

/* (c) -> (1, c, 1, ...) of ndim axes. */
weir_tensor *weir_onnx_per_channel(weir_tensor *t, int64_t channels, int ndim);

/* eps as the options of norms take it: 0 stays 0. */
double weir_onnx_eps(double eps);

/* The product of dims [from, to). */
int64_t weir_onnx_product(const weir_desc *d, int from, int to);

#endif
