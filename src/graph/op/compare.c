/* compare.c - definitions of comparisons (numbers in, bool out), logic (bool) and where.
 *
 * Inputs broadcast (NumPy) and may have any strides; the output is dense. Only where has a
 * gradient: each element's goes to the input that it was taken from. */
#include "graph/op/define.h"

/* ---- infer ---- */

static weir_status bool_out(weir_call *c, weir_desc d)
{
    d.dtype = WEIR_BOOL;
    return weir_out_checked(c, 0, &d);
}

static weir_status equal_infer(weir_call *c)
{
    weir_desc d;

    WEIR_TRY(weir_check_broadcast(c, &d));
    return bool_out(c, d);
}

static weir_status order_infer(weir_call *c)
{
    weir_desc d;

    WEIR_TRY(weir_check_broadcast(c, &d));
    if (d.dtype == WEIR_BOOL)
        return weir_call_fail(WEIR_ERR_DTYPE, c, "takes f32, f64, i32, i64, u8");
    return bool_out(c, d);
}

static weir_status logical_infer(weir_call *c)
{
    weir_desc d;

    WEIR_TRY(weir_check_broadcast(c, &d));
    if (d.dtype != WEIR_BOOL)
        return weir_call_fail(WEIR_ERR_DTYPE, c, "takes bool");
    return bool_out(c, d);
}

static weir_status where_infer(weir_call *c)
{
    const weir_desc *const cond = &c->in[0].desc, *const a = &c->in[1].desc,
                    *const b = &c->in[2].desc;
    weir_desc both, d;

    if (cond->dtype != WEIR_BOOL)
        return weir_call_fail(WEIR_ERR_DTYPE, c, "the condition must be bool, it is %s",
                              weir_dtype_name(cond->dtype));
    if (a->dtype != b->dtype)
        return weir_call_fail(WEIR_ERR_DTYPE, c, "input 1 is %s but input 2 is %s",
                              weir_dtype_name(a->dtype), weir_dtype_name(b->dtype));
    if (!weir_shape_broadcast(a, b, &both) || !weir_shape_broadcast(&both, cond, &d))
        return weir_call_fail(WEIR_ERR_SHAPE, c, "the inputs do not broadcast to one shape");
    return weir_out_checked(c, 0, &d);
}

/* ---- gradient ---- */

static weir_status where_grad(weir_grad *g)
{
    weir_tensor *const cond = g->x[0], *const dy = g->dy[0];
    weir_tensor *const zero = weir_fill(dy->dev, weir_scalar(dy->layout.desc.dtype), 0);

    if (weir_wants(g, 1))
        WEIR_TRY(weir_grad_set_summed(g, 1, weir_where(cond, dy, zero)));
    if (weir_wants(g, 2))
        WEIR_TRY(weir_grad_set_summed(g, 2, weir_where(cond, zero, dy)));
    return WEIR_OK;
}

/* ---- the definitions and public functions ---- */

#define FLAGS .flags = WEIR_PURE | WEIR_STRIDED, .nout = 1

#define COMPARISON(ID, id, infer_fn)                                                               \
    const weir_opdef weir_op_##id = {.name = #id, FLAGS, .nin_min = 2, .nin_max = 2,               \
                                     .infer = infer_fn};                                           \
    weir_tensor     *weir_##id(weir_tensor *a, weir_tensor *b)                                     \
    {                                                                                              \
        return weir_record1(WEIR_OP_##ID, 2, (weir_tensor *[]){a, b}, NULL, 0);                    \
    }

COMPARISON(EQ, eq, equal_infer)
COMPARISON(NE, ne, equal_infer)
COMPARISON(LT, lt, order_infer)
COMPARISON(LE, le, order_infer)
COMPARISON(GT, gt, order_infer)
COMPARISON(GE, ge, order_infer)
COMPARISON(LOGICAL_AND, logical_and, logical_infer)
COMPARISON(LOGICAL_OR, logical_or, logical_infer)
COMPARISON(LOGICAL_XOR, logical_xor, logical_infer)

const weir_opdef weir_op_logical_not = {
    .name = "logical_not",
    FLAGS,
    .nin_min = 1,
    .nin_max = 1,
    .inplace = 1,
    .infer = logical_infer,
};

weir_tensor *weir_logical_not(weir_tensor *a)
{
    return weir_record1(WEIR_OP_LOGICAL_NOT, 1, (weir_tensor *[]){a}, NULL, 0);
}

const weir_opdef weir_op_where = {
    .name = "where",
    FLAGS,
    .nin_min = 3,
    .nin_max = 3,
    .inplace = 1 << 1 | 1 << 2,
    .reads_in = 1,
    .differentiable = 1 << 1 | 1 << 2,
    .infer = where_infer,
    .grad = where_grad,
    .flops = weir_flops_none,
};

weir_tensor *weir_where(weir_tensor *cond, weir_tensor *a, weir_tensor *b)
{
    return weir_record1(WEIR_OP_WHERE, 3, (weir_tensor *[]){cond, a, b}, NULL, 0);
}
