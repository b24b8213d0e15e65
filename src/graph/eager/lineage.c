/* lineage.c - creates and frees origins and recompute records, and computes the costs of evicted
 * neighbourhoods (Kirisame et al., "Dynamic tensor rematerialization", ICLR 2021). */
#include "graph/eager/lineage.h"

#include <string.h>

/* Longest chain of remembered calls: without a limit, state carried from step to step would keep
 * every call of the program. */
enum { MOST_DEPTH = 10000 };

/* Most records visited to decide whether a value is wanted. */
enum { WANTED_STEPS = 100 };

/* ---- union-find ---- */

static void class_drop(weir_class *c)
{
    while (c && --c->refs == 0) {
        weir_class *const up = c->up;
        weir_mem_free(c);
        c = up;
    }
}

/* The root of c's class, with path halving (Tarjan and van Leeuwen 1984). */
static weir_class *class_find(weir_class *c)
{
    while (c->up && c->up->up) {
        weir_class *const up = c->up;
        c->up = up->up;
        c->up->refs++;
        class_drop(up);
        c = c->up;
    }
    return c->up ? c->up : c;
}

static void class_join(weir_class *a, weir_class *b)
{
    weir_class *const x = class_find(a), *const y = class_find(b);

    if (x == y)
        return;
    x->seconds += y->seconds;
    y->up = x;
    x->refs++;
}

static void join_record(const weir_recompute_record *a, const weir_recompute_record *b)
{
    if (b && b->evicted && b->class)
        class_join(a->class, b->class);
}

/* Puts the record into a class with its evicted neighbours. If memory is short it belongs to no
 * class, which only makes scores less exact. */
static void class_enter(weir_recompute_record *m)
{
    m->class = weir_mem_alloc(sizeof *m->class);
    if (!m->class)
        return;
    *m->class = (weir_class){.refs = 1, .seconds = m->seconds};
    for (int i = 0; i < m->nin; i++)
        join_record(m, m->use[i].of->record);
    for (int i = 0; i < m->nout; i++)
        for (const weir_use *u = m->out[i] ? m->out[i]->uses : NULL; u; u = u->next)
            join_record(m, u->by);
}

static void class_leave(weir_recompute_record *m)
{
    if (!m->class)
        return;
    weir_class *const all = class_find(m->class);
    all->seconds = all->seconds > m->seconds ? all->seconds - m->seconds : 0;
    class_drop(m->class);
    m->class = NULL;
}

void weir_recompute_record_evicted(weir_lineage *l, weir_recompute_record *m)
{
    if (m->evicted)
        return;
    m->evicted = true;
    if (l->classes)
        class_enter(m);
}

void weir_recompute_record_restored(weir_recompute_record *m)
{
    m->evicted = false;
    class_leave(m);
}

/* ---- freeing ---- */

static void origin_drop(weir_origin *o);

static void unlink_use(weir_use *u)
{
    *u->at = u->next;
    if (u->next)
        u->next->at = u->at;
    origin_drop(u->of);
}

/* A record is freed with its last output. A queue instead of recursion bounds the depth of the
 * stack for chains of any length. */
static void output_lost(weir_lineage *l, weir_recompute_record *m, int out)
{
    m->out[out] = NULL;
    if (--m->outs > 0)
        return;
    m->next_dying = l->dying;
    l->dying = m;
    if (l->draining)
        return;
    l->draining = true;
    while (l->dying) {
        weir_recompute_record *const d = l->dying;
        l->dying = d->next_dying;
        class_leave(d);
        for (int i = 0; i < d->nin; i++)
            unlink_use(&d->use[i]);
        weir_mem_free(d);
        l->records--;
    }
    l->draining = false;
}

static void origin_free(weir_origin *o)
{
    weir_lineage *const l = o->lineage;

    l->origins.at[o->slot] = l->origins.at[--l->origins.n];
    l->origins.at[o->slot]->slot = o->slot;
    if (o->block)
        o->block->origin = NULL;
    if (o->owned)
        weir_ref_drop(o->block);
    if (o->record)
        output_lost(l, o->record, o->out);
    weir_mem_free(o);
}

static void origin_drop(weir_origin *o)
{
    if (--o->refs == 0)
        origin_free(o);
}

void weir_origin_cut(weir_origin *o)
{
    weir_recompute_record *const m = o->record;

    o->record = NULL;
    o->owned = true;
    weir_ref_take(o->block);
    output_lost(o->lineage, m, o->out);
    origin_drop(o);
}

void weir_origin_evict(weir_origin *o)
{
    weir_block *const b = o->block;

    weir_block_evict(b);
    if (o->owned) {                 /* no handle needs the block */
        o->block = NULL;
        o->owned = false;
        b->origin = NULL;
        weir_ref_drop(b);
    }
    weir_recompute_record_evicted(o->lineage, o->record);
}

/* Creates a block, owned by the origin, that takes over the memory of dying block b. */
static bool take_over(weir_origin *o, weir_block *b)
{
    weir_block *const mine = weir_block_new(b->dev, b->bytes, b->kind);

    if (!mine)
        return false;
    mine->data = b->data;
    mine->got = b->got;
    mine->written = true;
    mine->origin = o;
    b->data = NULL;
    b->got = 0;
    o->block = mine;
    o->owned = true;
    return true;
}

void weir_origin_orphaned(weir_origin *o)
{
    weir_block *const b = o->block;
    const bool        there = weir_origin_there(o);

    o->block = NULL;
    if (o->uses && !(there && weir_origin_wanted(o) && take_over(o, b)))
        weir_recompute_record_evicted(o->lineage, o->record);
    origin_drop(o);
}

/* ---- creating ---- */

static weir_origin *origin_new(weir_lineage *l, weir_block *b)
{
    weir_origin *o = weir_mem_zalloc(1, sizeof *o);

    if (!o)
        return NULL;
    o->refs = 1;
    o->block = b;
    o->lineage = l;
    o->slot = l->origins.n;
    if (!weir_vec_push(&l->origins, o)) {
        weir_mem_free(o);
        return NULL;
    }
    b->origin = o;
    return o;
}

/* Returns the origin of a block that a call reads, with a new reference; a block without one gets a
 * constant origin. */
static weir_origin *origin_of(weir_lineage *l, weir_block *b)
{
    weir_origin *o = b->origin;

    if (o) {
        o->refs++;
        return o;
    }
    o = origin_new(l, b);
    if (o) {
        o->owned = true;
        weir_ref_take(b);
    }
    return o;
}

/* Creates a record of the call with a copy of its attributes, without operands. */
static weir_recompute_record *record_new(const weir_call *c)
{
    const size_t n = (size_t)c->nin + (size_t)c->nout;
    weir_recompute_record *m = weir_mem_zalloc(1, sizeof *m + (size_t)c->nin * sizeof *m->use +
                                                      n * sizeof *m->in_layout + c->attr_bytes);
    if (!m)
        return NULL;
    m->op = c->op;
    m->def = c->def;
    m->nout = c->nout;
    m->in_layout = (weir_layout *)(void *)&m->use[c->nin];
    m->out_layout = m->in_layout + c->nin;
    m->attr = m->in_layout + n;
    m->attr_bytes = c->attr_bytes;
    for (int i = 0; i < c->nin; i++)
        m->in_layout[i] = c->in[i];
    for (int i = 0; i < c->nout; i++)
        m->out_layout[i] = c->out[i];
    if (c->attr_bytes > 0)
        memcpy(m->attr, c->attr, c->attr_bytes);
    return m;
}

static bool link_inputs(weir_lineage *l, weir_recompute_record *m, int nin, weir_tensor *const *in)
{
    for (; m->nin < nin; m->nin++) {
        weir_use    *const u = &m->use[m->nin];
        weir_origin *const o = origin_of(l, in[m->nin]->block);
        if (!o)
            return false;
        *u = (weir_use){.of = o, .by = m, .next = o->uses, .at = &o->uses,
                        .offset = in[m->nin]->offset};
        if (u->next)
            u->next->at = &u->next;
        o->uses = u;
        if (o->record && o->record->depth >= m->depth)
            m->depth = o->record->depth + 1;
    }
    return true;
}

static bool make_outputs(weir_lineage *l, weir_recompute_record *m, weir_tensor *const *out,
                         double now)
{
    for (int i = 0; i < m->nout; i++) {
        weir_origin *const o = origin_new(l, out[i]->block);
        if (!o)
            return false;
        o->record = m;
        o->out = i;
        o->used = now;
        m->out[i] = o;
        m->outs++;
    }
    return true;
}

/* Frees a record that is incomplete or not wanted. */
static void undo(weir_lineage *l, weir_recompute_record *m)
{
    l->records++;
    m->outs++;                  /* keeps m alive until the end of the function */
    for (int i = 0; i < m->nout; i++)
        if (m->out[i])
            origin_drop(m->out[i]);
    output_lost(l, m, 0);
}

weir_status weir_lineage_note(weir_lineage *l, const weir_call *c, weir_tensor *const *in,
                              weir_tensor *const *out, uint64_t rng, double now)
{
    weir_recompute_record *const m =
        weir_vec_reserve(&l->stack, (uint64_t)l->records + 1) ? record_new(c) : NULL;

    if (!m)
        return WEIR_ERR_NOMEM;
    m->rng = rng;
    m->seed = out[0]->dev->seed;
    m->seconds = weir_call_estimate(c);
    if (!link_inputs(l, m, c->nin, in)) {
        undo(l, m);
        return WEIR_ERR_NOMEM;
    }
    if (m->depth > MOST_DEPTH) {
        undo(l, m);
        return WEIR_OK;
    }
    if (!make_outputs(l, m, out, now)) {
        undo(l, m);
        return WEIR_ERR_NOMEM;
    }
    l->records++;
    return WEIR_OK;
}

void weir_lineage_free(weir_lineage *l)
{
    for (uint32_t i = 0; i < l->origins.n; i++)
        l->origins.at[i]->refs++;           /* so that no origin is freed during the loop */
    for (uint32_t i = 0; i < l->origins.n; i++) {
        weir_origin *const o = l->origins.at[i];
        if (o->record && o->block && !o->owned) {
            o->block->origin = NULL;
            o->block = NULL;
            o->refs--;
        }
    }
    for (uint32_t i = l->origins.n; i-- > 0;)
        origin_drop(l->origins.at[i]);
    weir_vec_free(&l->origins);
    weir_vec_free(&l->stack);
}

/* ---- neighbourhoods ---- */

static void push(weir_lineage *l, weir_recompute_record *m)
{
    if (m->visit == l->visits)
        return;
    m->visit = l->visits;
    l->stack.at[l->stack.n++] = m;
}

void weir_origin_push_readers(const weir_origin *o)
{
    for (const weir_use *u = o->uses; u; u = u->next)
        push(o->lineage, u->by);
}

static void push_evicted_inputs(weir_lineage *l, const weir_recompute_record *m)
{
    for (int i = 0; i < m->nin; i++) {
        const weir_origin *const of = m->use[i].of;
        if (of->record && !weir_origin_there(of))
            push(l, of->record);
    }
}

static void push_evicted_readers(const weir_origin *o)
{
    for (const weir_use *u = o->uses; u; u = u->next)
        if (u->by->evicted || u->by->asked)
            push(o->lineage, u->by);
}

/* Will m run again, or is an output of it held and evicted? If neither, pushes the readers of its
 * evicted outputs. */
static bool needed(const weir_recompute_record *m)
{
    bool need = m->asked;

    for (int i = 0; i < m->nout && !need; i++)
        if (m->out[i] && !weir_origin_there(m->out[i])) {
            need = weir_origin_held(m->out[i]);
            push_evicted_readers(m->out[i]);
        }
    return need;
}

bool weir_origin_wanted(const weir_origin *o)
{
    weir_lineage *const l = o->lineage;
    bool                wanted = false;

    l->visits++;
    l->stack.n = 0;
    push_evicted_readers(o);
    for (int steps = 0; steps < WANTED_STEPS && l->stack.n > 0 && !wanted; steps++)
        wanted = needed(l->stack.at[--l->stack.n]);
    return wanted;
}

double weir_origin_above(const weir_origin *o)
{
    weir_lineage *const l = o->lineage;
    double              sum = 0;

    l->visits++;
    l->stack.n = 0;
    push_evicted_inputs(l, o->record);
    while (l->stack.n > 0) {
        const weir_recompute_record *const m = l->stack.at[--l->stack.n];
        sum += m->seconds;
        push_evicted_inputs(l, m);
    }
    return sum;
}

static double below(const weir_origin *o)
{
    weir_lineage *const l = o->lineage;
    double              sum = 0;

    l->visits++;
    l->stack.n = 0;
    push_evicted_readers(o);
    while (l->stack.n > 0) {
        const weir_recompute_record *const m = l->stack.at[--l->stack.n];
        sum += m->seconds;
        for (int i = 0; i < m->nout; i++)
            if (m->out[i] && !weir_origin_there(m->out[i]))
                push_evicted_readers(m->out[i]);
    }
    return sum;
}

double weir_origin_around(const weir_origin *o)
{
    return weir_origin_above(o) + below(o);
}

/* Seconds of the record's class, or 0 if this traversal has counted the class already. */
static double class_once(const weir_lineage *l, const weir_recompute_record *m)
{
    weir_class *const c = m && m->evicted && m->class ? class_find(m->class) : NULL;

    if (!c || c->visit == l->visits)
        return 0;
    c->visit = l->visits;
    return c->seconds;
}

double weir_origin_class(const weir_origin *o)
{
    double sum = 0;

    o->lineage->visits++;
    for (int i = 0; i < o->record->nin; i++)
        sum += class_once(o->lineage, o->record->use[i].of->record);
    for (const weir_use *u = o->uses; u; u = u->next)
        sum += class_once(o->lineage, u->by);
    return sum;
}
