/* gap_fit.c - greedy orders: each item gets a gap that is free during its whole live range (first
 * fit and best fit; survey: Wilson and others, "Dynamic storage allocation", 1995).
 *
 * The gap is the lowest (or the tightest) between the placed items whose live ranges overlap the
 * item's. A scan over all of them finds it; for the lowest gap among many items, a tree does
 * (gap_tree.c). If the best height is not low enough, the order is repaired: the item that made the
 * height, or exceeded the best one so far, moves to the front, again and again. Training steps are
 * nearly nested, so the bound is usually reached. One order takes O(n^2) time by scanning.
 *
 * Between equal heights, one with a storage at the top is preferred to one with only workspaces
 * there: a storage is written to its last byte, while a library may leave the end of its workspace
 * untouched, and the measured peak should equal the planned one. */
#include "graph/placement/gap_fit.h"

#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "graph/placement/gap_tree.h"
#include "graph/placement/progress.h"

enum {
    SCANNED = 1000,             /* up to this many items a scan is faster than the tree; */
    MOST_SCANNED = 10000        /* up to this many tight gaps, which need a scan, are tried */
};

typedef struct weir_key {
    double   rank;              /* larger comes first */
    uint32_t item;
} weir_key;

typedef struct weir_placed {    /* a placed item, copied: a scan reads them one after another */
    size_t   at, end;
    uint32_t first, last;
} weir_placed;

typedef struct weir_order {
    weir_placer *p;
    weir_key    *key;           /* [n] the order being tried */
    weir_placed *placed;        /* items placed so far, by offset; used by the scan */
    weir_gap_tree *tree;        /* the same as a tree; NULL: scan */
    uint32_t     top;           /* index in the order of the item that made the height */
} weir_order;

static int by_rank(const void *a, const void *b)
{
    const weir_key *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? 1 : -1;
    return (x->item > y->item) - (x->item < y->item);
}

/* Returns all ones if the live ranges overlap, else 0: which do is hard to predict, so that scans
 * mask what they read and branch on gaps alone, which are few. */
static size_t overlap_mask(const weir_placed *q, const weir_item *it)
{
    return 0 - ((size_t)(q->first <= it->last) & (size_t)(it->first <= q->last));
}

/* Returns the offset of the lowest gap among n placed items that holds the item. */
static size_t find_lowest_gap(const weir_placed *q, uint32_t n, const weir_item *it)
{
    size_t end = 0;

    for (uint32_t i = 0; i < n; i++) {
        const size_t mask = overlap_mask(&q[i], it), above = q[i].end & mask;
        if ((q[i].at & mask) >= end + it->bytes)
            return end;
        end = above > end ? above : end;
    }
    return end;
}

/* The same of the smallest such gap, the lowest of equal ones. */
static size_t find_tightest_gap(const weir_placed *q, uint32_t n, const weir_item *it)
{
    size_t end = 0, best = SIZE_MAX, best_size = SIZE_MAX;

    for (uint32_t i = 0; i < n; i++) {
        const size_t mask = overlap_mask(&q[i], it), above = q[i].end & mask;
        if ((q[i].at & mask) >= end + it->bytes && q[i].at - end < best_size) {
            best = end;
            best_size = q[i].at - end;
        }
        end = above > end ? above : end;
    }
    return best == SIZE_MAX ? end : best;
}

/* Inserts the item into the n placed ones, after those at the same offset. */
static void insert_placed(weir_placed *q, uint32_t n, const weir_item *it, size_t at)
{
    uint32_t i = n;

    while (i > 0 && q[i - 1].at > at)
        i--;
    memmove(&q[i + 1], &q[i], (n - i) * sizeof *q);
    q[i] = (weir_placed){at, at + it->bytes, it->first, it->last};
}

static void place_by_scan(weir_order *o, uint32_t i, bool tight)
{
    const uint32_t         k = o->key[i].item;
    const weir_item *const it = &o->p->item[k];
    const size_t           at = tight ? find_tightest_gap(o->placed, i, it)
                                      : find_lowest_gap(o->placed, i, it);

    o->p->offset[k] = at;
    insert_placed(o->placed, i, it, at);
}

/* Places an item by the tree; one of 0 bytes lies at 0, where it overlaps nothing. */
static bool place_by_tree(weir_order *o, uint32_t i)
{
    const uint32_t         k = o->key[i].item;
    const weir_item *const it = &o->p->item[k];
    const size_t at = it->bytes ? weir_gap_tree_take(o->tree, it->bytes, it->first, it->last) : 0;

    o->p->offset[k] = at;
    return at != SIZE_MAX;
}

/* Returns false if memory runs out. */
static bool try_order(weir_order *o, bool tight, const char *name)
{
    const weir_placer *p = o->p;
    const bool         many = o->tree && !tight;
    size_t             height = 0;

    if (many)
        weir_gap_tree_clear(o->tree);
    for (uint32_t i = 0; i < p->n; i++) {
        const uint32_t k = o->key[i].item;
        if (!many)
            place_by_scan(o, i, tight);
        else if (!place_by_tree(o, i))
            return false;
        if (p->offset[k] + p->item[k].bytes > height) {
            height = p->offset[k] + p->item[k].bytes;
            o->top = i;
            if (height > p->best_height)
                return true;            /* never the best placement, so not finished */
        }
    }
    weir_place_offer(o->p, name);
    return true;
}

static double rank_size(const weir_item *i)
{
    return (double)i->bytes;
}
static double rank_area(const weir_item *i)
{
    return (double)i->bytes * (i->last - i->first + 1.0);
}
static double rank_lifetime(const weir_item *i)
{
    return i->last - i->first + 1e-12 * (double)i->bytes;
}
static double rank_start(const weir_item *i)
{
    return -(double)i->first + 1e-12 * (double)i->bytes;
}
static double rank_end(const weir_item *i)
{
    return (double)i->last + 1e-12 * (double)i->bytes;
}

#define rank_none NULL
#define ROW(name, function, rank, tight, turn) [turn] = {name, rank_##rank, tight},
static const struct {
    const char *name;
    double    (*rank)(const weir_item *i);  /* NULL: not a greedy order */
    bool        tight;
} orders[] = {WEIR_PLACEMENTS(ROW)};

enum { ORDERS = sizeof orders / sizeof orders[0] };

/* Returns the repairs of one order: 200, fewer for large plans, so that planning stays fast, and
 * as few as none where each try scans all pairs of many items. They depend only on the number of
 * items, so plans are reproducible. */
static uint64_t repairs(uint64_t n, bool tight)
{
    enum { PAIRS = 200000000, LEAST = 20, PLACED = 400000 };
    const uint64_t affordable = PAIRS / (n * n + 1), many = PLACED / (n + 1);
    const uint64_t least = tight ? 0 : many < LEAST ? many : LEAST;

    return affordable > 200 ? 200 : affordable < least ? least : affordable;
}

/* Moves the item at the top of the last try to the front, and tries again. */
static bool repair(weir_order *o, bool tight, const char *name)
{
    const uint64_t most = o->p->repairs ? o->p->repairs : repairs(o->p->n, tight);

    for (uint64_t r = most; r > 0 && !weir_place_done(o->p); r--) {
        const weir_key top = o->key[o->top];
        memmove(&o->key[1], &o->key[0], o->top * sizeof top);
        o->key[0] = top;
        if (!weir_progress_poll() || !try_order(o, tight, name))
            return false;
    }
    return true;
}

static bool begin(weir_order *o)
{
    const weir_placer *p = o->p;

    o->key = weir_mem_alloc((p->n + 1u) * sizeof *o->key);
    o->placed = weir_mem_alloc((p->n + 1u) * sizeof *o->placed);
    o->tree = p->n > SCANNED ? weir_gap_tree_new(p->steps + 1) : NULL;
    return o->key && o->placed && (o->tree || p->n <= SCANNED);
}

/* Tries the order of that name; NULL: all orders. */
static weir_status run(weir_placer *p, const char *name)
{
    weir_order o = {.p = p};
    bool       ok = begin(&o);

    for (int s = 0; s < ORDERS && ok && !weir_place_done(p); s++) {
        if (!orders[s].rank || (name ? strcmp(orders[s].name, name) != 0
                                     : orders[s].tight && p->n > MOST_SCANNED))
            continue;
        for (uint32_t i = 0; i < p->n; i++)
            o.key[i] = (weir_key){orders[s].rank(&p->item[i]), i};
        qsort(o.key, p->n, sizeof *o.key, by_rank);
        ok = try_order(&o, orders[s].tight, orders[s].name) &&
             repair(&o, orders[s].tight, orders[s].name);
    }
    weir_mem_free(o.key);
    weir_mem_free(o.placed);
    weir_gap_tree_free(o.tree);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}

weir_status weir_place_order(weir_placer *p, const char *name)
{
    return run(p, name);
}

weir_status weir_place_orders(weir_placer *p)
{
    return run(p, NULL);
}
