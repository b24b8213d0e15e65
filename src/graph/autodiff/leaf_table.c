/* leaf_table.c - a hash table keyed by the numbers of leaves. */
#include "graph/autodiff/leaf_table.h"

#include "core/hash.h"
#include "core/mem.h"

/* The leaf's entry, or the empty one where it would be inserted. */
static weir_leaf_entry *entry_of(const weir_leaf_table *t, uint64_t leaf)
{
    uint64_t h = weir_hash_u64(WEIR_HASH_SEED, leaf);

    while (t->entry[h & (t->cap - 1)].leaf && t->entry[h & (t->cap - 1)].leaf != leaf)
        h++;
    return &t->entry[h & (t->cap - 1)];
}

static bool grow(weir_leaf_table *t)
{
    weir_leaf_table more = {.cap = t->cap ? 2 * t->cap : 64, .n = t->n};

    more.entry = weir_mem_zalloc(more.cap, sizeof *more.entry);
    if (!more.entry)
        return false;
    for (uint32_t i = 0; i < t->cap; i++)
        if (t->entry[i].leaf)
            *entry_of(&more, t->entry[i].leaf) = t->entry[i];
    weir_mem_free(t->entry);
    *t = more;
    return true;
}

uint32_t weir_leaf_find(const weir_leaf_table *t, uint64_t leaf)
{
    const weir_leaf_entry *const e = t->cap ? entry_of(t, leaf) : NULL;

    return e && e->leaf ? e->at : WEIR_NO_LEAF;
}

bool weir_leaf_add(weir_leaf_table *t, uint64_t leaf, uint32_t at)
{
    if (2 * (t->n + 1) > t->cap && !grow(t))
        return false;
    *entry_of(t, leaf) = (weir_leaf_entry){leaf, at};
    t->n++;
    return true;
}

void weir_leaf_table_free(weir_leaf_table *t)
{
    weir_mem_free(t->entry);
    *t = (weir_leaf_table){0};
}
