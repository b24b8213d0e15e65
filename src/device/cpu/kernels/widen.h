/* widen.h - runs a call on f16 or bf16 through its f32 kernel. */
#ifndef WEIR_DEVICE_CPU_KERNELS_WIDEN_H
#define WEIR_DEVICE_CPU_KERNELS_WIDEN_H

#include "device/device.h"

/* Selects what `choose` selects for the same call in f32. f16 and bf16 inputs are converted in the
 * workspace first; results are computed there and rounded once. */
weir_status weir_cpu_widened(weir_device *d, const weir_call *c, weir_choose_fn choose,
                             weir_kernel *out);

#endif
