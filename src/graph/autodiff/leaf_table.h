/* leaf_table.h - maps the numbers of leaves (tensor.h) to their positions in a list. */
#ifndef WEIR_GRAPH_AUTODIFF_LEAF_TABLE_H
#define WEIR_GRAPH_AUTODIFF_LEAF_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#define WEIR_NO_LEAF UINT32_MAX

typedef struct weir_leaf_entry {
    uint64_t leaf;              /* 0: none */
    uint32_t at;
} weir_leaf_entry;

/* Zero-initialized: empty. The caller frees it by weir_leaf_table_free. */
typedef struct weir_leaf_table {
    weir_leaf_entry *entry;     /* [cap] open addressing, never more than half full */
    uint32_t         cap, n;
} weir_leaf_table;

/* Returns the leaf's position; WEIR_NO_LEAF if the table does not have it. */
uint32_t weir_leaf_find(const weir_leaf_table *t, uint64_t leaf);

/* Adds a leaf that is not in the table yet. Returns false if memory is short. */
bool weir_leaf_add(weir_leaf_table *t, uint64_t leaf, uint32_t at);
void weir_leaf_table_free(weir_leaf_table *t);

#endif
