/* context.h - a CUDA device: what all that runs on it shares, and no more than that.
 *
 * Kernels are launched, never waited for: a call returns when its work is queued on its stream.
 * What a launch or a library call says is made into a status that names op and shapes. */
#ifndef WEIR_DEVICE_CUDA_RUNTIME_CONTEXT_H
#define WEIR_DEVICE_CUDA_RUNTIME_CONTEXT_H

#include "device/cuda/runtime/internal.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_CUDA_ALIGN ((size_t)256)       /* of every block and arena offset */

typedef struct weir_cuda_context {
    struct {                                /* constant once the device is open */
        int  ordinal;
        int  major, minor;                  /* compute capability */
        int  processors;                    /* multiprocessors */
        int  clock, memory_clock, bus;      /* kHz, kHz, bits; 0: unknown */
        char name[128];
    } gpu;
    bool         tf32;      /* WEIR_TF32=1 when it was opened: f32 products by TF32 units */
    cudaStream_t compute;                   /* stream 0 */
    struct {                                /* launches that wait to become one (update.h) */
        cudaError_t (*flush)(void *arg);    /* launches them; NULL: nothing ever waits */
        void         *arg;
        cudaError_t   late;                 /* why a flush failed, until it is told */
    } pending;
    /* Owned, each by the file that defines it, which opens it when it is first needed (NULL until
     * then) and closes it. */
    struct weir_cuda_streams   *streams;
    struct weir_cuda_transfers *transfers;
    struct weir_cuda_offload   *offload;
    struct weir_cuda_fault     *fault;
    struct weir_cuda_blas      *blas;
    struct weir_cuda_dnn       *dnn;
    struct weir_cuda_rtc       *rtc;
    struct weir_cuda_updates   *updates;
} weir_cuda_context;

static inline weir_cuda_context *weir_cuda_context_of(const weir_device *d)
{
    return (weir_cuda_context *)d->impl;
}

/* The stream of the run; the device's compute stream. Each launches what waits first;
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
