/* scaler.c - loss scaling for f16 gradients, with a fixed or a dynamic scale.
 *
 * As in PyTorch's GradScaler (Micikevicius et al., "Mixed precision training", 2018): the scale
 * grows after `interval` steps without an infinity or NaN, and shrinks after each step with one,
 * which is skipped. State and decisions stay on the device; the host reads nothing. */
#include "model/model.h"

enum { SCALE, GOOD, SKIPPED, STATES };

struct weir_scaler {
    weir_scaler_options options;
    weir_tensor        *state[STATES];      /* f32 scale, f32 and f64 counts; owned */
};

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
    if (!(o.scale > 0 && o.scale <= 0x1p100 && o.growth >= 1 && o.growth <= 0x1p100 &&
          o.backoff > 0 && o.backoff < 1 && o.interval >= 1 && o.interval <= 1 << 24)) {
        weir_fail(WEIR_ERR_INVALID, "scaler_new: scale %g must be above 0, growth %g 1 or more, "
                  "backoff %g between 0 and 1, interval %lld 1 to 2^24", o.scale, o.growth,
                  o.backoff, (long long)o.interval);
        return NULL;
    }
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
        weir_fail(WEIR_ERR_INVALID, "scaler_state: index %zu is out of range, there are %d",
                                    i, STATES);
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
        return weir_poison(weir_fail_null("scaler_unscale", "scaler"));
    return weir_unscale(pairs, n, s->state[SCALE], unscaled, finite);
}

weir_status weir_scaler_adjust(weir_scaler *s, weir_tensor *finite)
{
    if (!s || !finite)
        return weir_poison(weir_fail_null("scaler_adjust", s ? "finite" : "scaler"));
    const weir_scaler_options *const o = &s->options;
    if (!o->fixed)
        WEIR_TRY(weir_scale_adjust(s->state[SCALE], s->state[GOOD], finite, o->growth, o->backoff,
                                   o->interval));
    return weir_accumulate(s->state[SKIPPED], weir_cast(weir_logical_not(finite), WEIR_F64));
}
