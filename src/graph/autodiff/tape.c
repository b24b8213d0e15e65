/* tape.c - the tape: one node per call through which a gradient may flow. */
#include "graph/autodiff/tape.h"

#include <string.h>

#include "core/status.h"
#include "graph/eager/evict.h"
#include "graph/ir/graph.h"
#include "graph/ops/op.h"

/* Freeing a node may drop the last references to its producers. A queue instead of recursion bounds
 * the depth of the stack for chains of any length. */
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
        weir_ref_drop(d->segment);
        weir_mem_free(d);
        weir_ref_drop(s);           /* not the last reference: the loop holds one */
    }
    s->draining = false;
    weir_ref_drop(s);
}

/* Creates the tape's own handle of t: with t's block if the gradient reads its elements, else
 * hollow. */
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
    if (reads && t->name && !(h->name = weir_mem_strdup(t->name))) {
        weir_release(h);
        return NULL;
    }
    return h;
}

/* Adds an operand. A trainable leaf is referenced itself, since weir_backward returns it. */
static bool add_input(weir_tape *t, weir_tensor *x, bool reads)
{
    if (x->trainable)
        t->lent |= 1u << t->nin;
    t->x[t->nin] = x->trainable ? weir_retain(x) : shadow(x, reads, true);
    return t->x[t->nin++] != NULL;
}

weir_tensor *weir_hollow(weir_tensor *t)
{
    if (!t)
        return (void)weir_fail_null("weir_hollow", "t"), NULL;
    WEIR_VISIT(t->dev, "weir_hollow", NULL);
    weir_tensor *h = weir_tensor_make(t->dev, &t->layout, t->offset, NULL);
    if (!h)
        return NULL;
    h->tape = weir_ref_take(t->tape);
    h->out = t->out;
    h->leaf = t->leaf;
    h->needs_grad = t->needs_grad;
    h->gone = t->gone;
    return h;
}

static weir_tape *tape_new(weir_session *s, size_t attr_bytes)
{
    weir_tape *t = weir_mem_zalloc(1, sizeof *t + attr_bytes);

    if (!t)
        return NULL;
    t->ref = (weir_ref){1, tape_destroy};
    t->session = weir_ref_take(s);
    t->order = ++s->tapes;
    t->graph = s->recording ? s->recording->id : 0;
    t->seed = s->dev->seed;
    t->since = s->dev->changes;
    t->attr_bytes = attr_bytes;
    t->name = WEIR_NONE;
    return t;
}

/* Creates the node's handles of its operands. While recording, the graph references the node. */
static bool link_up(weir_tape *t, int nin, weir_tensor *const *in, uint32_t reads_in, int nout,
                    weir_tensor *const *out, uint32_t reads_out)
{
    weir_session *s = t->session;
    bool          ok = true;

    while (t->nin < nin && ok)
        ok = add_input(t, in[t->nin], reads_in >> t->nin & 1);
    for (t->nout = 0; t->nout < nout && ok; t->nout++)
        ok = (t->y[t->nout] = shadow(out[t->nout], reads_out >> t->nout & 1, false)) != NULL;
    if (ok && s->recording) {
        ok = weir_vec_push(&s->recording->tapes, t);
        if (ok)
            weir_ref_take(t);
    }
    return ok;
}

static void made_by(weir_tensor *y, weir_tape *t, int i)
{
    y->tape = weir_ref_take(t);
    y->out = (uint32_t)i;
    y->needs_grad = weir_tensor_is_float(y);
}

weir_status weir_tape_add(weir_session *s, const weir_call *c, uint64_t rng, uint32_t name,
                          weir_tensor *const *in, weir_tensor *const *out)
{
    const weir_opdef *def = c->def;
    weir_tape        *t = tape_new(s, c->attr_bytes);

    if (!t)
        return WEIR_ERR_NOMEM;
    t->def = c->def;
    t->rng = rng;
    t->name = name;
    if (c->attr_bytes)
        memcpy(t->attr, c->attr, c->attr_bytes);
    const bool ok = link_up(t, c->nin, in, def->reads_in, c->nout, out, def->reads_out);
    for (int i = 0; i < c->nout && ok; i++)
        made_by(out[i], t, i);
    weir_ref_drop(t);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}

weir_status weir_tape_add_segment(weir_session *s, void *segment, int nin, weir_tensor *const *in,
                                  int nout, weir_tensor *const *out, uint32_t made)
{
    weir_tape *t = tape_new(s, 0);

    if (!t)
        return WEIR_ERR_NOMEM;
    const bool ok = link_up(t, nin, in, UINT32_MAX, nout, out, 0);
    if (ok)
        t->segment = segment;
    for (int i = 0; i < nout && ok; i++)
        if (made >> i & 1)
            made_by(out[i], t, i);
    weir_ref_drop(t);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}

const char *weir_tape_name(const weir_tape *t)
{
    return t->segment ? "checkpoint" : t->def->name;
}

weir_status weir_tape_check_unused(const weir_tape *t)
{
    if (!t->used)
        return WEIR_OK;
    return weir_fail(WEIR_ERR_STATE, "gradient of %s: an earlier backward has dropped what it "
                     "needs; compute the forward again, or take the earlier one between "
                     "weir_retain_begin and _end (Python: backward(retain_graph=True))",
                     weir_tape_name(t));
}

/* ---- versions ---- */

weir_status weir_changed(weir_session *s, const weir_tensor *t, uint64_t *when, const char **by)
{
    weir_block *const b = t->block;

    if (!s->recording) {
        weir_block_look(b);
        *when = b->changed;
        *by = b->changed_by;
        return WEIR_OK;
    }
    if (weir_evict_fix(b) != WEIR_OK)
        return weir_error_status();
    const uint32_t storage = weir_graph_storage_of(s->recording, b);
    if (storage == WEIR_NONE)
        return weir_error_status();
    *when = s->recording->storages.at[storage].changed;
    *by = s->recording->storages.at[storage].changed_by;
    return WEIR_OK;
}

/* Sets *role to "input" or "result" and *i to the operand's number; false if it is no operand of
 * the node. */
static bool role_of(const weir_tape *t, const weir_tensor *operand, const char **role, int *i)
{
    *role = "input";
    for (*i = 0; *i < t->nin; ++*i)
        if (t->x[*i] == operand)
            return true;
    *role = "result";
    for (*i = 0; *i < t->nout; ++*i)
        if (t->y[*i] == operand)
            return true;
    return false;
}

weir_status weir_tape_check_unchanged(const weir_tape *t, const weir_tensor *operand)
{
    const char *role, *by;
    uint64_t    when;
    int         i;
    char        text[WEIR_DESC_TEXT];

    if (!role_of(t, operand, &role, &i))
        return WEIR_OK;
    WEIR_TRY(weir_changed(t->session, operand, &when, &by));
    if (when <= t->since)
        return WEIR_OK;
    const char *const name = weir_tensor_name(operand), *const quote = *name ? "'" : "";
    return weir_fail(WEIR_ERR_STATE, "the gradient of %s reads its %s %d, %s%s%s%s%s, which %s has "
                     "changed since: take all gradients before the change, or compute the forward "
                     "again after it, or call %s with a copy of the value", weir_tape_name(t), role,
                     i, quote, name, quote, *name ? " " : "",
                     weir_desc_text(&operand->layout.desc, text), by, weir_tape_name(t));
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
    return t->segment ? want : want & t->def->differentiable;
}

/* Records the gradient. With the graph off, a random call's gradient draws with the seed of that
 * call; a run of a graph supplies its own seed. */
static weir_status record_grad(const weir_tape *t, weir_grad *g)
{
    weir_session *const    s = t->session;
    const weir_tape *const outer = s->differentiating, *const naming = s->naming;
    const uint64_t         seed = s->dev->seed;

    s->differentiating = s->naming = t;
    s->dev->seed = t->graph ? seed : t->seed;
    const weir_status status = g->def->grad(g);
    s->dev->seed = seed;
    s->differentiating = outer;
    s->naming = naming;
    return status;
}

weir_status weir_tape_grad(weir_tape *t, uint32_t want, weir_tensor **dy, weir_tensor **dx)
{
    const weir_opdef *def = t->def;

    memset(dx, 0, sizeof *dx * (size_t)t->nin);
    WEIR_TRY(weir_tape_check_unused(t));
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
    return record_grad(t, &g);
}
