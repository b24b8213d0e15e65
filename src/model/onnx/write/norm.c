/* norm.c - normalisations, recorded as a whole or as statistics and an apply step.
 *
 * An apply step whose statistics are those of its own input becomes one operator. It is found by
 * walking from its inputs back to the calls that made them; the statistics are then written only if
 * something else reads them. */
#include "model/onnx/write/calls.h"

#include <string.h>

/* The call of that name that makes all of the value; NULL if it is another. */
static const weir_recording_call *made_by(const weir_onnx_writer *w, uint32_t value, const char *op)
{
    const uint32_t call = w->r.storage[w->r.value[value].storage].call;

    if (call == WEIR_RECORDING_NONE || w->r.value[value].offset != 0 ||
        strcmp(w->r.call[call].op, op) != 0)
        return NULL;
    return &w->r.call[call];
}

static bool is_value(const weir_onnx_writer *w, uint32_t value, const weir_recording_value *y)
{
    const weir_recording_value *const x = &w->r.value[value];

    return x->storage == y->storage && x->offset == y->offset &&
           weir_recording_same(&x->layout, &y->layout);
}

/* 1 / sqrt(var + eps): *var is the value below. */
static bool is_rstd(const weir_onnx_writer *w, uint32_t value, uint32_t *var, double *eps)
{
    const weir_recording_call *const root = made_by(w, value, "rsqrt");
    const weir_recording_call *const sum = root ? made_by(w, root->in[0], "affine") : NULL;

    if (!sum || weir_recording_double(sum, 0) != 1)
        return false;
    *var = sum->in[0];
    *eps = weir_recording_double(sum, 1);
    return true;
}

/* Whether a reduction is a mean over the last n axes of d. */
static bool is_mean(const weir_recording_call *c, const weir_desc *d, int n)
{
    double count = 1;

    for (int i = d->ndim - n; i < d->ndim; i++)
        count *= (double)d->dim[i];
    return c && (uint64_t)c->attr[0] == (((uint64_t)1 << n) - 1) << (d->ndim - n) &&
           weir_recording_double(c, 2) == 1 / count;
}

/* Whether mean and var are those of x over its last n axes. */
static bool is_own(const weir_onnx_writer *w, uint32_t mean, uint32_t var,
                   const weir_recording_value *x, int n)
{
    const weir_recording_call *const dist = made_by(w, var, "dist");
    const weir_recording_call *const sum = made_by(w, mean, "sum");
    const weir_recording_call *const own = dist ? made_by(w, dist->in[1], "sum") : NULL;
    const weir_desc *const           d = &x->layout.desc;

    return is_mean(dist, d, n) && is_mean(sum, d, n) && is_mean(own, d, n) &&
           is_value(w, dist->in[0], x) && is_value(w, sum->in[0], x) && is_value(w, own->in[0], x);
}

/* x, mean, rstd, scale, bias: x, scale, bias are left. */
static void leave_scale_and_bias(weir_onnx_written *c)
{
    const uint32_t *const in = c->call->in;

    c->whole = true;
    c->uses = 3;
    memcpy(c->in, (const uint32_t[]){in[0], in[3], in[4]}, 3 * sizeof *in);
}

static void find_layer_norm(const weir_onnx_writer *w, weir_onnx_written *c)
{
    const uint32_t *const in = c->call->in;
    const int             n = w->r.value[in[3]].layout.desc.ndim;
    uint32_t              var;

    if (w->opset >= 17 && is_rstd(w, in[2], &var, &c->eps) &&
        is_own(w, in[1], var, &w->r.value[in[0]], n))
        leave_scale_and_bias(c);
}

/* x (n,c) or (n,c,h,w) with its channels split: (n,groups,c/groups) or (n,groups,c/groups,h,w). */
static weir_recording_value split(const weir_recording_value *x, int64_t groups)
{
    weir_recording_value         s = *x;
    weir_recording_layout *const l = &s.layout;
    const size_t                 rest = 2 * sizeof *l->stride;

    l->desc.ndim++;
    l->desc.dim[2] = l->desc.dim[1] / groups;
    l->desc.dim[1] = groups;
    l->stride[2] = x->layout.stride[1];
    l->stride[1] = l->desc.dim[2] * l->stride[2];
    memcpy(&l->desc.dim[3], &x->layout.desc.dim[2], rest);
    memcpy(&l->stride[3], &x->layout.stride[2], rest);
    return s;
}

/* Whether the value has one number for each (n,group), repeated for each channel of d; then it
 * becomes the value that was repeated. Repeating is a view if it is by 1 or of one group, else a
 * copy. */
static bool find_groups(const weir_onnx_writer *w, uint32_t *value, const weir_desc *d,
                        int64_t groups)
{
    const weir_recording_call *const copy = made_by(w, *value, "reshape");
    const int64_t                    each = d->dim[1] / groups;
    weir_recording_layout            want = {*d, {groups, each == 1, 1, 1}};

    if (copy) {
        *value = copy->in[0];
        want = (weir_recording_layout){{d->dtype, 3, {d->dim[0], groups, each}}, {groups, 1, 0}};
    }
    for (int i = 2; !copy && i < d->ndim; i++)
        want.desc.dim[i] = 1;
    return (copy || groups == 1 || each == 1) && w->r.value[*value].offset == 0 &&
           weir_recording_same(&w->r.value[*value].layout, &want);
}

/* From opset 21 on scale and bias are those of channels, as here. */
static void find_group_norm(const weir_onnx_writer *w, weir_onnx_written *c)
{
    const int64_t                     groups = c->call->attr[2];
    const weir_recording_value *const x = &w->r.value[c->call->in[0]];
    const weir_desc *const            d = &x->layout.desc;
    uint32_t                          mean = c->call->in[1], rstd = c->call->in[2], var;

    if (w->opset < 21 || (d->ndim != 2 && d->ndim != 4) || groups < 1 || d->dim[1] % groups != 0 ||
        !find_groups(w, &mean, d, groups) || !find_groups(w, &rstd, d, groups) ||
        !is_rstd(w, rstd, &var, &c->eps))
        return;
    const weir_recording_value whole = split(x, groups);
    if (is_own(w, mean, var, &whole, whole.layout.desc.ndim - 2))
        leave_scale_and_bias(c);
}

/* x, rstd, scale: x and scale are left. */
static void find_rms_norm(const weir_onnx_writer *w, weir_onnx_written *c)
{
    const uint32_t *const  in = c->call->in;
    const weir_desc *const d = &w->r.value[in[0]].layout.desc;
    const int              n = w->r.value[in[2]].layout.desc.ndim;
    uint32_t               square;

    if (w->opset < 23 || !is_rstd(w, in[1], &square, &c->eps))
        return;
    const weir_recording_call *const dot = made_by(w, square, "dot");
    if (!is_mean(dot, d, n) || !is_value(w, dot->in[0], &w->r.value[in[0]]) ||
        !is_value(w, dot->in[1], &w->r.value[in[0]]))
        return;
    c->whole = true;
    c->uses = 2;
    memcpy(c->in, (const uint32_t[]){in[0], in[2]}, 2 * sizeof *in);
}

/* x, mean, rstd, scale, bias with running statistics: x, scale, bias, mean, var are left, the last
 * four as vectors of channels, whatever views of them were recorded. */
static void find_batch_norm(const weir_onnx_writer *w, weir_onnx_written *c)
{
    const uint32_t *const in = c->call->in;
    uint32_t              var;

    if (c->call->attr[2] != 0 || !is_rstd(w, in[2], &var, &c->eps))
        return;
    const uint32_t of[] = {in[3], in[4], in[1], var};
    uint32_t       to[5] = {in[0]};
    for (int i = 0; i < 4; i++) {
        const weir_recording_storage *const s = &w->r.storage[w->r.value[of[i]].storage];
        to[1 + i] = of[i];
        if (s->layout.desc.ndim != 1 ||
            s->layout.desc.dim[0] != weir_recording_count(&w->r.value[of[i]].layout.desc))
            return;
    }
    c->whole = true;
    c->uses = 5;
    memcpy(c->in, to, sizeof to);
}

void weir_onnx_find_norm(weir_onnx_writer *w, weir_onnx_written *c)
{
    if (strcmp(c->call->op, "ln_apply") == 0 && c->call->attr[2] == 0)
        find_layer_norm(w, c);
    else if (strcmp(c->call->op, "ln_apply") == 0)
        find_group_norm(w, c);
    else if (strcmp(c->call->op, "rms_apply") == 0)
        find_rms_norm(w, c);
    else if (strcmp(c->call->op, "bn_apply") == 0)
        find_batch_norm(w, c);
}

/* ---- nodes ---- */

/* (x - mean) rstd scale + bias, the recorded step as it is. */
static void applied(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const char *y = weir_put_node2(w, "Sub", NULL, weir_onnx_in(w, c, 0), weir_onnx_in(w, c, 1));

    y = weir_put_node2(w, "Mul", NULL, y, weir_onnx_in(w, c, 2));
    y = weir_put_node2(w, "Mul", NULL, y, weir_onnx_in(w, c, 3));
    weir_put_node2(w, "Add", c->out[0], y, weir_onnx_in(w, c, 4));
}

/* The whole, over the axes that the scale, input 1, has. */
static void layer(weir_onnx_writer *w, const weir_onnx_written *c, const char *op)
{
    const int           axes = weir_onnx_in_desc(w, c, 1)->ndim;
    const char         *in[3];
    const weir_onnx_set set[] = {WEIR_SET_INT("axis", weir_onnx_in_desc(w, c, 0)->ndim - axes),
                                 WEIR_SET_FLOAT("epsilon", c->eps)};

    for (uint32_t i = 0; i < c->uses; i++)
        in[i] = weir_onnx_in(w, c, i);
    weir_put_node(w, op, c->out[0], c->uses, in, 2, set);
}

/* Input i as the vector d; without an operator if its storage is one. */
static const char *vector(weir_onnx_writer *w, const weir_onnx_written *c, uint32_t i,
                          const weir_desc *d)
{
    const weir_recording_value *const   v = &w->r.value[c->in[i]];
    const weir_recording_storage *const s = &w->r.storage[v->storage];
    const weir_recording_layout         all = {*d, {1}};
    const bool whole = weir_recording_same(&s->layout, &all) && v->offset == 0 &&
                       (v->layout.stride[0] == 1 || d->dim[0] == 1);

    return whole ? w->storage_name[v->storage]
                 : weir_onnx_reshaped(w, NULL, weir_onnx_in(w, c, i), d);
}

/* Scale and bias, inputs 1 and 2, are vectors of channels; (c,1,1) was recorded beside images. */
static void group(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const weir_desc *const x = weir_onnx_in_desc(w, c, 0);
    const char            *in[3] = {weir_onnx_in(w, c, 0)};
    const weir_onnx_set    set[] = {WEIR_SET_FLOAT("epsilon", c->eps),
                                    WEIR_SET_INT("num_groups", c->call->attr[2])};

    for (uint32_t i = 1; i < 3; i++)
        in[i] = vector(w, c, i, &(weir_desc){x->dtype, 1, {x->dim[1]}});
    weir_put_node(w, "GroupNormalization", c->out[0], 3, in, 2, set);
}

void weir_onnx_write_ln_apply(weir_onnx_writer *w, const weir_onnx_written *c)
{
    if (c->whole && c->call->attr[2] != 0)
        group(w, c);
    else if (c->whole)
        layer(w, c, "LayerNormalization");
    else
        applied(w, c);
}

void weir_onnx_write_rms_apply(weir_onnx_writer *w, const weir_onnx_written *c)
{
    if (c->whole) {
        layer(w, c, "RMSNormalization");
        return;
    }
    const char *const y = weir_put_node2(w, "Mul", NULL, weir_onnx_in(w, c, 0),
                                          weir_onnx_in(w, c, 1));
    weir_put_node2(w, "Mul", c->out[0], y, weir_onnx_in(w, c, 2));
}

void weir_onnx_write_bn_apply(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const weir_onnx_set eps = WEIR_SET_FLOAT("epsilon", c->eps);
    const char         *in[5];

    if (!c->whole) {
        applied(w, c);
        return;
    }
    in[0] = weir_onnx_in(w, c, 0);
    for (uint32_t i = 1; i < 5; i++)
        in[i] = w->storage_name[w->r.value[c->in[i]].storage];
    weir_put_node(w, "BatchNormalization", c->out[0], 5, in, 1, &eps);
}

/* x (n,c) or (n,c,h,w) -> mean, var, 1 / sqrt(var + eps) of each channel. */
void weir_onnx_write_bn_stats(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const weir_desc *const d = weir_onnx_in_desc(w, c, 0);
    const uint64_t         dims = d->ndim == 2 ? 1 : 13;
    const char *const      x = weir_onnx_in(w, c, 0);
    const char *const      mean = weir_onnx_reduced(w, "ReduceMean", NULL, x, dims, d->ndim, true);
    const char *const      off = weir_put_node2(w, "Sub", NULL, x, mean);
    const char *const      square = weir_put_node2(w, "Mul", NULL, off, off);
    const char *const      var = weir_onnx_reduced(w, "ReduceMean", c->out[1], square, dims,
                                                   d->ndim, false);
    const char *const      eps =
        weir_onnx_scalar_of(w, d->dtype, weir_recording_double(c->call, 0));

    if (c->out[0])
        weir_onnx_reshaped(w, c->out[0], mean, weir_onnx_out_desc(w, c, 0));
    if (c->out[2])
        weir_put_node1(w, "Reciprocal", c->out[2],
                        weir_put_node1(w, "Sqrt", NULL,
                                        weir_put_node2(w, "Add", NULL, var, eps)));
}

/* x, scale, bias -> y, over the last n axes of x (ndim). */
static const char *layer_of_parts(weir_onnx_writer *w, const char *out, const char *const *in,
                                  int ndim, int n, const char *eps)
{
    const uint64_t    dims = (((uint64_t)1 << n) - 1) << (ndim - n);
    const char *const mean = weir_onnx_reduced(w, "ReduceMean", NULL, in[0], dims, ndim, true);
    const char *const off = weir_put_node2(w, "Sub", NULL, in[0], mean);
    const char *const square = weir_put_node2(w, "Mul", NULL, off, off);
    const char *const var = weir_onnx_reduced(w, "ReduceMean", NULL, square, dims, ndim, true);
    const char *const deviation =
        weir_put_node1(w, "Sqrt", NULL, weir_put_node2(w, "Add", NULL, var, eps));
    const char *const xhat = weir_put_node2(w, "Div", NULL, off, deviation);

    return weir_put_node2(w, "Add", out, weir_put_node2(w, "Mul", NULL, xhat, in[1]), in[2]);
}

/* f16 is normalised in f32, the type of scale and bias. */
void weir_onnx_write_layer_norm(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const weir_desc *const d = weir_onnx_in_desc(w, c, 0);
    const weir_dtype       type = weir_onnx_in_desc(w, c, 1)->dtype;
    const int              ndim = d->ndim, n = weir_onnx_in_desc(w, c, 1)->ndim;
    const double           eps = weir_recording_double(c->call, 0);
    const bool             narrow = d->dtype != type;
    const char *const      out = narrow ? NULL : c->out[0];
    const char            *in[3], *y;

    for (uint32_t i = 0; i < 3; i++)
        in[i] = weir_onnx_in(w, c, i);
    if (narrow)
        in[0] = weir_onnx_cast_to(w, NULL, in[0], type);
    if (w->opset >= 17) {
        const weir_onnx_set set[] = {WEIR_SET_INT("axis", ndim - n),
                                     WEIR_SET_FLOAT("epsilon", eps)};
        y = weir_put_node(w, "LayerNormalization", out, 3, in, 2, set);
    } else {
        y = layer_of_parts(w, out, in, ndim, n, weir_onnx_scalar_of(w, type, eps));
    }
    if (narrow)
        weir_onnx_cast_to(w, c->out[0], y, WEIR_F16);
}
