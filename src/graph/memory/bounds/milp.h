/* milp.h - recomputation in a given order of ops as a mixed-integer linear programme.
 *
 * After Checkmate (Jain and others, MLSys 2020), but a column says whether a tensor is held between
 * two accesses instead of at every stage, as in MOCCASIN's retention intervals (Bartan and others,
 * ICML 2023). A stage is the time before and during one first run.
 *
 * The programme covers plans in which first runs keep the problem's order, every op may run again
 * once per stage, in ascending order, and memory is that of weir_schedule_end, including in-place
 * outputs. Its optimum is the optimum among these plans only: plans that repeat an op twice in one
 * stage, or repeat ops in another order, are outside. */
#ifndef WEIR_GRAPH_MEMORY_BOUNDS_MILP_H
#define WEIR_GRAPH_MEMORY_BOUNDS_MILP_H

#include "graph/memory/problem/schedule.h"
#include "graph/memory/bounds/highs.h"

typedef struct weir_milp_held { /* a tensor after an event: held if the column is 1 */
    uint32_t tensor, column;    /* WEIR_NO_COLUMN: certainly not held */
} weir_milp_held;

typedef struct weir_milp_run {       /* of an op in `stage`: as its first run, or again */
    uint32_t op, stage;
    uint32_t column;     /* 1: the op runs; WEIR_NO_COLUMN: the first run */
    uint32_t first_held; /* index in `held` of its inputs and outputs */
} weir_milp_run;

enum { WEIR_MILP_CUTS = 12 };     /* most cuts in the programme */

typedef struct weir_recompute_milp {
    const weir_mem_problem *p;
    size_t    limit;      /* bytes of tensors and workspace, without resident tensors */
    double    unit;       /* seconds per unit of cost */
    uint32_t  begin, end; /* stages with reruns: [begin, end) */
    uint32_t  tight;      /* from this stage on, everything that is held fits */
    weir_milp m;
    WEIR_VEC(weir_milp_run)  runs; /* in order, from stage `begin` on */
    WEIR_VEC(weir_milp_held) held; /* first those at the beginning of stage `begin` */
    uint8_t  *needed;        /* [(ops + 1) * tensors] 1: needed from a stage on */
    uint32_t *now;           /* [tensors] the current column of each */
    uint8_t  *inplace_taker; /* [tensors] 1: may be made in place of another tensor */
    uint32_t  moment[WEIR_MILP_CUTS], moments; /* first runs with a cut, ascending */
    uint32_t *later; /* [WEIR_MILP_CUTS * ops] column: runs again after a moment */
    uint32_t  bytes; /* column: live bytes at this point of the building */
} weir_recompute_milp;

/* Builds the programme, with cuts evenly spread and one at op `best`. Returns WEIR_OK or ERR_NOMEM.
 * If g->begin == ops, everything fits and there is nothing to solve. The caller calls
 * weir_recompute_milp_free in either case. */
weir_status weir_recompute_milp_build(weir_recompute_milp *g, const weir_mem_problem *p,
                                      size_t limit, uint32_t best);

/* Adds a row that states a proven bound: no plan has fewer extra seconds. */
void weir_recompute_milp_lower_bound(weir_recompute_milp *g, double seconds);

/* Gives the solver the runs of an ended schedule of the same problem as a start solution. */
void weir_recompute_milp_start(weir_recompute_milp *g, const weir_schedule *s);

/* Turns the solution into events of *s, which the caller must still end. Returns false if memory
 * runs out. */
bool weir_recompute_milp_schedule(const weir_recompute_milp *g, weir_schedule *s);
void weir_recompute_milp_free(weir_recompute_milp *g);

#endif
