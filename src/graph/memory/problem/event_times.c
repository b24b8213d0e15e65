/* event_times.c - replays an ended schedule against three clocks: compute, offloads, prefetches.
 *
 * weir_schedule_end stores each wait for offloaded bytes only implicitly: the offloaded live range
 * ends just before the event that waits. The replay derives the waits from these ends, so it works
 * for any ended schedule. */
#include "graph/memory/problem/event_times.h"

#include <math.h>

/* The earliest time at which an event may reuse bytes that an offload of `tensor` holds. */
typedef struct weir_gate {
    double   time;
    uint32_t tensor;
} weir_gate;

typedef struct weir_clocks {
    const weir_schedule *s;
    weir_event_time     *moment;
    double              *ready;  /* [ranges] seconds at which their contents can be read */
    weir_gate           *gate;   /* [events + 1] waits that begin at this event */
    weir_gate            passed; /* the latest wait reached so far */
    double               compute, out, in;
} weir_clocks;

static void wait_until(weir_event_time *m, double time, uint32_t tensor)
{
    if (time > m->begin) {
        m->begin = time;
        m->waits_for = tensor;
    }
}

/* An offload holds its live range's bytes: events after that range's end wait for the copy. */
static void hold(weir_clocks *c, uint32_t range, double until)
{
    const weir_live_range *l = &c->s->ranges.at[range];
    weir_gate *const       g = &c->gate[l->last + 1];

    if (until > g->time)
        *g = (weir_gate){until, l->tensor};
}

static void step(weir_clocks *c, uint32_t e)
{
    const weir_schedule     *s = c->s;
    const weir_event        *v = &s->events.at[e];
    const bool               copy = v->kind == WEIR_EVENT_OFFLOAD || v->kind == WEIR_EVENT_PREFETCH;
    const double             seconds = weir_event_seconds(s->p, v);
    weir_event_time *const   m = &c->moment[e];
    uint32_t                 nin, nout;
    const uint32_t          *range = weir_schedule_refs(s, e, &nin, &nout);

    *m = (weir_event_time){.begin = c->compute, .waits_for = WEIR_NO_TENSOR};
    if (c->gate[e].time > c->passed.time)
        c->passed = c->gate[e];
    for (uint32_t i = 0; i < nin; i++)
        wait_until(m, c->ready[range[i]], s->ranges.at[range[i]].tensor);
    if (v->kind != WEIR_EVENT_OFFLOAD) {
        wait_until(m, c->passed.time, c->passed.tensor);
        m->wait = m->begin - c->compute;
        c->compute = m->begin;
    }
    double *const stream = v->kind == WEIR_EVENT_OFFLOAD    ? &c->out
                           : v->kind == WEIR_EVENT_PREFETCH ? &c->in
                                                            : &c->compute;
    m->begin = fmax(m->begin, *stream);
    m->end = *stream = m->begin + seconds;
    c->compute += copy ? s->p->copy_interference * seconds : 0;
    for (uint32_t i = 0; i < nout; i++)
        c->ready[range[nin + i]] = v->kind == WEIR_EVENT_RUN ? 0 : m->end;
    if (v->kind == WEIR_EVENT_OFFLOAD)
        hold(c, range[0], m->end);
}

weir_event_time *weir_schedule_event_times(const weir_schedule *s)
{
    weir_clocks c = {.s = s};

    c.moment = weir_mem_alloc((s->events.n + 1u) * sizeof *c.moment);
    c.ready = weir_mem_zalloc(s->ranges.n + 1u, sizeof *c.ready);
    c.gate = weir_mem_zalloc(s->events.n + 2u, sizeof *c.gate);
    for (uint32_t e = 0; c.moment && c.ready && c.gate && e < s->events.n; e++)
        step(&c, e);
    const bool ok = c.ready && c.gate;
    weir_mem_free(c.ready);
    weir_mem_free(c.gate);
    if (!ok) {
        weir_mem_free(c.moment);
        c.moment = NULL;
    }
    return c.moment;
}
