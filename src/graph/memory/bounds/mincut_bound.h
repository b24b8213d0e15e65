/* mincut_bound.h - bounds the extra time of every plan by one moment of the step: what must be in
 * memory while an op first runs, and what the rest costs at least in later reruns.
 *
 * While op p first runs, everything that is read later is in memory, or its producer runs again
 * later; and a rerun finds each of its inputs in memory at p, or that input's producer runs again
 * later, too. So the cheapest choice of kept tensors x and repeated ops y,
 *     min sum time(o) y(o)   s.t.   sum bytes(k) x(k) <= budget - what p itself needs,
 * is a lower bound on the extra time of every plan. With a Lagrange multiplier lambda, in seconds
 * per byte, it is a minimum cut: source -> op (time), op -> tensor (lambda bytes), tensor -> its
 * readers and, if read later, sink (uncuttable). The bound is concave and piecewise linear in
 * lambda; tangents find its maximum. With the rate of a link, bytes offloaded before p count, too:
 * at most link * (time before p + extra time). */
#ifndef WEIR_GRAPH_MEMORY_BOUNDS_MINCUT_BOUND_H
#define WEIR_GRAPH_MEMORY_BOUNDS_MINCUT_BOUND_H

#include "graph/memory/bounds/maxflow.h"
#include "graph/memory/problem/problem.h"

/* What plans may do besides dropping and recomputing; all zero: nothing. Resident tensors count
 * nowhere while no op reads them, since they may be on the host. */
typedef struct weir_levers {
    const bool *banned; /* [ops] that never run again; NULL: none */
    double      link;   /* bytes a second to the host; 0: no offloading */
    bool        pack;   /* tensors may be compressed or kept as masks */
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
    size_t                  must;    /* the same, and of what no run can recompute */
    size_t                  least;   /* must + the fewest bytes that suffice for the rest */
    size_t                  all;     /* must + everything read later */
    double                  extra;   /* the answer: seconds; INFINITY: infeasible */
    double                  seconds; /* of the cheapest choice found that fits; INFINITY: none */
    uint32_t                open;    /* an op to branch on; WEIR_NO_OP: none */
    uint8_t                *fixed;   /* [ops] weir_mincut_fix, set by the caller */
    uint8_t                *fate;    /* [tensors] weir_mincut_fate in that choice */
    uint8_t                *recomputed; /* [ops] runs again after the stage in that choice */
    /* private */
    weir_flow          flow;
    double             scale;                 /* capacity of a second */
    uint32_t          *tensor_node, *op_node; /* 0: none */
    uint8_t           *there;                 /* [tensors] in memory at no further cost */
    uint8_t           *dear;    /* [ops] runs again in the choice that does not fit */
    WEIR_VEC(uint32_t) tensors; /* that have a node, in the order of their edges */
    WEIR_VEC(uint32_t) ops;     /* the same; their edges follow */
    size_t             wanted;  /* tensors.at[0..wanted) are read later */
} weir_mincut_bound;

bool weir_mincut_bound_init(weir_mincut_bound *c, const weir_mem_problem *p,
                            const weir_levers *levers);
void weir_mincut_bound_free(weir_mincut_bound *c);

/* Looks at the moment when op `stage` first runs, and at what ops after it up to `end` read, for
 * `end` = ops.n also at what the step leaves behind; fills own, must, least, all. The reruns it
 * counts lie between the first runs of `stage` and `end`. False when memory is short. */
bool weir_mincut_bound_at(weir_mincut_bound *c, uint32_t stage, uint32_t end);

/* Then computes `extra` at that budget for choices that respect `fixed`. Stops early, with less,
 * once it cannot exceed `known`. `fate` and `recomputed` are the cheapest choice found that fits,
 * or the one with the fewest bytes if none fits. False when memory is short. */
bool weir_mincut_bound_solve(weir_mincut_bound *c, size_t budget, double known);

/* Bytes that the op itself needs: inputs, outputs, workspace, less what may be in place. */
size_t weir_mincut_bound_required(const weir_mem_problem *p, const weir_levers *levers,
                                  uint32_t op);

#endif
