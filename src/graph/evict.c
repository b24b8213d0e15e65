/* evict.c - a budget with the graph off: dynamic tensor rematerialization (Kirisame et al., ICLR
 * 2021).
 *
 * When memory is to be taken that would exceed the budget, the value goes that has the smallest
 * score among those that are there, can be made again and are not being used. Somebody who reads a
 * value that is gone has it made by the same call on the same inputs at the same place of the random
 * stream; inputs that are gone come first, all of a call's inputs stay until it has run. Time is
 * counted in estimated seconds of the calls run, so that a program drops the same values in every
 * run.
 *
 * Before memory is overwritten that values were made from, either its old elements are copied, for
 * as long as one of the values may have to be made again; or those of the values that somebody
 * holds are made (if they are gone) and become constant, and the others go. So what is remembered
 * is always true. */
#include "graph/evict.h"

#include "core/status.h"
#include "graph/execute.h"
#include "graph/lineage.h"
#include "graph/policy/dtr_score.h"

/* Calls run again for one call of the user's: more per remembered call, and the program would not
 * get anywhere. */
enum { AGAIN_PER_MAKING = 50, AGAIN_AT_LEAST = 1000 };

/* Idle seconds of what was used just now: there is no division by 0. */
#define LEAST_IDLE 1e-7

typedef struct weir_frame {         /* values that are needed at once */
    weir_making *m;                 /* the call that reads them; NULL: the user's */
    int          n, begun;          /* begun: times that one of them had to be made */
    uint32_t     locked;            /* bit i: of[i] is, by this frame */
    weir_origin *of[WEIR_MAX_IN];
} weir_frame;

struct weir_evict {
    weir_session *s;
    weir_lineage  lineage;
    WEIR_VEC(weir_frame) frames;
    WEIR_VEC(weir_origin *) fixed;  /* values to become constant */
    double        now;              /* estimated seconds of all calls so far */
    uint64_t      again;            /* calls run again for the present one */
    bool          late;             /* what is there is locked last */
    const char   *doing;            /* the call that memory is taken for; NULL: none */
};

/* ---- making room ---- */

static double nearby(const weir_origin *o, weir_dtr_rule rule)
{
    switch (weir_dtr_reach_of(rule)) {
    case WEIR_DTR_ABOVE:  return weir_origin_above(o);
    case WEIR_DTR_AROUND: return weir_origin_around(o);
    case WEIR_DTR_CLASS:  return weir_origin_class(o);
    default:              return 0;
    }
}

static bool may_go(const weir_origin *o)
{
    return o->making && o->locks == 0 && weir_origin_there(o);
}

/* The value with the smallest score; NULL if none may go. */
static weir_origin *first_to_go(const weir_evict *e)
{
    const weir_dtr_rule rule = (weir_dtr_rule)e->s->rule;
    weir_origin        *best = NULL;
    double              least = 0;

    for (uint32_t i = 0; i < e->lineage.origins.n; i++) {
        weir_origin *const o = e->lineage.origins.at[i];
        if (!may_go(o))
            continue;
        const weir_dtr_item item = {.cost = o->making->seconds, .nearby = nearby(o, rule),
                                    .bytes = (double)o->block->got,
                                    .idle = e->now - o->used + LEAST_IDLE};
        const double score = weir_dtr_score(rule, &item);
        if (!best || score < least) {
            best = o;
            least = score;
        }
    }
    return best;
}

static void drop(weir_evict *e, weir_origin *o)
{
    weir_block *const b = o->block;

    weir_block_evict(b);
    if (o->owned) {                 /* nobody outside needs even the block */
        o->block = NULL;
        o->owned = false;
        b->origin = NULL;
        weir_ref_drop(b);
    }
    weir_making_gone(&e->lineage, o->making);
}

/* False if no value may go. */
static bool drop_one(weir_evict *e)
{
    weir_origin *const o = first_to_go(e);

    if (!o)
        return false;
    drop(e, o);
    e->s->dev->evicted++;
    return true;
}

static weir_status no_room(const weir_evict *e, size_t bytes)
{
    const weir_pool *pool = &e->s->dev->pool;
    size_t           locked = 0;

    for (uint32_t i = 0; i < e->lineage.origins.n; i++) {
        const weir_origin *const o = e->lineage.origins.at[i];
        if (o->making && o->locks > 0 && weir_origin_there(o))
            locked += o->block->got;
    }
    return weir_fail(WEIR_ERR_BUDGET,
                     "%s: %zu bytes do not fit into the budget of %zu: %zu are taken by "
                     "parameters, states, inputs and outputs, %zu by values being used, %zu by "
                     "values that cannot be made again",
                     e->doing ? e->doing : "memory of a tensor", bytes, pool->limit,
                     pool->persistent, locked, pool->live - pool->persistent - locked);
}

static weir_status make_room(weir_device *d, size_t bytes)
{
    weir_evict *const e = ((weir_session *)d->session)->evict;
    const weir_pool  *pool = &d->pool;

    while (bytes > pool->limit || pool->live > pool->limit - bytes)
        if (bytes > pool->limit || !drop_one(e))
            return no_room(e, bytes);
    return WEIR_OK;
}

/* ---- making anew ---- */

/* Memory for output i: that of the value, or, where nobody outside holds it, a new block. */
static weir_block *room_for(const weir_making *m, int i, weir_device *d)
{
    weir_origin *const o = m->out[i];

    return o && o->block ? weir_ref_take(o->block)
                         : weir_block_new(d, weir_shape_bytes(&m->out_layout[i].desc),
                                          WEIR_KIND_ACTIVATION);
}

/* The outputs have been made, or not: what was not there before goes then. */
static void settle_outputs(const weir_making *m, weir_tensor *t, const bool *there, bool made,
                           double now)
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

/* Runs the remembered call once more; its inputs are there and locked. */
static weir_status run_again(weir_evict *e, weir_making *m)
{
    weir_device *const d = e->s->dev;
    weir_tensor        t[WEIR_MAX_IN + WEIR_MAX_OUT], *at[WEIR_MAX_IN + WEIR_MAX_OUT];
    bool               there[WEIR_MAX_OUT];
    weir_status        status = WEIR_OK;
    const uint64_t     seed = d->seed;
    const weir_call    c = {.op = m->op, .nin = m->nin, .nout = m->nout, .in = m->in_layout,
                            .out = m->out_layout, .attr = m->attr, .attr_bytes = m->attr_bytes,
                            .alias = -1};

    for (int i = 0; i < m->nin; i++) {
        t[i] = (weir_tensor){.dev = d, .layout = m->in_layout[i], .offset = m->use[i].offset,
                             .block = m->use[i].of->block};
        at[i] = &t[i];
    }
    weir_tensor *const y = t + m->nin;
    for (int i = 0; i < m->nout; i++) {
        there[i] = m->out[i] && weir_origin_there(m->out[i]);
        y[i] = (weir_tensor){.dev = d, .layout = m->out_layout[i], .block = room_for(m, i, d)};
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
    weir_making_back(m);
    e->again++;
    d->again++;
    return WEIR_OK;
}

/* What the making was made from goes, if it served for nothing else. */
static void drop_unwanted(weir_evict *e, const weir_making *m)
{
    for (int i = 0; i < m->nin; i++) {
        weir_origin *const o = m->use[i].of;
        if (o->owned && may_go(o) && !weir_origin_wanted(o))
            drop(e, o);
    }
}

static weir_status check_progress(const weir_evict *e)
{
    const uint64_t most = AGAIN_AT_LEAST + (uint64_t)AGAIN_PER_MAKING * e->lineage.makings;

    if (e->again <= most)
        return WEIR_OK;
    return weir_fail(WEIR_ERR_BUDGET, "%s: the budget of %zu bytes is so small that more than %llu "
                     "calls would have to be run again for it",
                     e->doing ? e->doing : "reading a value", e->s->dev->pool.limit,
                     (unsigned long long)most);
}

/* Collects the inputs of a making that is to be run again. */
static weir_status begin_frame(weir_evict *e, weir_making *m)
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

/* Locks what is there, if it is time to, and tells an input that is not; -1: all are locked. */
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

/* Works on the innermost frame until `base` are left with all they need. A stack of our own: chains
 * may be long. */
static weir_status work(weir_evict *e, uint32_t base)
{
    for (;;) {
        weir_frame *const f = &e->frames.at[e->frames.n - 1];
        const int         missing = next_missing(e, f);
        if (missing >= 0) {
            f->begun++;
            WEIR_TRY(begin_frame(e, f->of[missing]->making));
        } else if (e->frames.n > base) {
            const weir_making *const m = f->m;
            WEIR_TRY(run_again(e, f->m));
            end_frame(e);
            drop_unwanted(e, m);
        } else {
            return WEIR_OK;
        }
    }
}

/* One try: the values are there and locked. */
static weir_status try_hold(weir_evict *e, const weir_frame *all)
{
    if (!weir_vec_push(&e->frames, *all))
        return WEIR_ERR_NOMEM;
    const weir_status status = work(e, 1);
    if (status == WEIR_OK)
        e->frames.n = 0;            /* its locks are the caller's */
    while (e->frames.n > 0)
        end_frame(e);
    return status;
}

/* The values are there and locked afterwards. What is there already is locked first, so that it
 * need not be made again; if that leaves too little room, last. */
static weir_status hold_all(weir_evict *e, const weir_frame *all)
{
    weir_status status = try_hold(e, all);

    if (status == WEIR_ERR_BUDGET) {
        e->late = true;
        e->again = 0;
        status = try_hold(e, all);
        e->late = false;
    }
    return status;
}

static weir_status hold(weir_evict *e, weir_origin *o)
{
    return hold_all(e, &(weir_frame){.n = 1, .of = {o}});
}

/* ---- before memory is overwritten ---- */

static void visit_readers(weir_evict *e, const weir_origin *o)
{
    e->lineage.visits++;
    e->lineage.stack.n = 0;
    weir_origin_push_readers(o);
}

/* Held values that are made from o, by way of values that nobody holds, into e->fixed. */
static weir_status find_fixed(weir_evict *e, const weir_origin *o)
{
    weir_lineage *const l = &e->lineage;

    e->fixed.n = 0;
    visit_readers(e, o);
    while (l->stack.n > 0) {
        const weir_making *const m = l->stack.at[--l->stack.n];
        for (int i = 0; i < m->nout; i++) {
            weir_origin *const y = m->out[i];
            if (y && !weir_origin_held(y))
                weir_origin_push_readers(y);
            else if (y && !weir_vec_push(&e->fixed, y))
                return WEIR_ERR_NOMEM;
        }
    }
    return WEIR_OK;
}

/* Values of e->fixed are there and become constant. */
static weir_status fix_all(weir_evict *e)
{
    uint32_t    held = 0;
    weir_status status = WEIR_OK;

    while (status == WEIR_OK && held < e->fixed.n) {
        status = hold(e, e->fixed.at[held]);
        held += status == WEIR_OK;
    }
    for (uint32_t i = 0; i < held; i++)
        e->fixed.at[i]->locks--;
    for (uint32_t i = 0; i < e->fixed.n && status == WEIR_OK; i++)
        weir_origin_cut(e->fixed.at[i]);
    return status;
}

/* Makings go on reading the old elements, in a copy; the block is free of them. */
static weir_status move_away(weir_origin *o)
{
    weir_block *const b = o->block, *const old = weir_block_new(b->dev, b->bytes,
                                                                WEIR_KIND_ACTIVATION);
    weir_layout       bytes = {.desc = weir_1d(WEIR_U8, (int64_t)b->bytes), .stride = {1}};
    const weir_call   c = {.op = WEIR_OP_COPY, .nin = 1, .nout = 1, .in = &bytes, .out = &bytes,
                           .alias = -1};
    weir_status       status = old ? weir_block_touch(old) : WEIR_ERR_NOMEM;

    if (status == WEIR_OK && b->bytes > 0)
        status = weir_run_raw(b->dev, &c, &b->data, &old->data);
    if (status != WEIR_OK) {
        weir_ref_drop(old);
        return status;
    }
    old->written = true;
    old->origin = o;
    o->block = old;
    o->locks = 0;
    b->origin = NULL;
    weir_ref_drop(b);
    return WEIR_OK;
}

/* Bytes that fixing takes from what may be dropped. */
static size_t bytes_of_fixed(const weir_evict *e)
{
    size_t sum = 0;

    for (uint32_t i = 0; i < e->fixed.n; i++)
        if (e->fixed.at[i]->locks == 0)
            sum += e->fixed.at[i]->block->bytes;
    return sum;
}

/* The way that takes less memory for what may not be dropped; if there is no room, the other. */
static weir_status overwrite(weir_evict *e, weir_origin *o)
{
    WEIR_TRY(find_fixed(e, o));
    const bool  copy_first = o->block->bytes < bytes_of_fixed(e);
    weir_status status = copy_first ? move_away(o) : fix_all(e);

    if (status == WEIR_ERR_BUDGET)
        status = copy_first ? fix_all(e) : move_away(o);
    return status;
}

static weir_evict *evict_of(const weir_block *b)
{
    const weir_origin *const o = b->origin;
    return o->lineage->owner;
}

static weir_evict *begin(const weir_block *b)
{
    weir_evict *const e = evict_of(b);

    e->again = 0;
    return e;
}

weir_status weir_evict_overwrite(weir_block *b)
{
    return b->origin ? overwrite(begin(b), b->origin) : WEIR_OK;
}

weir_status weir_evict_hold(const weir_block *b)
{
    return b->origin ? hold(begin(b), b->origin) : WEIR_OK;
}

void weir_evict_let_go(const weir_block *b)
{
    weir_origin *const o = b->origin;

    if (o)
        o->locks--;
}

weir_status weir_evict_fix(weir_block *b)
{
    weir_origin *const o = b->origin;

    if (!o || !o->making)
        return WEIR_OK;
    WEIR_TRY(hold(begin(b), o));
    o->locks--;
    weir_origin_cut(o);
    return WEIR_OK;
}

/* ---- calls ---- */

/* The frame of a call's inputs, as far as they are known. */
static weir_frame inputs_of(const weir_call *c, weir_tensor *const *in)
{
    weir_frame f = {.n = 0};

    for (int i = 0; i < c->nin; i++) {
        weir_origin *const o = ((const weir_block *)in[i]->block)->origin;
        if (o)
            f.of[f.n++] = o;
    }
    return f;
}

static weir_status overwrite_inputs(const weir_call *c, weir_tensor *const *in)
{
    for (int i = 0; i < c->nin; i++)
        if (weir_opdefs[c->op]->mutates >> i & 1)
            WEIR_TRY(weir_evict_overwrite(in[i]->block));
    return WEIR_OK;
}

/* Can the call be made again, with the same bits and nothing else? */
static bool repeatable(const weir_call *c, weir_tensor *const *in)
{
    const weir_opdef *const def = weir_opdefs[c->op];

    if (def->mutates || def->flags & (WEIR_UPDATE | WEIR_CALLER) || c->nout == 0)
        return false;
    for (int i = 0; i < c->nin; i++)
        if (((const weir_block *)in[i]->block)->shared)
            return false;
    return true;
}

/* A call with its inputs locked. Those that are overwritten are constant, and may be forgotten when
 * nothing is made from them any more. */
static weir_status run_held(weir_evict *e, const weir_call *c, weir_tensor *const *in,
                            weir_tensor *const *out, uint64_t rng)
{
    const weir_frame inputs = inputs_of(c, in);

    e->again = 0;
    WEIR_TRY(hold_all(e, &inputs));
    weir_status status = overwrite_inputs(c, in);
    if (status == WEIR_OK)
        status = weir_run_once(e->s->dev, c, in, out, rng);
    for (int i = 0; i < c->nin; i++)
        weir_evict_let_go(in[i]->block);
    return status;
}

weir_status weir_evict_run(weir_evict *e, const weir_call *c, weir_tensor *const *in,
                           weir_tensor *const *out, uint64_t rng)
{
    weir_device *const d = e->s->dev;

    e->doing = weir_opdefs[c->op]->name;
    const weir_status status = run_held(e, c, in, out, rng);
    e->doing = NULL;
    WEIR_TRY(status);
    e->now += weir_call_seconds(c);
    return d->pool.limit < SIZE_MAX && repeatable(c, in)
               ? weir_lineage_note(&e->lineage, c, in, out, rng, e->now) : WEIR_OK;
}

/* ---- on and off ---- */

static void forget(weir_block *b)
{
    weir_origin_orphaned(b->origin);
}

weir_status weir_evict_limit(weir_session *s, size_t bytes)
{
    weir_device *const d = s->dev;

    if (!s->evict && bytes == SIZE_MAX)
        return WEIR_OK;
    if (!s->evict) {
        s->evict = weir_mem_zalloc(1, sizeof *s->evict);
        if (!s->evict)
            return WEIR_ERR_NOMEM;
        s->evict->s = s;
        s->evict->lineage.owner = s->evict;
        s->evict->lineage.classes = weir_dtr_reach_of((weir_dtr_rule)s->rule) == WEIR_DTR_CLASS;
    }
    d->forget = forget;
    d->pool.make_room = make_room;
    d->pool.limit = bytes;
    while (d->pool.live > bytes && drop_one(s->evict))
        continue;
    if (d->pool.held > bytes)
        weir_pool_trim_to(d, bytes);
    return WEIR_OK;
}

weir_status weir_device_set_policy(weir_device *d, const char *policy)
{
    weir_dtr_rule rule = WEIR_DTR;

    WEIR_TRY(weir_device_check(d, "weir_device_set_policy"));
    weir_session *s = weir_session_of(d);
    if (!s)
        return WEIR_ERR_NOMEM;
    if (policy && !weir_dtr_rule_named(policy, &rule))
        return weir_fail(WEIR_ERR_INVALID, "weir_device_set_policy: there is no policy '%s' with "
                         "the graph off; they are dtr, dtr:eq, dtr:local, dtr:lru, dtr:size and "
                         "dtr:msps", policy);
    s->rule = (int)rule;
    if (s->evict)
        s->evict->lineage.classes = weir_dtr_reach_of(rule) == WEIR_DTR_CLASS;
    return WEIR_OK;
}

void weir_evict_free(weir_evict *e)
{
    if (!e)
        return;
    e->s->dev->pool.limit = SIZE_MAX;
    weir_lineage_free(&e->lineage);
    weir_vec_free(&e->frames);
    weir_vec_free(&e->fixed);
    weir_mem_free(e);
}
