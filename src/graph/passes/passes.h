/* passes.h - the passes between recording and the plan, one file each; all keep every bit.
 *
 * Each works in place on g's nodes and values and marks nodes dead. ERR_NOMEM leaves a valid
 * graph. */
#ifndef WEIR_GRAPH_PASSES_PASSES_H
#define WEIR_GRAPH_PASSES_PASSES_H

#include "core/deps.h"
#include "graph/ir/graph.h"

#define WEIR_PASSES(X)                                                                             \
    X(FOLD, fold)       /* calls whose inputs are all constants become constants */                \
    X(COPIES, copies)   /* copies and identities that change nothing go */                         \
    X(CSE, cse)         /* equal calls become one */                                               \
    X(DCE, dce)         /* what nobody outside can see goes */                                     \
    X(MASK, mask)       /* a value only a ReLU's gradient still reads is kept as one bit each */   \
    X(RECAST, recast)   /* what a cast made for the forward is made again for gradients */        \
    X(FUSE, fuse)       /* element-wise chains become one pass over memory */                      \
    X(ORDER, order)     /* a sound order with a small peak: updates as early as possible */        \
    X(INPLACE, inplace) /* a result takes over the memory of an input that dies */

typedef enum weir_pass {
#define X(ID, id) WEIR_PASS_##ID,
    WEIR_PASSES(X)
#undef X
    WEIR_PASS_COUNT
} weir_pass;

/* Bit set of passes from options; an unknown name is ERR_INVALID. */
weir_status weir_passes_from(const weir_plan_options *o, uint32_t *set);

weir_status weir_pass_fold(weir_graph *g);
weir_status weir_pass_copies(weir_graph *g);
weir_status weir_pass_cse(weir_graph *g);
weir_status weir_pass_dce(weir_graph *g);
weir_status weir_pass_mask(weir_graph *g);
weir_status weir_pass_recast(weir_graph *g);
weir_status weir_pass_fuse(weir_graph *g);
weir_status weir_pass_order(weir_graph *g);

/* Drops dead nodes from the list, keeping order. */
void weir_graph_compact(weir_graph *g);

/* Dependencies of the list: of every storage, external ones included. You own them. */
weir_status weir_deps_of(const weir_graph *g, weir_deps *d);

#endif
