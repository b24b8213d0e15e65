/* plan.h - the plan of a step as a list of instructions.
 * Defined in lowering.c, liveness.c, settle.c, overlap.c and streams.c.
 *
 * Operands are offsets in bytes in one arena or in external blocks. What runs is what is printed; a
 * run decides nothing and allocates nothing. */
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
    uint8_t            stream;     /* streams.c: the stream that it is issued to, */
    uint8_t            waits;      /* number of events awaited before it, */
    uint32_t           first_wait; /* beginning with this one of plan.wait, */
    uint32_t           signals;    /* and the event that it records, WEIR_NONE: none */
    weir_phase         phase;
    double             seconds; /* measured, profiled runs only */
} weir_instr;

typedef struct weir_plan {
    weir_instr  *instr;
    uint32_t     n;
    weir_items   items;
    uint32_t    *item_of;       /* [storages] item of a temporary one, else WEIR_NONE */
    size_t       arena;         /* bytes: the step peak */
    size_t       lower_bound;
    size_t       workspace;     /* largest */
    weir_layout  *layouts;      /* what the calls point to */
    weir_operand *operands;
    void        **pointers;
    const char   *bound;        /* arena address of the pointers; NULL: not bound */
    uint64_t      moves;        /* of the device when they were made */
    uint64_t      profiled;     /* number of runs whose seconds are added up */
    uint32_t     *wait;         /* [nwait] events: those of instructions, then those of the end */
    uint32_t      nwait, ends;  /* ends: awaited by stream 0 at the end */
    uint32_t      events;       /* number of events; 0: everything is on stream 0 */
    weir_device  *dev;
    weir_replay  *replay;       /* a recorded run with these pointers; NULL: none */
    bool          ran;          /* with these pointers: the next run may be recorded */
    uint32_t      passes;       /* the passes that ran */
    double        extra_seconds;    /* of recomputation and waits, as planned */
    double        seconds;      /* of a step, as planned; 0: no budget */
    const char   *placement;    /* strategy asked for; NULL: auto */
    const char   *strategy;     /* that won */
    struct weir_reasons *reasons;   /* referenced (budget/from_graph.h): what it was made from, or
                                     * NULL */
} weir_plan;

/* Lowers, places and resolves the graph's nodes; replaces an existing plan. */
weir_status weir_plan_build(weir_graph *g, uint32_t passes);

/* Only lowers: instructions, and items without offsets. The graph must have no plan. */
weir_status weir_plan_lower(weir_graph *g, uint32_t passes);

/* Bytes outside the arena: parameters, states, inputs and outputs on the device, except those that
 * the graph keeps in the spill file. */
size_t weir_plan_resident(const weir_graph *g);

/* Bytes that external storage i takes while it is on the device. */
size_t weir_plan_taken(const weir_graph *g, uint32_t i);

/* Computes offsets of operands and workspaces from those of the items. */
void weir_plan_resolve(weir_graph *g);

/* Completes a plan that is final: assigns streams, and reserves in the device's offload store the
 * space and the tickets that its transfers name. */
weir_status weir_plan_settle(weir_graph *g);

void        weir_plan_free(weir_plan *p);

/* Drops a recorded run, since pointers change. */
void weir_plan_forget_replay(weir_plan *p);

/* Finds another order and other addresses if `streams` streams gain by them, within the graph's
 * budget, and assigns the streams. */
weir_status weir_plan_overlap(weir_graph *g, int streams, const weir_rates *rates);

/* Several streams must cut a step's time below this share of it to be worth their events. */
#define WEIR_STREAMS_WORTH 0.97

/* Assigns every instruction one of `streams` streams, and the events between them. Addresses and
 * storages determine what must wait for what; everything stays on stream 0 if more gain too little
 * by the rates. seconds: of the step, by the rates. */
weir_status weir_assign_streams(weir_plan *p, int streams, const weir_rates *rates,
                                double *seconds);

/* Number of streams that the plan's instructions are on. */
int weir_streams_used(const weir_plan *p);

/* When an instruction begins, in seconds. */
typedef struct weir_began {
    double   seconds;
    uint32_t instr;
} weir_began;

/* The step if no two items shared memory: its seconds, and when each instruction begins, [n].
 * items: NULL, or the plan's, whose live ranges are lengthened until addresses delay nothing. All
 * instructions are on stream 0 afterwards. */
weir_status weir_streams_without_reuse(weir_plan *p, weir_item *items, int streams,
                                       const weir_rates *rates, weir_began *began, double *seconds);

/* Finds the live range of every temporary storage and workspace in instructions; with `inplace`,
 * outputs that take over dying inputs share one item. */
weir_status weir_live_items(const weir_graph *g, weir_plan *p, bool inplace);

/* Finds offsets for all items; sets arena, lower_bound and strategy of the plan. */
weir_status weir_plan_place(weir_plan *p);

/* The same by weir_place_within: quicker, and it stops at a height of `limit` bytes. */
weir_status weir_plan_place_within(weir_plan *p, size_t limit);

/* Verifies that the offsets of all items are aligned, disjoint where live together, and within the
 * arena. Else ERR_STATE and a sentence that begins with "internal: ". */
weir_status weir_plan_check(const weir_plan *p);

#endif
