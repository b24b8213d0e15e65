/* conv_rows.h - a convolution by our own code that copies no patches. */
#ifndef WEIR_DEVICE_CPU_KERNELS_CONV_ROWS_H
#define WEIR_DEVICE_CPU_KERNELS_CONV_ROWS_H

#include "device/common/conv_geometry.h"
#include "device/device.h"

/* The cases that our own code computes: f32 and f64, one group, no dilation, a kernel larger than
 * 1 x 1, enough channels, and rows whose pixels mostly have all their taps inside the image. */
bool weir_conv_rows_suits(const weir_conv *c);

/* y = conv(x, w) + bias. c->turned: a gradient by x as a convolution of dy (conv.c); the weights
 * are read as the forward convolution stores them, and their taps turned while they are packed. */
weir_status weir_conv_rows(const weir_conv *c, bool bias, weir_kernel *out);

#endif
