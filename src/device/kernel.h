/* kernel.h - the kernel that runs a call: selected once per (op, layouts, attributes) and never
 * changed, so that a call gives the same bits with the graph off, on, and in every plan. */
#ifndef WEIR_DEVICE_KERNEL_H
#define WEIR_DEVICE_KERNEL_H

#include "device/device.h"

/* Returns the kernel of a call, selecting it at the first request. Owned by the device's table;
 * valid until the device closes. */
weir_status weir_kernel_of(weir_device *d, const weir_call *c, const weir_kernel **out);

void weir_kernel_cache_free(weir_kernel_cache *t);

#endif
