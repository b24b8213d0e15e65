/* reduce.c - definitions of sums, products, maxima and their positions, running sums and products,
 * and counts of correct predictions.
 *
 * A mean is a sum with scale 1 / (elements reduced): one op, one kernel, one final rounding. */
#include "graph/ops/axes.h"
#include "graph/ops/stored.h"

/* ---- sum ---- */

static weir_status reduce_infer(weir_call *c, bool wide)
{
    weir_desc out = weir_reduced(&c->in[0].desc, c->attr);

    WEIR_TRY(weir_check_types(c, WEIR_TYPES_ADDED));
    if (wide && !weir_is_any_float(out.dtype))
        out.dtype = WEIR_I64;
    return weir_out_checked(c, 0, &out);
}

/* Sums and products of integers of any type are i64. */
static weir_status sum_infer(weir_call *c)
{
    return reduce_infer(c, true);
}

/* Scales dy while it is small, then repeats it by a view. */
static weir_status sum_grad(weir_grad *g)
{
    const weir_reduce_attr *const a = g->attr;
    const weir_desc *const        d = &g->x[0]->layout.desc;
    const weir_desc               k = weir_reduced_kept(d, a);
    weir_tensor *const t = weir_reshape_as(g->dy[0], &k);

    return weir_grad_set(g, 0, weir_broadcast_to(a->scale == 1 ? t : weir_affine(t, a->scale, 0),
                                                 *d));
}

const weir_opdef weir_op_sum = {
    .name = "sum",
    .flags = WEIR_PURE | WEIR_STRIDED,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .autocast_f32 = 1,
    .differentiable = 1,
    .infer = sum_infer,
    .grad = sum_grad,
    .flops = weir_flops_input,
};

/* ---- maximum ---- */

/* Unlike a sum over no elements, a maximum or minimum of none is an error (as in NumPy). */
static weir_status amax_infer(weir_call *c)
{
    WEIR_TRY(reduce_infer(c, false));
    if (weir_shape_count(&c->in[0].desc) == 0 && weir_shape_count(&c->out[0].desc) > 0)
        return weir_call_fail(WEIR_ERR_SHAPE, c, "%s of no elements",
                              c->op == WEIR_OP_AMIN ? "minimum" : "maximum");
    return WEIR_OK;
}

static weir_status amax_grad(weir_grad *g)
{
    return weir_grad_set(g, 0, weir_record1(WEIR_OP_AMAX_GRAD, 3,
                                            (weir_tensor *[]){g->dy[0], g->x[0], g->y[0]}, g->attr,
                                            sizeof(weir_reduce_attr)));
}

const weir_opdef weir_op_amax = {
    .name = "amax",
    .flags = WEIR_PURE | WEIR_STRIDED,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .reads_in = 1,      /* the gradient looks for x equal to y: no index is stored */
    .reads_out = 1,
    .differentiable = 1,
    .infer = amax_infer,
    .grad = amax_grad,
    .flops = weir_flops_input,
};

/* As amax. */
const weir_opdef weir_op_amin = {
    .name = "amin",
    .flags = WEIR_PURE | WEIR_STRIDED,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .reads_in = 1,
    .reads_out = 1,
    .differentiable = 1,
    .infer = amax_infer,
    .grad = amax_grad,
    .flops = weir_flops_input,
};

/* dy, x, y -> dx: dy at the first place of each maximum, 0 elsewhere. */
static weir_status amax_grad_infer(weir_call *c)
{
    const weir_desc small = weir_reduced(&c->in[1].desc, c->attr);

    WEIR_TRY(weir_check_any_floats(c));
    WEIR_TRY(weir_check_dims(c, 0, "dy", &small));
    WEIR_TRY(weir_check_dims(c, 2, "y", &small));
    weir_out_like(c, 0, 1);
    return WEIR_OK;
}

const weir_opdef weir_op_amax_grad = {
    .name = "amax_grad",
    .flags = WEIR_PURE,
    .nin_min = 3,
    .nin_max = 3,
    .nout = 1,
    .infer = amax_grad_infer,
};

/* ---- product ---- */

static weir_status prod_grad(weir_grad *g)
{
    return weir_grad_set(g, 0, weir_record1(WEIR_OP_PROD_GRAD, 2,
                                            (weir_tensor *[]){g->dy[0], g->x[0]}, g->attr,
                                            sizeof(weir_reduce_attr)));
}

const weir_opdef weir_op_prod = {
    .name = "prod",
    .flags = WEIR_PURE | WEIR_STRIDED,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .autocast_f32 = 1,
    .reads_in = 1, /* the gradient multiplies the other factors: y / x is wrong where x is 0 */
    .differentiable = 1,
    .infer = sum_infer,
    .grad = prod_grad,
    .flops = weir_flops_input,
};

/* dy, x -> dx: dy times the product of the others. */
static weir_status prod_grad_infer(weir_call *c)
{
    const weir_desc small = weir_reduced(&c->in[1].desc, c->attr);

    WEIR_TRY(weir_check_any_floats(c));
    WEIR_TRY(weir_check_dims(c, 0, "dy", &small));
    weir_out_like(c, 0, 1);
    return WEIR_OK;
}

static double prod_grad_flops(const weir_call *c)
{
    return 3 * (double)weir_shape_count(&c->in[1].desc);
}

const weir_opdef weir_op_prod_grad = {
    .name = "prod_grad",
    .flags = WEIR_PURE,
    .nin_min = 2,
    .nin_max = 2,
    .nout = 1,
    .infer = prod_grad_infer,
    .flops = prod_grad_flops,
};

/* ---- the first place of a maximum or minimum along one axis: i64 ---- */

static weir_status arg_infer(weir_call *c)
{
    weir_desc out = weir_reduced(&c->in[0].desc, c->attr);

    WEIR_TRY(weir_check_types(c, WEIR_TYPES_ADDED));
    if (weir_shape_count(&c->in[0].desc) == 0 && weir_shape_count(&out) > 0)
        return weir_call_fail(WEIR_ERR_SHAPE, c, "%s of no elements",
                              c->op == WEIR_OP_ARGMIN ? "minimum" : "maximum");
    out.dtype = WEIR_I64;
    return weir_out_checked(c, 0, &out);
}

#define ARG(id)                                                                                    \
    const weir_opdef weir_op_##id = {                                                              \
        .name = #id,                                                                               \
        .flags = WEIR_PURE | WEIR_STRIDED,                                                         \
        .nin_min = 1,                                                                              \
        .nin_max = 1,                                                                              \
        .nout = 1,                                                                                 \
        .infer = arg_infer,                                                                        \
        .flops = weir_flops_input,                                                                 \
    }

ARG(argmax);
ARG(argmin);

/* ---- running sums: the gradient runs the other way ---- */

static weir_status cumsum_infer(weir_call *c)
{
    WEIR_TRY(weir_check_types(c, WEIR_TYPES_ADDED));
    return weir_infer_like(c);
}

static weir_status cumsum_grad(weir_grad *g)
{
    weir_cumsum_attr a = *(const weir_cumsum_attr *)g->attr;

    a.reverse = !a.reverse;
    return weir_grad_set(g, 0, weir_record1(WEIR_OP_CUMSUM, 1, g->dy, &a, sizeof a));
}

const weir_opdef weir_op_cumsum = {
    .name = "cumsum",
    .flags = WEIR_PURE,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .autocast_f32 = 1,
    .inplace = 1,
    .differentiable = 1,
    .infer = cumsum_infer,
    .grad = cumsum_grad,
    .flops = weir_flops_input,
};

/* ---- running products: the gradient divides by no factor, so any may be 0 ---- */

static weir_status cumprod_grad(weir_grad *g)
{
    weir_tensor *const in[] = {g->dy[0], g->x[0], g->y[0]};

    return weir_grad_set(g, 0, weir_record1(WEIR_OP_CUMPROD_GRAD, 3, in, g->attr,
                                            sizeof(weir_cumsum_attr)));
}

const weir_opdef weir_op_cumprod = {
    .name = "cumprod",
    .flags = WEIR_PURE,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .autocast_f32 = 1,
    .inplace = 1,
    .reads_in = 1,
    .reads_out = 1,
    .differentiable = 1,
    .infer = cumsum_infer,
    .grad = cumprod_grad,
    .flops = weir_flops_input,
};

/* dy, x, y -> dx */
static weir_status cumprod_grad_infer(weir_call *c)
{
    WEIR_TRY(weir_check_any_floats(c));
    WEIR_TRY(weir_check_dims(c, 1, "x", &c->in[0].desc));
    WEIR_TRY(weir_check_dims(c, 2, "y", &c->in[0].desc));
    return weir_infer_like(c);
}

static double cumprod_grad_flops(const weir_call *c)
{
    return 3 * weir_flops_input(c);
}

const weir_opdef weir_op_cumprod_grad = {
    .name = "cumprod_grad",
    .flags = WEIR_PURE,
    .nin_min = 3,
    .nin_max = 3,
    .nout = 1,
    .inplace = 7,
    .infer = cumprod_grad_infer,
    .flops = cumprod_grad_flops,
};

/* ---- counting correct answers: logits (n,c), target (n) -> i64 ---- */

static weir_status count_correct_infer(weir_call *c)
{
    const weir_desc out = weir_scalar(WEIR_I64);
    const weir_dtype t = c->in[1].desc.dtype;

    WEIR_TRY(weir_check_ndim(c, 0, "logits", 2));
    if (!weir_is_float(c->in[0].desc.dtype))
        return weir_call_fail(WEIR_ERR_DTYPE, c, "logits must be floats");
    if (t != WEIR_I32 && t != WEIR_I64)
        return weir_call_fail(WEIR_ERR_DTYPE, c, "target must be class numbers in i32 or i64");

    const weir_desc rows = weir_1d(t, c->in[0].desc.dim[0]);
    WEIR_TRY(weir_check_dims(c, 1, "target", &rows));
    weir_out_dense(c, 0, &out);
    return WEIR_OK;
}

const weir_opdef weir_op_count_correct = {
    .name = "count_correct",
    .flags = WEIR_PURE,
    .nin_min = 2,
    .nin_max = 2,
    .nout = 1,
    .infer = count_correct_infer,
    .flops = weir_flops_input,
};

/* ---- public functions ---- */

bool weir_reduce_axes(const char *who, const weir_tensor *x, uint32_t dims, bool keep,
                      weir_reduce_attr *a)
{
    if (!x) {
        (void)weir_fail_null(who, "x");
        return false;
    }

    const weir_desc *const d = &x->layout.desc;
    const uint32_t         all = (1u << d->ndim) - 1;

    if (dims & ~all) {
        char text[WEIR_DESC_TEXT];
        (void)weir_fail(WEIR_ERR_INVALID, "%s: dims %#x names axes that %s does not have", who,
                        dims, weir_desc_text(d, text));
        return false;
    }
    *a = (weir_reduce_attr){.dims = dims ? dims : all, .keep = keep, .scale = 1};
    return true;
}

/* Reduces bool as 0 and 1 in i64. */
static weir_tensor *record_counted(weir_op op, weir_tensor *x, const weir_reduce_attr *a)
{
    weir_tensor *const in = x->layout.desc.dtype == WEIR_BOOL ? weir_cast(x, WEIR_U8)
                                                              : weir_widen_stored(x, false);

    return weir_record1(op, 1, &in, a, sizeof *a);
}

weir_tensor *weir_sum(weir_tensor *x, uint32_t dims, bool keep)
{
    weir_reduce_attr a;

    if (!weir_reduce_axes("sum", x, dims, keep, &a))
        return NULL;
    return record_counted(WEIR_OP_SUM, x, &a);
}

weir_tensor *weir_mean(weir_tensor *x, uint32_t dims, bool keep)
{
    weir_reduce_attr a;

    /* Integers have no mean of their own type. */
    if (!weir_reduce_axes("mean", x, dims, keep, &a))
        return NULL;

    const weir_desc *const d = &x->layout.desc;
    char                   text[WEIR_DESC_TEXT];
    if (!weir_is_any_float(d->dtype))
        return WEIR_FAIL_NULL(WEIR_ERR_DTYPE, "mean: x must be f32, f64, f16 or bf16, not %s",
                              weir_desc_text(d, text));

    a.scale = 1 / weir_reduced_count(d, &a);    /* of nothing: 0 * inf, a NaN, as in NumPy */
    return weir_record1(WEIR_OP_SUM, 1, &x, &a, sizeof a);
}

static weir_tensor *extreme(weir_op op, weir_tensor *x, uint32_t dims, bool keep)
{
    weir_reduce_attr a;

    if (!weir_reduce_axes(weir_op_name(op), x, dims, keep, &a))
        return NULL;
    weir_tensor *const in = weir_widen_stored(x, true);
    return weir_narrow_stored(weir_record1(op, 1, &in, &a, sizeof a), x->layout.desc.dtype, true);
}

weir_tensor *weir_amax(weir_tensor *x, uint32_t dims, bool keep)
{
    return extreme(WEIR_OP_AMAX, x, dims, keep);
}

weir_tensor *weir_amin(weir_tensor *x, uint32_t dims, bool keep)
{
    return extreme(WEIR_OP_AMIN, x, dims, keep);
}

weir_tensor *weir_prod(weir_tensor *x, uint32_t dims, bool keep)
{
    weir_reduce_attr a;

    if (!weir_reduce_axes("prod", x, dims, keep, &a))
        return NULL;
    return record_counted(WEIR_OP_PROD, x, &a);
}

static weir_tensor *arg(weir_op op, weir_tensor *x, int axis, bool keep)
{
    const char *const who = weir_op_name(op);

    if (!x)
        return weir_null(who, "x");

    int at;
    if (weir_axis_of(who, &x->layout.desc, axis, &at) != WEIR_OK)
        return NULL;

    const weir_reduce_attr a = {.dims = (uint64_t)1 << at, .keep = keep, .scale = 1};
    weir_tensor *const     in = weir_widen_stored(x, true);
    return weir_record1(op, 1, &in, &a, sizeof a);
}

weir_tensor *weir_argmax(weir_tensor *x, int axis, bool keep)
{
    return arg(WEIR_OP_ARGMAX, x, axis, keep);
}

weir_tensor *weir_argmin(weir_tensor *x, int axis, bool keep)
{
    return arg(WEIR_OP_ARGMIN, x, axis, keep);
}

static weir_tensor *running(weir_op op, weir_tensor *x, int axis, bool reverse)
{
    const char *const who = weir_op_name(op);
    int               at;

    if (!x)
        return weir_null(who, "x");
    if (weir_axis_of(who, &x->layout.desc, axis, &at) != WEIR_OK)
        return NULL;

    const weir_cumsum_attr a = {{.dims = (uint64_t)1 << at, .keep = true, .scale = 1}, reverse};
    weir_tensor *const     in = weir_widen_stored(x, false);
    return weir_narrow_stored(weir_record1(op, 1, &in, &a, sizeof a), x->layout.desc.dtype, false);
}

weir_tensor *weir_cumsum(weir_tensor *x, int axis, bool reverse)
{
    return running(WEIR_OP_CUMSUM, x, axis, reverse);
}

weir_tensor *weir_cumprod(weir_tensor *x, int axis, bool reverse)
{
    return running(WEIR_OP_CUMPROD, x, axis, reverse);
}

weir_tensor *weir_count_correct(weir_tensor *logits, weir_tensor *target)
{
    weir_tensor *const in[] = {weir_half_to_f32(logits), target};

    return weir_record1(WEIR_OP_COUNT_CORRECT, 2, in, NULL, 0);
}
