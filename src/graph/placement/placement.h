/* placement.h - offsets for items with lifetimes: strategies by name (placements.def).
 *
 * Items that are live at the same step lie apart; the height is the end of the highest. No height
 * is below the bound, the largest sum of bytes live at one step. */
#ifndef WEIR_GRAPH_PLACEMENT_PLACEMENT_H
#define WEIR_GRAPH_PLACEMENT_PLACEMENT_H

#include "core/status.h"
#include "graph/placement/item.h"

typedef struct weir_placement_options {
    const char *strategy;       /* NULL: "auto" */
    size_t      capacity;       /* a height that is low enough; 0: as low as possible */
    uint64_t    nodes;          /* of the exact search, at most; 0: by the number of items */
    uint32_t    repairs;        /* of each greedy order, at most; 0: by the number of items */
    bool        thorough;       /* then: so that it takes a minute, not a part of a second */
} weir_placement_options;

typedef struct weir_placement_result {
    size_t      height, lower_bound;
    const char *strategy;       /* that won, never "auto" */
    uint64_t    nodes;          /* of the exact search */
    bool        proven;         /* no placement is lower, or none is within the capacity */
} weir_placement_result;

/* Offsets of n items with steps below `steps`; how may be NULL. OK even where the capacity was not
 * met: the offsets are then the lowest found. The same input gives the same offsets. */
weir_status weir_place_items(weir_item *items, uint32_t n, uint32_t steps,
                             const weir_placement_options *how, weir_placement_result *result);

/* The same for searches, which look at many: quicker, and no lower than `limit` bytes where that
 * does. A strategy other than "auto" runs as it is. */
weir_status weir_place_within(weir_item *items, uint32_t n, uint32_t steps, const char *strategy,
                              size_t limit, weir_placement_result *result);

/* The strategy's own name (NULL: "auto"), which lasts; NULL with ERR_INVALID if there is none. */
const char *weir_place_named(const char *strategy);

/* The largest sum of bytes that are live at one step. */
weir_status weir_place_bound(const weir_item *items, uint32_t n, uint32_t steps, size_t *bound);

#endif
