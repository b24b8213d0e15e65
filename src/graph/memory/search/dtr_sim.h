/* dtr_sim.h - a step is run in order within a number of bytes; where they do not suffice, the piece
 * with the smallest score goes, to be made anew when it is read. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_DTR_SIM_H
#define WEIR_GRAPH_MEMORY_SEARCH_DTR_SIM_H

#include "graph/memory/search/dtr_score.h"
#include "graph/memory/search/job.h"

/* What a piece hangs together with, by way of pieces that are gone. */
typedef struct weir_near {
    double   above;             /* seconds to make those anew that it is made from */
    double   below;             /* seconds of those that are made from it */
    double   bytes;             /* of those above */
    uint32_t count;             /* of those below */
    bool     known;
} weir_near;

/* A class of pieces that are gone and touch each other: what union-find keeps of it. */
typedef struct weir_gone {
    uint32_t parent;
    double   seconds;           /* of the root: of all */
} weir_gone;

typedef struct weir_evictor {
    const weir_problem *p;
    size_t         room;        /* of pieces and workspace */
    bool           classes;     /* keep classes */
    double       (*score)(struct weir_evictor *v, uint32_t piece);
    weir_dtr_rule  rule;                        /* of dtr.c */
    double         time_power, bytes_power;     /* of dtr_lookahead.c */
    weir_schedule  s;           /* the answer, ended; not valid: it went round in circles */
    double        *when;        /* [tasks + 1] seconds before each, all first runs */
    double         clock;       /* seconds of all that ran */
    uint32_t       done;        /* first runs so far: the number of the next one */
    uint32_t       again;       /* other runs so far */
    size_t         live;        /* bytes of pieces that are there */
    uint32_t      *next;        /* [pieces] number of its next use by a first run */
    uint32_t      *locks;       /* [pieces] runs about to happen that read it */
    double        *used;        /* [pieces] clock when it was read or made last */
    weir_near     *near;        /* [pieces] */
    uint32_t      *class_of;    /* [pieces] of those that are gone */
    uint32_t      *place;       /* [pieces] in there */
    uint32_t      *stamp, *task_stamp, *barred;     /* [pieces], [tasks], [pieces] */
    uint32_t       stamps;
    WEIR_VEC(uint32_t) there;   /* temporary pieces that are there */
    WEIR_VEC(uint32_t) stack, frames, roots;
    WEIR_VEC(weir_gone) gone;
} weir_evictor;

/* All false when memory is short. */
bool weir_evictor_init(weir_evictor *v, const weir_problem *p);
void weir_evictor_free(weir_evictor *v);

/* Runs the step: s is ended. What cannot be done within room is done in more. */
bool weir_evictor_run(weir_evictor *v);

/* For scores. */
const weir_near *weir_evictor_near(weir_evictor *v, uint32_t piece);
double weir_evictor_classes(weir_evictor *v, uint32_t piece);

/* Runs the step in job's room or, if that does not do, in the smallest room found that does. The
 * better schedule of this one and what is in job->s stays there. */
weir_status weir_evictor_plan(weir_evictor *v, weir_policy_job *job);

#endif
