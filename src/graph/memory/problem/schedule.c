/* schedule.c - appends events to a schedule, and ends it: in-place reuse, totals; copy_streams.c
 * adds the times of copies. */
#include "graph/memory/problem/schedule.h"

#include <string.h>

#include "graph/placement/progress.h"

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

double weir_copy_seconds(const weir_mem_problem *p, const weir_event *e)
{
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

bool weir_schedule_sum_live(weir_schedule *s)
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
    find_peak(s);
    return true;
}

static double recompute_seconds(const weir_schedule *s)
{
    double sum = 0;

    for (uint32_t e = 0; e < s->events.n; e++)
        if (s->events.at[e].recomputed)
            sum += s->p->ops.at[s->events.at[e].what].time;
    return sum;
}

bool weir_schedule_end_runs(weir_schedule *s)
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
    if (!weir_schedule_sum_live(s))
        return false;
    weir_progress_tried();
    return weir_progress_poll();
}
