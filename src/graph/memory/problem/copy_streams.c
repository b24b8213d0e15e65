/* copy_streams.c - times a schedule with copies: one clock each for compute, offloads and
 * prefetches.
 *
 * A prefetch is appended where its tensor is read. Prefetches move, the last one first, to earlier
 * events: early enough for the link, which does one copy at a time, and only as far as memory
 * allows. Then the clocks advance over the events; a run waits for what it reads. An offloaded
 * tensor holds its bytes until its copy is complete; an event that would not fit waits for the
 * oldest copies.
 *
 * In lockstep no event moves, and every run waits for the copies that were issued before the run
 * preceding it (vDNN: Rhu and others, MICRO 2016). */
#include "graph/memory/problem/copy_streams.h"

#include <math.h>
#include <string.h>

/* `scratch` holds five arrays of events + 1 numbers:
 * at: the event before which each event is issued;
 * order: first the earliest place of each prefetch, then the next prefetch moved to the same place;
 * number: the new number of each event, later the offloads whose tensor still has readers;
 * leaving: the first prefetch moved to each place, later a queue of the offloads under way;
 * sorted: the events in their new order.
 * `clock` holds the start times of events, later the end times of the offloads in the queue, and
 * the times at which live ranges are ready. */
#define NO_EVENT UINT32_MAX

typedef struct weir_streamer {
    weir_schedule *s;
    size_t         limit;
    uint32_t      *at, *order, *number, *leaving, *sorted;
    double        *start, *ready;
    uint32_t       moved; /* prefetches issued earlier than they were appended */
} weir_streamer;

static bool init_streams(weir_streamer *x, weir_schedule *s, size_t limit)
{
    const uint64_t n = (uint64_t)s->events.n + 1;

    *x = (weir_streamer){.s = s, .limit = limit};
    if (!weir_vec_reserve(&s->scratch, 5 * n) || !weir_vec_reserve(&s->clock, n + s->ranges.n + 1))
        return false;
    x->at = s->scratch.at;
    x->order = x->at + n;
    x->number = x->order + n;
    x->leaving = x->number + n;
    x->sorted = x->leaving + n;
    x->start = s->clock.at;
    x->ready = x->start + n;
    return true;
}

/* Not fmax and fmin, which are calls, since they mind NaN. */
static double later(double a, double b)
{
    return a > b ? a : b;
}

static double earlier(double a, double b)
{
    return a < b ? a : b;
}

static bool fits(const weir_streamer *x, uint32_t e, size_t more)
{
    return (size_t)x->s->live.at[e] + more <= x->limit;
}

/* Sets x->order to the earliest place where each prefetch may be issued: after the event that makes
 * the host copy, and after the end of the tensor's earlier plain copies. (Among these, a scratch
 * copy may end before one that existed already.) */
static void find_earliest(weir_streamer *x)
{
    weir_schedule *s = x->s;

    memset(s->now, 0xff, (size_t)s->p->tensors.n * WEIR_FORM_COUNT * sizeof *s->now);
    for (uint32_t i = 0; i < s->ranges.n; i++) {
        const weir_live_range *l = &s->ranges.at[i];
        uint32_t *const  before = &s->now[l->tensor * WEIR_FORM_COUNT + WEIR_FORM_PLAIN];
        if (l->form != WEIR_FORM_PLAIN)
            continue;
        if (!l->before && s->events.at[l->first].kind == WEIR_EVENT_PREFETCH) {
            const weir_live_range *host = &s->ranges.at[s->refs.at[s->first.at[l->first]]];
            uint32_t               from = host->before ? 0 : host->first + 1;
            if (*before != WEIR_NO_RANGE && s->ranges.at[*before].last >= from)
                from = s->ranges.at[*before].last + 1;
            x->order[l->first] = from;
        }
        if (*before == WEIR_NO_RANGE || s->ranges.at[*before].last <= l->last)
            *before = i;
    }
}

/* Sets x->at of each prefetch to the latest place that is early enough for the link, or to the
 * earliest one that memory allows, and lists those moved to each place by ascending number. */
static void issue_early(weir_streamer *x)
{
    weir_schedule *s = x->s;
    double         time = 0, link = INFINITY;

    for (uint32_t e = 0; e < s->events.n; e++) {
        const weir_event *v = &s->events.at[e];
        x->at[e] = e;
        x->start[e] = time;
        time += v->kind == WEIR_EVENT_OFFLOAD || v->kind == WEIR_EVENT_PREFETCH
                    ? 0
                    : weir_event_seconds(s->p, v);
    }
    find_earliest(x);
    memset(x->leaving, 0xff, s->events.n * sizeof *x->leaving);
    for (uint32_t e = s->events.n; e-- > 0;) {
        if (s->events.at[e].kind != WEIR_EVENT_PREFETCH)
            continue;
        const size_t bytes = s->p->tensors.at[s->events.at[e].what].bytes;
        const double seconds = weir_event_seconds(s->p, &s->events.at[e]);
        const double begin = earlier(x->start[e], link) - seconds;
        uint32_t     q = e;
        while (q > x->order[e] && x->start[q] > begin && fits(x, q - 1, bytes)) {
            q--;
            s->live.at[q] += (int64_t)bytes;
        }
        x->at[e] = q;
        if (q < e) {
            x->order[e] = x->leaving[q];
            x->leaving[q] = e;
            x->moved++;
        }
        link = x->start[q] > begin ? x->start[q] : begin;
    }
}

/* Sorts the events into the order of issue. A moved prefetch goes before the event at which it is
 * issued; several moved to one place keep the order of their reads. */
static void sort_events(weir_streamer *x)
{
    uint32_t n = 0;

    for (uint32_t place = 0; place < x->s->events.n; place++) {
        for (uint32_t e = x->leaving[place]; e != NO_EVENT; e = x->order[e])
            x->sorted[n++] = e;
        if (x->at[place] == place)
            x->sorted[n++] = place;
    }
}

/* Puts the events into that order. */
static bool reorder(weir_streamer *x)
{
    weir_schedule *s = x->s;
    const uint32_t n = s->events.n;
    WEIR_VEC(weir_event) events = {0};
    WEIR_VEC(uint32_t) first = {0};
    WEIR_VEC(int64_t) live = {0};
    const bool ok = weir_vec_reserve(&events, n) && weir_vec_reserve(&first, n) &&
                    weir_vec_reserve(&live, n + 1ull);

    sort_events(x);
    for (uint32_t i = 0; i < n && ok; i++) {
        const uint32_t e = x->sorted[i];
        x->number[e] = i;
        events.at[i] = s->events.at[e];
        first.at[i] = s->first.at[e];
        live.at[i] = s->live.at[x->at[e]]; /* a moved prefetch sees its new place's live bytes */
    }
    if (ok) {
        memcpy(s->events.at, events.at, n * sizeof *events.at);
        memcpy(s->first.at, first.at, n * sizeof *first.at);
        memcpy(s->live.at, live.at, n * sizeof *live.at);
    }
    for (uint32_t i = 0; i < s->ranges.n && ok; i++) {
        weir_live_range *l = &s->ranges.at[i];
        l->first = l->before ? 0 : x->number[l->first];
        l->last = x->number[l->last];
    }
    weir_vec_free(&events);
    weir_vec_free(&first);
    weir_vec_free(&live);
    return ok;
}

typedef struct weir_clocks {
    double   compute, out, in;
    double   busy;       /* seconds that compute ran; the rest it waited */
    double   due;        /* lockstep: when the copies issued before the last run are complete */
    uint32_t head, tail; /* ends of the queue `leaving` */
    uint32_t read;       /* number of offloads in x->number whose tensor still has readers */
    size_t   leaving;    /* bytes held by the queue `leaving` */
} weir_clocks;

/* Retires the oldest offload before event e. Returns the time at which its copy is complete. */
static double retire_offload(weir_streamer *x, weir_clocks *c, uint32_t e)
{
    const double           done = x->start[c->head];
    const uint32_t         event = x->leaving[c->head++];
    weir_live_range *const l = &x->s->ranges.at[x->s->refs.at[x->s->first.at[event]]];

    c->leaving -= x->s->p->tensors.at[l->tensor].bytes;
    l->last = e > l->last + 1 ? e - 1 : l->last;
    return done;
}

/* Returns when event e can begin, at `time` or later. Offloads complete by then free their bytes; e
 * waits for further ones as long as it does not fit. */
static double free_memory(weir_streamer *x, weir_clocks *c, uint32_t e, double time)
{
    while (c->head < c->tail && (x->start[c->head] <= time || !fits(x, e, c->leaving)))
        time = later(time, retire_offload(x, c, e));
    return time;
}

/* An event that makes a tensor again while its offload is under way waits for that copy, since a
 * tensor has one plain copy on the device. */
static double wait_for_own_offload(weir_streamer *x, weir_clocks *c, uint32_t e, double time)
{
    const weir_schedule *s = x->s;
    uint32_t             nin, nout, end = c->head;
    const uint32_t      *range = weir_schedule_refs(s, e, &nin, &nout) + nin;

    for (uint32_t q = c->head; q < c->tail; q++)
        for (uint32_t i = 0; i < nout; i++)
            if (s->ranges.at[range[i]].tensor == s->events.at[x->leaving[q]].what)
                end = q + 1;
    while (c->head < end)
        time = later(time, retire_offload(x, c, e));
    return time;
}

/* Moves to the queue the offloads whose tensor event e reads last: only the copy holds it now. */
static void queue_offloads(weir_streamer *x, weir_clocks *c, uint32_t e)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < c->read; i++) {
        const uint32_t         out = x->number[i];
        const uint32_t        *range = x->s->refs.at + x->s->first.at[out];
        const weir_live_range *l = &x->s->ranges.at[range[0]];
        if (l->last == e) {
            x->start[c->tail] = x->ready[range[1]];
            x->leaving[c->tail++] = out;
            c->leaving += x->s->p->tensors.at[l->tensor].bytes;
        } else {
            x->number[kept++] = out;
        }
    }
    c->read = kept;
}

/* Times event e. The compute stream itself waits if e needs memory that an offload still holds, so
 * that later runs find that memory free. Only an offload needs no device memory. */
static void step(weir_streamer *x, weir_clocks *c, uint32_t e)
{
    weir_schedule    *s = x->s;
    const weir_event *v = &s->events.at[e];
    uint32_t          nin, nout;
    const uint32_t   *range = weir_schedule_refs(s, e, &nin, &nout);
    double            begin = c->compute;

    for (uint32_t i = 0; i < nin; i++)
        begin = later(begin, x->ready[range[i]]);
    if (v->kind == WEIR_EVENT_RUN && s->lockstep) {
        begin = later(begin, c->due);
        c->due = later(c->out, c->in);
    }
    if ((v->recomputed || v->kind == WEIR_EVENT_DECOMPRESS) && c->head < c->tail)
        begin = wait_for_own_offload(x, c, e, begin);
    if (v->kind != WEIR_EVENT_OFFLOAD)
        begin = free_memory(x, c, e, begin);
    if (v->kind == WEIR_EVENT_PREFETCH) {
        c->compute = begin;
        begin = later(begin, c->in);
    } else if (v->kind == WEIR_EVENT_OFFLOAD) {
        begin = later(begin, c->out);
    }
    const double seconds = weir_event_seconds(s->p, v), end = begin + seconds;
    if (v->kind == WEIR_EVENT_OFFLOAD || v->kind == WEIR_EVENT_PREFETCH)
        c->compute += s->p->copy_interference * seconds;
    else
        c->busy += seconds;
    *(v->kind == WEIR_EVENT_OFFLOAD    ? &c->out
      : v->kind == WEIR_EVENT_PREFETCH ? &c->in
                                       : &c->compute) = end;
    for (uint32_t i = 0; i < nout; i++)
        x->ready[range[nin + i]] = v->kind == WEIR_EVENT_RUN ? 0 : end;
    s->live.at[e] += (int64_t)c->leaving;
    if (v->kind == WEIR_EVENT_OFFLOAD)
        x->number[c->read++] = e;
    queue_offloads(x, c, e);
}

/* Issues prefetches early, extends the live ranges of offloaded tensors to the end of their copies,
 * and sets s->time. Expects s->live without either effect; the caller recomputes it. Stops with
 * s->time infinite once compute has waited so long that the step takes more than `most` seconds. */
static bool run_streams(weir_schedule *s, size_t limit, double most)
{
    const double  longest_wait = most - s->time; /* s->time: of all runs */
    weir_streamer x;
    weir_clocks   c = {0};

    if (!init_streams(&x, s, limit))
        return false;
    if (!s->lockstep) {
        issue_early(&x);
        if (x.moved > 0 && !reorder(&x))
            return false;
    }
    for (uint32_t i = 0; i < s->ranges.n; i++)
        x.ready[i] = 0;
    for (uint32_t e = 0; e < s->events.n; e++) {
        step(&x, &c, e);
        if (c.compute - c.busy > longest_wait) {
            s->time = INFINITY;
            return true;
        }
    }
    while (c.head < c.tail)
        (void)retire_offload(&x, &c, s->events.n);
    s->time = later(c.compute, later(c.out, c.in));
    return true;
}

bool weir_schedule_end_copies(weir_schedule *s, size_t limit, double most)
{
    if (!s->valid || s->copies + s->n_compressions == 0)
        return true;
    return run_streams(s, limit, most) && (isinf(s->time) || weir_schedule_sum_live(s));
}

bool weir_schedule_end(weir_schedule *s, size_t limit)
{
    return weir_schedule_end_runs(s) && weir_schedule_end_copies(s, limit, INFINITY);
}
