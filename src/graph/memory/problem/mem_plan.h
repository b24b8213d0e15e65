/* mem_plan.h - what a plan says, action by action: the neutral form that is judged, simulated and
 * written.
 *
 * A plan of one's own (a schedule with addresses) and a plan from a file become the same list.
 * Unlike in a schedule nothing ends by itself: what goes is freed by an action. Any form of a piece
 * may be copied to the host. */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_MEM_PLAN_H
#define WEIR_GRAPH_MEMORY_PROBLEM_MEM_PLAN_H

#include "graph/memory/problem/offsets.h"
#include "graph/memory/problem/schedule.h"

/* Besides those of weir_act: a copy on the device or on the host goes. */
enum { WEIR_FREE = WEIR_UNPACK + 1, WEIR_FORGET };

typedef struct weir_action {
    uint32_t what;              /* WEIR_RUN: task, else piece */
    uint8_t  act;               /* weir_act, WEIR_FREE, WEIR_FORGET */
    uint8_t  form;              /* OUT, IN, FREE, FORGET: of this form */
    bool     again;             /* RUN: the planner says it is not the first */
    bool     forget;            /* IN: the host's copy goes */
    bool     work;              /* RUN: `offset` is there */
    size_t   offset;            /* of the workspace; IN, PACK, MARK, UNPACK: of what is made */
    uint32_t spots;             /* RUN: first of actions.spots, one for each result of the task */
    weir_range masks;           /* RUN: of actions.masks: inputs that are read as masks */
} weir_action;

typedef struct weir_spot {
    size_t   offset;
    uint32_t over;              /* piece whose memory it takes over; WEIR_NO_PIECE: none */
    bool     scratch;           /* dropped behind the run */
} weir_spot;

typedef struct weir_actions {
    const weir_problem *p;
    WEIR_VEC(weir_action) list;
    WEIR_VEC(weir_spot) spots;
    WEIR_VEC(uint32_t) masks;   /* pieces */
    size_t  *start;             /* [pieces] resident, on the device between steps: where */
    uint8_t *home;              /* [pieces] resident, on the host between steps */
    size_t   align, room;       /* of offsets; they lie in [0, room) */
    bool     addresses;         /* false: no offset says anything */
    bool     ordered;           /* first runs keep the problem's order, nothing is left out, and
                                 * `until` of tasks holds */
    /* For sentences about it: */
    const char    *name;        /* what they begin with */
    weir_status    status;      /* and what is returned then */
    const int64_t *piece_id, *task_id;  /* numbers of a file; NULL: our own */
} weir_actions;

/* False when memory is short. Free it, also then. */
bool weir_actions_init(weir_actions *a, const weir_problem *p);
void weir_actions_free(weir_actions *a);

/* The list of an ended schedule whose lives lie within its events (weir_schedule_check looks at
 * that). lay NULL: without addresses. */
bool weir_actions_from(const weir_schedule *s, const weir_lay *lay, weir_actions *a);

/* Bytes of a piece in a form that lies on the device. */
static inline size_t weir_form_bytes(const weir_problem *p, uint32_t piece, uint8_t form)
{
    const weir_piece *k = &p->pieces.at[piece];
    return form == WEIR_PACKED ? k->packed : form == WEIR_MASK ? weir_mask_bytes(k->bytes)
                                                               : k->bytes;
}

/* The form an action other than RUN makes or ends; the one it reads. */
static inline uint8_t weir_action_makes(const weir_action *x)
{
    return x->act == WEIR_PACK ? WEIR_PACKED : x->act == WEIR_MARK ? WEIR_MASK
           : x->act == WEIR_UNPACK ? WEIR_PLAIN : x->form;
}

static inline uint8_t weir_action_reads(const weir_action *x)
{
    return x->act == WEIR_UNPACK ? WEIR_PACKED
           : x->act == WEIR_PACK || x->act == WEIR_MARK ? WEIR_PLAIN : x->form;
}

/* Is input `piece` of the run read as a mask? */
static inline bool weir_action_masks(const weir_actions *a, const weir_action *x, uint32_t piece)
{
    for (uint32_t i = 0; i < x->masks.n; i++)
        if (a->masks.at[x->masks.first + i] == piece)
            return true;
    return false;
}

#endif
