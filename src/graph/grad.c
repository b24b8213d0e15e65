/* grad.c - walks the tape backwards from a result and records each call's gradient (reverse-mode
 * differentiation: Linnainmaa 1970; Griewank and Walther 2008).
 *
 * A node is processed after all its consumers, so its output gradients are final. Each node's
 * work is a scope of its own: only gradients that still wait for their node, or belong to the
 * answer, stay alive. */
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "core/tensor.h"
#include "graph/graph.h"
#include "graph/op/op.h"
#include "graph/tape.h"

typedef struct weir_walk_node {
    weir_tape   *tape;                  /* referenced */
    uint32_t     want;
    weir_tensor *dy[WEIR_MAX_OUT];      /* referenced; NULL: no gradient so far */
} weir_walk_node;

typedef struct weir_walk {
    weir_session *s;
    const char   *who;
    weir_tensor  *from, *dy;            /* where it starts; dy NULL: ones */
    bool          scalar;               /* from must be one: a loss */
    WEIR_VEC(weir_walk_node) nodes;     /* latest call first */
    uint64_t      visit;
    bool          all;                  /* every trainable tensor is a target; else wrt[] */
    size_t        nwrt;
    weir_tensor *const *wrt;
    WEIR_VEC(weir_pair)      answer; /* per target reached: target and its gradient, referenced */
} weir_walk;

static bool same_value(const weir_tensor *a, const weir_tensor *b)
{
    return a == b || (a->tape && a->tape == b->tape && a->out == b->out) ||
           (a->leaf != 0 && a->leaf == b->leaf && a->dev == b->dev);
}

static bool is_target(const weir_walk *w, const weir_tensor *x)
{
    if (w->all)
        return x->trainable;
    for (size_t i = 0; i < w->nwrt; i++)
        if (same_value(w->wrt[i], x))
            return true;
    return false;
}

static weir_status no_trainable(const weir_walk *w)
{
    return weir_fail(WEIR_ERR_INVALID, "%s: %s depends on no trainable tensor", w->who,
                     w->scalar ? "the loss" : "y");
}

static weir_status visit(weir_walk *w, weir_tape *t)
{
    if (!t || t->visit == w->visit)
        return WEIR_OK;
    const uint64_t now = w->s->recording ? w->s->recording->id : 0;
    if (t->graph != now)
        return weir_fail(WEIR_ERR_STATE,
                         "%s: %s was computed with the graph %s; forward and backward "
                         "belong into the same recording",
                         w->who, weir_opdefs[t->op]->name, t->graph ? "on" : "off");
    if (!weir_vec_push(&w->nodes, (weir_walk_node){.tape = t}))
        return WEIR_ERR_NOMEM;
    weir_ref_take(t);
    t->visit = w->visit;
    return WEIR_OK;
}

static int latest_first(const void *a, const void *b)
{
    const weir_walk_node *x = a, *y = b;
    return (x->tape->order < y->tape->order) - (x->tape->order > y->tape->order);
}

/* All calls the value depends on; then, earliest first, which of their inputs lead to a target. */
static weir_status collect(weir_walk *w, weir_tensor *from)
{
    w->visit = ++w->s->visits;
    WEIR_TRY(visit(w, from->tape));
    for (uint32_t i = 0; i < w->nodes.n; i++)
        for (int k = 0; k < w->nodes.at[i].tape->nin; k++)
            WEIR_TRY(visit(w, w->nodes.at[i].tape->x[k]->tape));
    if (w->nodes.n)
        qsort(w->nodes.at, w->nodes.n, sizeof *w->nodes.at, latest_first);
    for (uint32_t i = w->nodes.n; i-- > 0;) {
        weir_walk_node *n = &w->nodes.at[i];
        const uint32_t  can = weir_tape_wants(n->tape);
        n->tape->slot = i;
        for (int k = 0; k < n->tape->nin; k++) {
            const weir_tensor *x = n->tape->x[k];
            const weir_tape   *up = x->tape;
            if (can >> k & 1 && (is_target(w, x) || (up && w->nodes.at[up->slot].want)))
                n->want |= 1u << k;
        }
    }
    return WEIR_OK;
}

/* *sum += g; the sum is referenced, g borrowed. */
static weir_status accumulate(weir_tensor **sum, weir_tensor *g)
{
    weir_tensor *total = *sum ? weir_add(*sum, g) : g;

    if (!total)
        return weir_error_status();
    weir_retain(total);
    weir_release(*sum);
    *sum = total;
    return WEIR_OK;
}

static weir_status arrive_target(weir_walk *w, weir_tensor *x, weir_tensor *g)
{
    for (uint32_t i = w->answer.n; i-- > 0;)
        if (same_value(w->answer.at[i].param, x))
            return accumulate(&w->answer.at[i].grad, g);
    if (!weir_vec_push(&w->answer, (weir_pair){.param = x}))
        return WEIR_ERR_NOMEM;
    weir_retain(x);
    return accumulate(&w->answer.at[w->answer.n - 1].grad, g);
}

/* A gradient g of the value x: to the answer if x is a target, and on to the call that made x. */
static weir_status arrive(weir_walk *w, weir_tensor *x, weir_tensor *g)
{
    weir_tape *up = x->tape;

    if (is_target(w, x))
        WEIR_TRY(arrive_target(w, x, g));
    if (up && up->visit == w->visit && w->nodes.at[up->slot].want)
        WEIR_TRY(accumulate(&w->nodes.at[up->slot].dy[x->out], g));
    return WEIR_OK;
}

static weir_status step_back(weir_walk *w, weir_walk_node *n)
{
    weir_tensor *dx[WEIR_MAX_IN];

    WEIR_TRY(weir_tape_grad(n->tape, n->want, n->dy, dx));
    for (int k = 0; k < n->tape->nin; k++)
        if (n->want >> k & 1 && dx[k])
            WEIR_TRY(arrive(w, n->tape->x[k], dx[k]));
    return WEIR_OK;
}

static void drop_dy(weir_walk_node *n)
{
    for (int i = 0; i < WEIR_MAX_OUT; i++) {
        weir_release(n->dy[i]);
        n->dy[i] = NULL;
    }
}

static bool has_dy(const weir_walk_node *n)
{
    for (int i = 0; i < WEIR_MAX_OUT; i++)
        if (n->dy[i])
            return true;
    return false;
}

static weir_status walk_nodes(weir_walk *w)
{
    for (uint32_t i = 0; i < w->nodes.n; i++) {
        weir_walk_node *n = &w->nodes.at[i];
        if (n->want && has_dy(n)) {
            WEIR_TRY(weir_scope_begin(w->s->dev));
            const weir_status status = step_back(w, n);
            weir_scope_unwind(w->s, w->s->mark.n - 1);
            WEIR_TRY(status);
        }
        drop_dy(n);
        weir_tape_consume(n->tape);
    }
    return WEIR_OK;
}

static void walk_free(weir_walk *w)
{
    for (uint32_t i = 0; i < w->nodes.n; i++) {
        drop_dy(&w->nodes.at[i]);
        weir_ref_drop(w->nodes.at[i].tape);
    }
    for (uint32_t i = 0; i < w->answer.n; i++) {
        weir_release(w->answer.at[i].param);
        weir_release(w->answer.at[i].grad);
    }
    weir_vec_free(&w->nodes);
    weir_vec_free(&w->answer);
}

/* Does a gradient of y get anywhere? */
static bool leads_on(const weir_walk *w, const weir_tensor *y)
{
    const weir_tape *up = y->tape;

    return is_target(w, y) || (up && w->nodes.at[up->slot].want);
}

static weir_status seed_and_walk(weir_walk *w)
{
    weir_tensor *const y = w->from;

    WEIR_TRY(collect(w, y));
    if (w->all && !leads_on(w, y))
        return no_trainable(w);
    weir_tensor *const dy = w->dy ? w->dy : weir_fill(y->dev, y->layout.desc, 1.0);
    if (!dy)
        return weir_error_status();
    WEIR_TRY(arrive(w, y, dy));
    return walk_nodes(w);
}

/* May a walk start at w->from, with w->dy? */
static weir_status check_start(const weir_walk *w)
{
    const weir_desc *const d = &w->from->layout.desc;
    char                   a[WEIR_DESC_TEXT], b[WEIR_DESC_TEXT];

    if (w->scalar && weir_shape_count(d) != 1)
        return weir_fail(WEIR_ERR_SHAPE, "%s: the loss must be a scalar, not %s", w->who,
                         weir_desc_text(d, a));
    if (w->dy && w->dy->dev != w->from->dev)
        return weir_fail(WEIR_ERR_DEVICE, "%s: y and dy are on different devices", w->who);
    if (w->dy && !weir_desc_equal(&w->dy->layout.desc, d))
        return weir_fail(w->dy->layout.desc.dtype == d->dtype ? WEIR_ERR_SHAPE : WEIR_ERR_DTYPE,
                         "%s: dy is %s but y is %s", w->who,
                         weir_desc_text(&w->dy->layout.desc, a), weir_desc_text(d, b));
    return w->from->needs_grad ? WEIR_OK : no_trainable(w);
}

/* Gradients for the walk's targets into w->answer, in the backward phase and without a tape. */
static weir_status walk_back(weir_walk *w)
{
    WEIR_TRY(check_start(w));
    weir_session    *s = w->s;
    const weir_phase phase = s->phase;

    WEIR_TRY(weir_scope_begin(s->dev));
    s->no_grad++;
    s->phase = WEIR_BACKWARD;
    const weir_status status = seed_and_walk(w);
    s->phase = phase;
    s->no_grad--;
    weir_scope_unwind(s, s->mark.n - 1);
    if (s->recording)
        s->recording->backward = true;
    return status;
}

static weir_status walk_begin(weir_walk *w, const char *who, weir_tensor *from)
{
    if (!from)
        return weir_fail_null(who, w->scalar ? "loss" : "y");
    WEIR_TRY(weir_device_check(from->dev, who));
    w->who = who;
    w->from = from;
    w->s = weir_session_of(from->dev);
    return w->s ? WEIR_OK : WEIR_ERR_NOMEM;
}

/* The answer becomes the session's pairs; the handles are held by the caller's scope. */
static weir_status give_pairs(weir_walk *w)
{
    weir_session *s = w->s;

    s->pairs.n = 0;
    if (!weir_vec_reserve(&s->pairs, w->answer.n))
        return WEIR_ERR_NOMEM;
    for (uint32_t i = 0; i < w->answer.n; i++) {
        const weir_pair p = w->answer.at[i];
        WEIR_TRY(weir_scope_hold(s, weir_retain(p.param)));
        WEIR_TRY(weir_scope_hold(s, weir_retain(p.grad)));
        s->pairs.at[s->pairs.n++] = p;
    }
    return WEIR_OK;
}

static weir_status backward(weir_walk *w, const char *who, weir_tensor *from,
                            const weir_pair **pairs, size_t *count)
{
    if (!pairs || !count)
        return weir_fail(WEIR_ERR_INVALID, "%s: pairs or count is NULL", who);
    *pairs = NULL;
    *count = 0;
    WEIR_TRY(walk_begin(w, who, from));
    weir_status status = walk_back(w);
    if (status == WEIR_OK)
        status = give_pairs(w);
    walk_free(w);
    if (status == WEIR_OK) {
        *pairs = w->s->pairs.at;
        *count = w->s->pairs.n;
    }
    return status;
}

weir_status weir_backward(weir_tensor *loss, const weir_pair **pairs, size_t *count)
{
    return backward(&(weir_walk){.all = true, .scalar = true}, "weir_backward", loss, pairs, count);
}

weir_status weir_backward_from(weir_tensor *y, weir_tensor *dy, const weir_pair **pairs,
                               size_t *count)
{
    return backward(&(weir_walk){.all = true, .dy = dy}, "weir_backward_from", y, pairs, count);
}

static weir_status gradients(weir_walk *w, const char *who, weir_tensor *from, weir_tensor **grads)
{
    if (w->nwrt > 0 && (!w->wrt || !grads))
        return weir_fail(WEIR_ERR_INVALID, "%s: wrt or grads is NULL", who);
    for (size_t i = 0; i < w->nwrt; i++) {
        grads[i] = NULL;
        if (!w->wrt[i])
            return weir_fail_null(who, "a tensor of wrt");
    }
    WEIR_TRY(walk_begin(w, who, from));
    weir_status status = walk_back(w);
    for (size_t i = 0; i < w->nwrt && status == WEIR_OK; i++)
        for (uint32_t k = 0; k < w->answer.n; k++)
            if (same_value(w->answer.at[k].param, w->wrt[i]) && !grads[i]) {
                status = weir_scope_hold(w->s, weir_retain(w->answer.at[k].grad));
                grads[i] = status == WEIR_OK ? w->answer.at[k].grad : NULL;
            }
    walk_free(w);
    return status;
}

weir_status weir_gradients(weir_tensor *loss, size_t n, weir_tensor *const *wrt,
                           weir_tensor **grads)
{
    return gradients(&(weir_walk){.nwrt = n, .wrt = wrt, .scalar = true}, "weir_gradients", loss,
                     grads);
}

weir_status weir_gradients_from(weir_tensor *y, weir_tensor *dy, size_t n, weir_tensor *const *wrt,
                                weir_tensor **grads)
{
    return gradients(&(weir_walk){.nwrt = n, .wrt = wrt, .dy = dy}, "weir_gradients_from", y,
                     grads);
}

weir_status weir_vjp(weir_tensor *y, weir_tensor *dy, size_t *n, weir_tensor **dx)
{
    weir_tensor *all[WEIR_MAX_IN] = {NULL}, *dys[WEIR_MAX_OUT] = {NULL};
    weir_walk    w = {0};
    char         a[WEIR_DESC_TEXT], b[WEIR_DESC_TEXT];

    if (!dy || !n || !dx)
        return weir_fail_null("weir_vjp", "dy, n or dx");
    WEIR_TRY(walk_begin(&w, "weir_vjp", y));
    if (!weir_desc_equal(&y->layout.desc, &dy->layout.desc))
        return weir_fail(WEIR_ERR_SHAPE, "weir_vjp: dy is %s but y is %s",
                         weir_desc_text(&dy->layout.desc, a), weir_desc_text(&y->layout.desc, b));
    weir_tape *t = y->tape;
    if (!t)
        return weir_fail(WEIR_ERR_INVALID, "weir_vjp: y was made by no differentiable call");
    if (*n < (size_t)t->nin)
        return weir_fail(WEIR_ERR_INVALID,
                         "weir_vjp: dx has room for %zu gradients, the call has %d "
                         "inputs",
                         *n, t->nin);
    *n = (size_t)t->nin;
    dys[y->out] = dy;
    const weir_phase phase = w.s->phase;
    w.s->no_grad++;
    w.s->phase = WEIR_BACKWARD;
    const weir_status status = weir_tape_grad(t, weir_tape_wants(t), dys, all);
    w.s->phase = phase;
    w.s->no_grad--;
    for (int i = 0; i < t->nin; i++)
        dx[i] = status == WEIR_OK ? all[i] : NULL;
    return status;
}
