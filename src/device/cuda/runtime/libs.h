/* libs.h - libraries that are opened at run time: the driver, NVRTC, cuBLASLt, cuDNN.
 *
 *     const weir_cuda_lib_blas *blas;
 *     WEIR_TRY(weir_cuda_open_blas(&blas));
 *     blas->cublasLtMatmul(...);
 *
 * Each is opened when it is first asked for, once per process, by whichever thread comes first, and
 * never closed. The functions are those of libs.def with the types of the real headers. */
#ifndef WEIR_DEVICE_CUDA_RUNTIME_LIBS_H
#define WEIR_DEVICE_CUDA_RUNTIME_LIBS_H

#include <cublasLt.h>
#include <cuda.h>
#include <cudnn_backend.h>
#include <nvrtc.h>

#include "weir/base.h"

/* A member has the name of a function, which C++ wants to be told apart. */
#ifdef __cplusplus
extern "C" {
#define WEIR_CUDA_POINTER(function) __typeof__(&::function) function;
#else
#define WEIR_CUDA_POINTER(function) __typeof__(&function) function;
#endif

typedef struct weir_cuda_lib_driver {
#define DRIVER(function) WEIR_CUDA_POINTER(function)
#include "device/cuda/runtime/libs.def"
} weir_cuda_lib_driver;

typedef struct weir_cuda_lib_nvrtc {
#define NVRTC(function) WEIR_CUDA_POINTER(function)
#include "device/cuda/runtime/libs.def"
} weir_cuda_lib_nvrtc;

typedef struct weir_cuda_lib_blas {
#define BLAS(function) WEIR_CUDA_POINTER(function)
#include "device/cuda/runtime/libs.def"
} weir_cuda_lib_blas;

typedef struct weir_cuda_lib_dnn {
#define DNN(function) WEIR_CUDA_POINTER(function)
#include "device/cuda/runtime/libs.def"
} weir_cuda_lib_dnn;

/* Where it is looked for: the folders of $WEIR_CUDA_LIBS (set apart by ':'), where the system
 * looks, the toolkit that Weir was built with, the wheels of the Python in $VIRTUAL_ENV; emulated:
 * $WEIR_CUDA_LIBS and the plugin's own folder alone. ERR_DEVICE with a sentence that names what is
 * missing and where it was looked for; the next call looks again. */
weir_status weir_cuda_open_driver(const weir_cuda_lib_driver **lib);
weir_status weir_cuda_open_nvrtc(const weir_cuda_lib_nvrtc **lib);
weir_status weir_cuda_open_blas(const weir_cuda_lib_blas **lib);
weir_status weir_cuda_open_dnn(const weir_cuda_lib_dnn **lib);

/* A line for each that computes: the file it was opened from. */
struct weir_string;
void weir_cuda_libs_info(struct weir_string *s);

#ifdef __cplusplus
}
#endif

#endif
