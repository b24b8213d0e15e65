/* spill_slots.h - the slots of a device's offload store: first those that stay between steps, then
 * those of one step. Sizes in bytes, slots as byte offsets. */
#ifndef WEIR_DEVICE_OFFLOAD_SPILL_SLOTS_H
#define WEIR_DEVICE_OFFLOAD_SPILL_SLOTS_H

#include "device/device.h"

/* Grows the offload store to all slots that stay between steps plus `bytes`, and its table to
 * `tickets` tickets. */
weir_status weir_device_spill(weir_device *d, size_t bytes, uint32_t tickets);

/* Reserves a slot that stays between steps. The store itself grows later, in weir_device_spill. */
weir_status weir_device_spill_slot(weir_device *d, size_t bytes, size_t *at);
void        weir_device_spill_slot_free(weir_device *d, size_t at);

/* Bandwidths of the store in bytes per second; measured in the first call. */
weir_status weir_device_spill_speed(weir_device *d, double *out, double *in);

#endif
