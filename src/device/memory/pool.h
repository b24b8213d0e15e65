/* pool.h - recycles freed blocks of device memory by size class. */
#ifndef WEIR_DEVICE_MEMORY_POOL_H
#define WEIR_DEVICE_MEMORY_POOL_H

#include "device/device.h"

/* Memory of at least `bytes`; *got is what was counted and must be given back. */
weir_status weir_pool_take(weir_device *d, size_t bytes, void **p, size_t *got);
void        weir_pool_give(weir_device *d, void *p, size_t got);

/* The same for persistent blocks: never recycled, and *got is `bytes` rounded up to the device's
 * alignment, guard zones included, so that what a plan counts is what is held. */
weir_status weir_pool_take_persistent(weir_device *d, size_t bytes, void **p, size_t *got);
void        weir_pool_give_persistent(weir_device *d, void *p, size_t got);

/* A block of weir_pool_take of `got` bytes becomes persistent where it lies. */
void weir_pool_adopt(weir_device *d, const void *p, size_t got);

/* Limits live bytes from now on (reclaim and drop_one are set), and held ones to a quarter more
 * unless free bytes lie in many pieces. Blocks are cut from a slab then: classes would have to give
 * blocks to the system and take others, at every call, to stay within the limit. */
void weir_pool_set_limit(weir_device *d, size_t limit);

/* Gives every free block back to the system; only until at most `most` bytes are held. */
void weir_pool_trim(weir_device *d);
void weir_pool_trim_to(weir_device *d, size_t most);

#endif
