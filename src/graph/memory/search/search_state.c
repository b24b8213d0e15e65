/* search_state.c - the plan at hand: its cost, whether it has addresses, the best one so far. */
#include "graph/memory/search/search_state.h"

#include <math.h>
#include <string.h>

#include "core/status.h"

/* Weight of bytes above the budget (relative to it) against extra time (relative to the step's). */
#define EXCESS_WEIGHT 20.0

bool weir_search_walk(weir_searcher *a)
{
    return weir_walk(&a->s->room, a->gap);
}

double weir_search_objective(const weir_searcher *a)
{
    const weir_search *s = a->s;
    const size_t       room = weir_search_room(a);

    if (!s->room.valid)
        return INFINITY;
    const double over = s->room.peak > room ? (double)(s->room.peak - room) : 0;
    return s->room.extra / (s->p->time + 1e-30) +
           EXCESS_WEIGHT * over / ((double)s->budget + 1);
}

/* Within the budget first, then by time, or by bytes where neither is. */
static bool better(const weir_search *s, size_t peak, double extra, const weir_search_best *than)
{
    const bool fits = peak <= s->budget, than_fits = than->peak <= s->budget;

    if (fits != than_fits)
        return fits;
    return fits ? extra < than->extra : peak < than->peak;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Are there addresses for the plan walked last? If not, later plans are made for fewer bytes, and
 * where that failed often in a row, some are passed over: a failure takes long to find. */
static bool has_addresses(weir_searcher *a)
{
    enum { FAILURES = 2, PASSED = 2, SPARED = 32 };
    const weir_search *s = a->s;

    if (s->room_bytes == 0 || s->room.peak > s->budget)
        return true;                    /* it is too large anyway */
    if (s->room.peak > weir_search_room(a) || a->wait > 0) {
        a->wait -= a->wait > 0;
        return false;
    }
    a->status = weir_lay_within(&s->room.s, s->align, s->room_bytes, &a->lay);
    const bool fits = a->status == WEIR_OK && a->lay.height <= s->room_bytes;
    if (fits)
        a->spare -= a->spare / 4;
    else if (a->spare < s->budget / SPARED && a->status == WEIR_OK)
        a->spare += smaller((a->lay.height - s->room_bytes) / 2, s->budget / SPARED);
    a->failed = fits ? 0 : a->failed + 1;
    a->wait = a->failed > FAILURES ? PASSED : 0;
    return fits;
}

static void remember(const weir_searcher *a, weir_search_best *f)
{
    const weir_walk_room *w = &a->s->room;

    memcpy(f->gap, a->gap, w->gaps);
    f->peak = w->peak;
    f->extra = w->extra;
}

bool weir_search_note(weir_searcher *a)
{
    const weir_walk_room *w = &a->s->room;

    if (!w->valid || !better(a->s, w->peak, w->extra, &a->best) || !has_addresses(a))
        return a->status == WEIR_OK;
    remember(a, &a->best);
    return true;
}

bool weir_search_note_later(weir_searcher *a)
{
    const weir_walk_room *w = &a->s->room;

    if (a->s->room_bytes == 0 || w->peak > a->s->budget)
        return weir_search_note(a);
    if (w->valid && w->peak <= weir_search_room(a) &&
        better(a->s, w->peak, w->extra, &a->best) &&
        better(a->s, w->peak, w->extra, &a->pending))
        remember(a, &a->pending);
    return true;
}

static void exchange(weir_searcher *a)
{
    uint8_t *const gap = a->gap;

    a->gap = a->pending.gap;
    a->pending.gap = gap;
}

bool weir_search_settle(weir_searcher *a)
{
    if (a->pending.peak == SIZE_MAX)
        return true;
    exchange(a);
    const bool ok = weir_search_walk(a) && weir_search_note(a);
    exchange(a);
    a->pending.peak = SIZE_MAX;
    return ok;
}

void weir_search_close_line(weir_searcher *a)
{
    weir_search *s = a->s;
    const weir_search_best answer = {s->best, s->best_peak, s->best_extra};

    if (!better(s, a->best.peak, a->best.extra, &answer))
        return;
    memcpy(s->best, a->best.gap, s->room.gaps);
    s->best_peak = a->best.peak;
    s->best_extra = a->best.extra;
}

void weir_search_open_line(weir_searcher *a, unsigned levers)
{
    a->levers = levers;
    a->spare = a->failed = a->wait = 0;
    a->pending.peak = SIZE_MAX;
    a->best.peak = SIZE_MAX;
    a->best.extra = INFINITY;
}

/* One in a few thousand parts of what the largest task needs. */
static size_t smallest_worth(const weir_problem *p)
{
    enum { PARTS = 4096 };
    size_t most = 0;

    for (uint32_t k = 0; k < p->pieces.n; k++)
        most = p->pieces.at[k].bytes > most ? p->pieces.at[k].bytes : most;
    return most / PARTS;
}

/* Walks take linear, addresses quadratic time. */
static uint32_t settle_every(uint32_t tasks)
{
    enum { LEAST = 16, TASKS = 5000 };
    return LEAST + (uint32_t)((uint64_t)tasks * tasks / TASKS);
}

bool weir_search_state_init(weir_searcher *a)
{
    weir_search *s = a->s;
    const size_t gaps = s->room.gaps + 1u, pieces = s->p->pieces.n + 1u;
    double       when = 0;

    a->small = smallest_worth(s->p) + 1;
    a->every = settle_every(s->p->tasks.n);
    s->best = weir_mem_zalloc(gaps, 1);
    a->best.gap = weir_mem_zalloc(gaps, 1);
    a->pending.gap = weir_mem_zalloc(gaps, 1);
    a->gap = weir_mem_zalloc(gaps, 1);
    a->piece_of = weir_mem_alloc(gaps * sizeof *a->piece_of);
    a->stamp = weir_mem_zalloc(pieces, sizeof *a->stamp);
    a->when = weir_mem_alloc((s->p->tasks.n + 1u) * sizeof *a->when);
    if (!s->best || !a->best.gap || !a->pending.gap || !a->gap || !a->piece_of || !a->stamp ||
        !a->when)
        return false;
    for (uint32_t i = 0; i < s->p->tasks.n; when += s->p->tasks.at[i++].time)
        a->when[i] = when;
    for (uint32_t k = 0; k < s->p->pieces.n; k++)
        for (uint32_t g = s->room.first_gap[k]; g < s->room.first_gap[k + 1]; g++) {
            a->piece_of[g] = k;
            if (s->p->pieces.at[k].bytes >= a->small && !weir_vec_push(&a->worth, g))
                return false;
        }
    s->room.budget = s->budget;
    s->best_peak = SIZE_MAX;
    s->best_extra = INFINITY;
    return true;
}

void weir_search_state_free(weir_searcher *a)
{
    weir_mem_free(a->gap);
    weir_mem_free(a->best.gap);
    weir_mem_free(a->pending.gap);
    weir_mem_free(a->piece_of);
    weir_mem_free(a->stamp);
    weir_mem_free(a->when);
    weir_lay_free(&a->lay);
    weir_vec_free(&a->worth);
    weir_vec_free(&a->candidates);
    weir_vec_free(&a->undo);
}
