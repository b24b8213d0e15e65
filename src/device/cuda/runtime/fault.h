/* fault.h - wrong indices that kernels meet: told when the device is next waited for.
 *
 * A kernel never follows an index that is out of range. The first one since the last report is put
 * into memory of the host, which costs nothing while all indices are right; cuda_sync makes a
 * failure of it. */
#ifndef WEIR_DEVICE_CUDA_RUNTIME_FAULT_H
#define WEIR_DEVICE_CUDA_RUNTIME_FAULT_H

#include "device/cuda/runtime/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* In pinned memory, which the card writes. */
typedef struct weir_cuda_fault {
    int     taken;              /* by one thread, which then fills in the rest */
    int     op;                 /* weir_op */
    int64_t index, limit;
} weir_cuda_fault;

/* The device's, made when first asked for: by a run that is not being captured. */
weir_status weir_cuda_fault_of(const weir_kargs *k, weir_cuda_fault **fault);

/* Queues the check of the indices (n), i32 or i64, of an input: 0 .. limit - 1. */
weir_status weir_cuda_check_index(const weir_kargs *k, int input, int64_t limit);

/* ERR_INDEX, once, for what was met since the last time; all work given before is done. */
weir_status weir_cuda_fault_tell(weir_cuda_context *u);
void        weir_cuda_fault_close(weir_cuda_context *u);

#ifdef __cplusplus
}
#endif

#ifdef WEIR_CUDA_FAULTS         /* for the kernels themselves */
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
