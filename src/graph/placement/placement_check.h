/* placement_check.h - the judge of offsets, which shares nothing with those that find them. */
#ifndef WEIR_GRAPH_PLACEMENT_PLACEMENT_CHECK_H
#define WEIR_GRAPH_PLACEMENT_PLACEMENT_CHECK_H

#include "core/status.h"
#include "graph/placement/item.h"

/* Judges offsets: multiples of `align`, items that are live at the same step apart, all of them
 * within [0, height). Else ERR_STATE and a sentence that begins with "internal: ". */
weir_status weir_place_check(const weir_item *items, uint32_t n, size_t align, size_t height);

#endif
