/* tracing.h - what a watched run adds to its device's trace: instructions under their names, copies
 * to and from the spill file, collectives, and memory as counters. */
#ifndef WEIR_GRAPH_RUNTIME_TRACING_H
#define WEIR_GRAPH_RUNTIME_TRACING_H

#include "graph/plan/plan.h"

typedef struct weir_tracing {
    const weir_graph *g;
    size_t           *live;     /* [instructions] live bytes of the arena during each; or NULL */
    double           *began;    /* [instructions] seconds of the device's clock */
    size_t            resident; /* bytes on the device besides the arena */
    size_t            spilled;  /* bytes of this step in the spill file */
} weir_tracing;

/* Begins a run. Without a trace, or if memory runs out, the functions below do nothing. */
void weir_tracing_begin(weir_tracing *t, const weir_graph *g);

/* Adds instruction i, which began at `begin` and has just ended. */
void weir_tracing_instr(weir_tracing *t, uint32_t i, double begin);

/* Ends the run, also one that failed. */
void weir_tracing_end(weir_tracing *t);

#endif
