/* tape.c - the tape: one node per call through which a gradient may flow. */
#include "graph/tape.h"

#include <string.h>

#include "core/status.h"
#include "graph/graph.h"
#include "graph/op/op.h"

/* Freeing a node frees its producers' last references; a queue instead of recursion keeps the stack
 * flat however long the chain is. */
static void tape_destroy(weir_ref *self)
{
    weir_tape    *t = (weir_tape *)self;
    weir_session *s = t->session;

    t->next_dying = s->dying;
    s->dying = t;
    if (s->draining)
        return;
    s->draining = true;
    weir_ref_take(s);
    while (s->dying) {
        weir_tape *d = s->dying;
        s->dying = d->next_dying;
        for (int i = 0; i < d->nin; i++)
            weir_release(d->x[i]);
        for (int i = 0; i < d->nout; i++)
            weir_release(d->y[i]);
        weir_mem_free(d);
        weir_ref_drop(s);           /* not the last: we hold one meanwhile */
    }
    s->draining = false;
    weir_ref_drop(s);
}

/* A handle for the tape: with the block if the gradient reads it, else hollow. */
static weir_tensor *shadow(weir_tensor *t, bool reads, bool link)
{
    weir_tensor *h = weir_tensor_make(t->dev, &t->layout, t->offset, reads ? t->block : NULL);
    if (!h)
        return NULL;
    h->needs_grad = t->needs_grad;
    h->leaf = t->leaf;
    h->out = t->out;
    if (link)
        h->tape = weir_ref_take(t->tape);
    return h;
}

/* A trainable leaf is kept as it is: it is what weir_backward answers with. */
static bool add_input(weir_tape *t, weir_tensor *x, bool reads)
{
    if (x->trainable)
        t->lent |= 1u << t->nin;
    t->x[t->nin] = x->trainable ? weir_retain(x) : shadow(x, reads, true);
    return t->x[t->nin++] != NULL;
}

weir_status weir_tape_add(weir_session *s, const weir_call *c, uint64_t rng, weir_tensor *const *in,
                          weir_tensor *const *out)
{
    const weir_opdef *def = weir_opdefs[c->op];
    weir_tape        *t = weir_mem_zalloc(1, sizeof *t + c->attr_bytes);

    if (!t)
        return WEIR_ERR_NOMEM;
    t->ref = (weir_ref){1, tape_destroy};
    t->session = weir_ref_take(s);
    t->op = c->op;
    t->order = ++s->tapes;
    t->graph = s->recording ? s->recording->id : 0;
    t->rng = rng;
    t->attr_bytes = c->attr_bytes;
    if (c->attr_bytes)
        memcpy(t->attr, c->attr, c->attr_bytes);
    bool ok = true;
    while (t->nin < c->nin && ok)
        ok = add_input(t, in[t->nin], def->reads_in >> t->nin & 1);
    for (t->nout = 0; t->nout < c->nout && ok; t->nout++)
        ok = (t->y[t->nout] = shadow(out[t->nout], def->reads_out >> t->nout & 1, false)) != NULL;
    for (int i = 0; i < c->nout && ok; i++) {
        out[i]->tape = weir_ref_take(t);
        out[i]->out = (uint32_t)i;
        out[i]->needs_grad = weir_tensor_is_float(out[i]);
    }
    if (ok && s->recording) {
        ok = weir_vec_push(&s->recording->tapes, t);
        if (ok)
            weir_ref_take(t);
    }
    weir_ref_drop(t);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}

static void hollow(weir_tensor *t)
{
    if (t) {
        weir_ref_drop(t->block);
        t->block = NULL;
    }
}

void weir_tape_consume(weir_tape *t)
{
    t->used = true;
    for (int i = 0; i < t->nin; i++)
        if (!(t->lent >> i & 1))
            hollow(t->x[i]);
    for (int i = 0; i < t->nout; i++)
        hollow(t->y[i]);
}

uint32_t weir_tape_wants(const weir_tape *t)
{
    uint32_t want = 0;
    for (int i = 0; i < t->nin; i++)
        if (t->x[i]->needs_grad)
            want |= 1u << i;
    return want & weir_opdefs[t->op]->differentiable;
}

weir_status weir_tape_grad(weir_tape *t, uint32_t want, weir_tensor **dy, weir_tensor **dx)
{
    const weir_opdef *def = weir_opdefs[t->op];

    memset(dx, 0, sizeof *dx * (size_t)t->nin);
    if (t->used)
        return weir_fail(
            WEIR_ERR_STATE,
            "gradient of %s: an earlier backward has dropped what it needs; compute the "
            "forward again",
            def->name);
    if (!def->grad || !want)
        return WEIR_OK;
    weir_grad g = {.def = def,
                   .attr = t->attr,
                   .nin = t->nin,
                   .nout = t->nout,
                   .x = t->x,
                   .y = t->y,
                   .dy = dy,
                   .dx = dx,
                   .want = want,
                   .rng = t->rng};
    return def->grad(&g);
}
