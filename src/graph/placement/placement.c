/* placement.c - placement by a named strategy; `auto` tries the cheap ones first.
 *
 * auto runs the greedy orders, then the two-ended stack. If the best of them is not low enough, the
 * exact search continues with those parts of the step that are too high, for a limited number of
 * nodes. Counts, not clocks, limit every strategy, so plans are reproducible. */
#include "graph/placement/placement.h"

#include <string.h>

#include "core/status.h"
#include "graph/placement/gap_fit.h"
#include "graph/placement/placer.h"
#include "weir/plan.h"
#include "graph/placement/progress.h"

/* Limits on the work of the exact search: nodes times sections of items. */
#define QUICK_WORK 20000000u
#define THOROUGH_WORK 40000000000u

weir_status weir_place_auto(weir_placer *p, const char *name)
{
    (void)name;
    WEIR_TRY(weir_place_orders(p));
    if (!weir_place_done(p))
        WEIR_TRY(weir_place_tstack(p, "tstack"));
    if (p->best_height <= p->target + p->slack)
        return WEIR_OK;
    return weir_place_exact(p, "exact");
}

#define ROW(name, function, ...) {name, weir_place_##function},
static const struct {
    const char  *name;
    weir_status (*run)(weir_placer *p, const char *name);
} strategies[] = {WEIR_PLACEMENTS(ROW)};

enum { STRATEGIES = sizeof strategies / sizeof strategies[0] };

const char *weir_placement_names(void)
{
#define NAME(name, ...) ", " name
    static const char names[] = WEIR_PLACEMENTS(NAME);
    return names + 2;
}

static int find(const char *name)
{
    for (int i = 0; i < STRATEGIES; i++)
        if (strcmp(strategies[i].name, name ? name : "auto") == 0)
            return i;
    return -1;
}

const char *weir_place_named(const char *strategy)
{
    const int i = find(strategy);
    if (i >= 0)
        return strategies[i].name;
    weir_fail_unknown("unknown placement", strategy, strlen(strategy), weir_placement_names());
    return NULL;
}

weir_status weir_place_bound(const weir_item *items, uint32_t n, uint32_t steps, size_t *bound)
{
    int64_t *delta = weir_mem_zalloc((size_t)steps + 2, sizeof *delta);
    int64_t  live = 0, most = 0;

    if (!delta)
        return WEIR_ERR_NOMEM;
    for (uint32_t i = 0; i < n; i++) {
        delta[items[i].first] += (int64_t)items[i].bytes;
        delta[items[i].last + 1] -= (int64_t)items[i].bytes;
    }
    for (uint32_t t = 0; t <= steps; t++) {
        live += delta[t];
        most = live > most ? live : most;
    }
    weir_mem_free(delta);
    *bound = (size_t)most;
    return WEIR_OK;
}

weir_status weir_place_slack(const weir_item *items, uint32_t n, uint32_t steps, size_t *slack)
{
    enum { NEAR = 1024 };

    WEIR_TRY(weir_place_bound(items, n, steps, slack));
    *slack /= NEAR;
    return WEIR_OK;
}

/* Runs the strategy and copies the best offsets to the items. */
static weir_status place(weir_placer *p, int strategy, weir_item *items)
{
    p->offset = weir_mem_zalloc(p->n + 1u, sizeof *p->offset);
    p->best = weir_mem_alloc((p->n + 1u) * sizeof *p->best);
    weir_status status = p->offset && p->best ? WEIR_OK : WEIR_ERR_NOMEM;
    if (status == WEIR_OK)
        status = strategies[strategy].run(p, strategies[strategy].name);
    if (status == WEIR_OK)
        for (uint32_t i = 0; i < p->n; i++)
            items[i].offset = p->best[i];
    weir_mem_free(p->offset);
    weir_mem_free(p->best);
    return status;
}

weir_status weir_place_items(weir_item *items, uint32_t n, uint32_t steps,
                             const weir_placement_options *how, weir_placement_result *result)
{
    static const weir_placement_options none = {0};
    const weir_placement_options       *h = how ? how : &none;
    weir_placer p = {.item = items, .n = n, .steps = steps, .best_height = SIZE_MAX,
                     .slack = h->slack, .nodes = h->nodes, .repairs = h->repairs,
                     .strategy = "empty"};

    if (!weir_place_named(h->strategy))
        return WEIR_ERR_INVALID;
    if (!weir_progress_poll())
        return WEIR_ERR_CANCELLED;
    if (find(h->strategy) != find("auto"))
        p.slack = 0;
    p.work = h->thorough ? THOROUGH_WORK : QUICK_WORK;
    WEIR_TRY(weir_place_bound(items, n, steps, &p.bound));
    p.target = h->capacity > p.bound ? h->capacity : p.bound;
    if (n > 0)
        WEIR_TRY(place(&p, find(h->strategy), items));
    *result = (weir_placement_result){.height = n ? p.best_height : 0, .lower_bound = p.bound,
                            .strategy = p.strategy, .nodes = p.used,
                            .proven = p.proven || n == 0 || p.best_height == p.bound};
    return WEIR_OK;
}

weir_status weir_place_within(weir_item *items, uint32_t n, uint32_t steps, const char *strategy,
                              size_t limit, weir_placement_result *result)
{
    enum { WORK = 20000000, MOST = 200, LEAST = 8, FEW = 1500, NEAR = 20, NODE_WORK = 150000 };
    const uint64_t square = (n + (uint64_t)1) * (n + (uint64_t)1), many = WORK / square;
    const uint32_t repairs = many < LEAST ? LEAST : many > MOST ? MOST : (uint32_t)many;
    const uint32_t most = NODE_WORK / (n + 1u), nodes = 10 * repairs < most ? 10 * repairs : most;
    const weir_placement_options quick = {
        .strategy = "life", .capacity = limit, .repairs = repairs};
    const weir_placement_options near = {
        .capacity = limit, .repairs = repairs / 4, .nodes = nodes};
    const weir_placement_options asked = {.strategy = strategy, .capacity = limit};

    if (find(strategy) != find("auto"))
        return weir_place_items(items, n, steps, &asked, result);
    WEIR_TRY(weir_place_items(items, n, steps, &quick, result));
    if (result->height <= limit || result->height - limit > limit / NEAR || n >= FEW)
        return WEIR_OK;
    return weir_place_items(items, n, steps, &near, result);    /* few items, and near the limit */
}
