/* plan.h - the plan of a step: a list of instructions.
 * Defined in lowering.c, liveness.c, settle.c, halves.c, overlap.c, streams.c, collectives.c,
 * collectives_check.c, concat_parts.c and wire_time.c.
 *
 * Operands are byte offsets in one arena or in external blocks. The printed list is exactly what
 * runs: a run makes no decisions and allocates nothing. */
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
    weir_kargs         args; /* pointers are set when the plan is bound */
    weir_operand      *in, *out;
    size_t             work;       /* byte offset of the workspace in the arena, if any, */
    uint32_t           work_item;  /* and its item */
    uint64_t           rng;        /* position in the random stream, relative to the run's start */
    uint8_t            stream;     /* stream to which it is issued (streams.c) */
    uint8_t            waits;      /* number of events that the stream awaits before it: */
    uint32_t           first_wait; /* plan.wait[first_wait] and those that follow */
    uint32_t           signals;    /* event recorded after it; WEIR_NONE: none */
    weir_phase         phase;
    double             seconds; /* measured, summed over profiled runs */
} weir_instr;

/* A collective of a plan, with predicted seconds; negative: not known. */
typedef struct weir_wire_span {
    uint32_t start, wait;       /* instructions; the same if the plan waits for it at once */
    double   begin;             /* seconds after the start of the step; later than its start where
                                 * the wire is busy with the one before */
    double   seconds;           /* on the wire, */
    double   exposed;           /* of these, for which computing waits at `wait` */
} weir_wire_span;

typedef WEIR_VEC(weir_wire_span) weir_wire_spans;

typedef struct weir_plan {
    weir_instr  *instr;
    uint32_t     n;
    bool         halves;        /* of a graph with a stop: the first half is */
    uint32_t     stop;          /* the instructions before this one */
    bool         offloads;        /* it puts values of the step into the offload store */
    weir_items   items;
    uint32_t    *item_of;       /* [storages] item of a temporary one, else WEIR_NONE, */
    size_t      *part_at;       /* [storages] and its offset there, in bytes; NULL: all are 0 */
    size_t       arena;         /* bytes: the step peak */
    size_t       lower_bound;   /* bytes: proven for any placement of the items */
    size_t       workspace;     /* bytes of the largest */
    weir_layout  *layouts;      /* pointed to by the calls */
    weir_operand *operands;
    void        **pointers;
    const char   *bound;        /* arena address of the pointers; NULL: not bound */
    uint32_t      checked;      /* the instructions before this one read only what was written */
    uint64_t      moves;        /* dev->moves when the pointers were set */
    uint64_t      profiled;     /* number of runs over which seconds are summed */
    uint32_t     *wait;         /* [nwait] events: those of instructions, then, from `ends` on, */
    uint32_t      nwait, ends;  /* those that stream 0 awaits at the end */
    uint32_t      events;       /* number of events; 0: everything is on stream 0 */
    weir_device  *dev;
    weir_replay  *replay;       /* a recorded run with these pointers; NULL: none */
    bool          ran;          /* with these pointers: the next run may be recorded */
    bool          unrecordable; /* recording failed once: runs are never recorded again */
    char         *unrecorded;   /* the sentence of that failure; NULL: none, or no memory for it */
    uint32_t      passes;       /* bit i: pass i ran (ir/pass_set.h) */
    weir_wire_spans wire;       /* its collectives in the order of their starts */
    double       *computing;    /* [n] seconds of the instructions, as measured; NULL: their times
                                 * are estimated */
    double        extra_seconds;    /* of recomputation and waits, as planned */
    double        seconds;      /* of a step, as planned; 0: no budget */
    const char   *placement;    /* requested strategy; NULL: auto */
    const char   *strategy;     /* strategy whose placement was best */
    uint32_t    *scheduled;     /* [n] the place of each instruction in the order that the memory
                                 * planner found; WEIR_NONE: in none. NULL: the same places */
    struct weir_reasons *reasons;   /* referenced: what the plan was made from, for texts about it
                                     * (budget/from_graph.h); or NULL */
} weir_plan;

/* Lowers the graph's nodes, places the items and computes offsets of operands; replaces an existing
 * plan. `passes`: bits of the passes that ran; that of inplace decides whether outputs take over
 * dying inputs. */
weir_status weir_plan_build(weir_graph *g, uint32_t passes);

/* Only lowers: creates instructions, and items without offsets. The graph must have no plan. */
weir_status weir_plan_lower(weir_graph *g, uint32_t passes);

/* Places the items of the lowered plan that is to replace a finished one, verifies the places and
 * computes the offsets. Of a graph with a budget the search ends once they fit into `limit` bytes;
 * the arena may be larger. Without one, and if the items are many, only the strategy that placed
 * `like`, a plan of almost the same items, is tried, and ends there, too; NULL: all strategies. */
weir_status weir_plan_place_lowered(weir_graph *g, const weir_plan *like, size_t limit);

/* Bytes on the device outside the arena during a run: everything persistent on the device, with the
 * graph's outputs and without what the graph keeps in the spill file, and the arenas of other
 * graphs that wait between their halves. */
size_t weir_plan_resident(const weir_graph *g);

/* Bytes that external storage i takes on the device, alignment and guard zones included. */
size_t weir_plan_taken(const weir_graph *g, uint32_t i);

/* Computes the offsets of operands and workspaces from those of the items. */
void weir_plan_resolve(weir_graph *g);

/* Completes the final plan: assigns streams, and reserves the space and tickets that its transfers
 * use in the device's offload store. */
weir_status weir_plan_settle(weir_graph *g);

/* In a graph with a stop: finds the first instruction of the second half, and the storages that
 * must not change between the halves. Fails with ERR_STATE and a message that begins with
 * "internal: " if the halves are mixed. */
weir_status weir_plan_find_halves(weir_graph *g);

/* Splits collectives of the final plan into a start and a wait, with what need not wait in between,
 * where the budget has room for it (collectives.c). */
weir_status weir_plan_overlap_collectives(weir_graph *g);

/* Makes one call of each again. */
void weir_plan_join_collectives(weir_graph *g);

/* Lets the inputs of concatenations be computed where these put them, if the final plan then needs
 * no more memory (concat_parts.c). */
weir_status weir_plan_join_parts(weir_graph *g);

/* Verifies that nothing touches the memory of a collective between its start and its wait, and that
 * collectives are awaited in the order in which they start. Fails as weir_plan_check does. */
weir_status weir_plan_check_collectives(const weir_plan *p);

/* Hands times and reasons of the plan `old` to the one that replaces it, and frees `old`. */
void weir_plan_succeed(weir_plan *p, weir_plan *old);

/* Fills p->wire (wire_time.c). */
weir_status weir_plan_predict_wire(weir_plan *p);

/* Fills p->computing with the mean times that kernels took in the runs over which `profiled`, a
 * plan of the same graph or p itself, was profiled. A kernel that did not run there has its
 * estimate. ERR_NOMEM with p as it was. */
weir_status weir_plan_take_times(weir_plan *p, const weir_plan *profiled);

/* Bytes of a collective's operand. */
size_t weir_plan_wire_bytes(const weir_plan *p, const weir_wire_span *w);

/* Whether all of p->wire is known. */
bool weir_plan_wire_known(const weir_plan *p);

/* The sums of p->wire in seconds; 0 if one of them is not known. */
void weir_plan_wire_sums(const weir_plan *p, double *seconds, double *exposed);

/* Fills at[n + 1] with the seconds after the start of the step at which each instruction begins,
 * and the step ends: by the expected times that p->wire follows from and its waits, or by profiled
 * ones, which have the waits in them. */
void weir_plan_estimated_times(const weir_plan *p, double *at);
void weir_plan_profiled_times(const weir_plan *p, double *at);

/* Whether waits were measured: the plan was profiled, and not by a simulated clock, which tells
 * when everything is done. */
bool weir_plan_waits_known(const weir_plan *p);

/* The seconds for which computing waited for the collective, mean of the profiled runs. */
double weir_plan_profiled_wait(const weir_plan *p, const weir_wire_span *w);

void        weir_plan_free(weir_plan *p);

/* Frees the recorded run; call it when pointers change. */
void weir_plan_forget_replay(weir_plan *p);

/* Assigns instructions to up to `streams` streams, and replaces the plan by one with another order
 * and other addresses if that makes the step faster within the graph's budget (overlap.c). */
weir_status weir_plan_overlap(weir_graph *g, int streams, const weir_rates *rates);

/* Several streams are used only if they shorten the step to less than this share of its time on one
 * stream: events cost time that the rates do not know. */
#define WEIR_STREAMS_WORTH 0.97

/* Assigns every instruction to one of `streams` streams and adds events between them, for the
 * offsets that the operands have. Everything stays on stream 0 if several streams gain too little.
 * *seconds: predicted time of the step. */
weir_status weir_assign_streams(weir_plan *p, int streams, const weir_rates *rates,
                                double *seconds);

/* Number of streams that the plan uses. */
int weir_streams_used(const weir_plan *p);

/* When an instruction begins, in seconds after the start of the step. */
typedef struct weir_began {
    double   seconds;
    uint32_t instr;
} weir_began;

/* Schedules the step as if no two items shared memory: *seconds of the step, and began[n], when
 * each instruction begins. items: NULL, or the plan's items, whose live ranges are extended such
 * that reuse of memory delays no instruction. Puts all instructions back on stream 0. */
weir_status weir_streams_without_reuse(weir_plan *p, weir_item *items, int streams,
                                       const weir_rates *rates, weir_began *began, double *seconds);

/* Fills p->items with the live range of every temporary storage and workspace, in instruction
 * numbers, and p->item_of. With `inplace`, an output that takes over a dying input shares its
 * item. */
weir_status weir_live_items(const weir_graph *g, weir_plan *p, bool inplace);

/* Finds offsets for all items; sets the plan's arena, lower_bound and strategy. */
weir_status weir_plan_place(weir_plan *p);

/* The same by weir_place_within, which is quicker and stops as soon as the height is at most
 * `limit` bytes. */
weir_status weir_plan_place_within(weir_plan *p, size_t limit);

/* Verifies that the offsets of all items are aligned, that items live at the same time do not
 * overlap, and that all lie within the arena. Fails with ERR_STATE and a message that begins with
 * "internal: ". */
weir_status weir_plan_check(const weir_plan *p);

#endif
