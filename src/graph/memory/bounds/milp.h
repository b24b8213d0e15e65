/* milp.h - recomputation in a given order as a mixed-integer linear programme: after Checkmate
 * (Jain and others, MLSys 2020), on what is held between accesses instead of at every stage, as
 * MOCCASIN's retention intervals are (Bartan and others, ICML 2023).
 *
 * The plans it speaks of: first runs keep the problem's order; between two of them every op may
 * be run again once, in ascending order; memory is that of weir_schedule_end, in place included.
 * What is least among them is least among plans of this kind: one that repeats an op twice between
 * two first runs, or repeats in another order, is not looked at. */
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
    uint32_t first_held; /* what it reads and makes, afterwards: begins here in `held` */
} weir_milp_run;

enum { WEIR_MILP_CUTS = 12 };     /* cuts in the programme, at most */

typedef struct weir_recompute_milp {
    const weir_mem_problem *p;
    size_t    limit;      /* bytes of tensors and workspace, resident tensors not counted */
    double    unit;       /* seconds of one unit of cost */
    uint32_t  begin, end; /* stages with something run again: [begin, end) */
    uint32_t  tight;      /* stages from here on fit whatever is held */
    weir_milp m;
    WEIR_VEC(weir_milp_run)  runs; /* in order, from stage `begin` on */
    WEIR_VEC(weir_milp_held) held; /* the first ones: when stage `begin` begins */
    uint8_t  *needed;        /* [(ops + 1) * tensors] may somebody want it, from a stage on? */
    uint32_t *now;           /* [tensors] the column at hand */
    uint8_t  *inplace_taker; /* [tensors] may take over another in place */
    uint32_t  moment[WEIR_MILP_CUTS], moments; /* first runs, ascending */
    uint32_t *later; /* [WEIR_MILP_CUTS * ops] column: run again behind that moment */
    uint32_t  bytes; /* column of what is held at the moment */
} weir_recompute_milp;

/* Builds the programme, with cuts evenly spread and one at `best`. ERR_NOMEM or WEIR_OK; begin ==
 * ops: all fits, nothing is to be solved. */
weir_status weir_recompute_milp_build(weir_recompute_milp *g, const weir_mem_problem *p,
                                      size_t limit, uint32_t best);

/* No plan takes fewer seconds more: known from elsewhere. */
void weir_recompute_milp_lower_bound(weir_recompute_milp *g, double seconds);

/* Begins with the runs of a schedule of the same problem. */
void weir_recompute_milp_start(weir_recompute_milp *g, const weir_schedule *s);

/* Turns the solved programme's answer into a schedule that is not ended. False: memory. */
bool weir_recompute_milp_schedule(const weir_recompute_milp *g, weir_schedule *s);
void weir_recompute_milp_free(weir_recompute_milp *g);

#endif
