/* frontier.c - plans for falling budgets, each from the decisions of the next larger budget and
 * from scratch, and returns the fastest plan that fits.
 *
 * The kept plans have falling heights and rising times (all others are dominated), so a larger
 * budget is never slower. Levels are planned from the highest down as far as plans are found,
 * whatever the requested budget, so a new frontier's answer at a level depends on the problem
 * alone, not on earlier requests. A budget between two levels gets the plan of the lower one if the
 * upper one is at most STEP faster; otherwise it is planned as well, and its plan is kept: later
 * requests may get a faster plan by it, never a slower one. */
#include "graph/memory/budget/frontier.h"

#include <string.h>

#include "core/status.h"
#include "graph/memory/policies/auto.h"
#include "graph/memory/problem/decisions.h"
#include "graph/memory/problem/lower.h"

/* Fraction of the step's time by which plans of neighbouring levels may differ. */
#define STEP 0.002

/* A level gets 1 / SHARE_* of the moves of a search for one budget, when it starts from the plan of
 * the next larger budget (NEAR) and when it starts from scratch (RECOMPUTED): a whole frontier
 * takes one to five times as long as one budget. Steps of few ops, whose searches are short, get
 * more. */
enum { SHARE_NEAR = 64, SHARE_RECOMPUTED = 128, SMALL = 200, SHARE_SMALL = 8 };

void weir_frontier_free(weir_frontier *l)
{
    for (uint32_t i = 0; i < l->points.n; i++)
        weir_mem_free(l->points.at[i].decisions);
    weir_vec_free(&l->points);
    *l = (weir_frontier){0};
}

const weir_frontier_point *weir_frontier_best(const weir_frontier *l, size_t limit)
{
    for (uint32_t i = 0; i < l->points.n; i++)
        if (l->points.at[i].height <= limit)
            return &l->points.at[i];
    return NULL;
}

static bool dominates(const weir_frontier_point *a, const weir_frontier_point *b)
{
    return a->height <= b->height && a->extra <= b->extra;
}

bool weir_frontier_add(weir_frontier *l, const weir_frontier_point *r, const uint8_t *made,
                       uint32_t intervals)
{
    uint32_t n = 0, at = 0;

    for (uint32_t i = 0; i < l->points.n; i++)
        if (dominates(&l->points.at[i], r))
            return true;
    uint8_t *const decisions = weir_mem_alloc(intervals + 1u);
    if (!decisions || !weir_vec_reserve(&l->points, l->points.n + 1u)) {
        weir_mem_free(decisions);
        return false;
    }
    memcpy(decisions, made, intervals);
    for (uint32_t i = 0; i < l->points.n; i++)
        if (dominates(r, &l->points.at[i]))
            weir_mem_free(l->points.at[i].decisions);
        else
            l->points.at[n++] = l->points.at[i];
    while (at < n && l->points.at[at].extra < r->extra)
        at++;
    memmove(&l->points.at[at + 1], &l->points.at[at], (n - at) * sizeof *l->points.at);
    l->points.at[at] = *r;
    l->points.at[at].decisions = decisions;
    l->points.n = n + 1;
    l->grown = true;
    return true;
}

static weir_status copy_of(const uint8_t *decisions, uint32_t intervals, uint8_t **copy)
{
    *copy = weir_mem_alloc(intervals + 1u);
    if (!*copy)
        return WEIR_ERR_NOMEM;
    memcpy(*copy, decisions, intervals);
    return WEIR_OK;
}

/* Adds the schedule of the fit, which has been placed. */
static weir_status add_fit(weir_frontier *l, const weir_fit *f, const uint8_t *decisions)
{
    const weir_frontier_point r = {f->target, f->height, f->s.time - f->p->time, NULL, f->made_by};

    return weir_frontier_add(l, &r, decisions, weir_lower_intervals(f->p)) ? WEIR_OK
                                                                           : WEIR_ERR_NOMEM;
}

/* Reads decisions off a quick plan as a start for searches: keeps everything if they cannot be
 * lowered. Sets *decisions, which the caller frees. */
static weir_status start_from(const weir_portfolio *r, uint8_t **decisions)
{
    weir_lower_state              w;
    const weir_mem_problem *const p = r->s.p;
    const bool                    ok = weir_lower_init(&w, p) &&
                    (*decisions = weir_mem_zalloc(w.intervals + 1u, 1)) != NULL &&
                    weir_decisions_from_schedule(&w, &r->s, *decisions);

    if (ok && !weir_decisions_are_possible(p, *decisions))
        memset(*decisions, WEIR_KEEP, w.intervals);
    weir_lower_free(&w);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}

/* Adds the best plan of the quick policies for `limit` bytes: the searches below do not look at
 * offsets and so may miss it. */
static weir_status add_portfolio(weir_frontier *l, const weir_fit *like, size_t limit)
{
    char                  own[WEIR_VARIANT];
    const weir_policy_job job = {.p = like->p,
                                 .limit = limit,
                                 .addresses = like->quick ? 0 : limit,
                                 .align = like->align,
                                 .variant = own};
    weir_fit       f = *like;
    weir_portfolio r;
    uint8_t       *decisions = NULL;

    (void)weir_compress_split(like->variant, own);
    weir_status status = weir_auto_portfolio(&job, &r);
    if (status == WEIR_OK && r.found) {
        f.target = limit;
        f.made_by = r.made_by;
        f.s = r.s;
        status = f.place(f.ctx, &f.s, limit, &f.height);
        if (status == WEIR_OK)
            status = start_from(&r, &decisions);
        if (status == WEIR_OK)
            status = add_fit(l, &f, decisions);
    }
    weir_mem_free(decisions);
    weir_portfolio_free(&r);
    return status;
}

/* Plans for `limit` bytes with 1 / share of the moves, from a point's decisions; NULL: from
 * scratch. */
static weir_status try_from(weir_frontier *l, const weir_fit *like, size_t limit, uint64_t share,
                            const weir_frontier_point *start)
{
    const uint32_t intervals = weir_lower_intervals(like->p);
    const uint64_t all = like->moves ? like->moves : weir_policy_moves(like->p->ops.n);
    weir_fit       f = *like;

    f.limit = limit;
    f.quick = share > 1;
    f.moves = all / share + 1;
    f.decisions = NULL;
    if (start)
        WEIR_TRY(copy_of(start->decisions, intervals, &f.decisions));
    weir_status status = weir_fit_run(&f);
    if (status == WEIR_OK && f.fits && f.s.valid && f.decisions)
        status = add_fit(l, &f, f.decisions);
    weir_fit_free(&f);
    return status;
}

static size_t limit_of(const weir_frontier *l, size_t point)
{
    const size_t bytes = l->whole / WEIR_FRONTIER_LEVELS * point +
                         l->whole % WEIR_FRONTIER_LEVELS * point / WEIR_FRONTIER_LEVELS;
    return bytes > l->below ? bytes - l->below : 0;
}

/* Plans all levels: first by searches, then by the quick policies, whose plans are no starts for
 * searches. A larger budget's plan may be a bad start for a smaller one, so each level is
 * also planned from scratch; planning stops at a level only after a full search for it has
 * failed. */
static weir_status build(weir_frontier *l, const weir_fit *f)
{
    const bool     small = f->p->ops.n <= SMALL;
    const uint64_t near = small ? SHARE_SMALL : SHARE_NEAR,
                   recomputed = small ? SHARE_SMALL : SHARE_RECOMPUTED;

    for (size_t point = WEIR_FRONTIER_LEVELS; point > 0 && !l->complete; point--) {
        const size_t               limit = limit_of(l, point);
        const weir_frontier_point *best = weir_frontier_best(l, limit);
        if (best && best->extra <= 0)
            continue;
        if (l->points.n)
            WEIR_TRY(try_from(l, f, limit, near, &l->points.at[l->points.n - 1]));
        WEIR_TRY(try_from(l, f, limit, recomputed, NULL));
        if (!weir_frontier_best(l, limit))
            WEIR_TRY(try_from(l, f, limit, 1, NULL));
        if (!weir_frontier_best(l, limit))
            break;
    }
    for (size_t point = WEIR_FRONTIER_LEVELS; point > 0 && !l->complete; point--) {
        const size_t               limit = limit_of(l, point);
        const weir_frontier_point *best = weir_frontier_best(l, limit);
        if (!best)
            break;
        if (best->extra > 0)
            WEIR_TRY(add_portfolio(l, f, limit));
    }
    l->complete = true;
    return WEIR_OK;
}

weir_status weir_frontier_build(weir_frontier *l, const weir_fit *f)
{
    size_t above = 0;

    WEIR_TRY(build(l, f));
    for (size_t point = 1; point <= WEIR_FRONTIER_LEVELS; point++) {
        above = limit_of(l, point);
        if (above >= f->limit)
            break;
    }
    const weir_frontier_point *best = weir_frontier_best(l, f->limit),
                              *upper = weir_frontier_best(l, above);
    if (above == f->limit || f->limit > above || !upper ||
        (best && best->extra <= upper->extra + STEP * f->p->time))
        return WEIR_OK;
    return try_from(l, f, f->limit, SHARE_SMALL, upper);
}

/* Makes a plan again as f->s. */
static weir_status make(weir_fit *f, const weir_frontier_point *r, const uint8_t *decisions)
{
    weir_lower_state w;

    f->target = r->target;
    f->made_by = r->made_by;
    weir_schedule_free(&f->s);
    f->s = (weir_schedule){0};
    if (r->made_by.entry)
        return weir_portfolio_make(f->p, r->made_by, f->align, &f->s);
    bool ok = weir_lower_init(&w, f->p);
    w.budget = r->target;
    ok = ok && weir_lower(&w, decisions);
    f->s = w.s;
    w.s = (weir_schedule){0};
    weir_lower_free(&w);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}

weir_status weir_frontier_evaluate(weir_frontier *l, const weir_fit *like,
                                   const weir_frontier_point *r, const uint8_t *decisions,
                                   bool *good)
{
    weir_fit f = *like;

    f.s = (weir_schedule){0};
    weir_status status = make(&f, r, decisions);
    *good = status == WEIR_OK && f.s.valid;
    if (*good)
        status = f.place(f.ctx, &f.s, r->height, &f.height);
    if (*good && status == WEIR_OK)
        status = add_fit(l, &f, decisions);
    weir_schedule_free(&f.s);
    return status;
}

weir_status weir_frontier_fit(const weir_frontier *l, weir_fit *f)
{
    const weir_frontier_point *const r = weir_frontier_best(l, f->limit);

    f->fits = false;
    if (!r)
        return WEIR_OK;
    weir_mem_free(f->decisions);
    f->decisions = NULL;
    WEIR_TRY(copy_of(r->decisions, weir_lower_intervals(f->p), &f->decisions));
    WEIR_TRY(make(f, r, r->decisions));
    WEIR_TRY(f->place(f->ctx, &f->s, f->limit, &f->height));
    if (f->height > f->limit)
        WEIR_TRY(f->place(f->ctx, &f->s, r->height, &f->height));
    f->fits = f->height <= f->limit;
    return WEIR_OK;
}
