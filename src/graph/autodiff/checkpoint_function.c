/* checkpoint_function.c - runs a checkpointed function twice: in the forward pass, where only its
 * inputs and results are kept, and again for the gradient (Chen, Xu, Zhang, Guestrin: "Training
 * deep nets with sublinear memory cost", 2016).
 *
 * The first run adds no tape nodes. It notes which trainable leaves the function reads and to which
 * results a gradient flows. The second run starts at the same position of the random stream, adds
 * tape nodes and performs no updates. */
#include "graph/autodiff/checkpoint_function.h"

#include <string.h>

#include "core/status.h"
#include "device/device.h"
#include "graph/ir/graph.h"
#include "graph/autodiff/tape.h"
#include "graph/ir/session.h"

static void segment_destroy(weir_ref *self)
{
    weir_segment *const s = (weir_segment *)self;

    for (uint32_t i = 0; i < s->leaves.n; i++)
        weir_release(s->leaves.at[i]);
    weir_vec_free(&s->leaves);
    weir_mem_free(s->owned);
    weir_mem_free(s);
}

/* ---- the first run ---- */

weir_status weir_segment_captured(const char *maker)
{
    return weir_fail(WEIR_ERR_INVALID, "weir_checkpoint: the function reads a result of %s that "
                     "was made outside it and that a gradient flows through; pass it in `in`",
                     maker);
}

/* Did the function compute the result, and does a gradient flow to it? */
static bool is_made(const weir_tensor *y)
{
    return y->needs_grad && !y->tape && y->leaf == 0;
}

static bool is_input(const weir_segment *s, const weir_tensor *t)
{
    for (int i = 0; i < s->nin; i++)
        if (s->in[i] == t || (s->in[i]->tape == t->tape && s->in[i]->out == t->out))
            return true;
    return false;
}

/* References a trainable leaf itself, since weir_backward returns it; for other leaves a hollow
 * handle with the leaf's number suffices. */
static weir_status note_leaf(weir_segment *s, weir_tensor *t)
{
    for (uint32_t i = 0; i < s->leaves.n; i++)
        if (s->leaves.at[i]->leaf == t->leaf && s->leaves.at[i]->trainable == t->trainable)
            return WEIR_OK;
    weir_tensor *const leaf = t->trainable ? weir_retain(t) : weir_hollow(t);
    if (!leaf)
        return weir_error_status();
    if (weir_vec_push(&s->leaves, leaf))
        return WEIR_OK;
    weir_release(leaf);
    return WEIR_ERR_NOMEM;
}

weir_status weir_segment_note(weir_segment *s, const weir_call *c, weir_tensor *const *in,
                              weir_tensor *const *out)
{
    const uint32_t differentiable = c->def->differentiable;

    for (int i = 0; i < c->nin; i++) {
        if (!(differentiable >> i & 1) || !in[i]->needs_grad)
            continue;
        if (in[i]->tape && !is_input(s, in[i]))
            return weir_segment_captured(weir_tape_name(in[i]->tape));
        if (in[i]->leaf != 0)
            WEIR_TRY(note_leaf(s, in[i]));
    }
    for (int i = 0; i < c->nout; i++)
        out[i]->needs_grad = weir_tensor_is_float(out[i]);
    return WEIR_OK;
}

/* ---- either run ---- */

/* Runs fn in its own scope. y[] references the results; everything else that fn created is
 * released. Closes scopes and regions that fn left open. */
static weir_status run(weir_session *s, const weir_segment *seg, weir_tensor *const *x, int nout,
                       weir_tensor **y)
{
    const uint32_t   depth = s->mark.n, casts = s->outer_casts.n, names = s->path.mark.n;
    const int        no_grad = s->no_grad;
    const weir_dtype autocast = s->autocast;
    weir_tensor     *made[WEIR_MAX_OUT] = {NULL};

    WEIR_TRY(weir_scope_begin(s->dev));
    weir_status status = seg->fn(seg->ctx, x, made);
    for (int i = 0; i < nout && status == WEIR_OK; i++)
        if (!made[i])
            status = weir_fail(WEIR_ERR_INVALID, "weir_checkpoint: the function left result %d of "
                               "%d empty", i, nout);
    for (int i = 0; i < nout && status == WEIR_OK; i++)
        if (made[i]->dev != s->dev || !made[i]->block)
            status = weir_fail(WEIR_ERR_INVALID, "weir_checkpoint: result %d is %s", i,
                               made[i]->block ? "on another device" : "a hollow handle");
    for (int i = 0; i < nout && status == WEIR_OK; i++)
        y[i] = weir_retain(made[i]);
    s->no_grad = no_grad;
    s->autocast = autocast;
    s->outer_casts.n = casts;
    weir_name_path_unwind(&s->path, names);
    weir_scope_unwind(s, depth);
    return status;
}

static uint64_t *stream(weir_session *s)
{
    return s->recording ? &s->recording->rng_total : &s->dev->rng;
}

/* ---- the second run ---- */

/* Creates a leaf for each input that a call computed, so that the inner traversal ends there;
 * inputs that are leaves are used as they are. */
static weir_status make_inputs(weir_recompute *a)
{
    weir_tape *const t = a->t;

    for (; a->nin < t->nin; a->nin++) {
        weir_tensor *const x = t->x[a->nin];
        if (x->trainable) {
            a->x[a->nin] = weir_retain(x);
            continue;
        }
        weir_tensor *const h = weir_tensor_make(x->dev, &x->layout, x->offset, x->block);
        if (!h)
            return WEIR_ERR_NOMEM;
        h->needs_grad = x->needs_grad;
        h->leaf = x->tape ? ++x->dev->leaves : x->leaf;
        a->x[a->nin] = h;
    }
    return WEIR_OK;
}

static weir_status check_alike(const weir_recompute *a, uint64_t drawn)
{
    char first[WEIR_DESC_TEXT], second[WEIR_DESC_TEXT];

    if (drawn != a->t->segment->drawn)
        return weir_fail(WEIR_ERR_STATE, "weir_checkpoint: the function drew different random "
                         "numbers when it was called again for the gradient; create and fill "
                         "parameters before it");
    for (int i = 0; i < a->t->nout; i++) {
        const weir_desc *const y = &a->t->y[i]->layout.desc, *const z = &a->y[i]->layout.desc;
        if (!weir_desc_equal(y, z))
            return weir_fail(WEIR_ERR_STATE, "weir_checkpoint: the function made result %d %s, and "
                             "%s when it was called again for the gradient", i,
                             weir_desc_text(y, first), weir_desc_text(z, second));
    }
    return WEIR_OK;
}

/* The part of the session's state that a second run replaces temporarily. */
typedef struct weir_outside {
    uint64_t   rng, seed, frozen_from, frozen_to;
    int        no_grad;
    weir_dtype autocast;
    uint32_t   renames;
    const struct weir_tape *naming;
} weir_outside;

/* Sets the state that the first run began with and returns the current one. The seed is restored
 * only with the graph off: a run of a graph supplies its own. */
static weir_outside begin_recompute(weir_session *s, const weir_segment *seg)
{
    const weir_outside before = {*stream(s), s->dev->seed, s->frozen_from,
                                 s->frozen_to, s->no_grad, s->autocast, s->renames, s->naming};

    *stream(s) = seg->rng;
    s->dev->seed = s->recording ? s->dev->seed : seg->seed;
    s->frozen_from = seg->since;
    s->frozen_to = s->dev->changes;
    s->no_grad = seg->no_grad;
    s->autocast = seg->autocast;
    s->renames = seg->first_call;
    s->naming = NULL;
    s->recompute++;
    return before;
}

static void end_recompute(weir_session *s, const weir_outside *before)
{
    s->recompute--;
    *stream(s) = before->rng;
    s->dev->seed = before->seed;
    s->frozen_from = before->frozen_from;
    s->frozen_to = before->frozen_to;
    s->no_grad = before->no_grad;
    s->autocast = before->autocast;
    s->renames = before->renames;
    s->naming = before->naming;
}

weir_status weir_recompute_run(weir_recompute *a, weir_session *s)
{
    const weir_segment *const seg = a->t->segment;

    WEIR_TRY(make_inputs(a));
    a->order = s->tapes;
    const weir_outside before = begin_recompute(s, seg);
    const weir_status  status = run(s, seg, a->x, a->t->nout, a->y);
    const uint64_t     drawn = *stream(s) - seg->rng;
    end_recompute(s, &before);
    return status == WEIR_OK ? check_alike(a, drawn) : status;
}

void weir_recompute_drop_results(weir_recompute *a)
{
    for (int i = 0; i < WEIR_MAX_OUT; i++) {
        weir_release(a->y[i]);
        a->y[i] = NULL;
    }
}

void weir_recompute_free(weir_recompute *a)
{
    for (int i = 0; i < a->nin; i++)
        weir_release(a->x[i]);
    weir_recompute_drop_results(a);
}

/* ---- public functions ---- */

/* Creates handles out[i] of the results y[i] of fn's first run, for the tape to link. A result that
 * fn did not compute keeps its handle; one that appears twice in y gets one handle. */
static weir_status make_results(int nout, weir_tensor *const *y, weir_tensor **out)
{
    for (int i = 0; i < nout; i++) {
        int k = 0;
        while (y[k] != y[i])
            k++;
        if (k < i)
            out[i] = weir_retain(out[k]);
        else if (!is_made(y[i]))
            out[i] = weir_retain(y[i]);
        else
            out[i] = weir_tensor_make(y[i]->dev, &y[i]->layout, y[i]->offset, y[i]->block);
        if (!out[i])
            return WEIR_ERR_NOMEM;
        if (k == i && is_made(y[i]))
            out[i]->needs_grad = true;
    }
    return WEIR_OK;
}

static weir_status run_outermost(weir_session *s, weir_segment *seg, int nout, weir_tensor **out)
{
    weir_tensor *y[WEIR_MAX_OUT] = {NULL};

    seg->rng = *stream(s);
    seg->seed = s->dev->seed;
    seg->first_call = s->replay ? s->renames : s->recording ? s->recording->names.calls.n : 0;
    seg->no_grad = s->no_grad;
    seg->autocast = s->autocast;
    s->segment = seg;
    weir_status status = run(s, seg, seg->in, nout, y);
    s->segment = NULL;
    seg->drawn = *stream(s) - seg->rng;
    seg->since = s->dev->changes;
    if (status == WEIR_OK)
        status = make_results(nout, y, out);
    for (int i = 0; i < nout; i++)
        weir_release(y[i]);
    return status;
}

/* Bit i: the function computed result i; of equal results only the first has its bit set. */
static uint32_t made_of(int nout, weir_tensor *const *out)
{
    uint32_t made = 0;

    for (int i = 0; i < nout; i++) {
        int k = 0;
        while (out[k] != out[i])
            k++;
        if (k == i && is_made(out[i]))
            made |= 1u << i;
    }
    return made;
}

/* Performs the first run and adds a tape node; takes over the reference to seg. Inside the first
 * run of another checkpoint, that one notes the leaves and no node is added. */
static weir_status checkpoint(weir_session *s, weir_segment *seg, int nout, weir_tensor **out)
{
    weir_tensor *made[WEIR_MAX_OUT] = {NULL};
    const bool   inside = s->segment != NULL;
    weir_status  status = inside ? run(s, seg, seg->in, nout, made)
                                 : run_outermost(s, seg, nout, made);

    const uint32_t bits = status == WEIR_OK && !inside ? made_of(nout, made) : 0;
    if (bits) {
        status = weir_tape_add_segment(s, seg, seg->nin, seg->in, nout, made, bits);
        seg = status == WEIR_OK ? NULL : seg;
    }
    weir_ref_drop(seg);
    for (int i = 0; i < nout; i++) {
        if (made[i] && status == WEIR_OK)
            status = weir_scope_hold(s, made[i]);
        else
            weir_release(made[i]);
        out[i] = status == WEIR_OK ? made[i] : NULL;
    }
    return status;
}

static weir_status check(const char *who, bool fn, int nin, weir_tensor *const *in, int nout,
                         weir_tensor **out)
{
    if (!fn || !in || !out)
        return weir_fail(WEIR_ERR_INVALID, "%s: %s is NULL", who, !fn ? "fn" : !in ? "in" : "out");
    if (nin < 1 || nin > WEIR_MAX_IN || nout < 1 || nout > WEIR_MAX_OUT)
        return weir_fail(WEIR_ERR_INVALID, "%s: %d inputs and %d results are given, but 1 to %d "
                         "and 1 to %d are allowed", who, nin, nout, WEIR_MAX_IN, WEIR_MAX_OUT);
    for (int i = 0; i < nout; i++)
        out[i] = NULL;
    for (int i = 0; i < nin; i++) {
        if (!in[i])
            return weir_fail_null(who, "an input");
        WEIR_TRY(weir_device_check(in[i]->dev, who));
        if (in[i]->dev != in[0]->dev)
            return weir_fail(WEIR_ERR_DEVICE, "%s: inputs 0 and %d are on different devices", who,
                             i);
        WEIR_TRY(weir_tensor_check_there(who, in[i]));
    }
    return WEIR_OK;
}

weir_status weir_checkpoint(weir_checkpoint_fn fn, void *ctx, int nin, weir_tensor *const *in,
                            int nout, weir_tensor **out)
{
    WEIR_TRY(check("weir_checkpoint", fn != NULL, nin, in, nout, out));
    WEIR_VISIT(in[0]->dev, "weir_checkpoint", weir_error_status());
    weir_session *const s = weir_session_of(in[0]->dev);
    weir_segment *const seg = s ? weir_mem_zalloc(1, sizeof *seg) : NULL;
    if (!seg)
        return WEIR_ERR_NOMEM;
    *seg = (weir_segment){.ref = {1, segment_destroy}, .fn = fn, .ctx = ctx, .nin = nin, .in = in};
    return checkpoint(s, seg, nout, out);
}

/* ---- chains ---- */

typedef struct weir_link {
    weir_checkpoint_fn fn;
    void              *ctx;
} weir_link;

typedef struct weir_chain {
    int       n;
    weir_link link[];
} weir_chain;

static weir_status run_links(weir_session *s, int n, const weir_link *link, weir_tensor *in,
                             weir_tensor **out)
{
    weir_tensor *x = weir_retain(in);
    weir_status  status = WEIR_OK;

    for (int i = 0; i < n && status == WEIR_OK; i++) {
        weir_tensor       *y = NULL;
        const weir_segment one = {.fn = link[i].fn, .ctx = link[i].ctx};
        status = run(s, &one, &x, 1, &y);
        weir_release(x);
        x = y;
    }
    if (status != WEIR_OK) {
        weir_release(x);
        return status;
    }
    *out = x;
    return weir_scope_hold(s, x);
}

static weir_status chain_run(void *ctx, weir_tensor *const *in, weir_tensor **out)
{
    const weir_chain *const c = ctx;
    return run_links(weir_session_of(in[0]->dev), c->n, c->link, in[0], out);
}

static weir_status checkpoint_links(weir_session *s, int n, const weir_link *link, weir_tensor *in,
                                    weir_tensor **out)
{
    weir_segment *const seg = weir_mem_zalloc(1, sizeof *seg);
    weir_chain *const   c = weir_mem_alloc(sizeof *c + (size_t)n * sizeof *link);

    if (!seg || !c) {
        weir_mem_free(seg);
        weir_mem_free(c);
        return WEIR_ERR_NOMEM;
    }
    c->n = n;
    memcpy(c->link, link, (size_t)n * sizeof *link);
    *seg = (weir_segment){.ref = {1, segment_destroy}, .fn = chain_run, .ctx = c, .owned = c,
                          .nin = 1, .in = &in};
    return checkpoint(s, seg, 1, out);
}

static weir_status run_segments(weir_session *s, int n, const weir_link *link, int segments,
                                weir_tensor *in, weir_tensor **out)
{
    const int    size = n / segments;
    weir_tensor *x = in;

    for (int i = 0; i + 1 < segments; i++)
        WEIR_TRY(checkpoint_links(s, size, link + i * size, x, &x));
    const int done = (segments - 1) * size;
    return run_links(s, n - done, link + done, x, out);
}

weir_status weir_checkpoint_sequential(int n, const weir_checkpoint_fn *fn, void *const *ctx,
                                       int segments, weir_tensor *in, weir_tensor **out)
{
    const char *const who = "weir_checkpoint_sequential";
    weir_tensor      *made = NULL;

    WEIR_TRY(check(who, fn != NULL, 1, &in, 1, out));
    if (n < 1 || segments < 1 || segments > n)
        return weir_fail(WEIR_ERR_INVALID, "%s: %d functions do not divide into %d segments "
                         "(expected 1 to as many segments as functions)", who, n, segments);
    for (int i = 0; i < n; i++)
        if (!fn[i])
            return weir_fail(WEIR_ERR_INVALID, "%s: function %d is NULL", who, i);
    WEIR_VISIT(in->dev, who, weir_error_status());
    weir_session *const s = weir_session_of(in->dev);
    weir_link *const    link = s ? weir_mem_alloc((size_t)n * sizeof *link) : NULL;
    if (!link)
        return WEIR_ERR_NOMEM;
    for (int i = 0; i < n; i++)
        link[i] = (weir_link){fn[i], ctx ? ctx[i] : NULL};
    const weir_status status = run_segments(s, n, link, segments, in, &made);
    weir_mem_free(link);
    *out = status == WEIR_OK ? made : NULL;
    return status;
}
