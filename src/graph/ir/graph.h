/* graph.h - a recorded step: nodes, values and storages in index arrays.
 *
 * A storage is a contiguous range of memory. It is external (a block that outlives the step:
 * parameter, state, input, output) or temporary (placed in the arena by the planner). A value is a
 * view of a storage: a layout and an offset; views cost nothing and are never nodes. A node reads
 * values and creates the storages of its outputs. A node whose op mutates inputs (opdef.mutates)
 * overwrites external storages in place, or the device copy of a storage kept in the spill file.
 *
 * Invariants (weir_graph_check verifies the first two): exactly one live node creates each
 * temporary storage, before any live node reads it; no storage is created twice; the list of nodes
 * is a valid execution order; operands name existing values. */
#ifndef WEIR_GRAPH_IR_GRAPH_H
#define WEIR_GRAPH_IR_GRAPH_H

#include "core/fused.h"
#include "core/phase.h"
#include "core/status.h"
#include "core/tensor.h"
#include "core/vec.h"
#include "device/memory/block.h"
#include "graph/ir/names.h"
#include "weir/graph.h"

#define WEIR_NONE UINT32_MAX

/* Flags of ops whose calls never run twice. */
#define WEIR_RUNS_ONCE (WEIR_UPDATE | WEIR_CALLER)

/* Where a node stands in a graph with a stop (weir_graph_stop). The nodes of the first half precede
 * those of the second. Nodes that the planner adds, and all nodes of a graph without a stop, belong
 * to neither: they run where the list has them. */
typedef enum weir_half { WEIR_NO_HALF, WEIR_FIRST_HALF, WEIR_SECOND_HALF } weir_half;

typedef struct weir_storage {
    size_t      bytes;
    weir_kind   kind;
    weir_block *block; /* external: referenced; temporary, while recording: borrowed; else NULL */
    bool        external;
    bool        made;       /* external: a result of this graph that is kept */
    uint32_t    values;     /* first value of the list of views of this storage */
    uint32_t    origin;     /* storage that this one is a copy of; WEIR_NONE: none */
    bool        offloaded;  /* external: kept in the spill file; nodes access device copies */
    bool        crosses;    /* external: the first half touches it, the second reads it */
    uint8_t     written_in; /* external: a set of weir_half, the halves that write it */
    bool        filled;     /* while a plan is being bound: an instruction so far has filled it */
    uint64_t    changed;    /* external: dev->changes when the last node that overwrites it */
    const char *changed_by; /* was recorded, and that node's operation; NULL: none */
    char       *name;       /* of a temporary without a block: owned; NULL: none, or the block's */
    weir_tensor *handle;    /* external: of the whole block, for its name; referenced, or NULL */
} weir_storage;

typedef struct weir_value {
    weir_layout layout;
    int64_t     offset; /* of element 0, in elements */
    uint32_t    storage;
    uint32_t    next; /* next view of the same storage */
} weir_value;

typedef struct weir_node {
    weir_op           op;
    const weir_opdef *def; /* of op */
    weir_phase        phase;
    uint8_t           nin, nout;
    bool              dead;
    uint32_t          region;     /* marked region that is recomputed for gradients; 0: none */
    uint8_t           half;       /* weir_half */
    bool              recomputed; /* added by the memory planner: runs an earlier node again */
    uint32_t          segment;    /* second run of a checkpoint to which it belongs; 0: none */
    weir_node_name    name;       /* the recorded calls for which it stands */
    uint32_t          in[WEIR_EW_MAX_IN];
    uint32_t          out[WEIR_MAX_OUT];
    void             *attr; /* owned copy */
    size_t            attr_bytes;
    uint64_t          rng; /* position in the random stream, relative to the start of a run */
} weir_node;

/* UNPLANNED: it lost its plan when memory failed while it was planned again under a shared budget;
 * its next run plans it. `plan` is NULL or incomplete. */
typedef enum weir_graph_state {
    WEIR_GRAPH_RECORDING, WEIR_GRAPH_SUSPENDED, WEIR_GRAPH_PLANNED, WEIR_GRAPH_UNPLANNED,
    WEIR_GRAPH_BROKEN
} weir_graph_state;

/* A graph whose first half has run: what its second half needs. */
typedef struct weir_waiting {
    bool            yes;
    weir_held_arena held;       /* its arena, which is not the device's meanwhile */
    uint64_t        seed, rng;  /* of its random numbers, and where those of the run begin */
    uint64_t        changes;    /* dev->changes when the first half ended */
    size_t          slots;      /* where the step's slots in the offload store begin */
    bool            profile;    /* the run is timed */
} weir_waiting;

/* A communicator whose ranks have agreed on the graph, its number there, and the all_reduces that
 * were recorded with a bucket. */
typedef struct weir_agreed {
    struct weir_comm *comm;
    uint64_t          number;
    uint32_t          sums;
} weir_agreed;

struct weir_comm;
struct weir_plan;
struct weir_recorded_step;
struct weir_session;

struct weir_graph {
    weir_device            *dev;     /* referenced */
    struct weir_session    *session; /* of dev */
    weir_graph_state        state;
    uint64_t                id;
    struct weir_graph      *below;   /* paused by the switch of the device before this one */
    uint32_t                depth; /* number of scopes that were open when recording began */
    WEIR_VEC(weir_storage)  storages;
    WEIR_VEC(weir_value)    values;
    WEIR_VEC(weir_node)     nodes;
    WEIR_VEC(weir_tensor *) kept;       /* referenced */
    weir_tensor     *left;      /* handles of results that were not kept; referenced */
    WEIR_VEC(weir_tensor *) parked;     /* handles of its scope while it is paused */
    WEIR_VEC(void *) tapes;             /* its tape nodes, referenced until recording ends */
    struct {                            /* block -> external storage, open addressing */
        uint32_t *slot;
        uint32_t  cap, n;
    } externals;
    struct {                            /* while recording: views of storages with several */
        uint32_t *slot;
        uint32_t  cap, n;
    } views;
    weir_names          names;
    weir_poison_mark    poison_mark;    /* when recording began or was resumed */
    char               *poison_message; /* error message of a failure before it was paused */
    weir_status         poisoned_by;
    char               *broken_by;  /* message of the weir_graph_end that failed; NULL: none */
    bool                backward; /* gradients were recorded: what follows is the update phase */
    uint64_t            rng_total;      /* blocks of the random stream that a run moves on */
    bool                rng_parts;      /* a run ends at the start of a part: weir_random_advance */
    size_t              recorded;           /* nodes recorded */
    size_t              dropouts, batch_statistics;     /* recorded calls; weir_graph_stats */
    bool                stops;              /* weir_graph_stop was called: it has two halves */
    weir_waiting        waiting;
    bool                trains;             /* has gradients or updates; weir_graph_stats */
    size_t              budget, unbudgeted; /* bytes: largest total peak allowed (0: no budget), and
                                             * the total peak without a budget */
    uint32_t            lossy;              /* bits per quantised value; 0: lossless */
    uint32_t            n_offloaded;        /* number of storages in the spill file */
    weir_cache_use      cache;              /* whether the budgeted plan came from the cache */
    const char         *placement;          /* placement strategy; NULL: auto */
    double              began, record_ms, plan_ms;
    struct weir_recorded_step *form;   /* as recorded, before the passes; NULL while recording */
    struct weir_plan   *plan;
    int                 to_measure; /* steps that are still to be timed: measured_steps.h */
    struct weir_replan *replan;   /* while steps are timed for replanning; else NULL */
    struct weir_shared_budget *shared;  /* owned; NULL: the budget is this graph's alone, or none */
    double              measured; /* seconds of a timed step */
    size_t              replanned, refitted;    /* plans from measurements, and within less */
    uint64_t            runs, completed;    /* begun, and without a failure */
    WEIR_VEC(weir_agreed) agreed;
};

/* Returns the storage of a block in this graph; a block from outside gets an external storage,
 * which references it. WEIR_NONE if memory is short. The caller must have made the block's value
 * unevictable (weir_evict_fix). */
uint32_t weir_graph_storage_of(weir_graph *g, weir_block *b);

/* Returns the value for a view of a storage (offset in elements), an existing one if it is equal;
 * WEIR_NONE if memory is short. */
uint32_t weir_graph_value_of(weir_graph *g, uint32_t storage, const weir_layout *l, int64_t offset);

/* Adds a temporary storage and returns its number; WEIR_NONE if memory is short. */
uint32_t weir_graph_storage_new(weir_graph *g, size_t bytes, weir_kind kind);

/* Appends a node with the call's operation and a copy of its attributes, without operands. Returns
 * NULL if memory is short. Invalidates earlier pointers to nodes. */
weir_node *weir_graph_node_new(weir_graph *g, const weir_call *c);

/* Replaces storage `from` by `to` everywhere: its views become views of `to`, shifted by `offset`
 * elements. Both storages must have the same element type. */
void weir_graph_redirect(weir_graph *g, uint32_t from, uint32_t to, int64_t offset);

static inline uint32_t weir_storage_of(const weir_graph *g, uint32_t value)
{
    return g->values.at[value].storage;
}

/* Do both values view the same elements of the same storage with the same layout? */
bool weir_view_equal(const weir_graph *g, uint32_t a, uint32_t b);

static inline weir_storage *weir_storage_at(const weir_graph *g, uint32_t value)
{
    return &g->storages.at[g->values.at[value].storage];
}

/* The name that the program gave to the tensor, or to the one of which it is a copy; "" if it gave
 * no name. */
const char *weir_storage_name(const weir_graph *g, uint32_t storage);

/* Returns the node as a call. Layouts are copied into in[WEIR_EW_MAX_IN] and out[WEIR_MAX_OUT],
 * which the call points to; attributes are borrowed from the node. */
weir_call weir_node_call(const weir_graph *g, const weir_node *n, weir_layout *in,
                         weir_layout *out);

/* May output o of the node take over the memory of input k, provided that the input dies there?
 * Checks the op's flags and the views; liveness is left to the caller. */
bool weir_may_take_over(const weir_graph *g, const weir_node *n, int k, int o);

/* Checks the invariants above. Fails with ERR_STATE and names the first violation. */
weir_status weir_graph_check(const weir_graph *g);

#endif
