/* fault.h - wrong indices found by kernels, reported when the device is next waited for.
 *
 * A kernel never follows an index that is out of range. The first one since the last report is
 * written to pinned host memory, so that correct indices cost nothing; cuda_sync turns it into a
 * failure. */
#ifndef WEIR_DEVICE_CUDA_RUNTIME_FAULT_H
#define WEIR_DEVICE_CUDA_RUNTIME_FAULT_H

#include "device/cuda/runtime/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* In pinned host memory, written by the card. */
typedef struct weir_cuda_fault {
    int     taken;              /* set by one thread, which then fills in the rest */
    int     op;                 /* weir_op */
    int64_t index, limit;
} weir_cuda_fault;

/* The device's fault record, created at the first request, which must not be in a capture. */
weir_status weir_cuda_fault_of(const weir_kargs *k, weir_cuda_fault **fault);

/* Queues a check that the indices (n) of an input, i32 or i64, are in 0 .. limit - 1. */
weir_status weir_cuda_check_index(const weir_kargs *k, int input, int64_t limit);

/* Fails with ERR_INDEX, once, if a wrong index was found; all earlier work must be done. */
weir_status weir_cuda_fault_tell(weir_cuda_context *u);
void        weir_cuda_fault_close(weir_cuda_context *u);

#ifdef __cplusplus
}
#endif

#ifdef WEIR_CUDA_FAULTS         /* for kernel files */
static __device__ inline void weir_fault_index(weir_cuda_fault *f, int op, int64_t index,
                                               int64_t limit)
{
    if (atomicCAS(&f->taken, 0, 1) == 0) {
        f->op = op;
        f->index = index;
        f->limit = limit;
    }
}
#endif

#endif
