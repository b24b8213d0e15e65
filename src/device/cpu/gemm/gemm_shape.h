/* gemm_shape.h - the shape of a product, and the implementation that the environment requests. */
#ifndef WEIR_DEVICE_CPU_GEMM_GEMM_SHAPE_H
#define WEIR_DEVICE_CPU_GEMM_GEMM_SHAPE_H

#include "weir/base.h"

/* C = op(A) op(B). ta: A is stored k x m; tb: B is stored n x k. */
typedef struct weir_gemm_shape {
    weir_dtype dtype; /* f32 or f64 */
    bool       ta, tb;
    int64_t    m, n, k;
    int64_t    lda, ldb, ldc; /* elements from row to row as stored */
} weir_gemm_shape;

/* The implementation that WEIR_GEMM or WEIR_CONV = own | openblas | onednn requests. It is used
 * wherever it supports the call; a library that is missing altogether is an error. */
typedef enum weir_gemm_want {
    WEIR_GEMM_ANY,
    WEIR_GEMM_OWN,
    WEIR_GEMM_OPENBLAS,
    WEIR_GEMM_ONEDNN
} weir_gemm_want;

#endif
