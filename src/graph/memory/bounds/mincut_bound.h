/* mincut_bound.h - bounds the extra time of every plan by one moment of the step: what must be in
 * memory while an op first runs, and what later reruns of the rest cost at least.
 *
 * While op p first runs, every tensor that is read later is in memory, or its producer runs again
 * later; and each input of such a rerun is in memory at p, too, or its producer runs again later.
 * Let x(k) say that tensor k is kept and y(o) that op o is repeated. The cheapest choice,
 *     min sum time(o) y(o)   s.t.   sum bytes(k) x(k) <= budget - what p itself needs,
 * is a lower bound on the extra time of every plan. For a Lagrange multiplier lambda, in seconds
 * per byte, its relaxation is a minimum cut: source -> op (time), op -> tensor (lambda bytes),
 * tensor -> its readers and, if it is read later, -> sink (uncuttable). The relaxed bound is
 * concave and piecewise linear in lambda; tangents find its maximum. With a link, bytes offloaded
 * before p add to the budget: at most bandwidth * (time before p + extra time).
 *
 * Sources: Picard, "Maximal closure of a graph and applications to combinatorial problems",
 * Management Science, 1976 (a choice as a cut); Fisher, "The Lagrangian relaxation method for
 * solving integer programming problems", Management Science, 1981. */
#ifndef WEIR_GRAPH_MEMORY_BOUNDS_MINCUT_BOUND_H
#define WEIR_GRAPH_MEMORY_BOUNDS_MINCUT_BOUND_H

#include "graph/memory/bounds/maxflow.h"
#include "graph/memory/problem/problem.h"

/* What plans may do besides dropping and recomputing; all zero: nothing. Resident tensors do not
 * count while no op reads them, since they may be on the host. */
typedef struct weir_levers {
    const bool *banned; /* [ops] true: never runs again; NULL: every op may */
    double      link;   /* bytes per second to the host; 0: no offloading */
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
    size_t                  own;     /* bytes that the stage's op itself needs */
    size_t                  must;    /* `own`, and the bytes of what no run can recompute */
    size_t                  least;   /* `must`, and the fewest bytes that suffice for the rest */
    size_t                  all;     /* `must`, and everything that is read later */
    double                  extra;   /* result: seconds; INFINITY: infeasible */
    /* seconds of the cheapest choice found that fits; INFINITY: none */
    double                  seconds;
    uint32_t                open;    /* an op to branch on next; WEIR_NO_OP: none */
    uint8_t                *fixed;   /* [ops] weir_mincut_fix, set by the caller */
    uint8_t                *fate;    /* [tensors] weir_mincut_fate in that choice */
    uint8_t                *recomputed; /* [ops] runs again after the stage in that choice */
    /* Private: */
    weir_flow          flow;
    double             scale;                 /* capacity per second */
    uint32_t          *tensor_node, *op_node; /* node numbers; 0: no node */
    uint8_t           *in_memory;             /* [tensors] 1: in memory without further cost */
    uint8_t           *infeasible; /* [ops] 1: runs again in the choice that does not fit */
    WEIR_VEC(uint32_t) tensors; /* with a node, in the order of their edges */
    WEIR_VEC(uint32_t) ops;     /* the same; their edges follow */
    size_t             wanted;  /* tensors.at[0..wanted) are read later */
} weir_mincut_bound;

/* Prepares bounds for the problem, which must outlive *c; `levers` may be NULL. Returns false if
 * memory runs out; the caller calls weir_mincut_bound_free in either case. */
bool weir_mincut_bound_init(weir_mincut_bound *c, const weir_mem_problem *p,
                            const weir_levers *levers);
void weir_mincut_bound_free(weir_mincut_bound *c);

/* Builds the network for the moment when op `stage` first runs, and for what later ops up to `end`
 * read; if `end` is ops.n, also for the step's outputs. Sets own, must, least and all. The reruns
 * that it counts lie between the first runs of `stage` and `end`. Returns false if memory runs
 * out. */
bool weir_mincut_bound_at(weir_mincut_bound *c, uint32_t stage, uint32_t end);

/* Then computes `extra` at that budget over the choices that respect `fixed`. Stops early, with a
 * weaker bound, once `extra` cannot exceed `known`. `fate` and `recomputed` describe the cheapest
 * choice found that fits, or the one with the fewest bytes if none fits. Returns false if memory
 * runs out. */
bool weir_mincut_bound_solve(weir_mincut_bound *c, size_t budget, double known);

/* Returns the bytes that the op itself needs: inputs, outputs, workspace, less what may be in
 * place. */
size_t weir_mincut_bound_required(const weir_mem_problem *p, const weir_levers *levers,
                                  uint32_t op);

#endif
