/* call.h - runs one call at once: on tensors, or on raw memory. */
#ifndef WEIR_DEVICE_CALL_H
#define WEIR_DEVICE_CALL_H

#include "core/tensor.h"
#include "device/device.h"
#include "device/memory/block.h"

/* Runs the kernel; on a device that checks each call, also waits for it. */
static inline weir_status weir_kernel_run(const weir_kernel *kernel, const weir_kargs *k)
{
    const weir_status s = kernel->run(k);
    return s == WEIR_OK && k->dev->checks ? k->dev->ops->streams->check(k) : s;
}

/* Runs a call with the graph off: allocates the outputs and a workspace for its duration. rng: the
 * position in the random stream if the op draws. */
weir_status weir_run_once(weir_device *d, const weir_call *c, weir_tensor *const *in,
                          weir_tensor *const *out, uint64_t rng);

/* Runs a call on the caller's memory; reserves a random position if the op draws. b: the block that
 * contains operand number `operand` (inputs, then outputs), whose guard zones are checked; or NULL.
 */
weir_status weir_run_raw(weir_device *d, const weir_call *c, void *const *src, void *const *dst,
                         int operand, const weir_block *b);

/* Adds a call that began at `begin` (seconds of the device's clock) and ends now to d->trace. */
void weir_call_trace(weir_device *d, const weir_call *c, const char *phase, double begin);

#endif
