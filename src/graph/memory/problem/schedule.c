/* schedule.c - appends events to a schedule, and ends it: in-place reuse, three streams, totals.
 *
 * A prefetch is appended where its tensor is read. Ending the schedule moves prefetches, the last
 * one first, to earlier events: early enough for the link, which does one copy at a time, and only
 * as far as memory allows. Then it advances over the events with one clock each for compute,
 * offloads and prefetches; a run waits for what it reads. An offloaded tensor holds its bytes until
 * its copy is complete; an event that would not fit waits for the oldest copies.
 *
 * In lockstep no event moves, and every run waits for the copies that were issued before the run
 * preceding it (vDNN: Rhu and others, MICRO 2016). */
#include "graph/memory/problem/schedule.h"
#include "graph/placement/progress.h"

#include <math.h>
#include <string.h>


const uint8_t weir_event_reads[] = {[WEIR_EVENT_OFFLOAD] = WEIR_FORM_PLAIN,
                                    [WEIR_EVENT_PREFETCH] = WEIR_FORM_HOST,
                                    [WEIR_EVENT_COMPRESS] = WEIR_FORM_PLAIN,
                                    [WEIR_EVENT_MASK] = WEIR_FORM_PLAIN,
                                    [WEIR_EVENT_DECOMPRESS] = WEIR_FORM_COMPRESSED};
const uint8_t weir_event_writes[] = {[WEIR_EVENT_OFFLOAD] = WEIR_FORM_HOST,
                                     [WEIR_EVENT_PREFETCH] = WEIR_FORM_PLAIN,
                                     [WEIR_EVENT_COMPRESS] = WEIR_FORM_COMPRESSED,
                                     [WEIR_EVENT_MASK] = WEIR_FORM_MASK,
                                     [WEIR_EVENT_DECOMPRESS] = WEIR_FORM_PLAIN};

bool weir_schedule_init(weir_schedule *s, const weir_mem_problem *p)
{
    *s = (weir_schedule){.p = p};
    s->now = weir_mem_alloc(((size_t)p->tensors.n + 1) * WEIR_FORM_COUNT * sizeof *s->now);
    s->stale = weir_mem_alloc((size_t)p->tensors.n + 1);
    return s->now && s->stale;
}

void weir_schedule_free(weir_schedule *s)
{
    weir_vec_free(&s->events);
    weir_vec_free(&s->ranges);
    weir_vec_free(&s->refs);
    weir_vec_free(&s->first);
    weir_vec_free(&s->live);
    weir_vec_free(&s->scratch);
    weir_vec_free(&s->clock);
    weir_mem_free(s->now);
    weir_mem_free(s->stale);
    s->now = NULL;
    s->stale = NULL;
}

static bool add_range(weir_schedule *s, uint32_t tensor, weir_form form, uint32_t event)
{
    const weir_live_range l = {.tensor = tensor,
                               .first = event,
                               .last = event,
                               .over = WEIR_NO_RANGE,
                               .form = (uint8_t)form};
    return weir_vec_push(&s->ranges, l);
}

bool weir_schedule_begin(weir_schedule *s, const uint8_t *offloaded)
{
    const weir_mem_problem *p = s->p;

    s->events.n = s->ranges.n = s->refs.n = s->first.n = 0;
    s->copies = s->n_compressions = 0;
    s->valid = true;
    s->lockstep = false;
    memset(s->now, 0xff, (size_t)p->tensors.n * WEIR_FORM_COUNT * sizeof *s->now);
    memset(s->stale, 0, p->tensors.n);
    for (uint32_t k = 0; k < p->tensors.n; k++) {
        if (!weir_mem_tensor_is_resident(p, k))
            continue;
        const weir_form form = offloaded && offloaded[k] ? WEIR_FORM_HOST : WEIR_FORM_PLAIN;
        s->now[k * WEIR_FORM_COUNT + form] = s->ranges.n;
        if (!add_range(s, k, form, 0))
            return false;
        s->ranges.at[s->ranges.n - 1].before = true;
    }
    return true;
}

static bool add_event(weir_schedule *s, weir_event_kind kind, uint32_t what, bool recomputed)
{
    return weir_vec_push(&s->events, (weir_event){what, (uint8_t)kind, recomputed}) &&
           weir_vec_push(&s->first, s->refs.n);
}

/* Records that event e reads the live range. */
static void read_range(weir_schedule *s, uint32_t range, uint32_t e)
{
    s->ranges.at[range].last = e;
    s->refs.at[s->refs.n++] = range;
}

bool weir_schedule_run(weir_schedule *s, uint32_t op, bool recomputed)
{
    const weir_mem_op *t = &s->p->ops.at[op];
    const uint32_t    *in = weir_refs(s->p, t->in), *out = weir_refs(s->p, t->out);
    const uint32_t     e = s->events.n;

    if (!add_event(s, WEIR_EVENT_RUN, op, recomputed) ||
        !weir_vec_reserve(&s->refs, (uint64_t)s->refs.n + t->in.n + t->out.n) ||
        !weir_vec_reserve(&s->ranges, (uint64_t)s->ranges.n + t->out.n))
        return false;
    for (uint32_t i = 0; i < t->in.n; i++) {
        uint32_t range = weir_schedule_range(s, in[i], WEIR_FORM_PLAIN);
        if (range == WEIR_NO_RANGE && weir_among(s->p, t->masked, in[i]))
            range = weir_schedule_range(s, in[i], WEIR_FORM_MASK);
        if (range == WEIR_NO_RANGE) {
            s->valid = false;
            return true;
        }
        read_range(s, range, e);
    }
    for (uint32_t i = 0; i < t->changes.n && !recomputed; i++)
        s->stale[weir_refs(s->p, t->changes)[i]] = 1;
    for (uint32_t i = 0; i < t->out.n; i++) {
        const uint32_t range = s->ranges.n++;
        s->ranges.at[range] = (weir_live_range){.tensor = out[i],
                                                .first = e,
                                                .last = e,
                                                .over = WEIR_NO_RANGE,
                                                .form = WEIR_FORM_PLAIN};
        s->refs.at[s->refs.n++] = range;
        if (!weir_schedule_has(s, out[i], WEIR_FORM_PLAIN))
            s->now[out[i] * WEIR_FORM_COUNT + WEIR_FORM_PLAIN] = range;
    }
    return true;
}

bool weir_schedule_copy(weir_schedule *s, uint32_t tensor, weir_event_kind kind)
{
    const uint32_t range = weir_schedule_range(s, tensor, weir_event_reads[kind]), e = s->events.n;

    if (kind == WEIR_EVENT_OFFLOAD && weir_schedule_has(s, tensor, WEIR_FORM_HOST) &&
        !s->stale[tensor])
        return true;
    if (range == WEIR_NO_RANGE) {
        s->valid = false;
        return true;
    }
    if (!add_event(s, kind, tensor, false) || !weir_vec_reserve(&s->refs, (uint64_t)s->refs.n + 2))
        return false;
    read_range(s, range, e);
    s->ranges.at[range].copied |= kind == WEIR_EVENT_OFFLOAD;
    s->refs.at[s->refs.n++] = s->ranges.n;
    s->now[tensor * WEIR_FORM_COUNT + weir_event_writes[kind]] = s->ranges.n;
    if (kind == WEIR_EVENT_OFFLOAD)
        s->stale[tensor] = 0;
    *(kind == WEIR_EVENT_OFFLOAD || kind == WEIR_EVENT_PREFETCH ? &s->copies
                                                                : &s->n_compressions) += 1;
    return add_range(s, tensor, weir_event_writes[kind], e);
}

const uint32_t *weir_schedule_refs(const weir_schedule *s, uint32_t e, uint32_t *nin,
                                   uint32_t *nout)
{
    const weir_event *v = &s->events.at[e];

    *nin = v->kind == WEIR_EVENT_RUN ? s->p->ops.at[v->what].in.n : 1;
    *nout = v->kind == WEIR_EVENT_RUN ? s->p->ops.at[v->what].out.n : 1;
    return s->refs.at + s->first.at[e];
}

void weir_schedule_ends(const weir_schedule *s, const uint8_t *skip, uint32_t *first,
                        uint32_t *list)
{
    memset(first, 0, (s->events.n + 2u) * sizeof *first);
    for (uint32_t i = 0; i < s->ranges.n; i++)
        if (!skip || !skip[i])
            first[s->ranges.at[i].last + 2]++;
    for (uint32_t e = 0; e < s->events.n; e++)
        first[e + 2] += first[e + 1];
    for (uint32_t i = 0; i < s->ranges.n; i++)
        if (!skip || !skip[i])
            list[first[s->ranges.at[i].last + 1]++] = i;
}

uint32_t weir_schedule_first_run(const weir_schedule *s, uint32_t event)
{
    while (event < s->events.n &&
           (s->events.at[event].kind != WEIR_EVENT_RUN || s->events.at[event].recomputed))
        event++;
    return event < s->events.n ? s->events.at[event].what : s->p->ops.n - 1;
}

double weir_event_seconds(const weir_mem_problem *p, const weir_event *e)
{
    if (e->kind == WEIR_EVENT_RUN)
        return p->ops.at[e->what].time;
    const weir_mem_tensor *k = &p->tensors.at[e->what];
    switch ((weir_event_kind)e->kind) {
    case WEIR_EVENT_OFFLOAD:
        return p->copy_latency + (double)k->bytes / p->link_out;
    case WEIR_EVENT_PREFETCH:
        return p->copy_latency + (double)k->bytes / p->link_in;
    default:
        return (double)(k->bytes + (e->kind == WEIR_EVENT_MASK ? k->mask : k->packed)) /
               p->pack_bandwidth;
    }
}

/* ---- streams ---- */

/* `scratch` holds four arrays of events + 1 numbers:
 * at: the event before which each event is issued;
 * order: first the earliest place of each prefetch, then the events in their new order;
 * number: the new number of each event, later the offloads whose tensor still has readers;
 * leaving: a queue of the offloads under way.
 * `clock` holds the start times of events and the times at which live ranges are ready. */
typedef struct weir_streamer {
    weir_schedule *s;
    size_t         limit;
    uint32_t      *at, *order, *number, *leaving;
    double        *start, *ready;
} weir_streamer;

static bool init_streams(weir_streamer *x, weir_schedule *s, size_t limit)
{
    const uint64_t n = (uint64_t)s->events.n + 1;

    *x = (weir_streamer){.s = s, .limit = limit};
    if (!weir_vec_reserve(&s->scratch, 4 * n) || !weir_vec_reserve(&s->clock, n + s->ranges.n + 1))
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
 * earliest one that memory allows. */
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
    for (uint32_t e = s->events.n; e-- > 0;) {
        if (s->events.at[e].kind != WEIR_EVENT_PREFETCH)
            continue;
        const size_t bytes = s->p->tensors.at[s->events.at[e].what].bytes;
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

/* Sorts the events into the order of issue by counting; most stay. A moved prefetch goes before the
 * event at which it is issued; several moved to one place keep the order of their reads. */
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
    for (uint32_t e = 0; e < n; e++)            /* moved events precede the one that stayed */
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
    for (uint32_t i = 0; i < n; i++)        /* a moved prefetch sees its new place's live bytes */
        live.at[i] = s->live.at[x->at[x->order[i]]];
    memcpy(s->events.at, events.at, n * sizeof *events.at);
    memcpy(s->first.at, first.at, n * sizeof *first.at);
    memcpy(s->live.at, live.at, n * sizeof *live.at);
    weir_vec_free(&events);
    weir_vec_free(&first);
    weir_vec_free(&live);
    for (uint32_t i = 0; i < s->ranges.n; i++) {
        weir_live_range *l = &s->ranges.at[i];
        l->first = l->before ? 0 : x->number[l->first];
        l->last = x->number[l->last];
    }
    return true;
}

typedef struct weir_clocks {
    double   compute, out, in;
    double   due;        /* lockstep: when the copies issued before the last run are complete */
    uint32_t head, tail; /* ends of the queue `leaving` */
    uint32_t read;       /* number of offloads in x->number whose tensor still has readers */
    size_t   leaving;    /* bytes held by the queue `leaving` */
} weir_clocks;

/* Retires the oldest offload before event e. Returns the time at which its copy is complete. */
static double retire_offload(weir_streamer *x, weir_clocks *c, uint32_t e)
{
    const uint32_t         event = x->leaving[c->head++];
    const uint32_t        *range = x->s->refs.at + x->s->first.at[event];
    weir_live_range *const l = &x->s->ranges.at[range[0]];

    c->leaving -= x->s->p->tensors.at[l->tensor].bytes;
    l->last = e > l->last + 1 ? e - 1 : l->last;
    return x->ready[range[1]];
}

/* Returns when event e can begin, at `time` or later. Offloads complete by then free their bytes; e
 * waits for further ones as long as it does not fit. */
static double free_memory(weir_streamer *x, weir_clocks *c, uint32_t e, double time)
{
    const weir_schedule *s = x->s;

    while (c->head < c->tail) {
        const double done = x->ready[s->refs.at[s->first.at[x->leaving[c->head]] + 1]];
        if (done > time && fits(x, e, c->leaving))
            break;
        time = fmax(time, retire_offload(x, c, e));
    }
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
        time = fmax(time, retire_offload(x, c, e));
    return time;
}

/* Moves to the queue the offloads whose tensor event e reads last: only the copy holds it now. */
static void queue_offloads(weir_streamer *x, weir_clocks *c, uint32_t e)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < c->read; i++) {
        const uint32_t         out = x->number[i];
        const weir_live_range *l = &x->s->ranges.at[x->s->refs.at[x->s->first.at[out]]];
        if (l->last == e) {
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
        begin = fmax(begin, x->ready[range[i]]);
    if (v->kind == WEIR_EVENT_RUN && s->lockstep) {
        begin = fmax(begin, c->due);
        c->due = fmax(c->out, c->in);
    }
    if ((v->recomputed || v->kind == WEIR_EVENT_DECOMPRESS) && c->head < c->tail)
        begin = wait_for_own_offload(x, c, e, begin);
    if (v->kind != WEIR_EVENT_OFFLOAD)
        begin = free_memory(x, c, e, begin);
    if (v->kind == WEIR_EVENT_PREFETCH) {
        c->compute = begin;
        begin = fmax(begin, c->in);
    } else if (v->kind == WEIR_EVENT_OFFLOAD) {
        begin = fmax(begin, c->out);
    }
    const double seconds = weir_event_seconds(s->p, v), end = begin + seconds;
    c->compute += v->kind == WEIR_EVENT_OFFLOAD || v->kind == WEIR_EVENT_PREFETCH
                      ? s->p->copy_interference * seconds
                      : 0;
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
 * and sets s->time. Expects s->live without either effect; sum_live must recompute it afterwards.
 * Returns false if memory runs out. */
static bool run_streams(weir_schedule *s, size_t limit)
{
    weir_streamer x;
    weir_clocks   c = {0};

    if (!init_streams(&x, s, limit))
        return false;
    if (!s->lockstep) {
        issue_early(&x);
        if (!reorder(&x))
            return false;
    }
    for (uint32_t i = 0; i < s->ranges.n; i++)
        x.ready[i] = 0;
    for (uint32_t e = 0; e < s->events.n; e++)
        step(&x, &c, e);
    while (c.head < c.tail)
        (void)retire_offload(&x, &c, s->events.n);
    s->time = fmax(c.compute, fmax(c.out, c.in));
    return true;
}

/* ---- the end ---- */

/* Puts outputs of a run in place of inputs whose live range ends there, by the first permitted pair
 * of each output. */
static void take_over(weir_schedule *s, uint32_t e)
{
    const weir_mem_op *t = &s->p->ops.at[s->events.at[e].what];
    const uint32_t    *pair = weir_refs(s->p, t->pairs), *range = s->refs.at + s->first.at[e];
    const uint32_t    *in = weir_refs(s->p, t->in), *out = weir_refs(s->p, t->out);

    for (uint32_t i = 0; i + 1 < t->pairs.n; i += 2) {
        uint32_t a = 0, b = 0;
        while (in[a] != pair[i])
            a++;
        while (out[b] != pair[i + 1])
            b++;
        const weir_live_range *x = &s->ranges.at[range[a]];
        weir_live_range *const y = &s->ranges.at[range[t->in.n + b]];
        bool free = x->last == e && x->first != e && x->form == WEIR_FORM_PLAIN && !x->before &&
                    !x->copied && y->over == WEIR_NO_RANGE && y->last > e &&
                    s->p->tensors.at[pair[i]].bytes == s->p->tensors.at[pair[i + 1]].bytes;
        for (uint32_t k = 0; k < t->out.n; k++)
            free = free && s->ranges.at[range[t->in.n + k]].over != range[a];
        if (free)
            y->over = range[a];
    }
}

/* Extends to the last event the live ranges of step outputs and resident tensors. */
static void extend_kept(weir_schedule *s)
{
    for (uint32_t k = 0; k < s->p->tensors.n; k++) {
        const uint32_t range = weir_schedule_range(s, k, WEIR_FORM_PLAIN);
        if (range == WEIR_NO_RANGE || s->events.n == 0)
            continue;
        if (s->p->tensors.at[k].output ||
            (weir_mem_tensor_is_resident(s->p, k) && s->ranges.at[range].before))
            s->ranges.at[range].last = s->events.n - 1;
    }
}

/* Computes the live bytes during every event: O(ranges + events). */
static bool sum_live(weir_schedule *s)
{
    const weir_mem_problem *p = s->p;
    int64_t                 live = 0;

    if (!weir_vec_reserve(&s->live, (uint64_t)s->events.n + 1))
        return false;
    memset(s->live.at, 0, ((size_t)s->events.n + 1) * sizeof *s->live.at);
    for (uint32_t i = 0; i < s->ranges.n; i++) {
        const weir_live_range *l = &s->ranges.at[i];
        const int64_t          bytes = (int64_t)weir_live_range_bytes(p, l);
        s->live.at[l->first + (l->over != WEIR_NO_RANGE)] += bytes;
        s->live.at[l->last + 1] -= bytes;
    }
    for (uint32_t e = 0; e < s->events.n; e++) {
        live += s->live.at[e];
        s->live.at[e] = live;
        if (s->events.at[e].kind == WEIR_EVENT_RUN)
            s->live.at[e] += (int64_t)p->ops.at[s->events.at[e].what].work;
    }
    s->live.n = s->events.n;
    return true;
}

static void find_peak(weir_schedule *s)
{
    int64_t peak = -1;

    for (uint32_t e = 0; e < s->events.n; e++)
        if (s->live.at[e] > peak) {
            peak = s->live.at[e];
            s->peak_event = e;
        }
    s->peak = peak < 0 ? 0 : (size_t)peak;
}

static double recompute_seconds(const weir_schedule *s)
{
    double sum = 0;

    for (uint32_t e = 0; e < s->events.n; e++)
        if (s->events.at[e].recomputed)
            sum += s->p->ops.at[s->events.at[e].what].time;
    return sum;
}

bool weir_schedule_end(weir_schedule *s, size_t limit)
{
    if (!s->valid) {
        s->peak = SIZE_MAX;
        return true;
    }
    extend_kept(s);
    for (uint32_t e = 0; e < s->events.n; e++)
        if (s->events.at[e].kind == WEIR_EVENT_RUN && s->p->ops.at[s->events.at[e].what].pairs.n)
            take_over(s, e);
    s->recomputed = recompute_seconds(s);
    s->time = s->p->time + s->recomputed;
    if (!sum_live(s))
        return false;
    if ((s->copies || s->n_compressions) && (!run_streams(s, limit) || !sum_live(s)))
        return false;
    find_peak(s);
    weir_progress_tried();
    return weir_progress_poll();
}
