/* multiply.h - products of matrices inside kernels' run functions: planned once, then queued.
 *
 * A plan is cuBLASLt's where that is there and takes the product, else our own kernel's. WEIR_GEMM
 * = own or cublaslt asks for one of them. */
#ifndef WEIR_DEVICE_CUDA_KERNELS_MULTIPLY_H
#define WEIR_DEVICE_CUDA_KERNELS_MULTIPLY_H

#include "device/cuda/runtime/cuda.h"
#include "device/cuda/kernels/product.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where the matrices of a product are; bias and add where the product has them. add may be to. */
typedef struct weir_operands {
    const void *a, *b, *bias, *add;
    void       *to;
    void       *work;       /* of the plan's size */
} weir_operands;

typedef struct weir_multiply {
    weir_product       product;
    struct weir_lt    *lt;      /* blas.h; NULL: our own kernel */
    size_t             work;
    const char        *impl;
} weir_multiply;

/* Plans p, whose axes need not be merged, for calls like c. */
weir_status weir_multiply_plan(weir_device *d, const weir_call *c, const weir_product *p,
                               weir_multiply *out);
void        weir_multiply_drop(weir_multiply *m);

weir_status weir_multiply_run(const weir_kargs *k, const weir_multiply *m, const weir_operands *o);

/* gemm.cu: our own kernel. slices: weir_gemm_slices, or 1 where there is no workspace. */
weir_status weir_gemm_run(const weir_kargs *k, const weir_product *p, const weir_operands *o,
                          int64_t slices);

/* Each row of the results becomes the row at `bias`. */
weir_status weir_gemm_fill_bias(const weir_kargs *k, const weir_product *p, const void *bias,
                                void *to);

#ifdef __cplusplus
}
#endif

#endif
