/* join_sums.c - finds sums over ranks that may share a message, and joins them. See join_sums.h.
 *
 * Elements lie in a bucket as in the operands' own memory, so that the pass concat_parts can let
 * them be computed there: nothing is brought into another layout. A scaling of all sums of a bucket
 * becomes one of the bucket, in place; of one sum it could not be, since the others live on. */
#include "graph/compile/join_sums.h"

#include <string.h>

#include "core/attr.h"
#include "core/dtype.h"
#include "core/mem.h"
#include "core/status.h"
#include "graph/ir/touched.h"
#include "graph/ops/op.h"

/* ---- the list ---- */

/* Is the value all of a temporary storage, without gaps? */
static bool is_whole(const weir_graph *g, uint32_t value)
{
    const weir_value *const   v = &g->values.at[value];
    const weir_storage *const s = &g->storages.at[v->storage];

    return !s->external && v->offset == 0 && weir_shape_is_dense(&v->layout) &&
           weir_shape_bytes(&v->layout.desc) == s->bytes && s->bytes > 0;
}

static bool may_join(const weir_graph *g, const weir_node *n, const weir_comm *c)
{
    const weir_collective_attr *const a = n->attr;

    return !n->dead && n->op == WEIR_OP_ALL_REDUCE && a->comm == (uintptr_t)c && a->bucket != 0 &&
           n->region == 0 && is_whole(g, n->in[0]) && is_whole(g, n->out[0]);
}

/* Does the next sum of the list, node n, begin a bucket for reasons of its own? */
static bool begins(const weir_graph *g, const weir_bucket_sums *sums, const weir_node *n)
{
    const weir_node *const last = &g->nodes.at[sums->at[sums->n - 1].node];

    return n->half != last->half ||
           g->values.at[n->in[0]].layout.desc.dtype != sums->at[sums->n - 1].dtype ||
           ((const weir_collective_attr *)n->attr)->bucket !=
               ((const weir_collective_attr *)last->attr)->bucket;
}

static weir_status list_sums(const weir_graph *g, const weir_comm *c, weir_touched *t,
                             weir_bucket_sums *sums)
{
    const weir_rates rates = g->dev->ops->rates(g->dev);
    weir_layout      in[WEIR_EW_MAX_IN], out[WEIR_MAX_OUT];
    double           seconds = 0;

    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const weir_node *const n = &g->nodes.at[i];
        const bool             late = weir_touched_before(t, g, n);
        if (n->dead)
            continue;
        if (may_join(g, n, c)) {
            const bool        first = late || sums->n == 0 || begins(g, sums, n);
            const weir_desc  *d = &g->values.at[n->in[0]].layout.desc;
            if (!weir_vec_push(sums, ((weir_bucket_sum){i, d->dtype, weir_shape_bytes(d), seconds,
                                                        first})))
                return WEIR_ERR_NOMEM;
            if (first)
                weir_touched_clear(t);
            weir_touched_operands(t, g, n);
            continue;
        }
        if (late)
            weir_touched_operands(t, g, n);
        t->caller |= (n->def->flags & WEIR_CALLER) != 0;
        if (n->def->flags & WEIR_COLLECTIVE)
            continue;
        const weir_call call = weir_node_call(g, n, in, out);
        seconds += weir_rates_seconds(&rates, &call);
    }
    return WEIR_OK;
}

weir_status weir_sums_find(const weir_graph *g, const weir_comm *c, weir_bucket_sums *sums)
{
    weir_touched      t;
    const weir_status status =
        weir_touched_open(&t, g->storages.n) ? list_sums(g, c, &t, sums) : WEIR_ERR_NOMEM;

    weir_touched_close(&t);
    return status;
}

/* ---- joining ---- */

typedef struct joiner {
    weir_graph              *g;
    const weir_bucket_sums  *sums;
    const bool              *ends;
    weir_sums_before        *before;
    weir_touched             t;
    uint32_t                *held, n_held;      /* nodes that follow the bucket at hand */
    bool                    *replaced;          /* [nodes] a scaling that the bucket's replaces */
    uint32_t                *readers, *reader;  /* [storages] their number, and the last one */
    WEIR_VEC(weir_node)      nodes;             /* the new list */
} joiner;

static const weir_node *sum_at(const joiner *s, uint32_t k)
{
    return &s->before->nodes[s->sums->at[k].node];
}

/* Adds a node with `like`'s place in the step and a copy of the attributes; NULL without memory. */
static weir_node *add_node(joiner *s, weir_op op, const weir_node *like, const void *attr,
                           size_t bytes)
{
    weir_node n = {.op = op, .def = weir_opdef_of(op), .phase = like->phase, .half = like->half,
                   .nin = 1, .nout = 1, .attr_bytes = bytes, .attr = weir_mem_alloc(bytes)};

    if (!n.attr)
        return NULL;
    memcpy(n.attr, attr, bytes);
    if (!weir_vec_push(&s->before->made, n.attr)) {
        weir_mem_free(n.attr);
        return NULL;
    }
    return weir_vec_push(&s->nodes, n) ? &s->nodes.at[s->nodes.n - 1] : NULL;
}

/* A value of `count` elements in a row, of the storage. */
static uint32_t row_of(weir_graph *g, uint32_t storage, weir_dtype dtype, int64_t count)
{
    weir_layout l = {.desc = weir_1d(dtype, count)};

    weir_shape_dense(&l);
    return weir_graph_value_of(g, storage, &l, 0);
}

/* The same in a storage of its own. */
static uint32_t new_row(weir_graph *g, weir_dtype dtype, int64_t count)
{
    const size_t   bytes = (size_t)count * weir_dtype_size(dtype);
    const uint32_t storage = weir_graph_storage_new(g, bytes, WEIR_KIND_GRADIENT);

    return storage == WEIR_NONE ? WEIR_NONE : row_of(g, storage, dtype, count);
}

/* Concatenates rows; more than a call takes in groups. Returns a value, or WEIR_NONE. */
static uint32_t concat(joiner *s, const weir_node *like, uint32_t *row, uint32_t n)
{
    const weir_axis_attr along = {0};
    int64_t              count = 0;

    if (n > WEIR_MAX_IN) {
        uint32_t groups = 0;
        for (uint32_t i = 0; i < n; i += WEIR_MAX_IN, groups++) {
            row[groups] = concat(s, like, row + i, n - i < WEIR_MAX_IN ? n - i : WEIR_MAX_IN);
            if (row[groups] == WEIR_NONE)
                return WEIR_NONE;
        }
        return concat(s, like, row, groups);
    }
    if (n == 1)
        return row[0];
    for (uint32_t i = 0; i < n; i++)
        count += s->g->values.at[row[i]].layout.desc.dim[0];
    const uint32_t   y = new_row(s->g, s->g->values.at[row[0]].layout.desc.dtype, count);
    weir_node *const c =
        y == WEIR_NONE ? NULL : add_node(s, WEIR_OP_CONCAT, like, &along, sizeof along);
    if (!c)
        return WEIR_NONE;
    c->nin = (uint8_t)n;
    memcpy(c->in, row, n * sizeof *row);
    c->out[0] = y;
    return y;
}

/* The node that scales sum k if nothing else reads it, as `first` scales another, or NULL. */
static const weir_node *scaling_of(const joiner *s, uint32_t k, const weir_node *first)
{
    const uint32_t storage = weir_storage_of(s->g, sum_at(s, k)->out[0]);

    if (s->readers[storage] != 1)
        return NULL;
    const weir_node *const n = &s->before->nodes[s->reader[storage]];
    const bool scales = n->op == WEIR_OP_AFFINE && n->region == 0 && is_whole(s->g, n->out[0]) &&
                        weir_storage_at(s->g, n->out[0])->bytes ==
                            weir_storage_at(s->g, n->in[0])->bytes &&
                        s->g->values.at[n->out[0]].layout.desc.dtype ==
                            s->g->values.at[n->in[0]].layout.desc.dtype;
    return scales && (!first || (n->attr_bytes == first->attr_bytes &&
                                 memcmp(n->attr, first->attr, n->attr_bytes) == 0 &&
                                 n->half == first->half))
               ? n
               : NULL;
}

static bool scales_alike(const joiner *s, uint32_t from, uint32_t to)
{
    const weir_node *const first = scaling_of(s, from, NULL);

    for (uint32_t k = from; k < to && first; k++)
        if (!scaling_of(s, k, first))
            return false;
    return first != NULL;
}

/* Makes the results of the nodes views of the row `to`, one behind the other. */
static void place_results(joiner *s, uint32_t from, uint32_t to, uint32_t row, bool scaled)
{
    const uint32_t whole = weir_storage_of(s->g, row);
    int64_t        at = 0;

    for (uint32_t k = from; k < to; k++) {
        const weir_node *const n = scaled ? scaling_of(s, k, NULL) : sum_at(s, k);
        const int64_t count = weir_shape_count(&s->g->values.at[n->out[0]].layout.desc);
        weir_graph_redirect(s->g, weir_storage_of(s->g, n->out[0]), whole, at);
        at += count;
    }
}

/* Leaves the scalings of sums out, since one of the bucket replaces them. */
static bool drop_scalings(joiner *s, uint32_t from, uint32_t to)
{
    bool ok = true;

    for (uint32_t k = from; k < to && ok; k++) {
        const uint32_t i = s->reader[weir_storage_of(s->g, sum_at(s, k)->out[0])];
        s->replaced[i] = true;
        ok = weir_vec_push(&s->before->gone, s->before->nodes[i].attr);
    }
    return ok;
}

/* Adds the scaling of the bucket in row `sum`; false without memory. */
static bool scale(joiner *s, uint32_t from, uint32_t to, uint32_t sum)
{
    const weir_node *const first = scaling_of(s, from, NULL);
    const weir_desc        d = s->g->values.at[sum].layout.desc;
    const uint32_t         y = new_row(s->g, d.dtype, d.dim[0]);
    weir_node *const       n =
        y == WEIR_NONE ? NULL : add_node(s, first->op, first, first->attr, first->attr_bytes);

    if (!n)
        return false;
    n->name = first->name;
    n->in[0] = sum;
    n->out[0] = y;
    place_results(s, from, to, y, true);
    return drop_scalings(s, from, to);
}

/* Adds the message of sums [from, to) to the list. */
static bool add_bucket(joiner *s, uint32_t from, uint32_t to)
{
    const weir_node *const last = sum_at(s, to - 1);
    const weir_dtype       dtype = s->sums->at[from].dtype;
    uint32_t *const        row = weir_mem_alloc((to - from) * sizeof *row);
    uint32_t               x = WEIR_NONE, y = WEIR_NONE;
    bool                   ok = row != NULL;

    for (uint32_t k = from; k < to && ok; k++) {
        const weir_value v = s->g->values.at[sum_at(s, k)->in[0]];
        row[k - from] = row_of(s->g, v.storage, dtype, weir_shape_count(&v.layout.desc));
        ok = row[k - from] != WEIR_NONE && weir_vec_push(&s->before->gone, sum_at(s, k)->attr);
    }
    if (ok)
        x = concat(s, last, row, to - from);
    weir_mem_free(row);
    if (x != WEIR_NONE)
        y = new_row(s->g, dtype, s->g->values.at[x].layout.desc.dim[0]);
    weir_node *const sum =
        y == WEIR_NONE ? NULL
                       : add_node(s, WEIR_OP_ALL_REDUCE, last, last->attr, last->attr_bytes);
    if (!sum)
        return false;
    sum->in[0] = x;
    sum->out[0] = y;
    for (uint32_t k = from; k < to && ok; k++)
        ok = weir_names_join(&s->g->names, &sum->name, sum_at(s, k)->name);
    if (ok && scales_alike(s, from, to))
        return scale(s, from, to, y);
    place_results(s, from, to, y, false);
    return ok;
}

static bool push_held(joiner *s)
{
    bool ok = true;

    for (uint32_t h = 0; h < s->n_held && ok; h++)
        ok = s->replaced[s->held[h]] ||
             weir_vec_push(&s->nodes, s->before->nodes[s->held[h]]);
    s->n_held = 0;
    return ok;
}

/* Adds node i, or holds it back until the bucket at hand is complete. */
static bool take(joiner *s, uint32_t i)
{
    const weir_node *const n = &s->before->nodes[i];

    if (s->replaced[i])
        return true;
    if (!weir_touched_before(&s->t, s->g, n))
        return weir_vec_push(&s->nodes, *n);
    weir_touched_call(&s->t, s->g, n);
    s->held[s->n_held++] = i;
    return true;
}

static bool join(joiner *s)
{
    uint32_t next = 0, from = 0;
    bool     ok = true;

    for (uint32_t i = 0; i < s->before->n && ok; i++) {
        const weir_node *const n = &s->before->nodes[i];
        if (next == s->sums->n || s->sums->at[next].node != i) {
            ok = take(s, i);
            continue;
        }
        weir_touched_operands(&s->t, s->g, n);
        if (!s->ends[next++])
            continue;
        ok = next - from > 1 ? add_bucket(s, from, next) && push_held(s)
                             : weir_vec_push(&s->nodes, *n);
        weir_touched_clear(&s->t);
        from = next;
    }
    return ok;
}

static void count_readers(joiner *s)
{
    for (uint32_t i = 0; i < s->before->n; i++)
        for (int k = 0; k < s->before->nodes[i].nin; k++) {
            const uint32_t at = weir_storage_of(s->g, s->before->nodes[i].in[k]);
            s->readers[at]++;
            s->reader[at] = i;
        }
}

/* Takes the list of nodes over, and copies what views are changed. */
static bool save(weir_graph *g, weir_sums_before *b)
{
    *b = (weir_sums_before){.n = g->nodes.n, .cap = g->nodes.cap, .n_values = g->values.n,
                            .n_storages = g->storages.n, .nodes = g->nodes.at};
    b->values = weir_mem_alloc((g->values.n + 1u) * sizeof *b->values);
    b->first = weir_mem_alloc((g->storages.n + 1u) * sizeof *b->first);
    if (!b->values || !b->first)
        return false;
    memcpy(b->values, g->values.at, g->values.n * sizeof *b->values);
    for (uint32_t i = 0; i < g->storages.n; i++)
        b->first[i] = g->storages.at[i].values;
    return true;
}

static void forget(weir_sums_before *b)
{
    weir_mem_free(b->values);
    weir_mem_free(b->first);
    weir_vec_free(&b->made);
    weir_vec_free(&b->gone);
    *b = (weir_sums_before){0};
}

/* Restores values and storages, and frees the attributes of new nodes. */
static void restore(weir_graph *g, weir_sums_before *b)
{
    if (b->values && b->first) {
        memcpy(g->values.at, b->values, b->n_values * sizeof *b->values);
        for (uint32_t i = 0; i < b->n_storages; i++)
            g->storages.at[i].values = b->first[i];
    }
    g->values.n = b->n_values;
    g->storages.n = b->n_storages;
    for (uint32_t i = 0; i < b->made.n; i++)
        weir_mem_free(b->made.at[i]);
    forget(b);
}

/* A bucket of n sums adds less than n concatenations, a sum and a scaling. */
static bool joiner_open(joiner *s)
{
    const uint32_t storages = s->g->storages.n + 3 * s->sums->n;

    s->held = weir_mem_alloc((s->before->n + 1u) * sizeof *s->held);
    s->replaced = weir_mem_zalloc(s->before->n + 1u, 1);
    s->readers = weir_mem_zalloc(s->g->storages.n + 1u, sizeof *s->readers);
    s->reader = weir_mem_alloc((s->g->storages.n + 1u) * sizeof *s->reader);
    if (!weir_touched_open(&s->t, storages) || !s->held || !s->replaced || !s->readers ||
        !s->reader)
        return false;
    count_readers(s);
    return true;
}

static void joiner_close(joiner *s)
{
    weir_touched_close(&s->t);
    weir_mem_free(s->held);
    weir_mem_free(s->replaced);
    weir_mem_free(s->readers);
    weir_mem_free(s->reader);
}

weir_status weir_sums_join(weir_graph *g, const weir_bucket_sums *sums, const bool *ends,
                           weir_sums_before *before)
{
    joiner     s = {.g = g, .sums = sums, .ends = ends, .before = before};
    const bool ok = save(g, before) && joiner_open(&s) && join(&s);

    joiner_close(&s);
    if (!ok) {
        weir_vec_free(&s.nodes);
        restore(g, before);
        return WEIR_ERR_NOMEM;
    }
    g->nodes.at = s.nodes.at;
    g->nodes.n = s.nodes.n;
    g->nodes.cap = s.nodes.cap;
    return WEIR_OK;
}

void weir_sums_part(weir_graph *g, weir_sums_before *before)
{
    if (!before->nodes)
        return;
    weir_mem_free(g->nodes.at);
    g->nodes.at = before->nodes;
    g->nodes.n = before->n;
    g->nodes.cap = before->cap;
    restore(g, before);
}

void weir_sums_keep(weir_sums_before *before)
{
    for (uint32_t i = 0; i < before->gone.n; i++)
        weir_mem_free(before->gone.at[i]);
    weir_mem_free(before->nodes);
    forget(before);
}
