/* overlap.c - finds an order and addresses that let independent operations run concurrently on
 * several streams.
 *
 * Tight addresses suit one order: where a value reuses memory of another branch, its branch must
 * wait. So, where several streams would gain time, the instructions are sorted by the time at which
 * they would begin if no two values shared memory, and each live range is extended until every
 * instruction that may run concurrently with the last reader has begun. If the arena becomes too
 * large, the search tries fewer streams, and addresses that delay some instructions.
 *
 * With a budget, the new plan is taken if it is faster and fits. Without one, it is taken if it
 * saves a larger share of the time than it adds of memory; it may add no memory where the program
 * recomputes values, since it does so to save memory. */
#include <stdlib.h>
#include <string.h>

#include "graph/placement/placement.h"
#include "graph/plan/plan.h"

typedef struct overlap {
    weir_graph       *g;
    const weir_rates *rates;
    int               streams;
    weir_plan        *serial;  /* the original plan, */
    weir_node        *nodes;   /* [n] its nodes, */
    double            seconds; /* and the seconds of its step on all streams */
    weir_began       *began;   /* [n] when each instruction begins without memory reuse */
    weir_item        *items;   /* live ranges before they are extended */
    bool              better;  /* the graph's plan is now better than the original */
} overlap;

static bool recomputes(const weir_graph *g)
{
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i].recomputed || g->nodes.at[i].segment)
            return true;
    return false;
}

/* The largest arena, in bytes, that is acceptable for a step of `seconds`. */
static size_t arena_limit(const overlap *s, double seconds)
{
    const size_t resident = weir_plan_resident(s->g), budget = s->g->budget;
    const size_t arena = s->serial->arena;

    if (budget)
        return budget > resident + arena ? budget - resident : arena;
    if (recomputes(s->g))
        return arena;
    return (size_t)((double)(resident + arena) * s->seconds / seconds) - resident;
}

static int by_begin(const void *x, const void *y)
{
    const weir_began *a = x, *b = y;

    if (a->seconds != b->seconds)
        return a->seconds < b->seconds ? -1 : 1;
    return a->instr < b->instr ? -1 : a->instr > b->instr;
}

/* Sorts the nodes by `began` and lowers them to a plan without offsets. */
static weir_status reorder(overlap *s)
{
    weir_graph *const g = s->g;

    qsort(s->began, g->nodes.n, sizeof *s->began, by_begin);
    for (uint32_t i = 0; i < g->nodes.n; i++)
        g->nodes.at[i] = s->nodes[s->began[i].instr];
    weir_plan_free(g->plan == s->serial ? NULL : g->plan);
    g->plan = NULL;
    WEIR_TRY(weir_plan_lower(g, s->serial->passes));
    weir_plan_resolve(g);
    return WEIR_OK;
}

static weir_status restore_serial(overlap *s)
{
    memcpy(s->g->nodes.at, s->nodes, s->g->nodes.n * sizeof *s->nodes);
    if (s->g->plan != s->serial)
        weir_plan_free(s->g->plan);
    s->g->plan = s->serial;
    return weir_assign_streams(s->serial, s->streams, s->rates, &s->seconds);
}

/* Places the items of the graph's new plan within `limit` bytes and assigns streams, if they fit.
 * Restores the live ranges in s->items, so that a second call places those. Sets s->better. */
static weir_status try(overlap *s, size_t limit)
{
    weir_plan *const p = s->g->plan;
    double           seconds = 0;

    WEIR_TRY(weir_plan_place_within(p, limit));
    WEIR_TRY(weir_plan_check(p));
    for (uint32_t i = 0; i < p->items.n; i++)
        p->items.at[i].last = s->items[i].last;
    if (p->arena > limit)
        return WEIR_OK;
    weir_plan_resolve(s->g);
    WEIR_TRY(weir_assign_streams(p, s->streams, s->rates, &seconds));
    s->better = seconds < s->seconds && p->arena <= arena_limit(s, seconds);
    return weir_place_bound(p->items.at, p->items.n, p->n, &p->lower_bound);
}

/* Tries the order for `streams` streams: first with extended live ranges, which delay nothing, then
 * with the original ones. */
static weir_status with(overlap *s, int streams)
{
    double least;

    WEIR_TRY(weir_streams_without_reuse(s->serial, NULL, streams, s->rates, s->began, &least));
    const size_t limit = arena_limit(s, least);
    if (least >= s->seconds * WEIR_STREAMS_WORTH)
        return WEIR_OK;
    WEIR_TRY(reorder(s));
    weir_items *const items = &s->g->plan->items;
    weir_mem_free(s->items);
    s->items = weir_mem_alloc((items->n + 1u) * sizeof *s->items);
    if (!s->items)
        return WEIR_ERR_NOMEM;
    memcpy(s->items, items->at, items->n * sizeof *s->items);
    WEIR_TRY(
        weir_streams_without_reuse(s->g->plan, items->at, streams, s->rates, s->began, &least));
    WEIR_TRY(try(s, limit));
    return s->better ? WEIR_OK : try(s, limit);
}

static weir_status search(overlap *s)
{
    weir_status status = WEIR_OK;

    memcpy(s->nodes, s->g->nodes.at, s->g->nodes.n * sizeof *s->nodes);
    for (int n = s->streams; n > 1 && !s->better && status == WEIR_OK; n /= 2)
        status = with(s, n);
    if (status == WEIR_OK && s->better) {
        weir_plan_succeed(s->g->plan, s->serial);
        return WEIR_OK;
    }
    const weir_status restored = restore_serial(s);
    return status != WEIR_OK ? status : restored;
}

weir_status weir_plan_overlap(weir_graph *g, int streams, const weir_rates *rates)
{
    const size_t n = g->nodes.n;
    overlap      s = {.g = g, .rates = rates, .streams = streams, .serial = g->plan};

    WEIR_TRY(weir_assign_streams(g->plan, streams, rates, &s.seconds));
    if (streams < 2 || n < 2)
        return WEIR_OK;
    s.nodes = weir_mem_alloc(n * sizeof *s.nodes);
    s.began = weir_mem_alloc(n * sizeof *s.began);
    const weir_status status = s.nodes && s.began ? search(&s) : WEIR_ERR_NOMEM;
    weir_mem_free(s.nodes);
    weir_mem_free(s.began);
    weir_mem_free(s.items);
    return status;
}
