/* widen.h - runs a call on f16 or bf16 by its f32 kernel. */
#ifndef WEIR_DEVICE_CPU_KERNELS_WIDEN_H
#define WEIR_DEVICE_CPU_KERNELS_WIDEN_H

#include "device/device.h"

/* Chooses what `choose` does for the same call with f32 wherever an operand is f16 or bf16: such
 * inputs are converted into the workspace first, such results are made there and rounded once. */
weir_status weir_cpu_widened(weir_device *d, const weir_call *c, weir_choose_fn choose,
                             weir_kernel *out);

#endif
