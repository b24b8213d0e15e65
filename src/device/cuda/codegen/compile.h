/* compile.h - turns kernel sources into functions of a card, each source once.
 *
 * Kernels are compiled by NVRTC (nvrtc.h) or read from the cache folder (kernel_file.h). Modules
 * stay loaded until the device is closed. */
#ifndef WEIR_DEVICE_CUDA_CODEGEN_COMPILE_H
#define WEIR_DEVICE_CUDA_CODEGEN_COMPILE_H

#include <cuda.h>

#include "device/cuda/codegen/source.h"
#include "device/cuda/runtime/context.h"

/* Returns the kernel of a source. A compile error names the rows and quotes the compiler. */
weir_status weir_cuda_compile(weir_device *d, const weir_call *c, const weir_source *source,
                              CUfunction *function);

/* Queues a kernel, with one struct of parameters, on the run's stream. */
weir_status weir_cuda_launch(const weir_kargs *k, CUfunction f, unsigned blocks,
                             const void *params);

void weir_cuda_compile_close(weir_cuda_context *u);

/* Adds a line: kernels compiled, and kernels read from disk. */
void weir_cuda_compile_info(const weir_cuda_context *u, weir_string *s);

#endif
