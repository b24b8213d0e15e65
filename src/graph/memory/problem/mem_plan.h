/* mem_plan.h - a plan as a list of steps: the neutral form that is checked, simulated and written.
 *
 * Schedules with offsets and plans read from files become the same list. Unlike in a schedule,
 * nothing ends implicitly: steps free memory, and any form of a tensor may be copied to the host.
 * Offsets and limits are bytes. The problem must outlive the plan. */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_MEM_PLAN_H
#define WEIR_GRAPH_MEMORY_PROBLEM_MEM_PLAN_H

#include "graph/memory/problem/offsets.h"
#include "graph/memory/problem/schedule.h"

/* Kinds of steps besides weir_event_kind: free a form on the device, or on the host. */
enum { WEIR_EVENT_FREE = WEIR_EVENT_DECOMPRESS + 1, WEIR_EVENT_FREE_HOST };

typedef struct weir_mem_step {
    uint32_t         what;       /* WEIR_EVENT_RUN: op, else tensor */
    uint8_t          kind;       /* weir_event_kind, or one of the two above */
    uint8_t          form;       /* OFFLOAD, PREFETCH, FREE, FREE_HOST: the form concerned */
    bool             recomputed; /* RUN: the planner declares it a repetition */
    bool             forget;     /* PREFETCH: also frees the host copy */
    bool             work;       /* RUN: `offset` is valid */
    size_t           offset;     /* RUN: of the workspace; else of the form that the step makes */
    uint32_t         slots;      /* RUN: first of mem_plan.slots, one for each output of the op */
    weir_index_range masks;      /* RUN: part of mem_plan.masks: the inputs read as masks */
} weir_mem_step;

typedef struct weir_output_slot {
    size_t   offset;
    uint32_t over;    /* tensor whose memory it takes over in place; WEIR_NO_TENSOR: none */
    bool     scratch; /* freed right after the run */
} weir_output_slot;

typedef struct weir_mem_plan {
    const weir_mem_problem    *p;
    WEIR_VEC(weir_mem_step)    list;
    WEIR_VEC(weir_output_slot) slots;
    WEIR_VEC(uint32_t)         masks; /* tensors */
    /* [tensors] offset of a resident tensor that is on the device between steps */
    size_t                    *start;
    /* [tensors] 1: a resident tensor that is on the host between steps */
    uint8_t                   *offloaded;
    size_t                     align, limit; /* offsets are multiples of align in [0, limit) */
    bool                       addresses;    /* false: offsets are not set */
    bool ordered; /* every op runs, first runs keep the problem's order, and no op runs again
                   * from its `rerun_before` on */
    /* For error messages: */
    const char    *name;              /* their prefix */
    weir_status    status;            /* the status returned with them */
    const int64_t *tensor_id, *op_id; /* numbers used in a file; NULL: the problem's own */
} weir_mem_plan;

/* An empty plan without addresses. Returns false if memory runs out; the caller calls
 * weir_mem_plan_free in either case. */
bool weir_mem_plan_init(weir_mem_plan *a, const weir_mem_problem *p);
void weir_mem_plan_free(weir_mem_plan *a);

/* Initialises *a and fills it from an ended schedule whose live ranges lie within its events
 * (weir_schedule_check verifies that). `offsets` may be NULL: the plan then has no addresses.
 * Returns false if memory runs out; the caller frees *a in either case. */
bool weir_mem_plan_from_schedule(const weir_schedule *s, const weir_offsets *offsets,
                                 weir_mem_plan *a);

/* Returns the device bytes of a tensor in a form. */
static inline size_t weir_form_bytes(const weir_mem_problem *p, uint32_t tensor, uint8_t form)
{
    const weir_mem_tensor *k = &p->tensors.at[tensor];
    return form == WEIR_FORM_COMPRESSED ? k->packed
           : form == WEIR_FORM_MASK     ? weir_mask_bytes(k->bytes)
                                        : k->bytes;
}

/* Returns the form that a step other than RUN makes or frees. */
static inline uint8_t weir_mem_step_writes(const weir_mem_step *x)
{
    return x->kind == WEIR_EVENT_COMPRESS     ? WEIR_FORM_COMPRESSED
           : x->kind == WEIR_EVENT_MASK       ? WEIR_FORM_MASK
           : x->kind == WEIR_EVENT_DECOMPRESS ? WEIR_FORM_PLAIN
                                              : x->form;
}

/* Returns the form that a step other than RUN reads. */
static inline uint8_t weir_mem_step_reads(const weir_mem_step *x)
{
    return x->kind == WEIR_EVENT_DECOMPRESS                               ? WEIR_FORM_COMPRESSED
           : x->kind == WEIR_EVENT_COMPRESS || x->kind == WEIR_EVENT_MASK ? WEIR_FORM_PLAIN
                                                                          : x->form;
}

/* Returns whether the run reads input `tensor` as a mask. */
static inline bool weir_mem_step_reads_mask(const weir_mem_plan *a, const weir_mem_step *x,
                                            uint32_t tensor)
{
    for (uint32_t i = 0; i < x->masks.n; i++)
        if (a->masks.at[x->masks.first + i] == tensor)
            return true;
    return false;
}

#endif
