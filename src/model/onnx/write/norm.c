/* norm.c - normalisations, recorded as statistics and an apply step.
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

static bool same_value(const weir_onnx_writer *w, uint32_t a, uint32_t b)
{
    const weir_recording_value *const x = &w->r.value[a], *const y = &w->r.value[b];

    return a == b || (x->storage == y->storage && x->offset == y->offset &&
                      weir_recording_same(&x->layout, &y->layout));
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

/* x, mean, rstd, scale, bias: x, scale, bias are left. */
static void find_layer_norm(const weir_onnx_writer *w, weir_onnx_written *c)
{
    const uint32_t *const  in = c->call->in;
    const weir_desc *const d = &w->r.value[in[0]].layout.desc;
    const int              n = w->r.value[in[3]].layout.desc.ndim;
    uint32_t               var;

    if (w->opset < 17 || c->call->attr[2] != 0 || !is_rstd(w, in[2], &var, &c->eps))
        return;
    const weir_recording_call *const dist = made_by(w, var, "dist");
    const weir_recording_call *const mean = made_by(w, in[1], "sum");
    const weir_recording_call *const own = dist ? made_by(w, dist->in[1], "sum") : NULL;
    if (!is_mean(dist, d, n) || !is_mean(mean, d, n) || !is_mean(own, d, n) ||
        !same_value(w, dist->in[0], in[0]) || !same_value(w, mean->in[0], in[0]) ||
        !same_value(w, own->in[0], in[0]))
        return;
    c->whole = true;
    c->uses = 3;
    memcpy(c->in, (const uint32_t[]){in[0], in[3], in[4]}, 3 * sizeof *in);
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
    if (!is_mean(dot, d, n) || !same_value(w, dot->in[0], in[0]) ||
        !same_value(w, dot->in[1], in[0]))
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
    if (strcmp(c->call->op, "ln_apply") == 0)
        find_layer_norm(w, c);
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

void weir_onnx_write_ln_apply(weir_onnx_writer *w, const weir_onnx_written *c)
{
    if (c->whole)
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
