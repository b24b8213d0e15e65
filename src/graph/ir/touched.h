/* touched.h - which storages some calls of a list read and write, and which others must therefore
 * stay behind them. For code that moves calls past one another. */
#ifndef WEIR_GRAPH_IR_TOUCHED_H
#define WEIR_GRAPH_IR_TOUCHED_H

#include "graph/ir/graph.h"

typedef struct weir_touched {
    uint32_t storages;
    bool    *read, *written;    /* [storages] */
    bool     caller, spill;     /* a call that runs the caller's code or is a collective, and a
                                 * transfer: each kind keeps its order */
} weir_touched;

/* Nothing is touched. False without memory; close it then, too. */
bool weir_touched_open(weir_touched *t, uint32_t storages);
void weir_touched_close(weir_touched *t);
void weir_touched_clear(weir_touched *t);

/* Adds the operands of a call, and with _call what kind it is, too. */
void weir_touched_operands(weir_touched *t, const weir_graph *g, const weir_node *n);
void weir_touched_call(weir_touched *t, const weir_graph *g, const weir_node *n);

/* Must the call stay behind those that were added? */
bool weir_touched_before(const weir_touched *t, const weir_graph *g, const weir_node *n);

#endif
