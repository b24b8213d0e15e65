/* arena.h - the one range of device memory in which all plans of the device place their values, and
 * those that graphs keep while they wait between their two halves. */
#ifndef WEIR_DEVICE_MEMORY_ARENA_H
#define WEIR_DEVICE_MEMORY_ARENA_H

#include "device/device.h"

/* Grows the arena to at least `bytes`; only weir_device_arena_free makes it smaller. New pages are
 * touched once, so that no run takes page faults. budgeted: as in weir_pool_alloc. Fails with
 * ERR_NOMEM. */
weir_status weir_device_arena(weir_device *d, size_t bytes, bool budgeted);

/* Returns its memory to the system. */
void weir_device_arena_free(weir_device *d);

/* Makes the device's arena that of h, which must live until it is given back or the device is
 * closed. The next plan that runs gets another one. */
void weir_device_arena_hold(weir_device *d, weir_held_arena *h);

/* Makes the arena of h the device's again. *aside becomes the one that the device had meanwhile:
 * pass it to weir_device_arena_merge once the arena of h is no longer in use. */
void weir_device_arena_give_back(weir_device *d, weir_held_arena *h, weir_arena *aside);

/* Keeps the larger of the device's arena and *aside, and frees the other. */
void weir_device_arena_merge(weir_device *d, weir_arena *aside);

#endif
