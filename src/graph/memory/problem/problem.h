/* problem.h - a training step as a planner sees it: tasks in a valid order, pieces of memory
 * between them.
 *
 * A piece is a tensor. A temporary one is made by one task and read by later ones. A resident one
 * (parameter, state, input) is there before the step and after it; those that are not pieces,
 * because nobody would move them, count in `resident`. A task may be run again to make its pieces
 * anew, but only before `until`: the first task that overwrites something resident which it
 * reads. */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_PROBLEM_H
#define WEIR_GRAPH_MEMORY_PROBLEM_PROBLEM_H

#include "core/phase.h"
#include "core/vec.h"
#include "weir/base.h"

#define WEIR_NO_PIECE UINT32_MAX
#define WEIR_NO_TASK  UINT32_MAX

/* Entries [first, first + n) of problem.refs. */
typedef struct weir_range {
    uint32_t first, n;
} weir_range;

typedef enum weir_work {        /* what a task is, for policies that look at layers */
    WEIR_WORK_OTHER, WEIR_WORK_CONV, WEIR_WORK_MATMUL
} weir_work;

typedef struct weir_task {
    double     time;            /* seconds of one run */
    size_t     work;            /* bytes of workspace while it runs */
    weir_range in, out;         /* pieces, each once */
    weir_range pairs;           /* read, made, ...: the made one may take over the read one */
    weir_range masked;          /* of `in`: a mask of it is enough */
    weir_range changes;         /* of `in`: resident pieces overwritten in place */
    uint32_t   only;            /* the last so many of `in` are changed by the first run and read by
                                 * none (running statistics) */
    uint32_t   until;           /* number of the task from which on running it again is wrong */
    uint32_t   region;          /* that the program marked to be made anew; 0: none */
    uint8_t    kind, phase;     /* weir_work, weir_phase */
} weir_task;

typedef struct weir_piece {
    size_t     bytes;           /* aligned */
    size_t     packed, mask;    /* bytes of its lossless packed form, of its mask; 0: none */
    uint32_t   maker;           /* task; WEIR_NO_TASK: resident */
    weir_range uses;            /* tasks that read it, ascending */
    bool       output;          /* must be there when the step ends */
} weir_piece;

typedef struct weir_problem {
    WEIR_VEC(weir_task) tasks;
    WEIR_VEC(weir_piece) pieces;
    WEIR_VEC(uint32_t) refs;
    size_t resident;            /* bytes that are always there and are no pieces */
    double time;                /* of all tasks once */
    double link_out, link_in;   /* bytes per second to the host and back; 0: no swapping */
    double copy;                /* seconds that a copy takes at least */
    double steal;               /* share of a copy's time that it takes from the compute stream */
    double codec;               /* bytes per second, read and written, of packing; 0: none */
} weir_problem;

/* What a task is built from; arrays are copied, numbers that repeat in `in` and `out` once. */
typedef struct weir_task_def {
    double          time;
    size_t          work;
    uint32_t        until, region;
    weir_work       kind;
    weir_phase      phase;
    uint32_t        nin, nout, npairs, nmasked, nchanges;
    uint32_t        only;
    const uint32_t *in, *out, *pairs, *masked, *changes;
} weir_task_def;

/* A problem is built piece by piece and task by task; weir_problem_end fills uses, masks and
 * `time`. All return false when memory is short. */
bool weir_problem_piece(weir_problem *p, size_t bytes, size_t packed, bool output);
bool weir_problem_task(weir_problem *p, const weir_task_def *def);
bool weir_problem_end(weir_problem *p);

/* The same step with all resident pieces always there: no pieces. They must be the last ones, so
 * that the others keep their numbers. */
bool weir_problem_settled(const weir_problem *p, weir_problem *settled);
void weir_problem_free(weir_problem *p);

/* One bit for every float. */
static inline size_t weir_mask_bytes(size_t bytes)
{
    return (bytes / 4 + 7) / 8;
}

/* What the name of an operation says about its work. */
weir_work weir_work_of(const char *name);

static inline const uint32_t *weir_refs(const weir_problem *p, weir_range r)
{
    return p->refs.at + r.first;
}

static inline bool weir_piece_resident(const weir_problem *p, uint32_t piece)
{
    return p->pieces.at[piece].maker == WEIR_NO_TASK;
}

/* Is x among the numbers of the range? */
static inline bool weir_among(const weir_problem *p, weir_range r, uint32_t x)
{
    for (uint32_t i = 0; i < r.n; i++)
        if (p->refs.at[r.first + i] == x)
            return true;
    return false;
}

#endif
