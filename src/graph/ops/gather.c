/* gather.c - definitions of reading rows by index, adding to rows, one-hot rows and ranges.
 *
 * The values of indices are unknown when a call is recorded, so kernels check them. Kernels take
 * tables (v,d) and indices (n) only; the public functions reshape to these and back. */
#include "graph/ops/define.h"
#include "graph/ops/stored.h"

static bool is_index(weir_dtype t)
{
    return t == WEIR_I32 || t == WEIR_I64;
}

/* Fails unless input i is indices (n) and input i + 1, if any, rows (n,d). */
static weir_status check_index(const weir_call *c, int i)
{
    if (!is_index(c->in[i].desc.dtype))
        return weir_call_fail(WEIR_ERR_DTYPE, c, "the index must be i32 or i64");
    return weir_check_ndim(c, i, "index", 1);
}

/* ---- gather: table (v,d), index (n) -> (n,d) ---- */

static weir_status gather_infer(weir_call *c)
{
    weir_desc d = c->in[0].desc;

    WEIR_TRY(weir_check_ndim(c, 0, "table", 2));
    WEIR_TRY(check_index(c, 1));
    d.dim[0] = c->in[1].desc.dim[0];
    return weir_out_checked(c, 0, &d);
}

static weir_status gather_grad(weir_grad *g)
{
    const weir_gather_attr a = {.rows = g->x[0]->layout.desc.dim[0]};
    weir_tensor *const     in[] = {g->x[1], g->dy[0]};

    return weir_grad_set(g, 0, weir_record1(WEIR_OP_GATHER_GRAD, 2, in, &a, sizeof a));
}

const weir_opdef weir_op_gather = {
    .name = "gather",
    .flags = WEIR_PURE,
    .nin_min = 2,
    .nin_max = 2,
    .nout = 1,
    .reads_in = 2,
    .differentiable = 1,
    .infer = gather_infer,
    .grad = gather_grad,
    .flops = weir_flops_none,
};

/* ---- gather_grad: index (n), dy (n,d) -> (v,d) ---- */

static weir_status gather_grad_infer(weir_call *c)
{
    const weir_gather_attr *const a = c->attr;
    weir_desc                     d = c->in[1].desc;

    d.dim[0] = a->rows;
    return weir_out_checked(c, 0, &d);
}

/* One addition per element of dy. */
static double flops_last(const weir_call *c)
{
    return (double)weir_shape_count(&c->in[c->nin - 1].desc);
}

const weir_opdef weir_op_gather_grad = {
    .name = "gather_grad",
    .flags = WEIR_PURE,
    .nin_min = 2,
    .nin_max = 2,
    .nout = 1,
    .infer = gather_grad_infer,
    .flops = flops_last,
};

/* ---- scatter_add: x (v,d), index (n), update (n,d) -> (v,d) ---- */

static weir_status scatter_add_infer(weir_call *c)
{
    const weir_desc *const x = &c->in[0].desc;

    WEIR_TRY(weir_check_ndim(c, 0, "x", 2));
    WEIR_TRY(check_index(c, 1));
    if (!weir_is_number(x->dtype) || weir_is_stored(x->dtype) || c->in[2].desc.dtype != x->dtype)
        return weir_call_fail(WEIR_ERR_DTYPE, c, "takes x and update of one type that is added");
    const weir_desc rows = weir_2d(x->dtype, c->in[1].desc.dim[0], x->dim[1]);
    WEIR_TRY(weir_check_dims(c, 2, "update", &rows));
    weir_out_like(c, 0, 0);
    return WEIR_OK;
}

static weir_status scatter_add_grad(weir_grad *g)
{
    const weir_gather_attr a = {.missing = 0};
    weir_tensor *const     in[] = {g->dy[0], g->x[1]};

    if (weir_wants(g, 0))
        WEIR_TRY(weir_grad_set(g, 0, g->dy[0]));
    if (weir_wants(g, 2))
        WEIR_TRY(weir_grad_set(g, 2, weir_record1(WEIR_OP_GATHER, 2, in, &a, sizeof a)));
    return WEIR_OK;
}

const weir_opdef weir_op_scatter_add = {
    .name = "scatter_add",
    .flags = WEIR_PURE,
    .nin_min = 3,
    .nin_max = 3,
    .nout = 1,
    .inplace = 1,
    .reads_in = 2,
    .differentiable = 5,
    .infer = scatter_add_infer,
    .grad = scatter_add_grad,
    .flops = flops_last,
};

/* ---- one_hot: index (n) -> (n, depth) ---- */

static weir_status one_hot_infer(weir_call *c)
{
    const weir_one_hot_attr *const a = c->attr;
    const weir_desc d = weir_2d((weir_dtype)a->dtype, c->in[0].desc.dim[0], a->depth);

    WEIR_TRY(check_index(c, 0));
    return weir_out_checked(c, 0, &d);
}

const weir_opdef weir_op_one_hot = {
    .name = "one_hot",
    .flags = WEIR_PURE,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .infer = one_hot_infer,
    .flops = weir_flops_none,
};

/* ---- arange ---- */

static weir_status arange_infer(weir_call *c)
{
    const weir_arange_attr *const a = c->attr;
    const weir_desc               d = weir_1d((weir_dtype)a->dtype, a->count);

    return weir_out_checked(c, 0, &d);
}

const weir_opdef weir_op_arange = {
    .name = "arange",
    .flags = WEIR_PURE,
    .nin_min = 0,
    .nin_max = 0,
    .nout = 1,
    .infer = arange_infer,
};

/* ---- public functions ---- */

/* The product of dims from..to-1. The desc was checked, so the product cannot overflow. */
static int64_t product(const weir_desc *d, int from, int to)
{
    int64_t n = 1;

    for (int i = from; i < to; i++)
        n *= d->dim[i];
    return n;
}

/* Fails unless the index is i32 or i64 and x has rows. *out gets the dims (index..., row...). */
static weir_status rows_desc(const char *who, const weir_desc *x, const weir_desc *index,
                             weir_desc *out)
{
    char a[WEIR_DESC_TEXT], b[WEIR_DESC_TEXT];

    weir_desc_text(x, a);
    weir_desc_text(index, b);
    if (!is_index(index->dtype))
        return weir_fail(WEIR_ERR_DTYPE, "%s: the index must be i32 or i64, not %s with rows of "
                         "%s", who, b, a);
    if (x->ndim < 1 || index->ndim + x->ndim - 1 > WEIR_MAX_DIMS)
        return weir_fail(WEIR_ERR_SHAPE, "%s: %s has no rows, or too many axes come together "
                         "with index %s", who, a, b);
    *out = (weir_desc){.dtype = x->dtype, .ndim = index->ndim + x->ndim - 1};
    for (int i = 0; i < index->ndim; i++)
        out->dim[i] = index->dim[i];
    for (int i = 1; i < x->ndim; i++)
        out->dim[index->ndim + i - 1] = x->dim[i];
    if (weir_shape_check(who, out) != WEIR_OK)
        return weir_fail(WEIR_ERR_SHAPE, "%s: the result of %s and index %s is too large", who, a,
                         b);
    return WEIR_OK;
}

/* t as a matrix: rows are the axes before `cut`, columns those from it on. */
static weir_tensor *as_matrix(weir_tensor *t, int cut)
{
    const weir_desc *const d = &t->layout.desc;
    const weir_desc        to = weir_2d(d->dtype, product(d, 0, cut), product(d, cut, d->ndim));

    return weir_reshape_as(t, &to);
}

static weir_tensor *as_vector(weir_tensor *t)
{
    const weir_desc to = weir_1d(t->layout.desc.dtype, weir_shape_count(&t->layout.desc));

    return weir_reshape_as(t, &to);
}

weir_tensor *weir_gather(weir_tensor *table, weir_tensor *index)
{
    const weir_gather_attr a = {.missing = __builtin_nan("")};
    weir_desc              d;

    if (!table || !index)
        return weir_null("weir_gather", table ? "index" : "table");
    if (rows_desc("gather", &table->layout.desc, &index->layout.desc, &d) != WEIR_OK)
        return NULL;
    weir_tensor *const in[] = {as_matrix(table, 1), as_vector(index)};
    return weir_reshape_as(weir_record1(WEIR_OP_GATHER, 2, in, &a, sizeof a), &d);
}

weir_tensor *weir_scatter_add(weir_tensor *x, weir_tensor *index, weir_tensor *update)
{
    weir_desc d;
    char      text[3][WEIR_DESC_TEXT];

    if (!x || !index || !update)
        return weir_null("weir_scatter_add", !x ? "x" : index ? "update" : "index");
    const weir_desc to = x->layout.desc;
    if (rows_desc("scatter_add", &to, &index->layout.desc, &d) != WEIR_OK)
        return NULL;
    if (!weir_is_number(to.dtype) || !weir_desc_equal(&d, &update->layout.desc)) {
        const bool type = !weir_is_number(to.dtype) || update->layout.desc.dtype != to.dtype;
        return WEIR_FAIL_NULL(type ? WEIR_ERR_DTYPE : WEIR_ERR_SHAPE, "scatter_add: x must not be "
                              "bool, and the update what gathering rows of x would give "
                              "(inputs %s, %s, %s)", weir_desc_text(&to, text[0]),
                              weir_desc_text(&index->layout.desc, text[1]),
                              weir_desc_text(&update->layout.desc, text[2]));
    }
    weir_tensor *const table = weir_widen_stored(x, false);
    weir_tensor *const rows = weir_widen_stored(update, false);
    if (!table || !rows)
        return NULL;
    weir_tensor *const in[] = {as_matrix(table, 1), as_vector(index),
                               as_matrix(rows, index->layout.desc.ndim)};
    weir_tensor *const y = weir_record1(WEIR_OP_SCATTER_ADD, 3, in, NULL, 0);
    return weir_reshape_as(weir_narrow_stored(y, to.dtype, false), &to);
}

weir_tensor *weir_one_hot(weir_tensor *index, int64_t depth, weir_dtype dtype)
{
    const weir_one_hot_attr a = {.dtype = (int64_t)dtype, .depth = depth};
    char                    text[WEIR_DESC_TEXT];

    if (!index)
        return weir_null("weir_one_hot", "index");
    weir_desc d = index->layout.desc;
    weir_desc_text(&d, text);
    if (!is_index(d.dtype) || weir_dtype_size(dtype) == 0)
        return WEIR_FAIL_NULL(WEIR_ERR_DTYPE, "one_hot: index %s must be i32 or i64, and the "
                              "result's type one of weir_dtype, not %d", text, (int)dtype);
    if (d.ndim == WEIR_MAX_DIMS || depth < 0)
        return WEIR_FAIL_NULL(WEIR_ERR_SHAPE, "one_hot: index %s cannot get an axis of size %lld",
                              text, (long long)depth);
    d.dtype = dtype;
    d.dim[d.ndim++] = depth;
    if (weir_shape_check("one_hot", &d) != WEIR_OK)
        return WEIR_FAIL_NULL(WEIR_ERR_SHAPE, "one_hot: index %s and depth %lld give too large a "
                              "result", text, (long long)depth);
    weir_tensor *const flat = as_vector(index);
    return weir_reshape_as(weir_record1(WEIR_OP_ONE_HOT, 1, &flat, &a, sizeof a), &d);
}

/* Is v within the type's range? */
static bool fits(double v, weir_dtype t)
{
    return weir_is_any_float(t) || weir_integer_fits(t, v);
}

weir_tensor *weir_arange(weir_device *d, weir_dtype dtype, int64_t count, double start, double step)
{
    const weir_arange_attr a = {.start = start, .step = step, .dtype = (int64_t)dtype,
                                .count = count};
    const weir_desc        to = weir_1d(dtype, count);
    weir_tensor           *out[WEIR_MAX_OUT] = {NULL};

    if (!d)
        return weir_null("weir_arange", "device");
    if (weir_shape_check("arange", &to) != WEIR_OK)
        return NULL;
    if (!weir_is_number(dtype))
        return WEIR_FAIL_NULL(WEIR_ERR_DTYPE, "arange: the result's type must be a number type, "
                                              "not %s",
                              weir_dtype_name(dtype));
    if (!fits(start, dtype) || !fits(start + (double)(count > 0 ? count - 1 : 0) * step, dtype))
        return WEIR_FAIL_NULL(WEIR_ERR_INVALID, "arange: %lld numbers from %g by %g do not fit "
                              "into %s", (long long)count, start, step, weir_dtype_name(dtype));
    return weir_record_on(d, WEIR_OP_ARANGE, 0, NULL, &a, sizeof a, out) == WEIR_OK ? out[0] : NULL;
}
