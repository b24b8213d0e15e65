/* placement.h - finds offsets for items with live ranges by named strategies (placements.def).
 *
 * Items that are live at the same step do not overlap. The height is the end of the highest item;
 * no height is below the bound, the largest sum of bytes live at one step. Offsets are bytes. */
#ifndef WEIR_GRAPH_PLACEMENT_PLACEMENT_H
#define WEIR_GRAPH_PLACEMENT_PLACEMENT_H

#include "core/status.h"
#include "graph/placement/item.h"

typedef struct weir_placement_options {
    const char *strategy;       /* NULL: "auto" */
    size_t      capacity;       /* a height that is low enough; 0: find the lowest */
    size_t      slack;          /* auto: bytes above the lowest that are not worth a search */
    uint64_t    nodes;          /* limit of the exact search; 0: by the number of items */
    uint32_t    repairs;        /* limit for each greedy order; 0: by the number of items */
    /* with nodes 0: limits for a minute instead of a fraction of a second */
    bool        thorough;
} weir_placement_options;

/* height, lower_bound: bytes. */
typedef struct weir_placement_result {
    size_t      height, lower_bound;
    const char *strategy;       /* name of the strategy that won, static; never "auto" */
    uint64_t    nodes;          /* spent by the exact search */
    bool        proven;         /* no placement is lower, or none is within the capacity */
} weir_placement_result;

/* Sets the offsets of n items with steps below `steps`; `how` may be NULL. Succeeds even if the
 * capacity is not met: the offsets are then the lowest found. The same input gives the same
 * offsets. Returns ERR_INVALID for an unknown strategy, or ERR_NOMEM. */
weir_status weir_place_items(weir_item *items, uint32_t n, uint32_t steps,
                             const weir_placement_options *how, weir_placement_result *result);

/* The same for searches that call it often: faster, and it stops at a height of `limit` bytes. A
 * strategy other than "auto" runs in full. */
weir_status weir_place_within(weir_item *items, uint32_t n, uint32_t steps, const char *strategy,
                              size_t limit, weir_placement_result *result);

/* Returns the strategy's name from the table, which is static (NULL: "auto"); NULL with ERR_INVALID
 * for unknown names. */
const char *weir_place_named(const char *strategy);

/* Sets *bound to the largest sum of bytes that are live at one step. Returns WEIR_OK or
 * ERR_NOMEM. */
weir_status weir_place_bound(const weir_item *items, uint32_t n, uint32_t steps, size_t *bound);

/* Sets *slack to the bytes above that bound that a plan gives away: the search for them would take
 * longer than all else. As weir_place_bound. */
weir_status weir_place_slack(const weir_item *items, uint32_t n, uint32_t steps, size_t *slack);

#endif
