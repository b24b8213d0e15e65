/* schedule.h - the events of a step in order: the answer of every policy.
 *
 * Events are issued one after another to three streams: op runs and compression to the compute
 * stream, offloads and prefetches to one copy stream each. A live range is one copy of a tensor in
 * one form, from the event that makes it to the last event that needs it. No event frees it: its
 * memory is free after its last event or, if it is offloaded, once that copy is complete. Bytes are
 * device bytes, times are seconds. The problem must outlive the schedule.
 *
 * A policy appends events with the functions below, then calls weir_schedule_end
 * (copy_streams.h). */
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

/* The weir_form that an event reads and writes, by weir_event_kind (not for WEIR_EVENT_RUN). */
extern const uint8_t weir_event_reads[], weir_event_writes[];

typedef struct weir_event {
    uint32_t what; /* WEIR_EVENT_RUN: op, else tensor */
    uint8_t  kind;
    bool     recomputed; /* not the op's first run */
} weir_event;

typedef struct weir_live_range {
    uint32_t tensor;
    uint32_t first, last; /* events, both included; first is 0 if `before` is set */
    uint32_t over;        /* the range whose memory it takes over in place; WEIR_NO_RANGE: none */
    uint8_t  form;
    bool     before; /* exists before the step begins */
    bool     copied; /* plain and offloaded: no output may take over its memory */
} weir_live_range;

typedef struct weir_schedule {
    const weir_mem_problem   *p;
    WEIR_VEC(weir_event)      events;
    WEIR_VEC(weir_live_range) ranges;
    WEIR_VEC(uint32_t) refs;  /* by event: the ranges of its inputs, then those of its outputs */
    WEIR_VEC(uint32_t) first; /* [events] start of the event's entries in refs */
    /* Valid while events are appended: */
    uint32_t *now;      /* [tensors * WEIR_FORM_COUNT] current live range; WEIR_NO_RANGE: none */
    uint8_t  *stale;    /* [tensors] 1: the host copy of a resident tensor is out of date */
    bool      valid;    /* false: an event needed a tensor that was not on the device */
    bool      lockstep; /* copies synchronize with runs as in vDNN: a run begins when the copies
                         * issued before the previous run are complete, and no copy is issued
                         * earlier than it was appended */
    uint32_t  copies, n_compressions; /* events on the link; compression events of any kind */
    /* Valid after weir_schedule_end: */
    WEIR_VEC(int64_t)  live; /* [events] bytes of tensors and workspace on the device */
    size_t             peak;
    uint32_t           peak_event;
    double             recomputed; /* seconds of ops run again */
    double             time;       /* of the whole step, until the last stream ends */
    WEIR_VEC(uint32_t) scratch;    /* used by weir_schedule_end */
    WEIR_VEC(double)   clock;      /* the same */
} weir_schedule;

/* Initialises *s for the problem. Returns false if memory runs out; the caller calls
 * weir_schedule_free in either case. */
bool weir_schedule_init(weir_schedule *s, const weir_mem_problem *p);
void weir_schedule_free(weir_schedule *s);

/* Starts an empty schedule. offloaded[tensor] is 1 for each resident tensor that is on the host
 * between steps; NULL: none is. This and all functions below that return bool return false if
 * memory runs out; other errors clear s->valid. */
bool weir_schedule_begin(weir_schedule *s, const uint8_t *offloaded);

/* While a schedule is built: returns the live range that holds the tensor in a form now;
 * WEIR_NO_RANGE if none does. */
static inline uint32_t weir_schedule_range(const weir_schedule *s, uint32_t tensor, weir_form form)
{
    return s->now[tensor * WEIR_FORM_COUNT + form];
}

/* While a schedule is built: returns whether the tensor exists in a form now. */
static inline bool weir_schedule_has(const weir_schedule *s, uint32_t tensor, weir_form form)
{
    return weir_schedule_range(s, tensor, form) != WEIR_NO_RANGE;
}

/* Appends a run. Its inputs must be on the device: plain, or as masks if a mask is enough and the
 * plain form is absent. An output that is on the device already is made a second time as scratch,
 * which the plan frees right after the run. */
bool weir_schedule_run(weir_schedule *s, uint32_t op, bool recomputed);

/* Appends any other event; the tensor must exist in the form that the event reads. Offloading a
 * resident tensor whose host copy is up to date appends nothing. */
bool weir_schedule_copy(weir_schedule *s, uint32_t tensor, weir_event_kind kind);

/* Ends the plain form after the last event that has read it. */
static inline void weir_schedule_drop(weir_schedule *s, uint32_t tensor)
{
    s->now[tensor * WEIR_FORM_COUNT + WEIR_FORM_PLAIN] = WEIR_NO_RANGE;
}

/* The first part of weir_schedule_end (copy_streams.h): makes outputs in place where that is
 * allowed, and computes live bytes, peak and time without waits and without bytes held for copies,
 * so the final ones are no less. An invalid schedule gets peak SIZE_MAX. Returns false if memory
 * runs out or weir_progress_poll says stop. */
bool weir_schedule_end_runs(weir_schedule *s);

/* Computes the live bytes during every event, and the peak, in O(ranges + events). Returns false if
 * memory runs out. */
bool weir_schedule_sum_live(weir_schedule *s);

/* Returns the *nin live ranges that event e reads, followed by the *nout that it makes. The array
 * belongs to the schedule. */
const uint32_t *weir_schedule_refs(const weir_schedule *s, uint32_t e, uint32_t *nin,
                                   uint32_t *nout);

/* Returns the device bytes of a live range; 0 on the host. */
static inline size_t weir_live_range_bytes(const weir_mem_problem *p, const weir_live_range *l)
{
    const weir_mem_tensor *k = &p->tensors.at[l->tensor];
    return l->form == WEIR_FORM_PLAIN        ? k->bytes
           : l->form == WEIR_FORM_COMPRESSED ? k->packed
           : l->form == WEIR_FORM_MASK       ? k->mask
                                             : 0;
}

/* Sorts the live ranges by their last event: those that end with event e are
 * list[first[e]..first[e + 1]). Leaves out those with skip[range] set (skip may be NULL). The
 * caller provides events + 2 entries in `first` and one per range in `list`. */
void weir_schedule_ends(const weir_schedule *s, const uint8_t *skip, uint32_t *first,
                        uint32_t *list);

/* Returns the op of the first run that event `event` is, or that it precedes. */
uint32_t weir_schedule_first_run(const weir_schedule *s, uint32_t event);

/* Returns the seconds that an event other than a run takes, by the problem's bandwidths. */
double weir_copy_seconds(const weir_mem_problem *p, const weir_event *e);

/* Returns the seconds that an event takes on its stream. Most events are runs. */
static inline double weir_event_seconds(const weir_mem_problem *p, const weir_event *e)
{
    return e->kind == WEIR_EVENT_RUN ? p->ops.at[e->what].time : weir_copy_seconds(p, e);
}

#endif
