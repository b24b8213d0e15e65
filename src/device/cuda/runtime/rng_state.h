/* rng_state.h - the state of the random stream in device memory. */
#ifndef WEIR_DEVICE_CUDA_RUNTIME_RNG_STATE_H
#define WEIR_DEVICE_CUDA_RUNTIME_RNG_STATE_H

#include "device/cuda/runtime/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Queues a write of two words to device memory. */
weir_status weir_cuda_rng_state_set(weir_device *d, uint64_t *to, uint64_t first, uint64_t second);

#ifdef __cplusplus
}
#endif

#endif
