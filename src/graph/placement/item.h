/* item.h - what is placed: bytes that are live from one step to another. */
#ifndef WEIR_GRAPH_PLACEMENT_ITEM_H
#define WEIR_GRAPH_PLACEMENT_ITEM_H

#include <stdint.h>

#include "core/kind.h"
#include "core/vec.h"

/* A range of the arena over a span of steps (the instructions of a plan, the events of a schedule):
 * a temporary storage, with all that take over its memory in place, or the workspace of one
 * step. */
typedef struct weir_item {
    size_t    bytes; /* a multiple of the device's alignment */
    size_t    offset;
    uint32_t  first, last; /* steps, both included */
    uint32_t  storage;     /* the storage that began it; UINT32_MAX: a workspace */
    weir_kind kind;
} weir_item;

typedef WEIR_VEC(weir_item) weir_items;

#endif
