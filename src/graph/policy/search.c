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
#include "graph/policy/mincut.h"

/* Weight of bytes above the budget (relative to it) against extra time (relative to the step's). */
#define EXCESS_WEIGHT 20.0

typedef struct weir_candidate {
    double   score;
    uint32_t gap, piece;
} weir_candidate;

typedef struct weir_anneal {
    weir_search *s;
    uint8_t     *gap;           /* [gaps] the plan at hand */
    uint32_t    *piece_of;      /* [gaps] */
    uint32_t    *stamp;         /* [pieces] the call that counted it */
    uint32_t     call;
    uint64_t     random;
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

    return j == k->uses.n ? d == WEIR_TAIL || k->output : d == WEIR_KEEP;
}

/* Seconds to make the piece anew just before `stage`; INFINITY where that is wrong by then. */
static double closure_cost(weir_anneal *a, uint32_t piece, uint32_t stage, int depth)
{
    enum { DEEPEST = 200 };
    const weir_problem *p = a->s->p;
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

/* Gaps of pieces that lie idle across the peak, best first. */
static bool collect(weir_anneal *a, double power)
{
    const weir_search    *s = a->s;
    const weir_walk_room *w = &s->room;
    const uint32_t        e = w->peak_event, stage = weir_walk_stage(w, e);
    const double          excess = (double)(w->peak - s->budget);

    a->candidates.n = 0;
    for (uint32_t i = 0; i < w->lives.n; i++) {
        const weir_life l = w->lives.at[i];
        if (l.first > e || l.last < e || touches(s->p, w->events.at[e].task, l.piece) ||
            s->p->pieces.at[l.piece].bytes == 0)
            continue;
        const uint32_t j = gap_at(s->p, l.piece, stage);
        const uint32_t gap = w->first_gap[l.piece] + j;
        if (a->gap[gap] == WEIR_DROP_AGAIN ||
            (j == s->p->pieces.at[l.piece].uses.n && a->gap[gap] != WEIR_TAIL))
            continue;
        const double cost = drop_cost(a, l.piece, j);
        if (isinf(cost))
            continue;
        const double bytes = fmin((double)s->p->pieces.at[l.piece].bytes, 2 * excess);
        if (!weir_vec_push(&a->candidates, (weir_candidate){pow(bytes, power) / (cost + 1e-12), gap,
                                                           l.piece}))
            return false;
    }
    if (a->candidates.n)
        qsort(a->candidates.at, a->candidates.n, sizeof *a->candidates.at, by_score);
    return true;
}

static uint8_t lower(const weir_anneal *a, uint32_t gap)
{
    const uint32_t piece = a->piece_of[gap];
    if (gap + 1 == a->s->room.first_gap[piece + 1])
        return WEIR_KEEP;               /* behind the last use: no tail any more */
    return a->gap[gap] == WEIR_KEEP || a->gap[gap] >= WEIR_EARLY ? WEIR_DROP : WEIR_DROP_AGAIN;
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
            a->gap[c.gap] = lower(a, c.gap);
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
        const double   cost = drop_cost(a, piece, g - s->room.first_gap[piece]);
        if (!weir_vec_push(&a->candidates, (weir_candidate){cost, g, piece}))
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

/* Another decision for a gap; what cannot be made anew in it is kept. */
static bool flip(weir_anneal *a, uint32_t gap)
{
    const weir_problem *p = a->s->p;
    const uint32_t      piece = a->piece_of[gap], j = gap - a->s->room.first_gap[piece];
    const weir_piece   *k = &p->pieces.at[piece];

    if (k->bytes == 0)
        return true;
    if (j == k->uses.n)
        return set(a, gap, a->gap[gap] == WEIR_TAIL ? WEIR_KEEP : WEIR_TAIL);
    const uint32_t from = j > 0 ? weir_refs(p, k->uses)[j - 1] : k->maker;
    if (p->tasks.at[k->maker].until <= from + 1)
        return set(a, gap, WEIR_KEEP);
    if (a->gap[gap] == WEIR_KEEP)
        return set(a, gap, draw(a) & 3 ? WEIR_DROP : WEIR_DROP_AGAIN);
    switch (below(a, 8)) {
    case 0:
        return set(a, gap, WEIR_DROP);
    case 1:
        return set(a, gap, WEIR_DROP_AGAIN);
    case 2: case 3: case 4: {
        const uint32_t reach = below(a, 2) ? 8 : UINT8_MAX - WEIR_EARLY;
        return set(a, gap, (uint8_t)(WEIR_EARLY + below(a, reach)));
    }
    default:
        return set(a, gap, WEIR_KEEP);
    }
}

/* Longest gap of the piece, the one that usually spans forward and backward. */
static uint32_t longest_gap(const weir_walk_room *w, uint32_t piece)
{
    const weir_piece *k = &w->p->pieces.at[piece];
    const uint32_t   *u = weir_refs(w->p, k->uses);
    uint32_t          best = 0, from = k->maker, length = 0;

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
    const uint8_t         to = draw(a) & 1 ? WEIR_KEEP : WEIR_DROP;

    for (uint32_t i = from; i < n && i < from + length; i++) {
        const uint32_t *out = weir_refs(p, p->tasks.at[i].out);
        for (uint32_t k = 0; k < p->tasks.at[i].out.n; k++) {
            const weir_piece *piece = &p->pieces.at[out[k]];
            if (piece->uses.n == 0)
                continue;
            const uint32_t gap = longest_gap(w, out[k]);
            const uint32_t use = weir_refs(p, piece->uses)[gap - w->first_gap[out[k]]];
            if (!set(a, gap, p->tasks.at[i].until <= use ? WEIR_KEEP : to))
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
        if (draw(a) & 1 && w->lives.n > 0) {
            const uint32_t piece = w->lives.at[below(a, w->lives.n)].piece;
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

/* The minimal cut as a start; what does not fit elsewhere in the step is dropped greedily. */
static bool start_at_cut(weir_anneal *a)
{
    weir_search *s = a->s;

    return weir_mincut(&s->room, s->budget, 0, a->gap) == WEIR_OK && greedy(a, 1.0) &&
           (!s->room.valid || s->room.peak > s->budget || restore(a));
}

/* The plan of that ratio, whether it fits or not. */
static bool take_ratio(weir_anneal *a, double ratio)
{
    if (weir_mincut(&a->s->room, a->s->budget, ratio, a->gap) != WEIR_OK)
        return false;
    note_best(a);
    return true;
}

static bool run(weir_anneal *a)
{
    static const double powers[] = {0.7, 1.0, 1.4};
    weir_search        *s = a->s;
    double              ratio;

    if (weir_mincut_parse(s->policy, &ratio))
        return ratio > 0 ? take_ratio(a, ratio) : start_at_cut(a);
    for (size_t i = 0; i < sizeof powers / sizeof powers[0]; i++) {
        memset(a->gap, WEIR_KEEP, s->room.gaps);
        if (!greedy(a, powers[i]))
            return false;
        if (i == 0 && s->best_extra == 0 && s->best_peak <= s->budget)
            return true;                /* everything fits as it is */
        if (s->room.valid && s->room.peak <= s->budget && !restore(a))
            return false;
    }
    return start_at_cut(a) && anneal(a);
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
        ok = s->best && a.gap && a.piece_of && a.stamp;
    }
    if (ok) {
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
