/* ops_train.c - gradients, clipping, updates and kept results of random programs. */
#include <limits.h>

#include "programs/ops.h"

static weir_status keep(stage *s, weir_tensor *t)
{
    if (!t)
        return weir_error_status();
    if (s->nkept == MAX_KEPT)
        return weir_fail(WEIR_ERR_INVALID, "more than %d kept results", MAX_KEPT);
    s->kept[s->nkept] = weir_keep(t);
    return s->kept[s->nkept++] ? WEIR_OK : weir_error_status();
}

static weir_status play_keep(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)o, (void)out;
    return keep(s, in[0]);
}

/* in: values; out: a scalar of the program's type, the sum of the means of what they are. */
static weir_status play_total(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    weir_tensor *sum = NULL;
    for (int i = 0; i < o->nin; i++) {
        weir_tensor *t = in[i];
        t = o->a[i] == 0   ? weir_square(weir_tanh(t))
            : o->a[i] == 1 ? weir_affine(t, 0.5, 0)
                           : weir_sigmoid(t);
        t = weir_cast(o->a[i] == 1 && o->a[9] ? weir_sum(t, 0, false) : weir_mean(t, 0, false),
                      s->w->p->type);
        if (!t)
            return weir_error_status();
        sum = sum ? weir_add(sum, t) : t;
    }
    return one(sum, out);
}

/* a[0]: optimiser */
static weir_status play_minimize(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)out;
    return weir_minimize(s->w->optim[o->a[0]], in[0]);
}

static weir_status play_accumulate(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)out;
    return weir_optim_accumulate(s->w->optim[o->a[0]], in[0]);
}

static weir_status play_apply(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)in, (void)out;
    return weir_optim_apply(s->w->optim[o->a[0]]);
}

/* a[0]: optimiser; a[1]: 0 none, 1 value, 2 norm, 3 both; a[2]: gradients are kept */
static weir_status play_backward(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)out;
    const weir_pair *found;
    weir_pair        pair[MAX_LEAVES + 8 * MAX_LAYERS];
    weir_tensor     *norm = NULL;
    size_t           n;

    WEIR_TRY(weir_backward(in[0], &found, &n));
    if (n > sizeof pair / sizeof *pair)
        return weir_fail(WEIR_ERR_INVALID, "%zu gradients are more than expected", n);
    for (size_t i = 0; i < n; i++)
        pair[i] = found[i];
    if (o->a[1] & 1)
        WEIR_TRY(weir_clip_value(pair, n, 0.25, pair));
    if (o->a[1] & 2)
        WEIR_TRY(weir_clip_norm(pair, n, 0.5, pair, &norm));
    if (norm)
        WEIR_TRY(keep(s, norm));
    for (size_t i = 0; i < n && i < 6 && o->a[2]; i++)
        WEIR_TRY(keep(s, pair[i].grad));
    return n ? weir_optim_update(s->w->optim[o->a[0]], pair, n) : WEIR_OK;
}

/* Gradients of in[0] for the other inputs; those there are are kept. a[0]: from any value. */
static weir_status play_gradients(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)out;
    weir_tensor *grad[MAX_IN];
    WEIR_TRY(o->a[0] ? weir_gradients_from(in[0], NULL, (size_t)o->nin - 1, in + 1, grad)
                     : weir_gradients(in[0], (size_t)o->nin - 1, in + 1, grad));
    for (int i = 0; i < o->nin - 1; i++)
        if (grad[i])
            WEIR_TRY(keep(s, weir_copy(grad[i])));
    return WEIR_OK;
}

const op_def ops_train[] = {
    {"keep", 0, NULL, play_keep, EFFECT},
    {"total", 0, NULL, play_total, 0},
    {"minimize", 0, NULL, play_minimize, EFFECT | LAST},
    {"accumulate", 0, NULL, play_accumulate, EFFECT | LAST},
    {"apply", 0, NULL, play_apply, EFFECT | LAST},
    {"backward", 0, NULL, play_backward, EFFECT | LAST},
    {"gradients", 0, NULL, play_gradients, EFFECT | LAST},
};
const int ops_train_n = sizeof ops_train / sizeof *ops_train;
