/* exact.c - a placement of at most a given height, or the proof that there is none: depth-first
 * search with a limit on its nodes.
 *
 * The frame is that of Moffitt, MiniMalloc, and of Maas et al., TelaMalloc (both ASPLOS 2023):
 * only canonical placements (each item lies at 0 or on another one), so all that is placed in a
 * section lies below a floor and all that is not above it; a section is dead when floor + bytes
 * still to come exceed the height; runs of sections that nothing left crosses are solved apart.
 *
 * The branching asks which item comes next in one section, at its floor: each that fits, or none -
 * then the floor rises to the lowest place where any of its items can lie. That is complete for
 * sections none of whose items reaches down to a lower floor, and its cases exclude each other. Of
 * these sections the one with the fewest cases is taken; one case is no choice, none a dead end.
 * Exchangeable items are tried once. What has been proven dead - floors and items left of a run -
 * is remembered by a 64-bit hash, so orders of one pile are not tried one after the other. Cases
 * are tried in several orders in turn - by the room they cost, one step ahead, or by sizes - each
 * for twice the nodes of the last time, later ones with pseudo-random changes: the time of such
 * searches varies widely with the order. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "graph/place/section.h"

enum { MEMO_BITS = 20, FIRST_NODES = 6, ORDERS = 10 };


typedef enum weir_found { FOUND, DEAD, CUT } weir_found;

typedef struct weir_undo {
    uint32_t section;
    int64_t  floor;
} weir_undo;

/* What the survey of a run says of one section. */
typedef struct weir_view {
    int64_t  floor;             /* lowest place where one of its items can lie */
    int64_t  gap;               /* from there to the next floor below one of its items */
    int64_t  next, second;      /* lowest ends of its items, if they lie as low as they can */
    uint32_t who;               /* the span that ends at `next` */
    uint32_t cases;             /* items that can lie at the floor */
    bool     closed;            /* one of its items reaches down to a lower floor */
} weir_view;

/* A section where the search branches: an item comes at its floor, or the floor rises. */
typedef struct weir_fork {
    uint32_t section;
    int64_t  floor, above;      /* above: INT64_MAX if no room is left over */
} weir_fork;

#define NOTHING UINT32_MAX      /* among the cases: no item at the floor */

typedef struct weir_exact {
    weir_placer   *p;
    weir_sections  s;
    int64_t        cap;
    int64_t       *floor, *total;       /* [sections]; total: bytes to come */
    weir_view     *view;                /* [sections] */
    int64_t       *at;                  /* [spans] offset, -1: to come */
    int64_t       *high;                /* [spans] the highest floor below it */
    int64_t        least;               /* bytes of the smallest item of the run */
    double        *rank;                /* [spans] larger is tried first */
    bool           lowest;              /* the lowest section is next, not the one of fewest cases */
    bool           look;                /* cases are tried by what they cost, not by rank */
    int64_t       *room;                /* [sections] and */
    double        *loss;                /* [spans + 1] of one look ahead */
    uint64_t      *memo;                /* hashes of dead runs */
    WEIR_VEC(weir_undo) undo;
    WEIR_VEC(uint32_t) placed;          /* spans, in order */
    WEIR_VEC(uint32_t) cases;           /* of all nodes on the path */
    uint64_t       nodes, limit;
    bool           short_of_memory;
} weir_exact;

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

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
    const weir_span *v = &x->s.span[i];

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
        const weir_span *v = &x->s.span[i];
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
        const weir_span *v = &x->s.span[i];
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
        const weir_span *v = &x->s.span[i];
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
            h += mix(x->s.span[i].kind * 0x9e3779b97f4a7c15u + 1);
    for (uint32_t s = lo; s < hi; s++)
        if (x->total[s] > 0)
            h += mix((uint64_t)x->floor[s] * 0xd1342543de82ef95u + mix(s + 0x5851f42d4c957f2du));
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
        const weir_span *v = &x->s.span[i];
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
        const weir_span *v = &x->s.span[i];
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

static weir_found solve(weir_exact *x, uint32_t lo, uint32_t hi);

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
        const weir_found r = make_case(x, x->cases.at[c], f) ? solve(x, lo, hi) : CUT;
        if (r != DEAD)
            return r;
        take_back(x, placed, undo);
    }
    return DEAD;
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
        return CUT;
    if (x->look && x->cases.n > base + 1 && !look_ahead(x, lo, hi, f, base))
        return CUT;
    const weir_found r = try_cases(x, lo, hi, f, base);
    x->cases.n = base;
    return r;
}

/* A run of sections in one piece. */
static weir_found search(weir_exact *x, uint32_t lo, uint32_t hi)
{
    const uint32_t placed = x->placed.n, undo = x->undo.n;
    weir_found     r = DEAD;

    if (x->nodes >= x->limit)
        return CUT;
    x->nodes++;
    if (raise_floors(x, lo, hi)) {
        const uint64_t hash = hash_of(x, lo, hi);
        uint64_t      *slot = &x->memo[hash >> (64 - MEMO_BITS)];
        if (*slot != hash) {
            count_cases(x, lo, hi);
            r = branch(x, lo, hi);
            if (r == DEAD)
                *slot = hash;
        }
    }
    if (x->short_of_memory)
        r = CUT;
    if (r == DEAD)
        take_back(x, placed, undo);
    return r;
}

/* Places all that is left in [lo, hi), run by run. */
static weir_found solve(weir_exact *x, uint32_t lo, uint32_t hi)
{
    weir_found r = FOUND;

    for (uint32_t i = x->s.from[lo]; i < x->s.from[hi] && r == FOUND;) {
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

/* ---- attempts ---- */

/* Which items are tried first: round by round another order, later ones shaken. The first one is
 * MiniMalloc's: those in the fullest section, the widest of them. */
static void rank_spans(weir_exact *x, uint64_t round)
{
    static const double by[4] = {0.1, 4, 0.5, 0};
    const double   shake = round < 2 * ORDERS ? 0 : by[round / ORDERS % 4];
    const uint64_t seed = round / ORDERS * (ORDERS - 2) + round % ORDERS - 2;

    x->lowest = round % 2 == 0;
    x->look = round % ORDERS < 2;
    for (uint32_t i = 0; i < x->s.spans; i++) {
        const weir_span *v = &x->s.span[i];
        const double     wide = v->b - v->a, bytes = (double)v->bytes;
        int64_t          most = 0;
        for (uint32_t s = v->a; s < v->b; s++)
            most = x->total[s] > most ? x->total[s] : most;
        const double full = (double)most / (double)x->cap;
        const double ranks[] = {full * 1e6 + wide, wide + bytes / (double)x->cap, wide * bytes,
                                bytes};
        x->rank[i] = ranks[round % ORDERS < 2 ? 0 : round % ORDERS / 2 - 1];
        const uint64_t random = mix(v->kind * 0x9e3779b97f4a7c15u + seed);
        x->rank[i] *= 1 + shake * (double)(random >> 11) * 0x1p-53;
    }
}

static void begin(weir_exact *x)
{
    x->placed.n = x->undo.n = x->cases.n = 0;
    memset(x->floor, 0, x->s.n * sizeof *x->floor);
    memset(x->total, 0, x->s.n * sizeof *x->total);
    for (uint32_t i = 0; i < x->s.spans; i++) {
        const weir_span *v = &x->s.span[i];
        x->at[i] = -1;
        for (uint32_t s = v->a; s < v->b; s++)
            x->total[s] += v->bytes;
    }
}

/* Runs whose best placement so far is low enough keep it: their items count as placed. */
static void keep_low(weir_exact *x)
{
    const weir_placer *p = x->p;

    for (uint32_t i = 0; i < x->s.spans && p->best_height != SIZE_MAX;) {
        const uint32_t first = i;
        uint32_t       end = x->s.span[i].b;
        size_t         height = 0;
        for (; i < x->s.spans && x->s.span[i].a < end; i++) {
            const size_t top = p->best[x->s.span[i].item] + (size_t)x->s.span[i].bytes;
            end = x->s.span[i].b > end ? x->s.span[i].b : end;
            height = top > height ? top : height;
        }
        for (uint32_t k = first; k < i && height <= (size_t)x->cap; k++)
            x->at[k] = (int64_t)p->best[x->s.span[k].item];
    }
}

/* One height, within a number of nodes. */
static weir_found attempt(weir_exact *x, size_t cap, uint64_t nodes)
{
    const uint64_t end = x->nodes + nodes;
    weir_found     r = CUT;

    x->cap = (int64_t)cap;
    for (uint64_t round = 0; r == CUT && x->nodes < end && !x->short_of_memory; round++) {
        const uint64_t share = (uint64_t)(x->s.spans + 32) * FIRST_NODES << round / ORDERS;
        begin(x);
        keep_low(x);
        rank_spans(x, round);
        const uint64_t mine = x->look ? share / 4 : share;      /* a look costs several nodes */
        x->limit = mine < end - x->nodes ? x->nodes + mine : end;
        r = solve(x, 0, x->s.n);
    }
    if (r == FOUND) {
        memset(x->p->offset, 0, x->p->n * sizeof *x->p->offset);
        for (uint32_t i = 0; i < x->s.spans; i++)
            x->p->offset[x->s.span[i].item] = (size_t)x->at[i];
        weir_place_offer(x->p, "exact");
    }
    return r;
}

static size_t common_divisor(const weir_placer *p)
{
    size_t g = 0;
    for (uint32_t i = 0; i < p->n; i++)
        for (size_t b = p->item[i].bytes; b > 0;) {
            const size_t r = g % b;
            g = b;
            b = r;
        }
    return g ? g : 1;
}

/* The target first, for half the nodes; else heights between it and the best, by halves. Heights
 * are sums of bytes, so multiples of their common divisor. */
static void lower(weir_exact *x)
{
    weir_placer *p = x->p;
    const size_t unit = common_divisor(p);
    uint64_t     left = p->nodes - p->nodes / 2;
    weir_found   r = attempt(x, p->target, p->nodes / 2);
    bool         all = r == DEAD;       /* every height below `low` is impossible */
    size_t       low = p->target / unit + 1;

    p->proven = all;
    if (p->target > p->bound)
        return;
    while (p->best_height > p->target && low < p->best_height / unit && left > 0) {
        const size_t   middle = low + (p->best_height / unit - low) / 2;
        const uint64_t before = x->nodes;
        r = attempt(x, p->best_height == SIZE_MAX ? low * 2 * unit : middle * unit,
                    left / 4 + 1);
        left -= x->nodes - before < left ? x->nodes - before : left;
        if (x->short_of_memory)
            return;
        all = all && r != CUT;
        if (r != FOUND)
            low = middle + 1;
    }
    p->proven = all && p->best_height != SIZE_MAX && low >= p->best_height / unit;
}

static bool alloc(weir_exact *x)
{
    const size_t n = x->s.n + 1u, spans = x->s.spans + 1u;

    x->floor = weir_mem_alloc(n * sizeof *x->floor);
    x->total = weir_mem_alloc(n * sizeof *x->total);
    x->view = weir_mem_alloc(n * sizeof *x->view);
    x->at = weir_mem_alloc(spans * sizeof *x->at);
    x->high = weir_mem_alloc(spans * sizeof *x->high);
    x->rank = weir_mem_alloc(spans * sizeof *x->rank);
    x->room = weir_mem_alloc(n * sizeof *x->room);
    x->loss = weir_mem_alloc((spans + 1) * sizeof *x->loss);
    x->memo = weir_mem_zalloc((size_t)1 << MEMO_BITS, sizeof *x->memo);
    return x->floor && x->total && x->view && x->at && x->high && x->rank && x->room && x->loss &&
           x->memo;
}

static void release(weir_exact *x)
{
    weir_mem_free(x->floor);
    weir_mem_free(x->total);
    weir_mem_free(x->view);
    weir_mem_free(x->at);
    weir_mem_free(x->high);
    weir_mem_free(x->rank);
    weir_mem_free(x->room);
    weir_mem_free(x->loss);
    weir_mem_free(x->memo);
    weir_vec_free(&x->undo);
    weir_vec_free(&x->placed);
    weir_vec_free(&x->cases);
    weir_sections_free(&x->s);
}

/* A node looks at every section of every item. */
static uint64_t nodes_of(const weir_exact *x)
{
    uint64_t all = 1;
    for (uint32_t i = 0; i < x->s.spans; i++)
        all += x->s.span[i].b - x->s.span[i].a;
    return x->p->work / all + 1;
}

weir_status weir_place_exact(weir_placer *p, const char *name)
{
    weir_exact x = {.p = p};

    (void)name;
    if (p->best_height == SIZE_MAX)
        WEIR_TRY(weir_place_orders(p));
    if (p->best_height <= p->target)
        return WEIR_OK;
    WEIR_TRY(weir_sections_of(p, &x.s));
    const bool ok = alloc(&x);
    if (ok) {
        p->nodes = p->nodes ? p->nodes : nodes_of(&x);
        lower(&x);
    }
    p->used += x.nodes;
    release(&x);
    return ok && !x.short_of_memory ? WEIR_OK : WEIR_ERR_NOMEM;
}
