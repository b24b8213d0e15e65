/* peak_tree.h - the largest of many sums of bytes, where ranges of them grow and shrink.
 *
 * A segment tree with range addition (Bentley, 1977): an inner node holds the largest sum below it,
 * and what was added to all of them at once. Adding takes O(log n), the largest sum O(1). */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_PEAK_TREE_H
#define WEIR_GRAPH_MEMORY_PROBLEM_PEAK_TREE_H

#include "core/vec.h"

typedef struct weir_peak_tree {
    uint32_t leaves; /* a power of two */
    int64_t *most;   /* [2 * leaves] bytes; node 1 is the root, leaf i is node leaves + i */
    int64_t *added;  /* [leaves] bytes added to all leaves below an inner node, counted in `most` */
} weir_peak_tree;

/* Makes a tree of n sums. Returns false if memory runs out; the caller calls weir_peak_tree_free in
 * either case. */
bool weir_peak_tree_init(weir_peak_tree *t, uint32_t n);
void weir_peak_tree_free(weir_peak_tree *t);

/* Sets the first n sums to 0 and any others to the least number. */
void weir_peak_tree_clear(weir_peak_tree *t, uint32_t n);

/* Adds bytes, which may be negative, to the sums [from, to). */
void weir_peak_tree_add(weir_peak_tree *t, uint32_t from, uint32_t to, int64_t bytes);

/* Returns the largest sum. */
static inline int64_t weir_peak_tree_most(const weir_peak_tree *t)
{
    return t->most[1];
}

/* Returns the number of the first sum that is the largest. */
uint32_t weir_peak_tree_where(const weir_peak_tree *t);

#endif
