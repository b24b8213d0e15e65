/* launch.h - launches kernels from C++ and turns launch errors into statuses. */
#ifndef WEIR_DEVICE_CUDA_RUNTIME_LAUNCH_H
#define WEIR_DEVICE_CUDA_RUNTIME_LAUNCH_H

#include "device/cuda/runtime/context.h"
#include "device/cuda/runtime/geometry.h"

#ifndef WEIR_EMULATED       /* the emulator's build defines its own before */
#include <cuda_runtime.h>
#endif

/* Queues kernel<<<grid, block>>>(args...) on a stream; arguments are converted to the kernel's
 * parameter types. */
template <class... P, class... A>
static inline cudaError_t weir_launch_on(cudaStream_t stream, void (*kernel)(P...), dim3 grid,
                                         dim3 block, A... args)
{
#ifdef WEIR_EMULATED
    return emulate_launch(grid, block, stream, [=]() { kernel(static_cast<P>(args)...); });
#else
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.stream = stream;
    return cudaLaunchKernelEx(&config, kernel, static_cast<P>(args)...);
#endif
}

/* The same on the run's stream; does nothing for 0 blocks. */
template <class... P, class... A>
static inline weir_status weir_launch(const weir_kargs *k, void (*kernel)(P...), dim3 grid,
                                      dim3 block, A... args)
{
    if (grid.x == 0 || grid.y == 0 || grid.z == 0)
        return WEIR_OK;
    const cudaStream_t stream = weir_cuda_stream(k);
    WEIR_TRY(weir_cuda_late(k->dev));
    return weir_cuda_status(weir_launch_on(stream, kernel, grid, block, args...), k->call,
                            "kernel launch");
}

/* One thread per element, or a grid-stride loop if there are more elements than threads:
 *     WEIR_EACH(i, n) to[i] = from[i]; */
#define WEIR_EACH(i, n)                                                                            \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n);                      \
         i += (int64_t)gridDim.x * blockDim.x)

#endif
