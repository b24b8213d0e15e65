/* update.h - updates that wait, so that those of many parameters become one launch.
 *
 * An update joins the device's list if those in it have the same kind, type, scalars and stream,
 * and none touches what another writes. Anything else that wants a stream of the device launches
 * the list first (weir_cuda_stream, weir_cuda_compute), so the order on the stream is that of the
 * calls. The list is a kernel parameter, passed by value, so a captured launch can be replayed. */
#ifndef WEIR_DEVICE_CUDA_KERNELS_UPDATE_H
#define WEIR_DEVICE_CUDA_KERNELS_UPDATE_H

#include "device/cuda/runtime/context.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    WEIR_UPDATE_OPERANDS = 5, /* most operands of a kind: parameter, gradient, states */
    WEIR_UPDATE_TENSORS = 64, /* most tensors of a launch */
    WEIR_UPDATE_CHUNK = 4096  /* elements per block */
};

/* What the updates of a launch share; all fields have 8 bytes and are compared as bytes. */
typedef struct weir_update_args {
    int64_t       kind;         /* update.cu */
    int64_t       type;         /* of all operands but the gradient, lr and step; 0: f32, 1: f64 */
    int64_t       grad_type;    /* of the gradient: a weir_dtype, a half beside f32 or `type` */
    int64_t       lr_type;      /* of lr */
    int64_t       numbers;      /* option values follow lr in memory, instead of `number` */
    int64_t       flag;         /* nesterov; decoupled decay; eps under the root */
    double        number[4];    /* option values, in the order that they have after lr */
    const void   *lr;
    const double *step;
} weir_update_args;

typedef struct weir_update_tensor {
    void   *at[WEIR_UPDATE_OPERANDS];
    int64_t n;
} weir_update_tensor;

/* first[i]: the first block of tensor i. */
typedef struct weir_update_batch {
    weir_update_args   args;
    int64_t            n;
    uint32_t           first[WEIR_UPDATE_TENSORS + 2];
    weir_update_tensor tensor[WEIR_UPDATE_TENSORS];
} weir_update_batch;

typedef struct weir_cuda_updates {
    weir_update_batch batch;
    int               operands;
    cudaStream_t      stream;
} weir_cuda_updates;

/* Frees the list, which must have been launched. */
void weir_cuda_updates_close(weir_cuda_context *c);

#ifdef __cplusplus
}
#endif

#endif
