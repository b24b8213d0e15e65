/* blas_real.c - the installed cuBLASLt accepts what blas.c gives it: descriptors, layouts and
 * preferences need no card. */
#include "check.h"
#include "device/cuda/runtime/libs.h"

/* NULL, with a message, if the toolkit has no cuBLASLt. */
static const weir_cuda_lib_blas *library(void)
{
    const weir_cuda_lib_blas *lib;
    if (weir_cuda_open_blas(&lib) == WEIR_OK)
        return lib;
    printf("%s: not checked\n", weir_error());
    return NULL;
}

#define TAKEN(...) CHECK((__VA_ARGS__) == CUBLAS_STATUS_SUCCESS)

static void describe(const weir_cuda_lib_blas *lib, cublasComputeType_t compute,
                     cudaDataType_t scale)
{
    cublasLtMatmulDesc_t d = NULL;
    const int32_t        turned = CUBLAS_OP_T;
    const uint32_t       bias = CUBLASLT_EPILOGUE_BIAS;
    const void *const    at = (const void *)(uintptr_t)256;
    TAKEN(lib->cublasLtMatmulDescCreate(&d, compute, scale));
    CHECK_OR_RETURN(d != NULL);
    TAKEN(lib->cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_TRANSA, &turned,
                                              sizeof turned));
    TAKEN(lib->cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_TRANSB, &turned,
                                              sizeof turned));
    TAKEN(lib->cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_EPILOGUE, &bias,
                                              sizeof bias));
    TAKEN(lib->cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &at,
                                              sizeof at));
    CHECK(lib->cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_TRANSA, &turned, 1) ==
          CUBLAS_STATUS_INVALID_VALUE);
    TAKEN(lib->cublasLtMatmulDescDestroy(d));
}

CASE(descriptors)
{
    const weir_cuda_lib_blas *const lib = library();
    if (!lib)
        return;
    describe(lib, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    describe(lib, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F);
    describe(lib, CUBLAS_COMPUTE_64F, CUDA_R_64F);
}

CASE(layouts)
{
    static const cudaDataType_t     type[] = {CUDA_R_32F, CUDA_R_64F, CUDA_R_16F, CUDA_R_16BF};
    const weir_cuda_lib_blas *const lib = library();
    const int32_t                   batch = 7;
    const int64_t                   step = 0;
    for (int i = 0; i < 4 && lib; i++) {
        cublasLtMatrixLayout_t m = NULL;
        TAKEN(lib->cublasLtMatrixLayoutCreate(&m, type[i], 5, 3, 5));
        CHECK_OR_RETURN(m != NULL);
        TAKEN(lib->cublasLtMatrixLayoutSetAttribute(m, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                                    sizeof batch));
        TAKEN(lib->cublasLtMatrixLayoutSetAttribute(
            m, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step));
        TAKEN(lib->cublasLtMatrixLayoutDestroy(m));
    }
}

CASE(preferences)
{
    const weir_cuda_lib_blas *const lib = library();
    cublasLtMatmulPreference_t      p = NULL;
    const uint64_t                  limit = 4 << 20;
    const uint32_t                  schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, align = 4;
    if (!lib)
        return;
    TAKEN(lib->cublasLtMatmulPreferenceCreate(&p));
    CHECK_OR_RETURN(p != NULL);
    TAKEN(lib->cublasLtMatmulPreferenceSetAttribute(p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                    &limit, sizeof limit));
    TAKEN(lib->cublasLtMatmulPreferenceSetAttribute(p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                    &schemes, sizeof schemes));
    for (int i = CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
         i <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES; i++)
        TAKEN(lib->cublasLtMatmulPreferenceSetAttribute(
            p, (cublasLtMatmulPreferenceAttributes_t)i, &align, sizeof align));
    TAKEN(lib->cublasLtMatmulPreferenceDestroy(p));
}
