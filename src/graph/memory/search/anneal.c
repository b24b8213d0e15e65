/* anneal.c - simulated annealing (Kirkpatrick et al. 1983) over the decisions of a plan: flips,
 * mostly around the peak, windows of neighbouring tasks, exchanges. */
#include "graph/memory/search/anneal.h"

#include <math.h>
#include <string.h>

#include "graph/memory/search/candidates.h"

static bool set(weir_searcher *a, uint32_t gap, uint8_t to)
{
    if (a->gap[gap] == to)
        return true;
    if (!weir_vec_push(&a->undo, (uint64_t)gap << 8 | a->gap[gap]))
        return false;
    a->gap[gap] = to;
    return true;
}

static void take_back(weir_searcher *a)
{
    while (a->undo.n > 0) {
        const uint64_t u = a->undo.at[--a->undo.n];
        a->gap[u >> 8] = (uint8_t)(u & 0xff);
    }
}

/* One of the decisions that can be made for gap j of the piece, or the one it has. */
static uint8_t other(weir_searcher *a, uint32_t piece, uint32_t j)
{
    const weir_problem *p = a->s->p;
    const weir_piece   *k = &p->pieces.at[piece];
    const uint8_t       now = a->gap[a->s->room.first_gap[piece] + j];
    const uint32_t      from = j > 0 ? weir_refs(p, k->uses)[j - 1] : k->maker;
    const bool          drop = weir_way_possible(a, piece, j, WEIR_DROP) &&
                      p->tasks.at[k->maker].until > from + 1;
    const uint8_t ways[] = {WEIR_SWAP, WEIR_CODE, WEIR_MASKED};
    uint8_t       can[4], n = 0;

    for (size_t i = 0; i < sizeof ways; i++)
        if (ways[i] != now && weir_way_possible(a, piece, j, (weir_gap)ways[i]))
            can[n++] = ways[i];
    if (n > 0 && (!drop || weir_draw(a) & 1))
        return now != WEIR_KEEP && weir_draw(a) & 1 ? (uint8_t)WEIR_KEEP : can[weir_below(a, n)];
    if (!drop)
        return WEIR_KEEP;
    if (now == WEIR_KEEP)
        return weir_draw(a) & 3 ? WEIR_DROP : WEIR_DROP_AGAIN;
    switch (weir_below(a, 8)) {
    case 0:
        return WEIR_DROP;
    case 1:
        return WEIR_DROP_AGAIN;
    case 2: case 3: case 4:
        return (uint8_t)(WEIR_EARLY + weir_below(a, weir_below(a, 2) ? 8 : UINT8_MAX - WEIR_EARLY));
    default:
        return WEIR_KEEP;
    }
}

/* Another decision for a gap; what cannot be made anew in it is kept. */
static bool flip(weir_searcher *a, uint32_t gap)
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
static bool move_window(weir_searcher *a)
{
    const weir_problem   *p = a->s->p;
    const weir_walk_room *w = &a->s->room;
    const uint32_t        n = p->tasks.n, length = 1 + weir_below(a, weir_draw(a) & 1 ? 6 : 25);
    const uint32_t        from = weir_below(a, n);
    static const uint8_t  ways[] = {WEIR_DROP, WEIR_SWAP, WEIR_CODE, WEIR_MASKED};
    const uint8_t         to = weir_draw(a) & 1 ? (uint8_t)WEIR_KEEP
                               : weir_draw(a) & 1 ? (uint8_t)WEIR_DROP : ways[weir_below(a, 4)];

    for (uint32_t i = from; i < n && i < from + length; i++) {
        const uint32_t *out = weir_refs(p, p->tasks.at[i].out);
        for (uint32_t k = 0; k < p->tasks.at[i].out.n; k++) {
            const weir_piece *piece = &p->pieces.at[out[k]];
            if (piece->uses.n == 0)
                continue;
            const uint32_t gap = longest_gap(w, out[k]);
            const uint32_t j = gap - w->first_gap[out[k]], use = weir_refs(p, piece->uses)[j];
            const bool     can = weir_way_possible(a, out[k], j, (weir_gap)to) &&
                             (to != WEIR_DROP || p->tasks.at[i].until > use);
            if (!set(a, gap, can ? to : WEIR_KEEP))
                return false;
        }
    }
    return true;
}

/* One or a few gaps; half of the time of pieces that are live at the peak. */
static bool move_gaps(weir_searcher *a)
{
    const weir_walk_room *w = &a->s->room;
    const uint32_t        n = 1 + weir_below(a, 3);

    for (uint32_t i = 0; i < n; i++) {
        uint32_t gap = a->worth.at[weir_below(a, a->worth.n)];
        if (weir_draw(a) & 1 && w->s.lives.n > 0) {
            const uint32_t piece = w->s.lives.at[weir_below(a, w->s.lives.n)].piece;
            const uint32_t any = weir_below(a, w->p->pieces.at[piece].uses.n + 1);
            gap = weir_draw(a) & 3 ? longest_gap(w, piece) : w->first_gap[piece] + any;
        }
        if (!flip(a, gap))
            return false;
    }
    return true;
}

/* A drop is exchanged for another one: one piece comes back, another goes. */
static bool move_swap(weir_searcher *a)
{
    const weir_walk_room *w = &a->s->room;
    uint32_t              back = WEIR_NO_PIECE, go = WEIR_NO_PIECE;

    for (uint32_t i = 0; i < 64 && (back == WEIR_NO_PIECE || go == WEIR_NO_PIECE); i++) {
        const uint32_t piece = weir_below(a, w->p->pieces.n);
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

bool weir_search_anneal(weir_searcher *a, uint64_t moves)
{
    enum { ROUNDS = 8 };
    weir_search *s = a->s;
    const double   hot = 1e-2 + 0.5 / (a->s->p->tasks.n + 1.0), cold = 1e-5;   /* of the step */
    const uint64_t round = moves / ROUNDS + 1;
    double         now = 0;

    for (uint64_t m = 0; m < moves; m++) {
        if ((m % a->every == 0 || m % round == 0) && !weir_search_settle(a))
            return false;
        if (m % round == 0) {           /* each round begins at the best plan, a little colder */
            memcpy(a->gap, a->best.gap, s->room.gaps);
            if (!weir_search_walk(a))
                return false;
            now = weir_search_objective(a);
        }
        const double   warm = hot / (1.0 + (double)(m / round));
        const double   temperature = warm * pow(cold / warm, (double)(m % round) / (double)round);
        const uint32_t kind = weir_below(a, 10);
        a->undo.n = 0;
        if (!(kind < 2 ? move_window(a) : kind < 4 ? move_swap(a) : move_gaps(a)))
            return false;
        if (a->undo.n == 0)
            continue;
        if (!weir_search_walk(a))
            return false;
        const double then = weir_search_objective(a);
        if (then <= now || weir_unit(a) < exp((now - then) / temperature)) {
            now = then;
            if (!weir_search_note_later(a))
                return false;
        } else {
            take_back(a);
        }
    }
    return weir_search_settle(a);
}
