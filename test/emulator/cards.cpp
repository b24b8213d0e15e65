/* cards.cpp - the emulated cards: their number, their properties, the thread's current one. */
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Defined by the file that emulates the driver's functions. */
extern "C" void *emulate_driver_function(const char *name) __attribute__((weak));

namespace {

thread_local int card;

void describe(cudaDeviceProp *p)
{
    memset(p, 0, sizeof *p);
    strcpy(p->name, "emulated card");
    p->totalGlobalMem = emulate_bytes();
    p->sharedMemPerBlock = 48 << 10;
    p->sharedMemPerMultiprocessor = p->sharedMemPerBlockOptin = 64 << 10;
    p->regsPerBlock = p->regsPerMultiprocessor = 64 << 10;
    p->warpSize = 32;
    p->maxThreadsPerBlock = p->maxThreadsPerMultiProcessor = 1024;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 0x7fffffff;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->totalConstMem = 64 << 10;
    p->major = 9;
    p->multiProcessorCount = emulate_processors();
    p->canMapHostMemory = p->unifiedAddressing = p->concurrentKernels = 1;
    p->asyncEngineCount = 2;
    p->memoryBusWidth = 256;
    p->l2CacheSize = 4 << 20;
    p->streamPrioritiesSupported = p->hostRegisterSupported = 1;
}

cudaError_t attribute(int *value, cudaDeviceAttr what)
{
    cudaDeviceProp p;

    describe(&p);
    switch (what) {
    case cudaDevAttrMaxThreadsPerBlock:          *value = p.maxThreadsPerBlock; break;
    case cudaDevAttrMaxBlockDimX:                *value = p.maxThreadsDim[0]; break;
    case cudaDevAttrMaxBlockDimY:                *value = p.maxThreadsDim[1]; break;
    case cudaDevAttrMaxBlockDimZ:                *value = p.maxThreadsDim[2]; break;
    case cudaDevAttrMaxGridDimX:                 *value = p.maxGridSize[0]; break;
    case cudaDevAttrMaxGridDimY:                 *value = p.maxGridSize[1]; break;
    case cudaDevAttrMaxGridDimZ:                 *value = p.maxGridSize[2]; break;
    case cudaDevAttrMaxSharedMemoryPerBlock:     *value = (int)p.sharedMemPerBlock; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = (int)p.sharedMemPerBlockOptin; break;
    case cudaDevAttrWarpSize:                    *value = p.warpSize; break;
    case cudaDevAttrMultiProcessorCount:         *value = p.multiProcessorCount; break;
    case cudaDevAttrComputeCapabilityMajor:      *value = p.major; break;
    case cudaDevAttrComputeCapabilityMinor:      *value = p.minor; break;
    case cudaDevAttrL2CacheSize:                 *value = p.l2CacheSize; break;
    case cudaDevAttrAsyncEngineCount:            *value = p.asyncEngineCount; break;
    case cudaDevAttrConcurrentKernels:           *value = p.concurrentKernels; break;
    case cudaDevAttrUnifiedAddressing:           *value = p.unifiedAddressing; break;
    case cudaDevAttrCanMapHostMemory:            *value = p.canMapHostMemory; break;
    case cudaDevAttrGlobalMemoryBusWidth:        *value = p.memoryBusWidth; break;
    case cudaDevAttrMemoryClockRate:             *value = 1000000; break;     /* kHz */
    case cudaDevAttrClockRate:                   *value = 1000000; break;
    case cudaDevAttrIntegrated:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrCooperativeLaunch:           *value = 0; break;
    default:                                     return cudaErrorInvalidValue;
    }
    return cudaSuccess;
}

cudaError_t driver_entry(const char *symbol, void **function, cudaDriverEntryPointQueryResult *how)
{
    *function = emulate_driver_function ? emulate_driver_function(symbol) : NULL;
    if (how)
        *how = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return *function || how ? cudaSuccess : cudaErrorSymbolNotFound;
}

}

int emulate_cards(void)
{
    const char *const asked = getenv("WEIR_EMULATED_CARDS");
    const int         n = asked && *asked ? atoi(asked) : 1;
    return n < EMULATE_MOST_CARDS ? n : EMULATE_MOST_CARDS;
}

int emulate_processors(void)
{
    const char *const asked = getenv("WEIR_EMULATED_PROCESSORS");
    return asked && *asked ? atoi(asked) : 4;
}

int emulate_card(void)
{
    return card;
}

extern "C" {

cudaError_t cudaGetDeviceCount(int *count)
{
    EMULATE_ENTER;
    *count = emulate_cards();
    return entry.say(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int n)
{
    EMULATE_ENTER;
    if (emulate_cards() == 0)
        return entry.say(cudaErrorNoDevice);
    if (n < 0 || n >= emulate_cards())
        return entry.say(cudaErrorInvalidDevice);
    card = n;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *n)
{
    EMULATE_ENTER;
    *n = card;
    return entry.say(emulate_cards() > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int n)
{
    EMULATE_ENTER;
    if (n < 0 || n >= emulate_cards())
        return entry.say(cudaErrorInvalidDevice);
    describe(p);
    p->pciBusID = n + 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr what, int n)
{
    EMULATE_ENTER;
    if (n < 0 || n >= emulate_cards())
        return entry.say(cudaErrorInvalidDevice);
    return entry.say(attribute(value, what));
}

/* $WEIR_EMULATED_CODE: the architecture that kernels were compiled for, 10 major + minor. */
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *a, const void *function)
{
    EMULATE_ENTER;
    const char *const asked = getenv("WEIR_EMULATED_CODE");
    if (!function)
        return entry.say(cudaErrorInvalidDeviceFunction);
    memset(a, 0, sizeof *a);
    a->maxThreadsPerBlock = 1024;
    a->ptxVersion = a->binaryVersion = asked && *asked ? atoi(asked) : 90;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *to, int capacity, int n)
{
    EMULATE_ENTER;
    if (n < 0 || n >= emulate_cards())
        return entry.say(cudaErrorInvalidDevice);
    snprintf(to, (size_t)capacity, "0000:%02x:00.0", n + 1);
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    EMULATE_ENTER;
    *version = emulate_cards() > 0 ? CUDART_VERSION : 0;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    EMULATE_ENTER;
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long,
                                    cudaDriverEntryPointQueryResult *how)
{
    EMULATE_ENTER;
    return entry.say(driver_entry(symbol, function, how));
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult *how)
{
    EMULATE_ENTER;
    return entry.say(driver_entry(symbol, function, how));
}

}
