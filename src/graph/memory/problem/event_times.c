/* event_times.c - runs an ended schedule against three clocks: compute, copies out, copies in.
 *
 * schedule.c decided where bytes on their way out are waited for by letting their lives end
 * there; this reads it back from the lives, so it holds for any ended schedule. */
#include "graph/memory/problem/event_times.h"

#include <math.h>

/* When bytes that leave are gone, by the event that takes their room first. */
typedef struct weir_gate {
    double   time;
    uint32_t piece;
} weir_gate;

typedef struct weir_clocks {
    const weir_schedule *s;
    weir_moment *moment;
    double      *ready;         /* [lives] */
    weir_gate   *gate;          /* [events + 1] */
    weir_gate    passed;        /* the latest of those so far */
    double       compute, out, in;
} weir_clocks;

static void wait_until(weir_moment *m, double time, uint32_t piece)
{
    if (time > m->begin) {
        m->begin = time;
        m->waits_for = piece;
    }
}

/* The copy out holds its life's bytes: whatever is issued behind the end of that life waits. */
static void hold(weir_clocks *c, uint32_t life, double until)
{
    const weir_life *l = &c->s->lives.at[life];
    weir_gate *const g = &c->gate[l->last + 1];

    if (until > g->time)
        *g = (weir_gate){until, l->piece};
}

static void step(weir_clocks *c, uint32_t e)
{
    const weir_schedule *s = c->s;
    const weir_event    *v = &s->events.at[e];
    const bool           copy = v->act == WEIR_OUT || v->act == WEIR_IN;
    const double         seconds = weir_event_seconds(s->p, v);
    weir_moment *const   m = &c->moment[e];
    uint32_t             nin, nout;
    const uint32_t      *life = weir_schedule_refs(s, e, &nin, &nout);

    *m = (weir_moment){.begin = c->compute, .waits_for = WEIR_NO_PIECE};
    if (c->gate[e].time > c->passed.time)
        c->passed = c->gate[e];
    for (uint32_t i = 0; i < nin; i++)
        wait_until(m, c->ready[life[i]], s->lives.at[life[i]].piece);
    if (v->act != WEIR_OUT) {
        wait_until(m, c->passed.time, c->passed.piece);
        m->wait = m->begin - c->compute;
        c->compute = m->begin;
    }
    double *const stream = v->act == WEIR_OUT ? &c->out : v->act == WEIR_IN ? &c->in : &c->compute;
    m->begin = fmax(m->begin, *stream);
    m->end = *stream = m->begin + seconds;
    c->compute += copy ? s->p->steal * seconds : 0;
    for (uint32_t i = 0; i < nout; i++)
        c->ready[life[nin + i]] = v->act == WEIR_RUN ? 0 : m->end;
    if (v->act == WEIR_OUT)
        hold(c, life[0], m->end);
}

weir_moment *weir_schedule_clock(const weir_schedule *s)
{
    weir_clocks c = {.s = s};

    c.moment = weir_mem_alloc((s->events.n + 1u) * sizeof *c.moment);
    c.ready = weir_mem_zalloc(s->lives.n + 1u, sizeof *c.ready);
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
