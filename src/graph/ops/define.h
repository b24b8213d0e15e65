/* define.h - what the definition files of this folder share: checks, outputs, costs.
 * Defined in define.c but for what names another file: basic.c, layer_norm.c, norm.c. */
#ifndef WEIR_GRAPH_OPS_DEFINE_H
#define WEIR_GRAPH_OPS_DEFINE_H

#include "core/attr.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "graph/ops/op.h"

/* ---- for infer functions: each remembers a sentence about the call ---- */

/* Output i gets the desc and dense strides, if it fits into memory at all. */
weir_status weir_out_checked(weir_call *c, int i, const weir_desc *d);

/* Output i looks like input j. */
void weir_out_like(weir_call *c, int i, int j);

/* Sets of element types, bit t for type t. */
enum {
    WEIR_TYPES_FLOAT = 1 << WEIR_F32 | 1 << WEIR_F64,
    WEIR_TYPES_ANY_FLOAT = WEIR_TYPES_FLOAT | 1 << WEIR_F16 | 1 << WEIR_BF16,
    WEIR_TYPES_NUMBER = WEIR_TYPES_ANY_FLOAT | 1 << WEIR_I32 | 1 << WEIR_I64 | 1 << WEIR_U8
};

/* The type of each input is one of the set. */
weir_status weir_check_types(const weir_call *c, uint32_t types);

/* "f32, f64 or i32" into buf; returns buf. */
#define WEIR_TYPES_TEXT 64
char *weir_types_text(uint32_t types, char buf[WEIR_TYPES_TEXT]);

/* All inputs have one type: f32 or f64; any float. */
weir_status weir_check_floats(const weir_call *c);
weir_status weir_check_any_floats(const weir_call *c);

/* Input i, called `name`, has ndim axes. */
weir_status weir_check_ndim(const weir_call *c, int i, const char *name, int ndim);

/* Input i, called `name`, has exactly the dims d. */
weir_status weir_check_dims(const weir_call *c, int i, const char *name, const weir_desc *d);

/* The broadcast of all inputs, which have one dtype. */
weir_status weir_check_broadcast(const weir_call *c, weir_desc *out);

/* infer of calls whose output 0 looks like input 0. */
weir_status weir_infer_like(weir_call *c);

/* ---- costs ---- */

double weir_flops_none(const weir_call *c);     /* moves data only */
double weir_flops_input(const weir_call *c);    /* one per element of input 0 */

/* ---- for gradient functions and public functions ---- */

/* dx[i] = t; the failure if t is NULL. */
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

/* *out = an axis of x that may be counted from the end (-1: the last); fails, naming `who`. */
weir_status weir_axis_of(const char *who, const weir_desc *d, int axis, int *out);

/* NULL, for a public function whose argument is NULL: keeps the earlier message. */
weir_tensor *weir_null(const char *function, const char *argument);

/* y; where it is NULL the failure of one of the calls that `who` is made of is told again with the
 * inputs of `who`, of which optional ones may be NULL. */
weir_tensor *weir_retold(weir_tensor *y, const char *who, int nin, weir_tensor *const *in);

/* A desc as attributes. WEIR_OK only for a desc that weir_shape_check accepts. */
weir_status weir_desc_pack(const char *who, const weir_desc *d, weir_desc_attr *out);
weir_desc   weir_desc_unpack(const weir_desc_attr *a);

/* 1 / sqrt(var + eps): basic.c. */
weir_tensor *weir_rstd(weir_tensor *var, double eps);

/* t with the dims of `to`: t itself if it has them. */
weir_tensor *weir_reshape_as(weir_tensor *t, const weir_desc *to);

#endif
