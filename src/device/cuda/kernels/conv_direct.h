/* conv_direct.h - convolutions, and their biases, by our own kernels. */
#ifndef WEIR_DEVICE_CUDA_KERNELS_CONV_DIRECT_H
#define WEIR_DEVICE_CUDA_KERNELS_CONV_DIRECT_H

#include "device/cuda/runtime/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Selects our own kernels: every convolution of floats whose coordinates fit 30 bits. The call says
 * whether there is a bias, or whether its gradient is wanted. slices: sums over pixels may be
 * divided, which needs a workspace; otherwise none is needed. */
weir_status weir_cuda_conv_own(const weir_call *c, const weir_conv *g,
                               weir_conv_pass pass, bool slices, weir_kernel *out);

/* Queue y += bias for every pixel, and dbias = sums of dy over all pixels. The latter uses
 * weir_cuda_conv_bias_work bytes at `work`; with NULL it is slower. */
weir_status weir_cuda_conv_add_bias(const weir_kargs *k, const weir_conv *g, const void *bias,
                                    void *y);
size_t      weir_cuda_conv_bias_work(const weir_conv *g);
weir_status weir_cuda_conv_bias_grad(const weir_kargs *k, const weir_conv *g, const void *dy,
                                     void *dbias, void *work);

#ifdef __cplusplus
}
#endif

#endif
