/* pass_set.h - the passes by name and number: what a plan says it was made with. */
#ifndef WEIR_GRAPH_IR_PASS_SET_H
#define WEIR_GRAPH_IR_PASS_SET_H

#define WEIR_PASSES(X)                                                                             \
    X(FOLD, fold)     /* calls whose inputs are all constants become constants */                  \
    X(COPIES, copies) /* copies and identities that change nothing go */                           \
    X(CSE, cse)       /* equal calls become one */                                                 \
    X(DCE, dce)       /* what nobody outside can see goes */                                       \
    X(RELU_SIGN_BITS,                                                                              \
      relu_sign_bits) /* a value only a ReLU's gradient still reads is kept as one bit each */     \
    X(REMAT_CAST, remat_cast) /* what a cast made for the forward is made again for gradients */   \
    X(FUSE, fuse)             /* element-wise chains become one pass over memory */                \
    X(ORDER, order)           /* a sound order with a small peak: updates as early as possible */  \
    X(INPLACE, inplace)       /* a result takes over the memory of an input that dies */

typedef enum weir_pass {
#define X(ID, id) WEIR_PASS_##ID,
    WEIR_PASSES(X)
#undef X
    WEIR_PASS_COUNT
} weir_pass;

#endif
