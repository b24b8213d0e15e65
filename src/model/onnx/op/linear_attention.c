/* linear_attention.c - layers of language models that carry a state from token to token: linear
 * attention (Katharopoulos et al. 2020; gated delta rule Yang et al. 2025), causal convolution.
 *
 * The recurrence is recorded token by token; the state stands beside the result, so decoding goes
 * on from it. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "model/onnx/op/ops.h"

enum { TOKENS = 20000 };

/* ---- causal convolution ---- */

/* x (n,c,l) with the last k - 1 elements of what was before it, or zeros. */
static weir_tensor *with_past(weir_onnx_call *c, weir_tensor *x, int64_t k)
{
    int64_t front[WEIR_MAX_DIMS] = {0, 0, k - 1}, back[WEIR_MAX_DIMS] = {0};

    if (!weir_onnx_has(c, 3))
        return weir_pad(x, front, back, WEIR_PAD_CONSTANT, 0);
    weir_tensor *const past = weir_onnx_x(c, 3);
    const weir_desc    p = weir_tensor_desc(past), d = weir_tensor_desc(x);
    if (!past || (p.ndim == 3 && p.dim[2] == 0 && k == 1))
        return past ? x : NULL;
    if (p.ndim != 3 || p.dim[0] != d.dim[0] || p.dim[1] != d.dim[1] || p.dim[2] != k - 1)
        return (void)weir_onnx_refuse(c, "a past state that is not (n,c,%" PRId64 ")", k - 1), NULL;
    return weir_concat(2, (weir_tensor *[]){past, x}, 2);
}

weir_status weir_onnx_causal_conv(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0), *const w = weir_onnx_x(c, 1);
    weir_tensor *const bias = weir_onnx_has(c, 2) ? weir_onnx_x(c, 2) : NULL;
    const char *const  activation = weir_onnx_str(c, "activation", "none");
    const bool         silu = strcmp(activation, "silu") == 0 || strcmp(activation, "swish") == 0;

    if (!x || !w || (weir_onnx_has(c, 2) && !bias))
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x), f = weir_tensor_desc(w);
    if (d.ndim != 3 || f.ndim != 3 || f.dim[0] != d.dim[1] || f.dim[1] != 1 || f.dim[2] < 1)
        return weir_onnx_refuse(c, "an input with %d axes, a kernel with %d", d.ndim, f.ndim);
    if (!silu && strcmp(activation, "none") != 0)
        return weir_onnx_refuse(c, "activation %.20s", activation);
    weir_tensor *const all = with_past(c, x, f.dim[2]);
    weir_tensor *const y = weir_conv1d(all, w, bias, &(weir_conv1d_options){.groups = d.dim[1]});
    if (weir_onnx_wants(c, 1) && all)
        WEIR_TRY(weir_onnx_give(c, 1, weir_copy(weir_narrow(all, 2, d.dim[2], f.dim[2] - 1))));
    return weir_onnx_give(c, 0, silu && y ? weir_silu(y) : y);
}

/* ---- linear attention ---- */

typedef struct rule {
    const char *name;
    bool        gated, delta;
} rule;

/* Tensors are (batch, heads, tokens, size), but for the state (batch, heads, keys, values). */
typedef struct linear {
    weir_onnx_call *c;
    const rule     *rule;
    weir_tensor    *q, *k, *v, *decay, *beta, *state;
    int64_t         batch, heads, kv_heads, tokens;
    double          scale;
} linear;

/* (b,t,h*d) -> (b,h,t,d). */
static weir_tensor *heads_of(const linear *l, weir_tensor *x, int64_t heads)
{
    const weir_desc d = weir_tensor_desc(x);

    if (x && (d.ndim != 3 || d.dim[0] != l->batch || d.dim[1] != l->tokens || heads < 1 ||
              d.dim[2] < heads || d.dim[2] % heads))
        return (void)weir_onnx_refuse(l->c, "%" PRId64 " heads, or tensors that are not (%" PRId64
                                            ",%" PRId64 ",...)",
                                      heads, l->batch, l->tokens),
               NULL;
    if (!x)
        return NULL;
    x = weir_reshape(x, 4, (int64_t[]){l->batch, l->tokens, heads, d.dim[2] / heads});
    return weir_transpose(x, (int[]){0, 2, 1, 3});
}

static weir_status read_gates(linear *l)
{
    if (l->rule->gated) {
        l->decay = weir_onnx_has(l->c, 4) ? weir_onnx_x(l->c, 4) : NULL;
        if (!(l->decay = heads_of(l, l->decay, l->kv_heads)))
            return weir_onnx_has(l->c, 4) ? weir_error_status()
                                          : weir_onnx_refuse(l->c, "no decay");
    }
    if (l->rule->delta) {
        l->beta = weir_onnx_has(l->c, 5) ? weir_onnx_x(l->c, 5) : NULL;
        const int64_t heads = l->beta && weir_tensor_desc(l->beta).ndim == 3
                                  ? weir_tensor_desc(l->beta).dim[2] : 0;
        if (l->beta && heads != 1 && heads != l->kv_heads)
            return weir_onnx_refuse(l->c, "update rates of %" PRId64 " heads", heads);
        if (!(l->beta = heads_of(l, l->beta, heads)))
            return weir_onnx_has(l->c, 5) ? weir_error_status()
                                          : weir_onnx_refuse(l->c, "no update rate");
    }
    return WEIR_OK;
}

static weir_status read_linear(linear *l)
{
    static const rule  rules[] = {{"linear", false, false}, {"gated", true, false},
                                  {"delta", false, true},   {"gated_delta", true, true}};
    const char *const  name = weir_onnx_str(l->c, "update_rule", "gated_delta");
    weir_tensor *const q = weir_onnx_x(l->c, 0), *const k = weir_onnx_x(l->c, 1);
    weir_tensor *const v = weir_onnx_x(l->c, 2);

    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strcmp(rules[i].name, name) == 0)
            l->rule = &rules[i];
    if (!l->rule)
        return weir_onnx_refuse(l->c, "update_rule %.20s", name);
    if (!q || !k || !v)
        return weir_error_status();
    l->heads = weir_onnx_int(l->c, "q_num_heads", 0);
    l->kv_heads = weir_onnx_int(l->c, "kv_num_heads", 0);
    l->batch = weir_tensor_desc(q).dim[0];
    l->tokens = weir_tensor_desc(q).dim[1];
    if (l->kv_heads < 1 || l->heads < 1 || l->heads % l->kv_heads || l->tokens < 1 ||
        l->tokens > TOKENS)
        return weir_onnx_refuse(l->c, "%" PRId64 " and %" PRId64 " heads, %" PRId64 " tokens",
                                l->heads, l->kv_heads, l->tokens);
    l->q = heads_of(l, q, l->heads);
    l->k = heads_of(l, k, l->kv_heads);
    l->v = heads_of(l, v, l->kv_heads);
    if (!l->q || !l->k || !l->v)
        return weir_error_status();
    const weir_desc dk = weir_tensor_desc(l->k), dv = weir_tensor_desc(l->v);
    if (weir_tensor_desc(l->q).dim[3] != dk.dim[3])
        return weir_onnx_refuse(l->c, "queries and keys of %" PRId64 " and %" PRId64 " elements",
                                weir_tensor_desc(l->q).dim[3], dk.dim[3]);
    l->scale = weir_onnx_float(l->c, "scale", 0);
    if (l->scale == 0)
        l->scale = 1 / sqrt((double)dk.dim[3]);
    l->state = weir_onnx_has(l->c, 3)
                   ? weir_onnx_x(l->c, 3)
                   : weir_fill(l->c->dev,
                               (weir_desc){.dtype = dk.dtype, .ndim = 4,
                                           .dim = {l->batch, l->kv_heads, dk.dim[3], dv.dim[3]}},
                               0);
    const weir_desc s = weir_tensor_desc(l->state);
    if (l->state && (s.ndim != 4 || s.dim[0] != l->batch || s.dim[1] != l->kv_heads ||
                     s.dim[2] != dk.dim[3] || s.dim[3] != dv.dim[3]))
        return weir_onnx_refuse(l->c, "a past state of another shape");
    return l->state ? read_gates(l) : weir_error_status();
}

/* One token: a row (b,h,1,d) of a tensor; NULL stays NULL. */
static weir_tensor *token(weir_tensor *x, int64_t t)
{
    return x ? weir_narrow(x, 2, t, 1) : NULL;
}

/* S = decay S + beta k (v - decay S^T k)^T, of which each rule has a part; returns q^T S. */
static weir_tensor *advance(linear *l, int64_t t)
{
    weir_tensor *const k = token(l->k, t), *const decay = token(l->decay, t);
    weir_tensor       *v = token(l->v, t), *s = l->state, *q = token(l->q, t);
    const int64_t      times = l->heads / l->kv_heads;

    if (decay) /* (b,h,1,keys) or (b,h,1,1), as a column */
        s = weir_mul(s, weir_transpose(weir_exp(decay), (int[]){0, 1, 3, 2}));
    if (l->rule->delta) {
        v = weir_sub(v, weir_matmul(k, s));
        v = weir_mul(v, token(l->beta, t));
    }
    l->state = weir_add(s, weir_matmul_t(k, v, true, false));
    weir_tensor *const all = times > 1 ? weir_repeat(l->state, 1, times) : l->state;
    return weir_matmul(q, all);
}

static weir_status record_tokens(linear *l, weir_tensor **row)
{
    for (int64_t t = 0; t < l->tokens; t++)
        if (!(row[t] = advance(l, t)))
            return weir_error_status();
    weir_tensor *y = weir_affine(weir_concat((int)l->tokens, row, 2), l->scale, 0);
    if (!y)
        return weir_error_status();
    const int64_t size = l->heads * weir_tensor_desc(y).dim[3];
    y = weir_transpose(y, (int[]){0, 2, 1, 3});
    WEIR_TRY(weir_onnx_give(
        l->c, 0, weir_reshape(y, 3, (int64_t[]){l->batch, l->tokens, size})));
    return weir_onnx_wants(l->c, 1) ? weir_onnx_give(l->c, 1, l->state) : WEIR_OK;
}

weir_status weir_onnx_linear_attention(weir_onnx_call *c)
{
    linear l = {.c = c};

    WEIR_TRY(read_linear(&l));
    weir_tensor **const row = weir_host_alloc((size_t)l.tokens * sizeof *row);
    if (!row)
        return weir_error_status();
    const weir_status s = record_tokens(&l, row);
    weir_host_free((void *)row);
    return s;
}
