/* region.c - windows put back into an image (Col2Im, MaxUnpool), regions of one (RoiAlign),
 * determinants. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "model/onnx/op/ops.h"

enum { AXES = 3, DETERMINANT = 8, MOST = 1 << 24 /* indices that are made on the host */ };

/* The numbers of an attribute for k axes, `otherwise` where it is not given. */
static weir_status axis_numbers(weir_onnx_call *c, const char *name, size_t k, int64_t otherwise,
                                int64_t *to)
{
    const int64_t *at;
    const size_t   n = weir_onnx_ints(c, name, &at);

    for (size_t i = 0; i < k; i++) {
        to[i] = n ? n == k ? at[i] : -1 : otherwise;
        if (to[i] < 0 || to[i] > INT32_MAX)
            return weir_onnx_refuse(c, "%s has %zu numbers, or one below 0", name, n);
    }
    return WEIR_OK;
}

/* ---- Col2Im ---- */

typedef struct columns {
    size_t  axes;
    int64_t image[AXES], block[AXES], stride[AXES], dilation[AXES], pad[2 * AXES], out[AXES];
    int64_t cells, windows, pixels;
} columns;

static weir_status read_columns(weir_onnx_call *c, columns *w)
{
    size_t n;

    *w = (columns){.cells = 1, .windows = 1, .pixels = 1};
    WEIR_TRY(weir_onnx_list(c, 1, w->image, AXES, &w->axes));
    WEIR_TRY(weir_onnx_list(c, 2, w->block, AXES, &n));
    if (n != w->axes || n < 1)
        return weir_onnx_refuse(c, "an image with %zu axes, blocks with %zu", w->axes, n);
    WEIR_TRY(axis_numbers(c, "strides", n, 1, w->stride));
    WEIR_TRY(axis_numbers(c, "dilations", n, 1, w->dilation));
    WEIR_TRY(axis_numbers(c, "pads", 2 * n, 0, w->pad));
    for (size_t i = 0; i < n; i++) {
        if (w->image[i] < 1 || w->block[i] < 1 || w->stride[i] < 1 || w->image[i] > INT32_MAX ||
            w->block[i] > INT32_MAX)
            return weir_onnx_refuse(c, "a size or stride of 0");
        const int64_t room = w->image[i] + w->pad[i] + w->pad[n + i] -
                             w->dilation[i] * (w->block[i] - 1) - 1;
        if (room < 0)
            return weir_onnx_refuse(c, "a block larger than the image");
        w->out[i] = room / w->stride[i] + 1;
        w->cells *= w->block[i];
        w->windows *= w->out[i];
        w->pixels *= w->image[i];
        if (w->cells > MOST || w->windows > MOST || w->pixels > MOST ||
            w->cells > MOST / w->windows)
            return weir_onnx_refuse(c, "more than %d elements", MOST);
    }
    return WEIR_OK;
}

/* The pixel of a cell of a window; `pixels`, one behind the last, for a place in the pads. */
static int64_t pixel_of(const columns *w, int64_t cell, int64_t window)
{
    int64_t at = 0, stride = 1;

    for (size_t i = w->axes; i-- > 0;) {
        const int64_t p = window % w->out[i] * w->stride[i] + cell % w->block[i] * w->dilation[i] -
                          w->pad[i];
        if (p < 0 || p >= w->image[i])
            return w->pixels;
        at += p * stride;
        stride *= w->image[i];
        window /= w->out[i];
        cell /= w->block[i];
    }
    return at;
}

/* x (n, channels cells, windows): each element is added to its pixel. */
weir_status weir_onnx_col2im(weir_onnx_call *c)
{
    weir_tensor *x = weir_onnx_x(c, 0);
    columns      w;

    if (!x)
        return weir_error_status();
    WEIR_TRY(read_columns(c, &w));
    const weir_desc d = weir_tensor_desc(x);
    if (d.ndim != 3 || d.dim[1] % w.cells || d.dim[2] != w.windows)
        return weir_onnx_refuse(c, "%" PRId64 " windows of %" PRId64 " elements", w.windows,
                                w.cells);
    const int64_t  all = w.cells * w.windows, planes = d.dim[0] * d.dim[1] / w.cells;
    int64_t *const list = weir_host_alloc((size_t)all * sizeof *list + 1);
    for (int64_t i = 0; list && i < all; i++)
        list[i] = pixel_of(&w, i / w.windows, i % w.windows);
    weir_tensor *const index = list ? weir_onnx_constant(c, weir_1d(WEIR_I64, all), list) : NULL;
    weir_host_free(list);
    if (!index)
        return weir_error_status();
    x = weir_transpose(weir_reshape(x, 2, (int64_t[]){planes, all}), NULL);
    weir_tensor *y = weir_fill(c->dev, weir_2d(d.dtype, w.pixels + 1, planes), 0);
    y = weir_scatter_add(y, index, x);
    y = y ? weir_transpose(weir_narrow(y, 0, 0, w.pixels), NULL) : NULL;
    int64_t dim[2 + AXES] = {d.dim[0], d.dim[1] / w.cells};
    memcpy(dim + 2, w.image, w.axes * sizeof *dim);
    return weir_onnx_give(c, 0, y ? weir_reshape(y, (int)w.axes + 2, dim) : NULL);
}

/* ---- MaxUnpool ---- */

/* Each element at its flat place, 0 elsewhere; an element that several windows found is there
 * once. The places are those of the smallest image; output_shape adds zeros behind it. */
weir_status weir_onnx_max_unpool(weir_onnx_call *c)
{
    weir_tensor *x = weir_onnx_x(c, 0), *at = weir_onnx_x(c, 1);
    int64_t      kernel[AXES], stride[AXES], pad[2 * AXES], want[WEIR_MAX_DIMS];
    int64_t      none[WEIR_MAX_DIMS] = {0}, more[WEIR_MAX_DIMS] = {0};
    size_t       n = 0;

    if (!x || !at)
        return weir_error_status();
    weir_desc    d = weir_tensor_desc(x);
    const size_t axes = (size_t)(d.ndim - 2);
    if (d.ndim < 3 || axes > AXES)
        return weir_onnx_refuse(c, "a tensor with %d axes", d.ndim);
    WEIR_TRY(axis_numbers(c, "kernel_shape", axes, 1, kernel));
    WEIR_TRY(axis_numbers(c, "strides", axes, 1, stride));
    WEIR_TRY(axis_numbers(c, "pads", 2 * axes, 0, pad));
    if (weir_onnx_has(c, 2))
        WEIR_TRY(weir_onnx_list(c, 2, want, WEIR_MAX_DIMS, &n));
    for (size_t i = 0; i < axes; i++) {
        if (d.dim[2 + i] < 1 || d.dim[2 + i] > INT32_MAX)
            return weir_onnx_refuse(c, "an axis of %" PRId64 " elements", d.dim[2 + i]);
        d.dim[2 + i] = (d.dim[2 + i] - 1) * stride[i] + kernel[i] - pad[i] - pad[axes + i];
    }
    bool grows = false;
    for (int i = 0; n && i < d.ndim; i++) {
        more[i] = n == (size_t)d.ndim ? want[i] - d.dim[i] : -1;
        grows = grows || more[i] > 0;
        if (more[i] < 0)
            return weir_onnx_refuse(c, "an output_shape that is too small");
    }
    weir_tensor *zeros = weir_fill(c->dev, d, 0); /* fails for a size that makes no sense */
    zeros = zeros ? weir_reshape(zeros, 1, (int64_t[]){weir_onnx_product(&d, 0, d.ndim)}) : NULL;
    weir_tensor *const times =
        weir_scatter_add(zeros, at, weir_fill(c->dev, weir_tensor_desc(x), 1));
    weir_tensor *const one = weir_onnx_scalar(c, d.dtype, 1);
    weir_tensor       *y = weir_div(weir_scatter_add(zeros, at, x), weir_max(times, one));
    y = y ? weir_reshape(y, d.ndim, d.dim) : NULL;
    return weir_onnx_give(c, 0, grows ? weir_pad(y, none, more, WEIR_PAD_CONSTANT, 0) : y);
}

/* ---- RoiAlign (He et al. 2017): samples of a region, each of the four pixels around it ---- */

typedef struct regions {
    weir_onnx_call *c;
    weir_tensor    *rows; /* (images height width, channels) */
    weir_dtype      type;
    int64_t         height, width, channels, out[2];
    double          scale, offset;
    int64_t         ratio;
    bool            largest, whole; /* whole: a region is at least one pixel */
} regions;

typedef struct samples {
    int64_t  n, grid[2];
    int64_t *index[4];
    double  *weight[4];
} samples;

/* The pixels around a place along an axis of n, and the share of the upper one. */
static double around(double at, int64_t n, int64_t *low, int64_t *high)
{
    at = at < 0 ? 0 : at;
    *low = (int64_t)at;
    if (*low >= n - 1) {
        *low = *high = n - 1;
        return 0;
    }
    *high = *low + 1;
    return at - (double)*low;
}

static void put_sample(const regions *r, samples *s, int64_t image, double y, double x)
{
    int64_t    row[2], column[2];
    const bool outside = y < -1 || y > (double)r->height || x < -1 || x > (double)r->width;
    const double v = around(y, r->height, &row[0], &row[1]);
    const double u = around(x, r->width, &column[0], &column[1]);

    for (int k = 0; k < 4; k++) {
        const double weight = (k / 2 ? v : 1 - v) * (k % 2 ? u : 1 - u);
        const int64_t at = (image * r->height + row[k / 2]) * r->width + column[k % 2];
        s->index[k][s->n] = outside ? image * r->height * r->width : at;
        s->weight[k][s->n] = outside ? 0 : weight;
    }
    s->n++;
}

/* Samples of all cells of a region with corners at[0..3] (x, y, x, y). */
static weir_status sample_region(const regions *r, const double at[4], int64_t image, samples *s)
{
    double start[2], cell[2];

    for (int k = 0; k < 2; k++) { /* k 0: y */
        start[k] = at[1 - k] * r->scale - r->offset;
        double size = at[3 - k] * r->scale - r->offset - start[k];
        size = r->whole && size < 1 ? 1 : size;
        cell[k] = size / (double)r->out[k];
        const double grid = r->ratio > 0 ? (double)r->ratio : ceil(cell[k]);
        if (!(grid <= 1024))
            return weir_onnx_refuse(r->c, "%g samples in a cell", grid);
        s->grid[k] = grid > 0 ? (int64_t)grid : 0;
    }
    const int64_t each = s->grid[0] * s->grid[1], all = each * r->out[0] * r->out[1];
    if (all > MOST / 4)
        return weir_onnx_refuse(r->c, "%" PRId64 " samples of a region", all);
    for (int k = 0; k < 4; k++) {
        s->index[k] = weir_host_alloc((size_t)all * sizeof *s->index[k] + 1);
        s->weight[k] = weir_host_alloc((size_t)all * sizeof *s->weight[k] + 1);
        if (!s->index[k] || !s->weight[k])
            return weir_error_status();
    }
    for (int64_t i = 0; i < all; i++) {
        const int64_t p = i / each, sy = i % each / s->grid[1], sx = i % s->grid[1];
        const double  y = (double)(p / r->out[1]) + ((double)sy + 0.5) / (double)s->grid[0];
        const double  x = (double)(p % r->out[1]) + ((double)sx + 0.5) / (double)s->grid[1];
        put_sample(r, s, image, start[0] + y * cell[0], start[1] + x * cell[1]);
    }
    return WEIR_OK;
}

/* (channels, out...) of a region: the mean or the largest of its samples. */
static weir_tensor *pool_region(const regions *r, const samples *s)
{
    const int64_t each = s->grid[0] * s->grid[1], cells = r->out[0] * r->out[1];
    weir_tensor  *y = NULL;

    if (each == 0)
        return weir_fill(r->c->dev, (weir_desc){r->type, 3, {r->channels, r->out[0], r->out[1]}},
                         0);
    for (int k = 0; k < 4; k++) {
        weir_tensor *const at =
            weir_onnx_constant(r->c, weir_1d(WEIR_I64, s->n), s->index[k]);
        weir_tensor *const w =
            weir_onnx_constant(r->c, weir_2d(WEIR_F64, s->n, 1), s->weight[k]);
        weir_tensor *const part =
            weir_mul(weir_gather(r->rows, at), w ? weir_onnx_as(w, r->type) : NULL);
        y = !y ? part : r->largest ? weir_max(y, part) : weir_add(y, part);
    }
    y = y ? weir_reshape(y, 3, (int64_t[]){cells, each, r->channels}) : NULL;
    y = !y ? NULL : r->largest ? weir_amax(y, 2, false) : weir_mean(y, 2, false);
    y = y ? weir_transpose(y, NULL) : NULL;
    return y ? weir_reshape(y, 3, (int64_t[]){r->channels, r->out[0], r->out[1]}) : NULL;
}

static weir_status read_regions(weir_onnx_call *c, weir_tensor *x, regions *r)
{
    static const int  axes[] = {0, 2, 3, 1};
    const weir_desc   d = weir_tensor_desc(x);
    const char *const mode = weir_onnx_str(c, "mode", "avg");
    const char *const from = weir_onnx_str(c, "coordinate_transformation_mode",
                                           c->opset < 16 ? "output_half_pixel" : "half_pixel");
    const bool        half = strcmp(from, "half_pixel") == 0;

    if (d.ndim != 4 || (strcmp(mode, "avg") != 0 && strcmp(mode, "max") != 0))
        return weir_onnx_refuse(c, "mode %.20s of a tensor with %d axes", mode, d.ndim);
    *r = (regions){.c = c, .type = d.dtype, .height = d.dim[2], .width = d.dim[3],
                   .channels = d.dim[1], .scale = weir_onnx_float(c, "spatial_scale", 1),
                   .offset = half ? 0.5 : 0, .ratio = weir_onnx_int(c, "sampling_ratio", 0),
                   .out = {weir_onnx_int(c, "output_height", 1),
                           weir_onnx_int(c, "output_width", 1)},
                   .largest = *mode == 'm', .whole = !half};
    if (r->out[0] < 1 || r->out[1] < 1 || r->out[0] > 1024 || r->out[1] > 1024 ||
        r->ratio > 1024 || r->height < 1 || r->width < 1)
        return weir_onnx_refuse(c, "regions of %" PRId64 " by %" PRId64 " cells", r->out[0],
                                r->out[1]);
    r->rows = weir_reshape(weir_transpose(x, axes), 2,
                           (int64_t[]){d.dim[0] * d.dim[2] * d.dim[3], d.dim[1]});
    return r->rows ? WEIR_OK : weir_error_status();
}

/* All of a region: (1, channels, out...). */
static weir_status align_region(const regions *r, const double at[4], int64_t image,
                                weir_tensor **y)
{
    samples s = {0};

    const weir_status status = sample_region(r, at, image, &s);
    *y = status == WEIR_OK ? pool_region(r, &s) : NULL;
    for (int k = 0; k < 4; k++) {
        weir_host_free(s.index[k]);
        weir_host_free(s.weight[k]);
    }
    return *y ? WEIR_OK : status == WEIR_OK ? weir_error_status() : status;
}

weir_status weir_onnx_roi_align(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    weir_desc          d, b;
    const void *const  corner = weir_onnx_known(c, 1, &d);
    const void *const  image = corner ? weir_onnx_known(c, 2, &b) : NULL;
    regions            r = {0};

    if (!x || !corner || !image)
        return weir_error_status();
    WEIR_TRY(read_regions(c, x, &r));
    if (d.ndim != 2 || d.dim[1] != 4 || b.ndim != 1 || b.dim[0] != d.dim[0] || d.dim[0] < 1 ||
        d.dim[0] > 4096)
        return weir_onnx_refuse(c, "regions with %d axes", d.ndim);
    const size_t        n = (size_t)d.dim[0];
    weir_tensor **const part = weir_host_alloc(n * sizeof *part);
    weir_status         s = part ? WEIR_OK : weir_error_status();
    for (size_t i = 0; i < n && s == WEIR_OK; i++) {
        const int64_t at = weir_onnx_integer(b.dtype, image, i);
        double        v[4];
        for (size_t k = 0; k < 4; k++)
            v[k] = weir_onnx_element(d.dtype, corner, 4 * i + k);
        s = at >= 0 && at < weir_tensor_desc(x).dim[0]
                ? align_region(&r, v, at, &part[i])
                : weir_onnx_refuse(c, "a region of image %" PRId64, at);
    }
    s = s == WEIR_OK ? weir_onnx_give(c, 0, weir_stack((int)n, part, 0)) : s;
    weir_host_free((void *)part);
    return s;
}

/* ---- determinants ---- */

/* Along the last row: minors of the first k rows are sums over those of the first k - 1. */
weir_status weir_onnx_det(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    weir_tensor       *minor[1 << DETERMINANT] = {NULL};

    if (!x)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    const int64_t   n = d.ndim >= 2 ? d.dim[d.ndim - 1] : 0;
    if (d.ndim < 2 || d.dim[d.ndim - 2] != n || n < 1 || n > DETERMINANT)
        return weir_onnx_refuse(c, "matrices that are not square, or of more than %d rows",
                                DETERMINANT);
    for (unsigned set = 1; set < 1u << n; set++) {
        const int    row = __builtin_popcount(set) - 1;
        weir_tensor *sum = NULL;
        for (int j = 0, at = 0; j < n; j++) {
            if (!(set >> j & 1))
                continue;
            weir_tensor *const line = weir_squeeze(weir_narrow(x, d.ndim - 2, row, 1), d.ndim - 2);
            weir_tensor       *term = weir_squeeze(weir_narrow(line, d.ndim - 2, j, 1), d.ndim - 2);
            term = row ? weir_mul(term, minor[set & ~(1u << j)]) : term;
            const bool minus = (row + at++) % 2 != 0;
            sum = !sum ? minus ? weir_neg(term) : term
                       : minus ? weir_sub(sum, term) : weir_add(sum, term);
        }
        minor[set] = sum;
    }
    return weir_onnx_give(c, 0, weir_onnx_same(minor[(1u << n) - 1]));
}
