/* arena.h - the one piece of a device's memory that its plans lay their values into. */
#ifndef WEIR_DEVICE_MEMORY_ARENA_H
#define WEIR_DEVICE_MEMORY_ARENA_H

#include "device/device.h"

/* The arena holds at least `bytes` from now on; it never shrinks. Grown memory is touched once,
 * so that no run faults. */
weir_status weir_device_arena(weir_device *d, size_t bytes);

/* Gives its memory back to the system. */
void weir_device_arena_free(weir_device *d);

#endif
