/* ordered_sum.h - sums over ranks on a card. */
#ifndef WEIR_DEVICE_CUDA_LIB_ORDERED_SUM_H
#define WEIR_DEVICE_CUDA_LIB_ORDERED_SUM_H

#include "device/cuda/runtime/context.h"

#ifdef __cplusplus
extern "C" {
#endif

#include "device/collective.h"

/* Queues a sum with the bits of weir_ordered_sum. */
weir_status weir_cuda_ordered_sum(cudaStream_t stream, const weir_rank_sum *sum, int rank,
                                  int world, weir_sum_order order);

#ifdef __cplusplus
}
#endif

#endif
