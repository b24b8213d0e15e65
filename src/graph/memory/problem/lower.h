/* lower.h - lowers decisions to a schedule.
 *
 * The first runs of all ops keep the problem's order. Interval j of a tensor lies before its use
 * number j, the last interval after its last use. Each interval has one decision: keep the tensor
 * on the device, or evict it until its next use, or until recomputing another tensor needs it. A
 * tensor that a recomputation restored within an interval stays until the next use, or is dropped
 * again at once, as decided. */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_LOWER_H
#define WEIR_GRAPH_MEMORY_PROBLEM_LOWER_H

#include "graph/memory/problem/schedule.h"

typedef enum weir_decision {
    WEIR_KEEP,                /* stays (after the last use: is dropped) */
    WEIR_RECOMPUTE,           /* dropped; once recomputed it stays until the next use */
    WEIR_RECOMPUTE_TRANSIENT, /* dropped; if recomputed for another tensor, dropped again at once */
    WEIR_KEEP_FOR_RECOMPUTE,  /* after the last use only: stays for recomputations that read it */
    WEIR_OFFLOAD,             /* moved to the host. In interval 0 of a resident tensor: on the host
                               * between steps, too, and only then may its other intervals be
                               * WEIR_OFFLOAD. After the last use of any other: the host's copy
                               * serves recomputations that read it */
    WEIR_COMPRESS,            /* dropped, a compressed copy stays */
    WEIR_COMPRESS_MASK,       /* dropped, a mask stays for ops that need no more */
    WEIR_RECOMPUTE_EARLY      /* this + s: WEIR_RECOMPUTE, s + 1 steps before the next use */
} weir_decision;

/* Decisions are numbered tensor by tensor: interval j of tensor k is first_interval[k] + j, j from
 * 0 (before the first use) to uses.n (after the last). */
typedef struct weir_lower_state {
    const weir_mem_problem *p;
    size_t                  budget;         /* of tensors and workspace: when copies have to wait */
    weir_schedule           s;              /* of the last weir_lower */
    uint32_t               *first_interval; /* [tensors + 1] */
    uint32_t                intervals;
    uint32_t               *next;      /* [tensors] number of its next use */
    uint8_t                *offloaded; /* [tensors] resident, and on the host between steps */
    uint32_t *early, *early_next;      /* lists of tensors to recompute before an op */
    uint32_t  step;                    /* ops in one step of WEIR_RECOMPUTE_EARLY */
    WEIR_VEC(uint32_t) burst;          /* tensors restored since the last first run */
    WEIR_VEC(uint32_t) stack;
    size_t             peak; /* the answer: bytes without `resident` */
    uint32_t           peak_event;
    double             extra; /* seconds beyond all ops run once */
    bool               valid; /* false: an op would rerun too late, or endlessly */
} weir_lower_state;

/* Number of decisions of a problem. */
uint32_t weir_lower_intervals(const weir_mem_problem *p);

bool weir_lower_init(weir_lower_state *w, const weir_mem_problem *p);
void weir_lower_free(weir_lower_state *w);

/* Lowers decisions[w->intervals] to w->s, ended. False when memory is short. */
bool weir_lower(weir_lower_state *w, const uint8_t *decisions);

#endif
