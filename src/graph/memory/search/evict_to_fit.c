/* evict_to_fit.c - walks, looks where room is short, lets pieces go, and walks again.
 *
 * Times are those of a step that waits for nothing: a measured one, less what it waited. When
 * copies back are issued is the stream's: as early as they have to be, no earlier than there is
 * room. In a round about a third of what is missing goes. */
#include "graph/memory/search/evict_to_fit.h"

#include <math.h>
#include <string.h>

#include "core/status.h"
#include "graph/memory/search/best.h"
#include "graph/memory/search/candidates.h"

static bool init(weir_pressure *x, weir_policy_job *job)
{
    const weir_problem *p = job->p;
    weir_walk_room     *w = &x->search.room;

    x->job = job;
    x->peak = SIZE_MAX;
    x->search.p = p;
    x->at.s = &x->search;
    if (!weir_walk_init(w, p))
        return false;
    w->budget = job->room;
    x->at.gap = weir_mem_zalloc(w->gaps + 1u, 1);
    x->best = weir_mem_zalloc(w->gaps + 1u, 1);
    x->barred = weir_mem_zalloc(w->gaps + 1u, 1);
    x->at.stamp = weir_mem_zalloc(p->pieces.n + 1u, sizeof *x->at.stamp);
    x->at.when = weir_mem_zalloc(p->tasks.n + 1u, sizeof *x->at.when);
    if (!x->at.gap || !x->best || !x->barred || !x->at.stamp || !x->at.when)
        return false;
    for (uint32_t i = 0; i < p->tasks.n; i++)
        x->at.when[i + 1] = x->at.when[i] + p->tasks.at[i].time;
    return true;
}

static weir_status end(weir_pressure *x, bool ok)
{
    weir_walk_room *w = &x->search.room;

    ok = ok && weir_walk(w, x->best);
    x->job->s = w->s;
    w->s = (weir_schedule){0};
    weir_walk_free(w);
    weir_trips_free(&x->trips);
    weir_mem_free(x->at.gap);
    weir_mem_free(x->at.stamp);
    weir_mem_free(x->at.when);
    weir_mem_free(x->best);
    weir_mem_free(x->barred);
    weir_vec_free(&x->idle);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}

double weir_pressure_wait(const weir_pressure *x, const weir_idle *i)
{
    return weir_trips_wait(&x->trips, &i->trip) - weir_trips_wait(&x->trips, NULL);
}

/* The event to look at. */
static uint32_t where(const weir_pressure *x)
{
    const weir_walk_room *w = &x->search.room;

    for (uint32_t e = 0; x->earliest && e < w->s.events.n; e++)
        if (w->s.live.at[e] > (int64_t)x->job->room)
            return e;
    return w->peak_event;
}

static bool made_by(const weir_schedule *s, uint32_t e, uint32_t piece)
{
    const weir_event v = s->events.at[e];
    return v.act == WEIR_RUN && weir_among(s->p, s->p->tasks.at[v.what].out, piece);
}

/* Has event e to have the piece? What it makes anew may come from the host instead. */
static bool touches(const weir_schedule *s, uint32_t e, uint32_t piece)
{
    const weir_event v = s->events.at[e];

    if (v.act != WEIR_RUN)
        return v.what == piece;
    return weir_among(s->p, s->p->tasks.at[v.what].in, piece) ||
           (!v.again && made_by(s, e, piece));
}

static weir_trip trip_of(const weir_pressure *x, uint32_t piece, uint32_t j, uint32_t stage)
{
    const weir_problem *p = x->job->p;
    const weir_piece   *k = &p->pieces.at[piece];
    const uint32_t     *u = weir_refs(p, k->uses);
    bool                there = false;      /* a copy on the host from an earlier trip is good */

    for (uint32_t i = 0; i < j; i++)
        there = there || x->at.gap[x->search.room.first_gap[piece] + i] == WEIR_SWAP;
    return (weir_trip){.ready = x->at.when[(j > 0 ? u[j - 1] : k->maker) + 1],
                       .due = x->at.when[u[j]], .from = x->at.when[stage],
                       .to = x->at.when[stage + (u[j] > stage)],
                       .out = there ? 0 : (double)k->bytes / p->link_out,
                       .in = (double)k->bytes / p->link_in};
}

/* The piece of a life over event e as one that may go, if it may. */
static bool add_idle(weir_pressure *x, uint32_t piece, uint32_t e)
{
    const weir_problem *p = x->job->p;
    const weir_piece   *k = &p->pieces.at[piece];
    const uint32_t      stage = weir_schedule_stage(&x->search.room.s, e);
    const uint32_t      j = weir_gap_at(p, piece, stage), gap = x->search.room.first_gap[piece] + j;
    const uint8_t       was = x->at.gap[gap];

    if (weir_piece_resident(p, piece) || k->bytes == 0 || j == k->uses.n || x->barred[gap] ||
        touches(&x->search.room.s, e, piece) || was == WEIR_SWAP)
        return true;
    weir_idle i = {.piece = piece, .number = j, .gap = gap, .bytes = (double)k->bytes,
                   .swap = k->maker < stage && (was != WEIR_KEEP ||
                                                weir_refs(p, k->uses)[j] > stage),
                   .again = INFINITY};
    if (was != WEIR_DROP_AGAIN && !made_by(&x->search.room.s, e, piece))
        i.again = weir_drop_cost(&x->at, piece, j);
    i.drop = isfinite(i.again);
    if (i.swap)
        i.trip = trip_of(x, piece, j, stage);
    return (!i.swap && !i.drop) || weir_vec_push(&x->idle, i);
}

static bool is_listed(const weir_pressure *x, uint32_t gap)
{
    for (uint32_t i = 0; i < x->idle.n; i++)
        if (x->idle.at[i].gap == gap)
            return true;
    return false;
}

/* The first event that reads the life. */
static uint32_t first_reader(const weir_schedule *s, uint32_t life)
{
    uint32_t nin, nout, e = s->lives.at[life].first + 1;

    for (; e < s->lives.at[life].last; e++) {
        const uint32_t *read = weir_schedule_refs(s, e, &nin, &nout);
        for (uint32_t i = 0; i < nin; i++)
            if (read[i] == life)
                return e;
    }
    return e;
}

/* A piece is back from the host before its own next use: what was made anew from it then, to be
 * read, may be on the host itself instead. */
static bool add_instead(weir_pressure *x, uint32_t life)
{
    const weir_problem *p = x->job->p;
    const uint32_t      reader = first_reader(&x->search.room.s, life);
    const uint32_t      stage = weir_schedule_stage(&x->search.room.s, reader);
    const weir_range    in = p->tasks.at[stage].in;

    for (uint32_t i = 0; i < in.n; i++) {
        const uint32_t k = weir_refs(p, in)[i], j = weir_gap_at(p, k, stage);
        const uint32_t gap = x->search.room.first_gap[k] + j;
        const uint8_t  was = x->at.gap[gap];
        if (weir_piece_resident(p, k) || (was != WEIR_DROP && was != WEIR_DROP_AGAIN) ||
            p->pieces.at[k].bytes == 0 || x->barred[gap] || is_listed(x, gap))
            continue;
        const weir_idle instead = {.piece = k, .number = j, .gap = gap, .swap = true,
                                   .trip = trip_of(x, k, j, stage), .again = INFINITY,
                                   .bytes = (double)p->pieces.at[k].bytes};
        if (!weir_vec_push(&x->idle, instead))
            return false;
    }
    return true;
}

/* What may go so that less is there at the event. */
static bool collect(weir_pressure *x)
{
    const weir_schedule *s = &x->search.room.s;
    const uint32_t       e = where(x);

    x->idle.n = 0;
    for (uint32_t i = 0; i < s->lives.n; i++) {
        const weir_life l = s->lives.at[i];
        if (l.form != WEIR_PLAIN || l.first > e || l.last < e)
            continue;
        if (!add_idle(x, l.piece, e))
            return false;
        if (!l.before && s->events.at[l.first].act == WEIR_IN && !add_instead(x, i))
            return false;
    }
    return true;
}

/* Lets pieces go; they are `undo` then, so that they can be taken back. */
static bool let_go(weir_pressure *x)
{
    double left = 0.3 * (double)(x->search.room.peak - x->job->room);

    x->at.undo.n = 0;
    while (left > 0 && x->idle.n > 0) {
        weir_gap       how = WEIR_KEEP;
        const uint32_t n = x->choose(x, &how);
        if (n >= x->idle.n)
            break;
        const weir_idle i = x->idle.at[n];
        uint8_t *const  d = &x->at.gap[i.gap];
        if (!weir_vec_push(&x->at.undo, (uint64_t)i.gap << 8 | *d) ||
            (how == WEIR_SWAP && !weir_trips_add(&x->trips, &i.trip)))
            return false;
        *d = how == WEIR_SWAP ? WEIR_SWAP : *d == WEIR_DROP ? WEIR_DROP_AGAIN : WEIR_DROP;
        x->idle.at[n] = x->idle.at[--x->idle.n];
        left -= i.bytes;
        for (uint32_t k = 0; k < x->idle.n; k++) {      /* who goes makes others dearer */
            weir_idle *const o = &x->idle.at[k];
            if (o->drop)
                o->again = weir_drop_cost(&x->at, o->piece, o->number);
            o->drop = o->drop && isfinite(o->again);
        }
    }
    return true;
}

/* What went last led to a plan that cannot be: it stays, for good. */
static void take_back(weir_pressure *x)
{
    for (uint32_t i = x->at.undo.n; i-- > 0;) {
        const uint64_t u = x->at.undo.at[i];
        x->at.gap[u >> 8] = (uint8_t)u;
        x->barred[u >> 8] = 1;
    }
}

static void note(weir_pressure *x)
{
    const weir_walk_room *w = &x->search.room;

    if (x->peak != SIZE_MAX && !weir_better(x->job->room, w->peak, w->extra, x->peak, x->time))
        return;
    memcpy(x->best, x->at.gap, w->gaps);
    x->peak = w->peak;
    x->time = w->extra;
}

static bool run(weir_pressure *x)
{
    weir_walk_room *w = &x->search.room;

    for (uint64_t round = 0; round < 4ull * w->gaps + 16; round++) {
        if (!weir_walk(w, x->at.gap))
            return false;
        if (!w->valid) {
            take_back(x);
            continue;
        }
        note(x);
        if (w->peak <= x->job->room)
            return true;
        if (!collect(x) || !let_go(x))
            return false;
        if (x->at.undo.n == 0)
            return true;
    }
    return true;
}

weir_status weir_pressure_plan(weir_pressure *x, weir_policy_job *job)
{
    const bool        ok = init(x, job) && run(x);
    const weir_status status = end(x, ok);

    weir_vec_free(&x->at.undo);
    return status;
}
