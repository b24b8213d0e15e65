/* table.h - the op table: one row per operation, one shape set per line, checked several ways.
 *
 * A shape set writes the inputs' shapes as the operation sees them, each with the view it is given
 * through: "(3,4)" a tensor of its own, "(3,4)t" a transposed view (all axes reversed), "(3,4)b"
 * and "(3,4)l" views that repeat the first or the last axis. Gradients are checked with respect to
 * the tensors under the views. A call without inputs takes the one shape as what it is asked for.
 *
 * Adding an operation is adding a row: it then goes through every way there is. */
#ifndef WEIR_TEST_GRAPH_OPS_TABLE_H
#define WEIR_TEST_GRAPH_OPS_TABLE_H

#include "graph/ops/reference.h"

enum { OP_MAX_IN = 6 };

/* What an input is, which also says what its element type is. */
typedef enum op_kind {
    OP_NONE,
    OP_PARAM,       /* of the type under test, differentiated */
    OP_DATA,        /* of the type under test, not differentiated */
    OP_STATE,       /* the same, drawn once; compared after each call, as the call may write it */
    OP_COUNTER,     /* f64 scalar state that starts at 0 */
    OP_CLASS_I32,   /* class numbers below the last dim of input 0 */
    OP_CLASS_I64,
    OP_ROW_I32,     /* row numbers: below the first dim of input 0 */
    OP_ROW_I64,
    OP_MASK         /* bool */
} op_kind;

typedef struct op_in {
    op_kind kind;
    double  lo, hi;         /* values are spread over this range, all different */
} op_in;

typedef struct op_set {
    const char *in;         /* shapes; NULL ends a list */
    const char *note;       /* what is special, may be NULL */
    ref_options o;
    bool        flat;       /* no gradient flows: a cast to integers */
    weir_status status;     /* in a list of mistakes: what is expected, */
    const char *says;       /* and a part of the sentence (may be NULL) */
} op_set;

/* What a row's function builds its result from. */
typedef struct op_call {
    weir_device       *dev;
    const ref_options *o;
    weir_desc          desc;            /* of input 0, or asked of a call without inputs */
    weir_tensor       *in[OP_MAX_IN];
} op_call;

enum {
    OP_F32 = 1 << WEIR_F32,
    OP_F64 = 1 << WEIR_F64,
    OP_I32 = 1 << WEIR_I32,
    OP_I64 = 1 << WEIR_I64,
    OP_U8 = 1 << WEIR_U8,
    OP_BOOL = 1 << WEIR_BOOL,
    OP_F16 = 1 << WEIR_F16,
    OP_BF16 = 1 << WEIR_BF16,
    OP_I8 = 1 << WEIR_I8,
    OP_I16 = 1 << WEIR_I16,
    OP_U16 = 1 << WEIR_U16,
    OP_U32 = 1 << WEIR_U32,
    OP_U64 = 1 << WEIR_U64,
    OP_STORED = OP_I8 | OP_I16 | OP_U16 | OP_U32 | OP_U64,
    OP_HALVES = OP_F16 | OP_BF16,
    OP_FLOATS = OP_F32 | OP_F64,
    OP_ANY_FLOAT = OP_FLOATS | OP_HALVES,
    OP_INTEGERS = OP_I32 | OP_I64 | OP_U8 | OP_STORED,
    OP_NUMBERS = OP_ANY_FLOAT | OP_INTEGERS,
    OP_ALL = OP_NUMBERS | OP_BOOL
};

typedef struct op_row {
    const char   *name;                 /* unique; NULL ends a table */
    const char   *says;                 /* the operation's name in messages; NULL: name */
    weir_tensor *(*build)(const op_call *c);
    void        (*reference)(ref_call *c);
    unsigned      types;                /* of the inputs: a set of OP_F32 ... */
    op_in         in[OP_MAX_IN];
    /* Largest error in units of the element type's epsilon: of each element relative to itself, or,
     * if `rms`, root mean square error relative to the root mean square of the result. */
    double        eps;
    double        half_eps;             /* the same for f16 and bf16, where an exact answer is
                                         * rounded to them; 0: 1 */
    double        half_gradient;        /* of gradients in f16 and bf16, root mean square; 0: 8 */
    bool          rms;
    bool          library;              /* by a library: equal bits only per thread count */
    unsigned      optional;             /* bit i: input i may be NULL */
    unsigned      any_type;             /* bit i: input i may be of another type */
    int           runs;                 /* calls in a row on the same state; 0: 1 */
    const op_set *sets;
    const op_set *wrong;                /* mistakes beside those that every row is tried with */
} op_row;

extern const op_row op_elementwise[], op_reduce[], op_matmul[], op_attention[], op_recurrent[],
    op_conv[], op_pool2d[], op_norm[], op_math[], op_compare[], op_loss[], op_move[], op_slice[],
    op_gather[], op_order[], op_update[];

/* All of them, NULL at the end. */
extern const op_row *const op_families[];

#define OP_COUNT_OF(a) (sizeof(a) / sizeof *(a))

#endif
