/* leaf_table.h - numbers of leaves (tensor.h), and where each stands in a list. */
#ifndef WEIR_GRAPH_AUTODIFF_LEAF_TABLE_H
#define WEIR_GRAPH_AUTODIFF_LEAF_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#define WEIR_NO_LEAF UINT32_MAX

typedef struct weir_leaf_entry {
    uint64_t leaf;              /* 0: none */
    uint32_t at;
} weir_leaf_entry;

/* All zero: empty. You own it: weir_leaf_table_free. */
typedef struct weir_leaf_table {
    weir_leaf_entry *entry;     /* [cap] open addressing, never more than half full */
    uint32_t         cap, n;
} weir_leaf_table;

/* Where the leaf stands; WEIR_NO_LEAF: nowhere. */
uint32_t weir_leaf_find(const weir_leaf_table *t, uint64_t leaf);

/* Adds a leaf that is not there yet. False when memory is short. */
bool weir_leaf_add(weir_leaf_table *t, uint64_t leaf, uint32_t at);
void weir_leaf_table_free(weir_leaf_table *t);

#endif
