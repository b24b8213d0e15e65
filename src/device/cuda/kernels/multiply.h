/* multiply.h - matrix products inside the run functions of kernels: planned once, then queued.
 *
 * A plan uses cuBLASLt if it is found and supports the product, else our own kernel. WEIR_GEMM =
 * own or cublaslt requests one of them. */
#ifndef WEIR_DEVICE_CUDA_KERNELS_MULTIPLY_H
#define WEIR_DEVICE_CUDA_KERNELS_MULTIPLY_H

#include "device/cuda/lib/product.h"
#include "device/cuda/runtime/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_multiply {
    weir_product       product;
    struct weir_lt    *lt;      /* blas.h; NULL: our own kernel */
    size_t             work;
    const char        *impl;
} weir_multiply;

/* Plans product p, whose axes need not be merged, for calls like c. */
weir_status weir_multiply_plan(weir_device *d, const weir_call *c, const weir_product *p,
                               weir_multiply *out);
void        weir_multiply_drop(weir_multiply *m);

weir_status weir_multiply_run(const weir_kargs *k, const weir_multiply *m, const weir_operands *o);

#ifdef __cplusplus
}
#endif

#endif
