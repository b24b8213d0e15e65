/* accumulate.c - a step over several losses: gradients of micro-batches are added to sums, then
 * applied together.
 *
 * In order tree a sum is a binary counter of partial sums (weir_accumulate_tree), so that it has
 * the bits of a tree over all micro-batches of all ranks, of which each rank computes a part. */
#include "model/optim.h"

/* Sums of 0 for parameters without one. */
static weir_status make_sums(weir_optim *o, const weir_pair *pairs, size_t n, bool *made)
{
    for (size_t i = 0; i < n; i++) {
        weir_slot *s = weir_optim_slot(o, pairs[i].param);
        if (s && s->sum)
            continue;
        if (s)
            s->sum = weir_optim_state_new(o, weir_optim_sum_desc(o, s->param),
                                          weir_tensor_name(s->param), "sum", 0);
        if (!s || !s->sum)
            return weir_error_status();
        *made = true;
    }
    return WEIR_OK;
}

static weir_status add(const weir_optim *o, weir_tensor *sum, weir_tensor *grad)
{
    if (o->levels == 0)
        return weir_accumulate(sum, grad);
    const weir_desc d = weir_tensor_desc(sum);
    return weir_accumulate_tree(sum, weir_reshape(grad, 1, &d.dim[1]), o->summed);
}

static weir_status accumulate(weir_optim *o, weir_tensor *loss)
{
    const weir_pair *pairs;
    size_t           n;
    bool             changed = false;

    WEIR_TRY(weir_optim_backward(o, loss, &pairs, &n));
    weir_status s = make_sums(o, pairs, n, &changed);
    for (size_t i = 0; i < n && s == WEIR_OK; i++) {
        s = add(o, weir_optim_slot(o, pairs[i].param)->sum, pairs[i].grad);
        changed |= s == WEIR_OK;
    }
    if (s == WEIR_OK && o->summed)
        s = weir_increment(o->summed, 1);
    o->torn |= s != WEIR_OK && changed;
    return s == WEIR_OK ? weir_optim_end_part(o, false) : s;
}

weir_status weir_optim_accumulate(weir_optim *o, weir_tensor *loss)
{
    if (!o || !loss)
        return weir_poison(weir_fail_null("optim_accumulate", o ? "loss" : "optimiser"));
    return weir_optim_in_scope(o, accumulate, loss);
}

/* The gradient that a slot's sum holds, of the parameter's shape: rows of partial sums are added
 * from the latest micro-batches on, as a tree over all of them does. */
static weir_tensor *gradient_of(const weir_optim *o, const weir_slot *s)
{
    const weir_desc d = weir_tensor_desc(s->param), whole = weir_tensor_desc(s->sum);
    weir_tensor    *grad = s->sum;

    for (int64_t row = 0; row < o->levels; row++) {
        weir_tensor *const one = weir_reshape(weir_slice(s->sum, (int64_t[]){row, 0},
                                                         (int64_t[]){row + 1, whole.dim[1]},
                                                         (int64_t[]){1, 1}), d.ndim, d.dim);
        grad = row == 0 ? one : weir_add(one, grad);
    }
    return grad;
}

/* Stores parameters and their summed gradients in pairs[slots], and their number in *n. */
static weir_status collect(const weir_optim *o, weir_pair *pairs, size_t *n)
{
    *n = 0;
    for (size_t i = 0; i < o->slots.n; i++) {
        const weir_slot *const s = o->slots.at[i];
        if (!s->sum)
            continue;
        weir_tensor *const grad = gradient_of(o, s);
        if (!grad)
            return weir_error_status();
        pairs[(*n)++] = (weir_pair){s->param, grad};
    }
    return WEIR_OK;
}

/* Zeroes sums that a failure left incomplete; the caller learns that their gradients are lost. */
static weir_status discard(weir_optim *o)
{
    size_t n = 0;

    for (size_t i = 0; i < o->slots.n; i++) {
        weir_tensor *const sum = ((weir_slot *)o->slots.at[i])->sum;
        n += sum != NULL;
        if (sum)
            WEIR_TRY(weir_write_fill(sum, 0));
    }
    if (o->summed)
        WEIR_TRY(weir_write_fill(o->summed, 0));
    o->torn = false;
    return weir_fail(WEIR_ERR_STATE, "optim_apply: an earlier call failed when it had changed the "
                     "gradients of some of %zu parameters only; what was accumulated is discarded",
                     n);
}

static weir_status reset(weir_optim *o)
{
    for (size_t i = 0; i < o->slots.n; i++)
        if (((weir_slot *)o->slots.at[i])->sum)
            WEIR_TRY(weir_reset(((weir_slot *)o->slots.at[i])->sum, 0));
    return o->summed ? weir_reset(o->summed, 0) : WEIR_OK;
}

static weir_status apply(weir_optim *o, weir_pair *pairs)
{
    size_t n;

    if (o->torn)
        return discard(o);
    WEIR_TRY(collect(o, pairs, &n));
    if (n == 0)
        return weir_fail(WEIR_ERR_STATE, "optim_apply: nothing has been accumulated yet");
    WEIR_TRY(weir_optim_finish(o, pairs, n));
    const weir_status s = reset(o);
    o->torn |= s != WEIR_OK;
    return s == WEIR_OK ? weir_optim_end_part(o, true) : s;
}

weir_status weir_optim_apply(weir_optim *o)
{
    if (!o)
        return weir_poison(weir_fail_null("optim_apply", "optimiser"));
    weir_pair *const pairs = weir_host_alloc((o->slots.n + 1) * sizeof *pairs);
    if (!pairs)
        return weir_error_status();
    weir_status s = weir_scope_begin(o->dev);
    if (s == WEIR_OK) {
        s = apply(o, pairs);
        const weir_status end = weir_scope_end(o->dev);
        s = s != WEIR_OK ? s : end;
    }
    weir_host_free(pairs);
    return s;
}
