/* op.h - what definitions of operations share: how a call is recorded, what a gradient is given.
 * Defined in define.c, elementwise.c, mixed_precision.c and op_table.c. */
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

/* Records (graph on) or runs (graph off) a call: checks devices and NULLs, makes strided inputs
 * dense where the op wants that, infers shapes, tapes the call if a gradient may flow. in[] are
 * borrowed, out[nout] borrowed from the innermost scope. An optional last input may be left out by
 * nin. */
weir_status weir_record(weir_op op, int nin, weir_tensor *const *in, const void *attr,
                        size_t attr_bytes, weir_tensor **out);

/* The same on a device of one's choice, for calls without inputs. */
weir_status weir_record_on(weir_device *d, weir_op op, int nin, weir_tensor *const *in,
                           const void *attr, size_t attr_bytes, weir_tensor **out);

/* A random call again at position `rng` of an earlier one (dropout's gradient): reserves nothing.
 */
weir_status weir_record_at_rng(weir_op op, int nin, weir_tensor *const *in, const void *attr,
                               size_t attr_bytes, uint64_t rng, weir_tensor **out);

/* One output, NULL on failure. A NULL among in[] gives NULL and keeps the earlier message. */
weir_tensor *weir_record1(weir_op op, int nin, weir_tensor *const *in, const void *attr,
                          size_t attr_bytes);

/* For functions made of several calls, in mixed precision (weir_autocast_begin): t, a half as f32;
 * t, an f32 in the type of a half `like`. Else t itself. NULL gives NULL. */
weir_tensor *weir_autocast_to_f32(weir_tensor *t);
weir_tensor *weir_autocast_to_half(weir_tensor *t, const weir_tensor *like);

/* Shorthands for rows: attributes s and t, 0 when a row has none. */
weir_tensor *weir_row1(weir_op op, weir_tensor *a, double s, double t);
weir_tensor *weir_row2(weir_op op, weir_tensor *a, weir_tensor *b);
weir_tensor *weir_row3(weir_op op, weir_tensor *a, weir_tensor *b, weir_tensor *c);

/* May numbers of this float type be drawn by UNIFORM (s to t), NORMAL (mean s, deviation t)? */
weir_status weir_draw_check(const char *who, weir_op op, weir_dtype type, double s, double t);

/* What a gradient function is given. x[i] and y[i] hold elements only where the definition's
 * reads_in and reads_out say so; elsewhere they are hollow: layout only. It fills dx[i] for the
 * bits of want. */
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

/* Sums g over the axes that broadcasting `to` into g's shape repeated. Returns g itself if none
 * was. */
weir_tensor *weir_sum_to(weir_tensor *g, const weir_desc *to);

/* Result check for grad functions: WEIR_OK if t, else the remembered failure. */
weir_status weir_made(const weir_tensor *t);

/* Layout of an output: dtype and dims copied, dense strides. */
void weir_out_dense(weir_call *c, int i, const weir_desc *d);

#endif
