/* fuse.c - element-wise chains become one node, run tile by tile in cache: same arithmetic, same
 * order, but one pass over memory.
 *
 * Nodes are visited in list order; each joins the groups of its producers. A group runs where its
 * last member stood, so it may grow only if nobody outside reads a member's result before that
 * place, no update changes what a member reads in between, and waiting keeps no more memory alive
 * than it saves. */
#include <string.h>

#include "core/dtype.h"
#include "core/status.h"
#include "graph/passes.h"

typedef struct weir_group {
    uint32_t last;                          /* the youngest member */
    uint32_t n;                             /* members, oldest first */
    uint32_t member[WEIR_EW_MAX_STEPS];
} weir_group;

typedef struct weir_fuser {
    weir_graph *g;
    uint32_t   *group_of; /* [nodes] index into groups, WEIR_NONE: not element-wise */
    weir_group *groups;                     /* [nodes] */
    uint32_t   *maker;                      /* [stores] node that makes it */
    uint32_t   *reader_first, *reader;      /* CSR: nodes that read a storage, in list order */
    uint32_t   *writer_first, *writer;      /* CSR: nodes that update a storage */
} weir_fuser;

static bool fusable(const weir_graph *g, const weir_node *n)
{
    if (!(weir_opdefs[n->op]->flags & WEIR_ELEMENTWISE) || n->nout != 1)
        return false;
    const weir_desc *d = &g->values.at[n->out[0]].layout.desc;
    return weir_is_any_float(d->dtype) && weir_shape_count(d) > 0;
}

/* Turns counts in first[1..n] into offsets. */
static void offsets(uint32_t *first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        first[i + 1] += first[i];
}

static bool index_uses(weir_fuser *f)
{
    const weir_graph *g = f->g;
    uint32_t          reads = 0;

    for (uint32_t i = 0; i < g->nodes.n; i++)
        reads += g->nodes.at[i].nin;
    f->maker = weir_mem_alloc((g->stores.n + 1) * sizeof *f->maker);
    f->reader_first = weir_mem_zalloc(g->stores.n + 2, sizeof *f->reader_first);
    f->writer_first = weir_mem_zalloc(g->stores.n + 2, sizeof *f->writer_first);
    f->reader = weir_mem_alloc((reads + 1) * sizeof *f->reader);
    f->writer = weir_mem_alloc((reads + 1) * sizeof *f->writer);
    if (!f->maker || !f->reader_first || !f->writer_first || !f->reader || !f->writer)
        return false;
    memset(f->maker, 0xff, (g->stores.n + 1) * sizeof *f->maker);
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < g->nodes.n; i++) {
            const weir_node *n = &g->nodes.at[i];
            for (int k = 0; k < n->nin; k++) {
                const uint32_t s = weir_store_of(g, n->in[k]);
                const bool     writes = weir_opdefs[n->op]->mutates >> k & 1;
                if (pass == 0) {
                    f->reader_first[s + 2]++;
                    f->writer_first[s + 2] += writes;
                } else {
                    f->reader[f->reader_first[s + 1]++] = i;
                    if (writes)
                        f->writer[f->writer_first[s + 1]++] = i;
                }
            }
            for (int k = 0; k < n->nout; k++)
                f->maker[weir_store_of(g, n->out[k])] = i;
        }
        if (pass == 0) {
            offsets(f->reader_first, g->stores.n + 1);
            offsets(f->writer_first, g->stores.n + 1);
        }
    }
    return true;
}

static bool in_group(const weir_group *a, uint32_t node)
{
    for (uint32_t i = 0; i < a->n; i++)
        if (a->member[i] == node)
            return true;
    return false;
}

/* Does a member of `a` or `b` make this storage? */
static bool made_inside(const weir_fuser *f, const weir_group *a, const weir_group *b,
                        uint32_t store)
{
    const uint32_t m = f->maker[store];
    return m != WEIR_NONE && (in_group(a, m) || in_group(b, m));
}

/* May member m run as late as `last`? */
static bool can_wait(const weir_fuser *f, const weir_group *a, const weir_group *b, uint32_t m,
                     uint32_t last)
{
    const weir_node *n = &f->g->nodes.at[m];
    const uint32_t   out = weir_store_of(f->g, n->out[0]);

    for (uint32_t r = f->reader_first[out]; r < f->reader_first[out + 1]; r++) {
        const uint32_t k = f->reader[r];
        if (k < last && !in_group(a, k) && !in_group(b, k))
            return false;
    }
    for (int k = 0; k < n->nin; k++) {
        const uint32_t s = weir_store_of(f->g, n->in[k]);
        for (uint32_t w = f->writer_first[s]; w < f->writer_first[s + 1]; w++)
            if (f->writer[w] > m && f->writer[w] < last)
                return false;
    }
    return true;
}

/* Distinct views the two groups read from outside. */
static uint32_t outside_inputs(const weir_fuser *f, const weir_group *a, const weir_group *b,
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
                if (j == n && !made_inside(f, a, b, weir_store_of(f->g, m->in[k])))
                    in[n++] = m->in[k];
            }
        }
    return n;
}

static bool needed_outside(const weir_fuser *f, const weir_group *a, const weir_group *b,
                           uint32_t m)
{
    const uint32_t out = weir_store_of(f->g, f->g->nodes.at[m].out[0]);

    if (f->g->stores.at[out].external)
        return true;
    for (uint32_t r = f->reader_first[out]; r < f->reader_first[out + 1]; r++)
        if (!in_group(a, f->reader[r]) && !in_group(b, f->reader[r]))
            return true;
    return false;
}

/* Every view of a storage made inside must be the whole value as made: the kernel passes it along
 * in tiles. */
static bool views_plain(const weir_fuser *f, const weir_group *a, const weir_group *b)
{
    const weir_group *both[2] = {a, b};

    for (int side = 0; side < 2; side++)
        for (uint32_t i = 0; i < both[side]->n; i++) {
            const weir_node *m = &f->g->nodes.at[both[side]->member[i]];
            for (int k = 0; k < m->nin; k++) {
                const uint32_t s = weir_store_of(f->g, m->in[k]);
                if (made_inside(f, a, b, s) &&
                    !weir_view_equal(f->g, m->in[k], f->g->nodes.at[f->maker[s]].out[0]))
                    return false;
            }
        }
    return true;
}

/* Storages that would have to outlive their last reader until `last`, in bytes: those that members
 * of `a` read from outside, each once. */
static size_t kept_longer(const weir_fuser *f, const weir_group *a, const weir_group *b,
                          uint32_t last)
{
    static const weir_group none = {0};
    uint32_t in[2 * WEIR_EW_MAX_STEPS * WEIR_MAX_IN];
    size_t   bytes = 0;

    const uint32_t n = outside_inputs(f, a, &none, in);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t s = weir_store_of(f->g, in[i]);
        bool           first = !f->g->stores.at[s].external && !made_inside(f, a, b, s);
        for (uint32_t j = 0; j < i && first; j++)
            first = weir_store_of(f->g, in[j]) != s;
        if (first && f->reader[f->reader_first[s + 1] - 1] < last)
            bytes += f->g->stores.at[s].bytes;
    }
    return bytes;
}

/* Results of `a` that the merged group passes along in cache only, in bytes. */
static size_t not_stored(const weir_fuser *f, const weir_group *a, const weir_group *b)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < a->n; i++)
        if (!needed_outside(f, a, b, a->member[i]) && needed_outside(f, a, a, a->member[i]))
            bytes += weir_store_at(f->g, f->g->nodes.at[a->member[i]].out[0])->bytes;
    return bytes;
}

/* Does `early`, run as late as `late`, keep more memory alive in between than it saves? A sum of
 * gradients that waits for the last of them would keep them all. Nothing in between: no matter. */
static bool hoards(const weir_fuser *f, const weir_group *early, const weir_group *late)
{
    uint32_t between = late->last - early->last - 1;

    for (uint32_t i = 0; i < late->n; i++)
        between -= late->member[i] > early->last && late->member[i] < late->last;
    if (between == 0)
        return false;
    const size_t saved = not_stored(f, early, late);
    return kept_longer(f, early, late, late->last) > saved + saved / 16;
}

static bool can_merge(const weir_fuser *f, const weir_group *a, const weir_group *b)
{
    const uint32_t last = a->last > b->last ? a->last : b->last;
    const weir_group *both[2] = {a, b};
    uint32_t inputs[2 * WEIR_EW_MAX_STEPS * WEIR_MAX_IN], outs = 0;

    if (a->n + b->n > WEIR_EW_MAX_STEPS || !views_plain(f, a, b) ||
        (a->last < b->last ? hoards(f, a, b) : hoards(f, b, a)))
        return false;
    for (int side = 0; side < 2; side++)
        for (uint32_t i = 0; i < both[side]->n; i++) {
            if (!can_wait(f, a, b, both[side]->member[i], last))
                return false;
            outs += needed_outside(f, a, b, both[side]->member[i]);
        }
    return outs <= WEIR_EW_MAX_OUT && outside_inputs(f, a, b, inputs) <= WEIR_EW_MAX_IN;
}

/* b takes over a's members, oldest first. */
static void merge(weir_fuser *f, uint32_t ga, uint32_t gb)
{
    weir_group *a = &f->groups[ga], *b = &f->groups[gb], all = {0};
    uint32_t    i = 0, k = 0;

    while (i < a->n || k < b->n) {
        const bool from_a = k == b->n || (i < a->n && a->member[i] < b->member[k]);
        all.member[all.n++] = from_a ? a->member[i++] : b->member[k++];
    }
    all.last = all.member[all.n - 1];
    for (uint32_t m = 0; m < all.n; m++)
        f->group_of[all.member[m]] = gb;
    *b = all;
    a->n = 0;
}

static void join_producers(weir_fuser *f, uint32_t i)
{
    const weir_graph *g = f->g;
    const weir_node  *n = &g->nodes.at[i];
    const weir_layout *shape = &g->values.at[n->out[0]].layout;

    for (int k = 0; k < n->nin; k++) {
        const uint32_t p = f->maker[weir_store_of(g, n->in[k])];
        if (p == WEIR_NONE || f->group_of[p] == WEIR_NONE || f->group_of[p] == f->group_of[i])
            continue;
        if (weir_desc_equal(&g->values.at[g->nodes.at[p].out[0]].layout.desc, &shape->desc) &&
            can_merge(f, &f->groups[f->group_of[p]], &f->groups[f->group_of[i]]))
            merge(f, f->group_of[p], f->group_of[i]);
    }
}

/* Where step `s` of the program finds the operand: an input of the program or an earlier step. */
static int64_t operand_of(const weir_fuser *f, const weir_group *a, const uint32_t *in,
                          uint32_t nin, uint32_t value)
{
    for (uint32_t j = 0; j < nin; j++)
        if (weir_view_equal(f->g, in[j], value))
            return j;
    const uint32_t m = f->maker[weir_store_of(f->g, value)];
    uint32_t       j = 0;
    while (a->member[j] != m)
        j++;
    return (int64_t)nin + j;
}

static weir_ew_step step_of(const weir_fuser *f, const weir_group *a, const uint32_t *in,
                            uint32_t nin, const weir_node *n)
{
    weir_ew_step st = {.op = n->op, .rng = n->rng};

    if (n->attr_bytes >= sizeof(weir_ew_attr)) {
        st.s = ((const weir_ew_attr *)n->attr)->s;
        st.t = ((const weir_ew_attr *)n->attr)->t;
    }
    for (int k = 0; k < n->nin; k++)
        st.src[k] = operand_of(f, a, in, nin, n->in[k]);
    return st;
}

/* The group becomes one node in the place of its last member. */
static weir_status emit(weir_fuser *f, const weir_group *a)
{
    static const weir_group none = {0};
    weir_graph      *g = f->g;
    uint32_t         in[2 * WEIR_EW_MAX_STEPS * WEIR_MAX_IN];
    weir_node        fused = {.op = WEIR_OP_FUSED, .phase = g->nodes.at[a->last].phase,
                              .segment = g->nodes.at[a->last].segment,
                              .attr_bytes = sizeof(weir_ew_program)};
    weir_ew_program *p = weir_mem_zalloc(1, sizeof *p);

    if (!p)
        return WEIR_ERR_NOMEM;
    const uint32_t nin = outside_inputs(f, a, &none, in);
    p->nin = nin;
    memcpy(fused.in, in, nin * sizeof *in);
    fused.nin = (uint8_t)nin;
    fused.region = g->nodes.at[a->member[0]].region;
    for (uint32_t i = 0; i < a->n; i++) {
        const weir_node *n = &g->nodes.at[a->member[i]];
        fused.region = n->region == fused.region ? fused.region : 0;
        p->step[p->nstep++] = step_of(f, a, in, nin, n);
        if (needed_outside(f, a, &none, a->member[i])) {
            p->out[p->nout++] = i;
            fused.out[fused.nout++] = n->out[0];
        }
    }
    fused.attr = p;
    for (uint32_t i = 0; i + 1 < a->n; i++)
        g->nodes.at[a->member[i]].dead = true;
    weir_mem_free(g->nodes.at[a->last].attr);
    g->nodes.at[a->last] = fused;
    return WEIR_OK;
}

static void fuser_free(weir_fuser *f)
{
    weir_mem_free(f->group_of);
    weir_mem_free(f->groups);
    weir_mem_free(f->maker);
    weir_mem_free(f->reader_first);
    weir_mem_free(f->reader);
    weir_mem_free(f->writer_first);
    weir_mem_free(f->writer);
}

weir_status weir_pass_fuse(weir_graph *g)
{
    weir_fuser  f = {.g = g};
    weir_status status = WEIR_OK;

    f.group_of = weir_mem_alloc((g->nodes.n + 1) * sizeof *f.group_of);
    f.groups = weir_mem_zalloc(g->nodes.n + 1, sizeof *f.groups);
    if (!f.group_of || !f.groups || !index_uses(&f)) {
        fuser_free(&f);
        return WEIR_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const bool can = fusable(g, &g->nodes.at[i]);
        f.group_of[i] = can ? i : WEIR_NONE;
        if (can) {
            f.groups[i] = (weir_group){.last = i, .n = 1, .member = {i}};
            join_producers(&f, i);
        }
    }
    for (uint32_t i = 0; i < g->nodes.n && status == WEIR_OK; i++)
        if (f.group_of[i] != WEIR_NONE && f.groups[i].n > 1)
            status = emit(&f, &f.groups[i]);
    fuser_free(&f);
    weir_graph_compact(g);
    return status;
}
