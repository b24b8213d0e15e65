/* relower_state.h - the state of incremental lowering (relower.h). */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_RELOWER_STATE_H
#define WEIR_GRAPH_MEMORY_PROBLEM_RELOWER_STATE_H

#include "graph/memory/problem/lower.h"
#include "graph/memory/problem/peak_tree.h"

#define WEIR_NO_STAGE UINT32_MAX

typedef struct weir_numbers {
    WEIR_VEC(uint32_t) list;
} weir_numbers;

/* An interval between two uses of a tensor. Its stages are those after `from` up to `to`. */
typedef struct weir_relower_interval {
    uint32_t tensor, from, to; /* `to`: the next use; the last stage if none follows */
    uint32_t restored;         /* recomputed and then kept: by this stage; else WEIR_NO_STAGE */
    uint32_t begin, end;       /* stages [begin, end) at whose beginning it is live, counted */
    uint8_t  decision;
    bool     last; /* no use follows */
} weir_relower_interval;

typedef struct weir_relower {
    const weir_mem_problem *p;
    const weir_lower_state *w;  /* numbers of intervals */
    weir_relower_interval  *at; /* [intervals] */
    weir_numbers           *runs;   /* [ops] ops recomputed in each stage, in order */
    weir_numbers           *stages; /* [ops] stages that recompute each op, ascending */
    weir_numbers           *early;  /* [ops] intervals to be recomputed early in each stage */
    uint32_t               *read;   /* [tensors] kept for recomputation: the last stage that reads
                                     * it; WEIR_NO_STAGE: none */
    int64_t                *most;   /* [ops] largest sum in a stage beyond what it begins with */
    int64_t                *ticks;  /* [ops] time of a run */
    double                  second; /* ticks */
    weir_peak_tree          tree;
    size_t                  resident; /* bytes on the device at all times */
    WEIR_VEC(uint32_t)      queue;    /* a heap of stages to lower again */
    uint8_t                *queued;   /* [ops] WEIR_TO_LOWER, WEIR_TO_SUM */
    WEIR_VEC(uint32_t)      unsummed; /* stages whose `most` is out of date */
    WEIR_VEC(uint32_t)      made, stack, unread;
    uint64_t                stamp;
    uint64_t               *asked, *there, *read_in, *over; /* [tensors] stamps */
    uint32_t               *last; /* [tensors] the last event of the stage that reads it */
    uint64_t               *marked; /* [ops] stamps */
    uint64_t                events; /* of the whole plan */
    uint64_t                work;   /* events lowered so far: a measure of time without a clock */
    int64_t                 extra_ticks;
    bool                    counted; /* the plan that keeps everything has been summed */
    /* results of weir_relower_run: */
    size_t                  peak;       /* bytes, as weir_lower_state.peak */
    uint32_t                peak_stage; /* an op */
    double                  extra;      /* seconds */
    bool                    valid;
} weir_relower;

enum { WEIR_TO_LOWER = 1, WEIR_TO_SUM = 2 };

/* Returns the number of the interval that contains stage s. */
static inline uint32_t weir_relower_interval_at(const weir_relower *r, uint32_t tensor, uint32_t s)
{
    const weir_index_range uses = r->p->tensors.at[tensor].uses;
    const uint32_t        *u = weir_refs(r->p, uses);
    uint32_t               lo = 0, hi = uses.n;

    while (lo < hi) {
        const uint32_t mid = (lo + hi) / 2;
        if (u[mid] < s)
            lo = mid + 1;
        else
            hi = mid;
    }
    return r->w->first_interval[tensor] + lo;
}

#endif
