/* placement_check.h - checks offsets; shares no code with the strategies that find them. */
#ifndef WEIR_GRAPH_PLACEMENT_PLACEMENT_CHECK_H
#define WEIR_GRAPH_PLACEMENT_PLACEMENT_CHECK_H

#include "core/status.h"
#include "graph/placement/item.h"

/* Returns WEIR_OK if offsets are multiples of `align`, items live at the same step are disjoint,
 * and all lie within [0, height). Otherwise ERR_STATE, with a message that begins with "internal:
 * ", or ERR_NOMEM. */
weir_status weir_place_check(const weir_item *items, uint32_t n, size_t align, size_t height);

#endif
