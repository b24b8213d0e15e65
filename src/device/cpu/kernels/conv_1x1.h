/* conv_1x1.h - a convolution with 1 x 1 kernels as one product. */
#ifndef WEIR_DEVICE_CPU_KERNELS_CONV_1X1_H
#define WEIR_DEVICE_CPU_KERNELS_CONV_1X1_H

#include "device/common/conv_geometry.h"
#include "device/device.h"

/* Select a product for a pass with one group, stride 1, no padding and, in the gradient by the
 * weights, no bias. out->run is NULL where they do not serve the call. */

/* By oneDNN, for f32 and for halves that the processor multiplies; all operands have c->dtype. */
weir_status weir_conv_1x1_onednn(weir_device *d, const weir_conv *c, weir_conv_pass pass, bool bias,
                                 weir_kernel *out);

/* By our own code, for bf16 that the processor multiplies; weights and bias may be f32. */
weir_status weir_conv_1x1_own(const weir_call *call, const weir_conv *c, weir_conv_pass pass,
                              bool bias, weir_kernel *out);

#endif
