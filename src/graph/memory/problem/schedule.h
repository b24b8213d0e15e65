/* schedule.h - the events of a step in order: the form in which every policy answers.
 *
 * Events are issued one after another to three streams: op runs and compression to the compute
 * stream, copies to the host and copies back to a stream each. A live range is one copy of a tensor
 * in one form, from the event that makes it to the last event that needs it. No event frees it: its
 * memory is free after its last event, or, if it is offloaded, once the copy is done. Bytes are
 * device bytes, times are seconds. The problem must outlive the schedule.
 *
 * A policy appends events with the functions below, then calls weir_schedule_end. */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_SCHEDULE_H
#define WEIR_GRAPH_MEMORY_PROBLEM_SCHEDULE_H

#include "graph/memory/problem/problem.h"

#define WEIR_NO_RANGE UINT32_MAX

typedef enum weir_event_kind {
    WEIR_EVENT_RUN, /* of an op */
    WEIR_EVENT_OFFLOAD,   /* plain -> host */
    WEIR_EVENT_PREFETCH,  /* host -> plain */
    WEIR_EVENT_COMPRESS,  /* plain -> compressed */
    WEIR_EVENT_MASK,      /* plain -> mask */
    WEIR_EVENT_DECOMPRESS /* compressed -> plain */
} weir_event_kind;

typedef enum weir_form {
    WEIR_FORM_PLAIN,
    WEIR_FORM_HOST,
    WEIR_FORM_COMPRESSED,
    WEIR_FORM_MASK,
    WEIR_FORM_COUNT
} weir_form;

/* By weir_event_kind other than WEIR_EVENT_RUN: the weir_form that an event reads and writes. */
extern const uint8_t weir_event_reads[], weir_event_writes[];

typedef struct weir_event {
    uint32_t what; /* WEIR_EVENT_RUN: op, else tensor */
    uint8_t  kind;
    bool     recomputed; /* not the op's first run */
} weir_event;

typedef struct weir_live_range {
    uint32_t tensor;
    uint32_t first, last; /* events, both included; first is 0 if `before` */
    uint32_t over;        /* the live range whose memory it takes over; WEIR_NO_RANGE: none */
    uint8_t  form;
    bool     before; /* exists when the step begins */
    bool     copied; /* plain and offloaded: no output may be made in place over it */
} weir_live_range;

typedef struct weir_schedule {
    const weir_mem_problem   *p;
    WEIR_VEC(weir_event)      events;
    WEIR_VEC(weir_live_range) ranges;
    WEIR_VEC(uint32_t) refs;  /* ranges that an event reads, one per input, then those it makes */
    WEIR_VEC(uint32_t) first; /* [events] where an event's entries of refs begin */
    /* While it is built: */
    uint32_t *now;      /* [tensors * WEIR_FORM_COUNT] current live range; WEIR_NO_RANGE: none */
    uint8_t  *stale;    /* [tensors] resident: the host's copy is out of date */
    bool      valid;    /* false: an event needed a tensor that was not there */
    bool      lockstep; /* a run begins when the copies issued before the previous run are done,
                         * and no copy is issued earlier than it was appended */
    uint32_t  copies, n_compressions; /* events on the link; events that compress or decompress */
    /* When it has ended: */
    WEIR_VEC(int64_t)  live; /* [events] bytes of tensors and workspace on the device */
    size_t             peak;
    uint32_t           peak_event;
    double             recomputed; /* seconds of ops run again */
    double             time;       /* of the whole step, until the last stream ends */
    WEIR_VEC(uint32_t) scratch;    /* used by weir_schedule_end */
    WEIR_VEC(double)   clock;      /* the same */
} weir_schedule;

/* Both return false when memory is short; free the schedule either way. */
bool weir_schedule_init(weir_schedule *s, const weir_mem_problem *p);
void weir_schedule_free(weir_schedule *s);

/* Starts an empty schedule. offloaded[tensor] says which resident tensors are on the host between
 * steps; NULL: none. False when memory is short, as for all functions below. */
bool weir_schedule_begin(weir_schedule *s, const uint8_t *offloaded);

static inline uint32_t weir_schedule_range(const weir_schedule *s, uint32_t tensor, weir_form form)
{
    return s->now[tensor * WEIR_FORM_COUNT + form];
}

static inline bool weir_schedule_has(const weir_schedule *s, uint32_t tensor, weir_form form)
{
    return weir_schedule_range(s, tensor, form) != WEIR_NO_RANGE;
}

/* Appends a run. Its inputs must be on the device, plain, or as masks where a mask is enough and
 * the plain form is absent. Outputs that exist already are made again and dropped at once. */
bool weir_schedule_run(weir_schedule *s, uint32_t op, bool recomputed);

/* Appends any other event; the form it reads must exist. Offloading a resident tensor whose copy on
 * the host is still current appends nothing. */
bool weir_schedule_copy(weir_schedule *s, uint32_t tensor, weir_event_kind kind);

/* Ends the plain copy after the last event that reads it. */
static inline void weir_schedule_drop(weir_schedule *s, uint32_t tensor)
{
    s->now[tensor * WEIR_FORM_COUNT + WEIR_FORM_PLAIN] = WEIR_NO_RANGE;
}

/* Ends a schedule for `limit` bytes of tensors and workspace. Outputs are made in place where that
 * is allowed, prefetches are issued early where memory allows, and an offloaded tensor holds its
 * bytes until its copy is done; compute waits for the copy if the limit needs those bytes. Then
 * live bytes, peak and time are computed. */
bool weir_schedule_end(weir_schedule *s, size_t limit);

/* The *nin live ranges that event e reads, followed by the *nout that it makes. */
const uint32_t *weir_schedule_refs(const weir_schedule *s, uint32_t e, uint32_t *nin,
                                   uint32_t *nout);

static inline size_t weir_live_range_bytes(const weir_mem_problem *p, const weir_live_range *l)
{
    const weir_mem_tensor *k = &p->tensors.at[l->tensor];
    return l->form == WEIR_FORM_PLAIN        ? k->bytes
           : l->form == WEIR_FORM_COMPRESSED ? k->packed
           : l->form == WEIR_FORM_MASK       ? k->mask
                                             : 0;
}

/* Sorts the live ranges, except those with skip[range] set (NULL: none), by their last event: those
 * of e are list[first[e]..first[e + 1]). first needs events + 2 entries, list one a range. */
void weir_schedule_ends(const weir_schedule *s, const uint8_t *skip, uint32_t *first,
                        uint32_t *list);

/* The op of the first run that an event is or prepares. */
uint32_t weir_schedule_first_run(const weir_schedule *s, uint32_t event);

/* Seconds that an event takes on its stream, by the problem's rates and measured times. */
double weir_event_seconds(const weir_mem_problem *p, const weir_event *e);

#endif
