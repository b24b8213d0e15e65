/* place.c - offsets in one arena for items with lifetimes (dynamic storage allocation).
 *
 * Several greedy orders are tried; each item goes to the lowest (or tightest) gap among the items
 * already placed whose lifetimes overlap. Where the best height is above the lower bound (largest
 * sum of live bytes), the order is repaired: the item that made the height goes first, again and
 * again. Training steps are nearly nested, so the bound is usually met.
 *
 * Of equal heights one with a storage at the top is preferred to one with only workspaces there:
 * a storage is written to its last byte, a library may leave the end of its workspace alone, and
 * the peak that is measured should be the peak that was planned. */
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "graph/plan.h"

typedef struct weir_key {
    double   rank;              /* larger goes first */
    uint32_t item;
} weir_key;

typedef struct weir_placer {
    weir_item *item;
    uint32_t   n;
    weir_key  *key;             /* [n] the order being tried */
    size_t    *offset;          /* [n] offsets of this try */
    size_t    *best;            /* [n] offsets of the best try */
    uint32_t  *placed;          /* items placed so far, by offset */
    size_t     height, best_height;
    bool       loose, best_loose;   /* only workspaces reach the top */
    uint32_t   top;             /* place in the order of the item that made the height */
    const char *strategy;
} weir_placer;

static size_t lower_bound(const weir_items *items, uint32_t n)
{
    int64_t *delta = weir_mem_zalloc((size_t)n + 2, sizeof *delta);
    int64_t  live = 0, bound = 0;

    if (!delta)
        return SIZE_MAX;
    for (uint32_t i = 0; i < items->n; i++) {
        delta[items->at[i].first] += (int64_t)items->at[i].bytes;
        delta[items->at[i].last + 1] -= (int64_t)items->at[i].bytes;
    }
    for (uint32_t t = 0; t <= n; t++) {
        live += delta[t];
        bound = live > bound ? live : bound;
    }
    weir_mem_free(delta);
    return (size_t)bound;
}

static int by_rank(const void *a, const void *b)
{
    const weir_key *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? 1 : -1;
    return (x->item > y->item) - (x->item < y->item);
}

/* The lowest gap that holds the item, or with `tight` the smallest one. */
static size_t find_gap(const weir_placer *p, uint32_t n, const weir_item *it, bool tight)
{
    size_t end = 0, best = SIZE_MAX, best_size = SIZE_MAX;

    for (uint32_t i = 0; i < n; i++) {
        const weir_item *other = &p->item[p->placed[i]];
        const size_t     at = p->offset[p->placed[i]];
        if (other->last < it->first || it->last < other->first)
            continue;
        if (at >= end + it->bytes && at - end < best_size) {
            best = end;
            best_size = at - end;
            if (!tight)
                return best;
        }
        if (at + other->bytes > end)
            end = at + other->bytes;
    }
    return best == SIZE_MAX ? end : best;
}

static void insert_placed(weir_placer *p, uint32_t n, uint32_t item)
{
    uint32_t i = n;
    for (; i > 0 && p->offset[p->placed[i - 1]] > p->offset[item]; i--)
        p->placed[i] = p->placed[i - 1];
    p->placed[i] = item;
}

static void try_order(weir_placer *p, bool tight, const char *strategy)
{
    p->height = 0;
    p->loose = true;
    for (uint32_t i = 0; i < p->n; i++) {
        const uint32_t   k = p->key[i].item;
        const weir_item *it = &p->item[k];
        p->offset[k] = find_gap(p, i, it, tight);
        insert_placed(p, i, k);
        const size_t end = p->offset[k] + it->bytes;
        if (end > p->height) {
            p->height = end;
            p->loose = true;
            p->top = i;
        }
        if (end == p->height && it->kind != WEIR_KIND_WORKSPACE)
            p->loose = false;
    }
    if (p->height < p->best_height || (p->height == p->best_height && p->best_loose && !p->loose)) {
        p->best_height = p->height;
        p->best_loose = p->loose;
        p->strategy = strategy;
        memcpy(p->best, p->offset, p->n * sizeof *p->best);
    }
}

static double rank_size(const weir_item *i)
{
    return (double)i->bytes;
}
static double rank_area(const weir_item *i)
{
    return (double)i->bytes * (i->last - i->first + 1.0);
}
static double rank_life(const weir_item *i)
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

static const struct {
    const char *name;
    double    (*rank)(const weir_item *i);
    bool        tight;
} strategies[] = {
    {"longest life first, lowest gap", rank_life, false},
    {"largest first, lowest gap", rank_size, false},
    {"largest area first, lowest gap", rank_area, false},
    {"first needed first, lowest gap", rank_start, false},
    {"last needed first, lowest gap", rank_end, false},
    {"longest life first, tightest gap", rank_life, true},
    {"largest area first, tightest gap", rank_area, true},
    {"first needed first, tightest gap", rank_start, true},
};

/* Repairs of one order: 200, fewer for large plans, so that planning stays quick. By size only:
 * plans are reproducible. */
static uint64_t repairs(uint64_t n)
{
    const uint64_t affordable = 200000000 / (n * n + 1);

    return affordable > 200 ? 200 : affordable < 20 ? 20 : affordable;
}

static bool perfect(const weir_placer *p, size_t bound)
{
    return p->best_height <= bound && !p->best_loose;
}

/* The item at the top of the last try goes first in the next one. */
static void repair(weir_placer *p, size_t bound, bool tight, const char *strategy)
{
    for (uint64_t r = repairs(p->n); r > 0 && !perfect(p, bound); r--) {
        const weir_key top = p->key[p->top];
        memmove(&p->key[1], &p->key[0], p->top * sizeof top);
        p->key[0] = top;
        try_order(p, tight, strategy);
    }
}

static void search(weir_placer *p, size_t bound)
{
    for (size_t s = 0; s < sizeof strategies / sizeof *strategies; s++) {
        if (perfect(p, bound))
            return;
        for (uint32_t i = 0; i < p->n; i++)
            p->key[i] = (weir_key){strategies[s].rank(&p->item[i]), i};
        qsort(p->key, p->n, sizeof *p->key, by_rank);
        try_order(p, strategies[s].tight, strategies[s].name);
        repair(p, bound, strategies[s].tight, strategies[s].name);
    }
}

weir_status weir_place(weir_plan *plan)
{
    const uint32_t n = plan->items.n;
    weir_placer p = {.item = plan->items.at, .n = n, .best_height = SIZE_MAX, .strategy = "empty"};

    plan->lower_bound = lower_bound(&plan->items, plan->n);
    p.key = weir_mem_alloc((n + 1) * sizeof *p.key);
    p.offset = weir_mem_alloc((n + 1) * sizeof *p.offset);
    p.best = weir_mem_alloc((n + 1) * sizeof *p.best);
    p.placed = weir_mem_alloc((n + 1) * sizeof *p.placed);
    const bool ok = plan->lower_bound != SIZE_MAX && p.key && p.offset && p.best && p.placed;
    if (ok) {
        search(&p, plan->lower_bound);
        for (uint32_t i = 0; i < n; i++)
            p.item[i].offset = p.best[i];
        plan->arena = n ? p.best_height : 0;
        plan->strategy = p.strategy;
    }
    weir_mem_free(p.key);
    weir_mem_free(p.offset);
    weir_mem_free(p.best);
    weir_mem_free(p.placed);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}
