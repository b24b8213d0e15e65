/* blas.h - matrix products by cuBLASLt. */
#ifndef WEIR_DEVICE_CUDA_LIB_BLAS_H
#define WEIR_DEVICE_CUDA_LIB_BLAS_H

#include "device/cuda/lib/product.h"
#include "device/cuda/runtime/context.h"

typedef struct weir_lt weir_lt;

/* Plans a product whose axes are merged. *out is NULL if cuBLASLt is missing or does not support
 * the product; must: that is a failure. Sizes, alignments and the algorithm are fixed here. */
weir_status weir_lt_plan(weir_device *d, const weir_call *c, const weir_product *p, bool must,
                         weir_lt **out);
void        weir_lt_free(weir_lt *lt);      /* NULL is fine */

size_t      weir_lt_work(const weir_lt *lt);
const char *weir_lt_impl(const weir_lt *lt);

/* True if the matrices are aligned as the plan assumes. */
bool weir_lt_fits(const weir_lt *lt, const weir_operands *o);

/* True if each row of the result must hold the bias before the run, which then adds to it. */
bool weir_lt_adds_to_bias(const weir_lt *lt);

weir_status weir_lt_run(const weir_kargs *k, const weir_lt *lt, const weir_product *p,
                        const weir_operands *o);

/* Frees the device's cuBLASLt state. */
void weir_cuda_blas_close(weir_cuda_context *c);

#endif
