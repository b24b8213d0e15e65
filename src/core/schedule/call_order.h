/* call_order.h - an order of a list of calls whose peak of live bytes is low.
 *
 * What is counted: storages from their creation to their last read, the scratch of the call that
 * runs, and nothing for a storage that takes over the memory of another. */
#ifndef WEIR_CORE_SCHEDULE_CALL_ORDER_H
#define WEIR_CORE_SCHEDULE_CALL_ORDER_H

#include "core/schedule/deps.h"

/* What an order costs in the end, where that is more than its peak: offsets that leave gaps. */
typedef struct weir_order_measure {
    size_t (*height)(void *context, const uint32_t *order, size_t peak);    /* in bytes, >= peak */
    void   *context;
} weir_order_measure;

/* Writes an order to order[calls]: the i-th call to run is order[i]. Its peak is no larger than
 * that of the listed order. measure: chooses among a few orders; NULL: by their peaks.
 * Deterministic; it makes at most a few dozen passes over the list. Returns false if memory runs
 * out. */
bool weir_deps_order(const weir_dep_list *l, const weir_order_measure *measure, uint32_t *order);

/* Memory that is live from position `first` of an order to position `last`. */
typedef struct weir_range_of_bytes {
    size_t   bytes;
    uint32_t first, last;
} weir_range_of_bytes;

typedef WEIR_VEC(weir_range_of_bytes) weir_live_ranges;

/* Replaces *ranges by those of an order: storages, one range for all that take over its memory, and
 * scratch. Returns false if memory runs out. */
bool weir_deps_live_ranges(const weir_dep_list *l, const uint32_t *order, weir_live_ranges *ranges);

/* The peak in bytes of an order; NULL: of the listed one. Returns false if memory runs out. */
bool weir_deps_peak(const weir_dep_list *l, const uint32_t *order, size_t *peak);

#endif
