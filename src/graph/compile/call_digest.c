/* call_digest.c - digests recorded calls without what is a process's own: addresses, and numbers
 * that depend on what was recorded before. See call_digest.h. */
#include "graph/compile/call_digest.h"

#include "core/attr.h"
#include "core/hash.h"
#include "graph/ir/format.h"
#include "weir/callback.h"

/* Numbers of storages, in the order in which calls read or make them. */
typedef struct digester {
    const weir_graph *g;
    uint32_t         *number;   /* [storages] WEIR_NONE: not met yet */
    uint32_t          next;
} digester;

bool weir_is_of_all_ranks(const weir_node *n)
{
    return (n->def->flags & WEIR_COLLECTIVE) != 0 && n->op != WEIR_OP_SEND_TO &&
           n->op != WEIR_OP_RECV_FROM;
}

static uint64_t add_text(uint64_t h, const char *text)
{
    return weir_hash_bytes(h, text, strlen(text));
}

/* The number of a communicator among those of the graph. */
static uint64_t number_of(const weir_graph *g, uint64_t comm)
{
    uint64_t i = 0;

    while (i < g->agreed.n && (uintptr_t)g->agreed.at[i].comm != comm)
        i++;
    return i;
}

static uint64_t add_attr(const weir_graph *g, uint64_t h, const weir_node *n)
{
    if (n->op == WEIR_OP_CALLBACK || n->op == WEIR_OP_CALLBACK_GRAD) {
        weir_callback_attr             a = *(const weir_callback_attr *)n->attr;
        const weir_callback_def *const def = (const weir_callback_def *)(uintptr_t)a.def;
        h = add_text(h, def->name ? def->name : "");
        a.def = a.ctx = 0;
        return weir_hash_bytes(h, &a, sizeof a);
    }
    if (n->def->flags & WEIR_COLLECTIVE) {
        weir_collective_attr a = *(const weir_collective_attr *)n->attr;
        a.comm = number_of(g, a.comm);
        a.rank = 0;
        return weir_hash_bytes(h, &a, sizeof a);
    }
    return n->attr_bytes ? weir_hash_bytes(h, n->attr, n->attr_bytes) : h;
}

static uint64_t add_layout(uint64_t h, const weir_value *v)
{
    const weir_layout *const l = &v->layout;

    h = weir_hash_u64(h, (uint64_t)l->desc.dtype << 8 | (uint64_t)l->desc.ndim);
    for (int i = 0; i < l->desc.ndim; i++)
        h = weir_hash_u64(weir_hash_u64(h, (uint64_t)l->desc.dim[i]), (uint64_t)l->stride[i]);
    return weir_hash_u64(h, (uint64_t)v->offset);
}

/* Which storage a value is of; one from outside also by its kind and size. Which results outlive a
 * run changes no bit of them. */
static uint64_t add_storage(digester *d, uint64_t h, uint32_t storage)
{
    const weir_storage *const s = &d->g->storages.at[storage];

    if (d->number[storage] == WEIR_NONE) {
        d->number[storage] = d->next++;
        h = weir_hash_u64(weir_hash_u64(h, s->external && !s->made ? 1 + s->kind : 0), s->bytes);
    }
    return weir_hash_u64(h, d->number[storage]);
}

static uint64_t digest_of(digester *d, const weir_node *n, bool whole)
{
    const weir_graph *const g = d->g;
    uint64_t                h = add_text(WEIR_HASH_SEED, n->def->name);

    h = weir_hash_u64(h, (uint64_t)n->nin << 8 | n->nout);
    if (whole)
        h = weir_hash_u64(weir_hash_u64(h, n->phase), n->rng);
    for (int i = 0; i < n->nin + n->nout; i++) {
        const uint32_t v = i < n->nin ? n->in[i] : n->out[i - n->nin];
        h = add_layout(h, &g->values.at[v]);
        if (whole)
            h = add_storage(d, h, weir_storage_of(g, v));
    }
    return add_attr(g, h, n);
}

static bool is_listed(const weir_node *n, const weir_comm *only)
{
    if (n->dead)
        return false;
    return !only || (weir_is_of_all_ranks(n) &&
                     ((const weir_collective_attr *)n->attr)->comm == (uintptr_t)only);
}

weir_status weir_call_digests_make(weir_call_digests *list, const weir_graph *g,
                                   const weir_comm *only)
{
    const size_t bytes = ((size_t)g->storages.n + 1) * sizeof(uint32_t);
    digester     d = {.g = g, .number = weir_mem_alloc(bytes)};
    bool         whole = d.number != NULL;

    *list = (weir_call_digests){.all = WEIR_HASH_SEED};
    if (d.number)
        memset(d.number, 0xff, bytes);
    for (uint32_t i = 0; i < g->nodes.n && whole; i++) {
        const weir_node *const n = &g->nodes.at[i];
        if (!is_listed(n, only))
            continue;
        const weir_call_digest one = {digest_of(&d, n, !only), i};
        list->all = weir_hash_u64(list->all, one.digest);
        whole = weir_vec_push(&list->calls, one);
    }
    weir_mem_free(d.number);
    return whole ? WEIR_OK : WEIR_ERR_NOMEM;
}

void weir_call_digests_free(weir_call_digests *d)
{
    weir_vec_free(&d->calls);
}

void weir_call_digest_text(weir_string *s, const weir_graph *g, uint32_t node)
{
    const weir_node *const n = &g->nodes.at[node];

    weir_format_node(s, g, node, NULL);
    for (int i = 0; i < n->nin; i++) {
        weir_string_add(s, i ? ", " : ": ");
        weir_format_layout(s, &g->values.at[n->in[i]].layout);
    }
    for (int i = 0; i < n->nout; i++) {
        weir_string_add(s, i ? ", " : " -> ");
        weir_format_layout(s, &g->values.at[n->out[i]].layout);
    }
}
