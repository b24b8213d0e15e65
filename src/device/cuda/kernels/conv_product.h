/* conv_product.h - convolutions that are matrix products as they stand. */
#ifndef WEIR_DEVICE_CUDA_KERNELS_CONV_PRODUCT_H
#define WEIR_DEVICE_CUDA_KERNELS_CONV_PRODUCT_H

#include "device/cuda/runtime/context.h"

/* Selects a matrix product; library: by cuBLASLt, else by our own kernel. */
weir_status weir_cuda_conv_product(weir_device *d, const weir_call *c, const weir_conv *g,
                                   weir_conv_pass pass, bool *library, weir_kernel *out);

#endif
