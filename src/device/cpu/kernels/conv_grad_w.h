/* conv_grad_w.h - the gradient of a convolution's weights by our own code. */
#ifndef WEIR_DEVICE_CPU_KERNELS_CONV_GRAD_W_H
#define WEIR_DEVICE_CPU_KERNELS_CONV_GRAD_W_H

#include "device/common/conv_geometry.h"
#include "device/device.h"

/* The cases that our own code computes: f32 and f64, and bf16 without bias where the processor
 * multiplies it; stride 1, a kernel larger than 1 x 1, enough channels to fill vectors. */
bool        weir_conv_grad_w_suits(const weir_conv *c, bool bias);
weir_status weir_conv_grad_w(const weir_conv *c, bool bias, weir_kernel *out);

#endif
