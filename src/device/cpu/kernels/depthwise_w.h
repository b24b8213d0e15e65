/* depthwise_w.h - the gradient of the weights of a depthwise convolution by our own code. */
#ifndef WEIR_DEVICE_CPU_KERNELS_DEPTHWISE_W_H
#define WEIR_DEVICE_CPU_KERNELS_DEPTHWISE_W_H

#include "device/common/conv_geometry.h"
#include "device/device.h"

#define WEIR_DEPTHWISE_CHANNELS 32      /* most channels of a task */
#define WEIR_DEPTHWISE_TAPS     128     /* most taps of a kernel */

/* Adds the products of the images' rows to sums[tap * WEIR_DEPTHWISE_CHANNELS + channel]: `cols`
 * channels from x and dy on, images [first, end) of c. */
typedef void (*weir_depthwise_loop)(const weir_conv *c, const float *x, const float *dy,
                                    int64_t first, int64_t end, int64_t cols, double *sums);

extern const weir_depthwise_loop weir_depthwise_loops_base[1];
extern const weir_depthwise_loop weir_depthwise_loops_avx2[1];
extern const weir_depthwise_loop weir_depthwise_loops_avx512[1];

/* f32, each channel by itself, as many results as channels. */
bool        weir_depthwise_w_suits(const weir_conv *c);
weir_status weir_depthwise_w(const weir_conv *c, bool bias, weir_kernel *out);

#endif
