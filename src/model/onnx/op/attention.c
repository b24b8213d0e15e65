/* attention.c - attention with caches, masks and windows, and rotary embedding. */
#include <math.h>

#include "model/onnx/op/ops.h"

/* What the attributes and inputs of Attention say; heads lie in axis 1: (b,heads,t,d). */
typedef struct job {
    weir_tensor *q, *k, *v;
    weir_tensor *allowed; /* bool, broadcasts to the scores; NULL: all */
    weir_tensor *bias;    /* added to the scores; NULL: none */
    weir_tensor *lengths; /* (b): keys of each batch; NULL: all */
    int64_t      batch, heads, kv_heads, rows, keys, past;
    double       scale, softcap;
    bool         flat, causal; /* flat: inputs and result are (b,t,heads*d) */
} job;

static weir_tensor *swap_heads(weir_tensor *x)
{
    static const int axes[] = {0, 2, 1, 3};
    return x ? weir_transpose(x, axes) : NULL;
}

/* (b,t,heads*d) -> (b,heads,t,d). */
static weir_tensor *split_heads(weir_tensor *x, int64_t heads)
{
    const weir_desc d = weir_tensor_desc(x);

    if (!x || d.ndim != 3 || heads < 1 || d.dim[2] % heads)
        return x ? (weir_fail(WEIR_ERR_SHAPE, "%lld heads", (long long)heads), NULL) : NULL;
    return swap_heads(weir_reshape(x, 4, (int64_t[]){d.dim[0], d.dim[1], heads, d.dim[2] / heads}));
}

/* (b,heads,t,d) -> (b,t,heads*d). */
static weir_tensor *join_heads(weir_tensor *x)
{
    const weir_desc d = weir_tensor_desc(x);
    weir_tensor    *y = swap_heads(x);
    return y ? weir_reshape(y, 3, (int64_t[]){d.dim[0], d.dim[2], d.dim[1] * d.dim[3]}) : NULL;
}

static weir_tensor *with_past(weir_onnx_call *c, size_t i, weir_tensor *x)
{
    weir_tensor *const past = weir_onnx_has(c, i) ? weir_onnx_x(c, i) : NULL;

    return past ? weir_concat(2, (weir_tensor *[]){past, x}, 2) : x;
}

static weir_status read_inputs(weir_onnx_call *c, job *j)
{
    weir_tensor *const in[3] = {weir_onnx_x(c, 0), weir_onnx_x(c, 1), weir_onnx_x(c, 2)};

    if (!in[0] || !in[1] || !in[2])
        return weir_error_status();
    const int64_t kv = weir_onnx_int(c, "kv_num_heads", 0);
    j->flat = weir_tensor_desc(in[0]).ndim == 3;
    j->q = j->flat ? split_heads(in[0], weir_onnx_int(c, "q_num_heads", 0)) : in[0];
    j->k = j->flat ? split_heads(in[1], kv) : in[1];
    j->v = j->flat ? split_heads(in[2], kv) : in[2];
    if (!j->q || !j->k || !j->v)
        return weir_error_status();
    if (weir_tensor_desc(j->q).ndim != 4 || weir_tensor_desc(j->k).ndim != 4 ||
        weir_tensor_desc(j->v).ndim != 4)
        return weir_onnx_refuse(c, "queries, keys or values have not 3 or 4 axes");
    j->past = weir_onnx_has(c, 4) ? weir_onnx_desc_of(c, 4).dim[2] : 0;
    j->k = with_past(c, 4, j->k);
    j->v = with_past(c, 5, j->v);
    if (!j->k || !j->v)
        return weir_error_status();
    const weir_desc q = weir_tensor_desc(j->q), k = weir_tensor_desc(j->k);
    j->batch = q.dim[0];
    j->heads = q.dim[1];
    j->kv_heads = k.dim[1];
    j->rows = q.dim[2];
    j->keys = k.dim[2];
    j->scale = weir_onnx_float(c, "scale", 0);
    j->scale = j->scale > 0 ? j->scale : 1 / sqrt((double)q.dim[3]);
    j->softcap = weir_onnx_float(c, "softcap", 0);
    j->causal = weir_onnx_int(c, "is_causal", 0) != 0;
    if (weir_onnx_has(c, 6) && !(j->lengths = weir_onnx_x(c, 6)))
        return weir_error_status();
    return j->kv_heads > 0 && j->heads % j->kv_heads == 0
               ? WEIR_OK
               : weir_onnx_refuse(c, "the heads of keys do not divide those of queries");
}

static weir_tensor *both(weir_tensor *a, weir_tensor *b)
{
    return a && b ? weir_logical_and(a, b) : a ? a : b;
}

/* The position of row i among the keys minus key j: (t,s), or (b,1,t,s) where lengths differ. */
static weir_tensor *distance(weir_onnx_call *c, const job *j)
{
    weir_tensor *const row = weir_onnx_ramp(c, j->rows, 1, 2, 0);
    weir_tensor *const key = weir_onnx_ramp(c, j->keys, 1, 2, 1);
    weir_tensor       *off = weir_fill_int(c->dev, weir_scalar(WEIR_I64), j->past);

    if (j->lengths && !j->past) {
        off = weir_reshape(weir_onnx_as(j->lengths, WEIR_I64), 4, (int64_t[]){j->batch, 1, 1, 1});
        off = weir_sub(off, weir_fill_int(c->dev, weir_scalar(WEIR_I64), j->rows));
    }
    return weir_sub(weir_add(row, off), key);
}

static void limit(weir_onnx_call *c, job *j)
{
    const int64_t left = weir_onnx_int(c, "left_window_size", -1);
    const int64_t right = weir_onnx_int(c, "right_window_size", -1);
    const bool    simple = !j->lengths || j->past;
    weir_tensor  *far = NULL;

    if (j->causal && simple && left < 0 && right < 0 &&
        (j->past == 0 || j->keys == j->past + j->rows))
        return; /* attention itself does it */
    if (j->causal || left >= 0 || right >= 0)
        far = distance(c, j);
    if (j->causal)
        j->allowed =
            both(j->allowed, weir_ge(far, weir_fill_int(c->dev, weir_scalar(WEIR_I64), 0)));
    if (left >= 0)
        j->allowed =
            both(j->allowed, weir_le(far, weir_fill_int(c->dev, weir_scalar(WEIR_I64), left)));
    if (right >= 0)
        j->allowed =
            both(j->allowed, weir_ge(far, weir_fill_int(c->dev, weir_scalar(WEIR_I64), -right)));
    j->causal = false;
}

/* The mask, longer by what it does not have: those keys are hidden. */
static weir_status read_mask(weir_onnx_call *c, job *j)
{
    weir_tensor *m = weir_onnx_has(c, 3) ? weir_onnx_x(c, 3) : NULL;
    int64_t      none[WEIR_MAX_DIMS] = {0}, more[WEIR_MAX_DIMS] = {0};

    if (!m)
        return weir_onnx_has(c, 3) ? weir_error_status() : WEIR_OK;
    const weir_desc d = weir_tensor_desc(m);
    const int64_t   last = d.ndim ? d.dim[d.ndim - 1] : j->keys;
    if (last < j->keys && last != 1) {
        more[d.ndim - 1] = j->keys - last;
        m = weir_pad(d.dtype == WEIR_BOOL ? weir_cast(m, WEIR_U8) : m, none, more,
                     WEIR_PAD_CONSTANT, d.dtype == WEIR_BOOL ? 0 : -INFINITY);
        m = m && d.dtype == WEIR_BOOL ? weir_cast(m, WEIR_BOOL) : m;
    }
    if (d.dtype == WEIR_BOOL)
        j->allowed = m;
    else
        j->bias = m;
    return m ? WEIR_OK : weir_error_status();
}

/* Where the scores hide by both, the bias alone says it. */
static void join_masks(weir_onnx_call *c, job *j)
{
    if (!j->allowed || !j->bias)
        return;
    weir_tensor *const hidden = weir_onnx_scalar(c, weir_tensor_desc(j->bias).dtype, -INFINITY);
    j->bias = weir_where(j->allowed, j->bias, hidden);
    j->allowed = NULL;
}

static weir_tensor *fused(const job *j)
{
    const weir_attention_options o = {.heads = j->heads,
                                      .kv_heads = j->kv_heads,
                                      .scale = j->scale,
                                      .lengths = j->lengths,
                                      .causal = !j->causal ? WEIR_ATTENTION_ALL
                                                : j->past  ? WEIR_ATTENTION_FROM_LAST
                                                           : WEIR_ATTENTION_FROM_FIRST,
                                      .mask = j->allowed ? j->allowed : j->bias};
    weir_tensor *const           y =
        weir_attention_with(join_heads(j->q), join_heads(j->k), join_heads(j->v), &o);
    return j->flat ? y : split_heads(y, j->heads);
}

/* Scores, bias and probabilities one after the other, for what attention does not give out. */
static weir_status composed(weir_onnx_call *c, job *j)
{
    const int64_t mode = weir_onnx_int(c, "qk_matmul_output_mode", 0),
                  times = j->heads / j->kv_heads;
    const weir_dtype t = weir_tensor_desc(j->q).dtype;

    if (j->causal)
        j->allowed = both(j->allowed,
                          weir_ge(distance(c, j), weir_fill_int(c->dev, weir_scalar(WEIR_I64), 0)));
    if (j->lengths) {
        weir_tensor *const n =
            weir_reshape(weir_onnx_as(j->lengths, WEIR_I64), 4, (int64_t[]){j->batch, 1, 1, 1});
        j->allowed = both(j->allowed, weir_lt(weir_onnx_ramp(c, j->keys, 1, 4, 3), n));
    }
    weir_tensor *const k = times > 1 ? weir_repeat(j->k, 1, times) : j->k;
    weir_tensor *const v = times > 1 ? weir_repeat(j->v, 1, times) : j->v;
    weir_tensor       *s = weir_affine(weir_matmul_t(j->q, k, false, true), j->scale, 0), *out = s;
    if (j->softcap > 0)
        s = weir_affine(weir_tanh(weir_affine(s, 1 / j->softcap, 0)), j->softcap, 0);
    out = mode == 1 ? s : out;
    weir_tensor *const none = weir_onnx_scalar(c, t, -INFINITY);
    if (j->bias)
        s = weir_add(s, weir_onnx_as(j->bias, t));
    if (j->allowed)
        s = weir_where(j->allowed, s, none);
    out = mode == 2 ? s : out;
    weir_tensor *const seen = weir_gt(weir_amax(s, 1u << 3, true), none);
    weir_tensor *const p = weir_where(seen, weir_softmax(s, 3), weir_onnx_scalar(c, t, 0));
    weir_tensor *const y = weir_matmul(p, v);
    WEIR_TRY(weir_onnx_give(c, 0, j->flat ? join_heads(y) : y));
    return weir_onnx_wants(c, 3) ? weir_onnx_give(c, 3, weir_onnx_same(mode == 3 ? p : out))
                                 : WEIR_OK;
}

weir_status weir_onnx_attention(weir_onnx_call *c)
{
    job j = {.q = NULL};

    WEIR_TRY(read_inputs(c, &j));
    WEIR_TRY(read_mask(c, &j));
    limit(c, &j);
    join_masks(c, &j);
    if (weir_onnx_wants(c, 1))
        WEIR_TRY(weir_onnx_give(c, 1, weir_onnx_same(j.k)));
    if (weir_onnx_wants(c, 2))
        WEIR_TRY(weir_onnx_give(c, 2, weir_onnx_same(j.v)));
    if (weir_onnx_wants(c, 3) || j.softcap > 0)
        return composed(c, &j);
    return weir_onnx_give(c, 0, fused(&j));
}

/* ---- rotary embedding ---- */

/* The rows of a cache for the positions: (b,t,1,d/2). */
static weir_tensor *angles(weir_onnx_call *c, size_t i)
{
    weir_tensor *const cache = weir_onnx_x(c, i);
    weir_tensor *const at = weir_onnx_has(c, 3) ? weir_onnx_x(c, 3) : NULL;

    return weir_unsqueeze(at ? weir_gather(cache, at) : cache, 2);
}

static weir_tensor *every_second(weir_tensor *x, int64_t from)
{
    const int64_t begin[] = {0, 0, 0, from};
    const int64_t end[] = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    const int64_t step[] = {1, 1, 1, 2};
    return weir_slice(x, begin, end, step);
}

/* Pairs of elements as complex numbers, turned by the angle of their position. */
static weir_tensor *turn(weir_onnx_call *c, weir_tensor *x, int64_t size)
{
    const bool         pairs = weir_onnx_int(c, "interleaved", 0) != 0;
    weir_tensor *const cosine = angles(c, 1), *const sine = angles(c, 2);
    weir_tensor *const a = pairs ? every_second(x, 0) : weir_narrow(x, 3, 0, size / 2);
    weir_tensor *const b = pairs ? every_second(x, 1) : weir_narrow(x, 3, size / 2, size / 2);
    weir_tensor       *part[2] = {weir_sub(weir_mul(cosine, a), weir_mul(sine, b)),
                                  weir_add(weir_mul(sine, a), weir_mul(cosine, b))};

    if (!part[0] || !part[1] || !pairs)
        return part[0] && part[1] ? weir_concat(2, part, 3) : NULL;
    part[0] = weir_unsqueeze(part[0], 4);
    part[1] = weir_unsqueeze(part[1], 4);
    const weir_desc d = weir_tensor_desc(x);
    return weir_reshape(weir_concat(2, part, 4), 4, d.dim);
}

weir_status weir_onnx_rotary(weir_onnx_call *c)
{
    weir_tensor *x = weir_onnx_x(c, 0);

    if (!x)
        return weir_error_status();
    const weir_desc whole = weir_tensor_desc(x);
    const int64_t   heads = weir_onnx_int(c, "num_heads", 0);
    if (whole.ndim == 3 && (heads < 1 || whole.dim[2] % heads))
        return weir_onnx_refuse(c, "num_heads %lld", (long long)heads);
    if (whole.ndim != 3 && whole.ndim != 4)
        return weir_onnx_refuse(c, "a tensor with %d axes", whole.ndim);
    x = whole.ndim == 4
            ? swap_heads(x)
            : weir_reshape(x, 4,
                           (int64_t[]){whole.dim[0], whole.dim[1], heads, whole.dim[2] / heads});
    const weir_desc d = weir_tensor_desc(x);
    int64_t         size = weir_onnx_int(c, "rotary_embedding_dim", 0);
    size = size > 0 ? size : d.dim[3];
    if (!x || size > d.dim[3] || size % 2)
        return weir_onnx_refuse(c, "%lld of %lld elements", (long long)size, (long long)d.dim[3]);
    weir_tensor *y = turn(c, size < d.dim[3] ? weir_narrow(x, 3, 0, size) : x, size);
    if (y && size < d.dim[3])
        y = weir_concat(2, (weir_tensor *[]){y, weir_narrow(x, 3, size, d.dim[3] - size)}, 3);
    if (!y)
        return weir_error_status();
    return weir_onnx_give(c, 0,
                          whole.ndim == 4 ? swap_heads(y) : weir_reshape(y, whole.ndim, whole.dim));
}
