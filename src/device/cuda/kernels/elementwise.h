/* elementwise.h - rows of elementwise.def on a card. */
#ifndef WEIR_DEVICE_CUDA_KERNELS_ELEMENTWISE_H
#define WEIR_DEVICE_CUDA_KERNELS_ELEMENTWISE_H

#include "device/device.h"

/* Serves every row. */
weir_status weir_cuda_elementwise(weir_device *d, const weir_call *c, weir_kernel *out);

#endif
