/* call.h - one call, run at once: on tensors, or on bare pointers. */
#ifndef WEIR_DEVICE_CALL_H
#define WEIR_DEVICE_CALL_H

#include "core/tensor.h"
#include "device/device.h"
#include "device/memory/block.h"

/* Graph off: gives the outputs memory, borrows a workspace, runs. rng: the position in the random
 * stream, if the op draws. */
weir_status weir_run_once(weir_device *d, const weir_call *c, weir_tensor *const *in,
                          weir_tensor *const *out, uint64_t rng);

/* Runs a call on memory of the caller's, with a random position of its own if the op draws. b: the
 * block, NULL if none, that operand `operand` (inputs, then outputs) lies in, for guard zones. */
weir_status weir_run_raw(weir_device *d, const weir_call *c, void *const *src, void *const *dst,
                         int operand, const weir_block *b);

/* Adds a call that began at `begin` (seconds of the device's clock) and ends now to d->trace. */
void weir_call_trace(weir_device *d, const weir_call *c, const char *phase, double begin);

#endif
