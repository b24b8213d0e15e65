/* pool.h - recycles freed blocks of device memory by size class. */
#ifndef WEIR_DEVICE_MEMORY_POOL_H
#define WEIR_DEVICE_MEMORY_POOL_H

#include "device/device.h"

/* Returns memory of at least `bytes`; *got: the bytes counted, to be passed to weir_pool_give. */
weir_status weir_pool_take(weir_device *d, size_t bytes, void **p, size_t *got);
void        weir_pool_give(weir_device *d, void *p, size_t got);

/* The same for persistent blocks, which are never recycled: *got is `bytes` rounded up to the
 * device's alignment, guard zones included, so plans count exactly the bytes held. */
weir_status weir_pool_take_persistent(weir_device *d, size_t bytes, void **p, size_t *got);
void        weir_pool_give_persistent(weir_device *d, void *p, size_t got);

/* Makes a block of weir_pool_take, of `got` bytes, persistent without moving it. */
void weir_pool_adopt(weir_device *d, const void *p, size_t got);

/* Limits live bytes from now on (reclaim and drop_one must be set), and held bytes to a quarter
 * more unless free memory is fragmented. Blocks are then cut from a heap: with size classes every
 * call would have to return blocks to the system and allocate others to stay within the limit. */
void weir_pool_set_limit(weir_device *d, size_t limit);

/* Takes device memory from the system. Unless its bytes are within a budget that was named
 * (budgeted), the device's reserve stays free, else it fails with ERR_NOMEM. */
weir_status weir_pool_alloc(weir_device *d, size_t bytes, bool huge, bool budgeted, void **p);

/* Return free blocks to the system: all of them; until at most `most` bytes are held. */
void weir_pool_trim(weir_device *d);
void weir_pool_trim_to(weir_device *d, size_t most);

#endif
