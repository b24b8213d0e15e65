/* context.h - a CUDA device: the state that all its parts share, and nothing else.
 *
 * Kernels are launched, never waited for: a call returns when its work is queued on its stream.
 * Errors of launches and library calls become statuses that name the op and its shapes. */
#ifndef WEIR_DEVICE_CUDA_RUNTIME_CONTEXT_H
#define WEIR_DEVICE_CUDA_RUNTIME_CONTEXT_H

#include "device/cuda/runtime/internal.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_CUDA_ALIGN ((size_t)256)       /* bytes; of every block and arena offset */

typedef struct weir_cuda_context {
    struct {                                /* constant once the device is open */
        int  ordinal;
        int  major, minor;                  /* compute capability */
        int  code;                          /* that of the kernels it runs, 10 major + minor */
        int  processors;                    /* multiprocessors */
        int  clock, memory_clock, bus;      /* kHz, kHz, bits; 0: unknown */
        char name[128];
    } gpu;
    bool         tf32;      /* WEIR_TF32=1 at open: f32 products may use TF32 units */
    cudaStream_t compute;                   /* stream 0 */
    struct {                                /* updates that wait for a common launch (update.h) */
        cudaError_t (*flush)(void *arg);    /* launches them; NULL: no update so far */
        void         *arg;
        cudaError_t   late;                 /* the first error of a flush, or of a wait that cannot
                                             * return it, until it is reported */
        const char   *late_of;              /* what failed; a static text */
    } pending;
    struct {                                /* a collective that ranks gave up (lib/nccl.h) */
        int  told;                          /* atomic: 1 until weir_cuda_late has failed with why */
        char why[512];
    } given_up;
    /* Owned parts. The file that defines a part creates it when it is first needed (NULL until
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

/* Makes the card the thread's current one: CUDA creates memory, streams, events and handles of
 * libraries on that, and refuses to mix those of several. Every function of the device's table that
 * calls CUDA begins with it, or with weir_cuda_stream or weir_cuda_compute, which do so, since a
 * program may use several cards, from several threads. */
static inline void weir_cuda_here(const weir_device *d)
{
    (void)cudaSetDevice(weir_cuda_context_of(d)->gpu.ordinal);
}

/* Remembers e for weir_cuda_late unless it is cudaSuccess or another error waits there. */
void weir_cuda_set_late(weir_cuda_context *c, cudaError_t e, const char *of);

/* The run's stream; the device's compute stream. Each launches waiting updates first; if that
 * fails, weir_cuda_late reports it, once. */
cudaStream_t weir_cuda_stream(const weir_kargs *k);
cudaStream_t weir_cuda_compute(const weir_device *d);
weir_status  weir_cuda_late(const weir_device *d);

/* WEIR_OK for cudaSuccess, else a failure whose sentence names `what` and, if c is not NULL, the op
 * and its shapes. Out of memory is ERR_NOMEM, any other error ERR_DEVICE. */
weir_status weir_cuda_status(cudaError_t e, const weir_call *c, const char *what);

/* WEIR_CUDA_TRY(c, cudaFree(p)) returns the failure from the calling function. */
#define WEIR_CUDA_TRY(c, expression) WEIR_TRY(weir_cuda_status((expression), (c), #expression))

#ifdef __cplusplus
}
#endif

#endif
