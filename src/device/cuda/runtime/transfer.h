/* transfer.h - fills, and copies between host and card, in the order of the first stream. */
#ifndef WEIR_DEVICE_CUDA_RUNTIME_TRANSFER_H
#define WEIR_DEVICE_CUDA_RUNTIME_TRANSFER_H

#include "device/cuda/runtime/context.h"

weir_status weir_cuda_fill_bytes(weir_device *d, void *p, int byte, size_t n);

/* The host memory may be reused on return; an upload may still be running then. */
weir_status weir_cuda_upload(weir_device *d, void *to, const void *from, size_t n);
weir_status weir_cuda_download(weir_device *d, void *to, const void *from, size_t n);

weir_status weir_cuda_paint(weir_device *d, void *p, size_t n);
weir_status weir_cuda_painted(weir_device *d, const void *p, size_t n, size_t *end);

void weir_cuda_transfers_close(weir_cuda_context *c);

#endif
