/* problem.h - a training step as a planner sees it: tasks in a valid order, pieces of memory
 * between them.
 *
 * A piece is a temporary tensor: made by one task, read by later ones. What lives before and after
 * the step (parameters, states, inputs) is not a piece: it is always there, and counts in
 * `resident`. A task may be run again to make its pieces anew, but only before `until`: the first
 * task that overwrites something resident which it reads. */
#ifndef WEIR_GRAPH_POLICY_PROBLEM_H
#define WEIR_GRAPH_POLICY_PROBLEM_H

#include "core/vec.h"
#include "weir/base.h"

#define WEIR_NO_PIECE UINT32_MAX

/* Entries [first, first + n) of problem.refs. */
typedef struct weir_range {
    uint32_t first, n;
} weir_range;

typedef struct weir_task {
    double     time;            /* seconds of one run */
    size_t     work;            /* bytes of workspace while it runs */
    weir_range in, out;         /* pieces, each once */
    weir_range pairs;           /* read, made, ...: the made one may take over the read one */
    uint32_t   until;           /* number of the task from which on running it again is wrong */
} weir_task;

typedef struct weir_piece {
    size_t     bytes;           /* aligned */
    uint32_t   maker;           /* task */
    weir_range uses;            /* tasks that read it, ascending */
    bool       output;          /* must be there when the step ends */
} weir_piece;

typedef struct weir_problem {
    WEIR_VEC(weir_task) tasks;
    WEIR_VEC(weir_piece) pieces;
    WEIR_VEC(uint32_t) refs;
    size_t resident;            /* bytes that are always there */
    double time;                /* of all tasks once */
} weir_problem;

/* A problem is built task by task: begin, then in, out, pair in any order, then the next begin.
 * All return false when memory is short. weir_problem_end fills uses and `time`. */
bool weir_problem_piece(weir_problem *p, size_t bytes, bool output);
bool weir_problem_task(weir_problem *p, double time, size_t work, uint32_t until, uint32_t nin,
                       const uint32_t *in, uint32_t nout, const uint32_t *out, uint32_t npairs,
                       const uint32_t *pairs);
bool weir_problem_end(weir_problem *p);
void weir_problem_free(weir_problem *p);

static inline const uint32_t *weir_refs(const weir_problem *p, weir_range r)
{
    return p->refs.at + r.first;
}

#endif
