/* pass_set.h - the passes by name and number, as a plan records which of them ran. */
#ifndef WEIR_GRAPH_IR_PASS_SET_H
#define WEIR_GRAPH_IR_PASS_SET_H

#include "graph/ir/pass_set.def"

typedef enum weir_pass {
#define X(ID, id, text) WEIR_PASS_##ID,
    WEIR_PASSES(X)
#undef X
    WEIR_PASS_COUNT
} weir_pass;

#endif
