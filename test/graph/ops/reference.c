/* reference.c - the reference of element-wise operations, reductions, moves, losses and updates.
 *
 * Sums are taken in long double, so that the reference's own rounding does not show. */
#include "graph/ops/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"

/* ---- arrays ---- */

int64_t ref_count(const weir_desc *d)
{
    int64_t n = 1;
    for (int i = 0; i < d->ndim; i++)
        n *= d->dim[i];
    return n;
}

ref_array ref_new(weir_desc d)
{
    return (ref_array){d, calloc((size_t)ref_count(&d) + 1, sizeof(double))};
}

void ref_free(ref_array *a)
{
    free(a->at);
    a->at = NULL;
}

void ref_unravel(const weir_desc *d, int64_t i, int64_t *index)
{
    for (int k = d->ndim; k-- > 0; i /= d->dim[k])
        index[k] = i % d->dim[k];
}

int64_t ref_ravel(const weir_desc *d, const int64_t *index)
{
    int64_t i = 0;
    for (int k = 0; k < d->ndim; k++)
        i = i * d->dim[k] + index[k];
    return i;
}

/* The element of `a` that broadcasting puts at `index` of a result with ndim axes. */
static double broadcast_at(const ref_array *a, const int64_t *index, int ndim)
{
    int64_t own[WEIR_MAX_DIMS] = {0};
    for (int k = 0; k < a->desc.ndim; k++)
        own[k] = a->desc.dim[k] == 1 ? 0 : index[k + ndim - a->desc.ndim];
    return a->at[ref_ravel(&a->desc, own)];
}

/* ---- element-wise ---- */

/* NumPy: aligned at the last axis, an axis of size 1 repeats. */
static weir_desc broadcast_desc(const ref_call *c)
{
    weir_desc d = {.dtype = c->type};
    for (int i = 0; i < c->nin; i++)
        if (c->in[i].desc.ndim > d.ndim)
            d.ndim = c->in[i].desc.ndim;
    for (int k = 0; k < d.ndim; k++)
        d.dim[k] = 1;
    for (int i = 0; i < c->nin; i++) {
        const weir_desc *const own = &c->in[i].desc;
        for (int k = 0; k < own->ndim; k++)
            if (own->dim[k] != 1)
                d.dim[k + d.ndim - own->ndim] = own->dim[k];
    }
    return d;
}

void ref_each(ref_call *c, ref_scalar f)
{
    c->out = ref_new(broadcast_desc(c));
    for (int64_t i = 0; i < ref_count(&c->out.desc); i++) {
        int64_t index[WEIR_MAX_DIMS] = {0};
        double  v[3] = {0, 0, 0};
        ref_unravel(&c->out.desc, i, index);
        for (int k = 0; k < c->nin; k++)
            v[k] = broadcast_at(&c->in[k], index, c->out.desc.ndim);
        c->out.at[i] = f(v, c->o);
    }
}

REF_EACH(relu, ref_larger(a, 0))
REF_EACH(sigmoid, 1 / (1 + exp(-a)))
REF_EACH(tanh, tanh(a))
REF_EACH(exp, exp(a))
REF_EACH(log, log(a))
REF_EACH(sqrt, sqrt(a))
REF_EACH(rsqrt, 1 / sqrt(a))
REF_EACH(abs, fabs(a))
REF_EACH(neg, -a)
REF_EACH(square, a * a)
REF_EACH(affine, o->s * a + o->t)
/* Of integers: in f32. */
void ref_div_whole(ref_call *c)
{
    ref_div(c);
    c->out.desc.dtype = WEIR_F32;
}

REF_EACH(add, a + b)
REF_EACH(sub, a - b)
REF_EACH(mul, a * b)
REF_EACH(div, a / b)
REF_EACH(div_trunc, trunc(a / b))
/* Bits of whole numbers that an int64 holds. */
REF_EACH(bitwise_and, (double)((int64_t)a & (int64_t)b))
REF_EACH(bitwise_or, (double)((int64_t)a | (int64_t)b))
REF_EACH(bitwise_xor, (double)((int64_t)a ^ (int64_t)b))
REF_EACH(shift_left, a * exp2(b))
REF_EACH(shift_right, floor(a / exp2(b)))
REF_EACH(remainder, fmod(a, b) != 0 && (a < 0) != (b < 0) ? fmod(a, b) + b : fmod(a, b))
/* The quotient whose remainder has the sign of b: of an infinite b it is 0 or -1. */
static double floored(double a, double b)
{
    const double r = fmod(a, b), q = (a - r) / b;

    return b == 0 ? a / b : r != 0 && (r < 0) != (b < 0) ? rint(q) - 1 : rint(q);
}

REF_EACH(div_floor, floored(a, b))
REF_EACH(max, ref_larger(a, b))
REF_EACH(min, ref_smaller(a, b))

/* ---- reductions ---- */

static bool reduces(const ref_options *o, int axis)
{
    return o->dims == 0 || (o->dims >> axis & 1) != 0;
}

weir_desc ref_reduced_desc(const ref_call *c)
{
    const weir_desc *const d = &c->in[0].desc;
    weir_desc              out = {.dtype = c->type};
    for (int k = 0; k < d->ndim; k++)
        if (!reduces(c->o, k))
            out.dim[out.ndim++] = d->dim[k];
        else if (c->o->keep)
            out.dim[out.ndim++] = 1;
    return out;
}

weir_desc ref_counted_desc(const ref_call *c)
{
    weir_desc d = ref_reduced_desc(c);
    if (!weir_is_any_float(d.dtype))
        d.dtype = WEIR_I64;
    return d;
}

int64_t ref_reduced_place(const ref_call *c, int64_t i)
{
    int64_t index[WEIR_MAX_DIMS] = {0}, place = 0;
    ref_unravel(&c->in[0].desc, i, index);
    for (int k = 0; k < c->in[0].desc.ndim; k++)
        if (!reduces(c->o, k))
            place = place * c->in[0].desc.dim[k] + index[k];
    return place;
}

void ref_sum(ref_call *c)
{
    c->out = ref_new(ref_counted_desc(c));
    const int64_t      n = ref_count(&c->out.desc);
    long double *const sum = calloc((size_t)n + 1, sizeof *sum);
    for (int64_t i = 0; i < ref_count(&c->in[0].desc); i++)
        sum[ref_reduced_place(c, i)] += (long double)c->in[0].at[i];
    for (int64_t i = 0; i < n; i++)
        c->out.at[i] = (double)sum[i];
    free(sum);
}

void ref_mean(ref_call *c)
{
    double elements = 1;
    for (int k = 0; k < c->in[0].desc.ndim; k++)
        if (reduces(c->o, k))
            elements *= (double)c->in[0].desc.dim[k];
    ref_sum(c);
    for (int64_t i = 0; i < ref_count(&c->out.desc); i++)
        c->out.at[i] /= elements;
}

void ref_amax(ref_call *c)
{
    c->out = ref_new(ref_reduced_desc(c));
    for (int64_t i = 0; i < ref_count(&c->out.desc); i++)
        c->out.at[i] = -HUGE_VAL;
    for (int64_t i = 0; i < ref_count(&c->in[0].desc); i++) {
        double *const at = &c->out.at[ref_reduced_place(c, i)];
        *at = ref_larger(*at, c->in[0].at[i]);
    }
}

/* logits (n,c), class numbers (n). */
void ref_count_correct(ref_call *c)
{
    const int64_t rows = c->in[0].desc.dim[0], classes = c->in[0].desc.dim[1];
    c->out = ref_new(weir_scalar(WEIR_I64));
    for (int64_t i = 0; i < rows; i++) {
        const double *const row = c->in[0].at + i * classes;
        int64_t             best = 0;
        for (int64_t k = 1; k < classes; k++)
            if (row[k] > row[best] || (isnan(row[k]) && !isnan(row[best])))
                best = k;
        c->out.at[0] += (double)best == c->in[1].at[i];
    }
}

/* ---- moves ---- */

/* The elements of the input in their order under another shape. */
static void copy_as(ref_call *c, weir_desc d)
{
    d.dtype = c->type;
    c->out = ref_new(d);
    if (ref_count(&d) > 0)
        memcpy(c->out.at, c->in[0].at, (size_t)ref_count(&d) * sizeof(double));
}

void ref_same(ref_call *c)
{
    copy_as(c, c->in[0].desc);
}

static weir_desc to_desc(const ref_call *c)
{
    weir_desc d = {.dtype = c->type, .ndim = c->o->ndim};
    memcpy(d.dim, c->o->to, sizeof d.dim);
    return d;
}

void ref_reshape(ref_call *c)
{
    weir_desc d = to_desc(c);
    for (int k = 0; k < d.ndim; k++)
        if (d.dim[k] == -1) {
            d.dim[k] = 1;
            d.dim[k] = ref_count(&c->in[0].desc) / ref_count(&d);
        }
    copy_as(c, d);
}

void ref_flatten(ref_call *c)
{
    const weir_desc *const d = &c->in[0].desc;
    weir_desc              out = weir_2d(c->type, d->ndim > 0 ? d->dim[0] : 1, 1);
    for (int k = 1; k < d->ndim; k++)
        out.dim[1] *= d->dim[k];
    copy_as(c, out);
}

/* Axis k of the result is axis to[k] of the input. */
void ref_transpose(ref_call *c)
{
    const weir_desc *const d = &c->in[0].desc;
    weir_desc              out = {.dtype = c->type, .ndim = d->ndim};
    int                    source[WEIR_MAX_DIMS];

    for (int k = 0; k < d->ndim; k++) {
        source[k] = c->o->ndim > 0 ? (int)c->o->to[k] : d->ndim - 1 - k;
        out.dim[k] = d->dim[source[k]];
    }
    c->out = ref_new(out);
    for (int64_t i = 0; i < ref_count(&out); i++) {
        int64_t index[WEIR_MAX_DIMS] = {0}, from[WEIR_MAX_DIMS];
        ref_unravel(&out, i, index);
        for (int k = 0; k < d->ndim; k++)
            from[source[k]] = index[k];
        c->out.at[i] = c->in[0].at[ref_ravel(d, from)];
    }
}

void ref_broadcast_to(ref_call *c)
{
    c->out = ref_new(to_desc(c));
    for (int64_t i = 0; i < ref_count(&c->out.desc); i++) {
        int64_t index[WEIR_MAX_DIMS] = {0};
        ref_unravel(&c->out.desc, i, index);
        c->out.at[i] = broadcast_at(&c->in[0], index, c->out.desc.ndim);
    }
}

/* Truncates towards zero; true is what is not 0. Halves are rounded with the answer. */
static double cast_value(double v, weir_dtype to)
{
    switch (to) {
    case WEIR_F64:
        return v;
    case WEIR_F32:
        return (double)(float)v;
    case WEIR_BOOL:
        return v != 0;
    case WEIR_F16:
    case WEIR_BF16:
        return v;
    default:
        return trunc(v);
    }
}

void ref_cast(ref_call *c)
{
    copy_as(c, c->in[0].desc);
    c->out.desc.dtype = c->o->cast;
    for (int64_t i = 0; i < ref_count(&c->out.desc); i++)
        c->out.at[i] = cast_value(c->out.at[i], c->o->cast);
}

/* Types of 4 bytes. */
void ref_bit_cast(ref_call *c)
{
    const weir_dtype from = c->in[0].desc.dtype, to = c->o->cast;

    copy_as(c, c->in[0].desc);
    c->out.desc.dtype = to;
    for (int64_t i = 0; i < ref_count(&c->out.desc); i++) {
        const float    real = (float)c->out.at[i];
        const uint32_t whole = (uint32_t)(int64_t)c->out.at[i];
        uint32_t       bits;
        memcpy(&bits, from == WEIR_F32 ? (const void *)&real : &whole, sizeof bits);
        c->out.at[i] = to == WEIR_I32 ? (double)(int32_t)bits : (double)bits;
    }
}

void ref_fill(ref_call *c)
{
    c->out = ref_new(c->desc);
    for (int64_t i = 0; i < ref_count(&c->out.desc); i++)
        c->out.at[i] = cast_value(c->o->s, c->type);
}

/* ---- draws: which numbers came is taken over; draw.c checks how they are spread ---- */

void ref_drawn(ref_call *c)
{
    c->out = ref_new(c->desc);
    if (c->got && ref_count(&c->desc) > 0)
        memcpy(c->out.at, c->got, (size_t)ref_count(&c->desc) * sizeof(double));
}

/* Inputs of dropout are never 0: an output of 0 was hit. */
void ref_dropout(ref_call *c)
{
    copy_as(c, c->in[0].desc);
    for (int64_t i = 0; i < ref_count(&c->out.desc); i++)
        c->out.at[i] = c->got && c->got[i] != 0 ? c->in[0].at[i] / (1 - c->o->s) : 0;
}

/* ---- matrices ---- */

/* Element (i, k) of a, or of its transpose. */
static double element(const ref_array *a, bool transposed, int64_t i, int64_t k)
{
    return transposed ? a->at[k * a->desc.dim[1] + i] : a->at[i * a->desc.dim[1] + k];
}

static void product(ref_call *c, bool ta, bool tb)
{
    const ref_array *const a = &c->in[0], *const b = &c->in[1];
    const int64_t          m = a->desc.dim[ta], inner = a->desc.dim[!ta], n = b->desc.dim[!tb];

    c->out = ref_new(weir_2d(c->type, m, n));
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            long double sum = 0;
            for (int64_t k = 0; k < inner; k++)
                sum += (long double)element(a, ta, i, k) * (long double)element(b, tb, k, j);
            c->out.at[i * n + j] = (double)sum;
        }
}

void ref_matmul(ref_call *c)
{
    product(c, c->o->ta, c->o->tb);
}

void ref_linear(ref_call *c)
{
    product(c, false, true);
    const int64_t n = c->out.desc.dim[1];
    for (int64_t i = 0; i < ref_count(&c->out.desc) && c->nin == 3; i++)
        c->out.at[i] += c->in[2].at[i % n];
}

/* ---- losses ---- */

/* - mean over rows of sum over classes of target * log(softmax(logits)). */
void ref_cross_entropy(ref_call *c)
{
    const int64_t rows = c->in[0].desc.dim[0], classes = c->in[0].desc.dim[1];
    const bool    numbers = c->in[1].desc.ndim == 1;
    long double   loss = 0;

    c->out = ref_new(weir_scalar(c->type));
    for (int64_t i = 0; i < rows; i++) {
        const double *const x = c->in[0].at + i * classes;
        double              top = x[0];
        long double         sum = 0;
        for (int64_t k = 1; k < classes; k++)
            top = fmax(top, x[k]);
        for (int64_t k = 0; k < classes; k++)
            sum += expl((long double)(x[k] - top));
        for (int64_t k = 0; k < classes; k++) {
            const double t = numbers ? (double)k == c->in[1].at[i] : c->in[1].at[i * classes + k];
            loss += (long double)t * ((long double)top + logl(sum) - (long double)x[k]);
        }
    }
    c->out.at[0] = (double)(loss / (long double)rows);
}

/* ---- updates: the written inputs change, the result is the first of them ---- */

/* Number i behind the rate, input lr, if there is one; else the option. */
double ref_number(const ref_call *c, int lr, int i, double option)
{
    return ref_count(&c->in[lr].desc) > 1 ? c->in[lr].at[1 + i] : option;
}

/* param, grad, lr, [momentum buffer, [step]]. */
void ref_sgd_update(ref_call *c)
{
    const weir_sgd_options *const o = &c->o->sgd;
    double *const                 p = c->in[0].at;
    const double momentum = c->nin > 3 ? ref_number(c, 2, 0, o->momentum) : 0;
    const double decay = ref_number(c, 2, 1, o->weight_decay);
    const double dampening = ref_number(c, 2, 2, o->dampening);
    const bool   whole = c->nin > 4 && c->in[4].at[0] == 0;     /* not yet counted */

    if (c->nin > 4)
        c->in[4].at[0]++;

    for (int64_t i = 0; i < ref_count(&c->in[0].desc); i++) {
        double step = c->in[1].at[i] + decay * p[i];
        if (momentum != 0) {
            double *const b = &c->in[3].at[i];
            *b = momentum * *b + (whole ? 1 : 1 - dampening) * step;
            step = o->nesterov ? step + momentum * *b : *b;
        }
        p[i] -= c->in[2].at[0] * step;
    }
    ref_same(c);
}

static double or_else(double option, double preset)
{
    return option != 0 ? option : preset;
}

/* param, grad, m, v, step, lr: Kingma and Ba 2015, algorithm 1, after the step is counted. */
void ref_adam_update(ref_call *c)
{
    const weir_adam_options *const o = &c->o->adam;
    const double beta1 = ref_number(c, 5, 0, or_else(o->beta1, 0.9)),
                 beta2 = ref_number(c, 5, 1, or_else(o->beta2, 0.999)),
                 eps = ref_number(c, 5, 2, or_else(o->eps, 1e-8)),
                 decay = ref_number(c, 5, 3, o->weight_decay), lr = c->in[5].at[0];
    const double t = ++c->in[4].at[0];

    for (int64_t i = 0; i < ref_count(&c->in[0].desc); i++) {
        double *const p = &c->in[0].at[i], *const m = &c->in[2].at[i], *const v = &c->in[3].at[i];
        const double  g = c->in[1].at[i] + decay * *p;
        *m = beta1 * *m + (1 - beta1) * g;
        *v = beta2 * *v + (1 - beta2) * g * g;
        const double m_hat = *m / (1 - pow(beta1, t)), v_hat = *v / (1 - pow(beta2, t));
        *p -= lr * m_hat / (sqrt(v_hat) + eps);
    }
    ref_same(c);
}

void ref_increment(ref_call *c)
{
    for (int64_t i = 0; i < ref_count(&c->in[0].desc); i++)
        c->in[0].at[i] += c->o->s;
    ref_same(c);
}

void ref_accumulate(ref_call *c)
{
    for (int64_t i = 0; i < ref_count(&c->in[0].desc); i++)
        c->in[0].at[i] += c->in[1].at[i];
    ref_same(c);
}

/* Partial sums (levels, n), gradient, the number of gradients before, which is then counted. */
void ref_accumulate_tree(ref_call *c)
{
    const int64_t levels = c->in[0].desc.dim[0], n = c->in[0].desc.dim[1];
    const int64_t count = (int64_t)c->in[2].at[0]++;

    for (int64_t i = 0; i < n; i++) {
        double  carry = c->in[1].at[i];
        int64_t level = 0;
        for (; level < levels - 1 && count >> level & 1; level++) {
            carry += c->in[0].at[level * n + i];
            c->in[0].at[level * n + i] = 0;
        }
        c->in[0].at[level * n + i] += carry;
    }
    ref_same(c);
}

void ref_reset(ref_call *c)
{
    for (int64_t i = 0; i < ref_count(&c->in[0].desc); i++)
        c->in[0].at[i] = c->o->s;
    ref_same(c);
}

/* Into input 0, of whose type both are. */
void ref_assign(ref_call *c)
{
    for (int64_t i = 0; i < ref_count(&c->in[0].desc); i++) {
        int64_t index[WEIR_MAX_DIMS] = {0};
        ref_unravel(&c->in[0].desc, i, index);
        c->in[0].at[i] = broadcast_at(&c->in[1], index, c->in[0].desc.ndim);
    }
    ref_same(c);
}
