/* define.h - helpers of the definition files of this folder: checks, outputs, costs.
 * Defined in define.c, except where another file is named: basic.c, layer_norm.c, norm.c. */
#ifndef WEIR_GRAPH_OPS_DEFINE_H
#define WEIR_GRAPH_OPS_DEFINE_H

#include "core/attr.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "graph/ops/op.h"

/* ---- for infer functions: failed checks set a message with op, argument and shapes ---- */

/* Gives output i the desc d and dense strides. Fails with ERR_SHAPE if its bytes overflow. */
weir_status weir_out_checked(weir_call *c, int i, const weir_desc *d);

/* Gives output i type and shape of input j, and dense strides. */
void weir_out_like(weir_call *c, int i, int j);

/* Sets of element types, bit t for type t. ADDED: those that kernels reduce. */
enum {
    WEIR_TYPES_FLOAT = 1 << WEIR_F32 | 1 << WEIR_F64,
    WEIR_TYPES_ANY_FLOAT = WEIR_TYPES_FLOAT | 1 << WEIR_F16 | 1 << WEIR_BF16,
    WEIR_TYPES_ADDED = WEIR_TYPES_ANY_FLOAT | 1 << WEIR_I32 | 1 << WEIR_I64 | 1 << WEIR_U8,
    WEIR_TYPES_NUMBER = WEIR_TYPES_ADDED | 1 << WEIR_I8 | 1 << WEIR_I16 | 1 << WEIR_U16 |
                        1 << WEIR_U32 | 1 << WEIR_U64
};

/* Fails with ERR_DTYPE unless the type of each input is in the set. */
weir_status weir_check_types(const weir_call *c, uint32_t types);

/* "f32, f64 or i32" into buf; returns buf. */
#define WEIR_TYPES_TEXT 64
char *weir_types_text(uint32_t types, char buf[WEIR_TYPES_TEXT]);

/* Fail with ERR_DTYPE unless all inputs have one type: f32 or f64; any float. The last one checks
 * the first n inputs only. */
weir_status weir_check_floats(const weir_call *c);
weir_status weir_check_any_floats(const weir_call *c);
weir_status weir_check_first_floats(const weir_call *c, int n);

/* Fails with ERR_DTYPE if input i is not of type t, which input 0 has. */
weir_status weir_check_type(const weir_call *c, int i, weir_dtype t);

/* Fails with ERR_SHAPE unless input i, called `name` in the message, has ndim axes. */
weir_status weir_check_ndim(const weir_call *c, int i, const char *name, int ndim);

/* Fails with ERR_SHAPE unless input i, called `name`, has exactly the dims of d. */
weir_status weir_check_dims(const weir_call *c, int i, const char *name, const weir_desc *d);

/* *out = the desc to which all inputs broadcast. Fails unless they do and have one type. */
weir_status weir_check_broadcast(const weir_call *c, weir_desc *out);

/* The infer function of calls whose output 0 has type and shape of input 0. */
weir_status weir_infer_like(weir_call *c);

/* Refuses: programs cannot record the operation. Planners, which insert it, set its results. */
weir_status weir_infer_planner_only(weir_call *c);

/* ---- costs ---- */

double weir_flops_none(const weir_call *c);     /* moves data only */
double weir_flops_input(const weir_call *c);    /* one per element of input 0 */

/* ---- for gradient functions and public functions ---- */

/* dx[i] = t. Returns the status of the failed call if t is NULL. */
weir_status weir_grad_set(weir_grad *g, int i, weir_tensor *t);

/* dx[i] = t, summed to the shape of input i. */
weir_status weir_grad_set_summed(weir_grad *g, int i, weir_tensor *t);

/* Gradient of the row bn_apply: norm.c. */
weir_status weir_bn_apply_grad(weir_grad *g);

/* Gradients of the rows ln_apply and rms_apply: layer_norm.c. */
weir_status weir_ln_apply_grad(weir_grad *g);
weir_status weir_rms_apply_grad(weir_grad *g);

static inline bool weir_wants(const weir_grad *g, int i)
{
    return (g->want >> i & 1) != 0;
}

/* *out = the axis counted from the front; -1 means the last. Fails with ERR_INVALID and names `who`
 * if d has no such axis. */
weir_status weir_axis_of(const char *who, const weir_desc *d, int axis, int *out);

/* Returns NULL for a public function whose argument is NULL; keeps the message of the failure that
 * the argument came from, if there was one. */
weir_tensor *weir_null(const char *function, const char *argument);

/* Returns y. If it is NULL, the message of the failed inner call is replaced by one that names
 * `who` and its inputs, of which optional ones may be NULL. */
weir_tensor *weir_retold(weir_tensor *y, const char *who, int nin, weir_tensor *const *in);

/* Stores a desc as attributes. Fails, and names `who`, for a desc that weir_shape_check refuses. */
weir_status weir_desc_pack(const char *who, const weir_desc *d, weir_desc_attr *out);
weir_desc   weir_desc_unpack(const weir_desc_attr *a);

/* 1 / sqrt(var + eps): basic.c. */
weir_tensor *weir_rstd(weir_tensor *var, double eps);

/* t reshaped to the dims of `to`; t itself if it has them. */
weir_tensor *weir_reshape_as(weir_tensor *t, const weir_desc *to);

#endif
