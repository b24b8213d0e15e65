/* greedy.c - a plan that fits, made at once; and taken back where that was too much.
 *
 * While the peak is too high, of the pieces that lie idle across it those go that save most bytes
 * for the time it takes to have them again (the ratio of Capuchin, Peng et al. 2020, and of DTR,
 * Kirisame et al. 2021, but counted to the end of the gap and knowing the future). */
#include "graph/memory/search/greedy.h"

#include <math.h>
#include <stdlib.h>

#include "graph/memory/search/candidates.h"

static int by_score(const void *x, const void *y)
{
    const weir_candidate *a = x, *b = y;
    if (a->score != b->score)
        return a->score < b->score ? 1 : -1;
    return (a->gap > b->gap) - (a->gap < b->gap);
}

static bool touches(const weir_problem *p, uint32_t task, uint32_t piece)
{
    const weir_task *t = &p->tasks.at[task];
    const uint32_t  *in = weir_refs(p, t->in), *out = weir_refs(p, t->out);
    for (uint32_t i = 0; i < t->in.n; i++)
        if (in[i] == piece)
            return true;
    for (uint32_t i = 0; i < t->out.n; i++)
        if (out[i] == piece)
            return true;
    return false;
}

/* Gaps of pieces that lie idle across the peak, best first. */
static bool collect(weir_searcher *a, double power)
{
    const weir_search    *s = a->s;
    const weir_walk_room *w = &s->room;
    const uint32_t        e = w->peak_event, stage = weir_schedule_stage(&w->s, e);
    const double          load = weir_link_load(a);
    const double          excess = (double)(w->peak - weir_search_room(a));

    a->candidates.n = 0;
    for (uint32_t i = 0; i < w->s.lives.n; i++) {
        const weir_life l = w->s.lives.at[i];
        if (l.first > e || l.last < e || l.form != WEIR_PLAIN ||
            (w->s.events.at[e].act == WEIR_RUN && touches(s->p, w->s.events.at[e].what, l.piece)) ||
            s->p->pieces.at[l.piece].bytes == 0)
            continue;
        const uint32_t j = weir_gap_at(s->p, l.piece, stage), gap = w->first_gap[l.piece] + j;
        if (weir_way_gone(a, gap, l.piece, j))
            continue;
        double         cost = 0;
        const bool     tail = j == s->p->pieces.at[l.piece].uses.n && a->gap[gap] == WEIR_TAIL;
        const weir_gap way = tail ? WEIR_DROP_AGAIN : weir_way_cheapest(a, l.piece, j, load, &cost);
        if (way == WEIR_KEEP)
            continue;
        const double bytes = fmin((double)s->p->pieces.at[l.piece].bytes, 2 * excess);
        const double score = pow(bytes, power) / (cost + 1e-12);
        if (!weir_vec_push(&a->candidates, (weir_candidate){score, gap, l.piece, (uint8_t)way}))
            return false;
    }
    if (a->candidates.n)
        qsort(a->candidates.at, a->candidates.n, sizeof *a->candidates.at, by_score);
    return true;
}

/* Lets a candidate go. */
static void let_go(weir_searcher *a, const weir_candidate *c)
{
    const uint32_t first = a->s->room.first_gap[c->piece];
    const uint8_t  was = a->gap[c->gap];

    if (weir_piece_resident(a->s->p, c->piece))
        a->gap[first] = a->gap[c->gap] = WEIR_SWAP;
    else if (c->gap + 1 == a->s->room.first_gap[c->piece + 1])
        a->gap[c->gap] = WEIR_KEEP;     /* behind the last use: no tail any more */
    else if (c->to == WEIR_DROP && (was == WEIR_DROP || was == WEIR_TAIL))
        a->gap[c->gap] = WEIR_DROP_AGAIN;
    else
        a->gap[c->gap] = c->to;
}

/* From the plan at hand: drops until the peak fits or nothing is left to drop. */
bool weir_search_greedy(weir_searcher *a, double power)
{
    weir_search *s = a->s;
    const size_t rounds = 4 * (size_t)s->room.gaps + 16;

    for (size_t r = 0; r < rounds; r++) {
        if (!weir_search_walk(a))
            return false;
        if (!weir_search_note(a))
            return false;
        if (!s->room.valid || s->room.peak <= weir_search_room(a))
            return true;
        if (!collect(a, power))
            return false;
        double left = 0.3 * (double)(s->room.peak - weir_search_room(a));
        if (a->candidates.n == 0)
            return true;
        for (uint32_t i = 0; i < a->candidates.n && (i == 0 || left > 0); i++) {
            const weir_candidate c = a->candidates.at[i];
            let_go(a, &c);
            left -= (double)s->p->pieces.at[c.piece].bytes;
        }
    }
    return true;
}

/* Settles, and comes back to the plan at hand. */
static bool settle_here(weir_searcher *a)
{
    return weir_search_settle(a) && weir_search_walk(a);
}

/* Takes drops back, the dearest first, while the budget holds. */
bool weir_search_restore(weir_searcher *a)
{
    weir_search *s = a->s;

    a->candidates.n = 0;
    for (uint32_t g = 0; g < s->room.gaps; g++) {
        if (a->gap[g] == WEIR_KEEP || a->gap[g] == WEIR_TAIL)
            continue;
        const uint32_t piece = a->piece_of[g];
        const double   cost = fmin(weir_drop_cost(a, piece, g - s->room.first_gap[piece]), 1e30);
        if (!weir_vec_push(&a->candidates, (weir_candidate){cost, g, piece, 0}))
            return false;
    }
    if (a->candidates.n)
        qsort(a->candidates.at, a->candidates.n, sizeof *a->candidates.at, by_score);
    if (!weir_search_walk(a))
        return false;
    double   extra = s->room.extra;
    uint32_t taken = 0;
    for (uint32_t i = 0; i < a->candidates.n; i++) {
        const uint32_t g = a->candidates.at[i].gap;
        const uint8_t  was = a->gap[g];
        a->gap[g] = WEIR_KEEP;
        if (!weir_search_walk(a))
            return false;
        if (s->room.valid && s->room.peak <= weir_search_room(a) && s->room.extra <= extra) {
            extra = s->room.extra;
            if (!weir_search_note_later(a) || (++taken % a->every == 0 && !settle_here(a)))
                return false;
        } else {
            a->gap[g] = was;
        }
    }
    return settle_here(a);
}
