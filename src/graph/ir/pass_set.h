/* pass_set.h - numbers of the passes: bit i of a plan's `passes` says whether pass i ran. */
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
