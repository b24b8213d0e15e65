/* stepfile_plan.c - plans a step description: policy, then offsets, until they fit.
 *
 * check.c checks every schedule with offsets; the reported time is that of simulate.c. */
#include <math.h>
#include <string.h>

#include "core/hash.h"
#include "core/status.h"
#include "graph/placement/placement.h"
#include "graph/memory/bounds/bound.h"
#include "graph/memory/budget/amount.h"
#include "graph/memory/budget/cache.h"
#include "graph/memory/verify/check.h"
#include "graph/memory/stepfile/stepfile.h"
#include "graph/memory/policies/auto.h"
#include "graph/memory/policies/fit.h"
#include "graph/memory/policies/table.h"
#include "graph/memory/search/search.h"
#include "graph/memory/verify/simulate.h"
#include "graph/placement/progress.h"

#define MOST_ALIGN ((size_t)1 << 30)    /* keeps sums of aligned bytes from overflowing */

typedef struct weir_layouter {
    weir_offsets offsets;
    size_t       align, base; /* base: bytes below the tensors that are always on the device */
    bool         within;      /* any offsets within the limit; false: as few bytes as possible */
    const char  *placement;   /* NULL: any strategy */
} weir_layouter;

static weir_status assign_offsets(void *ctx, const weir_schedule *s, size_t limit, size_t *height)
{
    weir_layouter *const l = ctx;
    const bool           within = l->within && !l->placement;

    if (within)
        WEIR_TRY(weir_assign_offsets_within(s, l->align, limit, &l->offsets));
    if (!within || l->offsets.height > limit)
        WEIR_TRY(weir_assign_offsets(s, l->align, l->placement, &l->offsets));
    *height = l->offsets.height;
    return weir_schedule_check(s, &l->offsets, l->align, *height);
}

/* Offsets that fit may be higher than necessary. If the height exceeds the peak by more than 1 %,
 * finds the lowest offsets possible and keeps them unless the step takes longer with them, since
 * copies then wait for other owners of their bytes. */
static weir_status settle(weir_layouter *l, weir_fit *f)
{
    const weir_schedule *const s = &f->s;
    weir_layouter              low = {.align = l->align};
    weir_sim_result            before, after;
    size_t                     height;

    if (l->placement || !s->valid || !f->fits || f->height <= s->peak + s->peak / 100)
        return WEIR_OK;
    weir_status status = assign_offsets(&low, s, 0, &height);
    if (status == WEIR_OK && height < f->height) {
        if (!weir_schedule_simulate(s, &l->offsets, &before) ||
            !weir_schedule_simulate(s, &low.offsets, &after))
            status = WEIR_ERR_NOMEM;
        else if (after.time <= before.time) {
            const weir_offsets high = l->offsets;
            l->offsets = low.offsets;
            low.offsets = high;
            f->height = height;
        }
    }
    weir_offsets_free(&low.offsets);
    return status;
}

/* Sets *bytes to the planned peak without a budget, which is 100 % of budgets in percent:
 * everything kept, outputs in place of dying inputs, offsets as for policy recycle. A link makes no
 * difference. */
static weir_status whole_of(const weir_stepfile *o, const weir_stepfile_options *how, size_t *bytes)
{
    const size_t     align = how->alignment ? how->alignment : 1;
    weir_mem_problem p;
    weir_policy_job  job = {.p = &p, .limit = SIZE_MAX, .variant = ""};
    weir_offsets     offsets = {0};

    if (!weir_mem_problem_pin_residents(&o->problem, &p))
        return WEIR_ERR_NOMEM;
    weir_status status = weir_policy_recycle(&job);
    if (status == WEIR_OK)
        status = weir_assign_offsets(&job.s, align, how->placement, &offsets);
    *bytes = offsets.height;
    for (uint32_t k = p.tensors.n; k < o->problem.tensors.n; k++)
        *bytes += (o->problem.tensors.at[k].bytes + align - 1) & ~(align - 1);
    weir_offsets_free(&offsets);
    weir_schedule_free(&job.s);
    weir_mem_problem_free(&p);
    return status;
}

static weir_status tell(const weir_mem_problem *p, const weir_fit *f, const weir_layouter *l,
                        weir_stepfile_plan_stats *stats)
{
    weir_sim_result clock = {.time = p->time};

    stats->live_bytes = p->resident + f->s.peak;
    stats->peak_bytes = l->base + f->height;
    stats->placement = l->offsets.strategy;
    if (!f->s.valid)
        return WEIR_OK;
    if (!weir_schedule_simulate(&f->s, &l->offsets, &clock))
        return WEIR_ERR_NOMEM;
    stats->extra_ms = (clock.time - p->time) * 1e3;
    stats->out_bytes = clock.out;
    stats->in_bytes = clock.in;
    for (uint32_t e = 0; e < f->s.events.n; e++)
        stats->recomputed += f->s.events.at[e].recomputed;
    return WEIR_OK;
}

static weir_status write_plan(const weir_stepfile *o, const weir_fit *f, const weir_layouter *l,
                              size_t budget, char **text)
{
    weir_mem_plan a;

    if (weir_mem_plan_from_schedule(&f->s, &l->offsets, &a)) {
        a.align = l->align;
        *text = weir_stepfile_write(o, &a, budget);
    }
    weir_mem_plan_free(&a);
    return *text ? WEIR_OK : WEIR_ERR_NOMEM;
}

/* Moves the offsets above what always lies below the tensors. */
static void lift(weir_offsets *l, const weir_schedule *s, size_t base)
{
    for (uint32_t i = 0; i < s->ranges.n; i++)
        l->offset[i] += base;
    for (uint32_t e = 0; e < s->events.n; e++)
        l->work[e] += base;
}

/* Makes the requested texts about a plan. */
static weir_status show(const weir_stepfile *o, const weir_stepfile_options *how,
                        const weir_schedule *s, const weir_stepfile_plan_stats *stats)
{
    weir_string text = {0}, picture = {0};
    weir_naming n = weir_stepfile_naming(o);

    n.base = s->p->resident;
    n.whole = stats->whole_bytes;
    n.budget = stats->budget_bytes;
    n.planned = stats->peak_bytes;
    n.floor = stats->floor_bytes;
    n.extra = stats->extra_ms / 1e3;
    n.least = stats->least_extra_ms / 1e3;
    if (how->explain) {
        weir_explain(s, &n, &text);
        *how->explain = weir_string_take(&text);
    }
    if (how->picture) {
        weir_picture(s, &n, &picture);
        *how->picture = weir_string_take(&picture);
    }
    return (!how->explain || *how->explain) && (!how->picture || *how->picture) ? WEIR_OK
                                                                                : WEIR_ERR_NOMEM;
}

static void forget(char **text)
{
    if (text) {
        weir_mem_free(*text);
        *text = NULL;
    }
}

/* Returns a hash that separates cached plans placed by one strategy from those placed by any. */
static uint64_t hash_placement(const char *name)
{
    return name ? weir_hash_bytes(WEIR_HASH_SEED, name, strlen(name)) : 0;
}

/* Fits by a frontier if the caller has one or a cache is in use; otherwise directly. */
static weir_status fit(weir_fit *f, const weir_stepfile_options *how, weir_frontier *frontier,
                       weir_stepfile_plan_stats *stats, size_t base)
{
    const weir_cache_key key = {.policy = how->policy, .align = f->align, .below = base,
                                .whole = stats->whole_bytes, .moves = f->moves, .times = true,
                                .machine = hash_placement(how->placement)};
    weir_frontier        own = {0};
    weir_cache           cache;

    if (!how->budget || !weir_frontier_applies(f->policy))
        return weir_fit_run(f);
    weir_status status = weir_cache_open(&cache, how->cache, f->p, &key);
    frontier = frontier ? frontier : cache.path ? &own : NULL;
    if (frontier && status == WEIR_OK) {
        frontier->whole = stats->whole_bytes;
        frontier->below = base;
        status = weir_cache_build_frontier(&cache, frontier, f);
        if (status == WEIR_OK)
            status = weir_cache_fit(&cache, frontier, f);
    } else if (status == WEIR_OK) {
        status = weir_fit_run(f);
    }
    stats->cache = cache.use;
    weir_frontier_free(&own);
    weir_cache_close(&cache);
    return status;
}

static weir_status plan(const weir_stepfile *o, const weir_stepfile_options *how,
                        weir_frontier *frontier, const weir_mem_problem *p,
                        weir_stepfile_plan_stats *stats, char **text)
{
    weir_layouter l = {.align = how->alignment ? how->alignment : 1, .placement = how->placement};
    weir_fit      f = {.p = p,
                       .moves = how->moves,
                       .align = l.align,
                       .place = assign_offsets,
                       .ctx = &l,
                       .quick = how->placement != NULL};
    weir_bound    b;

    const weir_levers levers = weir_levers_of(p);

    WEIR_TRY(weir_policy_find(how->policy, &f.policy, &f.variant));
    for (uint32_t k = p->tensors.n; k < o->problem.tensors.n; k++)
        l.base += (o->problem.tensors.at[k].bytes + l.align - 1) & ~(l.align - 1);
    weir_progress_fixed(l.base);
    const size_t budget = how->budget ? stats->budget_bytes : SIZE_MAX;
    f.limit = budget > l.base ? budget - l.base : 0;
    l.within = how->budget && f.limit > 0;
    weir_status status = fit(&f, how, frontier, stats, l.base);
    if (status == WEIR_OK)
        status = weir_bound_of(p, f.limit, &levers, &b);
    if (status == WEIR_OK) {
        stats->floor_bytes = l.base + b.feasible_bytes;
        stats->least_extra_ms = b.extra_seconds * 1e3;
    }
    if (status == WEIR_OK)
        status = settle(&l, &f);
    if (status == WEIR_OK)
        status = tell(p, &f, &l, stats);
    if (status == WEIR_OK) {
        stats->proven_extra_ms = f.proven * 1e3;
        if (f.fits && budget >= l.base) {
            lift(&l.offsets, &f.s, l.base);
            status = show(o, how, &f.s, stats);
            if (status == WEIR_OK)
                status = write_plan(o, &f, &l, how->budget ? budget : stats->peak_bytes, text);
        } else {
            status = weir_fail(WEIR_ERR_BUDGET,
                               "%s: no plan found within %zu bytes; the smallest found needs %zu, "
                               "and no plan can need less than %zu", o->name, budget,
                               stats->peak_bytes, stats->floor_bytes);
        }
    }
    weir_fit_free(&f);
    weir_offsets_free(&l.offsets);
    return status;
}

/* With a link, resident tensors may be offloaded; without one they stay on the device. */
static weir_status plan_with_link(const weir_stepfile *o, const weir_stepfile_options *how,
                                  weir_frontier *frontier, weir_stepfile_plan_stats *stats,
                                  char **text)
{
    weir_mem_problem p;
    const bool       linked = how->link_out > 0 && how->link_in > 0;

    if (linked)
        p = o->problem;
    else if (!weir_mem_problem_pin_residents(&o->problem, &p))
        return WEIR_ERR_NOMEM;
    (void)weir_stepfile_rates(how, &p);
    const weir_status status = plan(o, how, frontier, &p, stats, text);
    if (!linked)
        weir_mem_problem_free(&p);
    return status;
}

/* Plans in the order of ops that the policy prefers. */
static weir_status plan_ordered(const weir_stepfile *o, const weir_stepfile_options *how,
                                weir_frontier *frontier, weir_stepfile_plan_stats *stats,
                                char **text)
{
    const weir_policy *policy;
    const char        *variant;
    weir_stepfile     *ordered = NULL;

    WEIR_TRY(weir_policy_find(how->policy, &policy, &variant));
    if (frontier && frontier->whole)
        stats->whole_bytes = frontier->whole;
    else
        WEIR_TRY(whole_of(o, how, &stats->whole_bytes));
    if (frontier)
        frontier->whole = stats->whole_bytes;
    if (how->budget)
        WEIR_TRY(weir_budget_parse(how->budget, stats->whole_bytes, &stats->budget_bytes));
    if (weir_auto_uses(policy, variant, WEIR_LEVER_ORDER))
        WEIR_TRY(weir_stepfile_reorder(o, &ordered));
    const weir_status status = plan_with_link(ordered ? ordered : o, how, frontier, stats, text);
    weir_stepfile_free(ordered);
    return status;
}

/* Reports progress meanwhile. A plan that a late poll stopped is dropped. */
static weir_status plan_watched(const weir_stepfile *o, const weir_stepfile_options *how,
                                weir_frontier *frontier, weir_stepfile_plan_stats *stats,
                                char **text)
{
    weir_progress_watch w;

    weir_progress_begin(&w, how->progress, how->progress_context);
    const weir_status status = weir_progress_end(&w, "weir_stepfile_plan",
                                                 plan_ordered(o, how, frontier, stats, text));
    if (status != WEIR_OK)
        forget(text);
    return status;
}

weir_status weir_stepfile_rates(const weir_stepfile_options *how, weir_mem_problem *p)
{
    const double rate[] = {how->link_out, how->link_in, how->memory};

    for (size_t i = 0; i < sizeof rate / sizeof *rate; i++)
        if (!isfinite(rate[i]) || rate[i] < 0 || (rate[i] > 0 && rate[i] < 1e-9))
            return weir_fail(WEIR_ERR_INVALID, "%g GB/s is not a rate (expected 0, or 1e-9 or "
                                               "more)",
                             rate[i]);
    p->link_out = how->link_out * 1e9;
    p->link_in = how->link_in * 1e9;
    p->pack_bandwidth = (how->memory > 0 ? how->memory : 600) * 1e9;
    return WEIR_OK;
}

static weir_status check_options(const weir_stepfile_options *how)
{
    weir_mem_problem unused = {0};

    if (!weir_place_named(how->placement))
        return WEIR_ERR_INVALID;
    if (how->alignment & (how->alignment - 1) || how->alignment > MOST_ALIGN)
        return weir_fail(WEIR_ERR_INVALID, "alignment %zu is not a power of two up to %zu",
                         how->alignment, MOST_ALIGN);
    return weir_stepfile_rates(how, &unused);
}

char *weir_stepfile_plan_frontier(const weir_stepfile *o, const weir_stepfile_options *options,
                                  weir_frontier *frontier, weir_stepfile_plan_stats *stats)
{
    static const weir_stepfile_options none;
    weir_stepfile_plan_stats           unread;
    char                              *text = NULL;

    if (!o) {
        (void)weir_fail_null("weir_stepfile_plan", "the step");
        return NULL;
    }
    const weir_stepfile_options *how = options ? options : &none;
    stats = stats ? stats : &unread;
    if (how->explain)
        *how->explain = NULL;
    if (how->picture)
        *how->picture = NULL;
    *stats = (weir_stepfile_plan_stats){.tensors = o->problem.tensors.n,
                                        .operations = o->problem.ops.n,
                                        .step_ms = o->problem.time * 1e3};
    for (uint32_t k = 0; k < o->problem.tensors.n; k++)
        if (weir_mem_tensor_is_resident(&o->problem, k))
            stats->resident_bytes += o->problem.tensors.at[k].bytes;
    weir_stepfile_options by = *how;
    by.placement = how->placement && strcmp(how->placement, "auto") == 0 ? NULL : how->placement;
    if (check_options(how) == WEIR_OK)
        (void)plan_watched(o, &by, frontier, stats, &text);
    if (!text) {
        forget(how->explain);
        forget(how->picture);
    }
    return text;
}

char *weir_stepfile_plan(const weir_stepfile *o, const weir_stepfile_options *options,
                         weir_stepfile_plan_stats *stats)
{
    return weir_stepfile_plan_frontier(o, options, NULL, stats);
}
