/* swap.h - SPILL_OUT, SPILL_IN, SPILL_WAIT for every device: copies between device memory and slots
 * of the offload store that overlap with kernels.
 *
 * The first two start a copy and return; memory and slot must stay untouched until SPILL_WAIT has
 * run. The store depends on the device: a file for the CPU; pinned memory, then a file, for a card.
 */
#ifndef WEIR_DEVICE_OFFLOAD_SWAP_H
#define WEIR_DEVICE_OFFLOAD_SWAP_H

#include "device/device.h"

/* The kernel of any of the three. */
weir_status weir_swap_choose(weir_device *d, const weir_call *c, weir_kernel *out);

#endif
