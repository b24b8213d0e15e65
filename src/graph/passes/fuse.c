/* fuse.c - fuses element-wise chains into one node that runs tile by tile in cache: the same
 * arithmetic in the same order, but one pass over memory.
 *
 * Nodes are visited in list order; each node's group merges with the groups of its producers. A
 * merged group runs at the position of its last member. Two groups may merge only if no other node
 * reads a member's output before that position, no update overwrites a member's input before it,
 * and the delay keeps no more memory alive than fusion saves. Groups of different halves of a graph
 * with a stop never merge.
 *
 * Rows of halves are steps of f32 groups that round their results. A cast that rounds (f32 to half)
 * joins the group that computes its input: either as a half output of the same step, or, if rows of
 * halves in the group read it, by letting that step round. A cast that widens (half to f32) joins
 * no group: its readers read the half value instead, either all of them or those that run while the
 * half value is live anyway. Neither may increase the memory in use where the group runs. A cast
 * that rounds the result of another kernel disappears if that can round it (fuse_cast.c). */
#include <string.h>

#include "core/status.h"
#include "graph/ops/op.h"
#include "graph/passes/fuse.h"
#include "graph/passes/passes.h"

/* The type in which a group with this member computes: rows of halves are f32 steps that round. */
static weir_dtype step_type(const weir_graph *g, const weir_node *n)
{
    const weir_dtype type = weir_fuse_type(g, n->out[0]);

    return weir_is_half(type) ? WEIR_F32 : type;
}

static bool fusable(const weir_graph *g, const weir_node *n)
{
    const bool row = n->def->flags & WEIR_ELEMENTWISE;
    if ((!row && !weir_cast_rounds(g, n)) || n->nout != 1)
        return false;
    const weir_desc *d = &g->values.at[n->out[0]].layout.desc;
    return weir_is_any_float(d->dtype) && weir_shape_count(d) > 0;
}

/* May member m of the merged group run as late as position `last`? */
static bool can_wait(const weir_fuser *f, const weir_group *a, const weir_group *b, uint32_t m,
                     uint32_t last)
{
    const weir_node *n = &f->g->nodes.at[m];
    const uint32_t   out = weir_storage_of(f->g, n->out[0]);

    for (uint32_t r = f->reader_first[out]; r < f->reader_first[out + 1]; r++) {
        const uint32_t k = f->reader[r];
        if (k < last && !weir_group_has(a, k) && !weir_group_has(b, k))
            return false;
    }
    for (int k = 0; k < n->nin; k++)
        if (weir_fuse_overwritten(f, weir_storage_of(f->g, n->in[k]), m, last))
            return false;
    return true;
}

/* Do members read each other's outputs only with the view with which they are computed? The kernel
 * hands tiles from step to step and cannot index them otherwise. */
static bool views_plain(const weir_fuser *f, const weir_group *a, const weir_group *b)
{
    const weir_group *both[2] = {a, b};

    for (int side = 0; side < 2; side++)
        for (uint32_t i = 0; i < both[side]->n; i++) {
            const weir_node *m = &f->g->nodes.at[both[side]->member[i]];
            for (int k = 0; k < m->nin; k++) {
                const uint32_t s = weir_storage_of(f->g, m->in[k]);
                if (weir_group_makes(f, a, b, s) &&
                    !weir_view_equal(f->g, m->in[k], f->g->nodes.at[f->maker[s]].out[0]))
                    return false;
            }
        }
    return true;
}

/* Bytes of the storages whose live ranges would grow if `a` ran at `last`: those that its members
 * read from outside, each counted once. */
static size_t kept_longer(const weir_fuser *f, const weir_group *a, const weir_group *b,
                          uint32_t last)
{
    uint32_t in[2 * WEIR_EW_MAX_STEPS * WEIR_MAX_IN];
    size_t   bytes = 0;

    const uint32_t n = weir_group_inputs(f, a, &weir_group_empty, in);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t s = weir_storage_of(f->g, in[i]);
        bool           first = !f->g->storages.at[s].external && !weir_group_makes(f, a, b, s);
        for (uint32_t j = 0; j < i && first; j++)
            first = weir_storage_of(f->g, in[j]) != s;
        if (first && f->reader[f->reader_first[s + 1] - 1] < last)
            bytes += f->g->storages.at[s].bytes;
    }
    return bytes;
}

/* Bytes of the outputs of `a` that stay in cache once both groups are merged. */
static size_t fused_away(const weir_fuser *f, const weir_group *a, const weir_group *b)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < a->n; i++)
        if (!weir_group_gives(f, a, b, a->member[i]) && weir_group_gives(f, a, a, a->member[i]))
            bytes += weir_storage_at(f->g, f->g->nodes.at[a->member[i]].out[0])->bytes;
    return bytes;
}

/* Would delaying `early` to the position of `late` keep more memory alive in between than fusion
 * saves? For example, a sum of gradients that waits for the last summand keeps all of them alive.
 * No, if no other node runs in between. */
static bool hoards(const weir_fuser *f, const weir_group *early, const weir_group *late)
{
    if (weir_group_next(f->g, early, late))
        return false;
    const size_t saved = fused_away(f, early, late);
    return kept_longer(f, early, late, late->last) > saved + saved / 16;
}

/* ---- joining ---- */

static uint8_t half_of(const weir_fuser *f, const weir_group *a)
{
    return f->g->nodes.at[a->last].half;
}

static bool can_merge(const weir_fuser *f, const weir_group *a, const weir_group *b)
{
    const uint32_t last = a->last > b->last ? a->last : b->last;
    const weir_group *both[2] = {a, b};
    uint32_t inputs[2 * WEIR_EW_MAX_STEPS * WEIR_MAX_IN], outs = 0;

    if (a->n + b->n > WEIR_EW_MAX_STEPS || half_of(f, a) != half_of(f, b) ||
        !views_plain(f, a, b) ||
        (a->last < b->last ? hoards(f, a, b) : hoards(f, b, a)))
        return false;
    for (int side = 0; side < 2; side++)
        for (uint32_t i = 0; i < both[side]->n; i++) {
            if (!can_wait(f, a, b, both[side]->member[i], last))
                return false;
            outs += weir_group_gives(f, a, b, both[side]->member[i]);
        }
    if (outs > WEIR_EW_MAX_OUT || weir_group_inputs(f, a, b, inputs) > WEIR_EW_MAX_IN ||
        !weir_fuse_rounds_alike(f, a, b))
        return false;
    return !(a->last < b->last ? weir_fuse_swells(f, a, b) : weir_fuse_swells(f, b, a));
}

/* Merges group ga into gb. */
static void merge(weir_fuser *f, uint32_t ga, uint32_t gb)
{
    const weir_group all = weir_group_joined(&f->groups[ga], &f->groups[gb]);

    for (uint32_t m = 0; m < all.n; m++)
        f->group_of[all.member[m]] = gb;
    f->groups[gb] = all;
    f->groups[ga].n = 0;
    f->groups[ga].widens = false;
}

static void join_producers(weir_fuser *f, uint32_t i)
{
    const weir_graph *g = f->g;
    const weir_node  *n = &g->nodes.at[i];
    const weir_layout *shape = &g->values.at[n->out[0]].layout;

    for (int k = 0; k < n->nin; k++) {
        const uint32_t p = f->maker[weir_storage_of(g, n->in[k])];
        if (p == WEIR_NONE || f->group_of[p] == WEIR_NONE || f->group_of[p] == f->group_of[i])
            continue;
        const weir_layout *made = &g->values.at[g->nodes.at[p].out[0]].layout;
        if (step_type(g, &g->nodes.at[p]) == step_type(g, n) &&
            weir_shape_equal(&made->desc, &shape->desc) &&
            can_merge(f, &f->groups[f->group_of[p]], &f->groups[f->group_of[i]]))
            merge(f, f->group_of[p], f->group_of[i]);
    }
}

/* ---- emitting ---- */

/* Where a step of the program finds operand `value`: the number of an input, or nin + the number of
 * an earlier step. A value that is rounded inside the group is that of the step that rounds. */
static int64_t operand_of(const weir_fuser *f, const weir_group *a, const uint32_t *in,
                          uint32_t nin, uint32_t value)
{
    for (uint32_t j = 0; j < nin; j++)
        if (weir_view_equal(f->g, in[j], value))
            return j;
    uint32_t m = f->maker[weir_storage_of(f->g, value)], step = 0;
    if (weir_cast_rounds(f->g, &f->g->nodes.at[m]))
        m = f->maker[weir_storage_of(f->g, f->g->nodes.at[m].in[0])];
    for (uint32_t j = 0; a->member[j] != m; j++)
        step += !weir_cast_rounds(f->g, &f->g->nodes.at[a->member[j]]);
    return (int64_t)nin + step;
}

static weir_ew_step step_of(const weir_fuser *f, const weir_group *a, const uint32_t *in,
                            uint32_t nin, const weir_node *n)
{
    weir_ew_step st = {.op = n->op, .rng = n->rng, .rounds = weir_fuse_rounds_to(f, a, n)};

    if (n->attr_bytes >= sizeof(weir_ew_attr)) {
        st.s = ((const weir_ew_attr *)n->attr)->s;
        st.t = ((const weir_ew_attr *)n->attr)->t;
    }
    for (int k = 0; k < n->nin; k++)
        st.src[k] = operand_of(f, a, in, nin, n->in[k]);
    return st;
}

/* Replaces the group by one node at the position of its last member. If no output is read outside,
 * the node computes the last member's. */
static weir_status emit(weir_fuser *f, const weir_group *a)
{
    weir_graph      *g = f->g;
    uint32_t         in[2 * WEIR_EW_MAX_STEPS * WEIR_MAX_IN];
    weir_node        fused = {.op = WEIR_OP_FUSED, .def = &weir_op_fused,
                              .phase = g->nodes.at[a->last].phase,
                              .segment = g->nodes.at[a->last].segment,
                              .half = half_of(f, a),
                              .attr_bytes = sizeof(weir_ew_program)};
    weir_ew_program *p = weir_mem_zalloc(1, sizeof *p);

    if (!p)
        return WEIR_ERR_NOMEM;
    const uint32_t nin = weir_group_inputs(f, a, &weir_group_empty, in);
    p->type = step_type(g, &g->nodes.at[a->last]);
    p->nin = nin;
    memcpy(fused.in, in, nin * sizeof *in);
    fused.nin = (uint8_t)nin;
    fused.region = g->nodes.at[a->member[0]].region;
    bool named = true;
    for (uint32_t i = 0; i < a->n && named; i++)
        named = weir_names_join(&g->names, &fused.name, g->nodes.at[a->member[i]].name);
    for (uint32_t i = 0; i < a->n; i++) {
        const weir_node *n = &g->nodes.at[a->member[i]];
        fused.region = n->region == fused.region ? fused.region : 0;
        const bool       cast = weir_cast_rounds(g, n);
        if (!cast)
            p->step[p->nstep++] = step_of(f, a, in, nin, n);
        const bool       last = i + 1 == a->n && fused.nout == 0;
        if (last || weir_group_gives(f, a, &weir_group_empty, a->member[i])) {
            p->out[p->nout++] = cast ? operand_of(f, a, in, nin, n->in[0]) - nin : p->nstep - 1;
            fused.out[fused.nout++] = n->out[0];
        }
    }
    fused.attr = p;
    if (!named) {
        weir_mem_free(p);
        return WEIR_ERR_NOMEM;
    }
    for (uint32_t i = 0; i + 1 < a->n; i++)
        g->nodes.at[a->member[i]].dead = true;
    weir_mem_free(g->nodes.at[a->last].attr);
    g->nodes.at[a->last] = fused;
    return WEIR_OK;
}

/* Casts that widen are tried on single nodes, whose half inputs then let rounding casts join, and
 * again on the groups. */
static weir_status widen_all(weir_fuser *f)
{
    for (uint32_t i = 0; i < f->g->nodes.n; i++)
        if (!f->g->nodes.at[i].dead && weir_cast_widens(f->g, &f->g->nodes.at[i]))
            WEIR_TRY(weir_fuse_widen(f, i));
    return WEIR_OK;
}

static weir_status narrow_all(weir_fuser *f)
{
    for (uint32_t i = 0; i < f->g->nodes.n; i++)
        if (!f->g->nodes.at[i].dead && weir_cast_rounds(f->g, &f->g->nodes.at[i]))
            WEIR_TRY(weir_fuse_narrow(f, i));
    return WEIR_OK;
}

static weir_status round_all(weir_fuser *f)
{
    for (uint32_t i = 0; i < f->g->nodes.n; i++)
        if (f->group_of[i] != WEIR_NONE && weir_cast_rounds(f->g, &f->g->nodes.at[i]))
            WEIR_TRY(weir_fuse_round(f, i));
    return WEIR_OK;
}

weir_status weir_pass_fuse(weir_graph *g)
{
    weir_fuser  f = {.g = g};
    weir_status status = WEIR_OK;

    f.group_of = weir_mem_alloc((g->nodes.n + 1) * sizeof *f.group_of);
    f.groups = weir_mem_zalloc(g->nodes.n + 1, sizeof *f.groups);
    if (!f.group_of || !f.groups || !weir_fuser_index(&f)) {
        weir_fuser_free(&f);
        return WEIR_ERR_NOMEM;
    }
    memset(f.group_of, 0xff, (g->nodes.n + 1) * sizeof *f.group_of);
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (fusable(g, &g->nodes.at[i])) {
            f.group_of[i] = i;
            f.groups[i] = weir_group_alone(i);
        }
    status = narrow_all(&f);
    if (status == WEIR_OK)
        status = widen_all(&f);
    if (status == WEIR_OK && !weir_fuser_index(&f))
        status = WEIR_ERR_NOMEM;
    for (uint32_t i = 0; i < g->nodes.n && status == WEIR_OK; i++)
        if (f.group_of[i] != WEIR_NONE)
            join_producers(&f, i);
    if (status == WEIR_OK)
        status = widen_all(&f);
    if (status == WEIR_OK)
        status = round_all(&f);
    for (uint32_t i = 0; i < g->nodes.n && status == WEIR_OK; i++)
        if (f.group_of[i] != WEIR_NONE && (f.groups[i].n > 1 || f.groups[i].widens))
            status = emit(&f, &f.groups[i]);
    weir_fuser_free(&f);
    weir_graph_compact(g);
    return status;
}
