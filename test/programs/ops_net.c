/* ops_net.c - products, attention, recurrent layers, convolutions, pooling, norms and losses of
 * random programs. */
#include <limits.h>

#include "programs/ops.h"

/* ---- products ---- */

/* A value with `least` to `most` axes, cast to the program's type; INT_MIN without one. */
static int factor(maker *m, int least, int most)
{
    int x = pick(m, FLOAT, least, most);
    if (x != INT_MIN && desc_of(m, x).dtype != m->p->type && dice_chance(&m->r, 85))
        x = as_type(m, x, m->p->type);
    return x;
}

/* A matrix of x's type to multiply by: a parameter, or a cast of one. */
static int matrix(maker *m, int x, int ndim, const int64_t *dim)
{
    return as_type(m, any_param(m, ndim, dim), desc_of(m, x).dtype);
}

static bool draw_matmul(maker *m, op *o)
{
    const int x = factor(m, 1, 4);
    if (x == INT_MIN)
        return false;
    const weir_desc d = desc_of(m, x);
    const bool      ta = d.ndim > 1 && dice_chance(&m->r, 25), tb = dice_chance(&m->r, 35);
    const int64_t   k = d.dim[d.ndim - 1 - ta], n = size_draw(m);
    const int64_t   b2[] = {tb ? n : k, tb ? k : n};
    o->a[0] = ta;
    o->a[1] = tb;
    o->a[2] = dice_int(&m->r, 0, 2);
    op_in(o, x);
    if (d.ndim > 1 && dice_chance(&m->r, 15)) {
        o->a[0] = o->a[1] = 0;      /* x x^T */
        o->a[1] = 1;
        op_in(o, x);
    } else {
        op_in(o, matrix(m, x, 2, b2));
    }
    if (o->in[1] == INT_MIN || k > 600)
        return false;
    if (o->a[2] == 2 && dice_chance(&m->r, 60))
        op_in(o, matrix(m, x, 1, (int64_t[]){1}));
    return true;
}
static weir_status play_matmul(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s;
    if (o->a[2] == 2)
        return one(weir_gemm(in[0], in[1], o->nin > 2 ? in[2] : NULL, 0.5, 2, o->a[0], o->a[1]),
                   out);
    if (o->a[2] == 1 && !o->a[0] && !o->a[1])
        return one(weir_matmul(in[0], in[1]), out);
    return one(weir_matmul_t(in[0], in[1], o->a[0], o->a[1]), out);
}

static bool draw_linear(maker *m, op *o)
{
    const int x = factor(m, 2, 2);
    if (x == INT_MIN || desc_of(m, x).dim[1] > 600)
        return false;
    const int64_t out = size_draw(m);
    op_in(o, x);
    op_in(o, matrix(m, x, 2, (int64_t[]){out, desc_of(m, x).dim[1]}));
    if (dice_chance(&m->r, 70))
        op_in(o, matrix(m, x, 1, &out));
    return true;
}
static weir_status play_linear(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s;
    return one(weir_linear(in[0], in[1], o->nin > 2 ? in[2] : NULL), out);
}

static const struct {
    const char *equation;
    int         ndim, other;        /* axes of a, and of b: -1 for none */
    int         axis[3];            /* of a that each axis of b is as long as; -1: any */
} sums[] = {
    {"ij,jk->ik", 2, 2, {1, -1}},   {"ij,ij->i", 2, 2, {0, 1}},  {"ij,kj->ki", 2, 2, {-1, 1}},
    {"bij,bkj->bik", 3, 3, {0, -1, 2}}, {"bij,jk->bki", 3, 2, {2, -1}},
    {"i,j->ij", 1, 1, {-1}},        {"bij,bij->b", 3, 3, {0, 1, 2}},
    {"ij->ji", 2, -1, {0}},         {"bij->j", 3, -1, {0}},      {"ij,i->j", 2, 1, {0}},
};

static bool draw_einsum(maker *m, op *o)
{
    o->a[0] = dice_int(&m->r, 0, sizeof sums / sizeof *sums - 1);
    const int x = factor(m, sums[o->a[0]].ndim, sums[o->a[0]].ndim);
    if (x == INT_MIN)
        return false;
    const weir_desc d = desc_of(m, x);
    int64_t         dim[3];
    for (int i = 0; i < sums[o->a[0]].other; i++)
        dim[i] = sums[o->a[0]].axis[i] < 0 ? size_draw(m) : d.dim[sums[o->a[0]].axis[i]];
    op_in(o, x);
    if (sums[o->a[0]].other > 0)
        op_in(o, matrix(m, x, sums[o->a[0]].other, dim));
    return elements(&d) < 4000;
}
static weir_status play_einsum(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s;
    return one(weir_einsum(sums[o->a[0]].equation, in[0], o->nin > 1 ? in[1] : NULL), out);
}

/* ---- attention: a[0] heads, a[1] causal, a[2] heads of k, a[3] packed; f[0] dropout ---- */

static bool draw_attention(maker *m, op *o)
{
    const int64_t heads = dice_int(&m->r, 1, 3), d = dice_int(&m->r, 1, 4);
    int           x = INT_MIN;
    for (int tries = 0; tries < 4 && x == INT_MIN; tries++) {
        x = pick(m, REAL, 3, 3);
        if (x != INT_MIN && desc_of(m, x).dim[2] % heads)
            x = INT_MIN;
    }
    if (x == INT_MIN)
        x = new_real(m, LEAF_PARAM, (weir_desc){m->p->type, 3, {2, dice_int(&m->r, 1, 6),
                                                                heads * d}});
    const weir_desc q = desc_of(m, x);
    const bool      self = dice_chance(&m->r, 40), grouped = !self && dice_chance(&m->r, 30);
    const int64_t   kv = grouped ? 1 : heads;
    weir_desc       k = q, v = q;
    k.dim[1] = v.dim[1] = self ? q.dim[1] : dice_int(&m->r, 1, 6);
    k.dim[2] = q.dim[2] / heads * kv;
    v.dim[2] = self ? q.dim[2] : kv * dice_int(&m->r, 1, 4);
    op_in(o, x);
    op_in(o, self ? x : new_real(m, LEAF_PARAM, k));
    op_in(o, self && dice_chance(&m->r, 50) ? x : new_real(m, LEAF_INPUT, v));
    if (dice_chance(&m->r, 30))
        op_in(o, new_real(m, dice_chance(&m->r, 50) ? LEAF_PARAM : LEAF_INPUT,
                          (weir_desc){m->p->type, 2, {q.dim[1], k.dim[1]}}));
    o->a[0] = heads;
    o->a[1] = dice_int(&m->r, WEIR_ATTENTION_ALL, WEIR_ATTENTION_FROM_LAST);
    o->a[2] = kv;
    o->a[3] = heads == kv && o->nin == 3 && q.dim[2] % (3 * heads) == 0 && dice_chance(&m->r, 30);
    o->f[0] = dice_chance(&m->r, 30) ? 0.4 : 0;
    return true;
}
static weir_status play_attention(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    const weir_attention_options how = {.heads = o->a[0],
                                        .kv_heads = o->a[2],
                                        .causal = (weir_attention_causal)o->a[1],
                                        .dropout = o->f[0],
                                        .mask = o->nin > 3 ? in[3] : NULL};

    (void)s;
    return one(o->a[3] ? weir_attention_packed(in[0], &how)
                       : weir_attention_with(in[0], in[1], in[2], &how), out);
}

/* ---- recurrent: a[0] gates, a[1] both ways, a[2] mask or lengths, a[3] biases, a[4] h0 ---- */

static bool draw_recurrent(maker *m, op *o)
{
    const int x = pick_or_leaf(m, REAL, 3, 3);
    if (x == INT_MIN)
        return false;
    const weir_desc d = desc_of(m, x);
    const int64_t   gates = dice_chance(&m->r, 50) ? 4 : 3, hidden = dice_int(&m->r, 1, 6);
    if (d.dim[0] > 6 || d.dim[2] > 40)
        return false;
    o->a[0] = gates;
    o->a[1] = dice_chance(&m->r, 30);
    o->a[2] = dice_int(&m->r, 0, 2);
    o->a[3] = dice_chance(&m->r, 70);
    op_in(o, x);
    for (int way = 0; way <= o->a[1]; way++) {
        const weir_desc w = weir_2d(d.dtype, gates * hidden, d.dim[2]);
        op_in(o, new_real(m, LEAF_PARAM, w));
        op_in(o, new_real(m, LEAF_PARAM, weir_2d(d.dtype, gates * hidden, hidden)));
        if (o->a[3] && !o->a[1])
            op_in(o, new_real(m, LEAF_PARAM, weir_1d(d.dtype, gates * hidden)));
    }
    if (o->a[2] == 1)
        op_in(o, new_leaf(m, LEAF_INPUT, weir_2d(d.dtype, d.dim[0], d.dim[1]), DATA_FILL, 1, 1));
    if (o->a[2] == 2)
        op_in(o, new_leaf(m, LEAF_INPUT, weir_1d(WEIR_I32, d.dim[1]), DATA_WHOLE, 1,
                          (double)d.dim[0]));
    o->a[4] = dice_chance(&m->r, 40);
    if (o->a[4])
        op_in(o, new_real(m, LEAF_INPUT, (weir_desc){d.dtype, 3, {1 + o->a[1], d.dim[1], hidden}}));
    o->nout = gates == 4 ? 3 : 2;
    return true;
}
static weir_status play_recurrent(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s;
    weir_rnn_weights w[2] = {{0}};
    int              i = 1;
    for (int way = 0; way <= o->a[1]; way++) {
        w[way].w_ih = in[i++];
        w[way].w_hh = in[i++];
        if (o->a[3] && !o->a[1])
            w[way].b_ih = in[i++];
    }
    weir_rnn_options how = {.layers = 1, .bidirectional = o->a[1]};
    if (o->a[2] == 1)
        how.mask = in[i++];
    if (o->a[2] == 2)
        how.lengths = in[i++];
    weir_tensor *const h0 = o->a[4] ? in[i] : NULL;
    out[0] = o->a[0] == 4 ? weir_lstm(in[0], w, h0, NULL, &how, &out[1], &out[2])
                          : weir_gru(in[0], w, h0, &how, &out[1]);
    return out[0] ? WEIR_OK : weir_error_status();
}

/* ---- images: a[0..] options ---- */

static bool draw_conv(maker *m, op *o)
{
    int x = pick_or_leaf(m, REAL, 4, 4);
    if (x == INT_MIN)
        return false;
    const weir_desc d = desc_of(m, x);
    const int64_t   k = dice_int(&m->r, 1, 3), out = dice_int(&m->r, 1, 8);
    const bool      by = dice_chance(&m->r, 20) && d.dim[1] > 1;
    const int64_t   groups = by ? d.dim[1] : 1, c = by ? d.dim[1] * dice_int(&m->r, 1, 2) : out;
    o->a[0] = dice_chance(&m->r, 20);       /* transposed */
    o->a[1] = dice_chance(&m->r, 70) ? 1 : 2;
    o->a[2] = dice_int(&m->r, 0, k / 2);
    o->a[3] = dice_chance(&m->r, 85) ? 1 : 2;
    o->a[4] = groups;
    o->a[5] = dice_chance(&m->r, 15);       /* asymmetric */
    if (d.dim[1] > 32 || elements(&d) > 6000 || d.dim[2] > 40 || d.dim[3] > 40)
        return false;
    const int64_t in = d.dim[1];
    op_in(o, x);
    op_in(o, o->a[0] ? new_real(m, LEAF_PARAM, weir_4d(d.dtype, in, c / groups, k, k))
                     : new_real(m, LEAF_PARAM, weir_4d(d.dtype, c, in / groups, k, k)));
    if (dice_chance(&m->r, 60))
        op_in(o, new_real(m, LEAF_PARAM, weir_1d(d.dtype, c)));
    return true;
}
static weir_status play_conv(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s;
    weir_tensor *const bias = o->nin > 2 ? in[2] : NULL;
    if (o->a[0]) {
        const weir_conv_transpose2d_options t = {
            .stride = {o->a[1], o->a[1]}, .pad = {o->a[2], o->a[2]}, .dilation = {1, o->a[3]},
            .output_pad = {0, o->a[1] > 1}, .groups = o->a[4]};
        return one(weir_conv_transpose2d(in[0], in[1], bias, &t), out);
    }
    const weir_conv2d_options c = {.stride = {o->a[1], o->a[1]}, .pad = {o->a[2], o->a[2]},
                                   .dilation = {o->a[3], 1}, .groups = o->a[4],
                                   .asymmetric = o->a[5], .pad_end = {o->a[5], 0}};
    return one(weir_conv2d(in[0], in[1], bias, &c), out);
}

static bool draw_conv1d(maker *m, op *o)
{
    const int x = pick_or_leaf(m, REAL, 3, 3);
    if (x == INT_MIN)
        return false;
    const weir_desc d = desc_of(m, x);
    const int64_t   k = dice_int(&m->r, 1, 3), out = dice_int(&m->r, 1, 6);
    o->a[0] = dice_chance(&m->r, 75) ? 1 : 2;
    o->a[1] = dice_int(&m->r, 0, k / 2);
    op_in(o, x);
    op_in(o, new_real(m, LEAF_PARAM, (weir_desc){d.dtype, 3, {out, d.dim[1], k}}));
    if (dice_chance(&m->r, 50))
        op_in(o, new_real(m, LEAF_PARAM, weir_1d(d.dtype, out)));
    return d.dim[1] <= 40;
}
static weir_status play_conv1d(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s;
    const weir_conv1d_options c = {.stride = o->a[0], .pad = o->a[1]};
    return one(weir_conv1d(in[0], in[1], o->nin > 2 ? in[2] : NULL, &c), out);
}

static bool draw_pool(maker *m, op *o)
{
    const int x = pick(m, REAL, 3, 4);
    if (x == INT_MIN)
        return false;
    o->a[0] = dice_int(&m->r, 0, 3);
    o->a[1] = dice_int(&m->r, 1, 3);
    o->a[2] = dice_int(&m->r, 1, o->a[1]);
    o->a[3] = dice_int(&m->r, 0, o->a[1] / 2);
    o->a[4] = desc_of(m, x).ndim;
    op_in(o, x);
    return true;
}
static weir_status play_pool(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s;
    const int64_t *a = o->a;
    if (a[4] == 3) {
        const weir_pool1d_options p1 = {a[1], a[2], a[3], a[0] == 2};
        return one((a[0] % 2 ? weir_max_pool1d : weir_avg_pool1d)(in[0], &p1), out);
    }
    const weir_pool2d_options p2 = {.kernel = {a[1], a[1]}, .stride = {a[2], a[2]},
                                    .pad = {a[3], a[3]}, .exclude_pad = a[0] == 2};
    return a[0] == 3 && a[1] == 3 ? one(weir_global_avg_pool2d(in[0]), out)
                                  : one((a[0] % 2 ? weir_max_pool2d : weir_avg_pool2d)(in[0], &p2),
                                        out);
}

/* ---- norms ---- */

static bool draw_batch_norm(maker *m, op *o)
{
    const int x = pick(m, FLOAT, 2, 4);
    if (x == INT_MIN || desc_of(m, x).ndim == 3)
        return false;
    const weir_desc d = desc_of(m, x);
    const weir_desc c = weir_1d(type_bit(d.dtype) == HALF ? WEIR_F32 : d.dtype, d.dim[1]);
    op_in(o, x);
    op_in(o, new_leaf(m, LEAF_PARAM, c, DATA_REAL, 0.5, 1.5));
    op_in(o, new_real(m, LEAF_PARAM, c));
    op_in(o, new_leaf(m, LEAF_STATE, c, DATA_FILL, 0, 0));
    op_in(o, new_leaf(m, LEAF_STATE, c, DATA_FILL, 1, 1));
    for (int i = 3; i < 5; i++)
        m->p->leaf[-1 - o->in[i]].changes = true;
    return elements(&d) / d.dim[1] > 1;
}
static weir_status play_batch_norm(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)o;
    const weir_batch_norm_options how = {.train = !s->w->p->graph[s->g].eval};
    return one(weir_batch_norm(in[0], in[1], in[2], in[3], in[4], &how), out);
}

static bool draw_norm(maker *m, op *o)
{
    const int x = pick(m, FLOAT, 2, 4);
    if (x == INT_MIN)
        return false;
    const weir_desc d = desc_of(m, x);
    weir_desc       c = weir_1d(d.dtype, d.dim[d.ndim - 1]);
    o->a[0] = dice_int(&m->r, 0, 2);
    if (o->a[0] == 2)
        c.dim[0] = d.dim[1];
    o->a[1] = o->a[0] == 2 && d.dim[1] % 2 == 0 ? 2 : 1;
    if (type_bit(c.dtype) == HALF)
        c.dtype = WEIR_F32;
    op_in(o, x);
    op_in(o, new_leaf(m, LEAF_PARAM, c, DATA_REAL, 0.5, 1.5));
    if (o->a[0] != 1)
        op_in(o, new_real(m, LEAF_PARAM, c));
    return d.ndim != 3 || o->a[0] != 2;
}
static weir_status play_norm(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s;
    switch (o->a[0]) {
    case 0:  return one(weir_layer_norm(in[0], in[1], in[2], 0), out);
    case 1:  return one(weir_rms_norm(in[0], in[1], 0), out);
    default: return one(weir_group_norm(in[0], o->a[1], in[1], in[2], 0), out);
    }
}

static bool draw_dropout(maker *m, op *o)
{
    const int x = pick(m, FLOAT, 1, 6);
    o->f[0] = dice_real(&m->r, 0.05, 0.6);
    return x != INT_MIN && op_in(o, x);
}
static weir_status play_dropout(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    if (s->w->p->graph[s->g].eval)
        return one(weir_copy(in[0]), out);
    return one(weir_dropout(in[0], o->f[0]), out);
}

/* ---- losses: scalars, and one value a row ---- */

enum { CE_I32, CE_I64, CE_SOFT, MSE, BCE_LOGITS, BCE, RANKING, COSINE, CORRECT, LOSSES };

static bool draw_loss(maker *m, op *o)
{
    o->a[0] = dice_int(&m->r, 0, m->p->smooth ? COSINE : LOSSES - 1);
    const bool rows = o->a[0] <= CE_SOFT || o->a[0] == CORRECT;
    int        x = pick(m, REAL, rows ? 2 : 1, rows ? 2 : 4);
    if (x == INT_MIN)
        return false;
    weir_desc       d = desc_of(m, x);
    const weir_desc labels = weir_1d(o->a[0] == CE_I64 ? WEIR_I64 : WEIR_I32, d.dim[0]);
    op_in(o, x);
    if (o->a[0] == CE_I32 || o->a[0] == CE_I64 || o->a[0] == CORRECT)
        op_in(o, new_leaf(m, LEAF_INPUT, labels, DATA_WHOLE, 0, (double)d.dim[1] - 1));
    else if (o->a[0] == CE_SOFT || o->a[0] == BCE_LOGITS || o->a[0] == BCE)
        op_in(o, new_leaf(m, LEAF_INPUT, d, DATA_REAL, 0, 1));
    else
        op_in(o, new_real(m, dice_chance(&m->r, 40) ? LEAF_PARAM : LEAF_INPUT, d));
    return true;
}
static weir_status play_loss(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s;
    switch (o->a[0]) {
    case MSE:        return one(weir_mse_loss(in[0], in[1]), out);
    case BCE_LOGITS: return one(weir_bce_logits_loss(in[0], in[1]), out);
    case BCE:        return one(weir_bce_loss(weir_sigmoid(in[0]), in[1]), out);
    case RANKING:    return one(weir_ranking_loss(in[0], in[1], 0.5), out);
    case COSINE:     return one(weir_cosine_similarity(in[0], in[1], 0), out);
    case CORRECT:    return one(weir_count_correct(in[0], in[1]), out);
    default:         return one(weir_cross_entropy(in[0], in[1]), out);
    }
}

const op_def ops_net[] = {
    {"matmul", 8, draw_matmul, play_matmul, 0},
    {"linear", 7, draw_linear, play_linear, 0},
    {"einsum", 4, draw_einsum, play_einsum, VIEW},
    {"attention", 4, draw_attention, play_attention, 0},
    {"recurrent", 4, draw_recurrent, play_recurrent, 0},
    {"conv", 12, draw_conv, play_conv, 0},
    {"conv1d", 3, draw_conv1d, play_conv1d, 0},
    {"pool", 5, draw_pool, play_pool, VIEW},
    {"batch_norm", 6, draw_batch_norm, play_batch_norm, OWN},
    {"norm", 5, draw_norm, play_norm, 0},
    {"dropout", 6, draw_dropout, play_dropout, 0},
    {"loss", 5, draw_loss, play_loss, 0},
};
const int ops_net_n = sizeof ops_net / sizeof *ops_net;
