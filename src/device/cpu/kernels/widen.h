/* widen.h - runs a call on f16 or bf16 through its f32 kernel, and f32 inputs beside halves through
 * the kernel for halves. */
#ifndef WEIR_DEVICE_CPU_KERNELS_WIDEN_H
#define WEIR_DEVICE_CPU_KERNELS_WIDEN_H

#include "core/dtype.h"
#include "device/device.h"

/* weir_device_ops.narrows of the CPU. */
extern const uint32_t weir_cpu_narrows[WEIR_OP_COUNT];

/* Does the call have input i in f32 in place of the half type of input 0? */
static inline bool weir_cpu_narrows_input(const weir_call *c, int i)
{
    return weir_cpu_narrows[c->op] >> i & 1 && c->in[i].desc.dtype == WEIR_F32 &&
           weir_is_half(c->in[0].desc.dtype);
}

/* Selects what `choose` selects for the same call in f32. f16 and bf16 inputs are converted in the
 * workspace first, f32 inputs that the call narrows are copied and rounded there; results are
 * computed there and rounded once. */
weir_status weir_cpu_widened(weir_device *d, const weir_call *c, weir_choose_fn choose,
                             weir_kernel *out);

/* Wraps a kernel for the same call in halves, which it owns from now on: of the inputs in the mask
 * `inputs`, those that the call narrows are rounded in the workspace first. */
weir_status weir_cpu_narrowed(weir_device *d, const weir_call *c, uint32_t inputs,
                              weir_kernel inner, weir_kernel *out);

#endif
