/* openblas_product.h - a matrix product by OpenBLAS, divided among our threads. */
#ifndef WEIR_DEVICE_CPU_GEMM_OPENBLAS_PRODUCT_H
#define WEIR_DEVICE_CPU_GEMM_OPENBLAS_PRODUCT_H

#include "device/cpu/gemm/gemm_shape.h"
#include "device/cpu/gemm/openblas.h"

/* True if the sizes fit: OpenBLAS uses int. */
bool weir_openblas_fits(const weir_gemm_shape *s);

/* To be called before products with `t` by one call of a kernel. ERR_NOMEM if threads cannot
 * start. */
weir_status weir_openblas_ready(const weir_openblas *b, const weir_threads *t);

/* C = op(A) op(B), or C += op(A) op(B) if `add`, for the operands of *s, f32 or f64. */
void weir_openblas_multiply(const weir_openblas *blas, const weir_gemm_shape *s, const void *a,
                            const void *b, void *c, bool add, weir_threads *t);

#endif
