/* resize.c - resizing: along each axis a product with a matrix of weights, or a gather.
 *
 * Interpolation of each kind is linear in the elements and separable, so that output i of an axis
 * is a weighted sum of its elements. The weights are known when shapes are, the product has a
 * gradient, and nearest neighbours are gathered, which moves elements of any type. Definitions:
 * onnx.ai/onnx/operators/onnx__Resize.html; cubic Keys 1981. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "model/onnx/op/ops.h"

enum { MOST = 1 << 26 }; /* places of one axis, or weights of its inputs, that are computed */

typedef enum kind { NEAREST, LINEAR, CUBIC } kind;

/* One axis: in -> out elements. */
typedef struct sized_axis {
    int64_t in, out;
    double  scale, begin, end; /* begin, end: the region of interest, as shares */
} sized_axis;

typedef struct resize {
    weir_onnx_call *c;
    kind            kind;
    const char     *place, *nearest;
    double          a, outside; /* the cubic coefficient; the value outside the region */
    bool            exclude, antialias;
    sized_axis      at[WEIR_MAX_DIMS];
} resize;

/* ---- weights ---- */

/* Where output i lies among the inputs, as the mode says. */
static double formula(const resize *r, const sized_axis *x, int64_t i)
{
    const double n = (double)x->in, size = x->scale * n, p = (double)i;
    const char  *how = r->place;

    if (strcmp(how, "align_corners") == 0)
        return size <= 1 ? 0 : p * (n - 1) / (size - 1);
    if (strcmp(how, "asymmetric") == 0)
        return p / x->scale;
    if (strcmp(how, "tf_crop_and_resize") == 0)
        return size <= 1 ? 0.5 * (x->begin + x->end) * (n - 1)
                         : x->begin * (n - 1) + p * (x->end - x->begin) * (n - 1) / (size - 1);
    if (strcmp(how, "pytorch_half_pixel") == 0 && size <= 1)
        return -0.5;
    if (strcmp(how, "half_pixel_symmetric") == 0)
        return n / 2 * (1 - (double)x->out / size) + (p + 0.5) / x->scale - 0.5;
    return (p + 0.5) / x->scale - 0.5;
}

/* The same as a number that fits an index: a region of interest may be anywhere, or NaN. */
static double place_of(const resize *r, const sized_axis *x, int64_t i)
{
    return fmin(fmax(formula(r, x, i), -INT32_MAX), INT32_MAX);
}

static double cubic(double a, double x)
{
    x = fabs(x);
    if (x <= 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((x - 5) * x + 8) * x * a - 4 * a : 0;
}

static double weight_of(const resize *r, double distance)
{
    if (r->kind == CUBIC)
        return cubic(r->a, distance);
    return fmax(0, 1 - fabs(distance));
}

/* The weights of the inputs for output i. Behind an edge lie copies of its element, or nothing. */
static void fill_row(const resize *r, const sized_axis *x, int64_t i, double *row)
{
    const double at = place_of(r, x, i), reach = r->kind == CUBIC ? 2 : 1;
    const double narrow = r->antialias && x->scale < 1 ? x->scale : 1;
    double       sum = 0;

    memset(row, 0, (size_t)x->in * sizeof *row);
    const int64_t from = (int64_t)floor(at - reach / narrow),
                  to = (int64_t)ceil(at + reach / narrow);
    for (int64_t k = from; k <= to; k++) {
        const double w = weight_of(r, ((double)k - at) * narrow);
        if (r->exclude && (k < 0 || k >= x->in))
            continue;
        row[k < 0 ? 0 : k >= x->in ? x->in - 1 : k] += w;
        sum += w;
    }
    for (int64_t k = 0; k < x->in && (r->exclude || narrow < 1) && sum != 0; k++)
        row[k] /= sum;
}

static bool is_outside(const resize *r, const sized_axis *x, int64_t i)
{
    const double at = place_of(r, x, i);

    return strcmp(r->place, "tf_crop_and_resize") == 0 && (at < 0 || at > (double)x->in - 1);
}

/* The nearest input of output i. */
static int64_t nearest_of(const resize *r, const sized_axis *x, int64_t i)
{
    const double at = place_of(r, x, i);
    double       k = ceil(at - 0.5); /* round_prefer_floor */

    if (strcmp(r->nearest, "round_prefer_ceil") == 0)
        k = floor(at + 0.5);
    else if (strcmp(r->nearest, "floor") == 0)
        k = floor(at);
    else if (strcmp(r->nearest, "ceil") == 0)
        k = ceil(at);
    return k < 0 ? 0 : k >= (double)x->in ? x->in - 1 : (int64_t)k;
}

/* ---- one axis ---- */

/* Swaps an axis with the last. */
static weir_tensor *to_last(weir_tensor *t, int i)
{
    const int ndim = weir_tensor_desc(t).ndim;
    int       axes[WEIR_MAX_DIMS];

    for (int k = 0; k < ndim; k++)
        axes[k] = k == i ? ndim - 1 : k == ndim - 1 ? i : k;
    return t && i != ndim - 1 ? weir_transpose(t, axes) : t;
}

static weir_tensor *gathered(const resize *r, weir_tensor *t, int i)
{
    const sized_axis *x = &r->at[i];
    int64_t *const    index = weir_host_alloc((size_t)x->out * sizeof *index + 1);

    if (!index)
        return NULL;
    for (int64_t k = 0; k < x->out; k++)
        index[k] = nearest_of(r, x, k);
    weir_tensor *const at = weir_onnx_constant(r->c, weir_1d(WEIR_I64, x->out), index);
    weir_host_free(index);
    return weir_onnx_gather_axis(t, at, i);
}

static weir_tensor *weighted(const resize *r, weir_tensor *t, int i)
{
    const sized_axis *x = &r->at[i];
    const weir_dtype  type = weir_tensor_desc(t).dtype;
    const size_t      n = (size_t)(x->in * x->out);
    float *const      w = weir_host_alloc(n * sizeof *w + 1);
    float *const      more = weir_host_alloc((size_t)x->out * sizeof *more + 1);
    double *const     row = weir_host_alloc((size_t)x->in * sizeof *row + 1);
    weir_tensor      *y = NULL;
    bool              any = false;

    for (int64_t k = 0; w && more && row && k < x->out; k++) {
        const bool out = is_outside(r, x, k);
        fill_row(r, x, k, row);
        for (int64_t p = 0; p < x->in; p++)
            w[p * x->out + k] = out ? 0 : (float)row[p];
        more[k] = out ? (float)r->outside : 0;
        any = any || out;
    }
    if (w && more && row) {
        weir_tensor *m = weir_onnx_constant(r->c, weir_2d(WEIR_F32, x->in, x->out), w);
        y = weir_matmul(to_last(t, i), weir_onnx_as(m, type));
        if (any)
            y = weir_add(
                y, weir_onnx_as(weir_onnx_constant(r->c, weir_1d(WEIR_F32, x->out), more), type));
        y = to_last(y, i);
    }
    weir_host_free(w);
    weir_host_free(more);
    weir_host_free(row);
    return y;
}

/* Images that grow by whole factors, as Weir's own upsampling does it. */
static bool is_upsampling(const resize *r, const weir_desc *d)
{
    bool whole = r->kind == LINEAR && strcmp(r->place, "half_pixel") == 0 && d->ndim == 4 &&
                 r->at[0].scale == 1 && r->at[1].scale == 1;

    for (int i = 0; i < 4 && whole; i++)
        whole = r->at[i].in > 0 && r->at[i].scale >= 1 && r->at[i].scale <= INT16_MAX &&
                r->at[i].scale == floor(r->at[i].scale) &&
                r->at[i].out == r->at[i].in * (int64_t)r->at[i].scale;
    return whole;
}

static weir_status run(const resize *r, weir_tensor *t)
{
    const weir_desc    d = weir_tensor_desc(t);
    weir_tensor *const x = t;

    if (is_upsampling(r, &d))
        return weir_onnx_give(r->c, 0, weir_upsample_bilinear(t, (int64_t)r->at[2].scale,
                                                              (int64_t)r->at[3].scale));
    for (int i = 0; t && i < d.ndim; i++) {
        const sized_axis *a = &r->at[i];
        if (a->out == a->in && a->scale == 1 && strcmp(r->place, "tf_crop_and_resize") != 0)
            continue;
        if (a->in < 1 || a->out < 0 || a->in > INT32_MAX || a->out > MOST ||
            (r->kind != NEAREST && a->in * a->out > MOST))
            return weir_onnx_refuse(r->c, "%" PRId64 " elements become %" PRId64, a->in, a->out);
        t = r->kind == NEAREST && strcmp(r->place, "tf_crop_and_resize") != 0 ? gathered(r, t, i)
                                                                              : weighted(r, t, i);
    }
    return weir_onnx_give(r->c, 0, t == x ? weir_onnx_same(t) : t);
}

/* ---- attributes and inputs ---- */

/* The known input i as doubles; n is 0 if it is not given or empty. */
static weir_status read_numbers(weir_onnx_call *c, size_t i, double *to, size_t room, size_t *n)
{
    *n = 0;
    if (!weir_onnx_has(c, i))
        return WEIR_OK;
    const weir_onnx_value *const v = &c->m->value[c->node->in[i]];
    if (!v->known)
        return weir_onnx_refuse(c, "input %zu, '%.60s', must be known when the model is recorded",
                                i, c->m->proto.names.name[c->node->in[i]]);
    *n = weir_onnx_elements(&v->desc);
    if (*n > room)
        return weir_onnx_refuse(c, "input %zu has %zu numbers", i, *n);
    for (size_t k = 0; k < *n; k++)
        switch (v->desc.dtype) {
        case WEIR_F32:
            to[k] = (double)((const float *)v->known)[k];
            break;
        case WEIR_F64:
            to[k] = ((const double *)v->known)[k];
            break;
        case WEIR_I64:
            to[k] = (double)((const int64_t *)v->known)[k];
            break;
        case WEIR_I32:
            to[k] = (double)((const int32_t *)v->known)[k];
            break;
        default:
            return weir_onnx_refuse(c, "input %zu has numbers of another type", i);
        }
    return WEIR_OK;
}

/* sizes: all as given, or one scale for all that keeps the picture's form. */
static weir_status by_sizes(resize *r, size_t n, const int *axes, const double *sizes)
{
    const char *const policy = weir_onnx_str(r->c, "keep_aspect_ratio_policy", "stretch");
    const bool        larger = strcmp(policy, "not_smaller") == 0;
    double            one = larger ? 0 : INFINITY;

    for (size_t i = 0; i < n; i++) {
        const double s = sizes[i] / (double)r->at[axes[i]].in;
        one = larger ? fmax(one, s) : fmin(one, s);
    }
    for (size_t i = 0; i < n; i++) {
        sized_axis *const a = &r->at[axes[i]];
        const double      in = (double)a->in;
        const bool        stretch = strcmp(policy, "stretch") == 0;
        const double      out = stretch ? sizes[i] : floor(one * in + 0.5);
        if (!(out >= 0 && out <= INT32_MAX))
            return weir_onnx_refuse(r->c, "size %g", out);
        a->out = (int64_t)out;
        a->scale = stretch ? sizes[i] / in : one;
    }
    return WEIR_OK;
}

static weir_status read_axes(resize *r, const weir_desc *d, int *axes, size_t *n)
{
    const int64_t *list;
    const size_t   given = weir_onnx_ints(r->c, "axes", &list);

    *n = given ? given : (size_t)d->ndim;
    if (*n > (size_t)d->ndim)
        return weir_onnx_refuse(r->c, "%zu axes", *n);
    for (size_t i = 0; i < *n; i++)
        WEIR_TRY(weir_onnx_axis(r->c, given ? list[i] : (int64_t)i, d->ndim, &axes[i]));
    return WEIR_OK;
}

static weir_status read_kind(resize *r)
{
    const char *const mode = weir_onnx_str(r->c, "mode", "nearest");

    r->kind = strcmp(mode, "cubic") == 0 ? CUBIC : strcmp(mode, "nearest") == 0 ? NEAREST : LINEAR;
    r->nearest = weir_onnx_str(r->c, "nearest_mode", "round_prefer_floor");
    r->a = weir_onnx_float(r->c, "cubic_coeff_a", -0.75);
    r->outside = weir_onnx_float(r->c, "extrapolation_value", 0);
    r->exclude = weir_onnx_int(r->c, "exclude_outside", 0) != 0;
    r->antialias = weir_onnx_int(r->c, "antialias", 0) != 0;
    return strcmp(mode, "linear") && strcmp(mode, "bilinear") && r->kind == LINEAR
               ? weir_onnx_refuse(r->c, "mode %.20s", mode)
               : WEIR_OK;
}

static weir_status by_scales(resize *r, size_t n, const int *axes, const double *scales)
{
    for (size_t i = 0; i < n; i++) {
        sized_axis *const a = &r->at[axes[i]];
        if (!(scales[i] > 0 && scales[i] < 1e6))
            return weir_onnx_refuse(r->c, "scale %g", scales[i]);
        a->scale = scales[i];
        a->out = (int64_t)floor(scales[i] * (double)a->in);
    }
    return WEIR_OK;
}

/* Inputs: x, scales (opset 10); x, roi, scales, sizes (from 11 on). */
weir_status weir_onnx_resize(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    const bool         old = c->opset < 11;
    double             roi[2 * WEIR_MAX_DIMS], scale[WEIR_MAX_DIMS], size[WEIR_MAX_DIMS];
    int                axes[WEIR_MAX_DIMS];
    size_t             n, n_roi = 0, n_scale, n_size = 0;

    if (!x)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    resize          r = {.c = c};
    r.place = weir_onnx_str(c, "coordinate_transformation_mode", old ? "asymmetric" : "half_pixel");
    WEIR_TRY(read_kind(&r));
    if (old)
        r.nearest = "floor";
    for (int i = 0; i < d.ndim; i++)
        r.at[i] = (sized_axis){d.dim[i], d.dim[i], 1, 0, 1};
    WEIR_TRY(read_axes(&r, &d, axes, &n));
    WEIR_TRY(read_numbers(c, old ? 1 : 2, scale, WEIR_MAX_DIMS, &n_scale));
    if (!old) {
        WEIR_TRY(read_numbers(c, 1, roi, 2 * WEIR_MAX_DIMS, &n_roi));
        WEIR_TRY(read_numbers(c, 3, size, WEIR_MAX_DIMS, &n_size));
    }
    if ((n_scale == 0) == (n_size == 0) || n_scale + n_size != n || (n_roi && n_roi != 2 * n))
        return weir_onnx_refuse(c, "%zu scales and %zu sizes for %zu axes", n_scale, n_size, n);
    for (size_t i = 0; i < n && n_roi; i++) {
        r.at[axes[i]].begin = roi[i];
        r.at[axes[i]].end = roi[n + i];
    }
    WEIR_TRY(n_size ? by_sizes(&r, n, axes, size) : by_scales(&r, n, axes, scale));
    return run(&r, x);
}

/* Upsample: scales are an attribute up to opset 8, then input 1. */
weir_status weir_onnx_upsample(weir_onnx_call *c)
{
    weir_tensor *const          x = weir_onnx_x(c, 0);
    const weir_onnx_attr *const a = weir_onnx_attr_of(c, "scales");
    double                      scale[WEIR_MAX_DIMS];
    int                         axes[WEIR_MAX_DIMS];
    size_t                      n;

    if (!x)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    resize          r = {.c = c, .place = "asymmetric"};
    WEIR_TRY(read_kind(&r));
    r.nearest = "floor";
    WEIR_TRY(read_numbers(c, 1, scale, WEIR_MAX_DIMS, &n));
    for (size_t i = 0; a && n == 0 && i < a->n_floats && i < WEIR_MAX_DIMS; i++)
        scale[i] = (double)a->floats[i];
    n = n ? n : a ? a->n_floats : 0;
    if (n != (size_t)d.ndim)
        return weir_onnx_refuse(c, "%zu scales for %d axes", n, d.ndim);
    for (int i = 0; i < d.ndim; i++) {
        r.at[i] = (sized_axis){d.dim[i], d.dim[i], 1, 0, 1};
        axes[i] = i;
    }
    WEIR_TRY(by_scales(&r, n, axes, scale));
    return run(&r, x);
}
