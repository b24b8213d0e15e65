/* place_align.c - every strategy gives aligned, disjoint offsets for random items; what the checker
 * of offsets refuses. $WEIR_TEST_COUNT: rounds of each. */
#include "core/status.h"
#include "graph/placed.h"
#include "graph/placement/placement.h"
#include "graph/placement/placement_check.h"

enum { MOST = 120 };

/* ---- items ---- */

/* Odd sizes, rounded up as planning does, some of them 0; some items are always live, some as long
 * as the previous one. */
static void random_items(weir_item *item, uint32_t n, uint32_t steps, size_t unit)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t a = (uint32_t)check_int(0, steps - 1), b = (uint32_t)check_int(0, steps - 1);
        const size_t   odd = check_int(0, 6) ? (size_t)check_int(1, 30000) : 0;
        item[i] = (weir_item){.first = a < b ? a : b, .last = a < b ? b : a,
                              .kind = check_int(0, 4) ? WEIR_KIND_ACTIVATION : WEIR_KIND_WORKSPACE};
        if (check_int(0, 9) == 0) {
            item[i].first = 0;
            item[i].last = steps - 1;
        } else if (i > 0 && check_int(0, 3) == 0) {
            item[i].first = item[i - 1].first;
            item[i].last = item[i - 1].last;
        }
        CHECK(weir_size_align(odd, unit, &item[i].bytes));
    }
}

/* Capacities are what a budget leaves, so seldom multiples of the alignment. */
CASE(random_items_by_every_placement)
{
    for (int round = 0, n = rounds(600); round < n; round++) {
        const size_t          unit = units[round / (int)ARRAY_LENGTH(placers) % 2];
        const uint32_t        items = (uint32_t)check_int(0, round % 16 ? 40 : MOST);
        const uint32_t        steps = (uint32_t)check_int(1, 30);
        weir_item             item[MOST];
        weir_placement_result r;
        size_t                bound;

        random_items(item, items, steps, unit);
        CHECK_OK(weir_place_bound(item, items, steps, &bound));
        const weir_placement_options how = {
            .strategy = placers[round % (int)ARRAY_LENGTH(placers)],
            .nodes = 300,
            .capacity = round / 24 % 3 ? bound + (size_t)check_int(0, 9999) : 0};
        CHECK_OR_RETURN(weir_place_items(item, items, steps, &how, &r) == WEIR_OK);
        if (!CHECK(well_placed(item, items, unit, r.height)))
            printf("    %s, %u items of %zu\n", how.strategy, items, unit);
        CHECK_OK(weir_place_check(item, items, unit, r.height));
    }
}

/* ---- what the checker refuses ---- */

CASE(what_is_wrong_is_refused)
{
    weir_item good[] = {{.bytes = 128, .offset = 0, .first = 0, .last = 4},
                        {.bytes = 64, .offset = 128, .first = 0, .last = 1},
                        {.bytes = 64, .offset = 128, .first = 2, .last = 4},
                        {.bytes = 0, .offset = 64, .first = 1, .last = 3}};
    weir_item bad[4];

    CHECK_OK(weir_place_check(good, 4, 64, 192));
    CHECK_STATUS(weir_place_check(good, 4, 64, 191), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "beyond");
    CHECK_STATUS(weir_place_check(good, 4, 128, 192), WEIR_ERR_STATE);
    memcpy(bad, good, sizeof bad);
    bad[1].offset = 129;
    CHECK_STATUS(weir_place_check(bad, 4, 64, 4096), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "offset 129 is not a multiple of 64");
    memcpy(bad, good, sizeof bad);
    bad[3].offset = 1;                          /* of 0 bytes, but operands point to it */
    CHECK_STATUS(weir_place_check(bad, 4, 64, 4096), WEIR_ERR_STATE);
    memcpy(bad, good, sizeof bad);
    bad[2].first = 1;
    CHECK_STATUS(weir_place_check(bad, 4, 64, 4096), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "bytes 128 to 192");
    memcpy(bad, good, sizeof bad);
    bad[2].offset = 64;
    CHECK_STATUS(weir_place_check(bad, 4, 64, 4096), WEIR_ERR_STATE);
}

/* Moves one offset of a correct placement: it is refused if and only if it is wrong by
 * definition. */
CASE(moved_items)
{
    int refused = 0;

    for (int round = 0, n = rounds(400); round < n; round++) {
        const size_t   unit = units[round % 2];
        const uint32_t items = (uint32_t)check_int(1, 40), k = (uint32_t)check_int(0, items - 1);
        weir_item      item[MOST];
        weir_placement_result r;

        random_items(item, items, 20, unit);
        CHECK_OK(weir_place_items(item, items, 20, NULL, &r));
        item[k].offset += (size_t)check_int(0, 3) * (check_int(0, 1) ? unit : unit / 2);
        const size_t room = (size_t)1 << 40;
        const bool   right = well_placed(item, items, unit, 0) ||
                           well_placed(item, items, unit, r.height) ||
                           well_placed(item, items, unit, item[k].offset + item[k].bytes);
        const weir_status status = weir_place_check(item, items, unit, room);
        refused += status != WEIR_OK;
        if (status == WEIR_OK)
            CHECK(right);
        else
            CHECK(!well_placed(item, items, unit, r.height));
    }
    CHECK(rounds(400) < 100 || refused > rounds(400) / 5);
}
