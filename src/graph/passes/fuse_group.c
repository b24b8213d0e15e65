/* fuse_group.c - membership of groups of element-wise nodes, and their inputs and outputs. See
 * fuse.h. */
#include <string.h>

#include "core/mem.h"
#include "graph/passes/fuse.h"

const weir_group weir_group_empty = {0};

/* Turns counts in first[1..n] into offsets. */
static void offsets(uint32_t *first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        first[i + 1] += first[i];
}

/* Notes that node i reads or overwrites storage s: pass 0 counts, pass 1 fills the CSR lists. */
static void note_access(weir_fuser *f, int pass, uint32_t i, uint32_t s, bool writes)
{
    if (pass == 0) {
        f->reader_first[s + 2]++;
        f->writer_first[s + 2] += writes;
        return;
    }
    f->reader[f->reader_first[s + 1]++] = i;
    if (writes)
        f->writer[f->writer_first[s + 1]++] = i;
}

static void free_index(weir_fuser *f)
{
    weir_mem_free(f->maker);
    weir_mem_free(f->reader_first);
    weir_mem_free(f->reader);
    weir_mem_free(f->writer_first);
    weir_mem_free(f->writer);
    weir_mem_free(f->late);
}

bool weir_fuser_index(weir_fuser *f)
{
    const weir_graph *g = f->g;
    uint32_t          reads = 0;

    free_index(f);
    for (uint32_t i = 0; i < g->nodes.n; i++)
        reads += g->nodes.at[i].nin;
    f->maker = weir_mem_alloc((g->storages.n + 1) * sizeof *f->maker);
    f->reader_first = weir_mem_zalloc(g->storages.n + 2, sizeof *f->reader_first);
    f->writer_first = weir_mem_zalloc(g->storages.n + 2, sizeof *f->writer_first);
    f->reader = weir_mem_alloc((reads + 1) * sizeof *f->reader);
    f->writer = weir_mem_alloc((reads + 1) * sizeof *f->writer);
    f->late = weir_mem_zalloc(g->storages.n + 1, sizeof *f->late);
    if (!f->maker || !f->reader_first || !f->writer_first || !f->reader || !f->writer || !f->late)
        return false;
    memset(f->maker, 0xff, (g->storages.n + 1) * sizeof *f->maker);
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < g->nodes.n; i++) {
            const weir_node *n = &g->nodes.at[i];
            for (int k = 0; k < n->nin && !n->dead; k++) {
                const uint32_t s = weir_storage_of(g, n->in[k]);
                const bool     writes = n->def->mutates >> k & 1;
                note_access(f, pass, i, s, writes);
            }
            for (int k = 0; k < n->nout; k++)
                f->maker[weir_storage_of(g, n->out[k])] = i;
        }
        if (pass == 0) {
            offsets(f->reader_first, g->storages.n + 1);
            offsets(f->writer_first, g->storages.n + 1);
        }
    }
    return true;
}

void weir_fuser_free(weir_fuser *f)
{
    weir_mem_free(f->group_of);
    weir_mem_free(f->groups);
    free_index(f);
}

bool weir_fuse_overwritten(const weir_fuser *f, uint32_t storage, uint32_t from, uint32_t to)
{
    for (uint32_t w = f->writer_first[storage]; w < f->writer_first[storage + 1]; w++)
        if (f->writer[w] > from && f->writer[w] < to)
            return true;
    return false;
}

weir_group weir_group_alone(uint32_t node)
{
    return (weir_group){.last = node, .n = 1, .member = {node}};
}

weir_group weir_group_joined(const weir_group *a, const weir_group *b)
{
    weir_group all = {0};
    uint32_t   i = 0, k = 0;

    while (i < a->n || k < b->n) {
        const bool from_a = k == b->n || (i < a->n && a->member[i] < b->member[k]);
        all.member[all.n++] = from_a ? a->member[i++] : b->member[k++];
    }
    all.last = all.member[all.n - 1];
    return all;
}

bool weir_group_has(const weir_group *a, uint32_t node)
{
    for (uint32_t i = 0; i < a->n; i++)
        if (a->member[i] == node)
            return true;
    return false;
}

bool weir_group_makes(const weir_fuser *f, const weir_group *a, const weir_group *b,
                      uint32_t storage)
{
    const uint32_t m = f->maker[storage];
    return m != WEIR_NONE && (weir_group_has(a, m) || weir_group_has(b, m));
}

bool weir_group_gives(const weir_fuser *f, const weir_group *a, const weir_group *b, uint32_t m)
{
    const uint32_t out = weir_storage_of(f->g, f->g->nodes.at[m].out[0]);

    if (f->g->storages.at[out].external)
        return true;
    for (uint32_t r = f->reader_first[out]; r < f->reader_first[out + 1]; r++)
        if (!weir_group_has(a, f->reader[r]) && !weir_group_has(b, f->reader[r]))
            return true;
    return false;
}

uint32_t weir_group_inputs(const weir_fuser *f, const weir_group *a, const weir_group *b,
                           uint32_t in[2 * WEIR_EW_MAX_STEPS * WEIR_MAX_IN])
{
    const weir_group *both[2] = {a, b};
    uint32_t          n = 0;

    for (int side = 0; side < 2; side++)
        for (uint32_t i = 0; i < both[side]->n; i++) {
            const weir_node *m = &f->g->nodes.at[both[side]->member[i]];
            for (int k = 0; k < m->nin; k++) {
                uint32_t j = 0;
                while (j < n && !weir_view_equal(f->g, in[j], m->in[k]))
                    j++;
                if (j == n && !weir_group_makes(f, a, b, weir_storage_of(f->g, m->in[k])))
                    in[n++] = m->in[k];
            }
        }
    return n;
}

bool weir_group_next(const weir_graph *g, const weir_group *early, const weir_group *late)
{
    for (uint32_t i = early->last + 1; i < late->last; i++)
        if (!g->nodes.at[i].dead && !weir_group_has(late, i))
            return false;
    return true;
}
