/* reserve.h - how much of a device's memory stays free where no budget is named. */
#ifndef WEIR_DEVICE_MEMORY_RESERVE_H
#define WEIR_DEVICE_MEMORY_RESERVE_H

#include "device/resources.h"

enum { WEIR_RESERVE_SHARE = 16 };  /* a reserve is at most 1/WEIR_RESERVE_SHARE of the total */

/* The bytes of `space` that stay free on a device that asks for `wanted` (weir_device_ops.reserve):
 * at most that share. */
static inline size_t weir_reserve_of(size_t wanted, const weir_memory_limits *space)
{
    const size_t most = space->total / WEIR_RESERVE_SHARE;
    return wanted < most ? wanted : most;
}

#endif
