/* relower_state.h - the state of incremental lowering (relower.h). */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_RELOWER_STATE_H
#define WEIR_GRAPH_MEMORY_PROBLEM_RELOWER_STATE_H

#include "graph/memory/problem/lower.h"
#include "graph/memory/problem/peak_tree.h"

#define WEIR_NO_STAGE UINT32_MAX

typedef struct weir_numbers {
    WEIR_VEC(uint32_t) list;
} weir_numbers;

/* An interval between two uses of a tensor. Its stages are those after `from` up to `to`; stage 0
 * belongs to the first interval of a resident tensor. */
typedef struct weir_relower_interval {
    uint32_t tensor, from, to; /* `to`: the next use; the last stage if none follows */
    uint32_t restored;         /* restored and then kept: by this stage; else WEIR_NO_STAGE */
    uint32_t begin, end;       /* stages [begin, end) at whose beginning it is live, counted */
    uint8_t  decision;
    bool     last; /* no use follows */
} weir_relower_interval;

typedef struct weir_relower {
    const weir_mem_problem *p;
    const weir_lower_state *w;  /* numbers of intervals */
    weir_relower_interval  *at; /* [intervals] */
    weir_numbers           *runs;   /* [ops] what each stage restores, in order: ops that run again
                                     * and, from weir_relower_fetch on, tensors prefetched */
    weir_numbers           *stages; /* [ops] stages that recompute each op, ascending */
    weir_numbers           *early;  /* [ops] intervals to be recomputed early in each stage */
    uint32_t               *read;   /* [tensors] kept for recomputation: the last stage that reads
                                     * it; WEIR_NO_STAGE: none */
    uint32_t               *host;   /* [tensors] temporary and offloaded: the stage that does so;
                                     * WEIR_NO_STAGE: none */
    int64_t                *most;   /* [ops] largest sum in a stage beyond what it begins with */
    int64_t                *ticks;  /* [ops] time of a run */
    double                  second; /* ticks */
    weir_peak_tree          tree;
    size_t                  resident; /* bytes on the device at all times, with those of resident
                                       * tensors that are not offloaded */
    WEIR_VEC(uint32_t)      queue;    /* a heap of stages to lower again */
    uint8_t                *queued;   /* [ops] WEIR_TO_LOWER, WEIR_TO_SUM */
    WEIR_VEC(uint32_t)      unsummed; /* stages whose `most` is out of date */
    WEIR_VEC(uint32_t)      made, stack, unread;
    uint64_t                stamp;
    uint64_t               *asked, *there, *read_in, *over, *fetched; /* [tensors] stamps */
    uint32_t               *last; /* [tensors] the last event of the stage that reads it */
    uint64_t               *marked; /* [ops] stamps */
    uint64_t                events; /* of the whole plan */
    uint64_t                work;   /* events lowered so far: a measure of time without a clock */
    int64_t                 extra_ticks;
    bool                    changed; /* since the user cleared this, what the plan does */
    bool                    counted; /* the plan that keeps everything has been summed */
    /* results of weir_relower_run: */
    size_t                  peak;       /* bytes, as weir_lower_state.peak */
    uint32_t                peak_stage; /* an op */
    double                  extra;      /* seconds */
    bool                    valid;
} weir_relower;

enum { WEIR_TO_LOWER = 1, WEIR_TO_SUM = 2 };

/* The prefetch of a tensor in a list of what a stage restores. */
static inline uint32_t weir_relower_fetch(const weir_relower *r, uint32_t tensor)
{
    return r->p->ops.n + tensor;
}

static inline bool weir_relower_is_fetch(const weir_relower *r, uint32_t restored)
{
    return restored >= r->p->ops.n;
}

/* Is the resident tensor on the host between steps? It then leaves the device after each use whose
 * next interval is not kept. */
static inline bool weir_relower_offloaded(const weir_relower *r, uint32_t tensor)
{
    return r->at[r->w->first_interval[tensor]].decision == WEIR_OFFLOAD;
}

/* Is the tensor on the device at all times? */
static inline bool weir_relower_stays(const weir_relower *r, uint32_t tensor)
{
    return r->p->tensors.at[tensor].producer == WEIR_NO_OP && !weir_relower_offloaded(r, tensor);
}

/* Returns the number of the interval that contains stage s. */
static inline uint32_t weir_relower_interval_at(const weir_relower *r, uint32_t tensor, uint32_t s)
{
    return r->w->first_interval[tensor] + weir_interval_at(r->p, tensor, s);
}

/* Prepares *r for the problem of `w`, which must outlive it. Returns false if memory runs out; the
 * caller calls weir_relower_free in either case. */
bool weir_relower_init(weir_relower *r, const weir_lower_state *w);
void weir_relower_free(weir_relower *r);

/* Is there a copy that stage s can prefetch? That of a temporary tensor stays valid once made. */
bool weir_relower_is_on_host(const weir_relower *r, uint32_t tensor, uint32_t s);

/* Is the tensor copied to the host at the end of the stage at which interval g begins? A host copy
 * that is up to date is not made again. */
bool weir_relower_copies_out(const weir_relower *r, uint32_t g);

/* Returns the number of intervals of the tensor that begin so. */
uint32_t weir_relower_count_copies_out(const weir_relower *r, uint32_t tensor);

#endif
