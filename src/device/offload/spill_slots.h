/* spill_slots.h - how much of a device's store for values that leave is used: places that stay
 * between steps first, then what lives for one step. Sizes in bytes, places as offsets. */
#ifndef WEIR_DEVICE_OFFLOAD_SPILL_SLOTS_H
#define WEIR_DEVICE_OFFLOAD_SPILL_SLOTS_H

#include "device/device.h"

/* The device's store for values that leave has room for all homes and `bytes` more, and places for
 * so many tickets, from now on. */
weir_status weir_device_spill(weir_device *d, size_t bytes, uint32_t tickets);

/* A place in the spill file for a value that stays; the store itself is told later. */
weir_status weir_device_spill_slot(weir_device *d, size_t bytes, size_t *at);
void        weir_device_spill_slot_free(weir_device *d, size_t at);

/* Its bandwidths, bytes per second; measured at the first call. */
weir_status weir_device_spill_speed(weir_device *d, double *out, double *in);

#endif
