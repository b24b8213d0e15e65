/* branch.c - one node of the exact search: which section is next, what can lie there.
 *
 * The frame is that of Moffitt, MiniMalloc, and of Maas et al., TelaMalloc (both ASPLOS 2023):
 * only canonical placements (each item lies at 0 or on another one), so all that is placed in a
 * section lies below a floor and all that is not above it; a section is dead when floor + bytes
 * still to come exceed the height; runs of sections that nothing left crosses are solved apart.
 *
 * The branching asks which item comes next in one section, at its floor: each that fits, or none -
 * then the floor rises to the lowest place where any of its items can lie. That is complete for
 * sections none of whose items reaches down to a lower floor, and its cases exclude each other. Of
 * these sections the one with the fewest cases is taken, or the lowest; one case is no choice, none
 * a dead end. Exchangeable items are tried once. What has been proven dead - floors and items left
 * of a run - is remembered by a 64-bit hash, so orders of one pile are not tried one after the
 * other. */
#include <math.h>

#include "graph/place/exact.h"

/* A section where the search branches: an item comes at its floor, or the floor rises. */
typedef struct weir_fork {
    uint32_t section;
    int64_t  floor, above;      /* above: INT64_MAX if no room is left over */
} weir_fork;

#define NOTHING UINT32_MAX      /* among the cases: no item at the floor */

/* ---- state ---- */

static bool set_floor(weir_exact *x, uint32_t section, int64_t floor)
{
    if (!weir_vec_push(&x->undo, (weir_undo){section, x->floor[section]})) {
        x->short_of_memory = true;
        return false;
    }
    x->floor[section] = floor;
    return true;
}

static bool put(weir_exact *x, uint32_t i, int64_t offset)
{
    const weir_place_span *v = &x->s.span[i];

    if (!weir_vec_push(&x->placed, i)) {
        x->short_of_memory = true;
        return false;
    }
    x->at[i] = offset;
    for (uint32_t s = v->a; s < v->b; s++)
        x->total[s] -= v->bytes;
    for (uint32_t s = v->a; s < v->b; s++)
        if (!set_floor(x, s, offset + v->bytes))
            return false;
    return true;
}

static void take_back(weir_exact *x, uint32_t placed, uint32_t undo)
{
    while (x->placed.n > placed) {
        const uint32_t   i = x->placed.at[--x->placed.n];
        const weir_place_span *v = &x->s.span[i];
        x->at[i] = -1;
        for (uint32_t s = v->a; s < v->b; s++)
            x->total[s] += v->bytes;
    }
    while (x->undo.n > undo) {
        const weir_undo u = x->undo.at[--x->undo.n];
        x->floor[u.section] = u.floor;
    }
}

/* ---- one node ---- */

/* Floors rise to the lowest place of any item; false: a section has no room left. */
static bool raise_floors(weir_exact *x, uint32_t lo, uint32_t hi)
{
    const uint32_t end = x->s.from[hi];

    for (uint32_t s = lo; s < hi; s++)
        x->view[s] = (weir_view){.floor = INT64_MAX, .gap = INT64_MAX};
    x->least = INT64_MAX;
    for (uint32_t i = x->s.from[lo]; i < end; i++) {
        const weir_place_span *v = &x->s.span[i];
        if (x->at[i] >= 0)
            continue;
        int64_t high = 0;
        x->least = v->bytes < x->least ? v->bytes : x->least;
        for (uint32_t s = v->a; s < v->b; s++)
            high = x->floor[s] > high ? x->floor[s] : high;
        x->high[i] = high;
        for (uint32_t s = v->a; s < v->b; s++)
            x->view[s].floor = high < x->view[s].floor ? high : x->view[s].floor;
    }
    for (uint32_t s = lo; s < hi; s++)
        if (x->total[s] > 0) {
            if (x->view[s].floor + x->total[s] > x->cap)
                return false;
            if (x->view[s].floor > x->floor[s] && !set_floor(x, s, x->view[s].floor))
                return false;
        }
    return true;
}

static void count_cases(weir_exact *x, uint32_t lo, uint32_t hi)
{
    for (uint32_t i = x->s.from[lo], end = x->s.from[hi]; i < end; i++) {
        const weir_place_span *v = &x->s.span[i];
        if (x->at[i] >= 0)
            continue;
        const int64_t high = x->high[i];
        int64_t       low = high;
        for (uint32_t s = v->a; s < v->b; s++)
            low = x->floor[s] < low ? x->floor[s] : low;
        for (uint32_t s = v->a; s < v->b; s++) {
            weir_view    *w = &x->view[s];
            const int64_t gap = high - x->floor[s];
            w->closed = w->closed || low < x->floor[s];
            w->cases += gap == 0;
            w->gap = gap > 0 && gap < w->gap ? gap : w->gap;
        }
    }
}

/* The open section with the fewest cases, of equal ones the lowest; or, unless there is one without
 * a choice, the lowest section, of equal ones that with the least room. The first finds dead ends
 * soon where there is no room to spare, the second leaves nothing behind where there is some. The
 * lowest of all is open. */
static uint32_t pick(const weir_exact *x, uint32_t lo, uint32_t hi)
{
    uint32_t best = hi;
    uint64_t best_cases = UINT64_MAX;
    int64_t  best_floor = 0, best_room = 0;

    for (uint32_t s = lo; s < hi; s++) {
        const weir_view *w = &x->view[s];
        if (x->total[s] == 0 || w->closed)
            continue;
        const int64_t  rise = w->gap < x->least ? w->gap : x->least;
        const int64_t  room = x->cap - x->floor[s] - x->total[s];
        const uint64_t all = w->cases + (room >= rise ? 1u : 0u);
        const uint64_t cases = x->lowest && all > 2 ? 2 : all;
        if (cases < best_cases ||
            (cases == best_cases && (x->floor[s] < best_floor ||
                                     (x->floor[s] == best_floor && room < best_room)))) {
            best = s;
            best_cases = cases;
            best_floor = x->floor[s];
            best_room = room;
        }
    }
    return best;
}

static uint64_t hash_of(const weir_exact *x, uint32_t lo, uint32_t hi)
{
    uint64_t h = (uint64_t)x->cap;

    for (uint32_t i = x->s.from[lo], end = x->s.from[hi]; i < end; i++)
        if (x->at[i] < 0)
            h += weir_exact_mix(x->s.span[i].kind * 0x9e3779b97f4a7c15u + 1);
    for (uint32_t s = lo; s < hi; s++)
        if (x->total[s] > 0)
            h += weir_exact_mix((uint64_t)x->floor[s] * 0xd1342543de82ef95u +
                                weir_exact_mix(s + 0x5851f42d4c957f2du));
    return h ? h : 1;
}

/* Where section s goes on if nothing lies at its floor: an item without anything below it that is
 * placed lies on one that is not. */
static int64_t floor_above(weir_exact *x, uint32_t lo, uint32_t hi, uint32_t section)
{
    const uint32_t first = x->s.from[lo], end = x->s.from[hi];
    int64_t        above = INT64_MAX;

    for (uint32_t s = lo; s < hi; s++)
        x->view[s].next = x->view[s].second = INT64_MAX;
    for (uint32_t i = first; i < end; i++) {
        const weir_place_span *v = &x->s.span[i];
        if (x->at[i] >= 0)
            continue;
        const int64_t top = x->high[i] + v->bytes;
        for (uint32_t s = v->a; s < v->b; s++) {
            weir_view *w = &x->view[s];
            if (top < w->next) {
                w->second = w->next;
                w->next = top;
                w->who = i;
            } else if (top < w->second) {
                w->second = top;
            }
        }
    }
    for (uint32_t i = first; i < end && x->s.span[i].a <= section; i++) {
        const weir_place_span *v = &x->s.span[i];
        if (x->at[i] >= 0 || v->b <= section)
            continue;
        int64_t place = x->high[i] > x->floor[section] ? x->high[i] : INT64_MAX;
        if (place == INT64_MAX)
            for (uint32_t s = v->a; s < v->b; s++) {
                const weir_view *w = &x->view[s];
                const int64_t    top = w->who == i ? w->second : w->next;
                place = top < place ? top : place;
            }
        above = place < above ? place : above;
    }
    return above;
}

static bool push_case(weir_exact *x, uint32_t i)
{
    const bool ok = weir_vec_push(&x->cases, i);
    x->short_of_memory = x->short_of_memory || !ok;
    return ok;
}

/* Pushes the items that can lie at the floor, the best first, then that nothing does. */
static bool list_cases(weir_exact *x, uint32_t lo, weir_fork f)
{
    const uint32_t base = x->cases.n;

    for (uint32_t i = x->s.from[lo]; i < x->s.from[f.section + 1]; i++) {
        if (x->at[i] >= 0 || x->s.span[i].b <= f.section || x->high[i] != f.floor)
            continue;
        if (!push_case(x, i))
            return false;
        uint32_t k = x->cases.n - 1;
        for (; k > base; k--) {
            const uint32_t before = x->cases.at[k - 1];
            if (x->rank[before] >= x->rank[i])
                break;
            x->cases.at[k] = before;
        }
        x->cases.at[k] = i;
    }
    const bool room = f.above != INT64_MAX && f.above + x->total[f.section] <= x->cap;
    return !room || push_case(x, NOTHING);
}

static bool make_case(weir_exact *x, uint32_t i, weir_fork f)
{
    return i == NOTHING ? set_floor(x, f.section, f.above) : put(x, i, f.floor);
}

/* Room that a case, which has been made, costs the sections of [lo, hi), in parts of what they had;
 * infinite: it is a dead end. */
static double loss_of(weir_exact *x, uint32_t lo, uint32_t hi)
{
    double loss = 0;

    if (!raise_floors(x, lo, hi))
        return HUGE_VAL;
    for (uint32_t s = lo; s < hi; s++) {
        const int64_t room = x->cap - x->floor[s] - x->total[s];
        if (x->total[s] > 0 && room < x->room[s])
            loss += (double)(x->room[s] - room) / (double)(x->room[s] + 1);
    }
    return loss;
}

/* Makes each case from `base` on, leaves dead ends out and sorts the others by what they cost. */
static bool look_ahead(weir_exact *x, uint32_t lo, uint32_t hi, weir_fork f, uint32_t base)
{
    const uint32_t placed = x->placed.n, undo = x->undo.n;
    uint32_t      *at = x->cases.at + base, kept = 0;

    for (uint32_t s = lo; s < hi; s++)
        x->room[s] = x->cap - x->floor[s] - x->total[s];
    for (uint32_t c = 0; c < x->cases.n - base; c++) {
        const uint32_t i = at[c];
        const double   loss = make_case(x, i, f) ? loss_of(x, lo, hi) : HUGE_VAL;
        take_back(x, placed, undo);
        if (loss == HUGE_VAL)
            continue;
        uint32_t k = kept++;
        for (; k > 0 && x->loss[k - 1] > loss; k--) {
            x->loss[k] = x->loss[k - 1];
            at[k] = at[k - 1];
        }
        x->loss[k] = loss;
        at[k] = i;
    }
    x->cases.n = base + kept;
    return !x->short_of_memory;
}

/* An exchangeable item was tried before. */
static bool tried(const weir_exact *x, uint32_t base, uint32_t c)
{
    for (uint32_t k = base; k < c; k++) {
        const uint32_t i = x->cases.at[k], j = x->cases.at[c];
        if (i != NOTHING && j != NOTHING && x->s.span[i].kind == x->s.span[j].kind)
            return true;
    }
    return false;
}

static weir_found try_cases(weir_exact *x, uint32_t lo, uint32_t hi, weir_fork f, uint32_t base)
{
    const uint32_t placed = x->placed.n, undo = x->undo.n, end = x->cases.n;

    for (uint32_t c = base; c < end; c++) {
        if (tried(x, base, c))
            continue;
        const bool       made = make_case(x, x->cases.at[c], f);
        const weir_found r = made ? weir_exact_solve(x, lo, hi) : WEIR_CUT;
        if (r != WEIR_DEAD)
            return r;
        take_back(x, placed, undo);
    }
    return WEIR_DEAD;
}

/* Chooses a section of a surveyed run and tries its cases. */
static weir_found branch(weir_exact *x, uint32_t lo, uint32_t hi)
{
    const uint32_t base = x->cases.n;
    weir_fork      f = {.section = pick(x, lo, hi), .above = INT64_MAX};

    f.floor = x->floor[f.section];
    if (f.floor + x->total[f.section] < x->cap)
        f.above = floor_above(x, lo, hi, f.section);
    if (!list_cases(x, lo, f))
        return WEIR_CUT;
    if (x->look && x->cases.n > base + 1 && !look_ahead(x, lo, hi, f, base))
        return WEIR_CUT;
    const weir_found r = try_cases(x, lo, hi, f, base);
    x->cases.n = base;
    return r;
}

/* A run of sections in one piece. */
static weir_found search(weir_exact *x, uint32_t lo, uint32_t hi)
{
    const uint32_t placed = x->placed.n, undo = x->undo.n;
    weir_found     r = WEIR_DEAD;

    if (x->nodes >= x->limit)
        return WEIR_CUT;
    x->nodes++;
    if (raise_floors(x, lo, hi)) {
        const uint64_t hash = hash_of(x, lo, hi);
        uint64_t      *slot = &x->memo[hash >> (64 - WEIR_MEMO_BITS)];
        if (*slot != hash) {
            count_cases(x, lo, hi);
            r = branch(x, lo, hi);
            if (r == WEIR_DEAD)
                *slot = hash;
        }
    }
    if (x->short_of_memory)
        r = WEIR_CUT;
    if (r == WEIR_DEAD)
        take_back(x, placed, undo);
    return r;
}

weir_found weir_exact_solve(weir_exact *x, uint32_t lo, uint32_t hi)
{
    weir_found r = WEIR_FOUND;

    for (uint32_t i = x->s.from[lo]; i < x->s.from[hi] && r == WEIR_FOUND;) {
        if (x->at[i] >= 0) {
            i++;
            continue;
        }
        const uint32_t begin = x->s.span[i].a;
        uint32_t       end = x->s.span[i].b;
        for (; i < x->s.from[hi] && x->s.span[i].a < end; i++)
            if (x->at[i] < 0 && x->s.span[i].b > end)
                end = x->s.span[i].b;
        r = search(x, begin, end);
    }
    return r;
}
