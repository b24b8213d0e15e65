/* optim.c - SGD and Adam: one update per gradient that weir_backward hands out.
 *
 * State belongs to a parameter, found by pointer; a slot holds a reference to its parameter, so
 * that a pointer never comes to mean another one. Gradients come in the same order step after
 * step, so the search begins where the last step found the same gradient. Making state is
 * immediate, never recorded: a step may be the first one and a recorded one at once. */
#include "model/model.h"

#include <math.h>

enum { F32_RATE, F64_RATE, RATES };

typedef struct slot {
    weir_tensor *param;         /* referenced */
    weir_tensor *state[2];      /* SGD: momentum or none; Adam: m, v. Listed in optim.states */
} slot;

struct weir_optim {
    weir_device      *dev;              /* borrowed */
    bool              is_adam;
    weir_sgd_options  sgd;
    weir_adam_options adam;
    double            rate;
    weir_tensor      *lr[RATES];        /* scalar inputs, one per type of parameter */
    weir_tensor      *step;             /* Adam: scalar f64, also the first of states */
    weir_list         slots, states;    /* of slot, of weir_tensor (referenced) */
};

/* A zeroed state tensor named PARAM.PART, owned by the optimiser. */
static weir_tensor *state_new(weir_optim *o, weir_desc desc, const char *param, const char *part)
{
    char name[WEIR_NAME_ROOM];
    if (weir_name_join(name, *param ? param : NULL, part) != WEIR_OK ||
        weir_list_reserve(&o->states) != WEIR_OK)
        return NULL;
    weir_tensor *t = weir_state(o->dev, desc, name);
    if (t && weir_write_fill(t, 0) != WEIR_OK) {
        weir_release(t);
        return NULL;
    }
    if (t)
        o->states.at[o->states.n++] = t;
    return t;
}

static weir_optim *optim_new(weir_device *d, double lr, const char *who)
{
    if (!d)
        return (void)weir_fail_null(who, "device"), NULL;
    if (!isfinite(lr)) {
        weir_fail(WEIR_ERR_INVALID, "%s: the learning rate is %g, must be finite", who, lr);
        return NULL;
    }
    weir_optim *o = weir_host_alloc(sizeof *o);
    if (o)
        *o = (weir_optim){.dev = d, .rate = lr};
    return o;
}

weir_optim *weir_sgd_new(weir_device *d, double lr, const weir_sgd_options *options)
{
    weir_optim *o = optim_new(d, lr, "sgd_new");
    if (o && options)
        o->sgd = *options;
    return o;
}

weir_optim *weir_adam_new(weir_device *d, double lr, const weir_adam_options *options)
{
    weir_optim *o = optim_new(d, lr, "adam_new");
    if (!o)
        return NULL;
    o->is_adam = true;
    if (options)
        o->adam = *options;
    o->step = state_new(o, weir_scalar(WEIR_F64), "adam", "step");
    if (!o->step) {
        weir_optim_free(o);
        return NULL;
    }
    return o;
}

void weir_optim_free(weir_optim *o)
{
    if (!o)
        return;
    for (int i = 0; i < RATES; i++)
        weir_release(o->lr[i]);
    for (size_t i = 0; i < o->states.n; i++)
        weir_release(o->states.at[i]);
    for (size_t i = 0; i < o->slots.n; i++) {
        weir_release(((slot *)o->slots.at[i])->param);
        weir_host_free(o->slots.at[i]);
    }
    weir_list_free(&o->states);
    weir_list_free(&o->slots);
    weir_host_free(o);
}

/* ---- the learning rate ---- */

static weir_status rate_write(weir_tensor *lr, double rate)
{
    const float single = (float)rate;
    return weir_tensor_desc(lr).dtype == WEIR_F64 ? weir_write(lr, &rate, sizeof rate)
                                                  : weir_write(lr, &single, sizeof single);
}

weir_status weir_optim_set_lr(weir_optim *o, double lr)
{
    if (!o)
        return weir_fail_null("optim_set_lr", "optimiser");
    if (!isfinite(lr))
        return weir_fail(WEIR_ERR_INVALID, "optim_set_lr: the rate is %g, must be finite", lr);
    o->rate = lr;
    for (int i = 0; i < RATES; i++)
        if (o->lr[i])
            WEIR_TRY(rate_write(o->lr[i], lr));
    return WEIR_OK;
}

/* The rate as a tensor of the parameter's type. */
static weir_tensor *rate_for(weir_optim *o, const weir_tensor *param)
{
    const bool    wide = weir_tensor_desc(param).dtype == WEIR_F64;
    weir_tensor **lr = &o->lr[wide ? F64_RATE : F32_RATE];
    if (*lr)
        return *lr;
    weir_tensor *t = weir_input(o->dev, weir_scalar(wide ? WEIR_F64 : WEIR_F32));
    if (t && rate_write(t, o->rate) != WEIR_OK) {
        weir_release(t);
        return NULL;
    }
    return *lr = t;
}

/* ---- state of a parameter ---- */

size_t weir_optim_state_count(const weir_optim *o)
{
    return o ? o->states.n : 0;
}

weir_tensor *weir_optim_state(const weir_optim *o, size_t i)
{
    if (!o)
        return (void)weir_fail_null("optim_state", "optimiser"), NULL;
    if (i >= o->states.n) {
        weir_fail(WEIR_ERR_INVALID, "optim_state: index %zu, but there are %zu", i, o->states.n);
        return NULL;
    }
    return o->states.at[i];
}

static bool slot_fill(weir_optim *o, slot *s)
{
    const weir_desc desc = weir_tensor_desc(s->param);
    const char     *name = weir_tensor_name(s->param);

    if (!o->is_adam)
        return o->sgd.momentum == 0 || (s->state[0] = state_new(o, desc, name, "momentum"));
    return (s->state[0] = state_new(o, desc, name, "m")) &&
           (s->state[1] = state_new(o, desc, name, "v"));
}

static slot *slot_new(weir_optim *o, weir_tensor *param)
{
    const size_t before = o->states.n;
    if (weir_list_reserve(&o->slots) != WEIR_OK)
        return NULL;
    slot *s = weir_host_alloc(sizeof *s);
    if (!s)
        return NULL;
    s->param = param;
    if (!slot_fill(o, s)) {
        while (o->states.n > before)
            weir_release(o->states.at[--o->states.n]);
        weir_host_free(s);
        return NULL;
    }
    weir_retain(param);
    o->slots.at[o->slots.n++] = s;
    return s;
}

/* The slot of a parameter, looked for from `hint` on; made if there is none. */
static slot *slot_of(weir_optim *o, weir_tensor *param, size_t hint)
{
    for (size_t i = 0; i < o->slots.n; i++) {
        slot *s = o->slots.at[(hint + i) % o->slots.n];
        if (s->param == param)
            return s;
    }
    return slot_new(o, param);
}

/* ---- a step ---- */

static weir_status update(weir_optim *o, const weir_pair *p, size_t i)
{
    slot        *s = slot_of(o, p->param, i);
    weir_tensor *lr = s ? rate_for(o, p->param) : NULL;
    if (!lr)
        return weir_error_status();
    if (o->is_adam)
        return weir_adam_update(p->param, p->grad, s->state[0], s->state[1], o->step, lr, &o->adam);
    return weir_sgd_update(p->param, p->grad, s->state[0], lr, &o->sgd);
}

static weir_status minimize(weir_optim *o, weir_tensor *loss)
{
    const weir_pair *pairs;
    size_t           n;

    WEIR_TRY(weir_backward(loss, &pairs, &n));
    if (o->is_adam)
        WEIR_TRY(weir_increment(o->step, 1));
    for (size_t i = 0; i < n; i++)
        WEIR_TRY(update(o, &pairs[i], i));
    return WEIR_OK;
}

weir_status weir_minimize(weir_optim *o, weir_tensor *loss)
{
    if (!o || !loss)
        return weir_fail_null("minimize", o ? "loss" : "optimiser");
    /* Gradients die here, not at the end of the caller's step. */
    WEIR_TRY(weir_scope_begin(o->dev));
    const weir_status s = minimize(o, loss);
    const weir_status end = weir_scope_end(o->dev);
    return s != WEIR_OK ? s : end;
}
