/* reduce.c - definitions of sums, means and maxima over axes, and of counting correct answers.
 *
 * A mean is a sum whose scale is 1 / elements reduced: one op, one kernel, one final rounding. */
#include "graph/op/define.h"

/* ---- axes ---- */

/* The shape of d after the reduction a. */
static weir_desc reduced(const weir_desc *d, const weir_reduce_attr *a)
{
    weir_desc out = {.dtype = d->dtype, .ndim = 0};

    for (int i = 0; i < d->ndim; i++) {
        const bool drop = (a->dims >> i & 1) != 0;
        if (!drop)
            out.dim[out.ndim++] = d->dim[i];
        else if (a->keep)
            out.dim[out.ndim++] = 1;
    }
    return out;
}

/* The shape of x with reduced axes as 1: what a gradient broadcasts from. */
static weir_desc kept(const weir_desc *d, const weir_reduce_attr *a)
{
    const weir_reduce_attr keep = {.dims = a->dims, .keep = 1};

    return reduced(d, &keep);
}

/* ---- sum ---- */

/* Integers sum in their own type. */
static weir_status reduce_infer(weir_call *c)
{
    const weir_desc *const d = &c->in[0].desc;
    const weir_desc        out = reduced(d, c->attr);

    if (!weir_is_number(d->dtype))
        return weir_call_fail(WEIR_ERR_DTYPE, c, "takes f32, f64, i32, i64");
    weir_out_dense(c, 0, &out);
    return WEIR_OK;
}

/* Scaled while it is small, then a view that repeats it. */
static weir_status sum_grad(weir_grad *g)
{
    const weir_reduce_attr *const a = g->attr;
    const weir_desc *const        d = &g->x[0]->layout.desc;
    const weir_desc               k = kept(d, a);
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
    .differentiable = 1,
    .infer = reduce_infer,
    .grad = sum_grad,
    .flops = weir_flops_input,
};

/* ---- maximum ---- */

/* A sum over nothing is 0; a maximum of nothing does not exist (as in NumPy). */
static weir_status amax_infer(weir_call *c)
{
    WEIR_TRY(reduce_infer(c));
    if (weir_shape_count(&c->in[0].desc) == 0 && weir_shape_count(&c->out[0].desc) > 0)
        return weir_call_fail(WEIR_ERR_SHAPE, c, "no elements have no maximum");
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
    .reads_in = 1,      /* where x equals y is found again: no index is stored */
    .reads_out = 1,
    .differentiable = 1,
    .infer = amax_infer,
    .grad = amax_grad,
    .flops = weir_flops_input,
};

/* dy, x, y -> dx: dy at the first place of each maximum, 0 elsewhere. */
static weir_status amax_grad_infer(weir_call *c)
{
    const weir_desc small = reduced(&c->in[1].desc, c->attr);

    WEIR_TRY(weir_check_floats(c));
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

/* ---- counting correct answers: logits (n,c), target (n) -> i64 ---- */

static weir_status count_correct_infer(weir_call *c)
{
    const weir_desc out = weir_scalar(WEIR_I64);
    const weir_dtype t = c->in[1].desc.dtype;

    WEIR_TRY(weir_check_ndim(c, 0, "logits", 2));
    if (!weir_is_float(c->in[0].desc.dtype))
        return weir_call_fail(WEIR_ERR_DTYPE, c, "logits must be f32 or f64");
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

/* The attributes of reducing x over dims; false, with the message, if that makes no sense. */
static bool reduce_attr(const char *who, const weir_tensor *x, uint32_t dims, bool keep,
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

weir_tensor *weir_sum(weir_tensor *x, uint32_t dims, bool keep)
{
    weir_reduce_attr a;

    if (!reduce_attr("sum", x, dims, keep, &a))
        return NULL;
    return weir_record1(WEIR_OP_SUM, 1, &x, &a, sizeof a);
}

weir_tensor *weir_mean(weir_tensor *x, uint32_t dims, bool keep)
{
    weir_reduce_attr a;

    /* Integers have no mean of their own type. */
    if (!reduce_attr("mean", x, dims, keep, &a))
        return NULL;

    const weir_desc *const d = &x->layout.desc;
    char                   text[WEIR_DESC_TEXT];
    if (!weir_is_float(d->dtype))
        return WEIR_FAIL_NULL(WEIR_ERR_DTYPE, "mean: takes f32 or f64, x is %s",
                              weir_desc_text(d, text));

    double count = 1;
    for (int i = 0; i < d->ndim; i++)
        if (a.dims >> i & 1)
            count *= (double)d->dim[i];
    a.scale = 1 / count;    /* of nothing: 0 * inf, a NaN, as in NumPy */
    return weir_record1(WEIR_OP_SUM, 1, &x, &a, sizeof a);
}

weir_tensor *weir_amax(weir_tensor *x, uint32_t dims, bool keep)
{
    weir_reduce_attr a;

    if (!reduce_attr("amax", x, dims, keep, &a))
        return NULL;
    return weir_record1(WEIR_OP_AMAX, 1, &x, &a, sizeof a);
}

weir_tensor *weir_count_correct(weir_tensor *logits, weir_tensor *target)
{
    return weir_record1(WEIR_OP_COUNT_CORRECT, 2, (weir_tensor *[]){logits, target}, NULL, 0);
}
