/* ops_state.c - what changes in place, scopes, checkpoints, callbacks and layers in random
 * programs. */
#include <limits.h>
#include <math.h>

#include "programs/ops.h"

/* ---- in place: on states that are marked as changing ---- */

/* A changing state of the type's kind: one there is, or a new one. */
static int changing(maker *m, const weir_desc *d)
{
    for (int i = 0; i < m->p->nleaf; i++) {
        const leaf *l = &m->p->leaf[i];
        bool        same = l->kind == LEAF_STATE && l->changes && l->data == DATA_REAL &&
                    l->desc.ndim == d->ndim && l->desc.dtype == d->dtype;
        for (int k = 0; same && k < d->ndim; k++)
            same = l->desc.dim[k] == d->dim[k];
        if (same && dice_chance(&m->r, 70))
            return -1 - i;
    }
    const int ref = new_real(m, LEAF_STATE, *d);
    if (ref != INT_MIN)
        m->p->leaf[-1 - ref].changes = true;
    return ref;
}

enum { INCREMENT, RESET, ASSIGN, ASSIGN_PART, ACCUMULATE, IN_PLACE };

static bool draw_in_place(maker *m, op *o)
{
    const int x = pick(m, REAL, 1, 4);
    if (x == INT_MIN)
        return false;
    const weir_desc d = desc_of(m, x);
    const int       s = changing(m, &d);
    if (s == INT_MIN || s == x)
        return false;
    o->a[0] = dice_int(&m->r, 0, IN_PLACE - 1);
    o->f[0] = dice_real(&m->r, -0.5, 0.5);
    op_in(o, s);
    if (o->a[0] >= ASSIGN) {
        if (x >= 0 && m->of[x].alias)
            return false;       /* may share its elements */
        op_in(o, x);
    }
    if (o->a[0] == ASSIGN_PART) {
        o->a[1] = dice_int(&m->r, 0, d.ndim - 1);
        o->a[2] = dice_int(&m->r, 0, d.dim[o->a[1]] - 1);
        o->a[3] = dice_int(&m->r, 1, d.dim[o->a[1]] - o->a[2]);
    }
    o->nout = 0;
    return true;
}
static weir_status play_in_place(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s, (void)out;
    const int64_t *a = o->a;
    switch (a[0]) {
    case INCREMENT:  return weir_increment(in[0], o->f[0]);
    case RESET:      return weir_reset(in[0], o->f[0]);
    case ASSIGN:     return weir_assign(in[0], in[1]);
    case ACCUMULATE: return weir_accumulate(in[0], in[1]);
    default:
        return weir_assign(weir_narrow(in[0], (int)a[1], a[2], a[3]),
                           weir_narrow(in[1], (int)a[1], a[2], a[3]));
    }
}

/* ---- scopes: begun and ended by operations; what is open at the end is closed then ---- */

enum { CAST_BEGIN, CAST_END, QUIET_BEGIN, QUIET_END, REGION_BEGIN, REGION_END };

static bool draw_scope(maker *m, op *o)
{
    const stage *s = &m->w.stage[m->g];
    o->nout = 0;
    o->a[1] = dice_chance(&m->r, 50) ? WEIR_BF16 : WEIR_F16;
    if (s->casts)
        o->a[0] = CAST_END;
    else if (s->quiet)
        o->a[0] = QUIET_END;
    else if (s->regions)
        o->a[0] = REGION_END;
    else
        o->a[0] = 2 * dice_int(&m->r, m->p->smooth, 2);
    return o->a[0] != QUIET_BEGIN || dice_chance(&m->r, 40);
}
static weir_status play_scope(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)in, (void)out;
    weir_device *const d = s->w->d;
    switch (o->a[0]) {
    case CAST_BEGIN:
        s->casts++;
        return weir_autocast_begin(d, (weir_dtype)o->a[1]);
    case QUIET_BEGIN:
        s->quiet++;
        return weir_no_grad_begin(d);
    case REGION_BEGIN:
        if (!s->w->m->on)
            return WEIR_OK;
        s->regions++;
        return weir_region_begin(d);
    case CAST_END:  return s->casts > 0 ? s->casts--, weir_autocast_end(d) : WEIR_OK;
    case QUIET_END: return s->quiet > 0 ? s->quiet--, weir_no_grad_end(d) : WEIR_OK;
    default:        return s->regions > 0 ? s->regions--, weir_region_end(d) : WEIR_OK;
    }
}

/* ---- a part behind weir_checkpoint: up to MAX_CHAIN links, coded in a[1..] ---- */

enum { LINK_TANH, LINK_DROPOUT, LINK_SCALE, LINK_SOFTMAX, LINK_NOISE, LINKS };

static weir_status chain(void *ctx, weir_tensor *const *in, weir_tensor **out)
{
    const part  *p = ctx;
    weir_tensor *x = in[0];
    for (int i = 0; i < MAX_CHAIN && i < p->o->a[0]; i++) {
        switch (p->o->a[1 + i]) {
        case LINK_TANH:    x = weir_tanh(x); break;
        case LINK_DROPOUT: x = weir_dropout(x, 0.25); break;
        case LINK_SCALE:   x = weir_mul(x, p->param); break;
        case LINK_SOFTMAX: x = weir_softmax(x, -1); break;
        default:
            x = weir_add(x, weir_uniform(weir_tensor_device(p->param),
                                         weir_tensor_desc(p->param), 0, 1));
        }
    }
    return one(x, out);
}

static bool draw_checkpoint(maker *m, op *o)
{
    const int x = pick(m, REAL, 1, 4);
    if (x == INT_MIN || m->w.stage[m->g].casts)
        return false;
    const weir_desc d = desc_of(m, x);
    op_in(o, x);
    op_in(o, new_real(m, LEAF_PARAM, weir_1d(d.dtype, d.dim[d.ndim - 1])));
    o->a[0] = dice_int(&m->r, 1, MAX_CHAIN);
    for (int i = 0; i < o->a[0]; i++)
        o->a[1 + i] = dice_int(&m->r, 0, LINKS - 1);
    o->a[6] = dice_chance(&m->r, 30);       /* a chain of two, cut into two */
    return true;
}
static weir_status play_checkpoint(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    part *const p = &s->part[o - s->w->p->graph[s->g].op];
    *p = (part){o, in[1]};
    if (!o->a[6])
        return weir_checkpoint(chain, p, 1, in, 1, out);
    const weir_checkpoint_fn fn[] = {chain, chain};
    void *const              ctx[] = {p, p};
    return weir_checkpoint_sequential(2, fn, ctx, 2, in[0], out);
}

/* ---- callbacks ---- */

static double item(const void *data, weir_dtype t, int64_t i)
{
    return t == WEIR_F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}
static void put(void *data, weir_dtype t, int64_t i, double v)
{
    if (t == WEIR_F64)
        ((double *)data)[i] = v;
    else
        ((float *)data)[i] = (float)v;
}

static weir_status bend(void *ctx, const weir_host_in *x, const weir_host_out *y)
{
    (void)ctx;
    for (int64_t i = 0; i < elements(&y[0].desc); i++) {
        const double v = item(x[0].data, x[0].desc.dtype, i);
        put(y[0].data, y[0].desc.dtype, i, v / (1 + fabs(v)));
    }
    return WEIR_OK;
}
static weir_status bend_back(void *ctx, const weir_host_in *x, const weir_host_in *y,
                             const weir_host_in *dy, const weir_host_out *dx)
{
    (void)ctx, (void)y;
    for (int64_t i = 0; dx[0].data && i < elements(&dx[0].desc); i++) {
        const double v = 1 + fabs(item(x[0].data, x[0].desc.dtype, i));
        put(dx[0].data, dx[0].desc.dtype, i, item(dy[0].data, dy[0].desc.dtype, i) / (v * v));
    }
    return WEIR_OK;
}

/* y0 = a b, y1 = a - b; the gradient reads the results only for their number. */
static weir_status pair_of(void *ctx, const weir_host_in *x, const weir_host_out *y)
{
    (void)ctx;
    for (int64_t i = 0; i < elements(&y[0].desc); i++) {
        const double a = item(x[0].data, x[0].desc.dtype, i);
        const double b = item(x[1].data, x[1].desc.dtype, i);
        put(y[0].data, y[0].desc.dtype, i, a * b);
        put(y[1].data, y[1].desc.dtype, i, a - b);
    }
    return WEIR_OK;
}
static weir_status pair_back(void *ctx, const weir_host_in *x, const weir_host_in *y,
                             const weir_host_in *dy, const weir_host_out *dx)
{
    (void)ctx, (void)y;
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; dx[k].data && i < elements(&dx[k].desc); i++) {
            const double p = item(dy[0].data, dy[0].desc.dtype, i);
            const double q = item(dy[1].data, dy[1].desc.dtype, i);
            put(dx[k].data, dx[k].desc.dtype, i,
                p * item(x[1 - k].data, x[1 - k].desc.dtype, i) + (k ? -q : q));
        }
    return WEIR_OK;
}

static const weir_callback_def bends = {"bend", bend, bend_back, .backward_without_y = true};
static const weir_callback_def pairs = {"pair", pair_of, pair_back, .backward_without_y = true};

static bool draw_callback(maker *m, op *o)
{
    const int x = pick(m, REAL, 0, 4);
    if (x == INT_MIN)
        return false;
    op_in(o, x);
    o->a[0] = dice_chance(&m->r, 40);
    if (o->a[0])
        op_in(o, new_real(m, dice_chance(&m->r, 50) ? LEAF_PARAM : LEAF_INPUT, desc_of(m, x)));
    o->nout = o->a[0] ? 2 : 1;
    return true;
}
static weir_status play_callback(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s;
    const weir_desc d = weir_tensor_desc(in[0]);
    if (o->a[0])
        return weir_callback(&pairs, NULL, 2, in, 2, (weir_desc[]){d, d}, out);
    return weir_callback(&bends, NULL, 1, in, 1, &d, out);
}

/* ---- layers of a model ---- */

static bool layer_for(maker *m, int x, layer *l)
{
    const weir_desc d = desc_of(m, x);
    const int64_t   last = d.dim[d.ndim - 1];
    l->kind = (layer_kind)dice_int(&m->r, 0, LAYER_KINDS - 1);
    l->a[0] = last;
    l->a[1] = dice_int(&m->r, 1, 8);
    l->a[2] = dice_int(&m->r, 1, 2);
    switch (l->kind) {
    case LAYER_LINEAR:
    case LAYER_MLP:        return d.ndim == 2 && last < 300;
    case LAYER_CONV:
        l->a[0] = d.dim[1];
        return d.ndim == 4 && d.dim[1] <= 16;
    case LAYER_BATCH_NORM:
        l->a[0] = d.dim[1];
        return d.ndim == 4 || d.ndim == 2;
    case LAYER_LAYER_NORM: return d.ndim >= 2;
    case LAYER_LSTM:
    case LAYER_GRU:        return d.ndim == 3 && d.dim[0] <= 5 && last < 40;
    case LAYER_DROPOUT:    return true;
    default:               return false;
    }
}

static bool draw_layer(maker *m, op *o)
{
    program *const p = m->p;
    const int      x = pick(m, REAL, 2, 4);
    if (x == INT_MIN || desc_of(m, x).dtype != WEIR_F32 || p->nlayer == MAX_LAYERS)
        return false;
    layer *const l = &p->layer[p->nlayer];
    bool         fits = false;
    for (int tries = 0; tries < 10 && !fits; tries++)
        fits = layer_for(m, x, l);
    if (dice_chance(&m->r, 10)) {
        *l = (layer){LAYER_EMBEDDING, {dice_int(&m->r, 2, 9), dice_int(&m->r, 1, 6), 0}};
        op_in(o, new_leaf(m, LEAF_INPUT, weir_2d(WEIR_I32, size_draw(m), 2), DATA_WHOLE, 0,
                          (double)l->a[0] - 1));
    } else if (fits) {
        op_in(o, x);
    } else {
        return false;
    }
    o->a[0] = p->nlayer++;
    if (world_add_layer(&m->w, (int)o->a[0]) == WEIR_OK)
        return true;
    p->nlayer--;
    return false;
}
static weir_status play_layer(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    return one(weir_apply(s->w->layer[o->a[0]], in[0]), out);
}

const op_def ops_state[] = {
    {"in_place", 6, draw_in_place, play_in_place, EFFECT},
    {"scope", 5, draw_scope, play_scope, EFFECT},
    {"checkpoint", 4, draw_checkpoint, play_checkpoint, 0},
    {"callback", 3, draw_callback, play_callback, 0},
    {"layer", 7, draw_layer, play_layer, VIEW},
};
const int ops_state_n = sizeof ops_state / sizeof *ops_state;
