/* placed.h - every placement by name, and what a right placement is by definition. */
#ifndef WEIR_TEST_GRAPH_PLACED_H
#define WEIR_TEST_GRAPH_PLACED_H

#include "check.h"
#include "graph/placement/item.h"
#include "graph/placement/placements.def"

#define PLACEMENT_NAME(name, ...) name,
static const char *const placers[] = {WEIR_PLACEMENTS(PLACEMENT_NAME)};
static const size_t units[] = {64, 256};

/* $WEIR_TEST_COUNT, or `quick`. */
static inline int rounds(int quick)
{
    const char *const asked = getenv("WEIR_TEST_COUNT");
    return asked && *asked ? atoi(asked) : quick;
}

/* True if every offset is a multiple of the unit, items that live together do not overlap, and
 * height is the end of the highest item. */
static inline bool well_placed(const weir_item *item, uint32_t n, size_t unit, size_t height)
{
    size_t top = 0;
    bool   good = true;

    for (uint32_t i = 0; i < n; i++) {
        const weir_item *a = &item[i];
        good = good && a->offset % unit == 0;
        top = a->bytes && a->offset + a->bytes > top ? a->offset + a->bytes : top;
        for (uint32_t k = 0; k < i; k++) {
            const weir_item *b = &item[k];
            good = good && (a->last < b->first || b->last < a->first || !a->bytes || !b->bytes ||
                            a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset);
        }
    }
    return good && top == height;
}

#endif
