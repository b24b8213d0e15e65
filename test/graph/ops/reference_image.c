/* reference_image.c - the reference of what slides a window over images or normalises channels. */
#include <math.h>

#include "graph/ops/reference.h"

/* ---- arrays (n,c,h,w) ---- */

static int64_t place(const ref_array *a, int64_t n, int64_t c, int64_t h, int64_t w)
{
    return ref_ravel(&a->desc, (int64_t[]){n, c, h, w});
}

/* The elements of an image; outside there are zeros. */
static bool inside(const ref_array *x, int64_t h, int64_t w)
{
    return h >= 0 && h < x->desc.dim[2] && w >= 0 && w < x->desc.dim[3];
}

static int64_t or_else(int64_t option, int64_t preset)
{
    return option != 0 ? option : preset;
}

/* How often a window fits into `room`, padding included: the last place that still fits whole. */
static int64_t places(int64_t extent, int64_t kernel, int64_t stride, int64_t dilation)
{
    int64_t n = 0;
    while (n * stride + dilation * (kernel - 1) < extent)
        n++;
    return n;
}

/* ---- convolution: x (n,c,h,w), w (o,c/groups,kh,kw), [bias (o)] ---- */

/* One output element: channel o of image n, window at (i, j) in padded steps. */
static double window_sum(const ref_call *c, int64_t n, int64_t o, int64_t i, int64_t j)
{
    const weir_conv2d_options *const v = &c->o->conv;
    const ref_array *const           x = &c->in[0], *const w = &c->in[1];
    const int64_t per_group = w->desc.dim[0] / or_else(v->groups, 1);
    const int64_t first = o / per_group * w->desc.dim[1];
    const int64_t step[2] = {or_else(v->stride[0], 1), or_else(v->stride[1], 1)};
    const int64_t spread[2] = {or_else(v->dilation[0], 1), or_else(v->dilation[1], 1)};
    long double   sum = c->nin == 3 ? (long double)c->in[2].at[o] : 0;

    for (int64_t k = 0; k < w->desc.dim[1]; k++)
        for (int64_t p = 0; p < w->desc.dim[2]; p++)
            for (int64_t q = 0; q < w->desc.dim[3]; q++) {
                const int64_t y = i * step[0] - v->pad[0] + p * spread[0];
                const int64_t z = j * step[1] - v->pad[1] + q * spread[1];
                if (inside(x, y, z))
                    sum += (long double)x->at[place(x, n, first + k, y, z)] *
                           (long double)w->at[place(w, o, k, p, q)];
            }
    return (double)sum;
}

void ref_conv2d(ref_call *c)
{
    const weir_conv2d_options *const v = &c->o->conv;
    const int64_t *const             x = c->in[0].desc.dim, *const w = c->in[1].desc.dim;
    int64_t                          o[2];

    for (int k = 0; k < 2; k++)
        o[k] = places(x[2 + k] + v->pad[k] + (v->asymmetric ? v->pad_end : v->pad)[k], w[2 + k],
                      or_else(v->stride[k], 1), or_else(v->dilation[k], 1));
    c->out = ref_new(weir_4d(c->type, x[0], w[0], o[0], o[1]));
    for (int64_t i = 0; i < ref_count(&c->out.desc); i++) {
        int64_t at[4];
        ref_unravel(&c->out.desc, i, at);
        c->out.at[i] = window_sum(c, at[0], at[1], at[2], at[3]);
    }
}

/* ---- transposed convolution: x (n,c,h,w), w (c,o/groups,kh,kw), [bias (o)] ---- */

/* Adds what element `at` of x gives to channel o, which is number j of its group. */
static void spread_window(ref_call *c, const int64_t at[4], int64_t o, int64_t j)
{
    const weir_conv_transpose2d_options *const v = &c->o->conv_transpose;
    const ref_array *const                     x = &c->in[0], *const w = &c->in[1];

    for (int64_t p = 0; p < w->desc.dim[2]; p++)
        for (int64_t q = 0; q < w->desc.dim[3]; q++) {
            const int64_t y = at[2] * or_else(v->stride[0], 1) - v->pad[0] +
                              p * or_else(v->dilation[0], 1);
            const int64_t z = at[3] * or_else(v->stride[1], 1) - v->pad[1] +
                              q * or_else(v->dilation[1], 1);
            if (inside(&c->out, y, z))
                c->out.at[place(&c->out, at[0], o, y, z)] +=
                    x->at[place(x, at[0], at[1], at[2], at[3])] * w->at[place(w, at[1], j, p, q)];
        }
}

void ref_conv_transpose2d(ref_call *c)
{
    const weir_conv_transpose2d_options *const v = &c->o->conv_transpose;
    const int64_t *const x = c->in[0].desc.dim, *const w = c->in[1].desc.dim;
    const int64_t        groups = or_else(v->groups, 1);
    int64_t              at[4], size[2];

    for (int k = 0; k < 2; k++)
        size[k] = (x[2 + k] - 1) * or_else(v->stride[k], 1) - 2 * v->pad[k] +
                  or_else(v->dilation[k], 1) * (w[2 + k] - 1) + 1 + v->output_pad[k];
    c->out = ref_new(weir_4d(c->type, x[0], w[1] * groups, size[0], size[1]));
    for (int64_t i = 0; i < ref_count(&c->out.desc) && c->nin == 3; i++) {
        ref_unravel(&c->out.desc, i, at);
        c->out.at[i] = c->in[2].at[at[1]];
    }
    for (int64_t i = 0; i < ref_count(&c->in[0].desc); i++) {
        ref_unravel(&c->in[0].desc, i, at);
        const int64_t group = at[1] / (x[1] / groups);
        for (int64_t j = 0; j < w[1]; j++)
            spread_window(c, at, group * w[1] + j, j);
    }
}

/* ---- along lines: x (n,c,l), w (o,c/groups,k), [bias (o)] ---- */

void ref_conv1d(ref_call *c)
{
    const weir_conv1d_options *const v = &c->o->conv1d;
    const int64_t *const             x = c->in[0].desc.dim, *const w = c->in[1].desc.dim;
    const int64_t stride = or_else(v->stride, 1), dilation = or_else(v->dilation, 1);
    const int64_t each = w[0] / or_else(v->groups, 1);
    const int64_t l = places(x[2] + 2 * v->pad, w[2], stride, dilation);

    c->out = ref_new((weir_desc){c->type, 3, {x[0], w[0], l}});
    for (int64_t i = 0; i < ref_count(&c->out.desc); i++) {
        const int64_t j = i % l, o = i / l % w[0], n = i / l / w[0];
        long double   sum = c->nin == 3 ? (long double)c->in[2].at[o] : 0;
        for (int64_t k = 0; k < w[1] * w[2]; k++) {
            const int64_t at = j * stride - v->pad + k % w[2] * dilation;
            if (at >= 0 && at < x[2])
                sum += (long double)c->in[0].at[(n * x[1] + o / each * w[1] + k / w[2]) * x[2] +
                                                at] *
                       (long double)c->in[1].at[o * w[1] * w[2] + k];
        }
        c->out.at[i] = (double)sum;
    }
}

static void pool_lines(ref_call *c, bool max)
{
    const weir_pool1d_options *const v = &c->o->pool1d;
    const int64_t *const             x = c->in[0].desc.dim;
    const int64_t                    stride = or_else(v->stride, v->kernel);
    const int64_t                    l = places(x[2] + 2 * v->pad, v->kernel, stride, 1);

    c->out = ref_new((weir_desc){c->type, 3, {x[0], x[1], l}});
    for (int64_t i = 0; i < ref_count(&c->out.desc); i++) {
        double  sum = 0, most = -HUGE_VAL;
        int64_t cells = 0;
        for (int64_t k = 0; k < v->kernel; k++) {
            const int64_t at = i % l * stride - v->pad + k;
            if (at < 0 || at >= x[2])
                continue;
            sum += c->in[0].at[i / l * x[2] + at];
            most = ref_larger(most, c->in[0].at[i / l * x[2] + at]);
            cells++;
        }
        c->out.at[i] = max ? most : sum / (double)(v->exclude_pad ? cells : v->kernel);
    }
}

void ref_max_pool1d(ref_call *c)
{
    pool_lines(c, true);
}

void ref_avg_pool1d(ref_call *c)
{
    pool_lines(c, false);
}

/* ---- pooling ---- */

static void pool_out(ref_call *c)
{
    const weir_pool2d_options *const v = &c->o->pool;
    const int64_t *const             x = c->in[0].desc.dim;
    int64_t                          o[2];

    for (int k = 0; k < 2; k++)
        o[k] = places(x[2 + k] + v->pad[k] + (v->asymmetric ? v->pad_end : v->pad)[k],
                      v->kernel[k], or_else(v->stride[k], v->kernel[k]), 1);
    c->out = ref_new(weir_4d(c->type, x[0], x[1], o[0], o[1]));
}

/* Sum, largest and number of the cells of the image under the window of output element i. */
static void pool_window(const ref_call *c, int64_t i, long double *sum, double *most,
                        int64_t *cells)
{
    const weir_pool2d_options *const v = &c->o->pool;
    const ref_array *const           x = &c->in[0];
    int64_t                          at[4];

    ref_unravel(&c->out.desc, i, at);
    *sum = 0;
    *most = -HUGE_VAL;
    *cells = 0;
    for (int64_t p = 0; p < v->kernel[0]; p++)
        for (int64_t q = 0; q < v->kernel[1]; q++) {
            const int64_t h = at[2] * or_else(v->stride[0], v->kernel[0]) - v->pad[0] + p;
            const int64_t w = at[3] * or_else(v->stride[1], v->kernel[1]) - v->pad[1] + q;
            if (!inside(x, h, w))
                continue;
            const double value = x->at[place(x, at[0], at[1], h, w)];
            *sum += (long double)value;
            *most = ref_larger(*most, value);
            ++*cells;
        }
}

void ref_max_pool2d(ref_call *c)
{
    long double sum;
    int64_t     cells;

    pool_out(c);
    for (int64_t i = 0; i < ref_count(&c->out.desc); i++)
        pool_window(c, i, &sum, &c->out.at[i], &cells);
}

void ref_avg_pool2d(ref_call *c)
{
    const weir_pool2d_options *const v = &c->o->pool;
    long double                      sum;
    double                           most;
    int64_t                          cells;

    pool_out(c);
    for (int64_t i = 0; i < ref_count(&c->out.desc); i++) {
        pool_window(c, i, &sum, &most, &cells);
        c->out.at[i] = (double)(sum / (long double)(v->exclude_pad ? cells
                                                                   : v->kernel[0] * v->kernel[1]));
    }
}

void ref_global_avg_pool2d(ref_call *c)
{
    const int64_t *const d = c->in[0].desc.dim;
    const ref_options    o = {.dims = 1u << 2 | 1u << 3, .keep = true};
    ref_call             mean = *c;

    mean.o = &o;
    ref_mean(&mean);
    c->out = mean.out;
    c->out.desc = weir_4d(c->type, d[0], d[1], 1, 1);
}

/* ---- batch normalisation: x (n,c,...), scale, bias, running mean, running variance (c) ---- */

/* Mean and biased variance of channel k of x. */
static void channel_statistics(const ref_array *x, int64_t k, double *mean, double *var,
                               double *count)
{
    long double sum = 0, squares = 0, n = 0;
    int64_t     at[WEIR_MAX_DIMS];

    for (int64_t i = 0; i < ref_count(&x->desc); i++) {
        ref_unravel(&x->desc, i, at);
        if (at[1] == k) {
            sum += (long double)x->at[i];
            n++;
        }
    }
    for (int64_t i = 0; i < ref_count(&x->desc); i++) {
        ref_unravel(&x->desc, i, at);
        if (at[1] == k)
            squares += ((long double)x->at[i] - sum / n) * ((long double)x->at[i] - sum / n);
    }
    *mean = (double)(sum / n);
    *var = (double)(squares / n);
    *count = (double)n;
}

static void normalise_channel(ref_call *c, int64_t k, double mean, double var)
{
    const double eps = c->o->norm.eps != 0 ? c->o->norm.eps : 1e-5;
    int64_t      at[WEIR_MAX_DIMS];

    for (int64_t i = 0; i < ref_count(&c->out.desc); i++) {
        ref_unravel(&c->out.desc, i, at);
        if (at[1] == k)
            c->out.at[i] = (c->in[0].at[i] - mean) / sqrt(var + eps) * c->in[1].at[k] +
                           c->in[2].at[k];
    }
}

void ref_batch_norm(ref_call *c)
{
    const double momentum = c->o->norm.momentum != 0 ? c->o->norm.momentum : 0.1;

    c->out = ref_new(c->in[0].desc);
    for (int64_t k = 0; k < c->in[0].desc.dim[1]; k++) {
        double *const running_mean = &c->in[3].at[k], *const running_var = &c->in[4].at[k];
        double        mean = *running_mean, var = *running_var, n;
        if (c->o->norm.train) {
            channel_statistics(&c->in[0], k, &mean, &var, &n);
            *running_mean += momentum * (mean - *running_mean);
            *running_var += momentum * (var * n / (n - 1) - *running_var);
        }
        normalise_channel(c, k, mean, var);
    }
}
