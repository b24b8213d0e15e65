/* streams.c - assigns each instruction to a stream of the device, and inserts the events that order
 * the streams.
 *
 * A stream runs its instructions in order. Two instructions must keep their order if both access
 * the same bytes and one of them writes: bytes of an external storage, or of the arena, which
 * values and workspaces use in turn. Offsets found for one order are therefore correct for every
 * order that the events allow.
 *
 * List scheduling in the plan's order assigns each instruction to the stream on which it can begin
 * first (Graham 1969). Three kinds of instruction stay on stream 0: kernels that saturate the
 * device (rates.width), so overlap gains nothing; offload copies, whose tickets must be issued in
 * plan order; and the caller's functions.
 *
 * The same schedule without memory reuse tells until when the memory of each value must not be
 * reused if that is to delay no instruction (overlap.c). */
#include <math.h>

#include "core/attr.h"
#include "graph/plan/plan.h"

enum { MAX_STREAMS = 8 };

/* Seconds that waiting for an event of another stream costs. */
#define HOP 2e-6

/* An access to bytes [lo, hi) of a space: 0, the arena; storage + 1, an external storage. */
typedef struct access {
    uint32_t space, instr;
    size_t   lo, hi;
    bool     write;
} access;

typedef WEIR_VEC(access) accesses;

typedef struct scheduler {
    weir_plan        *p;
    const weir_rates *rates;
    int               streams;
    bool              no_reuse;         /* schedule as if no two values shared memory */
    accesses          live;             /* accesses that later ones may have to wait for */
    double            end[MAX_STREAMS]; /* seconds at which a stream becomes free */
    double           *begin, *done;     /* [instructions] seconds */
    uint32_t (*after)[MAX_STREAMS];     /* [instructions] last instruction of each stream that it
                                         * waits for, + 1; 0: none */
    uint32_t last[MAX_STREAMS];         /* last instruction of each stream, + 1; 0: none */
} scheduler;

static access of_item(const scheduler *s, uint32_t i, uint32_t instr, bool write)
{
    const weir_item *const item = &s->p->items.at[i];

    if (s->no_reuse)
        return (access){UINT32_MAX - i, instr, 0, SIZE_MAX, write};
    return (access){0, instr, item->offset, item->offset + item->bytes, write};
}

static access of_operand(const scheduler *s, const weir_operand *o, uint32_t instr, bool write)
{
    if (o->external)
        return (access){o->storage + 1, instr, 0, SIZE_MAX, write};
    return of_item(s, s->p->item_of[o->storage], instr, write);
}

static bool overlap(const access *a, const access *b)
{
    return a->space == b->space && a->lo < b->hi && b->lo < a->hi;
}

static int stream_of(const scheduler *s, const access *a)
{
    return s->p->instr[a->instr].stream;
}

/* Lets the instruction wait for those with which access a conflicts. */
static bool look(scheduler *s, const access *a)
{
    for (uint32_t i = 0; i < s->live.n; i++) {
        const access *const b = &s->live.at[i];
        if (overlap(a, b) && (a->write || b->write)) {
            uint32_t *const after = &s->after[a->instr][stream_of(s, b)];
            *after = b->instr + 1 > *after ? b->instr + 1 : *after;
        }
    }
    return true;
}

/* Adds access a to the live ones. Removes those that it makes redundant: accesses whose bytes it
 * overwrites, and earlier reads of the same bytes on the same stream. */
static bool meet(scheduler *s, const access *a)
{
    accesses *const live = &s->live;
    uint32_t        kept = 0;

    for (uint32_t i = 0; i < live->n; i++) {
        const access *const b = &live->at[i];
        const bool covered = a->write && overlap(a, b) && a->lo <= b->lo && b->hi <= a->hi;
        const bool          repeated = !a->write && !b->write && overlap(a, b) && a->lo == b->lo &&
                              a->hi == b->hi && stream_of(s, a) == stream_of(s, b);
        if (b->instr == a->instr || !(covered || repeated))
            live->at[kept++] = *b;
    }
    live->n = kept;
    return weir_vec_push(live, *a);
}

static bool is_spill(const weir_instr *ins)
{
    return weir_spill_attr_of(ins->call.op, ins->call.attr) != NULL;
}

/* Tickets of transfers, and side effects of the caller's functions, follow the plan's order. */
static bool keeps_order(const weir_instr *ins)
{
    return is_spill(ins) || ins->call.def->flags & WEIR_CALLER;
}

/* Calls f for every access of instruction i; false if memory is short. A transfer continues after
 * its instruction until it is awaited, so its inputs count as written. */
static bool each_access(scheduler *s, uint32_t i, bool (*f)(scheduler *, const access *))
{
    const weir_instr *const ins = &s->p->instr[i];
    const uint32_t mutates = is_spill(ins) ? UINT32_MAX : ins->call.def->mutates;

    for (int k = 0; k < ins->call.nin; k++) {
        const access a = of_operand(s, &ins->in[k], i, k < 32 && (mutates >> k & 1));
        if (!f(s, &a))
            return false;
    }
    for (int k = 0; k < ins->call.nout; k++) {
        const access a = of_operand(s, &ins->out[k], i, true);
        if (!f(s, &a))
            return false;
    }
    const access work = {0, i, ins->work, ins->work + ins->kernel->work, true};
    return !ins->kernel->work || s->no_reuse || f(s, &work);
}

/* The time in seconds at which instruction i could begin on a stream. */
static double begin_on(const scheduler *s, uint32_t i, int stream)
{
    double begin = s->end[stream];

    for (int l = 0; l < s->streams; l++) {
        const uint32_t after = s->after[i][l];
        const double   ready = after ? s->done[after - 1] + (l == stream ? 0 : HOP) : 0;
        begin = ready > begin ? ready : begin;
    }
    return begin;
}

/* Does the instruction leave part of the device idle? */
static bool is_narrow(const scheduler *s, const weir_instr *ins)
{
    double elements = 0;

    for (int k = 0; k < ins->call.nout; k++)
        elements += (double)weir_shape_count(&ins->call.out[k].desc);
    for (int k = 0; k < ins->call.nin; k++)
        if (ins->call.def->mutates >> k & 1)
            elements += (double)weir_shape_count(&ins->call.in[k].desc);
    return elements < s->rates->width / 2;
}

static void choose(scheduler *s, uint32_t i)
{
    weir_instr *const ins = &s->p->instr[i];
    const bool        ordered = keeps_order(ins);
    const bool        narrow = !ordered && is_narrow(s, ins);
    int               best = 0;

    for (int l = 1; narrow && l < s->streams; l++)
        if (begin_on(s, i, l) < begin_on(s, i, best))
            best = l;
    double begin = begin_on(s, i, best);
    for (int l = 0; !narrow && !ordered && l < s->streams; l++)
        begin = s->end[l] > begin ? s->end[l] : begin;
    ins->stream = (uint8_t)best;
    s->begin[i] = begin;
    s->done[i] = begin + weir_rates_seconds(s->rates, &ins->call);
    for (int l = 0; l < s->streams; l++)
        if (l == best || (!narrow && !ordered))
            s->end[l] = s->done[i];
}

static bool schedule(scheduler *s)
{
    for (uint32_t i = 0; i < s->p->n; i++) {
        if (!each_access(s, i, look))
            return false;
        choose(s, i);
        if (!each_access(s, i, meet))
            return false;
    }
    return true;
}

static double length(const scheduler *s)
{
    double most = 0;

    for (int l = 0; l < s->streams; l++)
        most = s->end[l] > most ? s->end[l] : most;
    return most;
}

/* ---- events ---- */

/* The event that the instruction records, a new one if it has none. Event 0 is the start of the
 * run. */
static uint32_t event_of(weir_plan *p, uint32_t instr)
{
    weir_instr *const ins = &p->instr[instr];

    if (ins->signals == WEIR_NONE)
        ins->signals = p->events++;
    return ins->signals;
}

/* Adds the events that instruction i awaits. seen[a][b]: the last instruction of stream b, + 1,
 * that stream a has awaited already. */
static void wait_for(scheduler *s, uint32_t i, uint32_t seen[][MAX_STREAMS])
{
    weir_instr *const ins = &s->p->instr[i];
    const int         own = ins->stream;

    ins->first_wait = s->p->nwait;
    if (own > 0 && s->last[own] == 0) {
        s->p->wait[s->p->nwait++] = 0;
        ins->waits++;
    }
    for (int l = 0; l < s->streams; l++) {
        const uint32_t after = s->after[i][l];
        if (l == own || after <= seen[own][l])
            continue;
        s->p->wait[s->p->nwait++] = event_of(s->p, after - 1);
        ins->waits++;
        seen[own][l] = after;
    }
    s->last[own] = i + 1;
}

static bool place_events(scheduler *s)
{
    uint32_t seen[MAX_STREAMS][MAX_STREAMS] = {{0}};

    s->p->wait = weir_mem_zalloc((size_t)s->p->n * MAX_STREAMS + MAX_STREAMS, sizeof *s->p->wait);
    if (!s->p->wait)
        return false;
    s->p->events = 1;
    for (uint32_t i = 0; i < s->p->n; i++)
        wait_for(s, i, seen);
    s->p->ends = s->p->nwait;
    for (int l = 1; l < s->streams; l++)
        if (s->last[l])
            s->p->wait[s->p->nwait++] = event_of(s->p, s->last[l] - 1);
    return true;
}

static void stay(weir_plan *p)
{
    weir_mem_free(p->wait);
    p->wait = NULL;
    for (uint32_t i = 0; i < p->n; i++) {
        p->instr[i].stream = 0;
        p->instr[i].waits = 0;
        p->instr[i].signals = WEIR_NONE;
    }
    p->events = p->nwait = p->ends = 0;
}

/* ---- a plan's schedule ---- */

static bool begin(scheduler *s)
{
    s->begin = weir_mem_zalloc(s->p->n, sizeof *s->begin);
    s->done = weir_mem_zalloc(s->p->n, sizeof *s->done);
    s->after = weir_mem_zalloc(s->p->n, sizeof *s->after);
    return s->begin && s->done && s->after;
}

static void end(scheduler *s)
{
    weir_vec_free(&s->live);
    weir_mem_free(s->begin);
    weir_mem_free(s->done);
    weir_mem_free(s->after);
}

static double serial(const weir_plan *p, const weir_rates *rates)
{
    double seconds = 0;

    for (uint32_t i = 0; i < p->n; i++)
        seconds += weir_rates_seconds(rates, &p->instr[i].call);
    return seconds;
}

weir_status weir_assign_streams(weir_plan *p, int streams, const weir_rates *rates, double *seconds)
{
    scheduler s = {
        .p = p, .rates = rates, .streams = streams < MAX_STREAMS ? streams : MAX_STREAMS};

    stay(p);
    *seconds = serial(p, rates);
    if (streams < 2 || p->n < 2)
        return WEIR_OK;
    bool       ok = begin(&s) && schedule(&s);
    const bool gains = ok && length(&s) < *seconds * WEIR_STREAMS_WORTH;
    if (gains) {
        *seconds = length(&s);
        ok = place_events(&s);
    }
    if (!gains || !ok)
        stay(p);
    end(&s);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}

int weir_streams_used(const weir_plan *p)
{
    uint32_t used = 0;
    int      n = 0;

    for (uint32_t i = 0; i < p->n; i++) {
        n += !(used >> p->instr[i].stream & 1);
        used |= 1u << p->instr[i].stream;
    }
    return n;
}

/* ---- live ranges that delay nothing ---- */

/* Sets until[item] to the time in seconds at which the last instruction that accesses it ends. */
static void note_ends(const scheduler *s, double *until)
{
    const weir_plan *const p = s->p;

    for (uint32_t i = 0; i < p->n; i++) {
        const weir_instr *const ins = &p->instr[i];
        for (int k = 0; k < ins->call.nin + ins->call.nout; k++) {
            const uint32_t item = ins->in[k].external ? WEIR_NONE : p->item_of[ins->in[k].storage];
            if (item != WEIR_NONE && s->done[i] > until[item])
                until[item] = s->done[i];
        }
    }
    for (uint32_t i = 0; i < p->items.n; i++)
        if (p->items.at[i].storage == WEIR_NONE)
            until[i] = s->done[p->items.at[i].first];
}

/* Extends each live range to the last instruction that begins before until[item]. soonest[i]: the
 * earliest time at which instruction i or a later one begins. */
static void lengthen(const scheduler *s, const double *until, double *soonest, weir_item *items)
{
    double at = INFINITY;

    for (uint32_t i = s->p->n; i-- > 0;)
        soonest[i] = at = s->begin[i] < at ? s->begin[i] : at;
    for (uint32_t i = 0; i < s->p->items.n; i++)
        while (items[i].last + 1 < s->p->n && soonest[items[i].last + 1] < until[i])
            items[i].last++;
}

weir_status weir_streams_without_reuse(weir_plan *p, weir_item *items, int streams,
                                       const weir_rates *rates, weir_began *began, double *seconds)
{
    scheduler     s = {.p = p,
                       .rates = rates,
                       .streams = streams < MAX_STREAMS ? streams : MAX_STREAMS,
                       .no_reuse = true};
    double *const until = weir_mem_zalloc(p->items.n + 1u, sizeof *until);
    double *const soonest = weir_mem_zalloc(p->n + 1u, sizeof *soonest);

    const bool ok = until && soonest && begin(&s) && schedule(&s);
    if (ok) {
        *seconds = length(&s);
        note_ends(&s, until);
        if (items)
            lengthen(&s, until, soonest, items);
        for (uint32_t i = 0; i < p->n; i++)
            began[i] = (weir_began){s.begin[i], i};
    }
    end(&s);
    stay(p);
    weir_mem_free(until);
    weir_mem_free(soonest);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}
