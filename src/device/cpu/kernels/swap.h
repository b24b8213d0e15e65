/* swap.h - the CPU's offload store, as entries of the device's table. */
#ifndef WEIR_DEVICE_CPU_KERNELS_SWAP_H
#define WEIR_DEVICE_CPU_KERNELS_SWAP_H

#include "device/device.h"

weir_status weir_cpu_swap_reserve(weir_device *d, size_t bytes, uint32_t tickets);
weir_status weir_cpu_swap(weir_device *d, const weir_swap *c);
weir_status weir_cpu_swap_wait(weir_device *d, weir_stream *s, uint32_t ticket);
weir_status weir_cpu_swap_settle(weir_device *d, weir_status so_far);
weir_status weir_cpu_swap_speed(weir_device *d, double *out, double *in);

#endif
