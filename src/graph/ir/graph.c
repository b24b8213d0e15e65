/* graph.c - the recorded step as index arrays: storages, values and nodes. */
#include "graph/ir/graph.h"

#include <string.h>

#include "core/hash.h"
#include "core/status.h"

/* ---- building ---- */

uint32_t weir_graph_storage_new(weir_graph *g, size_t bytes, weir_kind kind)
{
    const weir_storage s = {.bytes = bytes, .kind = kind, .values = WEIR_NONE, .origin = WEIR_NONE};

    return weir_vec_push(&g->storages, s) ? g->storages.n - 1 : WEIR_NONE;
}

static bool externals_grow(weir_graph *g)
{
    const uint32_t cap = g->externals.cap ? 2 * g->externals.cap : 64;
    uint32_t      *slot = weir_mem_alloc(cap * sizeof *slot);

    if (!slot)
        return false;
    memset(slot, 0xff, cap * sizeof *slot);
    for (uint32_t i = 0; i < g->externals.cap; i++) {
        const uint32_t storage = g->externals.slot[i];
        if (storage == WEIR_NONE)
            continue;
        uint64_t h = weir_hash_u64(WEIR_HASH_SEED, (uintptr_t)g->storages.at[storage].block);
        while (slot[h & (cap - 1)] != WEIR_NONE)
            h++;
        slot[h & (cap - 1)] = storage;
    }
    weir_mem_free(g->externals.slot);
    g->externals.slot = slot;
    g->externals.cap = cap;
    return true;
}

uint32_t weir_graph_storage_of(weir_graph *g, weir_block *b)
{
    if (b->owner == g)
        return b->storage;
    if (2 * (g->externals.n + 1) > g->externals.cap && !externals_grow(g))
        return WEIR_NONE;
    uint64_t h = weir_hash_u64(WEIR_HASH_SEED, (uintptr_t)b);
    for (;; h++) {
        uint32_t *slot = &g->externals.slot[h & (g->externals.cap - 1)];
        if (*slot == WEIR_NONE) {
            const uint32_t storage = weir_graph_storage_new(g, b->bytes, b->kind);
            if (storage == WEIR_NONE)
                return WEIR_NONE;
            g->storages.at[storage].external = true;
            g->storages.at[storage].block = weir_ref_take(b);
            g->externals.n++;
            return *slot = storage;
        }
        if (g->storages.at[*slot].block == b)
            return *slot;
    }
}

static bool layout_equal(const weir_layout *a, const weir_layout *b)
{
    return weir_desc_equal(&a->desc, &b->desc) &&
           memcmp(a->stride, b->stride, sizeof *a->stride * (size_t)a->desc.ndim) == 0;
}

bool weir_view_equal(const weir_graph *g, uint32_t a, uint32_t b)
{
    const weir_value *x = &g->values.at[a], *y = &g->values.at[b];

    return a == b || (x->storage == y->storage && x->offset == y->offset &&
                      layout_equal(&x->layout, &y->layout));
}

static uint64_t view_hash(uint32_t storage, const weir_layout *l, int64_t offset)
{
    uint64_t h = weir_hash_u64(WEIR_HASH_SEED, storage);

    h = weir_hash_u64(h, (uint64_t)offset);
    for (int i = 0; i < l->desc.ndim; i++)
        h = weir_hash_u64(weir_hash_u64(h, (uint64_t)l->desc.dim[i]), (uint64_t)l->stride[i]);
    return h;
}

static bool view_is(const weir_graph *g, uint32_t v, uint32_t storage, const weir_layout *l,
                    int64_t offset)
{
    const weir_value *x = &g->values.at[v];

    return x->storage == storage && x->offset == offset && layout_equal(&x->layout, l);
}

/* The slot that holds the view, or would. */
static uint32_t *view_slot(const weir_graph *g, uint32_t storage, const weir_layout *l,
                           int64_t offset)
{
    uint64_t h = view_hash(storage, l, offset);

    for (;; h++) {
        uint32_t *const slot = &g->views.slot[h & (g->views.cap - 1)];
        if (*slot == WEIR_NONE || view_is(g, *slot, storage, l, offset))
            return slot;
    }
}

static void note_view(weir_graph *g, uint32_t v)
{
    const weir_value *x = &g->values.at[v];

    *view_slot(g, x->storage, &x->layout, x->offset) = v;
    g->views.n++;
}

/* Ensures capacity for two more views; the table is never more than half full. */
static bool views_grow(weir_graph *g)
{
    if (2 * (g->views.n + 2) <= g->views.cap)
        return true;
    const uint32_t  old = g->views.cap, cap = old ? 2 * old : 64;
    uint32_t *const slot = weir_mem_alloc(cap * sizeof *slot), *const from = g->views.slot;
    if (!slot)
        return false;
    memset(slot, 0xff, cap * sizeof *slot);
    g->views.slot = slot;
    g->views.cap = cap;
    g->views.n = 0;
    for (uint32_t i = 0; i < old; i++)
        if (from[i] != WEIR_NONE)
            note_view(g, from[i]);
    weir_mem_free(from);
    return true;
}

/* Finds an equal view of the storage. During recording, a hash table holds the views of every
 * storage that has more than one. Passes modify views in place, which would invalidate the table;
 * lookups after recording scan the storage's list instead. */
static uint32_t find_view(const weir_graph *g, uint32_t storage, const weir_layout *l,
                          int64_t offset)
{
    const uint32_t head = g->storages.at[storage].values;

    if (head == WEIR_NONE || view_is(g, head, storage, l, offset))
        return head;
    if (g->state == WEIR_GRAPH_RECORDING)
        return g->values.at[head].next == WEIR_NONE ? WEIR_NONE : *view_slot(g, storage, l, offset);
    uint32_t v = head;
    while (v != WEIR_NONE && !view_is(g, v, storage, l, offset))
        v = g->values.at[v].next;
    return v;
}

uint32_t weir_graph_value_of(weir_graph *g, uint32_t storage, const weir_layout *l, int64_t offset)
{
    const uint32_t there = find_view(g, storage, l, offset);
    const uint32_t head = g->storages.at[storage].values;
    const bool     several = head != WEIR_NONE && g->state == WEIR_GRAPH_RECORDING;

    if (there != WEIR_NONE)
        return there;
    const weir_value v = {.layout = *l, .offset = offset, .storage = storage, .next = head};
    if ((several && !views_grow(g)) || !weir_vec_push(&g->values, v))
        return WEIR_NONE;
    if (several && g->values.at[head].next == WEIR_NONE)
        note_view(g, head);
    if (several)
        note_view(g, g->values.n - 1);
    return g->storages.at[storage].values = g->values.n - 1;
}

weir_node *weir_graph_node_new(weir_graph *g, const weir_call *c)
{
    weir_node n = {.op = c->op, .def = c->def, .attr_bytes = c->attr_bytes};

    if (c->attr_bytes) {
        n.attr = weir_mem_alloc(c->attr_bytes);
        if (!n.attr)
            return NULL;
        memcpy(n.attr, c->attr, c->attr_bytes);
    }
    if (weir_vec_push(&g->nodes, n))
        return &g->nodes.at[g->nodes.n - 1];
    weir_mem_free(n.attr);
    return NULL;
}

void weir_graph_redirect(weir_graph *g, uint32_t from, uint32_t to, int64_t offset)
{
    uint32_t last = WEIR_NONE;

    for (uint32_t v = g->storages.at[from].values; v != WEIR_NONE; v = g->values.at[v].next) {
        g->values.at[v].storage = to;
        g->values.at[v].offset += offset;
        last = v;
    }
    if (last == WEIR_NONE)
        return;
    g->values.at[last].next = g->storages.at[to].values;
    g->storages.at[to].values = g->storages.at[from].values;
    g->storages.at[from].values = WEIR_NONE;
}

const char *weir_storage_name(const weir_graph *g, uint32_t storage)
{
    while (g->storages.at[storage].origin != WEIR_NONE)
        storage = g->storages.at[storage].origin;
    const weir_storage *const s = &g->storages.at[storage];
    const char *const         name = s->name ? s->name : s->block ? s->block->name : NULL;

    return name ? name : "";
}

weir_call weir_node_call(const weir_graph *g, const weir_node *n, weir_layout *in, weir_layout *out)
{
    for (int i = 0; i < n->nin; i++)
        in[i] = g->values.at[n->in[i]].layout;
    for (int i = 0; i < n->nout; i++)
        out[i] = g->values.at[n->out[i]].layout;
    return (weir_call){.op = n->op, .def = n->def, .nin = n->nin, .nout = n->nout, .in = in,
                       .out = out, .attr = n->attr, .attr_bytes = n->attr_bytes, .alias = -1};
}

bool weir_may_take_over(const weir_graph *g, const weir_node *n, int k, int o)
{
    const weir_value   *x = &g->values.at[n->in[k]], *y = &g->values.at[n->out[o]];
    const weir_storage *from = &g->storages.at[x->storage], *to = &g->storages.at[y->storage];

    if (!(n->def->inplace >> k & 1) || (o > 0 && n->op != WEIR_OP_FUSED) ||
        from->external || to->external || from->bytes != to->bytes || from->bytes == 0 ||
        x->offset != 0 || x->layout.desc.dtype != y->layout.desc.dtype ||
        !weir_shape_equal(&x->layout.desc, &y->layout.desc) || !weir_shape_is_dense(&x->layout))
        return false;
    for (int j = 0; j < n->nin; j++)
        if (weir_storage_of(g, n->in[j]) == x->storage && !weir_view_equal(g, n->in[j], n->in[k]))
            return false;
    return true;
}

weir_status weir_graph_check(const weir_graph *g)
{
    weir_status status = WEIR_OK;
    bool       *there = weir_mem_zalloc(g->storages.n + 1, sizeof *there);

    if (!there)
        return WEIR_ERR_NOMEM;
    for (uint32_t i = 0; i < g->nodes.n && status == WEIR_OK; i++) {
        const weir_node *n = &g->nodes.at[i];
        if (n->dead)
            continue;
        for (int k = 0; k < n->nin && status == WEIR_OK; k++) {
            const uint32_t storage = g->values.at[n->in[k]].storage;
            if (!g->storages.at[storage].external && !there[storage])
                status = weir_fail(WEIR_ERR_STATE,
                                   "internal: node %u %s reads storage %u before it "
                                   "is made",
                                   i, n->def->name, storage);
        }
        for (int k = 0; k < n->nout && status == WEIR_OK; k++) {
            const uint32_t storage = g->values.at[n->out[k]].storage;
            if (there[storage])
                status = weir_fail(WEIR_ERR_STATE, "internal: node %u %s makes storage %u a second "
                                   "time", i, n->def->name, storage);
            there[storage] = true;
        }
    }
    weir_mem_free(there);
    return status;
}
