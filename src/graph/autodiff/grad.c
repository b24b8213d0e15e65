/* grad.c - traverses the tape backwards from one or more results and records the gradient of each
 * call (reverse-mode differentiation: Linnainmaa 1970; Griewank and Walther 2008).
 *
 * A node is processed after all its consumers, when its output gradients are complete, in a scope
 * of its own: the only gradients that stay alive are those that wait for their node and those of
 * targets. A traversal may stop at its targets (weir_vjp_from): they count as independent
 * variables, and the calls that computed them are not visited.
 *
 * At a checkpoint its function runs again, and an inner traversal goes back through that run (Chen
 * et al. 2016). Gradients of the function's inputs, and of leaves that it reads besides, go to the
 * outer traversal as they arise, so that sums have the same order as without a checkpoint. */
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "core/tensor.h"
#include "graph/autodiff/checkpoint_function.h"
#include "graph/autodiff/gradient_sum.h"
#include "graph/autodiff/leaf_table.h"
#include "graph/ir/graph.h"
#include "graph/ir/session.h"
#include "graph/ops/op.h"
#include "graph/autodiff/tape.h"

typedef struct weir_traversal_node {
    weir_tape   *tape;                  /* referenced */
    uint32_t     want;
    weir_gradient_sum dy[WEIR_MAX_OUT];
} weir_traversal_node;

/* Bit of `want`: a leaf that a checkpoint reads besides its inputs leads to a target. */
#define WANT_BESIDES (1u << 31)

typedef struct weir_traversal {
    weir_session *s;
    const char   *who;
    size_t        ny;                   /* results where the traversal starts */
    weir_tensor *const *y, *const *dy;  /* dy[i] NULL: no gradient of y[i]; see `ones` */
    bool                          ones; /* no dy was given: that of the only y is ones */
    bool                          scalar; /* the only y must be a scalar: a loss */
    WEIR_VEC(weir_traversal_node) nodes;  /* latest call first */
    uint64_t                      visit;
    bool                          stops; /* does not go beyond its targets */
    bool                          all;   /* every trainable tensor is a target; else wrt[] */
    size_t                        nwrt;
    weir_tensor *const *wrt;
    WEIR_VEC(weir_pair)      answer; /* targets reached and their gradients, referenced */
    weir_leaf_table          leaves; /* positions of leaves in answer */
    struct weir_traversal *outer;     /* of an inner traversal: the one around it; else NULL */
    weir_recompute        *recompute; /* of an inner traversal: the second run */
} weir_traversal;

static bool same_value(const weir_tensor *a, const weir_tensor *b)
{
    return a == b || (a->tape && a->tape == b->tape && a->out == b->out) ||
           (a->leaf != 0 && a->leaf == b->leaf && a->dev == b->dev);
}

static bool is_target(const weir_traversal *w, const weir_tensor *x)
{
    if (w->outer)
        return false;
    if (w->all)
        return x->trainable;
    for (size_t i = 0; i < w->nwrt; i++)
        if (same_value(w->wrt[i], x))
            return true;
    return false;
}

static weir_status no_trainable(const weir_traversal *w)
{
    return weir_fail(WEIR_ERR_INVALID, "%s: %s depends on no trainable tensor: a call is taped "
                     "only if it reads a parameter or a tensor marked before by "
                     "weir_tensor_set_trainable or weir_tensor_set_needs_grad, outside "
                     "weir_no_grad_begin and _end", w->who, w->scalar ? "the loss" : "y");
}

/* The outer tensor that leaf x of a second run replaces, or x itself. */
static weir_tensor *outside(const weir_traversal *w, weir_tensor *x)
{
    for (int i = 0; i < w->recompute->nin; i++)
        if (w->recompute->x[i]->leaf != 0 && w->recompute->x[i]->leaf == x->leaf)
            return w->recompute->t->x[i];
    return x;
}

/* The call to which a gradient of x propagates, or NULL. */
static weir_tape *maker_of(const weir_traversal *w, const weir_tensor *x)
{
    return w->stops && is_target(w, x) ? NULL : x->tape;
}

static weir_status visit(weir_traversal *w, weir_tape *t)
{
    if (!t || t->visit == w->visit)
        return WEIR_OK;
    const uint64_t now = w->s->recording ? w->s->recording->id : 0;
    if (t->graph != now)
        return weir_fail(WEIR_ERR_STATE, "%s: %s was computed with the graph %s; forward and "
                         "backward belong in the same recording", w->who, weir_tape_name(t),
                         t->graph ? "on" : "off");
    if (w->outer && t->order <= w->recompute->order)
        return weir_segment_captured(weir_tape_name(t));
    if (!weir_vec_push(&w->nodes, (weir_traversal_node){.tape = t}))
        return WEIR_ERR_NOMEM;
    weir_ref_take(t);
    t->visit = w->visit;
    return WEIR_OK;
}

static int latest_first(const void *a, const void *b)
{
    const weir_traversal_node *x = a, *y = b;
    return (x->tape->order < y->tape->order) - (x->tape->order > y->tape->order);
}

/* Does a gradient of x lead to a target? Needs `want` of the call that computed x. */
static bool leads_on(const weir_traversal *w, weir_tensor *x)
{
    const weir_tape *up = maker_of(w, x);

    if (w->outer && !up)
        return leads_on(w->outer, outside(w, x));
    return is_target(w, x) || (up && w->nodes.at[up->slot].want);
}

/* `want` of a call: see WANT_BESIDES. */
static uint32_t wanted_of(const weir_traversal *w, const weir_tape *t)
{
    const uint32_t can = weir_tape_wants(t);
    uint32_t       want = 0;

    for (int k = 0; k < t->nin; k++)
        if (can >> k & 1 && leads_on(w, t->x[k]))
            want |= 1u << k;
    for (uint32_t k = 0; t->segment && k < t->segment->leaves.n; k++)
        if (leads_on(w, t->segment->leaves.at[k]))
            want |= WANT_BESIDES;
    return want;
}

/* Collects the calls on which y[] depend, latest first, and sets their `want`, earliest first. */
static weir_status collect(weir_traversal *w)
{
    w->visit = ++w->s->visits;
    for (size_t i = 0; i < w->ny; i++)
        WEIR_TRY(visit(w, maker_of(w, w->y[i])));
    for (uint32_t i = 0; i < w->nodes.n; i++)
        for (int k = 0; k < w->nodes.at[i].tape->nin; k++)
            WEIR_TRY(visit(w, maker_of(w, w->nodes.at[i].tape->x[k])));
    if (w->nodes.n)
        qsort(w->nodes.at, w->nodes.n, sizeof *w->nodes.at, latest_first);
    for (uint32_t i = w->nodes.n; i-- > 0;) {
        weir_traversal_node *n = &w->nodes.at[i];
        n->tape->slot = i;
        n->want = wanted_of(w, n->tape);
    }
    return WEIR_OK;
}

/* The pair of target x in the answer, or NULL. Handles of the same leaf share its number. */
static weir_pair *pair_of(const weir_traversal *w, const weir_tensor *x)
{
    if (x->leaf && !x->tape) {
        const uint32_t at = weir_leaf_find(&w->leaves, x->leaf);
        return at != WEIR_NO_LEAF ? &w->answer.at[at] : NULL;
    }
    for (uint32_t i = w->answer.n; i-- > 0;)
        if (same_value(w->answer.at[i].param, x))
            return &w->answer.at[i];
    return NULL;
}

static weir_status arrive_target(weir_traversal *w, weir_tensor *x, weir_tensor *g)
{
    weir_pair *const there = pair_of(w, x);

    if (there)
        return weir_gradient_add(&there->grad, g);
    if (!weir_vec_push(&w->answer, (weir_pair){.param = x}))
        return WEIR_ERR_NOMEM;
    weir_retain(x);
    if (x->leaf && !weir_leaf_add(&w->leaves, x->leaf, w->answer.n - 1))
        return WEIR_ERR_NOMEM;
    return weir_gradient_add(&w->answer.at[w->answer.n - 1].grad, g);
}

/* Adds gradient g of x to the answer if x is a target, and to dy of the call that computed x. */
static weir_status arrive(weir_traversal *w, weir_tensor *x, weir_tensor *g)
{
    weir_tape *up = maker_of(w, x);

    if (w->outer && !up)
        return arrive(w->outer, outside(w, x), g);
    if (is_target(w, x))
        WEIR_TRY(arrive_target(w, x, g));
    if (up && w->nodes.at[up->slot].want)
        WEIR_TRY(weir_gradient_sum_add(&w->nodes.at[up->slot].dy[x->out], g));
    return WEIR_OK;
}

/* The only sum to which a gradient of x goes, or NULL. */
static weir_gradient_sum *only_sum(weir_traversal *w, weir_tensor *x)
{
    weir_tape *const up = maker_of(w, x);

    if (w->outer && !up)
        return only_sum(w->outer, outside(w, x));
    return !up || is_target(w, x) ? NULL : &w->nodes.at[up->slot].dy[x->out];
}

static weir_status traverse_recomputed(weir_traversal *w, weir_traversal_node *n);

static weir_status propagate(weir_traversal *w, weir_traversal_node *n)
{
    weir_tensor *dy[WEIR_MAX_OUT], *dx[WEIR_MAX_IN];

    for (int i = 0; i < WEIR_MAX_OUT; i++)
        WEIR_TRY(weir_gradient_sum_close(&n->dy[i], &dy[i]));
    if (n->tape->segment)
        return traverse_recomputed(w, n);
    if (n->tape->def == weir_opdef_of(WEIR_OP_SLICE) && only_sum(w, n->tape->x[0]))
        return weir_gradient_sum_add_slice(only_sum(w, n->tape->x[0]), n->tape, dy[0]);
    WEIR_TRY(weir_tape_grad(n->tape, n->want, dy, dx));
    for (int k = 0; k < n->tape->nin; k++)
        if (n->want >> k & 1 && dx[k])
            WEIR_TRY(arrive(w, n->tape->x[k], dx[k]));
    return WEIR_OK;
}

static void drop_dy(weir_traversal_node *n)
{
    for (int i = 0; i < WEIR_MAX_OUT; i++)
        weir_gradient_sum_drop(&n->dy[i]);
}

static bool has_dy(const weir_traversal_node *n)
{
    for (int i = 0; i < WEIR_MAX_OUT; i++)
        if (n->dy[i].total || n->dy[i].parts.n > 0)
            return true;
    return false;
}

static weir_status traverse_nodes(weir_traversal *w)
{
    for (uint32_t i = 0; i < w->nodes.n; i++) {
        weir_traversal_node *n = &w->nodes.at[i];
        if (n->want && has_dy(n)) {
            WEIR_TRY(weir_scope_begin(w->s->dev));
            w->s->naming = n->tape;
            const weir_status status = propagate(w, n);
            weir_scope_unwind(w->s, w->s->mark.n - 1);
            WEIR_TRY(status);
        }
        drop_dy(n);
        if ((!w->stops || n->want) && (w->outer || !w->s->retain))
            weir_tape_consume(n->tape);
    }
    return WEIR_OK;
}

static void traversal_free(weir_traversal *w)
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
    weir_leaf_table_free(&w->leaves);
}

/* Traverses the second run from the results that have a gradient. Releases their handles as soon as
 * the calls are collected, so that values which no gradient reads are freed. */
static weir_status traverse_inner(weir_traversal *w, weir_traversal_node *n)
{
    weir_recompute *a = w->recompute;
    weir_tensor    *y[WEIR_MAX_OUT];

    for (int i = 0; i < n->tape->nout; i++)
        if (n->dy[i].total)
            y[w->ny++] = a->y[i];
    w->y = y;
    const weir_status status = collect(w);
    w->y = NULL;
    WEIR_TRY(status);
    for (int i = 0; i < n->tape->nout; i++)
        if (n->dy[i].total)
            WEIR_TRY(arrive(w, a->y[i], n->dy[i].total));
    weir_recompute_drop_results(a);
    drop_dy(n);
    return traverse_nodes(w);
}

/* Records or performs a checkpoint's second run, then traverses it. */
static weir_status traverse_recomputed(weir_traversal *w, weir_traversal_node *n)
{
    weir_recompute a = {.t = n->tape};
    weir_traversal inner = {.s = w->s, .who = w->who, .outer = w, .recompute = &a};
    const uint32_t replay = w->s->replay;

    WEIR_TRY(weir_tape_check_unused(n->tape));
    w->s->replay = ++w->s->replays;
    weir_status status = weir_recompute_run(&a, w->s);
    if (status == WEIR_OK)
        status = traverse_inner(&inner, n);
    w->s->replay = replay;
    traversal_free(&inner);
    weir_recompute_free(&a);
    return status;
}

/* Adds the initial gradient of y[i]. */
static weir_status seed(weir_traversal *w, size_t i)
{
    weir_tensor *const y = w->y[i];
    w->s->naming = y->tape;
    weir_tensor *const dy = w->ones ? weir_fill(y->dev, y->layout.desc, 1.0) : w->dy[i];

    if (!dy)
        return w->ones ? weir_error_status() : WEIR_OK;
    return arrive(w, y, dy);
}

static weir_status seed_and_traverse(weir_traversal *w)
{
    WEIR_TRY(collect(w));
    if (w->all && !leads_on(w, w->y[0]))
        return no_trainable(w);
    for (size_t i = 0; i < w->ny; i++)
        if (weir_tensor_is_float(w->y[i]))
            WEIR_TRY(seed(w, i));
    return traverse_nodes(w);
}

/* Fails unless dy has y's device, shape and type. */
static weir_status check_seed(const weir_traversal *w, const weir_tensor *y, const weir_tensor *dy)
{
    const weir_desc *const d = &y->layout.desc, *const e = &dy->layout.desc;
    char                   a[WEIR_DESC_TEXT], b[WEIR_DESC_TEXT];
    if (dy->gone)
        return weir_tensor_check_there(w->who, dy);
    if (dy->dev != y->dev)
        return weir_fail(WEIR_ERR_DEVICE, "%s: y and dy are on different devices", w->who);
    if (!weir_desc_equal(e, d))
        return weir_fail(e->dtype == d->dtype ? WEIR_ERR_SHAPE : WEIR_ERR_DTYPE,
                         "%s: dy is %s but y is %s", w->who, weir_desc_text(e, a),
                         weir_desc_text(d, b));
    return WEIR_OK;
}

/* Fails unless a traversal can start at w->y with w->dy. */
static weir_status check_start(const weir_traversal *w)
{
    char text[WEIR_DESC_TEXT];

    if (w->scalar && weir_shape_count(&w->y[0]->layout.desc) != 1)
        return weir_fail(WEIR_ERR_SHAPE, "%s: the loss must be a scalar, not %s", w->who,
                         weir_desc_text(&w->y[0]->layout.desc, text));
    for (size_t i = 0; i < w->ny; i++)
        if (!w->ones && w->dy[i])
            WEIR_TRY(check_seed(w, w->y[i], w->dy[i]));
    return w->stops || w->y[0]->needs_grad ? WEIR_OK : no_trainable(w);
}

/* Computes the gradients of all targets into w->answer, in the backward phase, without a tape. */
static weir_status traverse_back(weir_traversal *w)
{
    WEIR_TRY(check_start(w));
    weir_session    *s = w->s;
    const weir_phase phase = s->phase;
    const weir_dtype autocast = s->autocast;

    WEIR_TRY(weir_scope_begin(s->dev));
    s->no_grad++;
    s->phase = WEIR_BACKWARD;
    s->autocast = WEIR_F32;
    const weir_status status = seed_and_traverse(w);
    s->naming = NULL;
    s->autocast = autocast;
    s->phase = phase;
    s->no_grad--;
    weir_scope_unwind(s, s->mark.n - 1);
    if (s->recording)
        s->recording->backward = true;
    return status;
}

/* Begins a traversal from y[ny], of a device that was entered. dy NULL: ones, for a single y. */
static weir_status traversal_begin(weir_traversal *w, const char *who, size_t ny,
                                   weir_tensor *const *y, weir_tensor *const *dy)
{
    for (size_t i = 0; i < ny; i++)
        if (!y[i])
            return weir_fail_null(who, w->scalar ? "loss" : "y");
        else if (y[i]->gone)
            return weir_tensor_check_there(who, y[i]);
        else if (y[i]->dev != y[0]->dev)
            return weir_fail(WEIR_ERR_DEVICE, "%s: y 0 and %zu are on different devices", who, i);
    w->who = who;
    w->ny = ny;
    w->y = y;
    w->dy = dy;
    w->ones = ny == 1 && (!dy || !dy[0]);
    w->s = weir_session_of(y[0]->dev);
    return w->s ? WEIR_OK : WEIR_ERR_NOMEM;
}

/* Moves the answer into the session's pairs; the caller's scope holds the handles. */
static weir_status give_pairs(weir_traversal *w, const weir_pair **pairs, size_t *count)
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
    *pairs = s->pairs.at;
    *count = s->pairs.n;
    return WEIR_OK;
}

static weir_status backward(weir_traversal *w, const char *who, weir_tensor *y, weir_tensor *dy,
                            const weir_pair **pairs, size_t *count)
{
    if (!pairs || !count)
        return weir_fail(WEIR_ERR_INVALID, "%s: pairs or count is NULL", who);
    *pairs = NULL;
    *count = 0;
    WEIR_VISIT_OF(y, who, w->scalar ? "loss" : "y");
    WEIR_TRY(traversal_begin(w, who, 1, &y, &dy));
    weir_status status = traverse_back(w);
    if (status == WEIR_OK)
        status = give_pairs(w, pairs, count);
    traversal_free(w);
    return status;
}

weir_status weir_backward(weir_tensor *loss, const weir_pair **pairs, size_t *count)
{
    return backward(&(weir_traversal){.all = true, .scalar = true}, "weir_backward", loss, NULL,
                    pairs, count);
}

weir_status weir_backward_from(weir_tensor *y, weir_tensor *dy, const weir_pair **pairs,
                               size_t *count)
{
    return backward(&(weir_traversal){.all = true}, "weir_backward_from", y, dy, pairs, count);
}

static weir_status check_wrt(const weir_traversal *w, const char *who, weir_tensor **grads)
{
    if (w->nwrt > 0 && (!w->wrt || !grads))
        return weir_fail(WEIR_ERR_INVALID, "%s: %s is NULL", who,
                         w->stops ? "x or dx" : "wrt or grads");
    for (size_t i = 0; i < w->nwrt; i++) {
        grads[i] = NULL;
        if (!w->wrt[i])
            return weir_fail_null(who, w->stops ? "a tensor of x" : "a tensor of wrt");
        if (w->wrt[i]->gone)
            return weir_tensor_check_there(who, w->wrt[i]);
    }
    return WEIR_OK;
}

/* Does wrt[i] also appear earlier in wrt? */
static bool named_before(const weir_traversal *w, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (same_value(w->wrt[k], w->wrt[i]))
            return true;
    return false;
}

/* Stores the gradients in grads, held by the caller's scope; with `stops`, each value once. */
static weir_status give_grads(const weir_traversal *w, weir_tensor **grads)
{
    for (size_t i = 0; i < w->nwrt; i++)
        for (uint32_t k = 0; k < w->answer.n && !grads[i]; k++)
            if (same_value(w->answer.at[k].param, w->wrt[i]) &&
                !(w->stops && named_before(w, i))) {
                WEIR_TRY(weir_scope_hold(w->s, weir_retain(w->answer.at[k].grad)));
                grads[i] = w->answer.at[k].grad;
            }
    return WEIR_OK;
}

static weir_status gradients(weir_traversal *w, weir_tensor **grads)
{
    weir_status status = traverse_back(w);

    if (status == WEIR_OK && !w->stops && w->nwrt > 0 && w->answer.n == 0)
        status = weir_fail(WEIR_ERR_INVALID, "%s: %s depends on none of the %zu tensors of wrt",
                           w->who, w->scalar ? "the loss" : "y", w->nwrt);
    if (status == WEIR_OK)
        status = give_grads(w, grads);
    traversal_free(w);
    return status;
}

weir_status weir_gradients(weir_tensor *loss, size_t n, weir_tensor *const *wrt,
                           weir_tensor **grads)
{
    weir_traversal w = {.nwrt = n, .wrt = wrt, .scalar = true};

    WEIR_VISIT_OF(loss, "weir_gradients", "loss");
    WEIR_TRY(check_wrt(&w, "weir_gradients", grads));
    WEIR_TRY(traversal_begin(&w, "weir_gradients", 1, &loss, NULL));
    return gradients(&w, grads);
}

weir_status weir_gradients_from(weir_tensor *y, weir_tensor *dy, size_t n, weir_tensor *const *wrt,
                                weir_tensor **grads)
{
    weir_traversal w = {.nwrt = n, .wrt = wrt};

    WEIR_VISIT_OF(y, "weir_gradients_from", "y");
    WEIR_TRY(check_wrt(&w, "weir_gradients_from", grads));
    WEIR_TRY(traversal_begin(&w, "weir_gradients_from", 1, &y, &dy));
    return gradients(&w, grads);
}

/* Fails if there is no gradient to start from. */
static weir_status check_seeds(const weir_traversal *w)
{
    char text[WEIR_DESC_TEXT];

    for (size_t i = 0; i < w->ny && w->dy; i++)
        if (w->dy[i])
            return WEIR_OK;
    if (w->ny != 1)
        return weir_fail(WEIR_ERR_INVALID, "%s: none of the %zu y has a dy", w->who, w->ny);
    if (weir_shape_count(&w->y[0]->layout.desc) != 1)
        return weir_fail(WEIR_ERR_SHAPE, "%s: y is %s, so it needs a dy; only a scalar y has the "
                         "default 1", w->who, weir_desc_text(&w->y[0]->layout.desc, text));
    return WEIR_OK;
}

weir_status weir_vjp_from(size_t ny, weir_tensor *const *y, weir_tensor *const *dy, size_t nx,
                          weir_tensor *const *x, weir_tensor **dx)
{
    weir_traversal w = {.nwrt = nx, .wrt = x, .stops = true};

    if (ny == 0 || !y)
        return weir_fail(WEIR_ERR_INVALID, "weir_vjp_from: no y is given");
    WEIR_VISIT_OF(y[0], "weir_vjp_from", "y");
    WEIR_TRY(check_wrt(&w, "weir_vjp_from", dx));
    WEIR_TRY(traversal_begin(&w, "weir_vjp_from", ny, y, dy));
    WEIR_TRY(check_seeds(&w));
    return gradients(&w, dx);
}

weir_status weir_vjp(weir_tensor *y, weir_tensor *dy, size_t *n, weir_tensor **dx)
{
    weir_tensor   *all[WEIR_MAX_IN] = {NULL}, *dys[WEIR_MAX_OUT] = {NULL};
    weir_traversal w = {0};
    char           a[WEIR_DESC_TEXT], b[WEIR_DESC_TEXT];

    if (!dy || !n || !dx)
        return weir_fail_null("weir_vjp", "dy, n or dx");
    WEIR_VISIT_OF(y, "weir_vjp", "y");
    WEIR_TRY(traversal_begin(&w, "weir_vjp", 1, &y, &dy));
    if (!weir_desc_equal(&y->layout.desc, &dy->layout.desc))
        return weir_fail(WEIR_ERR_SHAPE, "weir_vjp: dy is %s but y is %s",
                         weir_desc_text(&dy->layout.desc, a), weir_desc_text(&y->layout.desc, b));
    weir_tape *const t = y->tape;
    if (!t)
        return weir_fail(WEIR_ERR_INVALID, "weir_vjp: y was made by no differentiable call");
    if (t->segment)
        return weir_fail(WEIR_ERR_INVALID, "weir_vjp: y was made by weir_checkpoint, which may "
                         "record several calls: use weir_vjp_from");
    if (*n < (size_t)t->nin)
        return weir_fail(WEIR_ERR_INVALID, "weir_vjp: dx has room for %zu gradients, the call has "
                         "%d inputs", *n, t->nin);
    *n = (size_t)t->nin;
    dys[y->out] = dy;
    const weir_phase phase = w.s->phase;
    const weir_dtype autocast = w.s->autocast;
    w.s->no_grad++;
    w.s->phase = WEIR_BACKWARD;
    w.s->autocast = WEIR_F32;
    const weir_status status = weir_tape_grad(t, weir_tape_wants(t), dys, all);
    w.s->autocast = autocast;
    w.s->phase = phase;
    w.s->no_grad--;
    for (int i = 0; i < t->nin; i++)
        dx[i] = status == WEIR_OK ? all[i] : NULL;
    return status;
}
