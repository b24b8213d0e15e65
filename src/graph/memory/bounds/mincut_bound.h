/* mincut_bound.h - one moment of a step: what must be in memory while an op first runs, and what
 * the rest costs at least in runs made later.
 *
 * While op p first runs, everything that is read later is in memory, or its maker runs again
 * later; a run made later finds each of its inputs in memory at p, or that input's maker runs again
 * later, too. So the cheapest choice of kept tensors x and repeated ops y,
 *     min sum time(o) y(o)   s.t.   sum bytes(k) x(k) <= budget - what p itself needs,
 * is below the extra time of every plan. With lambda seconds per byte for the bytes it is a minimal
 * cut: source -> op (time), op -> tensor (lambda bytes), tensor -> its readers and, if wanted,
 * sink (uncuttable). The bound is concave and piecewise linear in lambda; its top is found by
 * tangents. Where the time of a copy to the host is given, bytes that left before p count: at most
 * link * (time before p + extra time). */
#ifndef WEIR_GRAPH_MEMORY_BOUNDS_MINCUT_BOUND_H
#define WEIR_GRAPH_MEMORY_BOUNDS_MINCUT_BOUND_H

#include "graph/memory/bounds/maxflow.h"
#include "graph/memory/problem/problem.h"

/* What plans may do besides dropping and running again; all zero: nothing. Resident tensors that no
 * op is reading may be on the host, or need nothing: they are counted nowhere. */
typedef struct weir_levers {
    const bool *banned; /* [ops] never run again; NULL: none */
    double      link;   /* bytes a second to the host; 0: nothing leaves */
    bool        pack;   /* tensors may lie packed or as masks */
} weir_levers;

typedef enum weir_mincut_fate {
    WEIR_MINCUT_UNUSED,
    WEIR_MINCUT_KEPT,
    WEIR_MINCUT_RECOMPUTED
} weir_mincut_fate;
typedef enum weir_mincut_fix {
    WEIR_MINCUT_FREE,
    WEIR_MINCUT_NEVER,
    WEIR_MINCUT_ALWAYS
} weir_mincut_fix;

typedef struct weir_mincut_bound {
    const weir_mem_problem *p;
    weir_levers             levers;
    uint32_t                stage, end;
    size_t                  own;     /* bytes of the stage itself */
    size_t                  must;    /* and of what nothing can make anew */
    size_t                  least;   /* must + the fewest bytes that keep the rest possible */
    size_t                  all;     /* must + everything read later */
    double                  extra;   /* the answer: seconds; INFINITY: not at this budget */
    double                  seconds; /* of the cheapest choice met that fits, INFINITY: none */
    uint32_t                open;    /* an op that decides it, WEIR_NO_OP: none does */
    uint8_t                *fixed;   /* [ops] weir_mincut_fix, to be set by the caller */
    uint8_t                *fate;    /* [tensors] weir_mincut_fate at the cheapest way that fits */
    uint8_t                *recomputed; /* [ops] runs again behind the stage, likewise */
    /* private */
    weir_flow          flow;
    double             scale;                 /* capacity of a second */
    uint32_t          *tensor_node, *op_node; /* 0: none */
    uint8_t           *there;                 /* [tensors] in memory at no cost */
    uint8_t           *dear;    /* [ops] runs again where bytes are too cheap to fit */
    WEIR_VEC(uint32_t) tensors; /* with a node, in order of their edges from the maker */
    WEIR_VEC(uint32_t) ops;     /* likewise: edges from the source, behind them */
    size_t             wanted;  /* tensors.at[0..wanted) are read later */
} weir_mincut_bound;

bool weir_mincut_bound_init(weir_mincut_bound *c, const weir_mem_problem *p,
                            const weir_levers *levers);
void weir_mincut_bound_free(weir_mincut_bound *c);

/* Looks at the moment when op `stage` first runs, with what ops after it up to `end` read, for
 * `end` = ops.n also what the step leaves; fills own, must, least, all. The runs that it counts
 * lie between the first runs of `stage` and `end`. False when memory is short. */
bool weir_mincut_bound_at(weir_mincut_bound *c, uint32_t stage, uint32_t end);

/* Then the extra time at that budget, of choices in which ops run again as `fixed` says. Stops
 * early, with less, where it will not be above `known`. `fate` and `again` are the cheapest choice
 * met that fits (that with the fewest bytes if none does). */
bool weir_mincut_bound_solve(weir_mincut_bound *c, size_t budget, double known);

/* Bytes that the op itself needs: inputs, results, workspace, with what may be in place. */
size_t weir_mincut_bound_required(const weir_mem_problem *p, const weir_levers *levers,
                                  uint32_t op);

#endif
