/* op.h - an operation: its number, its definition, and a call of it.
 *
 * Passes, devices and dumps learn about an op only from its definition and from the call; no code
 * switches over ops. ops.def and elementwise.def are the lists, and everything else is generated
 * from them. Definitions are in graph/ops; lower layers see only the one that a call carries. */
#ifndef WEIR_CORE_OP_H
#define WEIR_CORE_OP_H

#include "core/shape.h"
#include "weir/base.h"

typedef enum weir_op {
#define OP(ID, id) WEIR_OP_##ID,
#include "core/ops.def"
#undef OP
#define ROW(ID, id, ...) WEIR_OP_##ID,
#include "core/elementwise.def"
#undef ROW
    WEIR_OP_COUNT
} weir_op;

#define WEIR_MAX_IN  8      /* inputs of a recorded call; a fused group may have more */
#define WEIR_MAX_OUT 4

/* One call of an op. attr points to a plain struct whose fields are all 8 bytes wide (int64_t,
 * uint64_t, double), so that it has no padding and can be compared and hashed as bytes. A call's
 * random position is passed separately. */
typedef struct weir_call {
    weir_op            op;
    const struct weir_opdef *def;   /* of op; NULL in a call that a kernel builds internally */
    int                nin, nout;
    const weir_layout *in;          /* [nin] */
    weir_layout       *out;         /* [nout]; infer fills it */
    const void        *attr;
    size_t             attr_bytes;
    int                alias;       /* infer: the input that output 0 is a view of, else -1 */
    int64_t            alias_offset;    /* infer: element of that input where the view begins */
} weir_call;

enum {
    WEIR_PURE = 1 << 0,         /* same inputs, same bits: may be merged, dropped, repeated */
    WEIR_ELEMENTWISE = 1 << 1,  /* a row of elementwise.def: may be fused */
    WEIR_STRIDED = 1 << 2,      /* kernels take any strides; other ops get dense inputs */
    WEIR_RANDOM = 1 << 3,       /* draws; reserves weir_rng_blocks(elements of output 0) */
    WEIR_VIEW = 1 << 4,         /* infer may return a view of input 0: then nothing runs */
    WEIR_UPDATE = 1 << 5,       /* writes its mutated inputs: is not reordered, runs once */
    WEIR_CALLER = 1 << 6,       /* runs the user's code: such calls keep their order */
    WEIR_PROMOTE_FLOAT = 1 << 7, /* integers among the promoted inputs become f32 */
    WEIR_ROWWISE = 1 << 9,      /* an update of each element of input 0 by the same element of
                                 * input 1 and of others of this shape, and by scalars */
    WEIR_COLLECTIVE = 1 << 10,  /* other ranks wait for it: it is never dropped */
    WEIR_PRESERVE_FORMAT = 1 << 11, /* row-major results of row-major operands of four axes:
                                     * graph/frontend/memory_format.h */
    WEIR_PRODUCT = 1 << 8       /* nearly all of its flops are multiplications with an addition */
};

struct weir_grad;       /* argument of a gradient function: graph/ops/op.h */

typedef struct weir_opdef {
    const char *name;
    uint32_t    flags;
    int         nin_min, nin_max, nout;
    uint32_t    mutates;        /* bit i: input i is overwritten */
    uint32_t    write_only;     /* bit i: input i is overwritten, not read; may have no value yet */
    uint32_t    inplace;        /* bit i: output 0 may take over input i's memory if sizes agree */
    uint32_t    reads_in;       /* bit i: the gradient reads input i's elements */
    uint32_t    reads_out;      /* bit i: the gradient reads output i's elements */
    uint32_t    differentiable; /* bit i: a gradient flows to input i */
    uint32_t    unit_last;      /* bit i: kernels take any strides of input i, but elements of its
                                 * last axis must be adjacent */
    uint32_t    promotes;       /* bit i: input i is cast to the common type of these inputs
                                 * (weir_dtype_promote) before the call is recorded */
    uint32_t    autocast_half;  /* bit i: in mixed precision (weir_autocast_begin) input i is cast
                                 * to the half type */
    uint32_t    autocast_f32;   /* bit i: in mixed precision a half input i is cast to f32 */
    weir_status (*infer)(weir_call *c);                 /* checks, fills out layouts and alias */
    weir_status (*grad)(struct weir_grad *g);           /* records gradients; NULL: no gradient */
    double      (*flops)(const weir_call *c);           /* NULL: one per element of output 0 */
} weir_opdef;

/* True if kernels take input i with this layout; else a dense copy is made. */
bool weir_op_takes(const weir_opdef *def, int i, const weir_layout *l);

/* The operation's name as in its definition: "matmul". */
const char *weir_op_name(weir_op op);

/* Fails: remembers "NAME: <sentence> (inputs f32(2,3), f32(4))" and returns the status. */
weir_status weir_call_fail(weir_status s, const weir_call *c, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Bytes a call reads and writes, each operand once. */
double weir_call_bytes(const weir_call *c);
/* Floating-point operations of a call by its definition; else one per element of output 0. */
double weir_call_flops(const weir_call *c);
/* Multiplications with an addition, if it is a product: whole ones per element of output 0, which
 * leaves out a bias. Else 0. */
double weir_call_multiply_adds(const weir_call *c);
/* Estimated seconds of a call where times are not measured; the same on every machine. */
double weir_call_estimate(const weir_call *c);

#endif
