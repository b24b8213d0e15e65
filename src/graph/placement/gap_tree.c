/* gap_tree.c - a segment tree over steps (Bentley, "Solutions to Klee's rectangle problems", 1977)
 * whose nodes hold byte ranges.
 *
 * A node stands for a range of steps. It is covered by items live at all its steps but not at all
 * of its parent's, and touched by items live at any of them. An item overlaps what touches the
 * nodes that it covers, and what covers their ancestors: O(log steps) sets. Each set is a list of
 * byte ranges, merged where they overlap or touch: a training step is nearly nested, so most sets
 * are one range, however many items it stands for. */
#include "graph/placement/gap_tree.h"

#include <string.h>

#include "core/mem.h"

enum { LEVELS = 32, MOST_SETS = 4 * (LEVELS + 1), NO_BLOCK = 0 };

typedef struct range {
    size_t lo, hi;
} range;

/* Ascending, disjoint ranges in a block of 1 << slack entries of the pool. */
typedef struct range_set {
    uint32_t at, n;
    uint8_t  slack;
} range_set;

typedef struct node {
    range_set covers, touches;
} node;

struct weir_gap_tree {
    uint32_t  width;            /* steps, rounded up to a power of two */
    node     *nodes;            /* [2 width] the children of node i are 2 i and 2 i + 1 */
    range    *pool;             /* [pool_room] */
    uint32_t  pool_used, pool_room;
    uint32_t  free[LEVELS];     /* free blocks of each size, linked by `lo`; NO_BLOCK: none */
    bool      short_of_memory;
    uint64_t  looks;
};

/* ---- the tree ---- */

weir_gap_tree *weir_gap_tree_new(uint32_t steps)
{
    weir_gap_tree *const t = weir_mem_zalloc(1, sizeof *t);

    if (!t)
        return NULL;
    for (t->width = 1; t->width < steps;)
        t->width *= 2;
    t->nodes = weir_mem_alloc((size_t)t->width * 2 * sizeof *t->nodes);
    if (t->nodes) {
        weir_gap_tree_clear(t);
        return t;
    }
    weir_gap_tree_free(t);
    return NULL;
}

void weir_gap_tree_free(weir_gap_tree *t)
{
    if (!t)
        return;
    weir_mem_free(t->nodes);
    weir_mem_free(t->pool);
    weir_mem_free(t);
}

void weir_gap_tree_clear(weir_gap_tree *t)
{
    memset(t->nodes, 0, (size_t)t->width * 2 * sizeof *t->nodes);
    memset(t->free, 0, sizeof t->free);
    t->pool_used = 1;           /* the block at NO_BLOCK stays unused */
    t->short_of_memory = false;
}

uint64_t weir_gap_tree_looks(const weir_gap_tree *t)
{
    return t->looks;
}

/* ---- sets ---- */

static bool pool_grow(weir_gap_tree *t, uint32_t ranges)
{
    uint32_t slack = t->pool_room ? t->pool_room : 1024;

    while (slack - t->pool_used < ranges && slack <= UINT32_MAX / 2)
        slack *= 2;
    range *const more =
        slack - t->pool_used < ranges
            ? NULL
            : weir_mem_realloc(t->pool, t->pool_room * sizeof *more, slack * sizeof *more);
    if (!more)
        return false;
    t->pool = more;
    t->pool_room = slack;
    return true;
}

/* Returns a block of 1 << size ranges; NO_BLOCK if memory runs out. */
static uint32_t block_new(weir_gap_tree *t, uint8_t size)
{
    const uint32_t at = t->free[size], ranges = 1u << size;

    if (at != NO_BLOCK) {
        t->free[size] = (uint32_t)t->pool[at].lo;
        return at;
    }
    if (t->pool_room < t->pool_used + ranges && !pool_grow(t, ranges)) {
        t->short_of_memory = true;
        return NO_BLOCK;
    }
    t->pool_used += ranges;
    return t->pool_used - ranges;
}

/* Makes room for one more range. Returns false if memory runs out. */
static bool set_grow(weir_gap_tree *t, range_set *s)
{
    if (s->at != NO_BLOCK && s->n < 1u << s->slack)
        return true;
    const uint8_t  size = s->at == NO_BLOCK ? 1 : (uint8_t)(s->slack + 1);
    const uint32_t at = block_new(t, size);
    if (at == NO_BLOCK)
        return false;
    memcpy(&t->pool[at], &t->pool[s->at], s->n * sizeof *t->pool);
    if (s->at != NO_BLOCK) {
        t->pool[s->at].lo = t->free[s->slack];
        t->free[s->slack] = s->at;
    }
    s->at = at;
    s->slack = size;
    return true;
}

/* Returns the first range of the set, from number `from` on, that ends above `byte`. */
static uint32_t first_above(const weir_gap_tree *t, const range_set *s, uint32_t from, size_t byte)
{
    uint32_t lo = from, hi = s->n;

    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo) / 2;
        if (t->pool[s->at + mid].hi <= byte)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void set_add(weir_gap_tree *t, range_set *s, range r)
{
    t->looks++;
    uint32_t i = first_above(t, s, 0, r.lo), end;

    if (i > 0 && t->pool[s->at + i - 1].hi == r.lo)
        i--;
    for (end = i; end < s->n && t->pool[s->at + end].lo <= r.hi; end++) {
        const range *const other = &t->pool[s->at + end];
        r.lo = other->lo < r.lo ? other->lo : r.lo;
        r.hi = other->hi > r.hi ? other->hi : r.hi;
    }
    if (end == i && !set_grow(t, s))
        return;
    range *const at = &t->pool[s->at];
    if (end != i + 1)
        memmove(&at[i + 1], &at[end], (s->n - end) * sizeof *at);
    s->n = s->n + 1 - (end - i);
    at[i] = r;
}

/* ---- items ---- */

/* The sets that overlap steps `first` to `last`, and the bytes to add to them. */
typedef struct visit {
    uint32_t  first, last;
    range     bytes;
    uint32_t  n;
    const range_set *set[MOST_SETS];
    uint32_t  next[MOST_SETS];      /* the first range of each set that is not passed yet */
} visit;

static void note(visit *v, const range_set *s)
{
    v->next[v->n] = 0;
    v->set[v->n] = s;
    v->n += s->n > 0;
}

/* Node i stands for `width` steps, beginning with `from`. */
static void find_sets(weir_gap_tree *t, visit *v, uint32_t i, uint32_t from, uint32_t width)
{
    t->looks++;
    if (v->first <= from && from + (width - 1) <= v->last) {
        note(v, &t->nodes[i].touches);
        return;
    }
    if (t->nodes[i].touches.n == 0)
        return;
    note(v, &t->nodes[i].covers);
    const uint32_t half = width / 2;
    if (v->first < from + half)
        find_sets(t, v, 2 * i, from, half);
    if (v->last >= from + half)
        find_sets(t, v, 2 * i + 1, from + half, half);
}

static void add_to_sets(weir_gap_tree *t, const visit *v, uint32_t i, uint32_t from,
                        uint32_t width)
{
    set_add(t, &t->nodes[i].touches, v->bytes);
    if (v->first <= from && from + (width - 1) <= v->last) {
        set_add(t, &t->nodes[i].covers, v->bytes);
        return;
    }
    const uint32_t half = width / 2;
    if (v->first < from + half)
        add_to_sets(t, v, 2 * i, from, half);
    if (v->last >= from + half)
        add_to_sets(t, v, 2 * i + 1, from + half, half);
}

/* Returns the lowest offset that is free in all sets, which push it up in turn. */
static size_t lowest(weir_gap_tree *t, visit *v, size_t bytes)
{
    size_t   at = 0;
    uint32_t calm = 0;

    for (uint32_t k = 0; calm < v->n; k = k + 1 < v->n ? k + 1 : 0) {
        const range_set *const s = v->set[k];
        uint32_t               i = v->next[k];
        t->looks++;
        calm++;
        if (i < s->n && t->pool[s->at + i].hi <= at)
            i = first_above(t, s, i, at);
        for (; i < s->n && t->pool[s->at + i].lo < at + bytes; i++) {
            at = t->pool[s->at + i].hi;
            calm = 1;
            t->looks++;
        }
        v->next[k] = i;
    }
    return at;
}

size_t weir_gap_tree_take(weir_gap_tree *t, size_t bytes, uint32_t first, uint32_t last)
{
    visit v = {.first = first, .last = last};

    find_sets(t, &v, 1, 0, t->width);
    const size_t at = lowest(t, &v, bytes);
    v.bytes = (range){at, at + bytes};
    add_to_sets(t, &v, 1, 0, t->width);
    return t->short_of_memory ? SIZE_MAX : at;
}
