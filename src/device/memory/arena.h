/* arena.h - the piece of device memory that all plans of the device place their values in. */
#ifndef WEIR_DEVICE_MEMORY_ARENA_H
#define WEIR_DEVICE_MEMORY_ARENA_H

#include "device/device.h"

/* Grows the arena to at least `bytes`; it never shrinks. New memory is touched once, so that no run
 * causes page faults. */
weir_status weir_device_arena(weir_device *d, size_t bytes);

/* Gives its memory back to the system. */
void weir_device_arena_free(weir_device *d);

#endif
