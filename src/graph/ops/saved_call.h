/* saved_call.h - attributes of recorded calls as words of text, and checks of calls from a file. */
#ifndef WEIR_GRAPH_OPS_SAVED_CALL_H
#define WEIR_GRAPH_OPS_SAVED_CALL_H

#include "graph/ops/op.h"

/* Most attributes of a call that a file may hold, in words of 8 bytes. */
#define WEIR_SAVED_WORDS 32

/* What the attributes of an op are, one letter for each word of 8 bytes:
 *     f  a double                            b  0 or 1
 *     i  any whole number                    t  a weir_dtype
 *     s  a size, 0 or more                   n  a number of axes, followed by that of each
 *     k  a number of a window, 0 to WEIR_WINDOW_MAX
 *     a  an axis                             m  a set of axes, a bit each
 * NULL for an op that no file holds: views, which are no calls; the program's own functions; what
 * passes insert. */
const char *weir_saved_attr(weir_op op);

/* The op of a name; WEIR_OP_COUNT if no op has it. */
weir_op weir_saved_op(const char *name);

/* Fails unless the call's attributes and the operands that they refer to are possible: what the
 * public functions check before they record, and what gradients take from their forward call. After
 * it and infer, kernels access only their operands. The call's inputs are checked layouts. */
weir_status weir_saved_check(const weir_call *c);

#endif
