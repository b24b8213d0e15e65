/* schedule.h - what happens in a step, in order: the one form in which all policies speak.
 *
 * Events are issued one after another to three streams: runs of ops and the packing of tensors to
 * the compute stream, copies to the host and back to a stream each. A life is one copy of a tensor
 * in one form, from the event that makes it to the last one that needs it; it is dropped then. So
 * there is no event for dropping: it is where a life ends. The bytes of a life that is copied out
 * are taken until the copy is done.
 *
 * A policy builds a schedule by calling the functions below, in order, and ends it. */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_SCHEDULE_H
#define WEIR_GRAPH_MEMORY_PROBLEM_SCHEDULE_H

#include "graph/memory/problem/problem.h"

#define WEIR_NO_RANGE UINT32_MAX

typedef enum weir_event_kind {
    WEIR_EVENT_RUN, /* of an op */
    WEIR_EVENT_OFFLOAD,
    WEIR_EVENT_PREFETCH,  /* of a tensor: plain -> host, host -> plain */
    WEIR_EVENT_COMPRESS,  /* plain -> packed */
    WEIR_EVENT_MASK,      /* plain -> mask */
    WEIR_EVENT_DECOMPRESS /* packed -> plain */
} weir_event_kind;

typedef enum weir_form {
    WEIR_FORM_PLAIN,
    WEIR_FORM_HOST,
    WEIR_FORM_COMPRESSED,
    WEIR_FORM_MASK,
    WEIR_FORM_COUNT
} weir_form;

/* The weir_form that an act but WEIR_EVENT_RUN reads, and the one it makes: [act]. */
extern const uint8_t weir_event_reads[], weir_event_writes[];

typedef struct weir_event {
    uint32_t what; /* WEIR_EVENT_RUN: op, else tensor */
    uint8_t  kind;
    bool     recomputed; /* not the op's first run */
} weir_event;

typedef struct weir_live_range {
    uint32_t tensor;
    uint32_t first, last; /* events, both included; first is 0 for what is there before */
    uint32_t over;        /* the life it takes over in place; WEIR_NO_RANGE: none */
    uint8_t  form;
    bool     before; /* there when the step begins */
    bool     copied; /* plain: copied out, so nobody takes it over */
} weir_live_range;

typedef struct weir_schedule {
    const weir_mem_problem   *p;
    WEIR_VEC(weir_event)      events;
    WEIR_VEC(weir_live_range) ranges;
    WEIR_VEC(uint32_t) refs;  /* lives that an event reads, one per input, then those it makes */
    WEIR_VEC(uint32_t) first; /* [events] where an event's begin in refs */
    /* While it is built: */
    uint32_t *now;      /* [tensors * WEIR_FORM_COUNT] the life there is, WEIR_NO_RANGE: none */
    uint8_t  *stale;    /* [tensors] resident: the host's copy is overwritten */
    bool      valid;    /* false: something impossible was asked for */
    bool      lockstep; /* a run begins when the copies issued before the run before it are
                                 * done, and copies are issued where they stand */
    uint32_t  copies, n_compressions; /* events of those kinds */
    /* When it is ended: */
    WEIR_VEC(int64_t)  live; /* [events] bytes of tensors and workspace on the device */
    size_t             peak;
    uint32_t           peak_event;
    double             recomputed; /* seconds of ops run again */
    double             time;       /* of the whole step: when the last stream ends */
    WEIR_VEC(uint32_t) scratch;    /* of weir_schedule_end */
    WEIR_VEC(double)   clock;
} weir_schedule;

/* All false when memory is short. */
bool weir_schedule_init(weir_schedule *s, const weir_mem_problem *p);
void weir_schedule_free(weir_schedule *s);

/* Begins anew. offloaded[tensor] says which resident tensors are on the host between steps; NULL:
 * none. */
bool weir_schedule_begin(weir_schedule *s, const uint8_t *offloaded);

static inline uint32_t weir_schedule_range(const weir_schedule *s, uint32_t tensor, weir_form form)
{
    return s->now[tensor * WEIR_FORM_COUNT + form];
}

static inline bool weir_schedule_has(const weir_schedule *s, uint32_t tensor, weir_form form)
{
    return weir_schedule_range(s, tensor, form) != WEIR_NO_RANGE;
}

/* Runs an op, whose inputs are there, plain (or as masks where that is enough and the plain one is
 * not there). Results that are there already are made once more, to be dropped at once. */
bool weir_schedule_run(weir_schedule *s, uint32_t op, bool recomputed);

/* The other events; the form they read is there. OUT of a resident tensor whose copy on the host is
 * still good does nothing. */
bool weir_schedule_copy(weir_schedule *s, uint32_t tensor, weir_event_kind kind);

/* From here on the plain copy is gone. */
static inline void weir_schedule_drop(weir_schedule *s, uint32_t tensor)
{
    s->now[tensor * WEIR_FORM_COUNT + WEIR_FORM_PLAIN] = WEIR_NO_RANGE;
}

/* Completes a schedule for `room` bytes of tensors and workspace: in place where that is allowed,
 * copies to the device issued early where there is room, bytes copied out held until they are
 * gone - or waited for, where the room is needed. Then live bytes, peak and time. */
bool weir_schedule_end(weir_schedule *s, size_t limit);

/* Lives that event e reads and makes: *nin of the first kind, *nout of the second. */
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

/* Sorts the lives (but those with skip[life] set; NULL: none) by the event they end in: those of e
 * are list[first[e]..first[e + 1]). first has room for events + 2, list for all lives. */
void weir_schedule_ends(const weir_schedule *s, const uint8_t *skip, uint32_t *first,
                        uint32_t *list);

/* The op whose first run an event belongs to: itself, or the one it prepares. */
uint32_t weir_schedule_first_run(const weir_schedule *s, uint32_t event);

/* Seconds an event takes on its stream, as far as rates and measured times tell. */
double weir_event_seconds(const weir_mem_problem *p, const weir_event *e);

#endif
