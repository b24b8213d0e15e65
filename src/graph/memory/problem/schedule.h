/* schedule.h - what happens in a step, in order: the one form in which all policies speak.
 *
 * Events are issued one after another to three streams: runs of tasks and the packing of pieces to
 * the compute stream, copies to the host and back to a stream each. A life is one copy of a piece
 * in one form, from the event that makes it to the last one that needs it; it is dropped then. So
 * there is no event for dropping: it is where a life ends. The bytes of a life that is copied out
 * are taken until the copy is done.
 *
 * A policy builds a schedule by calling the functions below, in order, and ends it. */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_SCHEDULE_H
#define WEIR_GRAPH_MEMORY_PROBLEM_SCHEDULE_H

#include "graph/memory/problem/problem.h"

#define WEIR_NO_LIFE UINT32_MAX

typedef enum weir_act {
    WEIR_RUN,           /* of a task */
    WEIR_OUT, WEIR_IN,  /* of a piece: plain -> host, host -> plain */
    WEIR_PACK,          /* plain -> packed */
    WEIR_MARK,          /* plain -> mask */
    WEIR_UNPACK         /* packed -> plain */
} weir_act;

typedef enum weir_form {
    WEIR_PLAIN, WEIR_HOST, WEIR_PACKED, WEIR_MASK, WEIR_FORMS
} weir_form;

/* The weir_form that an act but WEIR_RUN reads, and the one it makes: [act]. */
extern const uint8_t weir_act_from[], weir_act_to[];

typedef struct weir_event {
    uint32_t what;      /* WEIR_RUN: task, else piece */
    uint8_t  act;
    bool     again;     /* not the task's first run */
} weir_event;

typedef struct weir_life {
    uint32_t piece;
    uint32_t first, last;       /* events, both included; first is 0 for what is there before */
    uint32_t over;              /* the life it takes over in place; WEIR_NO_LIFE: none */
    uint8_t  form;
    bool     before;            /* there when the step begins */
    bool     copied;            /* plain: copied out, so nobody takes it over */
} weir_life;

typedef struct weir_schedule {
    const weir_problem *p;
    WEIR_VEC(weir_event) events;
    WEIR_VEC(weir_life) lives;
    WEIR_VEC(uint32_t) refs;    /* lives that an event reads, one per input, then those it makes */
    WEIR_VEC(uint32_t) first;   /* [events] where an event's begin in refs */
    /* While it is built: */
    uint32_t *now;              /* [pieces * WEIR_FORMS] the life there is, WEIR_NO_LIFE: none */
    uint8_t  *stale;            /* [pieces] resident: the host's copy is overwritten */
    bool      valid;            /* false: something impossible was asked for */
    bool      lockstep;         /* a run begins when the copies issued before the run before it are
                                 * done, and copies are issued where they stand */
    uint32_t  copies, codecs;   /* events of those kinds */
    /* When it is ended: */
    WEIR_VEC(int64_t) live;     /* [events] bytes of pieces and workspace on the device */
    size_t    peak;
    uint32_t  peak_event;
    double    again;            /* seconds of tasks run again */
    double    time;             /* of the whole step: when the last stream ends */
    WEIR_VEC(uint32_t) scratch; /* of weir_schedule_end */
    WEIR_VEC(double) clock;
} weir_schedule;

/* All false when memory is short. */
bool weir_schedule_init(weir_schedule *s, const weir_problem *p);
void weir_schedule_free(weir_schedule *s);

/* Begins anew. at_home[piece] says which resident pieces are on the host between steps; NULL:
 * none. */
bool weir_schedule_begin(weir_schedule *s, const uint8_t *at_home);

static inline uint32_t weir_schedule_life(const weir_schedule *s, uint32_t piece, weir_form form)
{
    return s->now[piece * WEIR_FORMS + form];
}

static inline bool weir_schedule_has(const weir_schedule *s, uint32_t piece, weir_form form)
{
    return weir_schedule_life(s, piece, form) != WEIR_NO_LIFE;
}

/* Runs a task, whose inputs are there, plain (or as masks where that is enough and the plain one is
 * not there). Results that are there already are made once more, to be dropped at once. */
bool weir_schedule_run(weir_schedule *s, uint32_t task, bool again);

/* The other events; the form they read is there. OUT of a resident piece whose copy on the host is
 * still good does nothing. */
bool weir_schedule_copy(weir_schedule *s, uint32_t piece, weir_act act);

/* From here on the plain copy is gone. */
static inline void weir_schedule_drop(weir_schedule *s, uint32_t piece)
{
    s->now[piece * WEIR_FORMS + WEIR_PLAIN] = WEIR_NO_LIFE;
}

/* Completes a schedule for `room` bytes of pieces and workspace: in place where that is allowed,
 * copies to the device issued early where there is room, bytes copied out held until they are
 * gone - or waited for, where the room is needed. Then live bytes, peak and time. */
bool weir_schedule_end(weir_schedule *s, size_t room);

/* Lives that event e reads and makes: *nin of the first kind, *nout of the second. */
const uint32_t *weir_schedule_refs(const weir_schedule *s, uint32_t e, uint32_t *nin,
                                   uint32_t *nout);

static inline size_t weir_life_bytes(const weir_problem *p, const weir_life *l)
{
    const weir_piece *k = &p->pieces.at[l->piece];
    return l->form == WEIR_PLAIN ? k->bytes : l->form == WEIR_PACKED ? k->packed
           : l->form == WEIR_MASK ? k->mask : 0;
}

/* Sorts the lives (but those with skip[life] set; NULL: none) by the event they end in: those of e
 * are list[first[e]..first[e + 1]). first has room for events + 2, list for all lives. */
void weir_schedule_ends(const weir_schedule *s, const uint8_t *skip, uint32_t *first,
                        uint32_t *list);

/* The task whose first run an event belongs to: itself, or the one it prepares. */
uint32_t weir_schedule_stage(const weir_schedule *s, uint32_t event);

/* Seconds an event takes on its stream, as far as rates and measured times tell. */
double weir_event_seconds(const weir_problem *p, const weir_event *e);

#endif
