/* gap_tree.c - the tree of free bytes finds the same offsets as a full scan, in O(n log n). */
#include "graph/placement/gap_tree.h"

#include "core/mem.h"
#include "check.h"
#include "graph/placement/placement.h"

enum { UNIT = 64 };

static bool together(const weir_item *a, const weir_item *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* Returns the lowest offset at which item i overlaps none before it: 0 or the end of one. */
static size_t lowest(const weir_item *item, uint32_t i)
{
    size_t best = SIZE_MAX;

    for (uint32_t c = 0; c <= i; c++) {
        const size_t at = c < i ? item[c].offset + item[c].bytes : 0;
        bool         apart = at < best;
        for (uint32_t k = 0; k < i && apart; k++)
            apart = !together(&item[k], &item[i]) || at >= item[k].offset + item[k].bytes ||
                    item[k].offset >= at + item[i].bytes;
        best = apart ? at : best;
    }
    return best;
}

static weir_item random_item(int style, uint32_t steps)
{
    const uint32_t a = (uint32_t)check_int(0, steps - 1), b = (uint32_t)check_int(0, steps - 1);
    weir_item it = {.first = a < b ? a : b, .last = a < b ? b : a,
                    .bytes = (size_t)check_int(1, 20) * UNIT};

    if (style == 1 && it.first < steps / 2)
        it.last = steps - 1 - it.first;
    else if (style == 2)
        it.last = it.first + 2 < steps ? it.first + 2 : steps - 1;
    return it;
}

CASE(lowest_gaps)
{
    enum { MOST = 120 };

    for (int round = 0; round < 300; round++) {
        weir_item      item[MOST];
        const uint32_t steps = (uint32_t)check_int(1, 70), n = (uint32_t)check_int(1, MOST);
        weir_gap_tree *t = weir_gap_tree_new(steps);
        if (!CHECK(t != NULL))
            return;
        for (int recomputed = 0; recomputed < 2; recomputed++) {
            weir_gap_tree_clear(t);
            for (uint32_t i = 0; i < n; i++) {
                item[i] = random_item(round % 3, steps);
                item[i].offset = weir_gap_tree_take(t, item[i].bytes, item[i].first, item[i].last);
                CHECK(item[i].offset == lowest(item, i));
            }
        }
        weir_gap_tree_free(t);
    }
}

/* The order `life` by definition: the longest live range first, each item in its lowest gap. */
static int by_life(const void *x, const void *y)
{
    const weir_item *a = x, *b = y;
    const double     la = a->last - a->first + 1e-12 * (double)a->bytes;
    const double     lb = b->last - b->first + 1e-12 * (double)b->bytes;

    if (la != lb)
        return la < lb ? 1 : -1;
    return (a->storage > b->storage) - (a->storage < b->storage);
}

/* Enough items that the tree places them, by a strategy that ends after one order. */
CASE(many_items)
{
    enum { MANY = 1400, STEPS = 900 };
    const weir_placement_options how = {.strategy = "life", .capacity = SIZE_MAX / 2};
    static weir_item             item[MANY], sorted[MANY];

    for (int style = 0; style < 3; style++) {
        weir_placement_result placed;
        for (uint32_t i = 0; i < MANY; i++) {
            item[i] = random_item(style, STEPS);
            item[i].bytes = i % 9 ? item[i].bytes : 0;
            item[i].storage = i;
        }
        memcpy(sorted, item, sizeof item);
        qsort(sorted, MANY, sizeof *sorted, by_life);
        CHECK_OK(weir_place_items(item, MANY, STEPS, &how, &placed));
        for (uint32_t i = 0; i < MANY; i++) {
            sorted[i].offset = sorted[i].bytes ? lowest(sorted, i) : 0;
            CHECK(item[sorted[i].storage].offset == sorted[i].offset);
        }
    }
}

/* Places a training step of n layers `copies` times, one after another: forward outputs are live
 * until their mirror image, backward outputs are read at once. */
static uint64_t looks_of(uint32_t n, uint32_t copies)
{
    const uint32_t steps = 2 * n;
    weir_gap_tree *t = weir_gap_tree_new(steps * copies);
    size_t         most = 0;

    if (!CHECK(t != NULL))
        return 0;
    for (uint32_t c = 0; c < copies; c++)
        for (uint32_t i = 0; i < n; i++)
            weir_gap_tree_take(t, UNIT, c * steps + i, (c + 1) * steps - 1 - i);
    for (uint32_t c = 0; c < copies; c++)
        for (uint32_t i = 0; i + 1 < n; i++) {
            const size_t at = weir_gap_tree_take(t, UNIT, c * steps + n + i, c * steps + n + i + 1);
            most = at > most ? at : most;
        }
    CHECK(most == (size_t)n * UNIT);
    const uint64_t looks = weir_gap_tree_looks(t);
    weir_gap_tree_free(t);
    return looks;
}

/* O(n log n): four times the layers take less than six times the visits. */
CASE(looks_grow_with_n_log_n)
{
    CHECK(looks_of(4000, 1) < 6 * looks_of(1000, 1));
    CHECK(looks_of(16000, 1) < 6 * looks_of(4000, 1));
    CHECK(looks_of(4000, 4) < 6 * looks_of(1000, 4));
    CHECK(looks_of(1000, 16) < 6 * looks_of(1000, 4));
}

CASE(short_of_memory)
{
    enum { N = 200 };

    for (int64_t fail = 0;; fail++) {
        weir_mem_fail_nth(fail, false);
        weir_gap_tree *t = weir_gap_tree_new(N);
        size_t         at = 0;
        for (uint32_t i = 0; i < N && t && at != SIZE_MAX; i++)
            at = weir_gap_tree_take(t, UNIT, i / 2, N - 1 - i / 3);
        const bool failed = weir_mem_failed();
        weir_gap_tree_free(t);
        CHECK(failed == (!t || at == SIZE_MAX));
        if (!failed)
            break;
    }
}
