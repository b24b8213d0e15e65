/* scaler.c - the scale of a loss whose gradients are f16: fixed, or found while training.
 *
 * As in PyTorch's GradScaler (Micikevicius et al., "Mixed precision training", 2018): it grows
 * after `interval` steps in a row without an infinity, and shrinks at each infinity, whose step is
 * skipped. All of it is device state and recorded calls: the host never looks. */
#include "model/model.h"

#include <math.h>

enum { SCALE, GOOD, SKIPPED, STATES };

static const double least = 0x1p-100, most = 0x1p100;

struct weir_scaler {
    weir_scaler_options options;
    weir_tensor        *state[STATES];      /* f32 scale, f32 and f64 counts; owned */
};

static weir_status check(const weir_scaler_options *o)
{
    enum { LONGEST = 1 << 24 };             /* f32 counts so far */

    if (!(o->scale >= least && o->scale <= most))
        return weir_fail(WEIR_ERR_INVALID, "scaler_new: the scale is %g, must be above 0 and below "
                         "%g", o->scale, most);
    if (!(o->growth >= 1 && o->growth <= most && o->backoff > 0 && o->backoff < 1))
        return weir_fail(WEIR_ERR_INVALID, "scaler_new: growth %g must be 1 or more, backoff %g "
                         "above 0 and below 1", o->growth, o->backoff);
    if (o->interval < 1 || o->interval > LONGEST)
        return weir_fail(WEIR_ERR_INVALID, "scaler_new: an interval of %lld steps, must be 1 to %d",
                         (long long)o->interval, LONGEST);
    return WEIR_OK;
}

weir_scaler *weir_scaler_new(weir_device *d, const weir_scaler_options *options)
{
    static const char *const name[STATES] = {"scaler.scale", "scaler.good", "scaler.skipped"};
    weir_scaler_options      o = options ? *options : (weir_scaler_options){0};

    if (!d)
        return (void)weir_fail_null("scaler_new", "device"), NULL;
    o.scale = o.scale != 0 ? o.scale : 65536;
    o.growth = o.growth != 0 ? o.growth : 2;
    o.backoff = o.backoff != 0 ? o.backoff : 0.5;
    o.interval = o.interval != 0 ? o.interval : 2000;
    if (check(&o) != WEIR_OK)
        return NULL;
    weir_scaler *const s = weir_host_alloc(sizeof *s);
    if (!s)
        return NULL;
    *s = (weir_scaler){.options = o};
    for (int i = 0; i < STATES; i++) {
        s->state[i] = weir_state(d, weir_scalar(i == SKIPPED ? WEIR_F64 : WEIR_F32), name[i]);
        if (!s->state[i] || weir_write_fill(s->state[i], i == SCALE ? o.scale : 0) != WEIR_OK) {
            weir_scaler_free(s);
            return NULL;
        }
    }
    return s;
}

void weir_scaler_free(weir_scaler *s)
{
    if (!s)
        return;
    for (int i = 0; i < STATES; i++)
        weir_release(s->state[i]);
    weir_host_free(s);
}

size_t weir_scaler_state_count(const weir_scaler *s)
{
    return s ? STATES : 0;
}

weir_tensor *weir_scaler_state(const weir_scaler *s, size_t i)
{
    if (!s)
        return (void)weir_fail_null("scaler_state", "scaler"), NULL;
    if (i >= STATES) {
        weir_fail(WEIR_ERR_INVALID, "scaler_state: index %zu, but there are %d", i, STATES);
        return NULL;
    }
    return s->state[i];
}

weir_tensor *weir_scaler_scale(const weir_scaler *s, weir_tensor *loss)
{
    if (!s || !loss)
        return (void)weir_fail_null("scaler_scale", s ? "loss" : "scaler"), NULL;
    return weir_mul(loss, s->state[SCALE]);
}

weir_status weir_scaler_unscale(const weir_scaler *s, const weir_pair *pairs, size_t n,
                                weir_pair *unscaled, weir_tensor **finite)
{
    if (!s)
        return weir_fail_null("scaler_unscale", "scaler");
    return weir_unscale(pairs, n, s->state[SCALE], unscaled, finite);
}

static weir_tensor *constant(const weir_scaler *s, double value)
{
    return weir_fill(weir_tensor_device(s->state[SCALE]), weir_scalar(WEIR_F32), value);
}

/* Scale and count of good steps after one that was finite or not. */
static weir_status find_scale(const weir_scaler *s, weir_tensor *finite)
{
    const weir_scaler_options *const o = &s->options;
    weir_tensor *const good = weir_mul(weir_affine(s->state[GOOD], 1, 1),
                                       weir_cast(finite, WEIR_F32));
    weir_tensor *const grows = weir_ge(good, constant(s, (double)o->interval));
    weir_tensor *const up = weir_where(grows, constant(s, o->growth), constant(s, 1));
    weir_tensor *const by = weir_where(finite, up, constant(s, o->backoff));
    weir_tensor *const scale = weir_clamp(weir_mul(s->state[SCALE], by), least, most);
    weir_tensor *const left = weir_where(grows, constant(s, 0), good);

    WEIR_TRY(weir_assign(s->state[GOOD], left));
    return weir_assign(s->state[SCALE], scale);
}

weir_status weir_scaler_adjust(weir_scaler *s, weir_tensor *finite)
{
    if (!s || !finite)
        return weir_fail_null("scaler_adjust", s ? "finite" : "scaler");
    if (!s->options.fixed)
        WEIR_TRY(find_scale(s, finite));
    return weir_accumulate(s->state[SKIPPED], weir_cast(weir_logical_not(finite), WEIR_F64));
}
