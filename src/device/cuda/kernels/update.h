/* update.h - updates that wait, so that those of many parameters become one launch.
 *
 * The run of an update joins a list of the device as long as what waits there is of the same kind,
 * type, numbers and stream, and neither touches what the other writes. Whatever else wants a stream
 * of the device launches the list first (weir_cuda_stream, weir_cuda_compute), so the order on the
 * stream is that of the calls. A list is a kernel parameter, by value: what is captured into a
 * graph can be played again. */
#ifndef WEIR_DEVICE_CUDA_KERNELS_UPDATE_H
#define WEIR_DEVICE_CUDA_KERNELS_UPDATE_H

#include "device/cuda/runtime/context.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    WEIR_UPDATE_OPERANDS = 5, /* operands of a kind, at most: parameter, gradient, states */
    WEIR_UPDATE_TENSORS = 64, /* in one launch */
    WEIR_UPDATE_CHUNK = 4096  /* elements of a block */
};

/* What updates of one launch have in common; all fields 8 bytes wide, compared as bytes. */
typedef struct weir_update_args {
    int64_t       kind;         /* update.cu */
    int64_t       type;         /* of all operands but these two: 0: f32, 1: f64 */
    int64_t       lr_type;      /* of lr */
    int64_t       numbers;      /* behind lr, in place of `number` */
    int64_t       flag;         /* nesterov; decoupled decay; eps under the root */
    double        number[4];    /* of the options, in the order that they have behind lr */
    const void   *lr;
    const double *step;
} weir_update_args;

typedef struct weir_update_tensor {
    void   *at[WEIR_UPDATE_OPERANDS];
    int64_t n;
} weir_update_tensor;

/* first[i]: number of the first block of tensor i. */
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

/* Frees the list; what waits in it has been launched. */
void weir_cuda_updates_close(weir_cuda_context *c);

#ifdef __cplusplus
}
#endif

#endif
