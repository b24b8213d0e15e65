/* schedule_streams.c - copies are issued early enough, and hold their memory as long as they take.
 *
 * A copy to the device is wanted where it is read. From there it is moved forward, the last one
 * first, as far as its link needs (no two at a time) and as the room allows. Then time runs
 * forward over the events: compute, copies out and copies in each have a clock; a run waits for
 * what it reads. What is copied out keeps its bytes until the copy is done; where an event would
 * not fit, it waits for the oldest copies instead.
 *
 * In lockstep nothing is moved, and every run waits for the copies that began with the run before
 * it. */
#include "graph/memory/problem/schedule_streams.h"

#include <math.h>
#include <string.h>

/* scratch holds, one after another: the event before which each is issued; the new order; the new
 * numbers, and then copies out of what is still read; the copies on their way out. clock: starts
 * of the events, when lives are ready. */
typedef struct weir_streamer {
    weir_schedule *s;
    size_t         room;
    uint32_t      *at, *order, *number, *leaving;
    double        *start, *ready;
} weir_streamer;

static bool init(weir_streamer *x, weir_schedule *s, size_t room)
{
    const uint64_t n = (uint64_t)s->events.n + 1;

    *x = (weir_streamer){.s = s, .room = room};
    if (!weir_vec_reserve(&s->scratch, 4 * n) ||
        !weir_vec_reserve(&s->clock, n + s->lives.n + 1))
        return false;
    x->at = s->scratch.at;
    x->order = x->at + n;
    x->number = x->order + n;
    x->leaving = x->number + n;
    x->start = s->clock.at;
    x->ready = x->start + n;
    return true;
}

static bool fits(const weir_streamer *x, uint32_t e, size_t more)
{
    return (size_t)x->s->live.at[e] + more <= x->room;
}

/* The first place where each copy in may be issued, in x->order: behind the making of the copy it
 * reads, and behind the end of the plain ones before it (a scratch one ends before one that was
 * there already). */
static void find_earliest(weir_streamer *x)
{
    weir_schedule *s = x->s;

    memset(s->now, 0xff, (size_t)s->p->pieces.n * WEIR_FORMS * sizeof *s->now);
    for (uint32_t i = 0; i < s->lives.n; i++) {
        const weir_life *l = &s->lives.at[i];
        uint32_t *const  before = &s->now[l->piece * WEIR_FORMS + WEIR_PLAIN];
        if (l->form != WEIR_PLAIN)
            continue;
        if (!l->before && s->events.at[l->first].act == WEIR_IN) {
            const weir_life *host = &s->lives.at[s->refs.at[s->first.at[l->first]]];
            uint32_t         from = host->before ? 0 : host->first + 1;
            if (*before != WEIR_NO_LIFE && s->lives.at[*before].last >= from)
                from = s->lives.at[*before].last + 1;
            x->order[l->first] = from;
        }
        if (*before == WEIR_NO_LIFE || s->lives.at[*before].last <= l->last)
            *before = i;
    }
}

/* Where each copy in is issued: as late as it is in time, no earlier than there is room. */
static void issue_early(weir_streamer *x)
{
    weir_schedule *s = x->s;
    double         time = 0, link = INFINITY;

    for (uint32_t e = 0; e < s->events.n; e++) {
        const weir_event *v = &s->events.at[e];
        x->at[e] = e;
        x->start[e] = time;
        time += v->act == WEIR_OUT || v->act == WEIR_IN ? 0 : weir_event_seconds(s->p, v);
    }
    find_earliest(x);
    for (uint32_t e = s->events.n; e-- > 0;) {
        if (s->events.at[e].act != WEIR_IN)
            continue;
        const size_t bytes = s->p->pieces.at[s->events.at[e].what].bytes;
        const double seconds = weir_event_seconds(s->p, &s->events.at[e]);
        const double begin = fmin(x->start[e], link) - seconds;
        uint32_t     q = e;
        while (q > x->order[e] && x->start[q] > begin && fits(x, q - 1, bytes)) {
            q--;
            s->live.at[q] += (int64_t)bytes;
        }
        x->at[e] = q;
        link = x->start[q] > begin ? x->start[q] : begin;
    }
}

/* Puts the events into the order of issue: a copy in stands before the event it was moved to, in
 * the order in which they are read. Counting, since few move. */
static bool reorder(weir_streamer *x)
{
    weir_schedule *s = x->s;
    const uint32_t n = s->events.n;
    WEIR_VEC(weir_event) events = {0};
    WEIR_VEC(uint32_t) first = {0};
    WEIR_VEC(int64_t) live = {0};
    uint32_t moved = 0, *const count = x->number;

    for (uint32_t e = 0; e < n; e++)
        moved += x->at[e] != e;
    if (moved == 0)
        return true;
    memset(count, 0, (n + 1u) * sizeof *count);
    for (uint32_t e = 0; e < n; e++)            /* a moved one goes before those that did not */
        count[x->at[e]]++;
    for (uint32_t e = 0, sum = 0; e <= n; e++) {
        const uint32_t c = count[e];
        count[e] = sum;
        sum += e < n ? c : 0;
    }
    for (uint32_t e = 0; e < n; e++)
        if (x->at[e] != e)
            x->order[count[x->at[e]]++] = e;
    for (uint32_t e = 0; e < n; e++)
        if (x->at[e] == e)
            x->order[count[e]] = e;
    if (!weir_vec_reserve(&events, n) || !weir_vec_reserve(&first, n) ||
        !weir_vec_reserve(&live, n + 1ull)) {
        weir_vec_free(&events);
        weir_vec_free(&first);
        weir_vec_free(&live);
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t e = x->order[i];
        x->number[e] = i;
        events.at[i] = s->events.at[e];
        first.at[i] = s->first.at[e];
    }
    for (uint32_t i = 0; i < n; i++)        /* a moved copy sees what the event behind it does */
        live.at[i] = s->live.at[x->at[x->order[i]]];
    memcpy(s->events.at, events.at, n * sizeof *events.at);
    memcpy(s->first.at, first.at, n * sizeof *first.at);
    memcpy(s->live.at, live.at, n * sizeof *live.at);
    weir_vec_free(&events);
    weir_vec_free(&first);
    weir_vec_free(&live);
    for (uint32_t i = 0; i < s->lives.n; i++) {
        weir_life *l = &s->lives.at[i];
        l->first = l->before ? 0 : x->number[l->first];
        l->last = x->number[l->last];
    }
    return true;
}

typedef struct weir_clocks {
    double   compute, out, in;
    double   due;               /* lockstep: when the copies with the last run are done */
    uint32_t head, tail;        /* of leaving */
    uint32_t read;              /* number of copies in x->number whose piece is read further on */
    size_t   leaving;           /* bytes */
} weir_clocks;

/* The oldest copy out is done before event e, or is waited for. */
static double leave(weir_streamer *x, weir_clocks *c, uint32_t e)
{
    const uint32_t   event = x->leaving[c->head++];
    const uint32_t  *life = x->s->refs.at + x->s->first.at[event];
    weir_life *const l = &x->s->lives.at[life[0]];

    c->leaving -= x->s->p->pieces.at[l->piece].bytes;
    l->last = e > l->last + 1 ? e - 1 : l->last;
    return x->ready[life[1]];
}

/* When event e can begin at `time`: copies out that are done by then are gone; others are waited
 * for where there is no room. */
static double make_room(weir_streamer *x, weir_clocks *c, uint32_t e, double time)
{
    const weir_schedule *s = x->s;

    while (c->head < c->tail) {
        const double done = x->ready[s->refs.at[s->first.at[x->leaving[c->head]] + 1]];
        if (done > time && fits(x, e, c->leaving))
            break;
        time = fmax(time, leave(x, c, e));
    }
    return time;
}

/* What makes again what is still on its way out waits: there is one copy of a piece. */
static double wait_for_twin(weir_streamer *x, weir_clocks *c, uint32_t e, double time)
{
    const weir_schedule *s = x->s;
    uint32_t             nin, nout, until = c->head;
    const uint32_t      *life = weir_schedule_refs(s, e, &nin, &nout) + nin;

    for (uint32_t q = c->head; q < c->tail; q++)
        for (uint32_t i = 0; i < nout; i++)
            if (s->lives.at[life[i]].piece == s->events.at[x->leaving[q]].what)
                until = q + 1;
    while (c->head < until)
        time = fmax(time, leave(x, c, e));
    return time;
}

/* What was copied out while it was still read, and is read by event e for the last time, goes. */
static void let_read_go(weir_streamer *x, weir_clocks *c, uint32_t e)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < c->read; i++) {
        const uint32_t   out = x->number[i];
        const weir_life *l = &x->s->lives.at[x->s->refs.at[x->s->first.at[out]]];
        if (l->last == e) {
            x->leaving[c->tail++] = out;
            c->leaving += x->s->p->pieces.at[l->piece].bytes;
        } else {
            x->number[kept++] = out;
        }
    }
    c->read = kept;
}

/* Event e takes no memory that a copy out still needs: compute waits where it would, so that what
 * runs later finds the room, too. Only copies out take none. */
static void step(weir_streamer *x, weir_clocks *c, uint32_t e)
{
    weir_schedule    *s = x->s;
    const weir_event *v = &s->events.at[e];
    uint32_t          nin, nout;
    const uint32_t   *life = weir_schedule_refs(s, e, &nin, &nout);
    double            begin = c->compute;

    for (uint32_t i = 0; i < nin; i++)
        begin = fmax(begin, x->ready[life[i]]);
    if (v->act == WEIR_RUN && s->lockstep) {
        begin = fmax(begin, c->due);
        c->due = fmax(c->out, c->in);
    }
    if ((v->again || v->act == WEIR_UNPACK) && c->head < c->tail)
        begin = wait_for_twin(x, c, e, begin);
    if (v->act != WEIR_OUT)
        begin = make_room(x, c, e, begin);
    if (v->act == WEIR_IN) {
        c->compute = begin;
        begin = fmax(begin, c->in);
    } else if (v->act == WEIR_OUT) {
        begin = fmax(begin, c->out);
    }
    const double seconds = weir_event_seconds(s->p, v), end = begin + seconds;
    c->compute += v->act == WEIR_OUT || v->act == WEIR_IN ? s->p->steal * seconds : 0;
    *(v->act == WEIR_OUT ? &c->out : v->act == WEIR_IN ? &c->in : &c->compute) = end;
    for (uint32_t i = 0; i < nout; i++)
        x->ready[life[nin + i]] = v->act == WEIR_RUN ? 0 : end;
    s->live.at[e] += (int64_t)c->leaving;
    if (v->act == WEIR_OUT)
        x->number[c->read++] = e;
    let_read_go(x, c, e);
}

bool weir_schedule_stream(weir_schedule *s, size_t room)
{
    weir_streamer x;
    weir_clocks   c = {0};

    if (!init(&x, s, room))
        return false;
    if (!s->lockstep) {
        issue_early(&x);
        if (!reorder(&x))
            return false;
    }
    for (uint32_t i = 0; i < s->lives.n; i++)
        x.ready[i] = 0;
    for (uint32_t e = 0; e < s->events.n; e++)
        step(&x, &c, e);
    while (c.head < c.tail)
        (void)leave(&x, &c, s->events.n);
    s->time = fmax(c.compute, fmax(c.out, c.in));
    return true;
}
