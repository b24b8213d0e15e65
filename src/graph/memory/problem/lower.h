/* lower.h - lowers decisions to a schedule.
 *
 * The uses of a tensor cut its life into intervals: interval j lies before use number j, the last
 * interval after the last use. Each interval has one decision: keep the tensor on the device, or
 * evict it until its next use. The first runs of all ops keep the problem's order; lowering adds
 * the recomputations, copies and compressions that the decisions imply. If a recomputation of
 * another tensor restores an evicted tensor in the middle of an interval, the decision also says
 * whether it stays until its next use or is dropped again at once. */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_LOWER_H
#define WEIR_GRAPH_MEMORY_PROBLEM_LOWER_H

#include "graph/memory/problem/schedule.h"

typedef enum weir_decision {
    WEIR_KEEP,                /* stays on the device; after the last use: is dropped */
    WEIR_RECOMPUTE,           /* dropped; once recomputed, it stays until the next use */
    WEIR_RECOMPUTE_TRANSIENT, /* dropped; recomputed for another tensor, it is dropped again */
    WEIR_KEEP_FOR_RECOMPUTE,  /* after the last use only: stays for recomputations that read it */
    WEIR_OFFLOAD,             /* moved to the host, prefetched for the next use. In interval 0 of a
                               * resident tensor: it starts on the host, without which none of its
                               * intervals may be WEIR_OFFLOAD. After the last use of a temporary
                               * tensor: the host copy serves recomputations that read it */
    WEIR_COMPRESS,            /* dropped; a compressed copy stays */
    WEIR_COMPRESS_MASK,       /* dropped; a mask stays for those ops that need no more */
    WEIR_RECOMPUTE_EARLY      /* this value + s: WEIR_RECOMPUTE, s + 1 steps before the next use */
} weir_decision;

/* An interval that begins at the first run of an op. */
typedef struct weir_interval_start {
    uint32_t tensor, interval;
    uint8_t  kept; /* what WEIR_KEEP does (lower.c) */
} weir_interval_start;

/* A problem, its numbering of decisions, and the last schedule. Interval j of tensor k has number
 * first_interval[k] + j, with j from 0 (before the first use) to uses.n (after the last). */
typedef struct weir_lower_state {
    const weir_mem_problem *p;
    /* bytes of tensors and workspace; copies make compute wait beyond it */
    size_t                  budget;
    weir_schedule           s;              /* the result of the last weir_lower */
    uint32_t               *first_interval; /* [tensors + 1] */
    uint32_t                intervals;
    weir_interval_start    *starts;      /* [intervals] by op: those of inputs, then of outputs */
    uint32_t               *first_start; /* [ops + 1] the first of each op */
    uint32_t                op;          /* the op whose first run comes next */
    uint8_t                *offloaded; /* [tensors] 1: a resident tensor that starts on the host */
    uint32_t *early, *early_next;      /* linked lists: tensors to recompute early before each op */
    /* ops in one step of WEIR_RECOMPUTE_EARLY, which is coarse in long problems */
    uint32_t  step;
    WEIR_VEC(uint32_t) burst;          /* tensors restored since the last first run */
    WEIR_VEC(uint32_t) stack;
    size_t             peak; /* result: bytes, without `resident` */
    uint32_t           peak_event;
    double             extra; /* result: seconds beyond all ops run once */
    bool               valid; /* false: an op would run again too late, or without end */
} weir_lower_state;

/* Returns the number of the tensor's interval that contains `op`: of its uses before the op. */
static inline uint32_t weir_interval_at(const weir_mem_problem *p, uint32_t tensor, uint32_t op)
{
    const weir_index_range uses = p->tensors.at[tensor].uses;
    const uint32_t        *u = weir_refs(p, uses);
    uint32_t               lo = 0, hi = uses.n;

    while (lo < hi) {
        const uint32_t mid = (lo + hi) / 2;
        if (u[mid] < op)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Returns the number of decisions of a problem: uses + 1 for each tensor. */
uint32_t weir_lower_intervals(const weir_mem_problem *p);

/* Returns the most events of a valid schedule: nested recomputation can grow exponentially. */
uint64_t weir_lower_most_events(const weir_mem_problem *p);

/* Returns the op before which the interval of ops (from, to] is recomputed by a decision of at
 * least WEIR_RECOMPUTE_EARLY. */
uint32_t weir_lower_early(const weir_lower_state *w, uint8_t decision, uint32_t from, uint32_t to);

/* Prepares *w for the problem, which must outlive it. Returns false if memory runs out; the caller
 * calls weir_lower_free in either case. */
bool weir_lower_init(weir_lower_state *w, const weir_mem_problem *p);
void weir_lower_free(weir_lower_state *w);

/* Lowers decisions[w->intervals] to the ended schedule w->s and sets peak, extra and valid. Returns
 * false if memory runs out. Takes time linear in the events made, of which there are at most six
 * per op, and in the live ranges. */
bool weir_lower(weir_lower_state *w, const uint8_t *decisions);

/* weir_lower in two parts. After the first, peak and extra are at most the final ones, and w->s is
 * not ended; a search that they suffice to reject the plan spares the second, the timing of copies.
 * That stops with an infinite w->extra, and w->s useless, once it shows that the plan takes more
 * than `most` extra seconds. */
bool weir_lower_runs(weir_lower_state *w, const uint8_t *decisions);
bool weir_lower_copies(weir_lower_state *w, double most);

#endif
