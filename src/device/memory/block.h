/* block.h - a reference-counted block of device memory, allocated when first written. */
#ifndef WEIR_DEVICE_MEMORY_BLOCK_H
#define WEIR_DEVICE_MEMORY_BLOCK_H

#include "core/kind.h"
#include "core/ref.h"
#include "device/device.h"
#include "device/memory/guard.h"

typedef struct weir_block {
    weir_ref     ref;
    weir_device *dev;           /* referenced */
    size_t       bytes;         /* requested */
    size_t       got;           /* counted by the pool; 0 while data is NULL */
    char        *name;          /* of the tensor that covers it: owned; NULL: none */
    weir_desc    desc;          /* of the tensor that it was made for, if `shaped` */
    bool         shaped;
    void        *data;          /* NULL until first written, and while offloaded or evicted */
    weir_kind    kind;          /* what allocation is counted as; may change later */
    bool         persistent;    /* data was taken as persistent memory */
    bool         written;       /* holds a value */
    const char  *never;         /* why an output never gets a value: a static string, or NULL */
    /* While the graph that made this value is being recorded: the graph and its storage number. The
     * release of the last handle calls orphan. */
    void    *owner;
    uint32_t storage;
    void       (*orphan)(struct weir_block *b);
    /* Under a budget with the graph off: the lineage of the value, owned by src/graph. A value that
     * is written but has no data can be recomputed from it. */
    void        *origin;
    bool         shared;        /* the program has its address: elements may change at any time */
    /* Its version: dev->changes at the last change of its elements, and the cause, a static string.
     * For a shared block `seen` is the checksum of the elements at the last check. */
    uint64_t     changed;
    const char  *changed_by;
    uint64_t     seen;
    bool         looked;
    /* While a graph keeps it in the offload store between steps. */
    bool   offloaded;      /* the value is in its spill slot, and data is NULL */
    bool   has_spill_slot;
    size_t spill_slot;     /* offset in the store */
} weir_block;

/* Creates a block without memory. NULL if memory runs out. */
weir_block *weir_block_new(weir_device *d, size_t bytes, weir_kind kind);

/* Allocates the block's memory if it has none, and prefetches an offloaded value into it. After a
 * failure the value is still offloaded. */
weir_status weir_block_touch(weir_block *b);

/* Reserves a spill slot for the lifetime of the block. */
weir_status weir_block_take_spill_slot(weir_block *b);

/* Copies the value to its spill slot and frees its memory, until weir_block_touch. A failure leaves
 * the block unchanged. */
weir_status weir_block_offload(weir_block *b);

/* Offloads a value that has not changed since it was prefetched: nothing is copied, as the slot
 * still holds it. */
void weir_block_offload_clean(weir_block *b);

/* Allocates memory that the caller will overwrite whole, without prefetching an offloaded value. If
 * the overwriting fails, weir_block_offload_clean restores the value. */
weir_status weir_block_touch_whole(weir_block *b);

/* Makes the block persistent, of the given kind; its memory does not move. */
void weir_block_persist(weir_block *b, weir_kind kind);

/* Records that its elements have changed, or will change before the next read. by: the cause, a
 * static string. */
void weir_block_changed(weir_block *b, const char *by);

/* Compares a shared block's checksum to detect changes made through its address. */
void weir_block_look(weir_block *b);

/* Frees the memory of a value that is not read again; handles stay valid, unwritten. */
void weir_block_empty(weir_block *b);

/* Frees the memory until the next read recomputes the value. */
void weir_block_evict(weir_block *b);

/* Checks the guard zones around the block's memory: weir_guard_look. */
static inline weir_status weir_guard_look_block(weir_watch *w, int i, const weir_block *b)
{
    return weir_guard_look(w, i, b->data, b->bytes, b->bytes);
}

#endif
