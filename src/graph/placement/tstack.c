/* tstack.c - two-ended placement: long-lived items grow up from the bottom, short-lived items hang
 * down from the top.
 *
 * Two stacks that grow towards each other from the ends of one area (Knuth, The Art of Computer
 * Programming, volume 1, section 2.2.2) fragment less than one if temporaries keep to the far side:
 * the hole that each leaves merges with the free middle. The whole step is known, so each item, in
 * the order of first steps, gets the lowest gap or hangs in the highest one. Trial finds the
 * longest live range that hangs (up to 1, 2, 4, ... steps) and the ceiling (from the target
 * upwards, a multiple of the sizes' common divisor, so that hanging items are aligned). An item
 * without a gap below the ceiling is placed above it; one of 0 bytes never hangs, since it must not
 * make the height. */
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "graph/placement/placer.h"

enum {
    CEILINGS = 8,               /* tried between the target and the best height so far */
    MOST_VISITS = 400000000     /* of live items, after which no other ceiling is tried: 0.3 s */
};

typedef struct weir_tstack {
    weir_placer *p;
    uint32_t    *order;         /* [n] by first step, the longest live range first */
    uint32_t    *live;          /* placed items that are still live, by offset */
    uint32_t     lives;
    uint64_t     visits;        /* of live items, by all tries */
} weir_tstack;

typedef struct weir_start {
    uint32_t first, last, item;
} weir_start;

static int by_start(const void *a, const void *b)
{
    const weir_start *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    if (x->last != y->last)
        return x->last > y->last ? -1 : 1;
    return (x->item > y->item) - (x->item < y->item);
}

/* Removes items that end before the step from the list. */
static void release(weir_tstack *t, uint32_t step)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < t->lives; i++)
        if (t->p->item[t->live[i]].last >= step)
            t->live[kept++] = t->live[i];
    t->lives = kept;
}

/* Returns the offset of the lowest gap for `bytes`; if `hang`, the highest offset in a gap below
 * the ceiling. */
static size_t find_gap(const weir_tstack *t, size_t bytes, size_t ceiling, bool hang)
{
    size_t end = 0, found = SIZE_MAX;

    for (uint32_t i = 0; i < t->lives; i++) {
        const size_t at = t->p->offset[t->live[i]], top = at + t->p->item[t->live[i]].bytes;
        if (at >= end + bytes && (!hang || at <= ceiling)) {
            found = hang ? at - bytes : end;
            if (!hang)
                return found;
        }
        end = top > end ? top : end;        /* an item of 0 bytes may lie inside another */
    }
    if (hang && ceiling >= end + bytes)
        return ceiling - bytes;
    return found == SIZE_MAX ? end : found;
}

static void insert(weir_tstack *t, uint32_t item)
{
    uint32_t i = t->lives++;
    for (; i > 0 && t->p->offset[t->live[i - 1]] > t->p->offset[item]; i--)
        t->live[i] = t->live[i - 1];
    t->live[i] = item;
}

static void try_ceiling(weir_tstack *t, uint32_t soon, size_t ceiling, const char *name)
{
    t->lives = 0;
    for (uint32_t i = 0; i < t->p->n; i++) {
        const uint32_t   k = t->order[i];
        const weir_item *it = &t->p->item[k];
        t->visits += t->lives;
        release(t, it->first);
        const bool       hang = it->bytes > 0 && it->last - it->first <= soon;
        t->p->offset[k] = find_gap(t, it->bytes, ceiling, hang);
        insert(t, k);
    }
    weir_place_offer(t->p, name);
}

static bool goes_on(const weir_tstack *t)
{
    return !weir_place_done(t->p) && t->visits < MOST_VISITS;
}

static void search(weir_tstack *t, const char *name)
{
    weir_placer *p = t->p;
    const size_t unit = weir_place_unit(p);

    for (uint64_t soon = 1; soon / 2 < p->steps && goes_on(t); soon *= 2)
        for (size_t c = 0; c < CEILINGS && goes_on(t); c++) {
            const size_t low = p->target;
            const size_t room = p->best_height > low && p->best_height != SIZE_MAX
                                    ? p->best_height - low : low / 2;
            const size_t ceiling = low + room / CEILINGS * c;
            try_ceiling(t, (uint32_t)(soon - 1), ceiling / unit * unit, name);
        }
}

weir_status weir_place_tstack(weir_placer *p, const char *name)
{
    weir_start *start = weir_mem_alloc((p->n + 1u) * sizeof *start);
    weir_tstack t = {.p = p, .order = weir_mem_alloc((p->n + 1u) * sizeof *t.order),
                     .live = weir_mem_alloc((p->n + 1u) * sizeof *t.live)};
    const bool  ok = start && t.order && t.live;

    if (ok) {
        for (uint32_t i = 0; i < p->n; i++)
            start[i] = (weir_start){p->item[i].first, p->item[i].last, i};
        qsort(start, p->n, sizeof *start, by_start);
        for (uint32_t i = 0; i < p->n; i++)
            t.order[i] = start[i].item;
        search(&t, name);
    }
    weir_mem_free(start);
    weir_mem_free(t.order);
    weir_mem_free(t.live);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}
