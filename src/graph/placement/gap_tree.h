/* gap_tree.h - which bytes are taken at which steps, and the lowest bytes free over a range of
 * steps. */
#ifndef WEIR_GRAPH_PLACEMENT_GAP_TREE_H
#define WEIR_GRAPH_PLACEMENT_GAP_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct weir_gap_tree weir_gap_tree;

/* Returns a tree for steps below `steps` in which all bytes are free; NULL if memory runs out. The
 * caller owns it and frees it by weir_gap_tree_free. */
weir_gap_tree *weir_gap_tree_new(uint32_t steps);
void           weir_gap_tree_free(weir_gap_tree *t);

/* Makes all bytes free again. */
void weir_gap_tree_clear(weir_gap_tree *t);

/* Takes `bytes` (not 0) at the lowest offset at which they are free from step `first` to step
 * `last`, both included. Returns the offset; SIZE_MAX if memory runs out, after which the tree can
 * only be freed or cleared. */
size_t weir_gap_tree_take(weir_gap_tree *t, size_t bytes, uint32_t first, uint32_t last);

/* Returns the number of nodes and byte ranges visited so far, to which the time is proportional. */
uint64_t weir_gap_tree_looks(const weir_gap_tree *t);

#endif
