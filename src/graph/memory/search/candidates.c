/* candidates.c - the ways in which a piece may go over a gap, and about what each costs. */
#include "graph/memory/search/candidates.h"

#include <math.h>

/* Number of uses of the piece before task `stage`: the gap that covers it. */
uint32_t weir_gap_at(const weir_problem *p, uint32_t piece, uint32_t stage)
{
    const weir_range uses = p->pieces.at[piece].uses;
    const uint32_t  *u = weir_refs(p, uses);
    uint32_t         lo = 0, hi = uses.n;

    while (lo < hi) {
        const uint32_t mid = (lo + hi) / 2;
        if (u[mid] < stage)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Is the piece there just before task `stage`, as far as its own decisions say? */
static bool held_at(const weir_searcher *a, uint32_t piece, uint32_t stage)
{
    const weir_walk_room *w = &a->s->room;
    const weir_piece     *k = &a->s->p->pieces.at[piece];
    const uint32_t        j = weir_gap_at(a->s->p, piece, stage);
    const uint8_t         d = a->gap[w->first_gap[piece] + j];

    if (k->maker == WEIR_NO_TASK || (j < k->uses.n && (d == WEIR_SWAP || d == WEIR_CODE)))
        return true;                    /* it comes back without a run */
    return j == k->uses.n ? d == WEIR_TAIL || k->output : d == WEIR_KEEP;
}

/* Seconds to make the piece anew just before `stage`; INFINITY where that is wrong by then. */
static double closure_cost(weir_searcher *a, uint32_t piece, uint32_t stage, int depth)
{
    enum { DEEPEST = 200 };
    const weir_problem *p = a->s->p;
    if (weir_piece_resident(p, piece))
        return INFINITY;
    const weir_task    *t = &p->tasks.at[p->pieces.at[piece].maker];
    const uint32_t     *in = weir_refs(p, t->in);

    if (a->stamp[piece] == a->call)
        return 0;                       /* counted already */
    a->stamp[piece] = a->call;
    if (t->until <= stage || depth > DEEPEST)
        return INFINITY;
    double cost = t->time;
    for (uint32_t i = 0; i < t->in.n; i++)
        if (!held_at(a, in[i], stage))
            cost += closure_cost(a, in[i], stage, depth + 1);
    return cost;
}

double weir_drop_cost(weir_searcher *a, uint32_t piece, uint32_t gap_number)
{
    const weir_problem *p = a->s->p;
    const weir_range    uses = p->pieces.at[piece].uses;

    if (gap_number == uses.n)
        return 0;
    a->call++;
    return closure_cost(a, piece, weir_refs(p, uses)[gap_number], 0);
}

static bool lever(const weir_searcher *a, weir_lever l)
{
    return a->levers & l;
}

/* Can the decision be made for gap j of the piece at all, and is it allowed? */
bool weir_way_possible(const weir_searcher *a, uint32_t piece, uint32_t j, weir_gap d)
{
    const weir_problem *p = a->s->p;
    const weir_piece   *k = &p->pieces.at[piece];

    if (d == WEIR_KEEP)
        return true;
    if (k->bytes < a->small)
        return false;
    switch (d) {
    case WEIR_SWAP:
        return lever(a, WEIR_LEVER_SWAP) && p->link_out > 0 && p->link_in > 0 &&
               (j < k->uses.n || k->maker == WEIR_NO_TASK);
    case WEIR_CODE:
        return lever(a, WEIR_LEVER_PACK) && p->codec > 0 && k->packed && j < k->uses.n;
    case WEIR_MASKED:
        return lever(a, WEIR_LEVER_MASK) && p->codec > 0 && k->mask && j < k->uses.n &&
               weir_among(p, p->tasks.at[weir_refs(p, k->uses)[j]].masked, piece);
    default:
        return lever(a, WEIR_LEVER_RECOMPUTE) && k->maker != WEIR_NO_TASK;
    }
}

/* Seconds on the link to the host so far. */
double weir_link_load(const weir_searcher *a)
{
    const weir_schedule *s = &a->s->room.s;
    double               sum = 0;

    for (uint32_t e = 0; s->copies && e < s->events.n; e++)
        if (s->events.at[e].act == WEIR_OUT)
            sum += weir_event_seconds(s->p, &s->events.at[e]);
    return sum;
}

/* About what it costs to swap the piece out over gap j: little while the link is idle. */
static double swap_cost(const weir_searcher *a, uint32_t piece, uint32_t j, double load)
{
    const weir_problem *p = a->s->p;
    const weir_piece   *k = &p->pieces.at[piece];
    const uint32_t     *u = weir_refs(p, k->uses);
    const double        out = (double)k->bytes / p->link_out, in = (double)k->bytes / p->link_in;
    const double        end = j < k->uses.n ? a->when[u[j]] : p->time;
    const double        begin = j > 0 ? a->when[u[j - 1]]
                                : k->maker == WEIR_NO_TASK ? 0 : a->when[k->maker];

    if (end - begin > out + in && load + out < 0.45 * p->time)
        return 0.02 * (out + in);
    return out + in;
}

static double code_cost(const weir_problem *p, const weir_piece *k, weir_gap d)
{
    return d == WEIR_MASKED ? (double)(k->bytes + k->mask) / p->codec
                            : 2 * (double)(k->bytes + k->packed) / p->codec;
}

/* The cheapest way to let the piece go in gap j, and its seconds; WEIR_KEEP: there is none. */
weir_gap weir_way_cheapest(weir_searcher *a, uint32_t piece, uint32_t j, double load,
                           double *seconds)
{
    const weir_piece *k = &a->s->p->pieces.at[piece];
    weir_gap          best = WEIR_KEEP;

    *seconds = INFINITY;
    if (weir_way_possible(a, piece, j, WEIR_DROP)) {
        *seconds = weir_drop_cost(a, piece, j);
        best = isinf(*seconds) ? WEIR_KEEP : WEIR_DROP;
    }
    for (weir_gap d = WEIR_SWAP; d <= WEIR_MASKED; d++) {
        if (!weir_way_possible(a, piece, j, d))
            continue;
        const double cost = d == WEIR_SWAP ? swap_cost(a, piece, j, load)
                                           : code_cost(a->s->p, k, d);
        if (cost < *seconds) {
            *seconds = cost;
            best = d;
        }
    }
    return best;
}

/* Has the gap been let go already? Then only once more, for good. */
bool weir_way_gone(const weir_searcher *a, uint32_t gap, uint32_t piece, uint32_t j)
{
    const uint8_t d = a->gap[gap];
    const bool    last = j == a->s->p->pieces.at[piece].uses.n;

    if (weir_piece_resident(a->s->p, piece))
        return d != WEIR_KEEP;
    return d == WEIR_DROP_AGAIN || d == WEIR_SWAP || d == WEIR_CODE || (last && d != WEIR_TAIL);
}
