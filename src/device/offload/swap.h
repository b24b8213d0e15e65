/* swap.h - SPILL_OUT, SPILL_IN, SPILL_WAIT, the same on every device: copies between its memory and
 * slots of a store outside it, beside the kernels.
 *
 * The first two start a copy and return; what they name must stay where it is until the third has
 * waited. What the store is belongs to the device: a file on the CPU, pinned memory and then a file
 * behind a card. */
#ifndef WEIR_DEVICE_OFFLOAD_SWAP_H
#define WEIR_DEVICE_OFFLOAD_SWAP_H

#include "device/device.h"

/* The kernel of any of the three. */
weir_status weir_swap_choose(weir_device *d, const weir_call *c, weir_kernel *out);

#endif
