/* op.h - shared by definitions of operations: recording a call, arguments of a gradient function.
 * Defined in basic.c, define.c, elementwise.c, mixed_precision.c and op_table.c. */
#ifndef WEIR_GRAPH_OPS_OP_H
#define WEIR_GRAPH_OPS_OP_H

#include "core/fused.h"
#include "core/op.h"
#include "core/status.h"
#include "weir/op.h"

#define OP(ID, id) extern const weir_opdef weir_op_##id;
#include "core/ops.def"
#undef OP
#define ROW(ID, id, ...) extern const weir_opdef weir_op_##id;
#include "core/elementwise.def"
#undef ROW

/* The definition of op. */
const weir_opdef *weir_opdef_of(weir_op op);

/* Records (graph on) or runs (graph off) a call: checks devices and NULLs, adds casts and dense
 * copies of inputs, infers shapes, and adds a tape node if a gradient may flow. in[] are borrowed;
 * the innermost scope holds out[nout]. nin may leave out optional inputs at the end. Fails with the
 * status of the first check or step that fails; out[] is NULL then. */
weir_status weir_record(weir_op op, int nin, weir_tensor *const *in, const void *attr,
                        size_t attr_bytes, weir_tensor **out);

/* The same on device d, for calls without inputs. */
weir_status weir_record_on(weir_device *d, weir_op op, int nin, weir_tensor *const *in,
                           const void *attr, size_t attr_bytes, weir_tensor **out);

/* The value of an option, or its default: 0 means the default unless the options are exact or it is
 * WEIR_ZERO. */
double weir_option(bool exact, double value, double fallback);

/* Repeats a random call with the numbers at position `rng` of an earlier one (dropout's gradient);
 * reserves no numbers. */
weir_status weir_record_at_rng(weir_op op, int nin, weir_tensor *const *in, const void *attr,
                               size_t attr_bytes, uint64_t rng, weir_tensor **out);

/* Records a call and returns output 0, or NULL on failure. A NULL among in[] gives NULL and keeps
 * the message of the earlier failure. */
weir_tensor *weir_record1(weir_op op, int nin, weir_tensor *const *in, const void *attr,
                          size_t attr_bytes);

/* Casts around functions that compute in f32 whatever the half. NULL gives NULL; where no cast is
 * due, they return t. The first casts a half t to f32, the second an f32 t to the type of a half
 * `like`, the third does so only inside weir_autocast_begin. The fourth casts t, an f32 sum or loss
 * of halves a and b of one type, to that type, except inside weir_autocast_begin. */
weir_tensor *weir_half_to_f32(weir_tensor *t);
weir_tensor *weir_f32_to_half(weir_tensor *t, const weir_tensor *like);
weir_tensor *weir_autocast_to_half(weir_tensor *t, const weir_tensor *like);
weir_tensor *weir_sum_to_half(weir_tensor *t, const weir_tensor *a, const weir_tensor *b);

/* Record a call of a row of elementwise.def; s and t are its attributes, 0 if it has none. */
weir_tensor *weir_row1(weir_op op, weir_tensor *a, double s, double t);
weir_tensor *weir_row2(weir_op op, weir_tensor *a, weir_tensor *b);
weir_tensor *weir_row3(weir_op op, weir_tensor *a, weir_tensor *b, weir_tensor *c);

/* Fails unless numbers of this float type can be drawn by UNIFORM (from s to t) or NORMAL (mean s,
 * standard deviation t). */
weir_status weir_draw_check(const char *who, weir_op op, weir_dtype type, double s, double t);

/* Arguments of a gradient function, which sets dx[i] for the bits of want. x[i] and y[i] have
 * elements only where the definition's reads_in and reads_out say so; the others are hollow (layout
 * only). */
typedef struct weir_grad {
    const weir_opdef *def;
    const void       *attr;
    int               nin, nout;
    weir_tensor     **x, **y;
    weir_tensor     **dy;       /* NULL where no gradient arrives */
    weir_tensor     **dx;       /* NULL at first */
    uint32_t          want;
    uint64_t          rng;      /* random position of the call */
} weir_grad;

/* Sums g over the axes that broadcasting from shape `to` has repeated; returns g itself if it has
 * repeated none. */
weir_tensor *weir_sum_to(weir_tensor *g, const weir_desc *to);

/* Returns WEIR_OK if t is not NULL, else the status of the failed call. */
weir_status weir_made(const weir_tensor *t);

/* Layout of an output: dtype and dims copied, dense strides. */
void weir_out_dense(weir_call *c, int i, const weir_desc *d);

#endif
