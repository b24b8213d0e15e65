/* lower.h - what a set of decisions means: a schedule.
 *
 * The first runs of all ops keep the problem's order. Between two accesses of a tensor lies a gap
 * (before its use number j; one more lies behind its last use), and each gap is decided: keep the
 * tensor on the device, or let it go in one of several ways until its next reader, or somebody who
 * makes something else anew, asks for it. A tensor that came back on somebody's behalf in the
 * middle of a gap stays until the next use, or is dropped again at once. */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_LOWER_H
#define WEIR_GRAPH_MEMORY_PROBLEM_LOWER_H

#include "graph/memory/problem/schedule.h"

typedef enum weir_decision {
    WEIR_KEEP,                /* stays (in the gap behind the last use: not at all) */
    WEIR_RECOMPUTE,           /* goes; once made anew it stays until the next use */
    WEIR_RECOMPUTE_TRANSIENT, /* goes; what is made anew for others goes again at once */
    WEIR_KEEP_FOR_RECOMPUTE,  /* behind the last use only: stays for those who make others anew */
    WEIR_OFFLOAD,             /* goes to the host. Interval 0 of a resident tensor: it is there
                               * between steps, too; its other intervals may be WEIR_OFFLOAD only
                               * then. Behind the last use of another: it stays there for those that
                               * others are recomputed from */
    WEIR_COMPRESS,            /* goes, a packed copy stays */
    WEIR_COMPRESS_MASK,       /* goes, a mask of it stays for those who need no more */
    WEIR_RECOMPUTE_EARLY      /* this + s: WEIR_RECOMPUTE, s + 1 steps before the next use */
} weir_decision;

/* Decisions are numbered tensor by tensor: gap j of tensor k is first_interval[k] + j, j from 0
 * (before the first use) to uses.n (behind the last). */
typedef struct weir_lower_state {
    const weir_mem_problem *p;
    size_t                  budget;         /* of tensors and workspace: when copies have to wait */
    weir_schedule           s;              /* what the last walk made */
    uint32_t               *first_interval; /* [tensors + 1] */
    uint32_t                intervals;
    uint32_t               *next;      /* [tensors] number of its next use */
    uint8_t                *offloaded; /* [tensors] resident, and on the host between steps */
    uint32_t *early, *early_next;      /* [ops] tensors to make anew before it: first, [tensors] */
    uint32_t  step;                    /* ops in one step of WEIR_RECOMPUTE_EARLY */
    WEIR_VEC(uint32_t) burst;          /* tensors that came back since the last first run */
    WEIR_VEC(uint32_t) stack;
    size_t             peak; /* the answer: bytes without `resident` */
    uint32_t           peak_event;
    double             extra; /* seconds more than all ops once */
    bool               valid; /* false: an op would run again too late, or endlessly */
} weir_lower_state;

/* Number of all decisions. */
uint32_t weir_lower_intervals(const weir_mem_problem *p);

bool weir_lower_init(weir_lower_state *w, const weir_mem_problem *p);
void weir_lower_free(weir_lower_state *w);

/* Walks the step under decisions gap[w->gaps]. False when memory is short. */
bool weir_lower(weir_lower_state *w, const uint8_t *decisions);

#endif
