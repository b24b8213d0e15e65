/* reference_train.c - the reference of statistics, softmax, losses of two inputs, norms of rows,
 * adaptive optimisers and learning rates.
 *
 * Sums are taken in long double, so that the reference's own rounding does not show. */
#include "graph/ops/reference.h"

#include <math.h>
#include <stdlib.h>

static int64_t elements(const ref_call *c, int i)
{
    return ref_count(&c->in[i].desc);
}

/* ---- reductions ---- */

void ref_amin(ref_call *c)
{
    c->out = ref_new(ref_reduced_desc(c));
    for (int64_t i = 0; i < ref_count(&c->out.desc); i++)
        c->out.at[i] = HUGE_VAL;
    for (int64_t i = 0; i < elements(c, 0); i++) {
        double *const at = &c->out.at[ref_reduced_place(c, i)];
        *at = ref_smaller(*at, c->in[0].at[i]);
    }
}

void ref_prod(ref_call *c)
{
    c->out = ref_new(ref_counted_desc(c));
    const int64_t      n = ref_count(&c->out.desc);
    long double *const product = calloc((size_t)n + 1, sizeof *product);
    for (int64_t i = 0; i < n; i++)
        product[i] = 1;
    for (int64_t i = 0; i < elements(c, 0); i++)
        product[ref_reduced_place(c, i)] *= (long double)c->in[0].at[i];
    for (int64_t i = 0; i < n; i++)
        c->out.at[i] = (double)product[i];
    free(product);
}

/* The call as a reduction over its one axis. */
static ref_call along(const ref_call *c, ref_options *o)
{
    ref_call one = *c;
    *o = *c->o;
    o->dims = 1u << (o->axis < 0 ? o->axis + c->in[0].desc.ndim : o->axis);
    one.o = o;
    return one;
}

/* sign 1: the largest, -1: the smallest; the first NaN is either. */
static void ref_arg(ref_call *c, double sign)
{
    ref_options    o;
    const ref_call one = along(c, &o);
    weir_desc      d = ref_reduced_desc(&one);
    const int      axis = o.axis < 0 ? o.axis + c->in[0].desc.ndim : o.axis;

    d.dtype = WEIR_I64;
    c->out = ref_new(d);
    double *const best = calloc((size_t)ref_count(&d) + 1, sizeof *best);
    for (int64_t i = 0; i < elements(c, 0); i++) {
        const int64_t to = ref_reduced_place(&one, i);
        const double  v = sign * c->in[0].at[i];
        int64_t       index[WEIR_MAX_DIMS] = {0};
        ref_unravel(&c->in[0].desc, i, index);
        if (index[axis] == 0 || v > best[to] || (isnan(v) && !isnan(best[to]))) {
            best[to] = v;
            c->out.at[to] = (double)index[axis];
        }
    }
    free(best);
}

void ref_argmax(ref_call *c)
{
    ref_arg(c, 1);
}

void ref_argmin(ref_call *c)
{
    ref_arg(c, -1);
}

void ref_var(ref_call *c)
{
    ref_mean(c);
    const int64_t      n = ref_count(&c->out.desc);
    const double       count = n > 0 ? (double)elements(c, 0) / (double)n : 0;
    long double *const sum = calloc((size_t)n + 1, sizeof *sum);
    for (int64_t i = 0; i < elements(c, 0); i++) {
        const int64_t     to = ref_reduced_place(c, i);
        const long double d = (long double)c->in[0].at[i] - (long double)c->out.at[to];
        sum[to] += d * d;
    }
    for (int64_t i = 0; i < n; i++)
        c->out.at[i] = (double)(sum[i] / (long double)(count - c->o->which));
    free(sum);
}

void ref_norm(ref_call *c)
{
    c->out = ref_new(ref_reduced_desc(c));
    const int64_t      n = ref_count(&c->out.desc);
    long double *const sum = calloc((size_t)n + 1, sizeof *sum);
    for (int64_t i = 0; i < elements(c, 0); i++) {
        const long double x = (long double)c->in[0].at[i];
        sum[ref_reduced_place(c, i)] += c->o->which == 1 ? fabsl(x) : x * x;
    }
    for (int64_t i = 0; i < n; i++)
        c->out.at[i] = (double)(c->o->which == 1 ? sum[i] : sqrtl(sum[i]));
    free(sum);
}

/* ---- softmax ---- */

/* exp(x - top) / sum of such, or the log of that. */
static void softmax(ref_call *c, bool log_of)
{
    ref_options o;
    ref_call    one = along(c, &o);

    ref_amax(&one);
    const ref_array top = one.out;
    double *const   sum = calloc((size_t)ref_count(&top.desc) + 1, sizeof *sum);
    for (int64_t i = 0; i < elements(c, 0); i++) {
        const int64_t at = ref_reduced_place(&one, i);
        sum[at] += exp(c->in[0].at[i] - top.at[at]);
    }
    ref_same(c);
    for (int64_t i = 0; i < elements(c, 0); i++) {
        const int64_t at = ref_reduced_place(&one, i);
        const double  x = c->out.at[i] - top.at[at];
        c->out.at[i] = log_of ? x - log(sum[at]) : exp(x) / sum[at];
    }
    free(sum);
    ref_free(&one.out);
}

void ref_softmax(ref_call *c)
{
    softmax(c, false);
}

void ref_log_softmax(ref_call *c)
{
    softmax(c, true);
}

/* ---- losses of two inputs of one shape ---- */

typedef double (*loss_fn)(double a, double b, const ref_options *o);

static void mean_of(ref_call *c, loss_fn f)
{
    long double sum = 0;
    for (int64_t i = 0; i < elements(c, 0); i++)
        sum += (long double)f(c->in[0].at[i], c->in[1].at[i], c->o);
    c->out = ref_new(weir_scalar(c->type));
    c->out.at[0] = (double)(sum / (long double)elements(c, 0));
}

#define LOSS(id, expr)                                                                             \
    static double id##_of(double a, double b, const ref_options *o)                                \
    {                                                                                              \
        (void)o;                                                                                   \
        return expr;                                                                               \
    }                                                                                              \
    void ref_##id(ref_call *c)                                                                     \
    {                                                                                              \
        mean_of(c, id##_of);                                                                       \
    }

LOSS(mse_loss, (a - b) * (a - b))
LOSS(bce_logits_loss, b * log1p(exp(-a)) + (1 - b) * log1p(exp(a)))
LOSS(bce_loss, -(b * ref_larger(log(a), -100) + (1 - b) * ref_larger(log1p(-a), -100)))
LOSS(ranking_loss, ref_larger(o->s - (a - b), 0))

void ref_cosine_similarity(ref_call *c)
{
    weir_desc     d = c->in[0].desc;
    const int64_t n = d.dim[d.ndim - 1];
    const double  eps = c->o->s != 0 ? c->o->s : 1e-8;

    d.ndim--;
    d.dtype = c->type;
    c->out = ref_new(d);
    for (int64_t i = 0; i < ref_count(&d); i++) {
        double ab = 0, aa = 0, bb = 0;
        for (int64_t k = i * n; k < (i + 1) * n; k++) {
            ab += c->in[0].at[k] * c->in[1].at[k];
            aa += c->in[0].at[k] * c->in[0].at[k];
            bb += c->in[1].at[k] * c->in[1].at[k];
        }
        c->out.at[i] = ab / (fmax(sqrt(aa), eps) * fmax(sqrt(bb), eps));
    }
}

/* ---- norms of rows ---- */

/* n consecutive elements: less their mean (if centred), over their deviation. */
static void normalise(double *x, int64_t n, double eps, bool centred)
{
    long double sum = 0, square = 0;
    for (int64_t i = 0; i < n && centred; i++)
        sum += (long double)x[i];
    const double mean = n > 0 ? (double)(sum / (long double)n) : 0;
    for (int64_t i = 0; i < n; i++) {
        const long double off = (long double)x[i] - (long double)mean;
        square += off * off;
    }
    for (int64_t i = 0; i < n; i++)
        x[i] = (x[i] - mean) / sqrt((double)(square / (long double)n) + eps);
}

static void rows(ref_call *c, bool centred)
{
    const double  eps = c->o->s != 0 ? c->o->s : 1e-5;
    const int64_t n = elements(c, 1);

    ref_same(c);
    for (int64_t i = 0; i < elements(c, 0); i += n)
        normalise(c->out.at + i, n, eps, centred);
    for (int64_t i = 0; i < elements(c, 0); i++)
        c->out.at[i] = c->out.at[i] * c->in[1].at[i % n] + (centred ? c->in[2].at[i % n] : 0);
}

void ref_layer_norm(ref_call *c)
{
    rows(c, true);
}

void ref_rms_norm(ref_call *c)
{
    rows(c, false);
}

/* Row-major, the channels of a group and their pixels are one row. */
void ref_group_norm(ref_call *c)
{
    const weir_desc *const d = &c->in[0].desc;
    const double           eps = c->o->s != 0 ? c->o->s : 1e-5;
    const int64_t          plane = d->ndim == 4 ? d->dim[2] * d->dim[3] : 1;
    const int64_t          n = d->dim[1] / c->o->groups * plane;

    ref_same(c);
    for (int64_t i = 0; i < elements(c, 0); i += n)
        normalise(c->out.at + i, n, eps, true);
    for (int64_t i = 0; i < elements(c, 0); i++) {
        const int64_t channel = i / plane % d->dim[1];
        c->out.at[i] = c->out.at[i] * c->in[1].at[channel] + c->in[2].at[channel];
    }
}

/* ---- updates ---- */

/* Decoupled decay first, then Adam without. */
void ref_adamw_update(ref_call *c)
{
    const bool   numbers = ref_count(&c->in[5].desc) > 1;
    const double decay = ref_number(c, 5, 3, c->o->adam.weight_decay);
    ref_options  o = *c->o;
    ref_call     adam = *c;

    for (int64_t i = 0; i < elements(c, 0); i++)
        c->in[0].at[i] *= 1 - c->in[5].at[0] * decay;
    o.adam.weight_decay = 0;
    adam.o = &o;
    if (numbers)
        c->in[5].at[4] = 0;
    ref_adam_update(&adam);
    if (numbers)
        c->in[5].at[4] = decay;
    c->out = adam.out;
}

/* param, grad, lr, square. */
void ref_adagrad_update(ref_call *c)
{
    const weir_adagrad_options *const o = &c->o->adagrad;
    const double eps = ref_number(c, 2, 0, o->eps != 0 ? o->eps : 1e-10),
                 decay = ref_number(c, 2, 1, o->weight_decay);

    for (int64_t i = 0; i < elements(c, 0); i++) {
        double *const p = &c->in[0].at[i], *const s = &c->in[3].at[i];
        const double  g = c->in[1].at[i] + decay * *p;
        *s += g * g;
        *p -= c->in[2].at[0] * g / (o->eps_inside ? sqrt(*s + eps) : sqrt(*s) + eps);
    }
    ref_same(c);
}

/* param, grad, lr, square, buffer, mean: the last two as the options ask. */
void ref_rmsprop_update(ref_call *c)
{
    const weir_rmsprop_options *const o = &c->o->rmsprop;
    const double alpha = ref_number(c, 2, 0, o->alpha != 0 ? o->alpha : 0.99),
                 eps = ref_number(c, 2, 1, o->eps != 0 ? o->eps : 1e-8),
                 decay = ref_number(c, 2, 2, o->weight_decay),
                 momentum = ref_number(c, 2, 3, o->momentum);

    for (int64_t i = 0; i < elements(c, 0); i++) {
        double *const p = &c->in[0].at[i], *const s = &c->in[3].at[i];
        const double  g = c->in[1].at[i] + decay * *p;
        double        square = *s = alpha * *s + (1 - alpha) * g * g;
        if (o->centered) {
            double *const m = &c->in[o->momentum != 0 ? 5 : 4].at[i];
            *m = alpha * *m + (1 - alpha) * g;
            square -= *m * *m;
        }
        double step = g / (o->eps_inside ? sqrt(square + eps) : sqrt(square) + eps);
        if (o->momentum != 0)
            step = c->in[4].at[i] = momentum * c->in[4].at[i] + step;
        *p -= c->in[2].at[0] * step;
    }
    ref_same(c);
}

/* lr, step; s, t: the first rate, and what it becomes or is multiplied with; groups: the period. */
void ref_lr_schedule(ref_call *c)
{
    const ref_options *const o = c->o;
    const double             n = ++c->in[1].at[0], period = (double)o->groups;
    const double             half = acos(-1.0) * fmin(n / period, 1);

    c->in[0].at[0] = o->which == 0   ? o->s * pow(o->t, floor(n / period))
                     : o->which == 1 ? o->s * pow(o->t, n)
                                     : o->t + (o->s - o->t) * (1 + cos(half)) / 2;
    ref_same(c);
}
