/* mem_plan.h - what a plan says, action by action: the neutral form that is judged, simulated and
 * written.
 *
 * A plan of one's own (a schedule with addresses) and a plan from a file become the same list.
 * Unlike in a schedule nothing ends by itself: what goes is freed by an action. Any form of a
 * tensor may be copied to the host. */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_MEM_PLAN_H
#define WEIR_GRAPH_MEMORY_PROBLEM_MEM_PLAN_H

#include "graph/memory/problem/offsets.h"
#include "graph/memory/problem/schedule.h"

/* Besides those of weir_event_kind: a copy on the device or on the host goes. */
enum { WEIR_EVENT_FREE = WEIR_EVENT_DECOMPRESS + 1, WEIR_EVENT_FREE_HOST };

typedef struct weir_mem_step {
    uint32_t         what;       /* WEIR_EVENT_RUN: op, else tensor */
    uint8_t          kind;       /* weir_event_kind, WEIR_EVENT_FREE, WEIR_EVENT_FREE_HOST */
    uint8_t          form;       /* OUT, IN, FREE, FORGET: of this form */
    bool             recomputed; /* RUN: the planner says it is not the first */
    bool             forget;     /* IN: the host's copy goes */
    bool             work;       /* RUN: `offset` is there */
    size_t           offset;     /* of the workspace; IN, PACK, MARK, UNPACK: of what is made */
    uint32_t         slots;      /* RUN: first of actions.spots, one for each result of the op */
    weir_index_range masks;      /* RUN: of actions.masks: inputs that are read as masks */
} weir_mem_step;

typedef struct weir_output_slot {
    size_t   offset;
    uint32_t over;    /* tensor whose memory it takes over; WEIR_NO_TENSOR: none */
    bool     scratch; /* dropped behind the run */
} weir_output_slot;

typedef struct weir_mem_plan {
    const weir_mem_problem    *p;
    WEIR_VEC(weir_mem_step)    list;
    WEIR_VEC(weir_output_slot) slots;
    WEIR_VEC(uint32_t)         masks; /* tensors */
    size_t                    *start; /* [tensors] resident, on the device between steps: where */
    uint8_t                   *offloaded;    /* [tensors] resident, on the host between steps */
    size_t                     align, limit; /* of offsets; they lie in [0, room) */
    bool                       addresses;    /* false: no offset says anything */
    bool ordered; /* first runs keep the problem's order, nothing is left out, and
                                 * `until` of ops holds */
    /* For sentences about it: */
    const char    *name;              /* what they begin with */
    weir_status    status;            /* and what is returned then */
    const int64_t *tensor_id, *op_id; /* numbers of a file; NULL: our own */
} weir_mem_plan;

/* False when memory is short. Free it, also then. */
bool weir_mem_plan_init(weir_mem_plan *a, const weir_mem_problem *p);
void weir_mem_plan_free(weir_mem_plan *a);

/* The list of an ended schedule whose lives lie within its events (weir_schedule_check looks at
 * that). lay NULL: without addresses. */
bool weir_mem_plan_from_schedule(const weir_schedule *s, const weir_offsets *offsets,
                                 weir_mem_plan *a);

/* Bytes of a tensor in a form that lies on the device. */
static inline size_t weir_form_bytes(const weir_mem_problem *p, uint32_t tensor, uint8_t form)
{
    const weir_mem_tensor *k = &p->tensors.at[tensor];
    return form == WEIR_FORM_COMPRESSED ? k->packed
           : form == WEIR_FORM_MASK     ? weir_mask_bytes(k->bytes)
                                        : k->bytes;
}

/* The form an action other than RUN makes or ends; the one it reads. */
static inline uint8_t weir_mem_step_writes(const weir_mem_step *x)
{
    return x->kind == WEIR_EVENT_COMPRESS     ? WEIR_FORM_COMPRESSED
           : x->kind == WEIR_EVENT_MASK       ? WEIR_FORM_MASK
           : x->kind == WEIR_EVENT_DECOMPRESS ? WEIR_FORM_PLAIN
                                              : x->form;
}

static inline uint8_t weir_mem_step_reads(const weir_mem_step *x)
{
    return x->kind == WEIR_EVENT_DECOMPRESS                               ? WEIR_FORM_COMPRESSED
           : x->kind == WEIR_EVENT_COMPRESS || x->kind == WEIR_EVENT_MASK ? WEIR_FORM_PLAIN
                                                                          : x->form;
}

/* Is input `tensor` of the run read as a mask? */
static inline bool weir_mem_step_reads_mask(const weir_mem_plan *a, const weir_mem_step *x,
                                            uint32_t tensor)
{
    for (uint32_t i = 0; i < x->masks.n; i++)
        if (a->masks.at[x->masks.first + i] == tensor)
            return true;
    return false;
}

#endif
