/* optim.c - SGD, Adam, AdamW, Adagrad, RMSProp: one update per gradient of weir_backward.
 *
 * A slot has the state of a parameter and is found by the parameter's address; it references the
 * parameter, so that the address cannot be reused. State is created immediately, not recorded, so
 * that the first step may be a recorded one. */
#include "model/optim.h"

#include <math.h>
#include <string.h>

#include "model/statistics.h"

weir_tensor *weir_optim_state_new(weir_optim *o, weir_desc desc, const char *param,
                                  const char *part, double value)
{
    char name[WEIR_NAME_MAX];
    if (weir_name_join(name, *param ? param : NULL, part) != WEIR_OK ||
        weir_list_reserve(&o->states) != WEIR_OK)
        return NULL;
    weir_tensor *t = weir_state(o->dev, desc, name);
    if (t && weir_write_fill(t, value) != WEIR_OK) {
        weir_release(t);
        return NULL;
    }
    if (t)
        o->states.at[o->states.n++] = t;
    return t;
}

/* ---- the methods ---- */

/* Updates are counted only if the first differs from the others: it is not dampened. */
static bool sgd_uses(const weir_optim *o, int part)
{
    return o->sgd.momentum != 0 && (part == 0 || o->sgd.dampening != 0);
}

static weir_status sgd_step(const weir_optim *o, const weir_slot *s, weir_tensor *grad,
                            weir_tensor *lr)
{
    weir_sgd_options one = o->sgd;

    one.step = s->state[1];
    return weir_sgd_update(s->param, grad, s->state[0], lr, &one);
}

static weir_status adam_step(const weir_optim *o, const weir_slot *s, weir_tensor *grad,
                             weir_tensor *lr)
{
    return weir_adam_update(s->param, grad, s->state[0], s->state[1], o->step, lr, &o->adam);
}

static weir_status adamw_step(const weir_optim *o, const weir_slot *s, weir_tensor *grad,
                              weir_tensor *lr)
{
    return weir_adamw_update(s->param, grad, s->state[0], s->state[1], o->step, lr, &o->adam);
}

static weir_status adagrad_step(const weir_optim *o, const weir_slot *s, weir_tensor *grad,
                                weir_tensor *lr)
{
    const weir_adagrad_options one = {.eps = o->adagrad.eps,
                                      .weight_decay = o->adagrad.weight_decay,
                                      .eps_inside = o->adagrad.eps_inside,
                                      .exact = o->adagrad.exact};
    return weir_adagrad_update(s->param, grad, s->state[0], lr, &one);
}

/* With the rate lr / (1 + (n - 1) decay), computed in f64: equal calls for all parameters. */
static weir_status decaying_step(const weir_optim *o, const weir_slot *s, weir_tensor *grad,
                                 weir_tensor *lr)
{
    const double       decay = o->adagrad.lr_decay;
    const weir_dtype   type = weir_tensor_desc(lr).dtype;
    weir_tensor *const by = weir_affine(o->step, decay, 1 - decay);

    return adagrad_step(o, s, grad, weir_cast(weir_div(weir_cast(lr, WEIR_F64), by), type));
}

static bool rmsprop_uses(const weir_optim *o, int part)
{
    return part == 0 || (part == 1 ? o->rmsprop.momentum != 0 : o->rmsprop.centered);
}

static weir_status rmsprop_step(const weir_optim *o, const weir_slot *s, weir_tensor *grad,
                                weir_tensor *lr)
{
    return weir_rmsprop_update(s->param, grad, s->state[0], s->state[1], s->state[2], lr,
                               &o->rmsprop);
}

static const weir_method sgd = {"sgd", {"momentum", "updates"}, false, 1, sgd_uses, sgd_step},
                    adam = {"adam", {"m", "v"}, true, 0, NULL, adam_step},
                    adamw = {"adamw", {"m", "v"}, true, 0, NULL, adamw_step},
                    adagrad = {"adagrad", {"square"}, false, 0, NULL, adagrad_step},
                    decaying = {"adagrad", {"square"}, true, 0, NULL, decaying_step},
                    rmsprop = {"rmsprop", {"square", "momentum", "mean"}, false, 0, rmsprop_uses,
                               rmsprop_step};

static weir_optim *optim_new(weir_device *d, double lr, const weir_method *m)
{
    if (!d)
        return (void)weir_fail_null(m->name, "device"), NULL;
    if (!isfinite(lr)) {
        weir_fail(WEIR_ERR_INVALID, "%s_new: the learning rate is %g but must be finite",
                                    m->name, lr);
        return NULL;
    }
    weir_optim *o = weir_host_alloc(sizeof *o);
    if (!o)
        return NULL;
    *o = (weir_optim){.dev = d, .rate = lr, .method = m};
    if (m->counts &&
        !(o->step = weir_optim_state_new(o, weir_scalar(WEIR_F64), m->name, "step", 0))) {
        weir_optim_free(o);
        return NULL;
    }
    return o;
}

#define OPTIM(id, options_type, field)                                                             \
    weir_optim *weir_##id##_new(weir_device *d, double lr, const options_type *options)            \
    {                                                                                              \
        weir_optim *o = optim_new(d, lr, &id);                                                     \
        if (o && options)                                                                          \
            o->field = *options;                                                                   \
        return o;                                                                                  \
    }

OPTIM(sgd, weir_sgd_options, sgd)
OPTIM(adam, weir_adam_options, adam)
OPTIM(adamw, weir_adam_options, adam)
OPTIM(rmsprop, weir_rmsprop_options, rmsprop)

weir_optim *weir_adagrad_new(weir_device *d, double lr, const weir_adagrad_options *options)
{
    const weir_adagrad_options a = options ? *options : (weir_adagrad_options){0};

    if (!(a.lr_decay >= 0 && a.lr_decay < HUGE_VAL && a.initial_accumulator >= 0 &&
          a.initial_accumulator < HUGE_VAL)) {
        weir_fail(WEIR_ERR_INVALID, "adagrad_new: lr_decay %g and initial_accumulator %g must be 0 "
                  "or more, and finite", a.lr_decay, a.initial_accumulator);
        return NULL;
    }
    weir_optim *o = optim_new(d, lr, a.lr_decay != 0 ? &decaying : &adagrad);
    if (o) {
        o->adagrad = a;
        o->first = a.initial_accumulator;
    }
    return o;
}

void weir_optim_free(weir_optim *o)
{
    if (!o)
        return;
    for (int i = 0; i < WEIR_RATES; i++)
        weir_release(o->lr[i]);
    for (size_t i = 0; i < o->states.n; i++)
        weir_release(o->states.at[i]);
    for (size_t i = 0; i < o->slots.n; i++) {
        weir_release(((weir_slot *)o->slots.at[i])->param);
        weir_host_free(o->slots.at[i]);
    }
    weir_list_free(&o->states);
    weir_list_free(&o->slots);
    weir_host_free(o->place);
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
        return weir_fail(WEIR_ERR_INVALID, "optim_set_lr: the rate is %g but must be finite", lr);
    o->rate = lr;
    for (int i = 0; i < WEIR_RATES; i++)
        if (o->lr[i])
            WEIR_TRY(rate_write(o->lr[i], lr));
    return WEIR_OK;
}

/* The rate as a tensor: f64 for parameters of f64, else f32. */
static weir_tensor *rate_of(weir_optim *o, weir_dtype dtype)
{
    weir_tensor **lr = &o->lr[dtype == WEIR_F64 ? WEIR_F64_RATE : WEIR_F32_RATE];
    if (*lr)
        return *lr;
    weir_tensor *t = weir_input(o->dev, weir_scalar(dtype == WEIR_F64 ? WEIR_F64 : WEIR_F32));
    if (t && rate_write(t, o->rate) != WEIR_OK) {
        weir_release(t);
        return NULL;
    }
    return *lr = t;
}

weir_tensor *weir_optim_lr(weir_optim *o, weir_dtype dtype)
{
    if (!o)
        return (void)weir_fail_null("optim_lr", "optimiser"), NULL;
    if (dtype != WEIR_F32 && dtype != WEIR_F64) {
        weir_fail(WEIR_ERR_DTYPE, "optim_lr: a rate is f32 or f64, not %s", weir_dtype_name(dtype));
        return NULL;
    }
    return rate_of(o, dtype);
}

/* ---- limits of the gradients ---- */

static weir_status limit_set(const weir_optim *o, const char *who, double limit, double *to)
{
    if (!o)
        return weir_fail_null(who, "optimiser");
    if (!(limit >= 0 && limit < HUGE_VAL))
        return weir_fail(WEIR_ERR_INVALID, "%s: the limit is %g but must be 0 (none) or more, and "
                         "finite", who, limit);
    *to = limit;
    return WEIR_OK;
}

weir_status weir_optim_set_clip_norm(weir_optim *o, double limit)
{
    return limit_set(o, "optim_set_clip_norm", limit, o ? &o->clip_norm : NULL);
}

weir_status weir_optim_set_clip_value(weir_optim *o, double limit)
{
    return limit_set(o, "optim_set_clip_value", limit, o ? &o->clip_value : NULL);
}

/* Clips the gradients of the pairs by value and by norm, as the options say. */
static weir_status limit_all(const weir_optim *o, weir_pair *pairs, size_t n)
{
    if (o->clip_value != 0)
        WEIR_TRY(weir_clip_value(pairs, n, o->clip_value, pairs));
    return o->clip_norm != 0 ? weir_clip_norm(pairs, n, o->clip_norm, pairs, NULL) : WEIR_OK;
}

/* ---- scaled losses ---- */

weir_status weir_optim_set_scaler(weir_optim *o, weir_scaler *s)
{
    if (!o)
        return weir_fail_null("optim_set_scaler", "optimiser");
    o->scaler = s;
    return WEIR_OK;
}

weir_status weir_optim_backward(const weir_optim *o, weir_tensor *loss, const weir_pair **pairs,
                                size_t *n)
{
    if (o->scaler && !(loss = weir_scaler_scale(o->scaler, loss)))
        return weir_error_status();
    return weir_backward(loss, pairs, n);
}

weir_status weir_optim_finish(weir_optim *o, weir_pair *pairs, size_t n)
{
    weir_tensor *finite = NULL;

    if (o->reduce)
        WEIR_TRY(o->reduce(o, pairs, n, pairs));
    if (o->model)
        WEIR_TRY(weir_statistics_apply(o->model->statistics, o->comm));
    if (o->scaler)
        WEIR_TRY(weir_scaler_unscale(o->scaler, pairs, n, pairs, &finite));
    WEIR_TRY(limit_all(o, pairs, n));
    WEIR_TRY(finite ? weir_optim_update_if(o, finite, pairs, n) : weir_optim_update(o, pairs, n));
    return finite ? weir_scaler_adjust(o->scaler, finite) : WEIR_OK;
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
        weir_fail(WEIR_ERR_INVALID, "optim_state: index %zu is out of range, there are %zu",
                                    i, o->states.n);
        return NULL;
    }
    return o->states.at[i];
}

static bool slot_fill(weir_optim *o, weir_slot *s)
{
    const weir_desc          desc = weir_tensor_desc(s->param);
    const weir_method *const m = o->method;

    for (int i = 0; i < WEIR_PARTS && m->part[i]; i++) {
        const weir_desc one = m->own && i == m->own ? weir_scalar(WEIR_F64) : desc;
        if ((!m->uses || m->uses(o, i)) &&
            !(s->state[i] = weir_optim_state_new(o, one, weir_tensor_name(s->param), m->part[i],
                                                 o->first)))
            return false;
    }
    return true;
}

/* The parameter's entry in the hash table, or the empty one for it; the table is never full. */
static size_t *place_of(const weir_optim *o, const weir_tensor *param)
{
    /* Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4). */
    size_t i = (size_t)(((uint64_t)(uintptr_t)param * 0x9e3779b97f4a7c15u) >> 32);

    while (o->place[i & (o->places - 1)] &&
           ((weir_slot *)o->slots.at[o->place[i & (o->places - 1)] - 1])->param != param)
        i++;
    return &o->place[i & (o->places - 1)];
}

/* Ensures capacity for one more slot; the table is never more than half full. */
static bool reserve_place(weir_optim *o)
{
    if (2 * (o->slots.n + 1) <= o->places)
        return true;
    const size_t  places = o->places ? 2 * o->places : 64;
    size_t *const place = weir_host_alloc(places * sizeof *place);
    if (!place)
        return false;
    memset(place, 0, places * sizeof *place);
    weir_host_free(o->place);
    o->place = place;
    o->places = places;
    for (size_t i = 0; i < o->slots.n; i++)
        *place_of(o, ((weir_slot *)o->slots.at[i])->param) = i + 1;
    return true;
}

static weir_slot *slot_new(weir_optim *o, weir_tensor *param)
{
    const size_t before = o->states.n;
    if (weir_list_reserve(&o->slots) != WEIR_OK || !reserve_place(o))
        return NULL;
    weir_slot *s = weir_host_alloc(sizeof *s);
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
    size_t *const place = place_of(o, param);
    o->slots.at[o->slots.n++] = s;
    *place = o->slots.n;
    return s;
}

weir_slot *weir_optim_find(const weir_optim *o, const weir_tensor *param)
{
    const size_t noted = o->places ? *place_of(o, param) : 0;

    return noted ? o->slots.at[noted - 1] : NULL;
}

weir_slot *weir_optim_slot(weir_optim *o, weir_tensor *param)
{
    weir_slot *const s = weir_optim_find(o, param);

    return s ? s : slot_new(o, param);
}

/* ---- a step ---- */

/* The rate if the condition holds, else NaN, with which updates change nothing. Kept in rate[] for
 * the other parameters of the type. */
static weir_tensor *rate_if(weir_optim *o, weir_tensor *condition, weir_dtype dtype,
                            weir_tensor *rate[WEIR_RATES])
{
    weir_tensor **const at = &rate[dtype == WEIR_F64 ? WEIR_F64_RATE : WEIR_F32_RATE];
    weir_tensor *const  lr = *at ? *at : rate_of(o, dtype);

    if (*at || !lr || !condition)
        return *at = lr;
    return *at = weir_where(condition, lr,
                            weir_fill(o->dev, weir_scalar(weir_tensor_desc(lr).dtype), NAN));
}

/* Increments the counter, if any, if the condition holds. */
static weir_status count(weir_tensor *counter, weir_tensor *condition)
{
    if (!counter)
        return WEIR_OK;
    return condition ? weir_accumulate(counter, weir_cast(condition, WEIR_F64))
                     : weir_increment(counter, 1);
}

/* One update for each of the pairs, if the condition (NULL: yes) holds when it runs. */
static weir_status update_all(weir_optim *o, weir_tensor *condition, const weir_pair *pairs,
                              size_t n)
{
    weir_tensor *rate[WEIR_RATES] = {NULL};

    for (size_t i = 0; i < n; i++)
        if (!pairs[i].param || !pairs[i].grad)
            return weir_poison(weir_fail_null("optim_update", "a tensor of pairs"));
    WEIR_TRY(count(o->step, condition));
    for (size_t i = 0; i < n; i++) {
        const weir_dtype type = weir_tensor_desc(pairs[i].param).dtype;
        const weir_slot      *s = weir_optim_slot(o, pairs[i].param);
        weir_tensor     *lr = s ? rate_if(o, condition, type, rate) : NULL;
        WEIR_TRY(lr ? WEIR_OK : weir_error_status());
        WEIR_TRY(count(o->method->own ? s->state[o->method->own] : NULL, condition));
        WEIR_TRY(o->method->update(o, s, pairs[i].grad, lr));
    }
    return WEIR_OK;
}

weir_status weir_optim_update(weir_optim *o, const weir_pair *pairs, size_t n)
{
    if (!o || !pairs)
        return weir_poison(weir_fail_null("optim_update", o ? "pairs" : "optimiser"));
    return update_all(o, NULL, pairs, n);
}

weir_status weir_optim_update_if(weir_optim *o, weir_tensor *condition, const weir_pair *pairs,
                                 size_t n)
{
    const char *const who = "optim_update_if";

    if (!o || !condition || !pairs)
        return weir_poison(weir_fail_null(who, !o          ? "optimiser"
                                               : condition ? "pairs"
                                                           : "condition"));
    const weir_desc d = weir_tensor_desc(condition);
    if (d.dtype != WEIR_BOOL || d.ndim != 0)
        return weir_fail(d.dtype == WEIR_BOOL ? WEIR_ERR_SHAPE : WEIR_ERR_DTYPE,
                         "%s: the condition must be a scalar bool, not a %s of %d axes", who,
                         weir_dtype_name(d.dtype), d.ndim);
    return update_all(o, condition, pairs, n);
}

static weir_status minimize(weir_optim *o, weir_tensor *loss)
{
    const weir_pair *pairs;
    size_t           n;

    WEIR_TRY(weir_optim_backward(o, loss, &pairs, &n));
    if (n == 0 || (o->clip_norm == 0 && o->clip_value == 0 && !o->scaler && !o->reduce))
        return weir_optim_update(o, pairs, n);
    weir_pair *const own = weir_host_alloc(n * sizeof *own);
    if (!own)
        return weir_error_status();
    memcpy(own, pairs, n * sizeof *own);
    const weir_status s = weir_optim_finish(o, own, n);
    weir_host_free(own);
    WEIR_TRY(s);
    WEIR_TRY(weir_optim_end_part(o, false));
    return weir_optim_end_part(o, true);
}

weir_status weir_optim_in_scope(weir_optim *o, weir_status (*fn)(weir_optim *, weir_tensor *),
                                weir_tensor *loss)
{
    WEIR_TRY(weir_scope_begin(o->dev));
    weir_status       s = fn(o, loss);
    const weir_status end = weir_scope_end(o->dev);
    s = s != WEIR_OK ? s : end;
    return s != WEIR_OK ? weir_poison(s) : WEIR_OK;
}

weir_status weir_minimize(weir_optim *o, weir_tensor *loss)
{
    if (!o || !loss)
        return weir_poison(weir_fail_null("minimize", o ? "loss" : "optimiser"));
    return weir_optim_in_scope(o, minimize, loss);
}
