/* signal.c - windows, Fourier transforms and the weights of mel spectra.
 *
 * A transform is a product with a matrix of cosines and sines, made on the host in f64; so it has
 * gradients and takes n^2 steps, for lengths up to LONGEST. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "model/onnx/op/ops.h"

enum { LONGEST = 2048, MEL = 1 << 22 /* weights of mel spectra */ };

static const double PI = 3.14159265358979323846;

/* Doubles of the host as a tensor of the type. Frees them. */
static weir_tensor *made(weir_onnx_call *c, double *v, weir_desc d, weir_dtype t)
{
    d.dtype = WEIR_F64;
    weir_tensor *const y = v ? weir_onnx_constant(c, d, v) : NULL;

    weir_host_free(v);
    return y ? weir_onnx_as(y, t) : NULL;
}

/* The type of an attribute that names one, f32 if it is not given. */
static weir_status named_type(weir_onnx_call *c, weir_dtype *t)
{
    const int64_t said = weir_onnx_int(c, "output_datatype", WEIR_ONNX_FLOAT);

    if (weir_onnx_dtype(said, t))
        return WEIR_OK;
    return weir_onnx_refuse(c, "Weir lacks the type %s", weir_onnx_type_name(said));
}

/* ---- windows: a0 - a1 cos x + a2 cos 2x, where x goes once around ---- */

static weir_status window(weir_onnx_call *c, double a0, double a1, double a2)
{
    weir_dtype type;
    double     n;

    WEIR_TRY(weir_onnx_number(c, 0, &n));
    WEIR_TRY(named_type(c, &type));
    if (!(n >= 0 && n <= 1 << 24))
        return weir_onnx_refuse(c, "a window of %g elements", n);
    const int64_t size = (int64_t)n;
    double *const v = weir_host_alloc((size_t)size * sizeof *v + 1);
    const double  span = weir_onnx_int(c, "periodic", 1) != 0 ? n : n - 1;
    for (int64_t i = 0; v && i < size; i++) {
        const double x = span > 0 ? 2 * PI * (double)i / span : 0;
        v[i] = a0 - a1 * cos(x) + a2 * cos(2 * x);
    }
    return weir_onnx_give(c, 0, made(c, v, weir_1d(WEIR_F64, size), type));
}

weir_status weir_onnx_hann(weir_onnx_call *c)
{
    return window(c, 0.5, 0.5, 0);
}

weir_status weir_onnx_hamming(weir_onnx_call *c)
{
    return window(c, 25.0 / 46, 1 - 25.0 / 46, 0);
}

weir_status weir_onnx_blackman(weir_onnx_call *c)
{
    return window(c, 0.42, 0.5, 0.08);
}

/* ---- transforms ---- */

typedef struct transform {
    int64_t n, out;   /* elements taken, elements given */
    int     parts;    /* of an element given: 2, or 1 where only the real one is asked for */
    bool    complex;  /* elements taken have two parts */
    bool    inverse;
    bool    mirrored; /* the inverse of a half: element k stands for n - k, too */
} transform;

/* Column (k, part) of row (j, part): what element j adds to element k. `taken` rows are given. */
static weir_tensor *matrix_of(weir_onnx_call *c, const transform *t, int64_t taken)
{
    const int64_t in = t->complex ? 2 : 1, width = t->out * t->parts;
    double *const v = weir_host_alloc((size_t)(taken * in * width) * sizeof *v + 1);
    const double  sign = t->inverse ? 1 : -1, scale = t->inverse ? 1 / (double)t->n : 1;

    for (int64_t j = 0; v && j < taken; j++) {
        const bool   ends = j == 0 || 2 * j == t->n;
        const double size = t->mirrored && !ends ? 2 * scale : scale;
        for (int64_t k = 0; k < t->out; k++) {
            const double angle = 2 * PI * (double)(j * k % t->n) / (double)t->n;
            const double re = size * cos(angle), im = sign * size * sin(angle);
            double      *row = v + j * in * width + k * t->parts;
            row[0] = re;
            if (t->parts == 2)
                row[1] = im;
            if (in == 2)
                row[width] = -im;
            if (in == 2 && t->parts == 2)
                row[width + 1] = re;
        }
    }
    return made(c, v, weir_2d(WEIR_F64, taken * in, width), WEIR_F64);
}

/* x (..., elements, parts), of f64: transformed over the last axis but one. */
static weir_tensor *transformed(weir_onnx_call *c, weir_tensor *x, const transform *t)
{
    if (!x)
        return NULL;
    const weir_desc d = weir_tensor_desc(x);
    const int64_t   most = t->mirrored ? t->n / 2 + 1 : t->n;
    const int64_t   have = d.dim[d.ndim - 2], taken = have < most ? have : most;
    weir_desc       to = d;
    const int64_t   rows = weir_onnx_product(&d, 0, d.ndim - 2);

    if (taken < have)
        x = weir_narrow(x, d.ndim - 2, 0, taken);
    x = weir_reshape(x, 2, (int64_t[]){rows, taken * d.dim[d.ndim - 1]});
    weir_tensor *const y = weir_matmul(x, matrix_of(c, t, taken));
    to.dim[d.ndim - 2] = t->out;
    to.dim[d.ndim - 1] = t->parts;
    return y ? weir_reshape(y, to.ndim, to.dim) : NULL;
}

/* The axis moved to the last place but one, or back. */
static weir_tensor *moved(weir_tensor *x, int axis, bool back)
{
    const int ndim = weir_tensor_desc(x).ndim;
    int       order[WEIR_MAX_DIMS], inverse[WEIR_MAX_DIMS], n = 0;

    for (int i = 0; i < ndim - 1; i++)
        if (i != axis)
            order[n++] = i;
    order[n++] = axis;
    order[n] = ndim - 1;
    for (int i = 0; i < ndim; i++)
        inverse[order[i]] = i;
    return weir_transpose(x, back ? inverse : order);
}

static weir_status dft(weir_onnx_call *c, int64_t at, double length)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    const bool         half = weir_onnx_int(c, "onesided", 0) != 0;
    transform          t = {.inverse = weir_onnx_int(c, "inverse", 0) != 0, .parts = 2};
    int                axis;

    if (!x)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    WEIR_TRY(weir_onnx_axis(c, at, d.ndim, &axis));
    if (d.ndim < 2 || axis == d.ndim - 1 || d.dim[d.ndim - 1] < 1 || d.dim[d.ndim - 1] > 2)
        return weir_onnx_refuse(c, "axis %d of a tensor with %d axes", axis, d.ndim);
    t.mirrored = half && t.inverse;
    const double given = t.mirrored ? 2.0 * (double)(d.dim[axis] - 1) : (double)d.dim[axis];
    length = length > 0 ? length : given;
    if (!(length >= 1 && length <= LONGEST))
        return weir_onnx_refuse(c, "a transform of %g elements; 1 to %d are computed", length,
                                LONGEST);
    t.n = (int64_t)length;
    t.out = half && !t.inverse ? t.n / 2 + 1 : t.n;
    t.parts = t.mirrored ? 1 : 2;
    t.complex = d.dim[d.ndim - 1] == 2;
    weir_tensor *const y = transformed(c, moved(weir_onnx_as(x, WEIR_F64), axis, false), &t);
    return weir_onnx_give(c, 0, y ? weir_onnx_as(moved(y, axis, true), d.dtype) : NULL);
}

/* A length that an input may give; 0: it does not. */
static weir_status optional_number(weir_onnx_call *c, size_t i, double *v)
{
    return weir_onnx_has(c, i) ? weir_onnx_number(c, i, v) : WEIR_OK;
}

weir_status weir_onnx_dft_attr(weir_onnx_call *c)
{
    double length = 0;

    WEIR_TRY(optional_number(c, 1, &length));
    return dft(c, weir_onnx_int(c, "axis", 1), length);
}

weir_status weir_onnx_dft(weir_onnx_call *c)
{
    double length = 0, axis = -2;

    WEIR_TRY(optional_number(c, 1, &length));
    WEIR_TRY(optional_number(c, 2, &axis));
    return dft(c, (int64_t)axis, length);
}

/* Frames of the signal (n, length, parts), each `step` after the other, times the window. */
weir_status weir_onnx_stft(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    weir_tensor       *weights = weir_onnx_has(c, 2) ? weir_onnx_x(c, 2) : NULL;
    double             step, length = 0;

    if (!x || (weir_onnx_has(c, 2) && !weights))
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    WEIR_TRY(weir_onnx_number(c, 1, &step));
    WEIR_TRY(optional_number(c, 3, &length));
    if (length <= 0 && weights)
        length = (double)weir_tensor_desc(weights).dim[0];
    if (d.ndim != 3 || !(step >= 1) || !(length >= 1 && length <= LONGEST) ||
        length > (double)d.dim[1] || d.dim[2] < 1 || d.dim[2] > 2)
        return weir_onnx_refuse(c, "frames of %g elements, %g apart, of a signal with %d axes",
                                length, step, d.ndim);
    const int64_t n = (int64_t)length, apart = step < 1e9 ? (int64_t)step : 1000000000;
    const int64_t frames = (d.dim[1] - n) / apart + 1;
    weir_tensor  *at =
        weir_add(weir_onnx_ramp(c, frames, apart, 2, 0), weir_onnx_ramp(c, n, 1, 2, 1));
    at = weir_onnx_gather_axis(weir_onnx_as(x, WEIR_F64), at, 1);
    if (weights)
        at = weir_mul(at, weir_reshape(weir_onnx_as(weights, WEIR_F64), 2, (int64_t[]){n, 1}));
    const bool      half = weir_onnx_int(c, "onesided", 1) != 0 && d.dim[2] == 1;
    const transform t = {.n = n, .out = half ? n / 2 + 1 : n, .parts = 2, .complex = d.dim[2] == 2};
    return weir_onnx_give(c, 0, at ? weir_onnx_as(transformed(c, at, &t), d.dtype) : NULL);
}

/* ---- mel ---- */

static double mel_of(double hertz)
{
    return 2595 * log10(1 + hertz / 700);
}

static double hertz_of(double mel)
{
    return 700 * (pow(10, mel / 2595) - 1);
}

/* Triangles over the bins of a spectrum, equally spaced in mel. */
static void triangles(double *v, int64_t bands, int64_t bins, const int64_t *edge)
{
    for (int64_t k = 0; k < bands; k++) {
        const int64_t low = edge[k], middle = edge[k + 1], high = edge[k + 2];
        for (int64_t i = low; i < middle && i < bins; i++)
            v[i * bands + k] = (double)(i - low) / (double)(middle - low);
        if (middle < bins)
            v[middle * bands + k] = 1;
        for (int64_t i = middle + 1; i < high && i < bins; i++)
            v[i * bands + k] = (double)(high - i) / (double)(high - middle);
    }
}

weir_status weir_onnx_mel(weir_onnx_call *c)
{
    double     in[5]; /* bands, length of the transform, sample rate, lowest and highest hertz */
    weir_dtype type;

    for (size_t i = 0; i < 5; i++)
        WEIR_TRY(weir_onnx_number(c, i, &in[i]));
    WEIR_TRY(named_type(c, &type));
    if (!(in[0] >= 1 && in[0] <= LONGEST && in[1] >= 1 && in[1] <= 1 << 20 && in[2] > 0 &&
          in[3] >= 0 && in[4] >= in[3] && in[4] <= in[2]))
        return weir_onnx_refuse(c, "%g bands of a transform of %g elements", in[0], in[1]);
    const int64_t bands = (int64_t)in[0], bins = (int64_t)in[1] / 2 + 1;
    if (bands > MEL / bins)
        return weir_onnx_refuse(c, "%" PRId64 " weights of %" PRId64 " bands", bins, bands);
    double *const  v = weir_host_alloc((size_t)(bands * bins) * sizeof *v + 1);
    int64_t *const edge = weir_host_alloc((size_t)(bands + 2) * sizeof *edge);
    const double   low = mel_of(in[3]), step = (mel_of(in[4]) - low) / (in[0] + 2);
    for (int64_t i = 0; edge && i < bands + 2; i++)
        edge[i] = (int64_t)floor((in[1] + 1) * hertz_of(low + (double)i * step) / in[2]);
    if (v && edge)
        triangles(v, bands, bins, edge);
    weir_host_free(edge);
    return weir_onnx_give(c, 0, made(c, v, weir_2d(WEIR_F64, bins, bands), type));
}
