/* frontier.c - plans rung by rung, each from the decisions of the one above and from nothing, and
 * hands out the fastest plan that fits.
 *
 * The plans that are kept have falling heights and rising times (the others are beaten), so at any
 * moment more room is never slower. The rungs are planned from the highest down as far as any plan
 * is found, whatever budget was asked for, so what a new ladder answers on a rung depends on the
 * problem alone, not on what was asked before. A budget between two rungs gets the plan of the
 * lower one as long as the upper one is no more than STEP faster; else it is planned, too, and its
 * plan kept: what is asked later may be answered faster by that, never slower. */
#include "graph/memory/budget/frontier.h"

#include <string.h>

#include "core/status.h"
#include "graph/memory/problem/lower.h"

/* Between rungs: a share of the step's time. */
#define STEP 0.002

/* One part in so many of the moves of a search for one budget is for a rung that begins with the
 * plan above it (which uses half of them), or with nothing: a ladder takes one to five times
 * as long as one budget. Steps of few tasks, whose searches are short, get more. */
enum { SHARE_NEAR = 64, SHARE_ANEW = 128, SMALL = 200, SHARE_SMALL = 16 };

void weir_ladder_free(weir_ladder *l)
{
    for (uint32_t i = 0; i < l->rungs.n; i++)
        weir_mem_free(l->rungs.at[i].gap);
    weir_vec_free(&l->rungs);
    *l = (weir_ladder){0};
}

const weir_rung *weir_ladder_best(const weir_ladder *l, size_t room)
{
    for (uint32_t i = 0; i < l->rungs.n; i++)
        if (l->rungs.at[i].height <= room)
            return &l->rungs.at[i];
    return NULL;
}

static bool beats(const weir_rung *a, const weir_rung *b)
{
    return a->height <= b->height && a->extra <= b->extra;
}

bool weir_ladder_add(weir_ladder *l, const weir_rung *r, const uint8_t *decisions,
                     uint32_t gaps)
{
    uint32_t n = 0, at = 0;

    for (uint32_t i = 0; i < l->rungs.n; i++)
        if (beats(&l->rungs.at[i], r))
            return true;
    uint8_t *const gap = weir_mem_alloc(gaps + 1u);
    if (!gap || !weir_vec_reserve(&l->rungs, l->rungs.n + 1u)) {
        weir_mem_free(gap);
        return false;
    }
    memcpy(gap, decisions, gaps);
    for (uint32_t i = 0; i < l->rungs.n; i++)
        if (beats(r, &l->rungs.at[i]))
            weir_mem_free(l->rungs.at[i].gap);
        else
            l->rungs.at[n++] = l->rungs.at[i];
    while (at < n && l->rungs.at[at].extra < r->extra)
        at++;
    memmove(&l->rungs.at[at + 1], &l->rungs.at[at], (n - at) * sizeof *l->rungs.at);
    l->rungs.at[at] = *r;
    l->rungs.at[at].gap = gap;
    l->rungs.n = n + 1;
    l->grown = true;
    return true;
}

static weir_status copy_of(const uint8_t *gap, uint32_t gaps, uint8_t **copy)
{
    *copy = weir_mem_alloc(gaps + 1u);
    if (!*copy)
        return WEIR_ERR_NOMEM;
    memcpy(*copy, gap, gaps);
    return WEIR_OK;
}

/* Plans for `room` with one part in `share` of the moves, beginning with the decisions of a rung
 * (NULL: with none). */
static weir_status try_from(weir_ladder *l, const weir_fit *like, size_t room, uint64_t share,
                            const weir_rung *start)
{
    const uint32_t gaps = weir_walk_gaps(like->p);
    const uint64_t all = like->moves ? like->moves : weir_policy_moves(like->p->tasks.n);
    weir_fit       f = *like;

    f.room = room;
    f.quick = share > 1;
    f.moves = all / share + 1;
    f.gap = NULL;
    if (start)
        WEIR_TRY(copy_of(start->gap, gaps, &f.gap));
    weir_status status = weir_fit_run(&f);
    if (status == WEIR_OK && f.fits && f.s.valid && f.gap) {
        const weir_rung r = {f.target, f.height, f.s.time - f.p->time, NULL};
        status = weir_ladder_add(l, &r, f.gap, gaps) ? WEIR_OK : WEIR_ERR_NOMEM;
    }
    weir_fit_free(&f);
    return status;
}

static size_t room_of(const weir_ladder *l, size_t rung)
{
    const size_t bytes = l->whole / WEIR_RUNGS * rung + l->whole % WEIR_RUNGS * rung / WEIR_RUNGS;
    return bytes > l->below ? bytes - l->below : 0;
}

/* All rungs. The plan above may be of no use below, so each begins with nothing as well; the last
 * one is given up only after the whole search for one budget. */
static weir_status climb(weir_ladder *l, const weir_fit *f)
{
    const bool     small = f->p->tasks.n <= SMALL;
    const uint64_t near = small ? SHARE_SMALL : SHARE_NEAR, anew = small ? SHARE_SMALL : SHARE_ANEW;

    for (size_t rung = WEIR_RUNGS; rung > 0 && !l->climbed; rung--) {
        const size_t     room = room_of(l, rung);
        const weir_rung *best = weir_ladder_best(l, room);
        if (best && best->extra <= 0)
            continue;
        if (l->rungs.n)
            WEIR_TRY(try_from(l, f, room, near, &l->rungs.at[l->rungs.n - 1]));
        WEIR_TRY(try_from(l, f, room, anew, NULL));
        if (!weir_ladder_best(l, room))
            WEIR_TRY(try_from(l, f, room, 1, NULL));
        if (!weir_ladder_best(l, room))
            break;
    }
    l->climbed = true;
    return WEIR_OK;
}

weir_status weir_ladder_climb(weir_ladder *l, const weir_fit *f)
{
    size_t above = 0;

    WEIR_TRY(climb(l, f));
    for (size_t rung = 1; rung <= WEIR_RUNGS; rung++) {
        above = room_of(l, rung);
        if (above >= f->room)
            break;
    }
    const weir_rung *best = weir_ladder_best(l, f->room), *upper = weir_ladder_best(l, above);
    if (above == f->room || f->room > above || !upper ||
        (best && best->extra <= upper->extra + STEP * f->p->time))
        return WEIR_OK;
    return try_from(l, f, f->room, SHARE_SMALL, upper);
}

/* The schedule that decisions mean. */
static weir_status walk(weir_fit *f, size_t target, const uint8_t *gap)
{
    weir_walk_room w;
    bool           ok = weir_walk_init(&w, f->p);

    w.budget = f->target = target;
    ok = ok && weir_walk(&w, gap);
    weir_schedule_free(&f->s);
    f->s = w.s;
    w.s = (weir_schedule){0};
    weir_walk_free(&w);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}

weir_status weir_ladder_judge(weir_ladder *l, const weir_fit *like, size_t target,
                              const uint8_t *gap, bool *good)
{
    weir_fit    f = *like;
    weir_status status = walk(&f, target, gap);

    *good = status == WEIR_OK && f.s.valid;
    if (*good)
        status = f.lay(f.ctx, &f.s, &f.height);
    if (*good && status == WEIR_OK) {
        const weir_rung r = {target, f.height, f.s.time - f.p->time, NULL};
        status = weir_ladder_add(l, &r, gap, weir_walk_gaps(f.p)) ? WEIR_OK : WEIR_ERR_NOMEM;
    }
    weir_schedule_free(&f.s);
    return status;
}

weir_status weir_ladder_fit(const weir_ladder *l, weir_fit *f)
{
    const weir_rung *const r = weir_ladder_best(l, f->room);

    f->fits = false;
    if (!r)
        return WEIR_OK;
    weir_mem_free(f->gap);
    f->gap = NULL;
    WEIR_TRY(copy_of(r->gap, weir_walk_gaps(f->p), &f->gap));
    WEIR_TRY(walk(f, r->target, r->gap));
    WEIR_TRY(f->lay(f->ctx, &f->s, &f->height));
    f->fits = f->height <= f->room;
    return WEIR_OK;
}
