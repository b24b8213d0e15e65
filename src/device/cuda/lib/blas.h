/* blas.h - matrix products by cuBLASLt. */
#ifndef WEIR_DEVICE_CUDA_LIB_BLAS_H
#define WEIR_DEVICE_CUDA_LIB_BLAS_H

#include "device/cuda/lib/product.h"
#include "device/cuda/runtime/context.h"

typedef struct weir_lt weir_lt;

/* *out is NULL where cuBLASLt is not there or does not take the product, whose axes are merged;
 * must: that is an error. Sizes, alignments and the algorithm are settled here. */
weir_status weir_lt_plan(weir_device *d, const weir_call *c, const weir_product *p, bool must,
                         weir_lt **out);
void        weir_lt_free(weir_lt *lt);      /* NULL is fine */

size_t      weir_lt_work(const weir_lt *lt);
const char *weir_lt_impl(const weir_lt *lt);

/* Are the matrices aligned as the plan assumed? */
bool weir_lt_fits(const weir_lt *lt, const weir_operands *o);

/* Must each row of the results be the bias before the product is run, which then adds to it? */
bool weir_lt_adds_to_bias(const weir_lt *lt);

weir_status weir_lt_run(const weir_kargs *k, const weir_lt *lt, const weir_product *p,
                        const weir_operands *o);

/* What the device holds of it goes. */
void weir_cuda_blas_close(weir_cuda_context *c);

#endif
