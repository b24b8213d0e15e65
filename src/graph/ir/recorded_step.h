/* recorded_step.h - a graph as it was recorded, before any pass, as lines of text.
 *
 * The lines name storages and values by number, in the order in which they first appear: first the
 * external storages of `bound`, then the outputs of calls. Passes change the graph itself, so the
 * lines are written when recording ends. docs/reference/graph-file.md describes them. */
#ifndef WEIR_GRAPH_IR_RECORDED_STEP_H
#define WEIR_GRAPH_IR_RECORDED_STEP_H

#include "core/text.h"
#include "core/vec.h"
#include "weir/saved.h"

struct weir_graph;

/* An external storage, or an output. */
typedef struct weir_bound_tensor {
    weir_role    role;
    char        *name;          /* owned; NULL: not named yet */
    weir_tensor *tensor;        /* referenced */
    uint32_t     value;         /* output: the number of its value; else unused */
} weir_bound_tensor;

/* The storage of a result that outlives a run. */
typedef struct weir_lasting {
    const void *block;          /* borrowed from the graph's storage */
    uint32_t    storage;        /* its number in the text */
} weir_lasting;

typedef struct weir_recorded_step {
    weir_string             body;       /* lines "view" and "call" */
    uint32_t                externals;  /* the first ones of bound; outputs follow */
    WEIR_VEC(weir_bound_tensor)    bound;
    WEIR_VEC(weir_binding)  list;       /* of weir_graph_bindings */
    uint64_t                random;     /* blocks of the random stream that a run draws */
    WEIR_VEC(weir_lasting)     made;       /* results that outlive a run */
    uint32_t                values;     /* number of the next value of the text */
    const char             *refused;    /* operation that no file holds, static or the program's;
                                         * NULL: none */
} weir_recorded_step;

#endif
