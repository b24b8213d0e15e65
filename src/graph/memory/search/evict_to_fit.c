/* evict_to_fit.c - lowers the decisions, looks where memory is short, evicts, and lowers again.
 *
 * Transfers are timed as if the step never waited. The schedule itself issues prefetches early, as
 * far as they need and memory allows. Each round evicts tensors for about a third of the missing
 * bytes, since one eviction changes where the peak is. */
#include "graph/memory/search/evict_to_fit.h"

#include <math.h>
#include <string.h>

#include "core/status.h"
#include "graph/memory/search/best.h"
#include "graph/memory/search/candidates.h"

static bool init(weir_evict_to_fit *x, weir_policy_job *job)
{
    const weir_mem_problem *p = job->p;
    weir_lower_state       *w = &x->search.lowered;

    x->job = job;
    x->peak = SIZE_MAX;
    x->search.p = p;
    x->at.s = &x->search;
    if (!weir_lower_init(w, p))
        return false;
    w->budget = job->limit;
    x->at.decisions = weir_mem_zalloc(w->intervals + 1u, 1);
    x->best = weir_mem_zalloc(w->intervals + 1u, 1);
    x->barred = weir_mem_zalloc(w->intervals + 1u, 1);
    x->at.stamp = weir_mem_zalloc(p->tensors.n + 1u, sizeof *x->at.stamp);
    x->at.when = weir_mem_zalloc(p->ops.n + 1u, sizeof *x->at.when);
    if (!x->at.decisions || !x->best || !x->barred || !x->at.stamp || !x->at.when)
        return false;
    for (uint32_t i = 0; i < p->ops.n; i++)
        x->at.when[i + 1] = x->at.when[i] + p->ops.at[i].time;
    return true;
}

static weir_status end(weir_evict_to_fit *x, bool ok)
{
    weir_lower_state *w = &x->search.lowered;

    ok = ok && weir_lower(w, x->best);
    x->job->s = w->s;
    w->s = (weir_schedule){0};
    weir_lower_free(w);
    weir_transfer_list_free(&x->transfers);
    weir_mem_free(x->at.decisions);
    weir_mem_free(x->at.stamp);
    weir_mem_free(x->at.when);
    weir_mem_free(x->best);
    weir_mem_free(x->barred);
    weir_vec_free(&x->idle);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}

double weir_evict_to_fit_wait(const weir_evict_to_fit *x, const weir_victim *i)
{
    return weir_transfer_list_wait(&x->transfers, &i->transfer) -
           weir_transfer_list_wait(&x->transfers, NULL);
}

/* Returns the event at which to free memory. */
static uint32_t where(const weir_evict_to_fit *x)
{
    const weir_lower_state *w = &x->search.lowered;

    for (uint32_t e = 0; x->earliest && e < w->s.events.n; e++)
        if (w->s.live.at[e] > (int64_t)x->job->limit)
            return e;
    return w->peak_event;
}

static bool producer_of(const weir_schedule *s, uint32_t e, uint32_t tensor)
{
    const weir_event v = s->events.at[e];
    return v.kind == WEIR_EVENT_RUN && weir_among(s->p, s->p->ops.at[v.what].out, tensor);
}

/* Must the tensor be on the device during event e? (The output of a rerun may come from the host
 * instead.) */
static bool touches(const weir_schedule *s, uint32_t e, uint32_t tensor)
{
    const weir_event v = s->events.at[e];

    if (v.kind != WEIR_EVENT_RUN)
        return v.what == tensor;
    return weir_among(s->p, s->p->ops.at[v.what].in, tensor) ||
           (!v.recomputed && producer_of(s, e, tensor));
}

static weir_transfer transfer_of(const weir_evict_to_fit *x, uint32_t tensor, uint32_t j,
                                 uint32_t stage)
{
    const weir_mem_problem *p = x->job->p;
    const weir_mem_tensor  *k = &p->tensors.at[tensor];
    const uint32_t         *u = weir_refs(p, k->uses);
    bool                    there = false; /* an earlier offload left a copy on the host */

    for (uint32_t i = 0; i < j; i++)
        there =
            there || x->at.decisions[x->search.lowered.first_interval[tensor] + i] == WEIR_OFFLOAD;
    return (weir_transfer){.ready = x->at.when[(j > 0 ? u[j - 1] : k->producer) + 1],
                           .due = x->at.when[u[j]],
                           .from = x->at.when[stage],
                           .to = x->at.when[stage + (u[j] > stage)],
                           .out = there ? 0 : (double)k->bytes / p->link_out,
                           .in = (double)k->bytes / p->link_in};
}

/* Lists the tensor, live during event e, as a victim if it may be evicted. */
static bool add_idle(weir_evict_to_fit *x, uint32_t tensor, uint32_t e)
{
    const weir_mem_problem *p = x->job->p;
    const weir_mem_tensor  *k = &p->tensors.at[tensor];
    const uint32_t          stage = weir_schedule_first_run(&x->search.lowered.s, e);
    const uint32_t          j = weir_interval_at(p, tensor, stage),
                   interval = x->search.lowered.first_interval[tensor] + j;
    const uint8_t was = x->at.decisions[interval];

    if (weir_mem_tensor_is_resident(p, tensor) || k->bytes == 0 || j == k->uses.n ||
        x->barred[interval] || touches(&x->search.lowered.s, e, tensor) || was == WEIR_OFFLOAD)
        return true;
    weir_victim i = {.tensor = tensor,
                     .number = j,
                     .interval = interval,
                     .bytes = (double)k->bytes,
                     .offload = k->producer < stage &&
                                (was != WEIR_KEEP || weir_refs(p, k->uses)[j] > stage),
                     .recomputed = INFINITY};
    if (was != WEIR_RECOMPUTE_TRANSIENT && !producer_of(&x->search.lowered.s, e, tensor))
        i.recomputed = weir_recompute_cost(&x->at, tensor, j);
    i.drop = isfinite(i.recomputed);
    if (i.offload)
        i.transfer = transfer_of(x, tensor, j, stage);
    return (!i.offload && !i.drop) || weir_vec_push(&x->idle, i);
}

static bool is_listed(const weir_evict_to_fit *x, uint32_t interval)
{
    for (uint32_t i = 0; i < x->idle.n; i++)
        if (x->idle.at[i].interval == interval)
            return true;
    return false;
}

/* Returns the first event that reads the live range. */
static uint32_t first_reader(const weir_schedule *s, uint32_t range)
{
    uint32_t nin, nout, e = s->ranges.at[range].first + 1;

    for (; e < s->ranges.at[range].last; e++) {
        const uint32_t *read = weir_schedule_refs(s, e, &nin, &nout);
        for (uint32_t i = 0; i < nin; i++)
            if (read[i] == range)
                return e;
    }
    return e;
}

/* A tensor prefetched before its own next use served a recomputation. Lists the tensors recomputed
 * from it, since offloading those instead may be better. */
static bool add_instead(weir_evict_to_fit *x, uint32_t range)
{
    const weir_mem_problem *p = x->job->p;
    const uint32_t          reader = first_reader(&x->search.lowered.s, range);
    const uint32_t          stage = weir_schedule_first_run(&x->search.lowered.s, reader);
    const weir_index_range  in = p->ops.at[stage].in;

    for (uint32_t i = 0; i < in.n; i++) {
        const uint32_t k = weir_refs(p, in)[i], j = weir_interval_at(p, k, stage);
        const uint32_t interval = x->search.lowered.first_interval[k] + j;
        const uint8_t  was = x->at.decisions[interval];
        if (weir_mem_tensor_is_resident(p, k) ||
            (was != WEIR_RECOMPUTE && was != WEIR_RECOMPUTE_TRANSIENT) ||
            p->tensors.at[k].bytes == 0 || x->barred[interval] || is_listed(x, interval))
            continue;
        const weir_victim instead = {.tensor = k,
                                     .number = j,
                                     .interval = interval,
                                     .offload = true,
                                     .transfer = transfer_of(x, k, j, stage),
                                     .recomputed = INFINITY,
                                     .bytes = (double)p->tensors.at[k].bytes};
        if (!weir_vec_push(&x->idle, instead))
            return false;
    }
    return true;
}

/* Lists what may be evicted so that fewer bytes are live at the event. */
static bool collect(weir_evict_to_fit *x)
{
    const weir_schedule *s = &x->search.lowered.s;
    const uint32_t       e = where(x);

    x->idle.n = 0;
    for (uint32_t i = 0; i < s->ranges.n; i++) {
        const weir_live_range l = s->ranges.at[i];
        if (l.form != WEIR_FORM_PLAIN || l.first > e || l.last < e)
            continue;
        if (!add_idle(x, l.tensor, e))
            return false;
        if (!l.before && s->events.at[l.first].kind == WEIR_EVENT_PREFETCH && !add_instead(x, i))
            return false;
    }
    return true;
}

/* Evicts tensors; `undo` lists the changes, so that they can be reverted. */
static bool evict(weir_evict_to_fit *x)
{
    double left = 0.3 * (double)(x->search.lowered.peak - x->job->limit);

    x->at.undo.n = 0;
    while (left > 0 && x->idle.n > 0) {
        weir_decision  how = WEIR_KEEP;
        const uint32_t n = x->choose(x, &how);
        if (n >= x->idle.n)
            break;
        const weir_victim i = x->idle.at[n];
        uint8_t *const  d = &x->at.decisions[i.interval];
        if (!weir_vec_push(&x->at.undo, (uint64_t)i.interval << 8 | *d) ||
            (how == WEIR_OFFLOAD && !weir_transfer_list_add(&x->transfers, &i.transfer)))
            return false;
        *d = how == WEIR_OFFLOAD    ? WEIR_OFFLOAD
             : *d == WEIR_RECOMPUTE ? WEIR_RECOMPUTE_TRANSIENT
                                    : WEIR_RECOMPUTE;
        x->idle.at[n] = x->idle.at[--x->idle.n];
        left -= i.bytes;
        /* evicting one tensor makes others dearer to recompute */
        for (uint32_t k = 0; k < x->idle.n; k++) {
            weir_victim *const o = &x->idle.at[k];
            if (o->drop)
                o->recomputed = weir_recompute_cost(&x->at, o->tensor, o->number);
            o->drop = o->drop && isfinite(o->recomputed);
        }
    }
    return true;
}

/* Reverts the last evictions, which made the plan invalid, and bars these intervals. */
static void undo_move(weir_evict_to_fit *x)
{
    for (uint32_t i = x->at.undo.n; i-- > 0;) {
        const uint64_t u = x->at.undo.at[i];
        x->at.decisions[u >> 8] = (uint8_t)u;
        x->barred[u >> 8] = 1;
    }
}

static void note(weir_evict_to_fit *x)
{
    const weir_lower_state *w = &x->search.lowered;

    if (x->peak != SIZE_MAX && !weir_better(x->job->limit, w->peak, w->extra, x->peak, x->time))
        return;
    memcpy(x->best, x->at.decisions, w->intervals);
    x->peak = w->peak;
    x->time = w->extra;
}

static bool run(weir_evict_to_fit *x)
{
    weir_lower_state *w = &x->search.lowered;

    for (uint64_t round = 0; round < 4ull * w->intervals + 16; round++) {
        if (!weir_lower(w, x->at.decisions))
            return false;
        if (!w->valid) {
            undo_move(x);
            continue;
        }
        note(x);
        if (w->peak <= x->job->limit)
            return true;
        if (!collect(x) || !evict(x))
            return false;
        if (x->at.undo.n == 0)
            return true;
    }
    return true;
}

weir_status weir_evict_to_fit_plan(weir_evict_to_fit *x, weir_policy_job *job)
{
    const bool        ok = init(x, job) && run(x);
    const weir_status status = end(x, ok);

    weir_vec_free(&x->at.undo);
    return status;
}
