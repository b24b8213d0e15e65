/* peak_tree.c - a segment tree without recursion: additions go upwards from both ends. */
#include "graph/memory/problem/peak_tree.h"

#include <string.h>

/* Half of the least number, so that adding to it never overflows. */
#define LEAST (INT64_MIN / 2)

bool weir_peak_tree_init(weir_peak_tree *t, uint32_t n)
{
    *t = (weir_peak_tree){.leaves = 1};
    while (t->leaves < n)
        t->leaves *= 2;
    t->most = weir_mem_alloc(2 * (size_t)t->leaves * sizeof *t->most);
    t->added = weir_mem_alloc((size_t)t->leaves * sizeof *t->added);
    if (!t->most || !t->added)
        return false;
    weir_peak_tree_clear(t, n);
    return true;
}

void weir_peak_tree_free(weir_peak_tree *t)
{
    weir_mem_free(t->most);
    weir_mem_free(t->added);
    *t = (weir_peak_tree){0};
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void weir_peak_tree_clear(weir_peak_tree *t, uint32_t n)
{
    memset(t->added, 0, (size_t)t->leaves * sizeof *t->added);
    for (uint32_t i = 0; i < t->leaves; i++)
        t->most[t->leaves + i] = i < n ? 0 : LEAST;
    for (uint32_t i = t->leaves; i-- > 1;)
        t->most[i] = larger(t->most[2 * i], t->most[2 * i + 1]);
}

static void add_to(weir_peak_tree *t, uint32_t node, int64_t bytes)
{
    t->most[node] += bytes;
    if (node < t->leaves)
        t->added[node] += bytes;
}

/* Brings the nodes above this one up to date. */
static void update_above(weir_peak_tree *t, uint32_t node)
{
    while ((node /= 2) > 0)
        t->most[node] = larger(t->most[2 * node], t->most[2 * node + 1]) + t->added[node];
}

void weir_peak_tree_add(weir_peak_tree *t, uint32_t from, uint32_t to, int64_t bytes)
{
    const uint32_t first = from + t->leaves, last = to + t->leaves - 1;

    if (from >= to || bytes == 0)
        return;
    for (uint32_t a = first, b = last + 1; a < b; a /= 2, b /= 2) {
        if (a & 1)
            add_to(t, a++, bytes);
        if (b & 1)
            add_to(t, --b, bytes);
    }
    update_above(t, first);
    update_above(t, last);
}

uint32_t weir_peak_tree_where(const weir_peak_tree *t)
{
    uint32_t node = 1;

    while (node < t->leaves)
        node = 2 * node + (t->most[2 * node] < t->most[2 * node + 1]);
    return node - t->leaves;
}
