/* beam.c - beam search: each level keeps the best states with equally many items placed and extends
 * each by one item (Lowerre, "The HARPY speech recognition system", 1976; filtered by a bound: Ow
 * and Morton, "Filtered beam search in scheduling", 1988).
 *
 * Depth-first search gets stuck if there is slack: waste at the bottom shows only at the top, and
 * the search tries everything in between. States with equally many items can be compared: each
 * section is rated by the bytes that remain if its pile ends as low as it can (exact_state.c), and
 * a section that has lost most of its slack counts as much as all others. The bytes left to place
 * may count, too, so that large items come early. A level keeps `width` states with different items
 * left.
 *
 * A state is extended at the section where exact_state.c branches: by each item that can lie at its
 * floor; then, with the floor raised above that, by each item at the next section, and so on a few
 * times. The loss of a child follows from the view of its parent: an item raises those that share a
 * section with it to its top, and only piles of sections that these cross change. */
#include <stdlib.h>
#include <string.h>

#include "core/splitmix.h"
#include "core/status.h"
#include "graph/placement/exact.h"
#include "graph/placement/progress.h"

enum {
    RISES = 8,                  /* of floors, for one state before it is extended */
    CHILDREN = 8                /* candidates per kept state */
};

typedef struct weir_child {
    double   loss;              /* smaller is better */
    uint64_t left;              /* hash of the items left to place */
    uint32_t parent, span;
    uint32_t rises;             /* raised floors of the parent that come before it */
    int64_t  offset;
} weir_child;

typedef struct weir_beam {
    weir_exact_state *x;
    uint32_t          lo, hi;
    uint32_t          first, items;   /* the run's first span, and number of spans */
    int64_t          *states, *grown; /* [width] states: floors of the run, offsets of its items */
    size_t            stride;
    uint32_t          n;     /* states of this level */
    weir_undo        *rise;  /* [width][RISES] raised floors of each state */
    weir_child       *child; /* [width * CHILDREN] candidates */
    uint32_t          children;
    uint64_t         *seen;  /* [slots] hashes of kept states; 0: empty slot */
    uint32_t          slots; /* a power of two */
    int64_t          *end;   /* [sections of the run] ends of the piles of a child */
    double           *loss;  /* [sections of the run] losses of the parent */
    double            sum;   /* sum of these losses */
    uint64_t          left;  /* hash of the parent's items left */
    int64_t           area;  /* bytes of these items, summed over their sections */
} weir_beam;

static uint64_t hash_of(const weir_exact_state *x, uint32_t i)
{
    return weir_splitmix_hash(x->s.span[i].kind * WEIR_SPLITMIX64_STEP + 1);
}

static int64_t area_of(const weir_place_span *v)
{
    return (int64_t)(v->b - v->a) * v->bytes;
}

/* ---- states ---- */

static void load(weir_beam *b, const int64_t *state)
{
    weir_exact_state *x = b->x;
    const uint32_t    sections = b->hi - b->lo;

    x->placed.n = x->undo.n = x->cases.n = 0;
    memcpy(x->floor + b->lo, state, sections * sizeof *state);
    memset(x->total + b->lo, 0, sections * sizeof *x->total);
    b->left = 0;
    b->area = 0;
    for (uint32_t i = b->first; i < b->first + b->items; i++) {
        const weir_place_span *v = &x->s.span[i];
        weir_exact_set_at(x, i, state[sections + i - b->first]);
        if (x->at[i] >= 0)
            continue;
        b->left += hash_of(x, i);
        b->area += area_of(v);
        for (uint32_t s = v->a; s < v->b; s++)
            x->total[s] += v->bytes;
    }
}

static void save(const weir_beam *b, int64_t *state)
{
    const uint32_t sections = b->hi - b->lo;

    memcpy(state, b->x->floor + b->lo, sections * sizeof *state);
    memcpy(state + sections, b->x->at + b->first, b->items * sizeof *state);
}

/* ---- children ---- */

static double loss_of(const weir_beam *b, uint32_t section, int64_t end)
{
    const weir_exact_state *x = b->x;
    const double            little = x->spare * (double)x->cap + 1;

    return ((double)x->slack[section] + little) / ((double)(x->cap - end) + little);
}

static void rate_parent(weir_beam *b)
{
    b->sum = 0;
    for (uint32_t s = b->lo; s < b->hi; s++) {
        b->loss[s - b->lo] = b->x->total[s] > 0 ? loss_of(b, s, b->x->end[s]) : 0;
        b->sum += b->loss[s - b->lo];
    }
}

/* Puts span i next on the piles of sections [from, to); `high` is the lowest place for it. */
static void add_to_piles(weir_beam *b, uint32_t i, int64_t high, uint32_t from, uint32_t to)
{
    const weir_place_span *v = &b->x->s.span[i];
    const uint32_t         z = v->b < to ? v->b : to;

    for (uint32_t s = v->a > from ? v->a : from; s < z; s++) {
        int64_t *end = &b->end[s - b->lo];
        *end = (*end > high ? *end : high) + v->bytes;
    }
}

static bool overlaps(const weir_place_span *v, const weir_place_span *w)
{
    return v->a < w->b && w->a < v->b;
}

/* Returns the loss of the state with span i at the offset; a negative number: a dead end. */
static double rate_child(weir_beam *b, uint32_t i, int64_t offset)
{
    const weir_exact_state *x = b->x;
    const weir_place_span  *v = &x->s.span[i];
    const int64_t           top = offset + v->bytes;
    uint32_t                from = v->a, to = v->b, below = 0;
    double                  loss = b->sum;

    for (; below < x->orders && x->high[x->order[below]] <= top; below++) {
        const weir_place_span *w = &x->s.span[x->order[below]];
        if (overlaps(v, w)) {
            from = w->a < from ? w->a : from;
            to = w->b > to ? w->b : to;
        }
    }
    memset(b->end + (from - b->lo), 0, (to - from) * sizeof *b->end);
    for (uint32_t k = 0; k < below; k++)
        if (!overlaps(v, &x->s.span[x->order[k]]))
            add_to_piles(b, x->order[k], x->high[x->order[k]], from, to);
    for (uint32_t k = 0; k < below; k++)
        if (x->order[k] != i && overlaps(v, &x->s.span[x->order[k]]))
            add_to_piles(b, x->order[k], top, from, to);
    for (uint32_t k = below; k < x->orders; k++)
        add_to_piles(b, x->order[k], x->high[x->order[k]], from, to);
    for (uint32_t s = from; s < to; s++) {
        const int64_t end = b->end[s - b->lo];
        if (end > x->cap)
            return -1;
        loss += (end > 0 ? loss_of(b, s, end) : 0) - b->loss[s - b->lo];
    }
    const double left = (double)(b->area - area_of(v)) / (double)x->cap / (b->hi - b->lo);
    return (loss > 0 ? loss : 0) * (1 + x->pressing * left);
}

static int by_loss(const void *a, const void *b)
{
    const weir_child *c = a, *d = b;
    if (c->loss != d->loss)
        return c->loss < d->loss ? -1 : 1;
    if (c->left != d->left)
        return c->left < d->left ? -1 : 1;
    if (c->parent != d->parent)
        return c->parent < d->parent ? -1 : 1;
    return c->rises != d->rises ? (c->rises < d->rises ? -1 : 1)
                                : (c->span > d->span) - (c->span < d->span);
}

/* Keeps the best `width` children with different items left. */
static void keep_best(weir_beam *b)
{
    uint32_t kept = 0;

    qsort(b->child, b->children, sizeof *b->child, by_loss);
    memset(b->seen, 0, b->slots * sizeof *b->seen);
    for (uint32_t c = 0; c < b->children && kept < b->x->width; c++) {
        const uint64_t hash = b->child[c].left | 1;
        uint32_t       slot = (uint32_t)(hash >> 32) & (b->slots - 1);
        while (b->seen[slot] && b->seen[slot] != hash)
            slot = (slot + 1) & (b->slots - 1);
        if (b->seen[slot])
            continue;
        b->seen[slot] = hash;
        b->child[kept++] = b->child[c];
    }
    b->children = kept;
}

/* Rates the children at one section. */
static void rate_cases(weir_beam *b, uint32_t parent, uint32_t rises, weir_branch_point f)
{
    weir_exact_state *x = b->x;

    rate_parent(b);
    for (uint32_t c = 0; c < x->cases.n; c++) {
        const uint32_t i = x->cases.at[c];
        if (i == WEIR_EXACT_NO_ITEM || x->nodes >= x->limit)
            return;
        x->nodes++;
        const double loss = rate_child(b, i, f.floor);
        if (loss < 0)
            continue;
        if (b->children == x->width * CHILDREN)
            keep_best(b);
        b->child[b->children++] = (weir_child){.loss = loss, .left = b->left - hash_of(x, i),
                                               .parent = parent, .span = i, .rises = rises,
                                               .offset = f.floor};
    }
}

static void expand(weir_beam *b, uint32_t parent)
{
    weir_exact_state *x = b->x;
    weir_undo        *rise = b->rise + (size_t)parent * RISES;

    load(b, b->states + parent * b->stride);
    for (uint32_t rises = 0; x->nodes < x->limit; rises++) {
        x->nodes++;
        if (!weir_exact_rise(x, b->lo, b->hi))
            return;
        const weir_branch_point f = weir_exact_branch_point(x, b->lo, b->hi);
        x->cases.n = 0;
        if (!weir_exact_cases(x, b->lo, f))
            return;
        rate_cases(b, parent, rises, f);
        const bool on = x->cases.n > 0 && x->cases.at[x->cases.n - 1] == WEIR_EXACT_NO_ITEM;
        if (!on || rises == RISES)
            return;
        rise[rises] = (weir_undo){f.section, f.above};
        if (!weir_exact_set_floor(x, f.section, f.above))
            return;
    }
}

/* Turns the children into the states of the next level. */
static void grow(weir_beam *b)
{
    for (uint32_t c = 0; c < b->children; c++) {
        const weir_child *child = &b->child[c];
        const weir_undo  *rise = b->rise + (size_t)child->parent * RISES;
        load(b, b->states + child->parent * b->stride);
        for (uint32_t r = 0; r < child->rises; r++)
            b->x->floor[rise[r].section] = rise[r].floor;
        if (!weir_exact_put(b->x, child->span, child->offset))
            return;
        save(b, b->grown + c * b->stride);
    }
    int64_t *const states = b->states;
    b->states = b->grown;
    b->grown = states;
    b->n = b->children;
}

static weir_exact_result run(weir_beam *b)
{
    weir_exact_state *x = b->x;

    save(b, b->states);
    b->n = 1;
    for (uint32_t placed = 0; placed < b->items; placed++) {
        b->children = 0;
        x->short_of_memory = x->short_of_memory || !weir_progress_poll();
        for (uint32_t k = 0; k < b->n && !x->short_of_memory; k++)
            expand(b, k);
        keep_best(b);
        if (b->children == 0 || x->nodes >= x->limit || x->short_of_memory)
            return WEIR_EXACT_GAVE_UP;
        grow(b);
    }
    load(b, b->states);
    return x->short_of_memory ? WEIR_EXACT_GAVE_UP : WEIR_EXACT_FOUND;
}

weir_exact_result weir_exact_beam(weir_exact_state *x, uint32_t lo, uint32_t hi)
{
    weir_beam      b = {.x = x, .lo = lo, .hi = hi, .first = x->s.from[lo], .slots = 2};
    const uint32_t sections = hi - lo;
    const size_t   width = x->width;

    b.items = x->s.from[hi] - b.first;
    b.stride = sections + b.items;
    while (b.slots < 2 * width)
        b.slots *= 2;
    for (uint32_t s = lo; s < hi; s++)
        x->slack[s] = x->cap - x->total[s];
    b.states = weir_mem_alloc(width * b.stride * sizeof *b.states);
    b.grown = weir_mem_alloc(width * b.stride * sizeof *b.grown);
    b.rise = weir_mem_alloc(width * RISES * sizeof *b.rise);
    b.child = weir_mem_alloc(width * CHILDREN * sizeof *b.child);
    b.seen = weir_mem_alloc(b.slots * sizeof *b.seen);
    b.end = weir_mem_alloc(sections * sizeof *b.end);
    b.loss = weir_mem_alloc(sections * sizeof *b.loss);
    const bool ok = b.states && b.grown && b.rise && b.child && b.seen && b.end && b.loss;
    x->short_of_memory = x->short_of_memory || !ok;
    const weir_exact_result r = ok ? run(&b) : WEIR_EXACT_GAVE_UP;
    weir_mem_free(b.states);
    weir_mem_free(b.grown);
    weir_mem_free(b.rise);
    weir_mem_free(b.child);
    weir_mem_free(b.seen);
    weir_mem_free(b.end);
    weir_mem_free(b.loss);
    return r;
}
