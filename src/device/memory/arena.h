/* arena.h - the one range of device memory in which all plans of the device place their values. */
#ifndef WEIR_DEVICE_MEMORY_ARENA_H
#define WEIR_DEVICE_MEMORY_ARENA_H

#include "device/device.h"

/* Grows the arena to at least `bytes`; only weir_device_arena_free makes it smaller. New pages are
 * touched once, so that no run takes page faults. budgeted: as in weir_pool_alloc. Fails with
 * ERR_NOMEM. */
weir_status weir_device_arena(weir_device *d, size_t bytes, bool budgeted);

/* Returns its memory to the system. */
void weir_device_arena_free(weir_device *d);

#endif
