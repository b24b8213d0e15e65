/* place_fuzz.c - thousands of random sets of live ranges: placed without overlap, aligned, not
 * below the bound, the same every time. */
#include "graph/placement/placement.h"

#include <string.h>

#include "check.h"
#include "core/mem.h"

enum { UNIT = 64 };

static bool together(const weir_item *a, const weir_item *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* Returns the largest sum of live bytes, by definition. */
static size_t bound_of(const weir_item *items, uint32_t n, uint32_t steps)
{
    size_t most = 0;
    for (uint32_t t = 0; t < steps; t++) {
        size_t live = 0;
        for (uint32_t i = 0; i < n; i++)
            if (items[i].first <= t && t <= items[i].last)
                live += items[i].bytes;
        most = live > most ? live : most;
    }
    return most;
}

static void check_placed(const weir_item *items, uint32_t n, uint32_t steps,
                         const weir_placement_result *r)
{
    size_t top = 0;
    bool   apart = true, aligned = true;

    for (uint32_t i = 0; i < n; i++) {
        const weir_item *a = &items[i];
        aligned = aligned && a->offset % UNIT == 0;
        top = a->offset + a->bytes > top && a->bytes ? a->offset + a->bytes : top;
        for (uint32_t k = 0; k < i; k++) {
            const weir_item *b = &items[k];
            apart = apart && (!together(a, b) || a->offset + a->bytes <= b->offset ||
                              b->offset + b->bytes <= a->offset);
        }
    }
    CHECK(apart && aligned);
    CHECK(top == r->height);
    CHECK(r->lower_bound == bound_of(items, n, steps) && r->height >= r->lower_bound);
}

/* Items as they occur in steps: nested as in training, chains, short ones, some of 0 bytes. */
static weir_item random_item(int style, uint32_t steps)
{
    const uint32_t a = (uint32_t)check_int(0, steps - 1), b = (uint32_t)check_int(0, steps - 1);
    weir_item      it = {.first = a < b ? a : b,
                         .last = a < b ? b : a,
                         .storage = UINT32_MAX,
                         .bytes = (size_t)check_int(0, 40) * UNIT};

    if (style == 1 && it.first < steps / 2)                     /* forward to mirrored backward */
        it.last = steps - 1 - it.first;
    else if (style == 2)                                        /* read soon */
        it.last = it.first + 2 < steps ? it.first + 2 : steps - 1;
    else if (style == 3)
        it.bytes = (size_t)UNIT << check_int(0, 16);
    return it;
}

CASE(random_lifetimes)
{
    double ratio = 0;
    int    sets = 0;

    for (int round = 0; round < 3000; round++) {
        weir_item             items[64], second[64];
        const uint32_t        steps = (uint32_t)check_int(1, 40);
        const uint32_t        n = (uint32_t)check_int(0, round % 8 ? 24 : 64);
        weir_placement_result p, q;
        for (uint32_t i = 0; i < n; i++)
            items[i] = random_item(round % 4, steps);
        memcpy(second, items, n * sizeof *items);
        if (!CHECK_OK(weir_place_items(items, n, steps, NULL, &p)))
            return;
        check_placed(items, n, steps, &p);

        CHECK_OK(weir_place_items(second, n, steps, NULL, &q));
        CHECK(q.height == p.height && q.strategy == p.strategy);
        CHECK_BITS(items, second, n * sizeof *items);
        if (p.lower_bound > 0) {
            ratio += (double)p.height / (double)p.lower_bound;
            sets++;
        }
    }
    CHECK(ratio / sets < 1.02);
}

CASE(nothing_to_place)
{
    weir_item             empty[2] = {{.first = 0, .last = 2}, {.first = 1, .last = 1}};
    weir_placement_result p;

    CHECK_OK(weir_place_items(NULL, 0, 3, NULL, &p));
    CHECK(p.height == 0 && p.lower_bound == 0);
    CHECK_OK(weir_place_items(empty, 2, 3, NULL, &p));
    CHECK(p.height == 0 && p.lower_bound == 0);
}

/* Many large items: sums exceed 32 bits. */
CASE(large_arenas)
{
    weir_item             items[8];
    weir_placement_result p;

    for (uint32_t i = 0; i < 8; i++)
        items[i] = (weir_item){.bytes = (size_t)3 << 40, .first = 0, .last = i};
    CHECK_OK(weir_place_items(items, 8, 8, NULL, &p));
    CHECK(p.height == (size_t)24 << 40 && p.height == p.lower_bound);
}

/* Each allocation of a placement fails once. */
CASE(short_of_memory)
{
    weir_item             items[5];
    weir_placement_result p;

    for (int64_t n = 0;; n++) {
        for (uint32_t i = 0; i < 5; i++)
            items[i] = (weir_item){.bytes = UNIT, .first = 0, .last = i};
        weir_mem_fail_nth(n, false);
        const weir_status status = weir_place_items(items, 5, 5, NULL, &p);
        if (!weir_mem_failed()) {
            CHECK_OK(status);
            break;
        }
        CHECK(status == WEIR_ERR_NOMEM);
    }
    CHECK(p.height == 5 * UNIT);
}
