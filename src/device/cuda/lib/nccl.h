/* nccl.h - collectives as work of the card's stream, by NCCL: weir_stream_comm_ops.
 *
 * Sums in order serial and tree are Weir's own: NCCL moves the operands in groups of sends and
 * receives, and a kernel adds them. NCCL's own all_reduce adds in an order of its own. */
#ifndef WEIR_DEVICE_CUDA_LIB_NCCL_H
#define WEIR_DEVICE_CUDA_LIB_NCCL_H

#include "device/cuda/runtime/context.h"

#ifdef __cplusplus
extern "C" {
#endif

#include "device/collective.h"

extern const weir_stream_comm_ops weir_cuda_nccl;

#ifdef __cplusplus
}
#endif

#endif
