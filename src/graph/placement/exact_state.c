/* exact_state.c - the state of an exact search: what is placed, what follows from it, and which
 * section is next.
 *
 * The frame is that of MiniMalloc (Moffitt, ASPLOS 2023) and TelaMalloc (Maas and others, ASPLOS
 * 2023): only canonical placements, in which each item lies at 0 or on another one, so everything
 * placed in a section lies below a floor and everything else above it. No item can lie below the
 * highest floor of its live range, so the items of a section end no lower than if they came in the
 * order of these places; a section whose items would end above the height is dead. Without slack
 * the sum of bytes would tell the same; with slack, bytes lost under a wide item count before the
 * item is placed.
 *
 * A branch asks which item comes next in one section, at its floor: each that can lie there, or
 * none, in which case the floor rises to the lowest place where any of its items can lie. This is
 * complete for sections none of whose items reaches down to a lower floor, and the cases exclude
 * each other. Among these sections the search takes the one with the fewest cases, or the lowest. A
 * single case is no choice; no case is a dead end. Exchangeable items are one case. */
#include "graph/placement/exact.h"

/* ---- state ---- */

bool weir_exact_set_floor(weir_exact_state *x, uint32_t section, int64_t floor)
{
    if (!weir_vec_push(&x->undo, (weir_undo){section, x->floor[section]})) {
        x->short_of_memory = true;
        return false;
    }
    x->floor[section] = floor;
    return true;
}

bool weir_exact_put(weir_exact_state *x, uint32_t i, int64_t offset)
{
    const weir_place_span *v = &x->s.span[i];

    if (!weir_vec_push(&x->placed, i)) {
        x->short_of_memory = true;
        return false;
    }
    weir_exact_set_at(x, i, offset);
    for (uint32_t s = v->a; s < v->b; s++)
        x->total[s] -= v->bytes;
    for (uint32_t s = v->a; s < v->b; s++)
        if (!weir_exact_set_floor(x, s, offset + v->bytes))
            return false;
    return true;
}

void weir_exact_undo(weir_exact_state *x, uint32_t placed, uint32_t undo)
{
    while (x->placed.n > placed) {
        const uint32_t   i = x->placed.at[--x->placed.n];
        const weir_place_span *v = &x->s.span[i];
        weir_exact_set_at(x, i, -1);
        for (uint32_t s = v->a; s < v->b; s++)
            x->total[s] += v->bytes;
    }
    while (x->undo.n > undo) {
        const weir_undo u = x->undo.at[--x->undo.n];
        x->floor[u.section] = u.floor;
    }
}

/* ---- one state ---- */

/* Sorts the sections of the run that have unplaced items by floor, with Shellsort, since floors of
 * neighbours are often equal. Returns their number. */
static uint32_t sort_sections(weir_exact_state *x, uint32_t lo, uint32_t hi)
{
    uint32_t *at = x->by_floor, n = 0;

    for (uint32_t s = lo; s < hi; s++)
        if (x->total[s] > 0)
            at[n++] = s;
    uint32_t gap = 1;
    while (gap < n / 3)
        gap = 3 * gap + 1;
    for (; gap > 0; gap /= 3)
        for (uint32_t i = gap; i < n; i++) {
            const uint32_t s = at[i];
            uint32_t       k = i;
            for (; k >= gap && x->floor[at[k - gap]] > x->floor[s]; k -= gap)
                at[k] = at[k - gap];
            at[k] = s;
        }
    return n;
}

/* Fills `high`, `order` by it, `least` and `low`. */
static void find_places(weir_exact_state *x, uint32_t lo, uint32_t hi)
{
    const uint32_t end = x->s.from[hi];

    for (uint32_t s = lo; s < hi; s++) {
        x->low[s] = INT64_MAX;
        x->end[s] = 0;
        x->head[s] = UINT32_MAX;
    }
    x->least = INT64_MAX;
    for (uint32_t i = weir_exact_left(x, x->s.from[lo], end); i < end;
         i = weir_exact_left(x, i + 1, end)) {
        const weir_place_span *v = &x->s.span[i];
        uint32_t top = v->a;
        x->least = v->bytes < x->least ? v->bytes : x->least;
        for (uint32_t s = v->a + 1; s < v->b; s++)
            top = x->floor[s] > x->floor[top] ? s : top;
        const int64_t high = x->high[i] = x->floor[top];
        x->next[i] = x->head[top];
        x->head[top] = i;
        for (uint32_t s = v->a; s < v->b; s++)
            x->low[s] = high < x->low[s] ? high : x->low[s];
    }
    const uint32_t n = sort_sections(x, lo, hi);
    x->orders = 0;
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t i = x->head[x->by_floor[k]]; i != UINT32_MAX; i = x->next[i])
            x->order[x->orders++] = i;
}

/* A pile whose items have lowest places ends soonest if they come in the order of these places (one
 * machine with release dates: Jackson's rule, 1955). */
static void find_ends(weir_exact_state *x)
{
    for (uint32_t k = 0; k < x->orders; k++) {
        const uint32_t         i = x->order[k];
        const weir_place_span *v = &x->s.span[i];
        const int64_t          high = x->high[i];
        for (uint32_t s = v->a; s < v->b; s++)
            x->end[s] = (x->end[s] > high ? x->end[s] : high) + v->bytes;
    }
}

bool weir_exact_rise(weir_exact_state *x, uint32_t lo, uint32_t hi)
{
    find_places(x, lo, hi);
    find_ends(x);
    for (uint32_t s = lo; s < hi; s++)
        if (x->total[s] > 0) {
            if (x->end[s] > x->cap)
                return false;
            if (x->low[s] > x->floor[s] && !weir_exact_set_floor(x, s, x->low[s]))
                return false;
        }
    return true;
}

static void count_cases(weir_exact_state *x, uint32_t lo, uint32_t hi)
{
    for (uint32_t s = lo; s < hi; s++)
        x->view[s] = (weir_section_state){.gap = INT64_MAX};
    for (uint32_t end = x->s.from[hi], i = weir_exact_left(x, x->s.from[lo], end); i < end;
         i = weir_exact_left(x, i + 1, end)) {
        const weir_place_span *v = &x->s.span[i];
        const int64_t high = x->high[i];
        int64_t       low = high;
        for (uint32_t s = v->a; s < v->b; s++)
            low = x->floor[s] < low ? x->floor[s] : low;
        for (uint32_t s = v->a; s < v->b; s++) {
            weir_section_state *w = &x->view[s];
            const int64_t       gap = high - x->floor[s];
            w->closed = w->closed || low < x->floor[s];
            w->cases += gap == 0;
            w->gap = gap > 0 && gap < w->gap ? gap : w->gap;
        }
    }
}

/* Returns the open section with the fewest cases, the lowest among equals; or, with x->lowest and
 * unless a section has no choice, the lowest section, among equals that with the least slack. The
 * first rule finds dead ends early if there is no slack; the second leaves no holes if there is.
 * The lowest section of all is always open. */
static uint32_t pick(const weir_exact_state *x, uint32_t lo, uint32_t hi)
{
    uint32_t best = hi;
    uint64_t best_cases = UINT64_MAX;
    int64_t  best_floor = 0, best_room = 0;

    for (uint32_t s = lo; s < hi; s++) {
        const weir_section_state *w = &x->view[s];
        if (x->total[s] == 0 || w->closed)
            continue;
        const int64_t  rise = w->gap < x->least ? w->gap : x->least;
        const int64_t  slack = x->cap - x->end[s];
        const uint64_t all = w->cases + (slack >= rise ? 1u : 0u);
        const uint64_t cases = x->lowest && all > 2 ? 2 : all;
        if (cases < best_cases ||
            (cases == best_cases && (x->floor[s] < best_floor ||
                                     (x->floor[s] == best_floor && slack < best_room)))) {
            best = s;
            best_cases = cases;
            best_floor = x->floor[s];
            best_room = slack;
        }
    }
    return best;
}

/* Returns where section s continues if no item lies at its floor: an item with nothing placed below
 * it lies on one that is not placed yet. */
static int64_t floor_above(weir_exact_state *x, uint32_t lo, uint32_t hi, uint32_t section)
{
    const uint32_t first = x->s.from[lo], end = x->s.from[hi];
    int64_t        above = INT64_MAX;

    for (uint32_t s = lo; s < hi; s++)
        x->view[s].next = x->view[s].second = INT64_MAX;
    for (uint32_t i = weir_exact_left(x, first, end); i < end;
         i = weir_exact_left(x, i + 1, end)) {
        const weir_place_span *v = &x->s.span[i];
        const int64_t top = x->high[i] + v->bytes;
        for (uint32_t s = v->a; s < v->b; s++) {
            weir_section_state *w = &x->view[s];
            if (top < w->next) {
                w->second = w->next;
                w->next = top;
                w->who = i;
            } else if (top < w->second) {
                w->second = top;
            }
        }
    }
    for (uint32_t i = weir_exact_left(x, first, end); i < end && x->s.span[i].a <= section;
         i = weir_exact_left(x, i + 1, end)) {
        const weir_place_span *v = &x->s.span[i];
        if (v->b <= section)
            continue;
        int64_t place = x->high[i] > x->floor[section] ? x->high[i] : INT64_MAX;
        if (place == INT64_MAX)
            for (uint32_t s = v->a; s < v->b; s++) {
                const weir_section_state *w = &x->view[s];
                const int64_t             top = w->who == i ? w->second : w->next;
                place = top < place ? top : place;
            }
        above = place < above ? place : above;
    }
    return above;
}

static bool push_case(weir_exact_state *x, uint32_t i)
{
    const bool ok = weir_vec_push(&x->cases, i);
    x->short_of_memory = x->short_of_memory || !ok;
    return ok;
}

/* Is span i exchangeable with a case from `base` on? */
static bool exchangeable(const weir_exact_state *x, uint32_t base, uint32_t i)
{
    for (uint32_t c = base; c < x->cases.n; c++)
        if (x->s.span[x->cases.at[c]].kind == x->s.span[i].kind)
            return true;
    return false;
}

bool weir_exact_cases(weir_exact_state *x, uint32_t lo, weir_branch_point f)
{
    const uint32_t base = x->cases.n, end = x->s.from[f.section + 1];

    for (uint32_t i = weir_exact_left(x, x->s.from[lo], end); i < end;
         i = weir_exact_left(x, i + 1, end)) {
        if (x->s.span[i].b <= f.section || x->high[i] != f.floor || exchangeable(x, base, i))
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
    const bool slack = f.above != INT64_MAX && f.above + x->total[f.section] <= x->cap;
    return !slack || push_case(x, WEIR_EXACT_NO_ITEM);
}

weir_branch_point weir_exact_branch_point(weir_exact_state *x, uint32_t lo, uint32_t hi)
{
    count_cases(x, lo, hi);
    weir_branch_point f = {.section = pick(x, lo, hi), .above = INT64_MAX};
    f.floor = x->floor[f.section];
    if (x->end[f.section] < x->cap)
        f.above = floor_above(x, lo, hi, f.section);
    return f;
}

weir_exact_result weir_exact_runs(weir_exact_state *x, uint32_t lo, uint32_t hi,
                                  weir_exact_search search)
{
    const uint32_t    last = x->s.from[hi];
    weir_exact_result r = WEIR_EXACT_FOUND;

    for (uint32_t i = weir_exact_left(x, x->s.from[lo], last);
         i < last && r == WEIR_EXACT_FOUND; i = weir_exact_left(x, i, last)) {
        const uint32_t begin = x->s.span[i].a;
        uint32_t       end = x->s.span[i].b;
        for (; i < last && x->s.span[i].a < end; i++)
            if (x->at[i] < 0 && x->s.span[i].b > end)
                end = x->s.span[i].b;
        r = search(x, begin, end);
    }
    return r;
}
