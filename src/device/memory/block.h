/* block.h - a reference-counted piece of device memory, allocated when first written. */
#ifndef WEIR_DEVICE_MEMORY_BLOCK_H
#define WEIR_DEVICE_MEMORY_BLOCK_H

#include "core/kind.h"
#include "core/ref.h"
#include "device/device.h"
#include "device/memory/guard.h"

typedef struct weir_block {
    weir_ref     ref;
    weir_device *dev;           /* referenced */
    size_t       bytes;         /* asked for */
    size_t       got;           /* counted by the pool; 0 while data is NULL */
    void        *data;          /* NULL until first written */
    weir_kind    kind;          /* when it is given memory; may change later */
    bool         persistent;    /* data was taken as persistent memory */
    bool         written;       /* holds a value */
    const char  *never;         /* of an output without one: why it will not have any, or NULL */
    /* While a graph that made this value is being recorded: the graph and its storage number. The
     * graph is told (orphan) when the last handle goes. */
    void    *owner;
    uint32_t storage;
    void       (*orphan)(struct weir_block *b);
    /* While a budget holds with the graph off: what the graph room knows of how the value was made.
     * A value that is written and has no data can be made again from that. */
    void        *origin;
    bool         shared;        /* its address was given away: it may change at any time */
    /* Its version: dev->changes when its elements changed last, and by what, a static string. Of
     * one whose address was given away the elements seen last are known by their checksum. */
    uint64_t     changed;
    const char  *changed_by;
    uint64_t     seen;
    bool         looked;
    /* While a graph keeps it in the spill file between steps. */
    bool   offloaded;      /* the value is there, and data is NULL */
    bool   has_spill_slot; /* it has a place there */
    size_t spill_slot;     /* that place */
} weir_block;

/* A block without memory. NULL when memory is short. */
weir_block *weir_block_new(weir_device *d, size_t bytes, weir_kind kind);

/* Gives it memory if it has none; a value that is away comes back into it, or stays away. */
weir_status weir_block_touch(weir_block *b);

/* A place in the spill file that is the block's own as long as it lives. */
weir_status weir_block_take_spill_slot(weir_block *b);

/* Its value goes there and its memory away, until it is touched. A failure leaves it as it was. */
weir_status weir_block_offload(weir_block *b);

/* A value that came back goes again, unchanged: what is in the file is still good. */
void weir_block_offload_clean(weir_block *b);

/* Gives it memory to overwrite as a whole: a value that is away need not come back. It is there
 * again after weir_block_offload_clean, should that fail. */
weir_status weir_block_touch_whole(weir_block *b);

/* It becomes a persistent block of the kind; memory it has stays where it is. */
void weir_block_persist(weir_block *b, weir_kind kind);

/* Its elements have changed, or will before anybody reads them. */
void weir_block_changed(weir_block *b, const char *by);

/* Finds changes that were made through an address which was given away. */
void weir_block_look(weir_block *b);

/* Takes its memory away now (nobody reads it any more); handles stay valid, unwritten. */
void weir_block_empty(weir_block *b);

/* Takes its memory away until somebody reads it. */
void weir_block_evict(weir_block *b);

/* Looks at the guard zones round its memory: weir_guard_look. */
static inline weir_status weir_guard_look_block(weir_watch *w, int i, const weir_block *b)
{
    return weir_guard_look(w, i, b->data, b->bytes, b->bytes);
}

#endif
