/* pool.h - recycles freed blocks of device memory by size class. */
#ifndef WEIR_DEVICE_MEMORY_POOL_H
#define WEIR_DEVICE_MEMORY_POOL_H

#include "device/memory/heap.h"
#include "weir/device.h"

/* Classes: multiples of the alignment up to 32 of them, then 32 per power of two (at most 3 %
 * over). A request takes a free block of its own class or of one up to a sixteenth larger before it
 * asks the system. */
#define WEIR_POOL_CLASSES 1920

/* A free block of device memory: described on the host, whatever the device. */
typedef struct weir_pool_free {
    struct weir_pool_free *next;
    void                  *p;
} weir_pool_free;

typedef struct weir_pool {
    weir_pool_free *head[WEIR_POOL_CLASSES];
    weir_pool_free *spare;           /* one per block handed out: giving needs no memory */
    size_t          live, live_peak; /* bytes handed out, by class size */
    size_t          persistent;      /* of those: parameters, state, inputs, outputs */
    size_t          held;            /* bytes taken from the system, free ones included */
    size_t          limit;           /* of live; SIZE_MAX: none */
    weir_heap       heap;            /* with a limit: all that it leaves, in one piece */
    bool            stale;           /* the slab is for another limit: to go when it is empty */
    /* With a limit: makes live + bytes fit, or fails; lets one value go, false if none may. */
    weir_status (*reclaim)(weir_device *d, size_t bytes);
    bool        (*drop_one)(weir_device *d);
} weir_pool;

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
