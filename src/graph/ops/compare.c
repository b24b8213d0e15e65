/* compare.c - definitions of comparisons (numbers in, bool out), logic (bool) and where.
 *
 * Inputs broadcast (NumPy) and may have any strides; the output is dense. Only `where` has a
 * gradient: that of each element flows to the input from which the element was taken. */
#include "graph/ops/define.h"

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
    WEIR_TRY(weir_check_types(c, WEIR_TYPES_NUMBER));
    return bool_out(c, d);
}

static weir_status logical_infer(weir_call *c)
{
    weir_desc d;

    WEIR_TRY(weir_check_broadcast(c, &d));
    WEIR_TRY(weir_check_types(c, 1u << WEIR_BOOL));
    return bool_out(c, d);
}

static weir_status where_infer(weir_call *c)
{
    const weir_desc *const cond = &c->in[0].desc, *const a = &c->in[1].desc,
                    *const b = &c->in[2].desc;
    weir_desc both, d;

    if (cond->dtype != WEIR_BOOL)
        return weir_call_fail(WEIR_ERR_DTYPE, c, "the condition must be bool, not %s",
                              weir_dtype_name(cond->dtype));
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

#define COMPARISON(ID, id, infer_fn, mixed)                                                        \
    const weir_opdef weir_op_##id = {.name = #id, FLAGS, .nin_min = 2, .nin_max = 2,               \
                                     .infer = infer_fn, .promotes = mixed};                        \
    weir_tensor     *weir_##id(weir_tensor *a, weir_tensor *b)                                     \
    {                                                                                              \
        return weir_record1(WEIR_OP_##ID, 2, (weir_tensor *[]){a, b}, NULL, 0);                    \
    }

COMPARISON(EQ, eq, equal_infer, 3)
COMPARISON(NE, ne, equal_infer, 3)
COMPARISON(LT, lt, order_infer, 3)
COMPARISON(LE, le, order_infer, 3)
COMPARISON(GT, gt, order_infer, 3)
COMPARISON(GE, ge, order_infer, 3)
COMPARISON(LOGICAL_AND, logical_and, logical_infer, 0)
COMPARISON(LOGICAL_OR, logical_or, logical_infer, 0)
COMPARISON(LOGICAL_XOR, logical_xor, logical_infer, 0)

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
    .flags = WEIR_PURE | WEIR_STRIDED | WEIR_PRESERVE_FORMAT,
    .nout = 1,
    .nin_min = 3,
    .nin_max = 3,
    .inplace = 1 << 1 | 1 << 2,
    .reads_in = 1,
    .differentiable = 1 << 1 | 1 << 2,
    .promotes = 1 << 1 | 1 << 2,
    .infer = where_infer,
    .grad = where_grad,
    .flops = weir_flops_none,
};

weir_tensor *weir_where(weir_tensor *cond, weir_tensor *a, weir_tensor *b)
{
    return weir_record1(WEIR_OP_WHERE, 3, (weir_tensor *[]){cond, a, b}, NULL, 0);
}
