/* libs.h - libraries that are opened at run time: the driver, NVRTC, cuBLASLt, cuDNN, NCCL.
 *
 *     const weir_cuda_lib_blas *blas;
 *     WEIR_TRY(weir_cuda_open_blas(&blas));
 *     blas->cublasLtMatmul(...);
 *
 * Each is opened at the first request, once per process, by any thread, and never closed. The
 * functions are those of libs.def, with the types of the real headers, NCCL's with those of
 * nccl_api.h. */
#ifndef WEIR_DEVICE_CUDA_RUNTIME_LIBS_H
#define WEIR_DEVICE_CUDA_RUNTIME_LIBS_H

#include <cublasLt.h>
#include <cuda.h>
#include <cudnn_backend.h>
#include <nvrtc.h>

#include "device/cuda/runtime/nccl_api.h"
#include "weir/base.h"

/* Members have the names of functions, which C++ must be told to keep apart. */
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

typedef struct weir_cuda_lib_nccl {
#define NCCL(function) WEIR_CUDA_POINTER(function)
#include "device/cuda/runtime/libs.def"
} weir_cuda_lib_nccl;

/* Open a library. It is looked for in the folders of $WEIR_CUDA_LIBS (separated by ':'), in the
 * loader's search path, in the toolkit that Weir was built with, and in the wheels of the Python in
 * $VIRTUAL_ENV; emulated: in $WEIR_CUDA_LIBS and the plugin's own folder only. Fail with ERR_DEVICE
 * and a sentence that names the library and the places searched; the next call searches again. */
weir_status weir_cuda_open_driver(const weir_cuda_lib_driver **lib);
weir_status weir_cuda_open_nvrtc(const weir_cuda_lib_nvrtc **lib);
weir_status weir_cuda_open_blas(const weir_cuda_lib_blas **lib);
weir_status weir_cuda_open_dnn(const weir_cuda_lib_dnn **lib);
weir_status weir_cuda_open_nccl(const weir_cuda_lib_nccl **lib);

/* Adds a line for each compute library: the file it was opened from. */
struct weir_string;
void weir_cuda_libs_info(struct weir_string *s);

#ifdef __cplusplus
}
#endif

#endif
