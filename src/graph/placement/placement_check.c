/* placement_check.c - checks offsets by a sweep over the steps that trusts no number of a strategy.
 *
 * Items begin and end at their steps; the live ones are kept sorted by offset, so that a new one
 * can overlap only its two neighbours. Items of 0 bytes overlap nothing, but must be aligned, since
 * operands point to them. */
#include "graph/placement/placement_check.h"

#include <stdlib.h>
#include <string.h>

#include "core/status.h"

typedef struct weir_turn {
    uint32_t step, item;
    bool     begins;
} weir_turn;

/* At each step, items that have ended leave before items that begin arrive. */
static int by_turn(const void *a, const void *b)
{
    const weir_turn *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->begins != y->begins)
        return x->begins ? 1 : -1;
    return (x->item > y->item) - (x->item < y->item);
}

/* Returns the index among the live items for an item at that offset. */
static uint32_t rank_of(const weir_item *item, const uint32_t *live, uint32_t n, size_t offset)
{
    uint32_t lo = 0, hi = n;

    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo) / 2;
        if (item[live[mid]].offset < offset)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static weir_status met(const weir_item *item, uint32_t i, uint32_t k)
{
    return weir_fail(WEIR_ERR_STATE, "internal: placement: bytes %zu to %zu of item %u (steps %u "
                     "to %u) are those of item %u (%zu to %zu, steps %u to %u)", item[i].offset,
                     item[i].offset + item[i].bytes, i, item[i].first, item[i].last, k,
                     item[k].offset, item[k].offset + item[k].bytes, item[k].first, item[k].last);
}

static weir_status sweep(const weir_item *item, const weir_turn *turn, uint32_t turns,
                         uint32_t *live)
{
    uint32_t n = 0;

    for (uint32_t t = 0; t < turns; t++) {
        const uint32_t   i = turn[t].item;
        const weir_item *it = &item[i];
        const uint32_t   at = rank_of(item, live, n, it->offset);
        if (!turn[t].begins) {
            memmove(live + at, live + at + 1, (--n - at) * sizeof *live);
            continue;
        }
        if (at < n && item[live[at]].offset < it->offset + it->bytes)
            return met(item, i, live[at]);
        if (at > 0 && item[live[at - 1]].offset + item[live[at - 1]].bytes > it->offset)
            return met(item, i, live[at - 1]);
        memmove(live + at + 1, live + at, (n++ - at) * sizeof *live);
        live[at] = i;
    }
    return WEIR_OK;
}

static weir_status check_one(const weir_item *it, uint32_t i, size_t align, size_t height)
{
    if (it->offset % align)
        return weir_fail(WEIR_ERR_STATE, "internal: placement: item %u of %zu bytes: offset %zu "
                         "is not a multiple of %zu", i, it->bytes, it->offset, align);
    if (it->bytes && (it->offset > height || it->bytes > height - it->offset))
        return weir_fail(WEIR_ERR_STATE, "internal: placement: item %u: %zu bytes at %zu end "
                         "beyond the %zu available", i, it->bytes, it->offset, height);
    return WEIR_OK;
}

weir_status weir_place_check(const weir_item *items, uint32_t n, size_t align, size_t height)
{
    uint32_t turns = 0;

    for (uint32_t i = 0; i < n; i++)
        WEIR_TRY(check_one(&items[i], i, align, height));
    weir_turn *const turn = weir_mem_alloc((2 * (size_t)n + 1) * sizeof *turn);
    uint32_t *const  live = weir_mem_alloc((n + (size_t)1) * sizeof *live);
    weir_status      status = WEIR_ERR_NOMEM;
    if (turn && live) {
        for (uint32_t i = 0; i < n; i++)
            if (items[i].bytes) {
                turn[turns++] = (weir_turn){items[i].first, i, true};
                turn[turns++] = (weir_turn){items[i].last + 1, i, false};
            }
        qsort(turn, turns, sizeof *turn, by_turn);
        status = sweep(items, turn, turns, live);
    }
    weir_mem_free(turn);
    weir_mem_free(live);
    return status;
}
