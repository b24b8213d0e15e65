/* gemm.h - matrix products by our own kernel. */
#ifndef WEIR_DEVICE_CUDA_KERNELS_GEMM_H
#define WEIR_DEVICE_CUDA_KERNELS_GEMM_H

#include "device/cuda/lib/product.h"
#include "device/cuda/runtime/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Queues a product. slices: weir_gemm_slices, or 1 without a workspace. */
weir_status weir_gemm_run(const weir_kargs *k, const weir_product *p, const weir_operands *o,
                          int64_t slices);

/* Queues a fill of each row of the results with the row at `bias`. */
weir_status weir_gemm_fill_bias(const weir_kargs *k, const weir_product *p, const void *bias,
                                void *to);

#ifdef __cplusplus
}
#endif

#endif
