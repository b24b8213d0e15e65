/* milp.h - recomputation in a given order as a mixed-integer linear programme: after Checkmate
 * (Jain and others, MLSys 2020), but with columns for what is held between accesses instead of at
 * every stage, like MOCCASIN's retention intervals (Bartan and others, ICML 2023).
 *
 * It covers plans in which first runs keep the problem's order, every op may run again once between
 * two first runs, in ascending order, and memory is that of weir_schedule_end, in place included.
 * The optimum is the optimum of such plans only: it ignores plans that repeat an op twice between
 * two first runs, or repeat ops in another order. */
#ifndef WEIR_GRAPH_MEMORY_BOUNDS_MILP_H
#define WEIR_GRAPH_MEMORY_BOUNDS_MILP_H

#include "graph/memory/problem/schedule.h"
#include "graph/memory/bounds/highs.h"

typedef struct weir_milp_held { /* a tensor after an event: held where the column is 1 */
    uint32_t tensor, column;    /* WEIR_NO_COLUMN: not held */
} weir_milp_held;

typedef struct weir_milp_run {       /* of an op before, or as, the first run of `stage` */
    uint32_t op, stage;
    uint32_t column;     /* WEIR_NO_COLUMN: the first run */
    uint32_t first_held; /* index in `held` of what it reads and makes */
} weir_milp_run;

enum { WEIR_MILP_CUTS = 12 };     /* cuts in the programme, at most */

typedef struct weir_recompute_milp {
    const weir_mem_problem *p;
    size_t    limit;      /* bytes of tensors and workspace, without resident ones */
    double    unit;       /* seconds of one unit of cost */
    uint32_t  begin, end; /* stages with reruns: [begin, end) */
    uint32_t  tight;      /* from this stage on everything held fits */
    weir_milp m;
    WEIR_VEC(weir_milp_run)  runs; /* in order, from stage `begin` on */
    WEIR_VEC(weir_milp_held) held; /* first those when stage `begin` begins */
    uint8_t  *needed;        /* [(ops + 1) * tensors] needed from a stage on? */
    uint32_t *now;           /* [tensors] the current column */
    uint8_t  *inplace_taker; /* [tensors] may be made in place of another */
    uint32_t  moment[WEIR_MILP_CUTS], moments; /* first runs, ascending */
    uint32_t *later; /* [WEIR_MILP_CUTS * ops] column: rerun after a moment */
    uint32_t  bytes; /* column of what is held at the moment */
} weir_recompute_milp;

/* Builds the programme, with cuts evenly spread and one at `best`. ERR_NOMEM or WEIR_OK; begin ==
 * ops: everything fits, and there is nothing to solve. */
weir_status weir_recompute_milp_build(weir_recompute_milp *g, const weir_mem_problem *p,
                                      size_t limit, uint32_t best);

/* Adds the knowledge that no plan has fewer extra seconds. */
void weir_recompute_milp_lower_bound(weir_recompute_milp *g, double seconds);

/* Starts from the runs of a schedule of the same problem. */
void weir_recompute_milp_start(weir_recompute_milp *g, const weir_schedule *s);

/* Turns the answer of the solved programme into a schedule, not yet ended. False: out of memory. */
bool weir_recompute_milp_schedule(const weir_recompute_milp *g, weir_schedule *s);
void weir_recompute_milp_free(weir_recompute_milp *g);

#endif
