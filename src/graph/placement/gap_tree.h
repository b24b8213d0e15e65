/* gap_tree.h - which bytes are taken at which steps, and the lowest ones free over some steps. */
#ifndef WEIR_GRAPH_PLACEMENT_GAP_TREE_H
#define WEIR_GRAPH_PLACEMENT_GAP_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct weir_gap_tree weir_gap_tree;

/* For steps below `steps`, all bytes free. NULL when memory is short. The caller owns it:
 * weir_gap_tree_free. */
weir_gap_tree *weir_gap_tree_new(uint32_t steps);
void           weir_gap_tree_free(weir_gap_tree *t);

/* Frees all bytes again. */
void weir_gap_tree_clear(weir_gap_tree *t);

/* Takes `bytes` (not 0) at the lowest offset at which they are free from step `first` to `last`,
 * and returns the offset. SIZE_MAX when memory is short: the tree can then only be freed or
 * cleared. */
size_t weir_gap_tree_take(weir_gap_tree *t, size_t bytes, uint32_t first, uint32_t last);

/* Nodes and ranges of bytes visited so far: the time is proportional to it. */
uint64_t weir_gap_tree_looks(const weir_gap_tree *t);

#endif
