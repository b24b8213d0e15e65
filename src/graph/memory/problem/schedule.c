/* schedule.c - builds schedules event by event and adds up their memory. */
#include "graph/memory/problem/schedule.h"

#include <string.h>

#include "graph/memory/problem/schedule_streams.h"

const uint8_t weir_act_from[] = {[WEIR_OUT] = WEIR_PLAIN, [WEIR_IN] = WEIR_HOST,
                                 [WEIR_PACK] = WEIR_PLAIN, [WEIR_MARK] = WEIR_PLAIN,
                                 [WEIR_UNPACK] = WEIR_PACKED};
const uint8_t weir_act_to[] = {[WEIR_OUT] = WEIR_HOST, [WEIR_IN] = WEIR_PLAIN,
                               [WEIR_PACK] = WEIR_PACKED, [WEIR_MARK] = WEIR_MASK,
                               [WEIR_UNPACK] = WEIR_PLAIN};

bool weir_schedule_init(weir_schedule *s, const weir_problem *p)
{
    *s = (weir_schedule){.p = p};
    s->now = weir_mem_alloc(((size_t)p->pieces.n + 1) * WEIR_FORMS * sizeof *s->now);
    s->stale = weir_mem_alloc((size_t)p->pieces.n + 1);
    return s->now && s->stale;
}

void weir_schedule_free(weir_schedule *s)
{
    weir_vec_free(&s->events);
    weir_vec_free(&s->lives);
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

static bool add_life(weir_schedule *s, uint32_t piece, weir_form form, uint32_t event)
{
    const weir_life l = {.piece = piece, .first = event, .last = event, .over = WEIR_NO_LIFE,
                         .form = (uint8_t)form};
    return weir_vec_push(&s->lives, l);
}

bool weir_schedule_begin(weir_schedule *s, const uint8_t *at_home)
{
    const weir_problem *p = s->p;

    s->events.n = s->lives.n = s->refs.n = s->first.n = 0;
    s->copies = s->codecs = 0;
    s->valid = true;
    s->lockstep = false;
    memset(s->now, 0xff, (size_t)p->pieces.n * WEIR_FORMS * sizeof *s->now);
    memset(s->stale, 0, p->pieces.n);
    for (uint32_t k = 0; k < p->pieces.n; k++) {
        if (!weir_piece_resident(p, k))
            continue;
        const weir_form form = at_home && at_home[k] ? WEIR_HOST : WEIR_PLAIN;
        s->now[k * WEIR_FORMS + form] = s->lives.n;
        if (!add_life(s, k, form, 0))
            return false;
        s->lives.at[s->lives.n - 1].before = true;
    }
    return true;
}

static bool add_event(weir_schedule *s, weir_act act, uint32_t what, bool again)
{
    return weir_vec_push(&s->events, (weir_event){what, (uint8_t)act, again}) &&
           weir_vec_push(&s->first, s->refs.n);
}

/* Event e reads the life. */
static void read_life(weir_schedule *s, uint32_t life, uint32_t e)
{
    s->lives.at[life].last = e;
    s->refs.at[s->refs.n++] = life;
}

bool weir_schedule_run(weir_schedule *s, uint32_t task, bool again)
{
    const weir_task *t = &s->p->tasks.at[task];
    const uint32_t  *in = weir_refs(s->p, t->in), *out = weir_refs(s->p, t->out);
    const uint32_t   e = s->events.n;

    if (!add_event(s, WEIR_RUN, task, again) ||
        !weir_vec_reserve(&s->refs, (uint64_t)s->refs.n + t->in.n + t->out.n) ||
        !weir_vec_reserve(&s->lives, (uint64_t)s->lives.n + t->out.n))
        return false;
    for (uint32_t i = 0; i < t->in.n; i++) {
        uint32_t life = weir_schedule_life(s, in[i], WEIR_PLAIN);
        if (life == WEIR_NO_LIFE && weir_among(s->p, t->masked, in[i]))
            life = weir_schedule_life(s, in[i], WEIR_MASK);
        if (life == WEIR_NO_LIFE) {
            s->valid = false;
            return true;
        }
        read_life(s, life, e);
    }
    for (uint32_t i = 0; i < t->changes.n && !again; i++)
        s->stale[weir_refs(s->p, t->changes)[i]] = 1;
    for (uint32_t i = 0; i < t->out.n; i++) {
        const uint32_t life = s->lives.n++;
        s->lives.at[life] = (weir_life){.piece = out[i], .first = e, .last = e,
                                        .over = WEIR_NO_LIFE, .form = WEIR_PLAIN};
        s->refs.at[s->refs.n++] = life;
        if (!weir_schedule_has(s, out[i], WEIR_PLAIN))
            s->now[out[i] * WEIR_FORMS + WEIR_PLAIN] = life;
    }
    return true;
}

bool weir_schedule_copy(weir_schedule *s, uint32_t piece, weir_act act)
{
    const uint32_t life = weir_schedule_life(s, piece, weir_act_from[act]), e = s->events.n;

    if (act == WEIR_OUT && weir_schedule_has(s, piece, WEIR_HOST) && !s->stale[piece])
        return true;
    if (life == WEIR_NO_LIFE) {
        s->valid = false;
        return true;
    }
    if (!add_event(s, act, piece, false) || !weir_vec_reserve(&s->refs, (uint64_t)s->refs.n + 2))
        return false;
    read_life(s, life, e);
    s->lives.at[life].copied |= act == WEIR_OUT;
    s->refs.at[s->refs.n++] = s->lives.n;
    s->now[piece * WEIR_FORMS + weir_act_to[act]] = s->lives.n;
    if (act == WEIR_OUT)
        s->stale[piece] = 0;
    *(act == WEIR_OUT || act == WEIR_IN ? &s->copies : &s->codecs) += 1;
    return add_life(s, piece, weir_act_to[act], e);
}

const uint32_t *weir_schedule_refs(const weir_schedule *s, uint32_t e, uint32_t *nin,
                                   uint32_t *nout)
{
    const weir_event *v = &s->events.at[e];

    *nin = v->act == WEIR_RUN ? s->p->tasks.at[v->what].in.n : 1;
    *nout = v->act == WEIR_RUN ? s->p->tasks.at[v->what].out.n : 1;
    return s->refs.at + s->first.at[e];
}

void weir_schedule_ends(const weir_schedule *s, const uint8_t *skip, uint32_t *first,
                        uint32_t *list)
{
    memset(first, 0, (s->events.n + 2u) * sizeof *first);
    for (uint32_t i = 0; i < s->lives.n; i++)
        if (!skip || !skip[i])
            first[s->lives.at[i].last + 2]++;
    for (uint32_t e = 0; e < s->events.n; e++)
        first[e + 2] += first[e + 1];
    for (uint32_t i = 0; i < s->lives.n; i++)
        if (!skip || !skip[i])
            list[first[s->lives.at[i].last + 1]++] = i;
}

uint32_t weir_schedule_stage(const weir_schedule *s, uint32_t event)
{
    while (event < s->events.n &&
           (s->events.at[event].act != WEIR_RUN || s->events.at[event].again))
        event++;
    return event < s->events.n ? s->events.at[event].what : s->p->tasks.n - 1;
}

double weir_event_seconds(const weir_problem *p, const weir_event *e)
{
    if (e->act == WEIR_RUN)
        return p->tasks.at[e->what].time;
    const weir_piece *k = &p->pieces.at[e->what];
    switch ((weir_act)e->act) {
    case WEIR_OUT:
        return p->copy + (double)k->bytes / p->link_out;
    case WEIR_IN:
        return p->copy + (double)k->bytes / p->link_in;
    default:
        return (double)(k->bytes + (e->act == WEIR_MARK ? k->mask : k->packed)) / p->codec;
    }
}

/* ---- the end ---- */

/* Results of a run take over inputs that die in it: the first permitted pair of each. */
static void take_over(weir_schedule *s, uint32_t e)
{
    const weir_task *t = &s->p->tasks.at[s->events.at[e].what];
    const uint32_t  *pair = weir_refs(s->p, t->pairs), *life = s->refs.at + s->first.at[e];
    const uint32_t  *in = weir_refs(s->p, t->in), *out = weir_refs(s->p, t->out);

    for (uint32_t i = 0; i + 1 < t->pairs.n; i += 2) {
        uint32_t a = 0, b = 0;
        while (in[a] != pair[i])
            a++;
        while (out[b] != pair[i + 1])
            b++;
        const weir_life *x = &s->lives.at[life[a]];
        weir_life *const y = &s->lives.at[life[t->in.n + b]];
        bool free = x->last == e && x->first != e && x->form == WEIR_PLAIN && !x->before &&
                    !x->copied && y->over == WEIR_NO_LIFE && y->last > e &&
                    s->p->pieces.at[pair[i]].bytes == s->p->pieces.at[pair[i + 1]].bytes;
        for (uint32_t k = 0; k < t->out.n; k++)
            free = free && s->lives.at[life[t->in.n + k]].over != life[a];
        if (free)
            y->over = life[a];
    }
}

/* Where lives end that are not read at their end: what the step leaves behind. */
static void keep_to_the_end(weir_schedule *s)
{
    for (uint32_t k = 0; k < s->p->pieces.n; k++) {
        const uint32_t life = weir_schedule_life(s, k, WEIR_PLAIN);
        if (life == WEIR_NO_LIFE || s->events.n == 0)
            continue;
        if (s->p->pieces.at[k].output || (weir_piece_resident(s->p, k) && s->lives.at[life].before))
            s->lives.at[life].last = s->events.n - 1;
    }
}

/* Live bytes during every event. */
static bool add_up(weir_schedule *s)
{
    const weir_problem *p = s->p;
    int64_t             live = 0;

    if (!weir_vec_reserve(&s->live, (uint64_t)s->events.n + 1))
        return false;
    memset(s->live.at, 0, ((size_t)s->events.n + 1) * sizeof *s->live.at);
    for (uint32_t i = 0; i < s->lives.n; i++) {
        const weir_life *l = &s->lives.at[i];
        const int64_t    bytes = (int64_t)weir_life_bytes(p, l);
        s->live.at[l->first + (l->over != WEIR_NO_LIFE)] += bytes;
        s->live.at[l->last + 1] -= bytes;
    }
    for (uint32_t e = 0; e < s->events.n; e++) {
        live += s->live.at[e];
        s->live.at[e] = live;
        if (s->events.at[e].act == WEIR_RUN)
            s->live.at[e] += (int64_t)p->tasks.at[s->events.at[e].what].work;
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

static double seconds_again(const weir_schedule *s)
{
    double sum = 0;

    for (uint32_t e = 0; e < s->events.n; e++)
        if (s->events.at[e].again)
            sum += s->p->tasks.at[s->events.at[e].what].time;
    return sum;
}

bool weir_schedule_end(weir_schedule *s, size_t room)
{
    if (!s->valid) {
        s->peak = SIZE_MAX;
        return true;
    }
    keep_to_the_end(s);
    for (uint32_t e = 0; e < s->events.n; e++)
        if (s->events.at[e].act == WEIR_RUN && s->p->tasks.at[s->events.at[e].what].pairs.n)
            take_over(s, e);
    s->again = seconds_again(s);
    s->time = s->p->time + s->again;
    if (!add_up(s))
        return false;
    if ((s->copies || s->codecs) && (!weir_schedule_stream(s, room) || !add_up(s)))
        return false;
    find_peak(s);
    return true;
}
