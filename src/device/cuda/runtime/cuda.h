/* cuda.h - a CUDA device: what its kernels share.
 *
 * Kernels are launched, never waited for: a call returns when its work is queued on its stream.
 * What a launch or a library call says is made into a status that names op and shapes. */
#ifndef WEIR_DEVICE_CUDA_RUNTIME_CUDA_H
#define WEIR_DEVICE_CUDA_RUNTIME_CUDA_H

#include "device/cuda/runtime/internal.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_CUDA_ALIGN ((size_t)256)       /* of every block and arena offset */

typedef struct weir_cuda {
    int                       ordinal;
    int                       major, minor; /* compute capability */
    int                       processors;   /* multiprocessors */
    char                      name[128];
    int                       clock, memory_clock, bus; /* kHz, kHz, bits; 0: unknown */
    cudaStream_t              compute;                  /* the first of queues */
    struct weir_cuda_streams *streams;                  /* stream.c */
    struct weir_cuda_offload *offload;   /* offload.c; NULL until something is swapped */
    struct weir_transfers    *transfers; /* transfer.c; NULL until something is copied */
    /* What families of kernels have opened, each by its own functions; NULL until then. */
    struct weir_cuda_rtc  *rtc;             /* compile.h: NVRTC and the modules made by it */
    struct weir_cuda_blas *blas;            /* blas.h: cuBLASLt */
    struct weir_cuda_dnn  *dnn;             /* dnn.h: cuDNN */
    struct weir_cuda_updates *updates;      /* updates.h: updates that wait to be launched */
    struct weir_cuda_fault *fault;          /* fault.h: a wrong index; NULL until one is checked */
    cudaError_t  late;                      /* why launching them failed, until it is told */
    /* Options that are read when the device is opened. */
    bool tf32;                              /* WEIR_TF32=1: f32 products by TF32 units */
} weir_cuda;

static inline weir_cuda *weir_cuda_of(const weir_device *d)
{
    return (weir_cuda *)d->impl;
}

/* The stream of the run; the device's compute stream. Each launches what waits (updates.h) first;
 * if that fails, weir_cuda_late says so, once. */
cudaStream_t weir_cuda_stream(const weir_kargs *k);
cudaStream_t weir_cuda_compute(const weir_device *d);
weir_status  weir_cuda_late(const weir_device *d);

/* WEIR_OK for cudaSuccess, else a status whose sentence names what failed; with the call its op and
 * shapes, too (c may be NULL). Memory that ran out is ERR_NOMEM, all else ERR_DEVICE. */
weir_status weir_cuda_status(cudaError_t e, const weir_call *c, const char *what);

/* WEIR_CUDA_TRY(c, cudaFree(p)): returns from the caller unless it went well. */
#define WEIR_CUDA_TRY(c, expression) WEIR_TRY(weir_cuda_status((expression), (c), #expression))

#ifdef __cplusplus
}
#endif

#endif
