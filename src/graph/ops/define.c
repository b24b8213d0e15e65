/* define.c - helpers of definitions: checks, outputs, costs, calls recorded for a gradient.
 *
 * Lowest in this folder: it refers to no other file of it. */
#include <stdio.h>
#include <string.h>

#include "graph/ops/define.h"

/* ---- recording ---- */

/* Outputs after the first (winners of a pooling, lse of a loss) serve the gradient only. */
weir_tensor *weir_record1(weir_op op, int nin, weir_tensor *const *in, const void *attr,
                          size_t attr_bytes)
{
    weir_tensor *out[WEIR_MAX_OUT] = {NULL};

    return weir_record(op, nin, in, attr, attr_bytes, out) == WEIR_OK ? out[0] : NULL;
}

weir_tensor *weir_row1(weir_op op, weir_tensor *a, double s, double t)
{
    const weir_ew_attr attr = {s, t};

    return weir_record1(op, 1, (weir_tensor *[]){a}, &attr, sizeof attr);
}

weir_tensor *weir_row2(weir_op op, weir_tensor *a, weir_tensor *b)
{
    const weir_ew_attr attr = {0, 0};

    return weir_record1(op, 2, (weir_tensor *[]){a, b}, &attr, sizeof attr);
}

weir_tensor *weir_row3(weir_op op, weir_tensor *a, weir_tensor *b, weir_tensor *c)
{
    const weir_ew_attr attr = {0, 0};

    return weir_record1(op, 3, (weir_tensor *[]){a, b, c}, &attr, sizeof attr);
}

weir_tensor *weir_null(const char *function, const char *argument)
{
    (void)weir_fail_null(function, argument);
    return NULL;
}

/* Replaces the sentence, whose path now stands before the outer name. */
static void retell(const char *who, const char *inputs, const char *path)
{
    const size_t      n = strlen(path);
    const char *const told = weir_error();
    const bool        inside = n > 0 && strncmp(told, path, n) == 0 && told[n] == '/';

    (void)weir_fail(weir_error_status(), "%s%s%s (%s): %s", path, n ? "/" : "", who, inputs,
                    told + (inside ? n + 1 : 0));
}

weir_tensor *weir_retold(weir_tensor *y, const char *who, int nin, weir_tensor *const *in)
{
    char   inputs[WEIR_MAX_IN * (WEIR_DESC_TEXT + 2)] = "", text[WEIR_DESC_TEXT];
    size_t used = 0;

    for (int i = 0; i < nin && i < WEIR_MAX_IN && !y; i++)
        if (in[i])
            used += (size_t)snprintf(inputs + used, sizeof inputs - used, "%s%s", used ? ", " : "",
                                     weir_desc_text(&in[i]->layout.desc, text));
    if (used > 0)
        retell(who, inputs, in[0] ? weir_name_scope(in[0]->dev) : "");
    return y;
}

/* ---- infer ---- */

void weir_out_dense(weir_call *c, int i, const weir_desc *d)
{
    c->out[i].desc = *d;
    weir_shape_dense(&c->out[i]);
}

/* Checked first: strides of sizes that are too large would overflow. */
weir_status weir_out_checked(weir_call *c, int i, const weir_desc *d)
{
    const weir_status status = weir_shape_check(c->def->name, d);
    char              text[WEIR_DESC_TEXT];

    if (status == WEIR_ERR_SHAPE)
        return weir_call_fail(status, c, "a result of %s is too large", weir_desc_text(d, text));
    WEIR_TRY(status);
    weir_out_dense(c, i, d);
    return WEIR_OK;
}

void weir_out_like(weir_call *c, int i, int j)
{
    weir_out_dense(c, i, &c->in[j].desc);
}

weir_status weir_infer_planner_only(weir_call *c)
{
    return weir_call_fail(WEIR_ERR_STATE, c, "is inserted by planners only");
}

weir_status weir_infer_like(weir_call *c)
{
    weir_out_like(c, 0, 0);
    return WEIR_OK;
}

char *weir_types_text(uint32_t types, char buf[WEIR_TYPES_TEXT])
{
    size_t n = 0;

    buf[0] = '\0';
    for (weir_dtype t = 0; weir_dtype_size(t) > 0 && n < WEIR_TYPES_TEXT; t++) {
        const char *const gap = n == 0 ? "" : types >> t == 1 ? " or " : ", ";
        if (types >> t & 1)
            n += (size_t)snprintf(buf + n, WEIR_TYPES_TEXT - n, "%s%s", gap, weir_dtype_name(t));
    }
    return buf;
}

static weir_status check_first_types(const weir_call *c, int n, uint32_t types)
{
    char text[WEIR_TYPES_TEXT];

    for (int i = 0; i < n; i++)
        if (!(types >> c->in[i].desc.dtype & 1))
            return weir_call_fail(WEIR_ERR_DTYPE, c, "input %d is %s but must be %s", i,
                                  weir_dtype_name(c->in[i].desc.dtype),
                                  weir_types_text(types, text));
    return WEIR_OK;
}

weir_status weir_check_types(const weir_call *c, uint32_t types)
{
    return check_first_types(c, c->nin, types);
}

weir_status weir_check_type(const weir_call *c, int i, weir_dtype t)
{
    const weir_dtype own = c->in[i].desc.dtype;

    return own == t ? WEIR_OK
                    : weir_call_fail(WEIR_ERR_DTYPE, c, "input 0 is %s but input %d is %s: convert "
                                     "one of them (weir_cast)", weir_dtype_name(t), i,
                                     weir_dtype_name(own));
}

static weir_status check_one_type(const weir_call *c, int n, uint32_t types)
{
    WEIR_TRY(check_first_types(c, n, types));
    for (int i = 1; i < n; i++)
        WEIR_TRY(weir_check_type(c, i, c->in[0].desc.dtype));
    return WEIR_OK;
}

weir_status weir_check_floats(const weir_call *c)
{
    return check_one_type(c, c->nin, WEIR_TYPES_FLOAT);
}

weir_status weir_check_first_floats(const weir_call *c, int n)
{
    return check_one_type(c, n, WEIR_TYPES_ANY_FLOAT);
}

weir_status weir_check_any_floats(const weir_call *c)
{
    return check_one_type(c, c->nin, WEIR_TYPES_ANY_FLOAT);
}

weir_status weir_axis_of(const char *who, const weir_desc *d, int axis, int *out)
{
    char text[WEIR_DESC_TEXT];

    *out = axis < 0 ? axis + d->ndim : axis;
    if (*out < 0 || *out >= d->ndim)
        return weir_fail(WEIR_ERR_INVALID, "%s: axis %d does not exist, x is %s", who, axis,
                         weir_desc_text(d, text));
    return WEIR_OK;
}

weir_status weir_check_ndim(const weir_call *c, int i, const char *name, int ndim)
{
    if (c->in[i].desc.ndim != ndim)
        return weir_call_fail(WEIR_ERR_SHAPE, c, "%s must have %d axes, not %d", name, ndim,
                              c->in[i].desc.ndim);
    return WEIR_OK;
}

weir_status weir_check_dims(const weir_call *c, int i, const char *name, const weir_desc *d)
{
    char want[WEIR_DESC_TEXT], have[WEIR_DESC_TEXT];

    if (weir_shape_equal(&c->in[i].desc, d))
        return WEIR_OK;
    return weir_call_fail(WEIR_ERR_SHAPE, c, "%s must be %s, not %s", name,
                          weir_desc_text(d, want), weir_desc_text(&c->in[i].desc, have));
}

/* Broadcasts from left to right: the dims so far with those of the next input. */
weir_status weir_check_broadcast(const weir_call *c, weir_desc *out)
{
    if (c->nin == 0)
        return weir_call_fail(WEIR_ERR_INVALID, c, "has no input to take a shape from");
    *out = c->in[0].desc;
    for (int i = 1; i < c->nin; i++) {
        const weir_desc so_far = *out, *const d = &c->in[i].desc;
        if (!weir_shape_broadcast(&so_far, d, out))
            return weir_call_fail(WEIR_ERR_SHAPE, c,
                                  "input %d does not broadcast to those before it", i);
        WEIR_TRY(weir_check_type(c, i, out->dtype));
    }
    return WEIR_OK;
}

/* ---- costs ---- */

double weir_flops_none(const weir_call *c)
{
    (void)c;
    return 0;
}

double weir_flops_input(const weir_call *c)
{
    return (double)weir_shape_count(&c->in[0].desc);
}

/* ---- gradients ---- */

weir_status weir_made(const weir_tensor *t)
{
    return t ? WEIR_OK : weir_error_status();
}

weir_status weir_grad_set(weir_grad *g, int i, weir_tensor *t)
{
    g->dx[i] = t;
    return weir_made(t);
}

weir_tensor *weir_reshape_as(weir_tensor *t, const weir_desc *to)
{
    if (!t || weir_shape_equal(&t->layout.desc, to))
        return t;

    weir_shape_attr a = {.ndim = to->ndim};

    for (int i = 0; i < to->ndim; i++)
        a.dim[i] = to->dim[i];
    return weir_record1(WEIR_OP_RESHAPE, 1, &t, &a, sizeof a);
}

weir_tensor *weir_sum_to(weir_tensor *g, const weir_desc *to)
{
    if (!g || weir_shape_equal(&g->layout.desc, to))
        return g;

    const weir_desc *const from = &g->layout.desc;
    const int              lead = from->ndim - to->ndim;
    uint32_t               dims = 0;

    /* Axes of size 1 in g were not repeated; the reshape removes those that `to` lacks. */
    for (int i = 0; i < from->ndim; i++)
        if (from->dim[i] != 1 && (i < lead || to->dim[i - lead] == 1))
            dims |= 1u << i;
    if (dims == 0)
        return weir_reshape_as(g, to);

    const weir_reduce_attr a = {.dims = dims, .keep = true, .scale = 1};
    return weir_reshape_as(weir_record1(WEIR_OP_SUM, 1, &g, &a, sizeof a), to);
}

weir_status weir_grad_set_summed(weir_grad *g, int i, weir_tensor *t)
{
    return weir_grad_set(g, i, weir_sum_to(t, &g->x[i]->layout.desc));
}

/* ---- descs as attributes ---- */

weir_status weir_desc_pack(const char *who, const weir_desc *d, weir_desc_attr *out)
{
    WEIR_TRY(weir_shape_check(who, d));
    *out = (weir_desc_attr){.dtype = (int64_t)d->dtype, .ndim = d->ndim};
    for (int i = 0; i < d->ndim; i++)
        out->dim[i] = d->dim[i];
    return WEIR_OK;
}

weir_desc weir_desc_unpack(const weir_desc_attr *a)
{
    weir_desc d = {.dtype = (weir_dtype)a->dtype, .ndim = (int)a->ndim};

    for (int i = 0; i < d.ndim; i++)
        d.dim[i] = a->dim[i];
    return d;
}
