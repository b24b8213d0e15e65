/* recurrent.c - LSTM and GRU, composed of one op per sequence or of operations per time step.
 *
 * Hochreiter and Schmidhuber (1997) with the forget gate of Gers et al. (2000); Cho et al. (2014),
 * both in PyTorch's form and order of gates (i,f,g,o and r,z,n). The input's part of the gates is
 * one product for all steps. An LSTM over sequences of equal length is one call (lstm.c). Otherwise
 * the product is split into steps by repeated halving: the gradients of the steps are then joined
 * in log2(steps) passes over the sequence instead of one pass per step. */
#include "core/mem.h"
#include "graph/ops/define.h"

/* One layer in one direction. */
typedef struct pass {
    const char             *who;
    int                     gates;      /* 4: LSTM, 3: GRU */
    const weir_rnn_weights *w;
    weir_tensor            *mask;       /* (t,n) bool or NULL: where sequences last */
    int64_t                 t, n, hidden;
    bool                    backward;   /* from the last step to the first */
    weir_tensor           **step;       /* [t] the input's part of the gates, then the outputs */
    weir_tensor            *h, *c;      /* the state; c: LSTM only */
} pass;

/* ---- steps ---- */

/* LSTM: c = f c + i g, h = o tanh(c). */
static void lstm_step(pass *p, weir_tensor *gates)
{
    weir_tensor *g[4];

    if (!gates || weir_split(gates, 1, 4, NULL, g) != WEIR_OK) {
        p->h = p->c = NULL;
        return;
    }
    p->c = weir_add(weir_mul(weir_sigmoid(g[1]), p->c), weir_mul(weir_sigmoid(g[0]),
                                                                 weir_tanh(g[2])));
    p->h = weir_mul(weir_sigmoid(g[3]), weir_tanh(p->c));
}

/* GRU: h = n + z (h - n) with n = tanh(xn + r hn). */
static void gru_step(pass *p, weir_tensor *from_x, weir_tensor *from_h)
{
    weir_tensor *x[3], *h[3];

    if (!from_x || !from_h || weir_split(from_x, 1, 3, NULL, x) != WEIR_OK ||
        weir_split(from_h, 1, 3, NULL, h) != WEIR_OK) {
        p->h = NULL;
        return;
    }
    weir_tensor *const r = weir_sigmoid(weir_add(x[0], h[0]));
    weir_tensor *const z = weir_sigmoid(weir_add(x[1], h[1]));
    weir_tensor *const n = weir_tanh(weir_add(x[2], weir_mul(r, h[2])));
    p->h = weir_add(n, weir_mul(z, weir_sub(p->h, n)));
}

/* x where the mask is set, else 0; selected instead of multiplied, since 0 times NaN is NaN. */
static weir_tensor *while_lasting(weir_tensor *m, weir_tensor *x)
{
    if (!m || !x)
        return NULL;
    return weir_where(m, x, weir_fill(x->dev, weir_scalar(x->layout.desc.dtype), 0));
}

static void one_step(pass *p, int64_t t)
{
    weir_tensor *const h = p->h, *const c = p->c;
    weir_tensor *const from_h = weir_linear(h, p->w->w_hh, p->w->b_hh);

    if (p->gates == 4)
        lstm_step(p, weir_add(p->step[t], from_h));
    else
        gru_step(p, p->step[t], from_h);
    p->step[t] = p->h;
    if (!p->mask)
        return;

    weir_tensor *const m =
        weir_reshape(weir_narrow(p->mask, 0, t, 1), 2, (int64_t[]){p->n, 1});
    p->step[t] = while_lasting(m, p->h);
    p->h = weir_where(m, p->h, h);
    if (p->gates == 4)
        p->c = weir_where(m, p->c, c);
}

/* Splits x (count * n, columns) into p->step[first .. first + count - 1] by repeated halving. */
static void hand_out(pass *p, weir_tensor *x, int64_t first, int64_t count)
{
    const int64_t half = count / 2;

    if (count == 1) {
        p->step[first] = x;
        return;
    }
    hand_out(p, weir_narrow(x, 0, 0, half * p->n), first, half);
    hand_out(p, weir_narrow(x, 0, half * p->n, (count - half) * p->n), first + half, count - half);
}

/* ---- layers ---- */

static weir_status check_bias(const pass *p, const char *name, const weir_tensor *bias)
{
    char text[WEIR_DESC_TEXT];

    if (bias && (bias->layout.desc.ndim != 1 || bias->layout.desc.dim[0] != p->gates * p->hidden))
        return weir_fail(WEIR_ERR_SHAPE, "%s: bias %s must be (%lld), it is %s", p->who, name,
                         (long long)(p->gates * p->hidden),
                         weir_desc_text(&bias->layout.desc, text));
    return WEIR_OK;
}

/* Weights (gates * hidden, in) and (gates * hidden, hidden); linear checks the rest. */
static weir_status check_weights(pass *p, const weir_rnn_weights *w)
{
    char text[WEIR_DESC_TEXT];

    if (!w->w_ih || !w->w_hh)
        return weir_fail_null(p->who, w->w_ih ? "w_hh" : "w_ih");
    const weir_desc *const d = &w->w_hh->layout.desc;
    p->w = w;
    p->hidden = d->ndim == 2 ? d->dim[1] : 0;
    if (d->ndim != 2 || d->dim[0] % p->gates != 0 || d->dim[0] / p->gates != p->hidden ||
        w->w_ih->layout.desc.ndim != 2 || w->w_ih->layout.desc.dim[0] != d->dim[0])
        return weir_fail(WEIR_ERR_SHAPE, "%s: w_hh must be (%d*hidden,hidden) and w_ih have as "
                         "many rows, w_hh is %s", p->who, p->gates, weir_desc_text(d, text));
    return check_bias(p, "b_ih", w->b_ih) == WEIR_OK ? check_bias(p, "b_hh", w->b_hh)
                                                      : weir_error_status();
}

/* State i of (states,n,hidden). */
static weir_tensor *state_at(const pass *p, weir_tensor *all, int64_t i)
{
    return weir_reshape(weir_narrow(all, 0, i, 1), 2, (int64_t[]){p->n, p->hidden});
}

/* State i of (layers * directions, n, hidden), or zeros. */
static weir_tensor *state_of(const pass *p, weir_tensor *all, int64_t i, const weir_tensor *x)
{
    if (!all)
        return weir_fill(x->dev, weir_2d(x->layout.desc.dtype, p->n, p->hidden), 0);
    return state_at(p, all, i);
}

/* The sum of both biases, or the only one, or NULL; sets *ok to false after a failure. */
static weir_tensor *bias_of(const weir_rnn_weights *w, bool *ok)
{
    if (!w->b_ih || !w->b_hh)
        return w->b_ih ? w->b_ih : w->b_hh;
    weir_tensor *const both = weir_add(w->b_ih, w->b_hh);
    *ok = both != NULL;
    return both;
}

/* An LSTM's direction of a layer as one call. */
static weir_tensor *at_once(pass *p, weir_tensor *x)
{
    bool                 ok = true;
    weir_tensor *const   bias = bias_of(p->w, &ok);
    weir_tensor *const   sums = ok ? weir_linear(x, p->w->w_ih, bias) : NULL;
    const weir_lstm_attr a = {.backward = p->backward};
    weir_tensor         *out[WEIR_MAX_OUT] = {NULL};

    if (!sums)
        return NULL;
    weir_tensor *const in[] = {
        weir_reshape(sums, 3, (int64_t[]){p->t, p->n, 4 * p->hidden}), p->w->w_hh, p->h, p->c};
    if (weir_record(WEIR_OP_LSTM, 4, in, &a, sizeof a, out) != WEIR_OK)
        return NULL;
    p->h = state_at(p, out[1], p->backward ? 0 : p->t - 1);
    p->c = state_at(p, out[2], p->backward ? 0 : p->t - 1);
    return p->h && p->c ? out[1] : NULL;
}

/* One direction of a layer: x (t,n,in) -> (t,n,hidden). */
static weir_tensor *one_pass(pass *p, weir_tensor *x)
{
    weir_tensor *const rows =
        weir_reshape(x, 2, (int64_t[]){p->t * p->n, x->layout.desc.dim[2]});

    if (!rows || !p->h || (p->gates == 4 && !p->c))
        return NULL;
    if (p->gates == 4 && !p->mask)
        return at_once(p, rows);
    weir_tensor *const all = weir_linear(rows, p->w->w_ih, p->w->b_ih);
    if (!all)
        return NULL;
    hand_out(p, all, 0, p->t);
    for (int64_t i = 0; i < p->t; i++)
        one_step(p, p->backward ? p->t - 1 - i : i);
    return p->h ? weir_stack((int)p->t, p->step, 0) : NULL;
}

/* What all layers work on. */
typedef struct net {
    pass                    pass;
    const weir_rnn_weights *w;
    int                     layers, ways;
    weir_tensor            *lengths;    /* (n), from which the mask is made, or NULL */
    weir_tensor            *h0, *c0;
    weir_tensor           **hn, **cn;   /* [layers * ways]: last states */
} net;

static weir_tensor *one_layer(net *f, int layer, weir_tensor *x)
{
    weir_tensor *y[2] = {NULL, NULL};
    pass *const  p = &f->pass;

    for (int way = 0; way < f->ways; way++) {
        const int i = layer * f->ways + way;
        if (check_weights(p, &f->w[i]) != WEIR_OK)
            return NULL;
        p->backward = way == 1;
        p->h = state_of(p, f->h0, i, x);
        p->c = p->gates == 4 ? state_of(p, f->c0, i, x) : NULL;
        y[way] = one_pass(p, x);
        if (!y[way])
            return NULL;
        f->hn[i] = p->h;
        f->cn[i] = p->c;
    }
    return f->ways == 1 ? y[0] : weir_concat(2, y, 2);
}

/* Lengths (n) of whole numbers, in the place of a mask. */
static weir_status check_lengths(const net *f, const weir_desc *x)
{
    const weir_desc *const d = &f->lengths->layout.desc;
    char                   text[2][WEIR_DESC_TEXT];

    if (f->pass.mask)
        return weir_fail(WEIR_ERR_INVALID, "%s: mask and lengths are both given (expected one of "
                                           "them)",
                         f->pass.who);
    if (d->dtype != WEIR_I32 && d->dtype != WEIR_I64)
        return weir_fail(WEIR_ERR_DTYPE, "%s: lengths must be i32 or i64, not %s", f->pass.who,
                         weir_desc_text(d, text[0]));
    if (d->ndim != 1 || d->dim[0] != x->dim[1])
        return weir_fail(WEIR_ERR_SHAPE, "%s: lengths is %s but must be (%lld), one for each "
                         "sequence of x %s",
                         f->pass.who, weir_desc_text(d, text[0]), (long long)x->dim[1],
                         weir_desc_text(x, text[1]));
    return WEIR_OK;
}

/* (t,n) bool: is step t below the length of sequence n, or the given mask not 0? */
static weir_tensor *mask_of(const net *f, const weir_tensor *x)
{
    if (!f->lengths)
        return weir_cast(f->pass.mask, WEIR_BOOL);
    weir_tensor *const step = weir_arange(x->dev, f->lengths->layout.desc.dtype, f->pass.t, 0, 1);

    return weir_lt(weir_reshape(step, 2, (int64_t[]){f->pass.t, 1}), f->lengths);
}

/* x with 0 beyond the ends of sequences, so that values there reach neither results nor, as NaN
 * times 0, gradients of weights. */
static weir_tensor *cut_off(net *f, weir_tensor *x)
{
    if (!f->lengths && !f->pass.mask)
        return x;
    f->pass.mask = mask_of(f, x);
    if (!f->pass.mask)
        return NULL;
    return while_lasting(weir_unsqueeze(f->pass.mask, 2), x);
}

/* Fails unless states have x's type; element-wise steps would promote them. The mask may be
 * bool. */
static weir_status check_types(const net *f, const weir_tensor *x)
{
    static const char *const name[] = {"h0", "c0", "mask"};
    const weir_tensor *const given[] = {f->h0, f->c0, f->pass.mask};
    const weir_dtype         type = x->layout.desc.dtype;

    for (int i = 0; i < 3; i++)
        if (given[i] && given[i]->layout.desc.dtype != type &&
            (i < 2 || given[i]->layout.desc.dtype != WEIR_BOOL))
            return weir_fail(WEIR_ERR_DTYPE, "%s: %s is %s but x is %s", f->pass.who, name[i],
                             weir_dtype_name(given[i]->layout.desc.dtype), weir_dtype_name(type));
    return WEIR_OK;
}

/* Fails unless x is floats (t,n,in) with at least one step, and the mask (t,n) or lengths (n). */
static weir_status check_input(const net *f, const weir_tensor *x)
{
    const weir_desc *const d = &x->layout.desc;
    char                   text[2][WEIR_DESC_TEXT];

    if (d->ndim != 3 || d->dim[0] < 1 || d->dim[0] > INT32_MAX)
        return weir_fail(WEIR_ERR_SHAPE, "%s: x must be (steps,n,columns) with 1 step or more, "
                         "not %s", f->pass.who, weir_desc_text(d, text[0]));
    if (!f->w || f->layers < 1 || f->layers > INT16_MAX)
        return weir_fail(WEIR_ERR_INVALID, "%s: weights are missing, or the layers are %d, not 1 "
                                           "to %d",
                         f->pass.who, f->layers, INT16_MAX);
    const weir_tensor *const m = f->pass.mask;
    if (m && (m->layout.desc.ndim != 2 || m->layout.desc.dim[0] != d->dim[0] ||
              m->layout.desc.dim[1] != d->dim[1]))
        return weir_fail(WEIR_ERR_SHAPE, "%s: mask is %s but must be (steps,n) of x, which is %s",
                         f->pass.who, weir_desc_text(&m->layout.desc, text[0]),
                         weir_desc_text(d, text[1]));
    WEIR_TRY(check_types(f, x));
    return f->lengths ? check_lengths(f, d) : WEIR_OK;
}

/* ---- public functions ---- */

/* Runs all layers; the caller has allocated the pointers in f. */
static weir_tensor *run(net *f, weir_tensor *x, weir_tensor **hn, weir_tensor **cn)
{
    const int    states = f->layers * f->ways;
    weir_tensor *y = cut_off(f, x);

    for (int i = 0; i < f->layers && y; i++)
        y = one_layer(f, i, y);
    if (y && hn && !(*hn = weir_stack(states, f->hn, 0)))
        return NULL;
    if (y && cn && !(*cn = weir_stack(states, f->cn, 0)))
        return NULL;
    return y;
}

/* y, or its failure with the shapes of the inputs. */
static weir_tensor *retold(const net *f, weir_tensor *y, weir_tensor *x)
{
    const weir_rnn_weights w = f->w ? f->w[0] : (weir_rnn_weights){.w_ih = NULL};
    weir_tensor *const     in[] = {x, w.w_ih, w.w_hh, w.b_ih, w.b_hh, f->h0, f->c0,
                                          f->lengths ? f->lengths : f->pass.mask};

    return weir_retold(y, f->pass.who, 8, in);
}

/* Runs in a scope of its own: only results, and what the tape keeps, outlive it. */
static weir_tensor *recurrent(net *f, weir_tensor *x, const weir_rnn_options *o, weir_tensor **hn,
                              weir_tensor **cn)
{
    if (hn)
        *hn = NULL;
    if (cn)
        *cn = NULL;
    if (!x)
        return weir_null(f->pass.who, "x");
    f->layers = o && o->layers ? o->layers : 1;
    f->ways = o && o->bidirectional ? 2 : 1;
    f->pass.mask = o ? o->mask : NULL;
    f->lengths = o ? o->lengths : NULL;
    if (check_input(f, x) != WEIR_OK)
        return retold(f, NULL, x);
    f->pass.t = x->layout.desc.dim[0];
    f->pass.n = x->layout.desc.dim[1];

    const size_t        states = (size_t)f->layers * (size_t)f->ways, steps = (size_t)f->pass.t;
    weir_tensor **const buffer = weir_mem_zalloc(2 * states + steps, sizeof *buffer);
    weir_device *const  dev = x->dev;
    if (!buffer || weir_scope_begin(dev) != WEIR_OK) {
        weir_mem_free(buffer);
        return NULL;
    }
    f->hn = buffer;
    f->cn = buffer + states;
    f->pass.step = buffer + 2 * states;
    weir_tensor *y = retold(f, run(f, x, hn, cn), x);
    weir_mem_free(buffer);
    y = weir_escape(y);
    if (hn)
        *hn = y ? weir_escape(*hn) : NULL;
    if (cn)
        *cn = y ? weir_escape(*cn) : NULL;
    return weir_scope_end(dev) == WEIR_OK ? y : NULL;
}

weir_tensor *weir_lstm(weir_tensor *x, const weir_rnn_weights *w, weir_tensor *h0, weir_tensor *c0,
                       const weir_rnn_options *options, weir_tensor **hn, weir_tensor **cn)
{
    net f = {.pass = {.who = "lstm", .gates = 4}, .w = w, .h0 = h0, .c0 = c0};

    return recurrent(&f, x, options, hn, cn);
}

weir_tensor *weir_gru(weir_tensor *x, const weir_rnn_weights *w, weir_tensor *h0,
                      const weir_rnn_options *options, weir_tensor **hn)
{
    net f = {.pass = {.who = "gru", .gates = 3}, .w = w, .h0 = h0};

    return recurrent(&f, x, options, hn, NULL);
}
