/* offload.h - the offload store of a card: pinned host memory, and the spill file behind it. The
 * functions are entries of the device's table. */
#ifndef WEIR_DEVICE_CUDA_RUNTIME_OFFLOAD_H
#define WEIR_DEVICE_CUDA_RUNTIME_OFFLOAD_H

#include "device/cuda/runtime/context.h"

weir_status weir_cuda_swap_reserve(weir_device *d, size_t bytes, uint32_t tickets);
weir_status weir_cuda_swap(weir_device *d, const weir_swap *c);
weir_status weir_cuda_swap_wait(weir_device *d, weir_stream *s, uint32_t ticket);
weir_status weir_cuda_swap_settle(weir_device *d, weir_status so_far);
weir_status weir_cuda_swap_speed(weir_device *d, double *out, double *in);

/* The first unreported failure of a copy to or from the file. */
weir_status weir_cuda_offload_late(weir_cuda_context *c);

/* Waits for the copies under way, if there is a store. */
cudaError_t weir_cuda_offload_wait(const weir_cuda_context *c);

void weir_cuda_offload_close(weir_cuda_context *c);
void weir_cuda_offload_info(const weir_cuda_context *c, weir_string *s);

#endif
