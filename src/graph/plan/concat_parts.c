/* concat_parts.c - lets the inputs of a concatenation be computed where it puts them: buckets of
 * gradients, and the rows that a dynamic network joins, are then never copied.
 *
 * An input becomes a part of the result's item if it dies there, is dense and lies in the result as
 * it lies in its own storage; the call then finds it in place and copies the others. The item lives
 * from the first of its parts on. That may need more memory where one is computed long before the
 * others, so the finished plan is replaced only by one that needs no more. */
#include <string.h>

#include "core/attr.h"
#include "graph/ir/pass_set.h"
#include "graph/plan/plan.h"

/* Plans that are tried, each without the first concatenations of the one before. */
enum { TRIES = 4 };

typedef struct parts {
    const weir_graph *g;
    weir_plan        *p;
    uint32_t         *into;     /* [items] the item that one is a part of, or WEIR_NONE, */
    size_t           *at;       /* and its offset there, in bytes */
    uint32_t          found;
} parts;

static bool lies_alike(const weir_layout *in, const weir_layout *out)
{
    for (int i = 0; i < in->desc.ndim; i++)
        if (in->desc.dim[i] > 1 && in->stride[i] != out->stride[i])
            return false;
    return weir_shape_is_dense(in);
}

/* May value `in` of node i be computed at byte `at` of item `whole`? */
static bool may_be_part(const parts *q, uint32_t i, uint32_t in, uint32_t whole, size_t at)
{
    const weir_value *const v = &q->g->values.at[in];
    const weir_value *const y = &q->g->values.at[q->g->nodes.at[i].out[0]];
    const uint32_t          item = q->p->item_of[v->storage];

    if (item == WEIR_NONE || item == whole || q->into[item] != WEIR_NONE || v->offset != 0 ||
        at % q->p->dev->ops->align != 0)
        return false;
    const weir_item *const it = &q->p->items.at[item];
    const size_t           bytes = weir_shape_bytes(&v->layout.desc);
    return bytes > 0 && bytes == q->g->storages.at[v->storage].bytes && it->last == i &&
           lies_alike(&v->layout, &y->layout);
}

static void join(parts *q, uint32_t i)
{
    const weir_node *const  n = &q->g->nodes.at[i];
    const weir_value *const y = &q->g->values.at[n->out[0]];
    const int               axis = (int)((const weir_axis_attr *)n->attr)->axis;
    const size_t            step = (size_t)y->layout.stride[axis] *
                                   weir_dtype_size(y->layout.desc.dtype);
    const uint32_t          whole = q->p->item_of[y->storage];
    int64_t                 begin = 0;

    for (int k = 0; k < n->nin && whole != WEIR_NONE && y->offset == 0; k++) {
        const weir_value *const v = &q->g->values.at[n->in[k]];
        const size_t            at = (size_t)begin * step;
        begin += v->layout.desc.dim[axis];
        if (!may_be_part(q, i, n->in[k], whole, at))
            continue;
        const uint32_t   item = q->p->item_of[v->storage];
        weir_item *const part = &q->p->items.at[item], *const all = &q->p->items.at[whole];
        all->first = part->first < all->first ? part->first : all->first;
        part->bytes = 0;
        part->storage = WEIR_NONE;
        q->into[item] = whole;
        q->at[item] = at;
        q->found++;
    }
}

/* Gives all storages of parts the item and the offset that they are in. */
static bool resolve(parts *q)
{
    weir_plan *const p = q->p;

    p->part_at = weir_mem_zalloc(q->g->storages.n + 1u, sizeof *p->part_at);
    if (!p->part_at)
        return false;
    for (uint32_t s = 0; s < q->g->storages.n; s++)
        while (p->item_of[s] != WEIR_NONE && q->into[p->item_of[s]] != WEIR_NONE) {
            p->part_at[s] += q->at[p->item_of[s]];
            p->item_of[s] = q->into[p->item_of[s]];
        }
    return true;
}

static bool is_concat(const weir_graph *g, uint32_t i)
{
    return g->nodes.at[i].op == WEIR_OP_CONCAT;
}

/* Joins parts in the lowered plan g->plan, from node `from` on. */
static weir_status join_parts(const weir_graph *g, uint32_t from, uint32_t *found)
{
    weir_plan *const p = g->plan;
    parts            q = {.g = g, .p = p};

    q.into = weir_mem_alloc((p->items.n + 1) * sizeof *q.into);
    q.at = weir_mem_zalloc(p->items.n + 1u, sizeof *q.at);
    bool ok = q.into && q.at;
    if (ok)
        memset(q.into, 0xff, (p->items.n + 1) * sizeof *q.into);
    for (uint32_t i = from; ok && i < g->nodes.n; i++)
        if (is_concat(g, i))
            join(&q, i);
    ok = ok && (q.found == 0 || resolve(&q));
    *found = q.found;
    weir_mem_free(q.into);
    weir_mem_free(q.at);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}

/* Makes a plan whose concatenations from node `from` on have parts. */
static weir_status plan_with_parts(weir_graph *g, const weir_plan *old, uint32_t from,
                                   uint32_t *found)
{
    WEIR_TRY(weir_plan_lower(g, old->passes));
    WEIR_TRY(join_parts(g, from, found));
    if (*found == 0)
        return WEIR_OK;
    return weir_plan_place_lowered(g, old, old->arena);
}

static void keep(weir_plan *p, weir_plan *old)
{
    p->scheduled = old->scheduled;
    old->scheduled = NULL;
    weir_plan_succeed(p, old);
}

/* The node behind the first `n` concatenations. */
static uint32_t behind(const weir_graph *g, uint32_t n)
{
    uint32_t i = 0;

    for (; i < g->nodes.n && n > 0; i++)
        n -= is_concat(g, i);
    return i;
}

weir_status weir_plan_join_parts(weir_graph *g)
{
    weir_plan *const old = g->plan;
    weir_status      status = WEIR_OK;
    uint32_t         concats = 0, found = 1;

    for (uint32_t i = 0; i < g->nodes.n; i++)
        concats += is_concat(g, i);
    if (!(old->passes >> WEIR_PASS_CONCAT_PARTS & 1) || g->dev->ops->streams || g->dev->guard ||
        concats == 0)
        return WEIR_OK;
    for (uint32_t t = 0; t < TRIES && status == WEIR_OK && found > 0; t++) {
        g->plan = NULL;
        status = plan_with_parts(g, old, behind(g, concats * t / TRIES), &found);
        if (status == WEIR_OK && found > 0 && g->plan->arena <= old->arena) {
            keep(g->plan, old);
            return WEIR_OK;
        }
        weir_plan_free(g->plan);
        g->plan = old;
    }
    return status;
}
