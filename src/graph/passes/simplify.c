/* simplify.c - dead code elimination, common subexpression elimination, constant folding, and
 * removal of copies. */
#include <math.h>
#include <string.h>

#include "core/attr.h"
#include "core/dtype.h"
#include "core/hash.h"
#include "core/status.h"
#include "device/call.h"
#include "graph/ops/op.h"
#include "graph/passes/passes.h"

static const weir_opdef *def_of(const weir_node *n)
{
    return n->def;
}

void weir_graph_compact(weir_graph *g)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < g->nodes.n; i++) {
        if (g->nodes.at[i].dead)
            weir_mem_free(g->nodes.at[i].attr);
        else
            g->nodes.at[n++] = g->nodes.at[i];
    }
    g->nodes.n = n;
}

/* ---- dead code ---- */

/* A node is live if it updates an input, computes an external storage, or a live node reads its
 * output. One sweep from the end finds all, since the list is in topological order. */
weir_status weir_pass_dce(weir_graph *g)
{
    bool *wanted = weir_mem_zalloc(g->storages.n + 1, sizeof *wanted);

    if (!wanted)
        return WEIR_ERR_NOMEM;
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        weir_node *n = &g->nodes.at[i];
        bool       live = (def_of(n)->flags & (WEIR_UPDATE | WEIR_COLLECTIVE)) != 0;
        for (int k = 0; k < n->nout; k++)
            live |=
                wanted[weir_storage_of(g, n->out[k])] || weir_storage_at(g, n->out[k])->external;
        n->dead |= !live;
        for (int k = 0; k < n->nin && !n->dead; k++)
            wanted[weir_storage_of(g, n->in[k])] = true;
    }
    weir_mem_free(wanted);
    weir_graph_compact(g);
    return WEIR_OK;
}

/* ---- common subexpressions ---- */

typedef struct weir_cse {
    weir_graph *g;
    uint32_t   *version;        /* [storages] number of updates of the storage so far */
    uint32_t   *seen;           /* [nodes * inputs] the versions that a node reads */
    uint32_t   *slot;           /* hash table, open addressing: node + 1; 0: empty */
    uint64_t    mask;
} weir_cse;

static uint64_t node_hash(const weir_cse *c, const weir_node *n)
{
    uint64_t h = weir_hash_u64(WEIR_HASH_SEED, (uint64_t)n->op);

    h = weir_hash_u64(h, n->segment);
    h = weir_hash_bytes(h, n->attr, n->attr_bytes);
    for (int k = 0; k < n->nin; k++) {
        const uint32_t s = weir_storage_of(c->g, n->in[k]);
        h = weir_hash_u64(h, (uint64_t)s << 32 | c->version[s]);
        h = weir_hash_u64(h, (uint64_t)c->g->values.at[n->in[k]].offset);
    }
    return h;
}

/* Nodes of different second runs of checkpoints are never equal: merging a recomputed value with
 * the original would keep the original alive. */
static bool node_equal(const weir_cse *c, uint32_t a, uint32_t b)
{
    const weir_node *x = &c->g->nodes.at[a], *y = &c->g->nodes.at[b];

    if (x->op != y->op || x->segment != y->segment || x->nin != y->nin || x->nout != y->nout ||
        x->attr_bytes != y->attr_bytes ||
        (x->attr_bytes && memcmp(x->attr, y->attr, x->attr_bytes) != 0))
        return false;
    for (int k = 0; k < x->nin; k++)
        if (!weir_view_equal(c->g, x->in[k], y->in[k]) ||
            c->seen[a * WEIR_EW_MAX_IN + (uint32_t)k] != c->seen[b * WEIR_EW_MAX_IN + (uint32_t)k])
            return false;
    for (int k = 0; k < x->nout; k++)
        if (!weir_desc_equal(&c->g->values.at[x->out[k]].layout.desc,
                             &c->g->values.at[y->out[k]].layout.desc))
            return false;
    return true;
}

static bool mergeable(const weir_graph *g, const weir_node *n)
{
    if (n->dead || !(def_of(n)->flags & WEIR_PURE) ||
        def_of(n)->flags & (WEIR_RANDOM | WEIR_UPDATE))
        return false;
    for (int k = 0; k < n->nout; k++)
        if (weir_storage_at(g, n->out[k])->external)
            return false;           /* an external storage must be written itself */
    return true;
}

static void cse_visit(weir_cse *c, uint32_t i)
{
    weir_graph *g = c->g;
    weir_node  *n = &g->nodes.at[i];

    for (int k = 0; k < n->nin; k++)
        c->seen[i * WEIR_EW_MAX_IN + (uint32_t)k] = c->version[weir_storage_of(g, n->in[k])];
    if (mergeable(g, n)) {
        uint64_t h = node_hash(c, n);
        while (c->slot[h & c->mask] && !node_equal(c, c->slot[h & c->mask] - 1, i))
            h++;
        if (c->slot[h & c->mask]) {
            const weir_node *first = &g->nodes.at[c->slot[h & c->mask] - 1];
            for (int k = 0; k < n->nout; k++)
                weir_graph_redirect(g, weir_storage_of(g, n->out[k]),
                                    weir_storage_of(g, first->out[k]), 0);
            n->dead = true;
        } else {
            c->slot[h & c->mask] = i + 1;
        }
    }
    for (int k = 0; k < n->nin; k++)
        if (def_of(n)->mutates >> k & 1)
            c->version[weir_storage_of(g, n->in[k])]++;
}

weir_status weir_pass_cse(weir_graph *g)
{
    uint64_t cap = 64;
    while (cap < 2 * (uint64_t)g->nodes.n)
        cap *= 2;
    weir_cse c = {.g = g, .mask = cap - 1};
    c.version = weir_mem_zalloc(g->storages.n + 1, sizeof *c.version);
    c.seen = weir_mem_zalloc((size_t)g->nodes.n * WEIR_EW_MAX_IN + 1, sizeof *c.seen);
    c.slot = weir_mem_zalloc(cap, sizeof *c.slot);
    const bool ok = c.version && c.seen && c.slot;
    for (uint32_t i = 0; i < g->nodes.n && ok; i++)
        cse_visit(&c, i);
    weir_mem_free(c.version);
    weir_mem_free(c.seen);
    weir_mem_free(c.slot);
    weir_graph_compact(g);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}

/* ---- constants ---- */

/* For each storage the FILL node that computes it, or WEIR_NONE. The caller frees the array; NULL
 * if memory is short. */
static uint32_t *fills_of(const weir_graph *g)
{
    uint32_t *fill = weir_mem_alloc((g->storages.n + 1) * sizeof *fill);

    if (!fill)
        return NULL;
    memset(fill, 0xff, (g->storages.n + 1) * sizeof *fill);
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i].op == WEIR_OP_FILL && !g->nodes.at[i].dead)
            fill[weir_storage_of(g, g->nodes.at[i].out[0])] = i;
    return fill;
}

static double fill_value(const weir_graph *g, uint32_t node)
{
    return ((const weir_fill_attr *)g->nodes.at[node].attr)->value;
}

static bool foldable(const weir_graph *g, const weir_node *n, const uint32_t *fill)
{
    const uint32_t flags = def_of(n)->flags;
    const bool moves = n->op == WEIR_OP_COPY || n->op == WEIR_OP_RESHAPE || n->op == WEIR_OP_CAST;

    if (n->dead || n->nin == 0 || flags & WEIR_RANDOM || !(flags & WEIR_ELEMENTWISE || moves))
        return false;
    if (!g->dev->ops->host)
        return false;               /* fold_value runs the kernel on host memory */
    for (int k = 0; k < n->nin; k++)
        if (fill[weir_storage_of(g, n->in[k])] == WEIR_NONE ||
            !weir_is_float(g->values.at[n->in[k]].layout.desc.dtype))
            return false;
    return weir_is_float(g->values.at[n->out[0]].layout.desc.dtype);
}

/* Runs the call's own kernel on scalars, so that the constant has the kernel's bits. */
static weir_status fold_value(weir_graph *g, const weir_node *n, const uint32_t *fill,
                              double *value)
{
    weir_layout in[WEIR_EW_MAX_IN], out[WEIR_MAX_OUT];
    weir_call   call = weir_node_call(g, n, in, out);
    union { float f; double d; } src[WEIR_MAX_IN], dst;
    void *sp[WEIR_MAX_IN], *dp[1] = {&dst};

    for (int k = 0; k < n->nin; k++) {
        const double v = fill_value(g, fill[weir_storage_of(g, n->in[k])]);
        in[k] = (weir_layout){.desc = weir_scalar(in[k].desc.dtype)};
        if (in[k].desc.dtype == WEIR_F32)
            src[k].f = (float)v;
        else
            src[k].d = v;
        sp[k] = &src[k];
    }
    out[0] = (weir_layout){.desc = weir_scalar(out[0].desc.dtype)};
    if (call.op == WEIR_OP_RESHAPE) {
        call.op = WEIR_OP_COPY;
        call.def = &weir_op_copy;
        call.attr = NULL;
        call.attr_bytes = 0;
    }
    WEIR_TRY(weir_run_raw(g->dev, &call, sp, dp, 0, NULL));
    *value = out[0].desc.dtype == WEIR_F32 ? (double)dst.f : dst.d;
    return WEIR_OK;
}

/* A fill that only element-wise calls read needs a single element, which they read with stride
 * 0. */
static void shrink_fill(weir_graph *g, weir_node *n, const bool *elementwise_only)
{
    const uint32_t storage = weir_storage_of(g, n->out[0]);
    weir_storage  *s = &g->storages.at[storage];

    if (s->external || !elementwise_only[storage] || s->bytes == 0)
        return;
    const weir_layout one = {.desc = weir_scalar(g->values.at[n->out[0]].layout.desc.dtype)};
    const uint32_t    scalar = weir_graph_value_of(g, storage, &one, 0);
    if (scalar == WEIR_NONE)
        return;                     /* memory is short: the fill keeps its size */
    for (uint32_t v = s->values; v != WEIR_NONE; v = g->values.at[v].next) {
        weir_value *x = &g->values.at[v];
        memset(x->layout.stride, 0, sizeof x->layout.stride);
        x->offset = 0;
    }
    n->out[0] = scalar;
    s->bytes = weir_dtype_size(one.desc.dtype);
}

static weir_status shrink_fills(weir_graph *g)
{
    bool *only = weir_mem_alloc(g->storages.n + 1);

    if (!only)
        return WEIR_ERR_NOMEM;
    memset(only, 1, g->storages.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const weir_node *n = &g->nodes.at[i];
        for (int k = 0; k < n->nin; k++)
            only[weir_storage_of(g, n->in[k])] &= (def_of(n)->flags & WEIR_ELEMENTWISE) != 0;
    }
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i].op == WEIR_OP_FILL)
            shrink_fill(g, &g->nodes.at[i], only);
    weir_mem_free(only);
    return WEIR_OK;
}

weir_status weir_pass_fold(weir_graph *g)
{
    weir_status status = WEIR_OK;
    uint32_t   *fill = fills_of(g);

    if (!fill)
        return WEIR_ERR_NOMEM;
    for (uint32_t i = 0; i < g->nodes.n && status == WEIR_OK; i++) {
        weir_node     *n = &g->nodes.at[i];
        weir_fill_attr a = {0};
        if (!foldable(g, n, fill))
            continue;
        status = fold_value(g, n, fill, &a.value);
        if (status != WEIR_OK)
            break;
        void *attr = weir_mem_alloc(sizeof a);
        if (!attr) {
            status = WEIR_ERR_NOMEM;
            break;
        }
        memcpy(attr, &a, sizeof a);
        weir_mem_free(n->attr);
        n->attr = attr;
        n->attr_bytes = sizeof a;
        n->op = WEIR_OP_FILL;
        n->def = &weir_op_fill;
        n->nin = 0;
        fill[weir_storage_of(g, n->out[0])] = i;
    }
    weir_mem_free(fill);
    return status == WEIR_OK ? shrink_fills(g) : status;
}

/* ---- copies and identities ---- */

/* Returns the input to which the call's output is equal bit for bit, or -1. Such calls are copies,
 * x * 1, x / 1 and x - 0, but not x + 0 or x - (-0), which turn -0 into +0. */
static int identity_of(const weir_graph *g, const weir_node *n, const uint32_t *fill)
{
    static const struct { weir_op op; double neutral; bool either; } rule[] = {
        {WEIR_OP_MUL, 1, true}, {WEIR_OP_DIV, 1, false}, {WEIR_OP_SUB, 0, false}};

    if (n->op == WEIR_OP_COPY)
        return 0;
    for (size_t r = 0; r < sizeof rule / sizeof *rule; r++)
        for (int k = 1; k >= 0 && n->op == rule[r].op; k--) {
            const uint32_t f = fill[weir_storage_of(g, n->in[k])];
            if ((k == 1 || rule[r].either) && f != WEIR_NONE &&
                fill_value(g, f) == rule[r].neutral && !signbit(fill_value(g, f)))
                return 1 - k;
        }
    return -1;
}

static bool *mutated_of(const weir_graph *g)
{
    bool *mutated = weir_mem_zalloc(g->storages.n + 1, sizeof *mutated);

    for (uint32_t i = 0; i < g->nodes.n && mutated; i++)
        for (int k = 0; k < g->nodes.at[i].nin; k++)
            if (def_of(&g->nodes.at[i])->mutates >> k & 1)
                mutated[weir_storage_of(g, g->nodes.at[i].in[k])] = true;
    return mutated;
}

/* Does the view begin at an address as aligned as a copy's? Kernels may depend on alignment up to
 * WEIR_SEEN_ALIGN bytes, so a less aligned operand could change bits. */
static bool begins_aligned(const weir_value *x)
{
    return (size_t)x->offset * weir_dtype_size(x->layout.desc.dtype) % WEIR_SEEN_ALIGN == 0;
}

static void drop_copy(weir_graph *g, weir_node *n, const uint32_t *fill, const bool *mutated)
{
    const int k = n->dead ? -1 : identity_of(g, n, fill);

    if (k < 0)
        return;
    const weir_value *x = &g->values.at[n->in[k]], *y = &g->values.at[n->out[0]];
    if (g->storages.at[y->storage].external || mutated[x->storage] || !begins_aligned(x) ||
        !weir_desc_equal(&x->layout.desc, &y->layout.desc) || !weir_shape_is_dense(&x->layout))
        return;
    weir_graph_redirect(g, y->storage, x->storage, x->offset);
    n->dead = true;
}

weir_status weir_pass_copies(weir_graph *g)
{
    uint32_t *fill = fills_of(g);
    bool     *mutated = mutated_of(g);
    const bool ok = fill && mutated;

    for (uint32_t i = 0; i < g->nodes.n && ok; i++)
        drop_copy(g, &g->nodes.at[i], fill, mutated);
    weir_mem_free(fill);
    weir_mem_free(mutated);
    weir_graph_compact(g);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}
