/* graph.h - a recorded step: nodes, values and storages in index arrays.
 *
 * A storage is a range of memory: external (a block held outside the graph: parameter, state,
 * input, output) or temporary (the planner's). A value is a view of a storage: layout and offset;
 * views cost nothing and are never nodes. A node reads values and writes new values, whose storages
 * it alone creates; if its op mutates inputs, it overwrites external storages in place, or the
 * device copy of one that lives in the spill file.
 *
 * Invariants (weir_graph_check): every temporary storage is written by exactly one live node,
 * before any live node reads it; the list of nodes is a valid order; inputs and outputs name
 * existing values. */
#ifndef WEIR_GRAPH_IR_GRAPH_H
#define WEIR_GRAPH_IR_GRAPH_H

#include "core/fused.h"
#include "core/phase.h"
#include "core/status.h"
#include "core/tensor.h"
#include "core/vec.h"
#include "device/memory/block.h"
#include "weir/graph.h"

#define WEIR_NONE UINT32_MAX

/* Flags of ops whose calls never run twice. */
#define WEIR_RUNS_ONCE (WEIR_UPDATE | WEIR_CALLER)

typedef struct weir_storage {
    size_t      bytes;
    weir_kind   kind;
    weir_block *block; /* external: referenced; temporary being recorded: not; else NULL */
    bool        external;
    bool        made;       /* external: a result of this graph that outlives the recording */
    uint32_t    values;     /* first value of the list of views of this storage */
    uint32_t    origin;     /* storage that this one is a copy of; WEIR_NONE: none */
    bool        offloaded;  /* external: lives in the spill file; nodes see copies of it */
    bool        filled;     /* while a plan is bound: an instruction seen so far filled it */
    uint64_t    changed;    /* external: dev->changes when the last node that overwrites */
    const char *changed_by; /* it was recorded, and that node's operation; NULL: none */
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
    uint32_t          region;     /* to be recomputed for gradients; 0: none */
    bool              recomputed; /* reruns an earlier node; added by a budget */
    uint32_t          segment;    /* second run of a checkpoint that it belongs to; 0: none */
    uint32_t          in[WEIR_EW_MAX_IN];
    uint32_t          out[WEIR_MAX_OUT];
    void             *attr; /* owned copy */
    size_t            attr_bytes;
    uint64_t          rng; /* position relative to the beginning of a run */
} weir_node;

typedef enum weir_graph_state {
    WEIR_GRAPH_RECORDING, WEIR_GRAPH_SUSPENDED, WEIR_GRAPH_PLANNED, WEIR_GRAPH_BROKEN
} weir_graph_state;

struct weir_plan;
struct weir_session;

struct weir_graph {
    weir_device            *dev;     /* referenced */
    struct weir_session    *session; /* of dev */
    weir_graph_state        state;
    uint64_t                id;
    uint32_t                depth; /* scopes open outside it */
    WEIR_VEC(weir_storage)  storages;
    WEIR_VEC(weir_value)    values;
    WEIR_VEC(weir_node)     nodes;
    WEIR_VEC(weir_tensor *) kept;       /* referenced */
    weir_tensor     *left;      /* hollow handles of results not kept; referenced */
    WEIR_VEC(weir_tensor *) parked;     /* handles of its scope while suspended */
    WEIR_VEC(void *) tapes;             /* its tape nodes, referenced: cut when recording ends */
    struct {                            /* block -> external storage, open addressing */
        uint32_t *slot;
        uint32_t  cap, n;
    } externals;
    struct {                            /* values of storages with several, while recorded */
        uint32_t *slot;
        uint32_t  cap, n;
    } views;
    weir_poison_mark    poison_mark;    /* when recording began or was resumed */
    char               *poison_message; /* the sentence of a failure before suspension */
    weir_status         poisoned_by;
    bool                backward; /* gradients were recorded: updates are the last phase now */
    uint64_t            rng_total;
    size_t              recorded;           /* nodes recorded */
    size_t              budget, unbudgeted; /* total peak allowed (0: any), and without it */
    uint32_t            lossy;              /* bits of quantised values; 0: lossless */
    uint32_t            n_offloaded;        /* number of storages in the spill file */
    weir_cache_use      cache;              /* of the budget's plan */
    const char         *placement;          /* strategy of its plans; NULL: auto */
    double              began, record_ms, plan_ms;
    struct weir_plan   *plan;
    struct weir_replan *replan;   /* while steps are measured for replanning */
    double              measured; /* seconds of such a step */
    size_t              replanned;
    uint64_t            runs;
};

/* The storage of a block as this recording sees it; WEIR_NONE when memory is short. The block's
 * value can no longer be evicted (weir_evict_fix). */
uint32_t weir_graph_storage_of(weir_graph *g, weir_block *b);

/* The value for a view of a storage, shared if an equal one exists. WEIR_NONE when memory is
 * short. */
uint32_t weir_graph_value_of(weir_graph *g, uint32_t storage, const weir_layout *l, int64_t offset);

/* Adds a temporary storage; WEIR_NONE when memory is short. */
uint32_t weir_graph_storage_new(weir_graph *g, size_t bytes, weir_kind kind);

/* Appends a node with the call's operation and a copy of its attributes, without operands; NULL
 * when memory is short. */
weir_node *weir_graph_node_new(weir_graph *g, const weir_call *c);

/* Turns all views of `from` into views of `to`, shifted by `offset` elements; both have the same
 * type. */
void weir_graph_redirect(weir_graph *g, uint32_t from, uint32_t to, int64_t offset);

static inline uint32_t weir_storage_of(const weir_graph *g, uint32_t value)
{
    return g->values.at[value].storage;
}

/* Are both the same elements of the same storage, with the same shape? */
bool weir_view_equal(const weir_graph *g, uint32_t a, uint32_t b);

static inline weir_storage *weir_storage_at(const weir_graph *g, uint32_t value)
{
    return &g->storages.at[g->values.at[value].storage];
}

/* The node as a call: layouts are copied into in/out (WEIR_EW_MAX_IN and WEIR_MAX_OUT entries). */
weir_call weir_node_call(const weir_graph *g, const weir_node *n, weir_layout *in,
                         weir_layout *out);

/* May output o of the node take over the memory of input k, as far as one node can tell? Liveness
 * knows whether the input dies there. */
bool weir_may_take_over(const weir_graph *g, const weir_node *n, int k, int o);

/* Checks the invariants above. ERR_STATE and a sentence about the first violation. */
weir_status weir_graph_check(const weir_graph *g);

#endif
