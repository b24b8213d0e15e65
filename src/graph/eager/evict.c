/* evict.c - a budget with the graph off: dynamic tensor rematerialization (Kirisame et al., ICLR
 * 2021).
 *
 * When an allocation would exceed the budget, the value with the smallest score is evicted, among
 * those that are on the device, can be recomputed and are not locked. When an evicted value is
 * read, the same call recomputes it from the same inputs at the same position of the random stream,
 * after its own evicted inputs. All inputs of a call are locked until it has run. The clock is the
 * sum of the estimated seconds of all calls, so a program evicts the same values in every run.
 *
 * Before memory is overwritten that remembered calls have read, one of two things happens. Either
 * the old elements are copied and kept as long as a recomputation may read them. Or the values
 * computed from them become constant, after they have been recomputed if necessary; those without a
 * handle are dropped. Remembered calls therefore never read elements that have changed. */
#include "graph/eager/evict.h"

#include "core/status.h"
#include "device/call.h"
#include "device/memory/pool.h"
#include "graph/ops/op.h"
#include "graph/memory/search/dtr_score.h"
#include "graph/eager/rematerialize.h"

/* Least idle seconds of a value, since scores divide by them. */
#define LEAST_IDLE 1e-7

/* ---- freeing memory ---- */

static double nearby(const weir_origin *o, weir_dtr_rule rule)
{
    switch (weir_dtr_reach_of(rule)) {
    case WEIR_DTR_ABOVE:  return weir_origin_above(o);
    case WEIR_DTR_AROUND: return weir_origin_around(o);
    case WEIR_DTR_CLASS:  return weir_origin_class(o);
    default:              return 0;
    }
}

/* The value with the smallest score; NULL if none may be evicted. */
static weir_origin *next_victim(const weir_evict *e)
{
    const weir_dtr_rule rule = (weir_dtr_rule)e->s->rule;
    weir_origin        *best = NULL;
    double              least = 0;

    for (uint32_t i = 0; i < e->lineage.origins.n; i++) {
        weir_origin *const o = e->lineage.origins.at[i];
        if (!weir_origin_evictable(o))
            continue;
        const weir_dtr_item item = {.cost = o->record->seconds,
                                    .nearby = nearby(o, rule),
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

/* Evicts the value with the smallest score. Returns false if none may be evicted. */
static bool drop_one(weir_evict *e)
{
    weir_origin *const o = next_victim(e);

    if (!o)
        return false;
    weir_origin_evict(o);
    e->s->dev->evicted++;
    return true;
}

static bool drop_any(weir_device *d)
{
    return drop_one(((weir_session *)d->session)->evict);
}

static weir_status over_budget(const weir_evict *e, size_t bytes)
{
    const weir_pool *pool = &e->s->dev->pool;
    size_t           locked = 0;

    for (uint32_t i = 0; i < e->lineage.origins.n; i++) {
        const weir_origin *const o = e->lineage.origins.at[i];
        if (o->record && o->locks > 0 && weir_origin_there(o))
            locked += o->block->got;
    }
    return weir_fail(WEIR_ERR_BUDGET,
                     "%s: %zu bytes do not fit into the budget of %zu: %zu are taken by "
                     "parameters, states, inputs and outputs, %zu by values in use, %zu by values "
                     "that cannot be recomputed",
                     e->doing ? e->doing : "memory of a tensor", bytes, pool->limit,
                     pool->persistent, locked, pool->live - pool->persistent - locked);
}

static weir_status reclaim(weir_device *d, size_t bytes)
{
    weir_evict *const e = ((weir_session *)d->session)->evict;
    const weir_pool  *pool = &d->pool;

    while (bytes > pool->limit || pool->live > pool->limit - bytes)
        if (bytes > pool->limit || !drop_one(e))
            return over_budget(e, bytes);
    return WEIR_OK;
}
/* ---- before memory is overwritten ---- */

static void visit_readers(weir_evict *e, const weir_origin *o)
{
    e->lineage.visits++;
    e->lineage.stack.n = 0;
    weir_origin_push_readers(o);
}

/* Lists in e->fixed the held values computed from o, directly or through values not held. */
static weir_status find_fixed(weir_evict *e, const weir_origin *o)
{
    weir_lineage *const l = &e->lineage;

    e->fixed.n = 0;
    visit_readers(e, o);
    while (l->stack.n > 0) {
        const weir_recompute_record *const m = l->stack.at[--l->stack.n];
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

/* Recomputes the values of e->fixed where necessary and makes them constant. */
static weir_status fix_all(weir_evict *e)
{
    uint32_t    held = 0;
    weir_status status = WEIR_OK;

    while (status == WEIR_OK && held < e->fixed.n) {
        status = weir_hold(e, e->fixed.at[held]);
        held += status == WEIR_OK;
    }
    for (uint32_t i = 0; i < held; i++)
        e->fixed.at[i]->locks--;
    for (uint32_t i = 0; i < e->fixed.n && status == WEIR_OK; i++)
        weir_origin_cut(e->fixed.at[i]);
    return status;
}

/* Moves the origin from its block to a new block with a copy of the elements, which recompute
 * records then read. */
static weir_status copy_old_elements(weir_origin *o)
{
    weir_block *const b = o->block, *const old = weir_block_new(b->dev, b->bytes,
                                                                WEIR_KIND_ACTIVATION);
    weir_layout       bytes = {.desc = weir_1d(WEIR_U8, (int64_t)b->bytes), .stride = {1}};
    const weir_call   c = {.op = WEIR_OP_COPY, .def = &weir_op_copy, .nin = 1, .nout = 1,
                           .in = &bytes, .out = &bytes, .alias = -1};
    weir_status       status = old ? weir_block_touch(old) : WEIR_ERR_NOMEM;

    if (status == WEIR_OK && b->bytes > 0)
        status = weir_run_raw(b->dev, &c, &b->data, &old->data, 1, old);
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

/* Bytes that become unevictable if e->fixed become constant. */
static size_t bytes_of_fixed(const weir_evict *e)
{
    size_t sum = 0;

    for (uint32_t i = 0; i < e->fixed.n; i++)
        if (e->fixed.at[i]->locks == 0)
            sum += e->fixed.at[i]->block->bytes;
    return sum;
}

/* Chooses between the two ways (above) by the bytes that become unevictable; if the budget is too
 * small for the better one, tries the other. */
static weir_status overwrite(weir_evict *e, weir_origin *o)
{
    WEIR_TRY(find_fixed(e, o));
    const bool  copy_first = o->block->bytes < bytes_of_fixed(e);
    weir_status status = copy_first ? copy_old_elements(o) : fix_all(e);

    if (status == WEIR_ERR_BUDGET)
        status = copy_first ? fix_all(e) : copy_old_elements(o);
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

    e->recomputed = 0;
    return e;
}

weir_status weir_evict_overwrite(weir_block *b)
{
    if (b->origin && b->offloaded)
        WEIR_TRY(weir_block_touch(b));
    return b->origin ? overwrite(begin(b), b->origin) : WEIR_OK;
}

weir_status weir_evict_hold(const weir_block *b)
{
    return b->origin ? weir_hold(begin(b), b->origin) : WEIR_OK;
}

void weir_evict_release(const weir_block *b)
{
    weir_origin *const o = b->origin;

    if (o)
        o->locks--;
}

weir_status weir_evict_fix(weir_block *b)
{
    weir_origin *const o = b->origin;

    if (!o || !o->record)
        return WEIR_OK;
    WEIR_TRY(weir_hold(begin(b), o));
    o->locks--;
    weir_origin_cut(o);
    return WEIR_OK;
}

/* ---- calls ---- */

/* A frame with the origins of the call's inputs. */
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
        if (c->def->mutates >> i & 1)
            WEIR_TRY(weir_evict_overwrite(in[i]->block));
    return WEIR_OK;
}

/* Can the call run again with the same result and without side effects? */
static bool repeatable(const weir_call *c, weir_tensor *const *in)
{
    const weir_opdef *const def = c->def;

    if (def->mutates || def->flags & (WEIR_UPDATE | WEIR_CALLER) || c->nout == 0)
        return false;
    for (int i = 0; i < c->nin; i++)
        if (((const weir_block *)in[i]->block)->shared)
            return false;
    return true;
}

/* Runs a call with its inputs on the device and locked. Inputs that it overwrites are constants,
 * whose origins are freed when no record reads them. */
static weir_status run_held(weir_evict *e, const weir_call *c, weir_tensor *const *in,
                            weir_tensor *const *out, uint64_t rng)
{
    const weir_frame inputs = inputs_of(c, in);

    e->recomputed = 0;
    WEIR_TRY(weir_hold_all(e, &inputs));
    weir_status status = overwrite_inputs(c, in);
    if (status == WEIR_OK)
        status = weir_run_once(e->s->dev, c, in, out, rng);
    for (int i = 0; i < c->nin; i++)
        weir_evict_release(in[i]->block);
    return status;
}

weir_status weir_evict_run(weir_evict *e, const weir_call *c, weir_tensor *const *in,
                           weir_tensor *const *out, uint64_t rng)
{
    weir_device *const d = e->s->dev;

    e->doing = c->def->name;
    const weir_status status = run_held(e, c, in, out, rng);
    e->doing = NULL;
    WEIR_TRY(status);
    e->now += weir_call_estimate(c);
    return d->pool.limit < SIZE_MAX && repeatable(c, in)
               ? weir_lineage_note(&e->lineage, c, in, out, rng, e->now) : WEIR_OK;
}

/* ---- on and off ---- */

static void forget(weir_block *b)
{
    weir_origin_orphaned(b->origin);
}

static void evict_free(weir_evict *e)
{
    weir_pool_set_limit(e->s->dev, SIZE_MAX);
    weir_lineage_free(&e->lineage);
    weir_vec_free(&e->frames);
    weir_vec_free(&e->fixed);
    weir_mem_free(e);
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
        s->evict_free = evict_free;
        s->evict->lineage.owner = s->evict;
        s->evict->lineage.classes = weir_dtr_reach_of((weir_dtr_rule)s->rule) == WEIR_DTR_CLASS;
    }
    d->forget = forget;
    d->pool.reclaim = reclaim;
    d->pool.drop_one = drop_any;
    weir_pool_set_limit(d, bytes);
    while (d->pool.live > bytes && drop_one(s->evict))
        continue;
    return WEIR_OK;
}

weir_status weir_device_set_policy(weir_device *d, const char *policy)
{
    weir_dtr_rule rule = WEIR_DTR;

    WEIR_VISIT(d, "weir_device_set_policy", weir_error_status());
    weir_session *s = weir_session_of(d);
    if (!s)
        return WEIR_ERR_NOMEM;
    if (policy && !weir_dtr_rule_named(policy, &rule))
        return weir_fail(WEIR_ERR_INVALID, "weir_device_set_policy: unknown policy '%s' with the "
                         "graph off (expected dtr, dtr:eq, dtr:local, dtr:lru, dtr:size or "
                         "dtr:msps)", policy);
    s->rule = (int)rule;
    if (s->evict)
        s->evict->lineage.classes = weir_dtr_reach_of(rule) == WEIR_DTR_CLASS;
    return WEIR_OK;
}
