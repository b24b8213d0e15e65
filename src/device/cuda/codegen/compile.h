/* compile.h - sources of kernels become functions of a card, each source once.
 *
 * Compiled by NVRTC (nvrtc.h) or found in the folder of compiled kernels (kernel_file.h). Modules
 * stay loaded until the device is closed. */
#ifndef WEIR_DEVICE_CUDA_CODEGEN_COMPILE_H
#define WEIR_DEVICE_CUDA_CODEGEN_COMPILE_H

#include <cuda.h>

#include "device/cuda/codegen/source.h"
#include "device/cuda/runtime/context.h"

/* The kernel that the source describes. Compile errors name the rows and say what the compiler
 * said. */
weir_status weir_cuda_compile(weir_device *d, const weir_call *c, const weir_source *source,
                              CUfunction *function);

/* Queues a kernel of one struct of parameters on the run's stream. */
weir_status weir_cuda_launch(const weir_kargs *k, CUfunction f, unsigned blocks,
                             const void *params);

void weir_cuda_compile_close(weir_cuda_context *u);

/* A line: how many kernels were compiled, how many found on disk. */
void weir_cuda_compile_info(const weir_cuda_context *u, weir_string *s);

#endif
