/* mincut_bound.h - one moment of a step: what must be in memory while a task first runs, and what
 * the rest costs at least in runs made later.
 *
 * While task p first runs, everything that is read later is in memory, or its maker runs again
 * later; a run made later finds each of its inputs in memory at p, or that input's maker runs again
 * later, too. So the cheapest choice of kept pieces x and repeated tasks y,
 *     min sum time(o) y(o)   s.t.   sum bytes(k) x(k) <= budget - what p itself needs,
 * is below the extra time of every plan. With lambda seconds per byte for the bytes it is a minimal
 * cut: source -> task (time), task -> piece (lambda bytes), piece -> its readers and, if wanted,
 * sink (uncuttable). The bound is concave and piecewise linear in lambda; its top is found by
 * tangents. Where the time of a copy to the host is given, bytes that left before p count: at most
 * link * (time before p + extra time). */
#ifndef WEIR_GRAPH_MEMORY_BOUNDS_MINCUT_BOUND_H
#define WEIR_GRAPH_MEMORY_BOUNDS_MINCUT_BOUND_H

#include "graph/memory/bounds/maxflow.h"
#include "graph/memory/problem/problem.h"

/* What plans may do besides dropping and running again; all zero: nothing. Resident pieces that no
 * task is reading may be on the host, or need nothing: they are counted nowhere. */
typedef struct weir_levers {
    const bool *banned;         /* [tasks] never run again; NULL: none */
    double      link;           /* bytes a second to the host; 0: nothing leaves */
    bool        pack;           /* pieces may lie packed or as masks */
} weir_levers;

typedef enum weir_cut_fate { WEIR_CUT_NOT_ASKED, WEIR_CUT_KEPT, WEIR_CUT_AGAIN } weir_cut_fate;
typedef enum weir_cut_fix { WEIR_CUT_FREE, WEIR_CUT_NEVER, WEIR_CUT_ALWAYS } weir_cut_fix;

typedef struct weir_cut {
    const weir_problem *p;
    weir_levers         levers;
    uint32_t            stage, end;
    size_t              own;            /* bytes of the stage itself */
    size_t              must;           /* and of what nothing can make anew */
    size_t              least;          /* must + the fewest bytes that keep the rest possible */
    size_t              all;            /* must + everything read later */
    double              extra;          /* the answer: seconds; INFINITY: not at this budget */
    double              seconds;        /* of the cheapest choice met that fits, INFINITY: none */
    uint32_t            open;           /* a task that decides it, WEIR_NO_TASK: none does */
    uint8_t            *fixed;          /* [tasks] weir_cut_fix, to be set by the caller */
    uint8_t            *fate;           /* [pieces] weir_cut_fate at the cheapest way that fits */
    uint8_t            *again;          /* [tasks] runs again behind the stage, likewise */
    /* private */
    weir_flow  flow;
    double     scale;                   /* capacity of a second */
    uint32_t  *piece_node, *task_node;  /* 0: none */
    uint8_t   *there;                   /* [pieces] in memory at no cost */
    uint8_t   *dear;                    /* [tasks] runs again where bytes are too cheap to fit */
    WEIR_VEC(uint32_t) pieces;          /* with a node, in order of their edges from the maker */
    WEIR_VEC(uint32_t) tasks;           /* likewise: edges from the source, behind them */
    size_t     wanted;                  /* pieces.at[0..wanted) are read later */
} weir_cut;

bool weir_cut_init(weir_cut *c, const weir_problem *p, const weir_levers *levers);
void weir_cut_free(weir_cut *c);

/* Looks at the moment when task `stage` first runs, with what tasks after it up to `end` read, for
 * `end` = tasks.n also what the step leaves; fills own, must, least, all. The runs that it counts
 * lie between the first runs of `stage` and `end`. False when memory is short. */
bool weir_cut_at(weir_cut *c, uint32_t stage, uint32_t end);

/* Then the extra time at that budget, of choices in which tasks run again as `fixed` says. Stops
 * early, with less, where it will not be above `known`. `fate` and `again` are the cheapest choice
 * met that fits (that with the fewest bytes if none does). */
bool weir_cut_solve(weir_cut *c, size_t budget, double known);

/* Bytes that the task itself needs: inputs, results, workspace, with what may be in place. */
size_t weir_cut_must(const weir_problem *p, const weir_levers *levers, uint32_t task);

#endif
