/* kernels.h - prototypes of the device's choose functions, one per op, generated from the op
 * lists. */
#ifndef WEIR_DEVICE_CUDA_KERNELS_KERNELS_H
#define WEIR_DEVICE_CUDA_KERNELS_KERNELS_H

#include "device/cuda/runtime/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Ops that move elements without changing them share one kernel, a strided copy. */
#define weir_cuda_reshape   weir_cuda_copy
#define weir_cuda_transpose weir_cuda_copy
#define weir_cuda_broadcast weir_cuda_copy
#define weir_cuda_detach    weir_cuda_copy

/* A transposed convolution is the gradient of a convolution by its input. */
#define weir_cuda_conv_transpose2d weir_cuda_conv2d_grad_x

#define weir_cuda_spill_out  weir_swap_choose
#define weir_cuda_spill_in   weir_swap_choose
#define weir_cuda_spill_wait weir_swap_choose

#define OP(ID, id)                                                                                 \
    weir_status weir_cuda_##id(weir_device *d, const weir_call *c, weir_kernel *out);
#include "core/ops.def"
#undef OP

#ifdef __cplusplus
}
#endif

#endif
