/* search.c - greedy construction, restoration and simulated annealing over walk.h's decisions.
 *
 * Greedy: while the peak is too high, of the pieces that lie idle across it those go that save most
 * bytes for the time it takes to make them anew (the ratio of Capuchin, Peng et al. 2020, and of
 * DTR, Kirisame et al. 2021, but counted to the end of the gap and knowing the future). Restored:
 * the dearest drops are taken back where the peak allows it. Annealing (Kirkpatrick et al. 1983)
 * flips decisions, mostly around the peak and in windows of neighbouring tasks, from the best of
 * the greedy plans. */
#include "graph/policy/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/status.h"

/* Weight of bytes above the budget (relative to it) against extra time (relative to the step's). */
#define EXCESS_WEIGHT 20.0

typedef struct weir_candidate {
    double   score;
    uint32_t gap, piece;
    uint8_t  to;                /* decision */
} weir_candidate;

typedef struct weir_anneal {
    weir_search *s;
    uint8_t     *gap;           /* [gaps] the plan at hand */
    uint32_t    *piece_of;      /* [gaps] */
    uint32_t    *stamp;         /* [pieces] the call that counted it */
    uint32_t     call;
    uint64_t     random;
    double      *when;          /* [tasks + 1] seconds before each, all first runs */
    WEIR_VEC(weir_candidate) candidates;
    WEIR_VEC(uint64_t) undo;    /* gap << 8 | decision it had */
} weir_anneal;

static uint64_t draw(weir_anneal *a)
{
    uint64_t z = (a->random += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static uint32_t below(weir_anneal *a, uint32_t n)
{
    return (uint32_t)(((draw(a) >> 32) * n) >> 32);
}

static double unit(weir_anneal *a)
{
    return (double)(draw(a) >> 11) * 0x1p-53;
}

/* Number of uses of the piece before task `stage`: the gap that covers it. */
static uint32_t gap_at(const weir_problem *p, uint32_t piece, uint32_t stage)
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
static bool held_at(const weir_anneal *a, uint32_t piece, uint32_t stage)
{
    const weir_walk_room *w = &a->s->room;
    const weir_piece     *k = &a->s->p->pieces.at[piece];
    const uint32_t        j = gap_at(a->s->p, piece, stage);
    const uint8_t         d = a->gap[w->first_gap[piece] + j];

    if (k->maker == WEIR_NO_TASK || (j < k->uses.n && (d == WEIR_SWAP || d == WEIR_CODE)))
        return true;                    /* it comes back without a run */
    return j == k->uses.n ? d == WEIR_TAIL || k->output : d == WEIR_KEEP;
}

/* Seconds to make the piece anew just before `stage`; INFINITY where that is wrong by then. */
static double closure_cost(weir_anneal *a, uint32_t piece, uint32_t stage, int depth)
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

static double drop_cost(weir_anneal *a, uint32_t piece, uint32_t gap_number)
{
    const weir_problem *p = a->s->p;
    const weir_range    uses = p->pieces.at[piece].uses;

    if (gap_number == uses.n)
        return 0;
    a->call++;
    return closure_cost(a, piece, weir_refs(p, uses)[gap_number], 0);
}

static bool walk(weir_anneal *a)
{
    return weir_walk(&a->s->room, a->gap);
}

static double objective(const weir_search *s)
{
    if (!s->room.valid)
        return INFINITY;
    const double over = s->room.peak > s->budget ? (double)(s->room.peak - s->budget) : 0;
    return s->room.extra / (s->p->time + 1e-30) +
           EXCESS_WEIGHT * over / ((double)s->budget + 1);
}

/* Remembers the plan at hand if it is the best so far: within the budget first, then by time. */
static void note_best(weir_anneal *a)
{
    weir_search *s = a->s;
    const bool   fits = s->room.valid && s->room.peak <= s->budget;
    const bool   best_fits = isfinite(s->best_extra) && s->best_peak <= s->budget;

    if (!s->room.valid || (best_fits && (!fits || s->room.extra >= s->best_extra)) ||
        (!best_fits && !fits && s->room.peak >= s->best_peak))
        return;
    memcpy(s->best, a->gap, s->room.gaps);
    s->best_peak = s->room.peak;
    s->best_extra = s->room.extra;
}

/* ---- greedy ---- */

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

static bool lever(const weir_anneal *a, weir_lever l)
{
    return !a->s->levers || a->s->levers & l;
}

/* Can the decision be made for gap j of the piece at all, and is it allowed? */
static bool possible(const weir_anneal *a, uint32_t piece, uint32_t j, weir_gap d)
{
    const weir_problem *p = a->s->p;
    const weir_piece   *k = &p->pieces.at[piece];

    switch (d) {
    case WEIR_KEEP:
        return true;
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
static double link_load(const weir_anneal *a)
{
    const weir_schedule *s = &a->s->room.s;
    double               sum = 0;

    for (uint32_t e = 0; s->copies && e < s->events.n; e++)
        if (s->events.at[e].act == WEIR_OUT)
            sum += weir_event_seconds(s->p, &s->events.at[e]);
    return sum;
}

/* About what it costs to swap the piece out over gap j: little while the link is idle. */
static double swap_cost(const weir_anneal *a, uint32_t piece, uint32_t j, double load)
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
static weir_gap cheapest(weir_anneal *a, uint32_t piece, uint32_t j, double load, double *seconds)
{
    const weir_piece *k = &a->s->p->pieces.at[piece];
    weir_gap          best = WEIR_KEEP;

    *seconds = INFINITY;
    if (possible(a, piece, j, WEIR_DROP)) {
        *seconds = drop_cost(a, piece, j);
        best = isinf(*seconds) ? WEIR_KEEP : WEIR_DROP;
    }
    for (weir_gap d = WEIR_SWAP; d <= WEIR_MASKED; d++) {
        if (!possible(a, piece, j, d))
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
static bool gone(const weir_anneal *a, uint32_t gap, uint32_t piece, uint32_t j)
{
    const uint8_t d = a->gap[gap];
    const bool    last = j == a->s->p->pieces.at[piece].uses.n;

    if (weir_piece_resident(a->s->p, piece))
        return d != WEIR_KEEP;
    return d == WEIR_DROP_AGAIN || d == WEIR_SWAP || d == WEIR_CODE || (last && d != WEIR_TAIL);
}

/* Gaps of pieces that lie idle across the peak, best first. */
static bool collect(weir_anneal *a, double power)
{
    const weir_search    *s = a->s;
    const weir_walk_room *w = &s->room;
    const uint32_t        e = w->peak_event, stage = weir_walk_stage(w, e);
    const double          excess = (double)(w->peak - s->budget), load = link_load(a);

    a->candidates.n = 0;
    for (uint32_t i = 0; i < w->s.lives.n; i++) {
        const weir_life l = w->s.lives.at[i];
        if (l.first > e || l.last < e || l.form != WEIR_PLAIN ||
            (w->s.events.at[e].act == WEIR_RUN && touches(s->p, w->s.events.at[e].what, l.piece)) ||
            s->p->pieces.at[l.piece].bytes == 0)
            continue;
        const uint32_t j = gap_at(s->p, l.piece, stage), gap = w->first_gap[l.piece] + j;
        if (gone(a, gap, l.piece, j))
            continue;
        double         cost = 0;
        const bool     tail = j == s->p->pieces.at[l.piece].uses.n && a->gap[gap] == WEIR_TAIL;
        const weir_gap way = tail ? WEIR_DROP_AGAIN : cheapest(a, l.piece, j, load, &cost);
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
static void let_go(weir_anneal *a, const weir_candidate *c)
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
static bool greedy(weir_anneal *a, double power)
{
    weir_search *s = a->s;
    const size_t rounds = 4 * (size_t)s->room.gaps + 16;

    for (size_t r = 0; r < rounds; r++) {
        if (!walk(a))
            return false;
        note_best(a);
        if (!s->room.valid || s->room.peak <= s->budget)
            return true;
        if (!collect(a, power))
            return false;
        double left = 0.3 * (double)(s->room.peak - s->budget);
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

/* ---- restoration ---- */

/* Takes drops back, the dearest first, while the budget holds. */
static bool restore(weir_anneal *a)
{
    weir_search *s = a->s;

    a->candidates.n = 0;
    for (uint32_t g = 0; g < s->room.gaps; g++) {
        if (a->gap[g] == WEIR_KEEP || a->gap[g] == WEIR_TAIL)
            continue;
        const uint32_t piece = a->piece_of[g];
        const double   cost = fmin(drop_cost(a, piece, g - s->room.first_gap[piece]), 1e30);
        if (!weir_vec_push(&a->candidates, (weir_candidate){cost, g, piece, 0}))
            return false;
    }
    if (a->candidates.n)
        qsort(a->candidates.at, a->candidates.n, sizeof *a->candidates.at, by_score);
    if (!walk(a))
        return false;
    double extra = s->room.extra;
    for (uint32_t i = 0; i < a->candidates.n; i++) {
        const uint32_t g = a->candidates.at[i].gap;
        const uint8_t  was = a->gap[g];
        a->gap[g] = WEIR_KEEP;
        if (!walk(a))
            return false;
        if (s->room.valid && s->room.peak <= s->budget && s->room.extra <= extra) {
            extra = s->room.extra;
            note_best(a);
        } else {
            a->gap[g] = was;
        }
    }
    return true;
}

/* ---- annealing ---- */

static bool set(weir_anneal *a, uint32_t gap, uint8_t to)
{
    if (a->gap[gap] == to)
        return true;
    if (!weir_vec_push(&a->undo, (uint64_t)gap << 8 | a->gap[gap]))
        return false;
    a->gap[gap] = to;
    return true;
}

static void take_back(weir_anneal *a)
{
    while (a->undo.n > 0) {
        const uint64_t u = a->undo.at[--a->undo.n];
        a->gap[u >> 8] = (uint8_t)(u & 0xff);
    }
}

/* One of the decisions that can be made for gap j of the piece, or the one it has. */
static uint8_t other(weir_anneal *a, uint32_t piece, uint32_t j)
{
    const weir_problem *p = a->s->p;
    const weir_piece   *k = &p->pieces.at[piece];
    const uint8_t       now = a->gap[a->s->room.first_gap[piece] + j];
    const uint32_t      from = j > 0 ? weir_refs(p, k->uses)[j - 1] : k->maker;
    const bool          drop = possible(a, piece, j, WEIR_DROP) &&
                      p->tasks.at[k->maker].until > from + 1;
    const uint8_t ways[] = {WEIR_SWAP, WEIR_CODE, WEIR_MASKED};
    uint8_t       can[4], n = 0;

    for (size_t i = 0; i < sizeof ways; i++)
        if (ways[i] != now && possible(a, piece, j, (weir_gap)ways[i]))
            can[n++] = ways[i];
    if (n > 0 && (!drop || draw(a) & 1))
        return now != WEIR_KEEP && draw(a) & 1 ? (uint8_t)WEIR_KEEP : can[below(a, n)];
    if (!drop)
        return WEIR_KEEP;
    if (now == WEIR_KEEP)
        return draw(a) & 3 ? WEIR_DROP : WEIR_DROP_AGAIN;
    switch (below(a, 8)) {
    case 0:
        return WEIR_DROP;
    case 1:
        return WEIR_DROP_AGAIN;
    case 2: case 3: case 4:
        return (uint8_t)(WEIR_EARLY + below(a, below(a, 2) ? 8 : UINT8_MAX - WEIR_EARLY));
    default:
        return WEIR_KEEP;
    }
}

/* Another decision for a gap; what cannot be made anew in it is kept. */
static bool flip(weir_anneal *a, uint32_t gap)
{
    const uint32_t    piece = a->piece_of[gap], first = a->s->room.first_gap[piece];
    const weir_piece *k = &a->s->p->pieces.at[piece];
    const uint32_t    j = gap - first;

    if (k->bytes == 0)
        return true;
    if (k->maker == WEIR_NO_TASK) {
        const uint8_t to = other(a, piece, j == k->uses.n ? 0 : j);
        return set(a, j == k->uses.n ? first : gap, to) &&
               (to != WEIR_SWAP || set(a, first, WEIR_SWAP));
    }
    if (j == k->uses.n)
        return set(a, gap, a->gap[gap] == WEIR_TAIL ? WEIR_KEEP : WEIR_TAIL);
    return set(a, gap, other(a, piece, j));
}

/* Longest gap of the piece, the one that usually spans forward and backward. */
static uint32_t longest_gap(const weir_walk_room *w, uint32_t piece)
{
    const weir_piece *k = &w->p->pieces.at[piece];
    const uint32_t   *u = weir_refs(w->p, k->uses);
    uint32_t          best = 0, from = k->maker == WEIR_NO_TASK ? 0 : k->maker, length = 0;

    for (uint32_t j = 0; j < k->uses.n; from = u[j++])
        if (u[j] - from > length) {
            length = u[j] - from;
            best = j;
        }
    return w->first_gap[piece] + best;
}

/* All pieces made by a few neighbouring tasks get one decision in their longest gap. */
static bool move_window(weir_anneal *a)
{
    const weir_problem   *p = a->s->p;
    const weir_walk_room *w = &a->s->room;
    const uint32_t        n = p->tasks.n, length = 1 + below(a, draw(a) & 1 ? 6 : 25);
    const uint32_t        from = below(a, n);
    static const uint8_t  ways[] = {WEIR_DROP, WEIR_SWAP, WEIR_CODE, WEIR_MASKED};
    const uint8_t         to = draw(a) & 1 ? (uint8_t)WEIR_KEEP : ways[draw(a) & 1 ? 0 : below(a, 4)];

    for (uint32_t i = from; i < n && i < from + length; i++) {
        const uint32_t *out = weir_refs(p, p->tasks.at[i].out);
        for (uint32_t k = 0; k < p->tasks.at[i].out.n; k++) {
            const weir_piece *piece = &p->pieces.at[out[k]];
            if (piece->uses.n == 0)
                continue;
            const uint32_t gap = longest_gap(w, out[k]);
            const uint32_t j = gap - w->first_gap[out[k]], use = weir_refs(p, piece->uses)[j];
            const bool     can = possible(a, out[k], j, (weir_gap)to) &&
                             (to != WEIR_DROP || p->tasks.at[i].until > use);
            if (!set(a, gap, can ? to : WEIR_KEEP))
                return false;
        }
    }
    return true;
}

/* One or a few gaps; half of the time of pieces that are live at the peak. */
static bool move_gaps(weir_anneal *a)
{
    const weir_walk_room *w = &a->s->room;
    const uint32_t        n = 1 + below(a, 3);

    for (uint32_t i = 0; i < n; i++) {
        uint32_t gap = below(a, w->gaps);
        if (draw(a) & 1 && w->s.lives.n > 0) {
            const uint32_t piece = w->s.lives.at[below(a, w->s.lives.n)].piece;
            gap = draw(a) & 3 ? longest_gap(w, piece)
                              : w->first_gap[piece] + below(a, w->p->pieces.at[piece].uses.n + 1);
        }
        if (!flip(a, gap))
            return false;
    }
    return true;
}

/* A drop is exchanged for another one: one piece comes back, another goes. */
static bool move_swap(weir_anneal *a)
{
    const weir_walk_room *w = &a->s->room;
    uint32_t              back = WEIR_NO_PIECE, go = WEIR_NO_PIECE;

    for (uint32_t i = 0; i < 64 && (back == WEIR_NO_PIECE || go == WEIR_NO_PIECE); i++) {
        const uint32_t piece = below(a, w->p->pieces.n);
        if (w->p->pieces.at[piece].uses.n == 0)
            continue;
        const uint32_t gap = longest_gap(w, piece);
        if (a->gap[gap] == WEIR_KEEP)
            go = gap;
        else
            back = gap;
    }
    return (back == WEIR_NO_PIECE || set(a, back, WEIR_KEEP)) &&
           (go == WEIR_NO_PIECE || flip(a, go));
}

static bool anneal(weir_anneal *a)
{
    enum { ROUNDS = 8 };
    weir_search *s = a->s;
    const double   hot = 1e-2 + 0.5 / (a->s->p->tasks.n + 1.0), cold = 1e-5;   /* of the step */
    const uint64_t round = s->moves / ROUNDS + 1;
    double         now = 0;

    for (uint64_t m = 0; m < s->moves; m++) {
        if (m % round == 0) {           /* each round begins at the best plan, a little colder */
            memcpy(a->gap, s->best, s->room.gaps);
            if (!walk(a))
                return false;
            now = objective(s);
        }
        const double   warm = hot / (1.0 + (double)(m / round));
        const double   temperature = warm * pow(cold / warm, (double)(m % round) / (double)round);
        const uint32_t kind = below(a, 10);
        a->undo.n = 0;
        if (!(kind < 2 ? move_window(a) : kind < 4 ? move_swap(a) : move_gaps(a)))
            return false;
        if (a->undo.n == 0)
            continue;
        if (!walk(a))
            return false;
        const double then = objective(s);
        if (then <= now || unit(a) < exp((now - then) / temperature)) {
            now = then;
            note_best(a);
        } else {
            take_back(a);
        }
    }
    return true;
}

/* ---- all together ---- */

static bool run(weir_anneal *a)
{
    static const double powers[] = {0.7, 1.0, 1.4};
    weir_search        *s = a->s;

    for (size_t i = 0; i < sizeof powers / sizeof powers[0]; i++) {
        memset(a->gap, WEIR_KEEP, s->room.gaps);
        if (!greedy(a, powers[i]))
            return false;
        if (i == 0 && s->best_extra == 0 && s->best_peak <= s->budget)
            return true;                /* everything fits as it is */
        if (s->room.valid && s->room.peak <= s->budget && !restore(a))
            return false;
    }
    return anneal(a);
}

weir_status weir_search_run(weir_search *s)
{
    weir_anneal a = {.s = s, .random = 1};
    bool        ok = weir_walk_init(&s->room, s->p);

    if (ok) {
        const size_t gaps = s->room.gaps + 1u, pieces = s->p->pieces.n + 1u;
        s->best = weir_mem_zalloc(gaps, 1);
        a.gap = weir_mem_zalloc(gaps, 1);
        a.piece_of = weir_mem_alloc(gaps * sizeof *a.piece_of);
        a.stamp = weir_mem_zalloc(pieces, sizeof *a.stamp);
        a.when = weir_mem_alloc((s->p->tasks.n + 1u) * sizeof *a.when);
        ok = s->best && a.gap && a.piece_of && a.stamp && a.when;
    }
    if (ok) {
        double when = 0;
        for (uint32_t i = 0; i < s->p->tasks.n; when += s->p->tasks.at[i++].time)
            a.when[i] = when;
        s->room.budget = s->budget;
        for (uint32_t k = 0; k < s->p->pieces.n; k++)
            for (uint32_t g = s->room.first_gap[k]; g < s->room.first_gap[k + 1]; g++)
                a.piece_of[g] = k;
        s->best_peak = SIZE_MAX;
        s->best_extra = INFINITY;
        ok = run(&a) && weir_walk(&s->room, s->best);
    }
    weir_mem_free(a.gap);
    weir_mem_free(a.piece_of);
    weir_mem_free(a.stamp);
    weir_mem_free(a.when);
    weir_vec_free(&a.candidates);
    weir_vec_free(&a.undo);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}

void weir_search_free(weir_search *s)
{
    weir_walk_free(&s->room);
    weir_mem_free(s->best);
    s->best = NULL;
}
