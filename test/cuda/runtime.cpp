/* runtime.cpp - the functions of the CUDA runtime that the plugin calls, on host memory. */
#include <stdlib.h>
#include <string.h>

#include "emulate.h"
#include "fiber.h"

/* For tests, by dlsym: launches so far, and which one from now on fails (0: none). */
extern "C" __attribute__((visibility("default"))) long emulate_launches, emulate_failing;
long emulate_launches, emulate_failing;

cudaError_t emulate_launch(dim3 grid, dim3 block, cudaStream_t stream,
                           const std::function<void()> &thread)
{
    (void)stream;
    emulate_launches++;
    if (emulate_failing > 0 && --emulate_failing == 0)
        return cudaErrorLaunchOutOfResources;
    emulate_run(grid, block, thread);
    return cudaSuccess;
}

extern "C" {

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int)
{
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

const char *cudaGetErrorName(cudaError_t)
{
    return "cudaErrorEmulated";
}

const char *cudaGetErrorString(cudaError_t)
{
    return "emulated";
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int)
{
    memset(p, 0, sizeof *p);
    strcpy(p->name, "emulated card");
    p->major = 9;
    p->multiProcessorCount = 4;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *unused, size_t *total)
{
    *unused = *total = (size_t)8 << 30;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned)
{
    *s = (cudaStream_t)malloc(1);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    free(s);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t)
{
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    *p = aligned_alloc(256, (bytes + 255) & ~(size_t)255);
    return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void *p)
{
    free(p);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *p, int byte, size_t n, cudaStream_t)
{
    memset(p, byte, n);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, cudaMemcpyKind, cudaStream_t)
{
    memcpy(to, from, n);
    return cudaSuccess;
}

}
