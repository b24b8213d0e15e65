/* rematerialize.c - runs remembered calls again, after their own evicted inputs; all inputs of a
 * call are locked until it has run. */
#include "graph/eager/rematerialize.h"

#include "core/status.h"
#include "device/call.h"

/* Most calls that are run again for one call of the user: this number times the remembered calls,
 * or the minimum. A program that needs more would hardly progress. */
enum { RECOMPUTES_PER_RECORD = 50, MIN_RECOMPUTES = 1000 };

/* Memory for output i: the value's block, or a new one if it has none. */
static weir_block *output_block(const weir_recompute_record *m, int i, weir_device *d)
{
    weir_origin *const o = m->out[i];

    return o && o->block ? weir_ref_take(o->block)
                         : weir_block_new(d, weir_shape_bytes(&m->out_layout[i].desc),
                                          WEIR_KIND_ACTIVATION);
}

/* Unlocks the outputs of a run and keeps those that are held or wanted. If the run failed, evicts
 * those that it should have restored. */
static void settle_outputs(const weir_recompute_record *m, weir_tensor *t, const bool *there,
                           bool made, double now)
{
    for (int i = 0; i < m->nout; i++) {
        weir_origin *const o = m->out[i];
        weir_block *const  b = t[i].block;
        if (o)
            o->locks--;
        if (b && !made && !there[i])
            weir_block_evict(b);
        if (made && o)
            o->used = now;
        if (made && o && !o->block && weir_origin_wanted(o)) {
            o->block = weir_ref_take(b);
            o->owned = true;
            b->origin = o;
        }
        weir_ref_drop(b);
    }
}

/* Runs the remembered call again; its inputs are on the device and locked. */
static weir_status recompute(weir_evict *e, weir_recompute_record *m)
{
    weir_device *const d = e->s->dev;
    weir_tensor        t[WEIR_MAX_IN + WEIR_MAX_OUT], *at[WEIR_MAX_IN + WEIR_MAX_OUT];
    bool               there[WEIR_MAX_OUT];
    weir_status        status = WEIR_OK;
    const uint64_t     seed = d->seed;
    const weir_call    c = {.op = m->op, .def = m->def, .nin = m->nin, .nout = m->nout,
                            .in = m->in_layout, .out = m->out_layout, .attr = m->attr,
                            .attr_bytes = m->attr_bytes, .alias = -1};

    for (int i = 0; i < m->nin; i++) {
        t[i] = (weir_tensor){.dev = d, .layout = m->in_layout[i], .offset = m->use[i].offset,
                             .block = m->use[i].of->block};
        at[i] = &t[i];
    }
    weir_tensor *const y = t + m->nin;
    for (int i = 0; i < m->nout; i++) {
        there[i] = m->out[i] && weir_origin_there(m->out[i]);
        y[i] = (weir_tensor){.dev = d, .layout = m->out_layout[i], .block = output_block(m, i, d)};
        at[m->nin + i] = &y[i];
        status = y[i].block ? status : WEIR_ERR_NOMEM;
        if (m->out[i])
            m->out[i]->locks++;
    }
    d->seed = m->seed;
    if (status == WEIR_OK)
        status = weir_run_once(d, &c, at, at + m->nin, m->rng);
    d->seed = seed;
    e->now += status == WEIR_OK ? m->seconds : 0;
    settle_outputs(m, y, there, status == WEIR_OK, e->now);
    if (status != WEIR_OK)
        return status;
    weir_recompute_record_restored(m);
    e->recomputed++;
    d->recomputed++;
    return WEIR_OK;
}

/* Evicts inputs of the record that were on the device only for its run. */
static void drop_unwanted(const weir_recompute_record *m)
{
    for (int i = 0; i < m->nin; i++) {
        weir_origin *const o = m->use[i].of;
        if (o->owned && weir_origin_evictable(o) && !weir_origin_wanted(o))
            weir_origin_evict(o);
    }
}

static weir_status check_progress(const weir_evict *e)
{
    const uint64_t most = MIN_RECOMPUTES + (uint64_t)RECOMPUTES_PER_RECORD * e->lineage.records;

    if (e->recomputed <= most)
        return WEIR_OK;
    return weir_fail(WEIR_ERR_BUDGET, "%s: the budget of %zu bytes is so small that more than "
                     "%llu calls would have to run again",
                     e->doing ? e->doing : "reading a value", e->s->dev->pool.limit,
                     (unsigned long long)most);
}

/* Pushes a frame with the inputs of a record that must run again. */
static weir_status begin_frame(weir_evict *e, weir_recompute_record *m)
{
    weir_frame f = {.m = m, .n = m->nin};

    for (int i = 0; i < m->nin; i++)
        f.of[i] = m->use[i].of;
    WEIR_TRY(check_progress(e));
    if (!weir_vec_push(&e->frames, f))
        return WEIR_ERR_NOMEM;
    m->asked = true;
    return WEIR_OK;
}

static void end_frame(weir_evict *e)
{
    const weir_frame *const f = &e->frames.at[--e->frames.n];

    for (int i = 0; i < f->n; i++)
        if (f->locked >> i & 1)
            f->of[i]->locks--;
    if (f->m)
        f->m->asked = false;
}

static void lock(weir_evict *e, weir_frame *f, int i)
{
    f->of[i]->locks++;
    f->of[i]->used = e->now;
    f->locked |= 1u << i;
}

/* Locks the inputs that are on the device and returns one that is not; -1: all are locked. In late
 * mode inputs are locked only once all are on the device, or after too many attempts. */
static int next_missing(weir_evict *e, weir_frame *f)
{
    const bool early = !e->late || f->begun > 2 * f->n;
    int        missing = -1;

    for (int i = 0; i < f->n; i++) {
        if (f->locked >> i & 1)
            continue;
        if (!weir_origin_there(f->of[i]))
            missing = missing < 0 ? i : missing;
        else if (early)
            lock(e, f, i);
    }
    for (int i = 0; i < f->n && missing < 0; i++)
        if (!(f->locked >> i & 1))
            lock(e, f, i);
    return missing;
}

/* Processes the innermost frame until `base` frames are left, all of whose values are locked. Uses
 * an explicit stack, since chains of evicted values may be long. */
static weir_status work(weir_evict *e, uint32_t base)
{
    for (;;) {
        weir_frame *const f = &e->frames.at[e->frames.n - 1];
        const int         missing = next_missing(e, f);
        if (missing >= 0) {
            f->begun++;
            WEIR_TRY(begin_frame(e, f->of[missing]->record));
        } else if (e->frames.n > base) {
            const weir_recompute_record *const m = f->m;
            WEIR_TRY(recompute(e, f->m));
            end_frame(e);
            drop_unwanted(m);
        } else {
            return WEIR_OK;
        }
    }
}

/* One attempt of weir_hold_all. */
static weir_status try_hold(weir_evict *e, const weir_frame *all)
{
    if (!weir_vec_push(&e->frames, *all))
        return WEIR_ERR_NOMEM;
    const weir_status status = work(e, 1);
    if (status == WEIR_OK)
        e->frames.n = 0;            /* the locks of `all` now belong to the caller */
    while (e->frames.n > 0)
        end_frame(e);
    return status;
}

/* Locks what is on the device first, so that it need not be recomputed. If that leaves too little
 * memory, tries again and locks it last. */
weir_status weir_hold_all(weir_evict *e, const weir_frame *all)
{
    weir_status status = try_hold(e, all);

    if (status == WEIR_ERR_BUDGET) {
        e->late = true;
        e->recomputed = 0;
        status = try_hold(e, all);
        e->late = false;
    }
    return status;
}

weir_status weir_hold(weir_evict *e, weir_origin *o)
{
    return weir_hold_all(e, &(weir_frame){.n = 1, .of = {o}});
}
