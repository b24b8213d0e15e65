/* clip.c - clips gradients by value and by global norm (Pascanu, Mikolov, Bengio, ICML 2013), and
 * unscales gradients of a scaled loss (Micikevicius et al., "Mixed precision training", ICLR 2018).
 *
 * The functions record operations in the backward phase, without a tape: they are not
 * differentiable. Norm and factor are computed in f64 for every type of gradient. */
#include <math.h>

#include "core/dtype.h"
#include "core/status.h"
#include "core/tensor.h"
#include "graph/ir/session.h"
#include "weir/graph.h"
#include "weir/op.h"

/* State restored by leave; calls between enter and leave belong to the backward phase. */
typedef struct weir_clip {
    weir_session *s;
    weir_phase    phase;
    weir_visit    visit;
} weir_clip;

static weir_status check_pairs(const char *who, const weir_pair *pairs, size_t n,
                               const weir_pair *made, const char *name)
{
    if (n > 0 && (!pairs || !made))
        return weir_poison(weir_fail_null(who, pairs ? name : "pairs"));
    for (size_t i = 0; i < n; i++) {
        if (!pairs[i].grad)
            return weir_poison(weir_fail_null(who, "a gradient of pairs"));
        if (pairs[i].grad->dev != pairs[0].grad->dev)
            return weir_fail(WEIR_ERR_DEVICE, "%s: gradients 0 and %zu are on different devices",
                             who, i);
    }
    return WEIR_OK;
}

static weir_status check(const char *who, const weir_pair *pairs, size_t n, double limit,
                         const weir_pair *clipped)
{
    if (!(limit > 0) || isinf(limit))
        return weir_fail(WEIR_ERR_INVALID, "%s: the limit is %g but must be above 0 and finite",
                                           who,
                         limit);
    return check_pairs(who, pairs, n, clipped, "clipped");
}

static weir_status enter(weir_clip *c, const char *who, weir_device *d)
{
    WEIR_TRY(weir_device_enter(&c->visit, d, who));
    c->s = weir_session_of(d);
    if (!c->s) {
        weir_device_leave(&c->visit);
        return WEIR_ERR_NOMEM;
    }
    c->phase = c->s->phase;
    c->s->phase = WEIR_BACKWARD;
    c->s->no_grad++;
    return WEIR_OK;
}

static weir_status leave(weir_clip *c, weir_status status)
{
    c->s->phase = c->phase;
    c->s->no_grad--;
    weir_device_leave(&c->visit);
    return status != WEIR_OK ? weir_poison(status) : WEIR_OK;
}

/* Sets *clipped to `pair` with its gradient replaced by `grad`. */
static weir_status set(weir_pair *clipped, const weir_pair *pair, weir_tensor *grad)
{
    if (!grad)
        return weir_error_status();
    *clipped = (weir_pair){pair->param, grad};
    return WEIR_OK;
}

static weir_tensor *scalar(const weir_tensor *like, double value)
{
    return weir_fill(like->dev, weir_scalar(like->layout.desc.dtype), value);
}

/* Applies fn to a gradient in a scope of its own, so that with the graph off intermediate results
 * are freed at once. */
static weir_tensor *alone(weir_tensor *(*fn)(weir_tensor *g, double limit), weir_tensor *g,
                          double limit)
{
    weir_device *const d = g->dev;

    if (weir_scope_begin(d) != WEIR_OK)
        return NULL;
    weir_tensor *const made = weir_escape(fn(g, limit));
    return weir_scope_end(d) == WEIR_OK ? made : NULL;
}

/* Clamps g to [-limit, limit]. The gradient is the second operand of min and max, because they
 * propagate a NaN of the second. */
static weir_tensor *limited(weir_tensor *g, double limit)
{
    return weir_min(scalar(g, limit), weir_max(scalar(g, -limit), g));
}

/* The sum of squares of g; halves are cast to f32, since their squares would overflow or
 * underflow. */
static weir_tensor *squares(weir_tensor *g, double limit)
{
    (void)limit;
    if (weir_is_half(g->layout.desc.dtype))
        g = weir_cast(g, WEIR_F32);
    return weir_cast(weir_sum(weir_square(g), 0, false), WEIR_F64);
}

static weir_status clip_value(const weir_pair *pairs, size_t n, double limit, weir_pair *clipped)
{
    for (size_t i = 0; i < n; i++)
        WEIR_TRY(set(&clipped[i], &pairs[i], alone(limited, pairs[i].grad, limit)));
    return WEIR_OK;
}

weir_status weir_clip_value(const weir_pair *pairs, size_t n, double limit, weir_pair *clipped)
{
    weir_clip c = {0};

    WEIR_TRY(check("weir_clip_value", pairs, n, limit, clipped));
    if (n == 0)
        return WEIR_OK;
    WEIR_TRY(enter(&c, "weir_clip_value", pairs[0].grad->dev));
    return leave(&c, clip_value(pairs, n, limit, clipped));
}

/* The global norm: the root of the sum of all squares; NULL after a failure. */
static weir_tensor *norm_of(const weir_pair *pairs, size_t n)
{
    weir_tensor *total = NULL;

    for (size_t i = 0; i < n; i++) {
        weir_tensor *const part = alone(squares, pairs[i].grad, 0);
        total = i == 0 ? part : weir_add(total, part);
    }
    return weir_sqrt(total);
}

static weir_status clip_norm(const weir_pair *pairs, size_t n, double limit, weir_pair *clipped,
                             weir_tensor **norm)
{
    weir_tensor *const whole = norm_of(pairs, n);
    if (!whole)
        return weir_error_status();
    weir_tensor *const ratio = weir_div(scalar(whole, limit), weir_affine(whole, 1, 1e-6));
    weir_tensor *const factor = weir_min(scalar(whole, 1), ratio);      /* propagates NaN */

    for (size_t i = 0; i < n; i++) {
        weir_tensor *const g = pairs[i].grad;
        weir_tensor *const by = weir_cast(factor, g->layout.desc.dtype);
        WEIR_TRY(set(&clipped[i], &pairs[i], weir_mul(g, by)));
    }
    if (norm)
        *norm = whole;
    return WEIR_OK;
}

weir_status weir_clip_norm(const weir_pair *pairs, size_t n, double limit, weir_pair *clipped,
                           weir_tensor **norm)
{
    weir_clip c = {0};

    if (norm)
        *norm = NULL;
    WEIR_TRY(check("weir_clip_norm", pairs, n, limit, clipped));
    if (n == 0)
        return WEIR_OK;
    WEIR_TRY(enter(&c, "weir_clip_norm", pairs[0].grad->dev));
    return leave(&c, clip_norm(pairs, n, limit, clipped, norm));
}

/* ---- scaled losses ---- */

static const double most = 0x1p100;         /* a scale lies between 1 / most and most */

/* 0, or NaN if an element of g is not finite. */
static weir_tensor *vanished(weir_tensor *g, double limit)
{
    (void)limit;
    if (weir_is_half(g->layout.desc.dtype))
        g = weir_cast(g, WEIR_F32);
    return weir_cast(weir_affine(weir_sum(g, 0, false), 0, 0), WEIR_F32);
}

static weir_status unscale(const weir_pair *pairs, size_t n, weir_tensor *scale,
                           weir_pair *unscaled, weir_tensor **finite)
{
    weir_tensor *const by = weir_reciprocal(scale);
    weir_tensor       *total = weir_affine(scale, 0, 0);

    for (size_t i = 0; i < n; i++) {
        weir_tensor *const g = pairs[i].grad;
        weir_tensor *const by_own = by ? weir_cast(by, g->layout.desc.dtype) : NULL;
        total = weir_add(total, alone(vanished, g, 0));
        WEIR_TRY(set(&unscaled[i], &pairs[i], weir_mul(g, by_own)));
    }
    *finite = weir_eq(total, total);
    return *finite ? WEIR_OK : weir_error_status();
}

weir_status weir_unscale(const weir_pair *pairs, size_t n, weir_tensor *scale, weir_pair *unscaled,
                         weir_tensor **finite)
{
    const char *const who = "weir_unscale";
    char              text[WEIR_DESC_TEXT];
    weir_clip         c = {0};

    if (!scale || !finite)
        return weir_poison(weir_fail_null(who, scale ? "finite" : "scale"));
    *finite = NULL;
    WEIR_TRY(check_pairs(who, pairs, n, unscaled, "unscaled"));
    if (scale->layout.desc.dtype != WEIR_F32 || weir_shape_count(&scale->layout.desc) != 1)
        return weir_fail(WEIR_ERR_SHAPE, "%s: the scale must be one f32, not %s", who,
                         weir_desc_text(&scale->layout.desc, text));
    if (n > 0 && pairs[0].grad->dev != scale->dev)
        return weir_fail(WEIR_ERR_DEVICE, "%s: gradients and scale are on different devices", who);
    WEIR_TRY(enter(&c, who, scale->dev));
    return leave(&c, unscale(pairs, n, scale, unscaled, finite));
}

static weir_status adjust(weir_tensor *scale, weir_tensor *good, weir_tensor *finite,
                          double growth, double backoff, double interval)
{
    weir_tensor *const now = weir_mul(weir_affine(good, 1, 1), weir_cast(finite, WEIR_F32));
    weir_tensor *const grows = weir_ge(now, scalar(scale, interval));
    weir_tensor *const up = weir_where(grows, scalar(scale, growth), scalar(scale, 1));
    weir_tensor *const by = weir_where(finite, up, scalar(scale, backoff));
    weir_tensor *const next = weir_clamp(weir_mul(scale, by), 1 / most, most);
    weir_tensor *const left = weir_where(grows, scalar(scale, 0), now);

    WEIR_TRY(weir_assign(good, left));
    return weir_assign(scale, next);
}

weir_status weir_scale_adjust(weir_tensor *scale, weir_tensor *good, weir_tensor *finite,
                              double growth, double backoff, int64_t interval)
{
    const char *const who = "weir_scale_adjust";
    weir_clip         c = {0};

    if (!scale || !good || !finite)
        return weir_poison(weir_fail_null(who, !scale ? "scale" : good ? "finite" : "good"));
    if (!(growth >= 1 && growth <= most && backoff > 0 && backoff < 1) || interval < 1 ||
        interval > 1 << 24)         /* f32 counts so far */
        return weir_fail(WEIR_ERR_INVALID, "%s: growth %g must be 1 or more, backoff %g between 0 "
                         "and 1, interval %lld 1 to 2^24", who, growth, backoff,
                         (long long)interval);
    if (finite->layout.desc.dtype != WEIR_BOOL)
        return weir_fail(WEIR_ERR_DTYPE, "%s: finite is %s but must be bool", who,
                         weir_dtype_name(finite->layout.desc.dtype));
    WEIR_TRY(enter(&c, who, scale->dev));
    return leave(&c, adjust(scale, good, finite, growth, backoff, (double)interval));
}
