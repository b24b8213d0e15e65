/* plan.h - the plan of a step as a list of instructions.
 * Defined in lowering.c, liveness.c, settle.c, overlap.c and streams.c.
 *
 * Operands are offsets in one arena or in external blocks. What runs is what is printed; a run
 * decides nothing and allocates nothing. */
#ifndef WEIR_GRAPH_PLAN_PLAN_H
#define WEIR_GRAPH_PLAN_PLAN_H

#include "device/device.h"
#include "graph/ir/graph.h"
#include "graph/placement/item.h"

typedef struct weir_operand {
    uint32_t storage;
    bool     external;
    size_t   offset; /* bytes: in the arena, or in the external block */
} weir_operand;

typedef struct weir_instr {
    const weir_kernel *kernel;
    weir_call          call; /* layouts owned by the plan */
    weir_kargs         args; /* pointers are filled in when the plan is bound */
    weir_operand      *in, *out;
    size_t             work;       /* offset of the workspace, */
    uint32_t           work_item;  /* and its item, if it needs one */
    uint64_t           rng;        /* relative random position */
    uint8_t            stream;     /* streams.c: the queue that it goes to, */
    uint8_t            waits;      /* events that are awaited before, */
    uint32_t           first_wait; /* from this one of the plan's list on, */
    uint32_t           signals;    /* and the event that it gives, WEIR_NONE: none */
    weir_phase         phase;
    double             seconds; /* measured, profiled runs only */
} weir_instr;

typedef struct weir_plan {
    weir_instr  *instr;
    uint32_t     n;
    weir_items   items;
    uint32_t    *item_of;       /* [stores] item of a temporary storage, else WEIR_NONE */
    size_t       arena;         /* bytes: the step peak */
    size_t       lower_bound;
    size_t       workspace;     /* largest */
    weir_layout  *layouts;      /* what the calls point to */
    weir_operand *operands;
    void        **pointers;
    const char   *bound;        /* arena address the pointers were made for; NULL: not bound */
    uint64_t      moves;        /* of the device when they were made */
    uint64_t      profiled;     /* runs that `seconds` add up */
    uint32_t     *wait;         /* [nwait] events: those of instructions, then those of the end */
    uint32_t      nwait, ends;  /* ends: awaited by the first queue at the end */
    uint32_t      events;       /* that the plan uses; 0: it keeps to the first queue */
    weir_device  *dev;
    weir_replay  *replay;       /* of a run with the pointers as they are; NULL: none yet */
    bool          ran;          /* with these pointers, so that the next run may be recorded */
    uint32_t      passes;       /* the passes that ran */
    double        extra_seconds;    /* of what runs again, as planned */
    double        seconds;      /* of a step, as planned; 0: no budget */
    const char   *placement;    /* strategy asked for; NULL: auto */
    const char   *strategy;     /* that won */
    struct weir_reasons *reasons;   /* referenced (budget/from_graph.h): what it was expanded from,
                                     * or NULL */
} weir_plan;

/* Lowers, places and resolves the graph's nodes as they are; a plan that exists is replaced. */
weir_status weir_plan_build(weir_graph *g, uint32_t passes);

/* The first part of that: instructions and items without offsets. There is no plan. */
weir_status weir_plan_lower(weir_graph *g, uint32_t passes);

/* Bytes outside the arena: parameters, states, inputs and outputs of the device, but for those that
 * the graph keeps in the spill file. */
size_t weir_plan_resident(const weir_graph *g);

/* What external storage i takes while it is on the device. */
size_t weir_plan_taken(const weir_graph *g, uint32_t i);

/* Offsets of operands and workspaces, from those of the items. */
void weir_plan_resolve(weir_graph *g);

/* What a plan that is the answer needs besides: queues for its instructions, and in the device's
 * spill store the room and the tickets that its copies name. */
weir_status weir_plan_settle(weir_graph *g);

void        weir_plan_free(weir_plan *p);

/* A recorded run does not fit any more: pointers change. */
void weir_plan_forget_replay(weir_plan *p);

/* Another order and other addresses where `lanes` queues gain by them, within the graph's budget;
 * and the queues. */
weir_status weir_plan_overlap(weir_graph *g, int streams, const weir_rates *rates);

/* The largest part of a step's time that more queues may leave it to be worth their events. */
#define WEIR_STREAMS_WORTH 0.97

/* Gives every instruction its queue, out of `lanes`, and the events between queues. Addresses and
 * storages say what must wait for what; all stay on the first queue where more gain too little by
 * the rates. seconds: of the step, by these. */
weir_status weir_assign_streams(weir_plan *p, int streams, const weir_rates *rates,
                                double *seconds);

/* Queues that the plan's instructions are on. */
int weir_streams_used(const weir_plan *p);

/* When an instruction begins, in seconds. */
typedef struct weir_began {
    double   seconds;
    uint32_t instr;
} weir_began;

/* The step if no two items shared a place: its seconds, and when each instruction begins, [n].
 * items: NULL, or the plan's, which then last as long as they must for addresses to delay nothing.
 * All instructions are on the first queue afterwards. */
weir_status weir_streams_without_reuse(weir_plan *p, weir_item *items, int streams,
                                       const weir_rates *rates, weir_began *began, double *seconds);

/* First and last instruction of every temporary storage and workspace, with results that take over
 * dying inputs merged into one item if `inplace`. */
weir_status weir_live_items(const weir_graph *g, weir_plan *p, bool inplace);

/* Offsets for all items; arena, lower_bound and strategy of the plan. */
weir_status weir_plan_place(weir_plan *p);

/* The same by weir_place_within: quicker, and no lower than `limit` bytes where that does. */
weir_status weir_plan_place_within(weir_plan *p, size_t limit);

/* Are the offsets of all items multiples of the device's alignment, apart and within the arena?
 * Else ERR_STATE and a sentence that begins with "internal: ". */
weir_status weir_plan_check(const weir_plan *p);

#endif
