/* fuse_cast.c - casts between f32 and the half types in fused groups.
 *
 * A cast that rounds is a member of the group that computes its input. A cast that widens is no
 * member: groups that read its output read its input instead, and so do other nodes whose kernels
 * widen (weir_device_ops.widens), if all readers can. Either is done only if it needs no more live
 * bytes than separate nodes, apart from small vectors: at each position where one of them runs, the
 * bytes of the storages that it accesses and that are live there count, less outputs that take over
 * a dying operand. Positions in between need no check: values that stay live longer there replace
 * others that were live before (fuse.c).
 *
 * A cast that rounds the result of a node of no group disappears if nothing else reads the result
 * and the node's kernel rounds it (weir_device_ops.rounds).
 *
 * A cast that rounds a parameter disappears if all its readers are products and convolutions whose
 * kernels round weights (weir_device_ops.narrows): the parameter is live anyway. */
#include <string.h>

#include "core/status.h"
#include "graph/passes/fuse.h"

bool weir_cast_widens(const weir_graph *g, const weir_node *n)
{
    return n->op == WEIR_OP_CAST && weir_is_half(weir_fuse_type(g, n->in[0])) &&
           weir_fuse_type(g, n->out[0]) == WEIR_F32;
}

bool weir_cast_rounds(const weir_graph *g, const weir_node *n)
{
    return n->op == WEIR_OP_CAST && weir_fuse_type(g, n->in[0]) == WEIR_F32 &&
           weir_is_half(weir_fuse_type(g, n->out[0]));
}

static bool reads(const weir_node *n, const weir_graph *g, uint32_t storage)
{
    for (int k = 0; k < n->nin && !n->dead; k++)
        if (weir_storage_of(g, n->in[k]) == storage)
            return true;
    return false;
}

/* ---- rounding inside groups ---- */

/* Is the rounding cast's output read by a member of `a` or `b`? */
static bool read_inside(const weir_fuser *f, const weir_group *a, const weir_group *b, uint32_t m)
{
    const uint32_t out = weir_storage_of(f->g, f->g->nodes.at[m].out[0]);

    for (uint32_t r = f->reader_first[out]; r < f->reader_first[out + 1]; r++)
        if ((weir_group_has(a, f->reader[r]) || weir_group_has(b, f->reader[r])) &&
            reads(&f->g->nodes.at[f->reader[r]], f->g, out))
            return true;
    return false;
}

/* Do only casts to `half` that are members of `a` or `b` read the storage? */
static bool read_rounded(const weir_fuser *f, const weir_group *a, const weir_group *b,
                         uint32_t storage, weir_dtype half)
{
    for (uint32_t r = f->reader_first[storage]; r < f->reader_first[storage + 1]; r++) {
        const uint32_t         k = f->reader[r];
        const weir_node *const n = &f->g->nodes.at[k];
        if (reads(n, f->g, storage) &&
            (!(weir_group_has(a, k) || weir_group_has(b, k)) || !weir_cast_rounds(f->g, n) ||
             weir_fuse_type(f->g, n->out[0]) != half))
            return false;
    }
    return !f->g->storages.at[storage].external;
}

bool weir_fuse_rounds_alike(const weir_fuser *f, const weir_group *a, const weir_group *b)
{
    const weir_group *both[2] = {a, b};

    for (int side = 0; side < 2; side++)
        for (uint32_t i = 0; i < both[side]->n; i++) {
            const weir_node *const m = &f->g->nodes.at[both[side]->member[i]];
            if (!weir_cast_rounds(f->g, m) || !read_inside(f, a, b, both[side]->member[i]))
                continue;
            const uint32_t from = weir_storage_of(f->g, m->in[0]);
            if (!weir_group_makes(f, a, b, from) ||
                !read_rounded(f, a, b, from, weir_fuse_type(f->g, m->out[0])))
                return false;
        }
    return true;
}

weir_dtype weir_fuse_rounds_to(const weir_fuser *f, const weir_group *a, const weir_node *n)
{
    const weir_dtype type = weir_fuse_type(f->g, n->out[0]);
    const uint32_t   made = weir_storage_of(f->g, n->out[0]);

    for (uint32_t i = 0; i < a->n; i++) {
        const weir_node *const m = &f->g->nodes.at[a->member[i]];
        if (weir_cast_rounds(f->g, m) && weir_storage_of(f->g, m->in[0]) == made &&
            read_inside(f, a, &weir_group_empty, a->member[i]))
            return weir_fuse_type(f->g, m->out[0]);
    }
    return weir_is_half(type) ? type : WEIR_F32;
}

/* ---- live bytes while a group runs ---- */

static uint32_t place_of(const weir_fuser *f, uint32_t node)
{
    return f->group_of[node] == WEIR_NONE ? node : f->groups[f->group_of[node]].last;
}

/* The last position at which a storage is read if group `run` runs at `at`. */
static uint32_t last_use(const weir_fuser *f, uint32_t storage, const weir_group *run, uint32_t at)
{
    uint32_t last = f->late[storage];

    for (uint32_t r = f->reader_first[storage]; r < f->reader_first[storage + 1]; r++) {
        const uint32_t k = f->reader[r], place = weir_group_has(run, k) ? at : place_of(f, k);
        if (place > last && reads(&f->g->nodes.at[k], f->g, storage))
            last = place;
    }
    return last;
}

/* May output `out` of group `run`, run at `at`, take over the memory of its operand `in`? */
static bool takes_over(const weir_fuser *f, const weir_group *run, uint32_t at, uint32_t in,
                       uint32_t out)
{
    const weir_value   *x = &f->g->values.at[in], *y = &f->g->values.at[out];
    const weir_storage *from = &f->g->storages.at[x->storage], *to = &f->g->storages.at[y->storage];

    return !from->external && !to->external && from->bytes == to->bytes && x->offset == 0 &&
           weir_desc_equal(&x->layout.desc, &y->layout.desc) && weir_shape_is_dense(&x->layout) &&
           !weir_group_makes(f, run, &weir_group_empty, x->storage) &&
           last_use(f, x->storage, run, at) <= at;
}

/* Bytes of the group's outputs that take over operands that die at `at`. */
static size_t taken_over(const weir_fuser *f, const weir_group *run, uint32_t at)
{
    uint32_t in[2 * WEIR_EW_MAX_STEPS * WEIR_MAX_IN];
    uint32_t n = weir_group_inputs(f, run, &weir_group_empty, in);
    size_t   bytes = 0;

    for (uint32_t i = 0; i < run->n; i++) {
        const uint32_t out = f->g->nodes.at[run->member[i]].out[0];
        uint32_t       k = weir_group_gives(f, run, &weir_group_empty, run->member[i]) ? 0 : n;
        while (k < n && !takes_over(f, run, at, in[k], out))
            k++;
        if (k < n) {
            bytes += weir_storage_at(f->g, out)->bytes;
            in[k] = in[--n];
        }
    }
    return bytes;
}

/* Bytes of a temporary storage if it is live while `run` runs at `at`; else 0. */
static size_t held_of(const weir_fuser *f, uint32_t storage, const weir_group *run, uint32_t at)
{
    const uint32_t m = f->maker[storage];
    bool           held = false;

    if (f->g->storages.at[storage].external || m == WEIR_NONE)
        return 0;
    for (uint32_t i = 0; i < run->n && !held; i++)
        held = reads(&f->g->nodes.at[run->member[i]], f->g, storage);
    if (weir_group_has(run, m))
        held = weir_group_gives(f, run, &weir_group_empty, m);
    else
        held = held || (place_of(f, m) < at && last_use(f, storage, run, at) >= at);
    return held ? f->g->storages.at[storage].bytes : 0;
}

/* Bytes that members of `a` and `b` access and that are live while `run` runs at `at`, less outputs
 * in place of dying operands. `run` is `a`, `b` or both merged. */
static size_t held(const weir_fuser *f, const weir_group *run, uint32_t at, const weir_group *a,
                   const weir_group *b)
{
    const weir_group *both[2] = {a, b};
    uint32_t          seen[2 * WEIR_EW_MAX_STEPS * (WEIR_MAX_IN + 1)], n = 0;
    size_t            bytes = 0;

    for (int side = 0; side < 2; side++)
        for (uint32_t i = 0; i < both[side]->n; i++) {
            const weir_node *m = &f->g->nodes.at[both[side]->member[i]];
            for (int k = 0; k <= m->nin; k++) {
                const uint32_t s = weir_storage_of(f->g, k < m->nin ? m->in[k] : m->out[0]);
                uint32_t       j = 0;
                while (j < n && seen[j] != s)
                    j++;
                if (j == n) {
                    seen[n++] = s;
                    bytes += held_of(f, s, run, at);
                }
            }
        }
    return bytes - taken_over(f, run, at);
}

static bool has_casts(const weir_graph *g, const weir_group *a)
{
    for (uint32_t i = 0; i < a->n; i++)
        if (g->nodes.at[a->member[i]].op == WEIR_OP_CAST)
            return true;
    return false;
}

/* Small vectors, such as the statistics of a norm, do not keep two groups apart. */
static bool exceeds(size_t bytes, size_t most)
{
    return bytes > most + most / 64;
}

/* The merged group runs where `late` did, so it may need what `late` needs. With no node in
 * between, it may also need what `early` needs. */
bool weir_fuse_swells(const weir_fuser *f, const weir_group *early, const weir_group *late)
{
    if (!has_casts(f->g, early) && !has_casts(f->g, late))
        return false;
    const weir_group all = weir_group_joined(early, late);
    size_t           most = held(f, late, late->last, early, late);

    if (weir_group_next(f->g, early, late)) {
        const size_t before = held(f, early, early->last, early, late);
        most = before > most ? before : most;
    }
    return exceeds(held(f, &all, late->last, early, late), most);
}

/* ---- casts that widen ---- */

/* Can view `v` of the cast's output be expressed as a view of its input? */
static bool seen_through(const weir_graph *g, const weir_node *cast, uint32_t v)
{
    const weir_layout *from = &g->values.at[cast->in[0]].layout;

    return weir_view_equal(g, v, cast->out[0]) ||
           (weir_shape_is_dense(from) && weir_shape_is_dense(&g->values.at[cast->out[0]].layout));
}

/* Returns that view of the input; WEIR_NONE if memory is short. */
static uint32_t see_through(weir_graph *g, const weir_node *cast, uint32_t v)
{
    const weir_value from = g->values.at[cast->in[0]], made = g->values.at[cast->out[0]];
    weir_value       view = g->values.at[v];

    if (weir_view_equal(g, v, cast->out[0]))
        return cast->in[0];
    view.layout.desc.dtype = from.layout.desc.dtype;
    return weir_graph_value_of(g, from.storage, &view.layout,
                               view.offset - made.offset + from.offset);
}

/* May the group read the cast's input? The input must not be overwritten before the group runs, and
 * only steps, not rounding casts, may read it. */
static bool can_widen(const weir_fuser *f, uint32_t cast, const weir_group *a)
{
    const weir_node *c = &f->g->nodes.at[cast];
    const uint32_t from = weir_storage_of(f->g, c->in[0]), made = weir_storage_of(f->g, c->out[0]);

    if (weir_fuse_overwritten(f, from, cast, a->last))
        return false;
    for (uint32_t i = 0; i < a->n; i++) {
        const weir_node *m = &f->g->nodes.at[a->member[i]];
        for (int k = 0; k < m->nin; k++)
            if (weir_storage_of(f->g, m->in[k]) == made &&
                (weir_cast_rounds(f->g, m) || !seen_through(f->g, c, m->in[k])))
                return false;
    }
    return true;
}

/* Redirects members that read the cast's output to its input. */
static weir_status read_input(weir_fuser *f, uint32_t cast, const weir_group *a)
{
    weir_graph     *g = f->g;
    const weir_node c = g->nodes.at[cast];
    const uint32_t  made = weir_storage_of(g, c.out[0]);

    for (uint32_t i = 0; i < a->n; i++)
        for (int k = 0; k < g->nodes.at[a->member[i]].nin; k++) {
            const uint32_t v = g->nodes.at[a->member[i]].in[k];
            if (weir_storage_of(g, v) != made)
                continue;
            const uint32_t half = see_through(g, &c, v);
            if (half == WEIR_NONE)
                return WEIR_ERR_NOMEM;
            g->nodes.at[a->member[i]].in[k] = half;
        }
    return WEIR_OK;
}

/* Are all nodes between the cast and the group's position members, casts that members read, or
 * nodes that read the cast's output, too? */
static bool next_to(const weir_fuser *f, uint32_t cast, const weir_group *a)
{
    const uint32_t made = weir_storage_of(f->g, f->g->nodes.at[cast].out[0]);

    for (uint32_t i = cast + 1; i < a->last; i++) {
        const weir_node *n = &f->g->nodes.at[i];
        bool             ours = n->dead || weir_group_has(a, i) ||
                    (f->group_of[i] == WEIR_NONE && reads(n, f->g, made));
        for (uint32_t m = 0; m < a->n && !ours && weir_cast_widens(f->g, n); m++)
            ours = reads(&f->g->nodes.at[a->member[m]], f->g, weir_storage_of(f->g, n->out[0]));
        if (!ours)
            return false;
    }
    return true;
}

/* The live bytes that the cast and the group may need as separate nodes: those while the group
 * runs, or, if no other node runs in between, while the cast does. */
static size_t held_apart(const weir_fuser *f, uint32_t cast, const weir_group *a)
{
    const weir_group c = weir_group_alone(cast);
    const size_t     there = held(f, a, a->last, &c, a);
    const size_t     before = next_to(f, cast, a) ? held(f, &c, cast, &c, a) : 0;

    return before > there ? before : there;
}

/* Lets the group read the half value if that needs no more live bytes. *done: whether it does. */
static weir_status try_half(weir_fuser *f, uint32_t cast, weir_group *a, bool *done)
{
    const weir_group c = weir_group_alone(cast);
    const uint32_t   from = weir_storage_of(f->g, f->g->nodes.at[cast].in[0]);
    const size_t     before = held_apart(f, cast, a);
    const uint32_t   late = f->late[from];
    uint32_t         in[WEIR_EW_MAX_STEPS][WEIR_EW_MAX_IN];

    for (uint32_t i = 0; i < a->n; i++)
        memcpy(in[i], f->g->nodes.at[a->member[i]].in, sizeof in[i]);
    WEIR_TRY(read_input(f, cast, a));
    f->late[from] = late > a->last ? late : a->last;
    *done = !exceeds(held(f, a, a->last, &c, a), before);
    if (*done) {
        a->widens = true;
        return WEIR_OK;
    }
    f->late[from] = late;
    for (uint32_t i = 0; i < a->n; i++)
        memcpy(f->g->nodes.at[a->member[i]].in, in[i], sizeof in[i]);
    return WEIR_OK;
}

/* The last group before position `place` that reads the storage; NULL: none. */
static weir_group *reader_before(const weir_fuser *f, uint32_t storage, uint32_t place)
{
    weir_group *last = NULL;

    for (uint32_t r = f->reader_first[storage]; r < f->reader_first[storage + 1]; r++) {
        const uint32_t k = f->reader[r];
        if (f->group_of[k] == WEIR_NONE || !reads(&f->g->nodes.at[k], f->g, storage))
            continue;
        weir_group *const a = &f->groups[f->group_of[k]];
        if (a->last < place && (!last || a->last > last->last))
            last = a;
    }
    return last;
}

/* Are the cast's input, its output and view `v` of that dense? Then the input's elements have the
 * order of the view's, and kernels other than fused groups, which expect dense operands, can read
 * them. */
static bool dense_through(const weir_graph *g, const weir_node *cast, uint32_t v)
{
    return weir_shape_is_dense(&g->values.at[cast->in[0]].layout) &&
           weir_shape_is_dense(&g->values.at[cast->out[0]].layout) &&
           weir_shape_is_dense(&g->values.at[v].layout);
}

/* May a node of no group read the cast's input? Its kernel must widen all inputs that are the
 * cast's output. */
static bool node_can_widen(const weir_fuser *f, uint32_t cast, uint32_t node)
{
    const weir_graph *const g = f->g;
    const weir_node *const  c = &g->nodes.at[cast], *const n = &g->nodes.at[node];
    const uint32_t *const   widens = g->dev->ops->widens;
    const uint32_t from = weir_storage_of(g, c->in[0]), made = weir_storage_of(g, c->out[0]);

    if (!widens || weir_fuse_overwritten(f, from, cast, node))
        return false;
    for (int k = 0; k < n->nin; k++)
        if (weir_storage_of(g, n->in[k]) == made &&
            (!(widens[n->op] & ~n->def->mutates & 1u << k) || !dense_through(g, c, n->in[k])))
            return false;
    return true;
}

static bool all_can_widen(const weir_fuser *f, uint32_t cast)
{
    const uint32_t made = weir_storage_of(f->g, f->g->nodes.at[cast].out[0]);

    for (uint32_t r = f->reader_first[made]; r < f->reader_first[made + 1]; r++) {
        const uint32_t k = f->reader[r], a = f->group_of[k];
        if (f->g->nodes.at[k].dead || !reads(&f->g->nodes.at[k], f->g, made))
            continue;
        if (a == WEIR_NONE ? !node_can_widen(f, cast, k) : !can_widen(f, cast, &f->groups[a]))
            return false;
    }
    return !f->g->storages.at[made].external;
}

/* Redirects nodes of no group that read the cast's output to its input. */
static weir_status nodes_read_input(weir_fuser *f, uint32_t cast)
{
    const uint32_t from = weir_storage_of(f->g, f->g->nodes.at[cast].in[0]);
    const uint32_t made = weir_storage_of(f->g, f->g->nodes.at[cast].out[0]);

    for (uint32_t r = f->reader_first[made]; r < f->reader_first[made + 1]; r++) {
        const uint32_t   k = f->reader[r];
        const weir_group one = weir_group_alone(k);
        if (f->group_of[k] != WEIR_NONE || !reads(&f->g->nodes.at[k], f->g, made))
            continue;
        WEIR_TRY(read_input(f, cast, &one));
        f->late[from] = f->late[from] > k ? f->late[from] : k;
    }
    return WEIR_OK;
}

/* Is the half value live anyway for as long as the cast's output will be live after the group no
 * longer reads it? */
static bool outlives(const weir_fuser *f, uint32_t cast, const weir_group *a)
{
    const uint32_t from = weir_storage_of(f->g, f->g->nodes.at[cast].in[0]);
    const uint32_t made = weir_storage_of(f->g, f->g->nodes.at[cast].out[0]);
    uint32_t       until = last_use(f, made, a, 0);

    if (f->g->storages.at[made].external || until > a->last)
        until = a->last;
    return f->g->storages.at[from].external || last_use(f, from, &weir_group_empty, 0) >= until;
}

/* Tries the groups from last to first: each success shortens the live range of the cast's output,
 * so that only the first group can need more memory. */
weir_status weir_fuse_widen(weir_fuser *f, uint32_t cast)
{
    const uint32_t made = weir_storage_of(f->g, f->g->nodes.at[cast].out[0]);
    bool           all = all_can_widen(f, cast);

    for (weir_group *a = reader_before(f, made, WEIR_NONE); a;
         a = reader_before(f, made, a->last)) {
        bool done = false;
        if (all || (can_widen(f, cast, a) && outlives(f, cast, a)))
            WEIR_TRY(try_half(f, cast, a, &done));
        all = all && done;
    }
    if (all)
        WEIR_TRY(nodes_read_input(f, cast));
    f->g->nodes.at[cast].dead = all && f->reader_first[made] < f->reader_first[made + 1];
    return WEIR_OK;
}

/* ---- casts of weights ---- */

/* Does the node's kernel round all inputs that are the cast's output to that type? */
static bool node_can_narrow(const weir_fuser *f, uint32_t cast, uint32_t node)
{
    const weir_graph *const g = f->g;
    const weir_node *const  c = &g->nodes.at[cast], *const n = &g->nodes.at[node];
    const uint32_t          made = weir_storage_of(g, c->out[0]);

    if (f->group_of[node] != WEIR_NONE ||
        weir_fuse_overwritten(f, weir_storage_of(g, c->in[0]), cast, node) ||
        weir_fuse_type(g, n->in[0]) != weir_fuse_type(g, c->out[0]))
        return false;
    for (int k = 0; k < n->nin; k++)
        if (weir_storage_of(g, n->in[k]) == made &&
            (!(g->dev->ops->narrows[n->op] >> k & 1) || !dense_through(g, c, n->in[k])))
            return false;
    return true;
}

weir_status weir_fuse_narrow(weir_fuser *f, uint32_t cast)
{
    weir_graph *const g = f->g;
    const uint32_t    from = weir_storage_of(g, g->nodes.at[cast].in[0]);
    const uint32_t    made = weir_storage_of(g, g->nodes.at[cast].out[0]);
    bool              read = false;

    if (!g->dev->ops->narrows || !g->storages.at[from].external || g->storages.at[made].external)
        return WEIR_OK;
    for (uint32_t r = f->reader_first[made]; r < f->reader_first[made + 1]; r++) {
        const uint32_t k = f->reader[r];
        if (g->nodes.at[k].dead || !reads(&g->nodes.at[k], g, made))
            continue;
        if (!node_can_narrow(f, cast, k))
            return WEIR_OK;
        read = true;
    }
    if (!read)
        return WEIR_OK;
    g->nodes.at[cast].dead = true;
    f->group_of[cast] = WEIR_NONE;
    return nodes_read_input(f, cast);
}

/* ---- results of other nodes ---- */

static bool only_reader(const weir_fuser *f, uint32_t cast, uint32_t storage)
{
    for (uint32_t r = f->reader_first[storage]; r < f->reader_first[storage + 1]; r++)
        if (f->reader[r] != cast && reads(&f->g->nodes.at[f->reader[r]], f->g, storage))
            return false;
    return true;
}

/* The output of node n that has the storage; n->nout if none has. */
static int output_of(const weir_graph *g, const weir_node *n, uint32_t storage)
{
    int k = 0;

    while (k < n->nout && weir_storage_of(g, n->out[k]) != storage)
        k++;
    return k;
}

/* The half value's storage is written at the position of the node, before the cast's, in place of
 * the f32 one, which is larger: no more bytes are live anywhere. */
weir_status weir_fuse_round(weir_fuser *f, uint32_t cast)
{
    weir_graph *const      g = f->g;
    weir_node *const       c = &g->nodes.at[cast];
    const uint32_t         from = weir_storage_of(g, c->in[0]);
    const uint32_t         made = weir_storage_of(g, c->out[0]), m = f->maker[from];
    const uint32_t *const  rounds = g->dev->ops->rounds;

    if (!rounds || m == WEIR_NONE || f->group_of[m] != WEIR_NONE ||
        f->groups[f->group_of[cast]].n > 1 || g->storages.at[from].external ||
        g->storages.at[made].external)
        return WEIR_OK;
    weir_node *const n = &g->nodes.at[m];
    const int        k = output_of(g, n, from);
    if (k == n->nout || !(rounds[n->op] >> k & 1) || n->half != c->half ||
        !only_reader(f, cast, from) || !dense_through(g, c, n->out[k]) ||
        weir_shape_count(&g->values.at[c->in[0]].layout.desc) !=
            weir_shape_count(&g->values.at[n->out[k]].layout.desc))
        return WEIR_OK;
    weir_layout view = g->values.at[n->out[k]].layout;
    view.desc.dtype = weir_fuse_type(g, c->out[0]);
    const uint32_t half = weir_graph_value_of(g, made, &view, g->values.at[c->out[0]].offset);
    if (half == WEIR_NONE)
        return WEIR_ERR_NOMEM;
    n->out[k] = half;
    c->dead = true;
    f->group_of[cast] = WEIR_NONE;
    return WEIR_OK;
}
