/* preview.c - operators outside the default domain: attention with subgraphs that change its scores
 * (ai.onnx.preview), one step of an optimiser (ai.onnx.preview.training), two of ai.onnx.ml. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "model/onnx/op/ops.h"

/* ---- attention ---- */

/* What the subgraph of an attribute makes of t; t itself without one. */
static weir_status changed(weir_onnx_call *c, const char *name, weir_tensor **t)
{
    const weir_onnx_attr *const a = weir_onnx_attr_of(c, name);

    if (!a || !a->g)
        return WEIR_OK;
    const weir_onnx_graph *const g = a->g;
    if (g->n_in != 1 || g->n_out != 1)
        return weir_onnx_refuse(c, "%s takes %zu tensors and gives %zu", name, g->n_in, g->n_out);
    const weir_desc before = weir_tensor_desc(*t);
    WEIR_TRY(weir_onnx_set(c, g->in[0].slot, *t));
    WEIR_TRY(weir_onnx_run_body(c, g));
    const weir_onnx_value *const v = &c->m->value[g->out[0].slot];
    *t = v->t ? weir_onnx_same(v->t) : v->known ? weir_onnx_constant(c, v->desc, v->known) : NULL;
    if (!*t)
        return weir_error_status();
    const weir_desc after = weir_tensor_desc(*t);
    if (after.ndim != before.ndim || after.dtype != before.dtype ||
        memcmp(after.dim, before.dim, (size_t)after.ndim * sizeof *after.dim) != 0)
        return weir_onnx_refuse(c, "%s changes shape or type", name);
    return WEIR_OK;
}

/* (batch, heads, rows, size) each; heads of k and v stand for several of q. */
static weir_status check_heads(weir_onnx_call *c, const weir_desc *q, const weir_desc *k,
                               const weir_desc *v)
{
    if (q->ndim != 4 || k->ndim != 4 || v->ndim != 4 || k->dim[1] < 1 ||
        q->dim[1] % k->dim[1] || k->dim[1] != v->dim[1] || k->dim[2] != v->dim[2] ||
        q->dim[3] != k->dim[3])
        return weir_onnx_refuse(c, "heads that do not fit: %d, %d and %d axes", q->ndim, k->ndim,
                                v->ndim);
    return WEIR_OK;
}

weir_status weir_onnx_flex_attention(weir_onnx_call *c)
{
    weir_tensor *const q = weir_onnx_x(c, 0);
    weir_tensor       *k = weir_onnx_x(c, 1), *v = weir_onnx_x(c, 2);

    if (!q || !k || !v)
        return weir_error_status();
    const weir_desc dq = weir_tensor_desc(q), dk = weir_tensor_desc(k), dv = weir_tensor_desc(v);
    WEIR_TRY(check_heads(c, &dq, &dk, &dv));
    const double  scale = weir_onnx_float(c, "scale", 1 / sqrt((double)dq.dim[3]));
    const int64_t times = dq.dim[1] / dk.dim[1];
    const int64_t said = weir_onnx_int(c, "softmax_precision", 0);
    weir_dtype    type = dq.dtype == WEIR_F64 ? WEIR_F64 : WEIR_F32;
    if (said && !weir_onnx_dtype(said, &type))
        return weir_onnx_refuse(c, "Weir lacks the type %s", weir_onnx_type_name(said));
    k = times > 1 ? weir_repeat(k, 1, times) : k;
    v = times > 1 ? weir_repeat(v, 1, times) : v;
    weir_tensor *s = weir_affine(weir_matmul_t(weir_onnx_as(q, type), weir_onnx_as(k, type), false,
                                               true), scale, 0);
    if (!s)
        return weir_error_status();
    WEIR_TRY(changed(c, "score_mod", &s));
    if (!(s = weir_softmax(s, 3)))
        return weir_error_status();
    WEIR_TRY(changed(c, "prob_mod", &s));
    weir_tensor *const y = weir_onnx_as(weir_matmul(s, weir_onnx_as(v, type)), dq.dtype);
    return y ? weir_onnx_set(c, c->node->out[0], y) : weir_error_status();
}

/* ---- one step of an optimiser: the rate, the number of steps, then lists of tensors ---- */

typedef struct step {
    weir_tensor *rate, *count; /* f32, i64 */
    weir_tensor *x, *g;        /* g: with the share of x that regularises */
    size_t       n, i;         /* tensors; the one at work */
} step;

static weir_status read_step(weir_onnx_call *c, step *s, size_t lists)
{
    if (c->node->n_in < 2 + lists || (c->node->n_in - 2) % lists)
        return weir_onnx_refuse(c, "%zu inputs", c->node->n_in);
    *s = (step){.rate = weir_onnx_x(c, 0), .count = weir_onnx_x(c, 1),
                .n = (c->node->n_in - 2) / lists};
    return s->rate && s->count ? WEIR_OK : weir_error_status();
}

/* Tensor i of list k. */
static weir_tensor *of_list(weir_onnx_call *c, const step *s, size_t k)
{
    return weir_onnx_x(c, 2 + k * s->n + s->i);
}

static weir_status read_tensor(weir_onnx_call *c, step *s)
{
    s->x = of_list(c, s, 0);
    s->g = of_list(c, s, 1);
    if (!s->x || !s->g)
        return weir_error_status();
    const double decay = weir_onnx_float(c, "norm_coefficient", 0);
    s->g = decay != 0 ? weir_add(weir_affine(s->x, decay, 0), s->g) : s->g;
    return WEIR_OK;
}

/* Result i of list k. */
static weir_status give_list(weir_onnx_call *c, const step *s, size_t k, weir_tensor *t)
{
    return weir_onnx_give(c, k * s->n + s->i, t);
}

static weir_tensor *counted(const step *s)
{
    return weir_cast(s->count, weir_tensor_desc(s->rate).dtype);
}

/* Duchi et al. 2011. */
weir_status weir_onnx_adagrad(weir_onnx_call *c)
{
    const double eps = weir_onnx_float(c, "epsilon", (double)1e-6f);
    const double decay = weir_onnx_float(c, "decay_factor", 0);
    step         s;

    WEIR_TRY(read_step(c, &s, 3));
    weir_tensor *const rate = weir_div(s.rate, weir_affine(counted(&s), decay, 1));
    for (s.i = 0; s.i < s.n; s.i++) {
        WEIR_TRY(read_tensor(c, &s));
        weir_tensor *const h = weir_add(of_list(c, &s, 2), weir_square(s.g));
        weir_tensor *const size = weir_affine(weir_sqrt(h), 1, eps);
        weir_tensor *const x = weir_sub(s.x, weir_div(weir_mul(rate, s.g), size));
        WEIR_TRY(give_list(c, &s, 0, x));
        WEIR_TRY(give_list(c, &s, 1, h));
    }
    return WEIR_OK;
}

/* number^count of a scalar tensor count. */
static weir_tensor *power_of(weir_onnx_call *c, double number, weir_tensor *count)
{
    return weir_pow(weir_onnx_scalar(c, weir_tensor_desc(count).dtype, number), count);
}

/* Kingma and Ba 2015; the rate is corrected from the first step on. */
weir_status weir_onnx_adam(weir_onnx_call *c)
{
    const double eps = weir_onnx_float(c, "epsilon", (double)1e-6f);
    const double alpha = weir_onnx_float(c, "alpha", (double)0.9f);
    const double beta = weir_onnx_float(c, "beta", (double)0.999f);
    const double post = weir_onnx_float(c, "norm_coefficient_post", 0);
    step         s;

    WEIR_TRY(read_step(c, &s, 4));
    weir_tensor *const n = counted(&s);
    weir_tensor *const up = weir_sqrt(weir_affine(power_of(c, beta, n), -1, 1));
    weir_tensor *const corrected =
        weir_div(weir_mul(s.rate, up), weir_affine(power_of(c, alpha, n), -1, 1));
    weir_tensor *const zero = weir_onnx_scalar(c, weir_tensor_desc(n).dtype, 0);
    weir_tensor *const rate = weir_where(weir_gt(n, zero), corrected, s.rate);
    for (s.i = 0; s.i < s.n; s.i++) {
        WEIR_TRY(read_tensor(c, &s));
        weir_tensor *const v = weir_add(weir_affine(of_list(c, &s, 2), alpha, 0),
                                        weir_affine(s.g, 1 - alpha, 0));
        weir_tensor *const h = weir_add(weir_affine(of_list(c, &s, 3), beta, 0),
                                        weir_affine(weir_square(s.g), 1 - beta, 0));
        weir_tensor *const move = weir_div(v, weir_affine(weir_sqrt(h), 1, eps));
        weir_tensor *const x = weir_sub(s.x, weir_mul(rate, move));
        WEIR_TRY(give_list(c, &s, 0, weir_affine(x, 1 - post, 0)));
        WEIR_TRY(give_list(c, &s, 1, v));
        WEIR_TRY(give_list(c, &s, 2, h));
    }
    return WEIR_OK;
}

weir_status weir_onnx_momentum(weir_onnx_call *c)
{
    const double alpha = weir_onnx_float(c, "alpha", 0), beta = weir_onnx_float(c, "beta", 0);
    const bool   ahead = strcmp(weir_onnx_str(c, "mode", ""), "nesterov") == 0;
    step         s;

    WEIR_TRY(read_step(c, &s, 3));
    const weir_dtype   t = weir_tensor_desc(s.rate).dtype;
    weir_tensor *const later = weir_gt(counted(&s), weir_onnx_scalar(c, t, 0));
    weir_tensor *const share =
        weir_where(later, weir_onnx_scalar(c, t, beta), weir_onnx_scalar(c, t, 1));
    for (s.i = 0; s.i < s.n; s.i++) {
        WEIR_TRY(read_tensor(c, &s));
        weir_tensor *const v = weir_add(weir_affine(of_list(c, &s, 2), alpha, 0),
                                        weir_mul(share, s.g));
        weir_tensor *const move = ahead ? weir_add(s.g, weir_affine(v, alpha, 0)) : v;
        WEIR_TRY(give_list(c, &s, 0, weir_sub(s.x, weir_mul(s.rate, move))));
        WEIR_TRY(give_list(c, &s, 1, v));
    }
    return WEIR_OK;
}

/* ---- ai.onnx.ml ---- */

/* Columns of the last axis; a vector is one row. */
weir_status weir_onnx_feature_extractor(weir_onnx_call *c)
{
    weir_tensor *x = weir_onnx_x(c, 0), *at = weir_onnx_x(c, 1);

    if (!x || !at)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x), i = weir_tensor_desc(at);
    const int64_t   n = weir_onnx_product(&i, 0, i.ndim);
    if (d.ndim < 1 || (i.dtype != WEIR_I32 && i.dtype != WEIR_I64))
        return weir_onnx_refuse(c, "indices of %s", weir_dtype_name(i.dtype));
    x = d.ndim == 1 ? weir_unsqueeze(x, 0) : x;
    at = weir_reshape(at, 1, &n);
    return weir_onnx_give(c, 0, at ? weir_onnx_gather_axis(x, at, d.ndim == 1 ? 1 : d.ndim - 1)
                                   : NULL);
}

weir_status weir_onnx_binarizer(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    const weir_dtype   t = weir_tensor_desc(x).dtype;
    weir_tensor *const limit = weir_onnx_scalar(c, t, weir_onnx_float(c, "threshold", 0));

    return weir_onnx_give(c, 0, weir_onnx_as(weir_gt(x, limit), t));
}
