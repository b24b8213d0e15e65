/* kernels.h - prototypes of the CPU's choose functions, one per op, generated from the op lists. */
#ifndef WEIR_DEVICE_CPU_KERNELS_H
#define WEIR_DEVICE_CPU_KERNELS_H

#include "device/device.h"
#include "device/offload/swap.h"

/* Ops that move elements without changing them share one kernel, a strided copy: the layouts of
 * input and output determine which element moves where. */
#define weir_cpu_reshape   weir_cpu_copy
#define weir_cpu_transpose weir_cpu_copy
#define weir_cpu_broadcast weir_cpu_copy
#define weir_cpu_detach    weir_cpu_copy

/* A transposed convolution is the gradient of a convolution by its input. */
#define weir_cpu_conv_transpose2d weir_cpu_conv2d_grad_x

#define weir_cpu_spill_out  weir_swap_choose
#define weir_cpu_spill_in   weir_swap_choose
#define weir_cpu_spill_wait weir_swap_choose

#define OP(ID, id) weir_status weir_cpu_##id(weir_device *d, const weir_call *c, weir_kernel *out);
#include "core/ops.def"
#undef OP

#endif
