/* kernel.h - which kernel runs a call, decided once per (op, layouts, attributes) and then
 * frozen, so that the same call gives the same bits with the graph off, on, and in every plan. */
#ifndef WEIR_DEVICE_KERNEL_H
#define WEIR_DEVICE_KERNEL_H

#include "device/device.h"

/* The frozen choice for a call; made at first sight. Stays valid until the device closes. */
weir_status weir_kernel_of(weir_device *d, const weir_call *c, const weir_kernel **out);

void weir_kernel_cache_free(weir_kernel_cache *t);

#endif
