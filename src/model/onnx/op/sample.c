/* sample.c - GridSample, AffineGrid, DeformConv: an image read at places that a network computes.
 *
 * A sample is a weighted sum of the elements around its place, two or four along each axis; these
 * are gathered one corner after the other, so image and grid both have gradients. Definitions:
 * onnx.ai/onnx/operators/onnx__GridSample.html (Jaderberg et al. 2015), which agree with PyTorch's
 * grid_sample; cubic weights Keys 1981 with a = -0.75. */
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "model/onnx/op/ops.h"

enum { AXES = 3, TAPS = 4 };

typedef enum padding { ZEROS, BORDER, REFLECTION } padding;

/* The elements around the places along one axis; tensors have the shape of the places. */
typedef struct taps {
    int          count;
    weir_tensor *index[TAPS];  /* i64, inside the axis */
    weir_tensor *weight[TAPS]; /* 0 where the element lies outside and counts as 0 */
} taps;

typedef struct sampling {
    weir_onnx_call *c;
    weir_dtype      type;
    padding         padding;
    bool            corners; /* -1 and 1 are the centres of the outer elements, not their edges */
} sampling;

static weir_tensor *number(const sampling *s, double v)
{
    return weir_onnx_scalar(s->c, s->type, v);
}

/* From [-1, 1] to elements. */
static weir_tensor *place(const sampling *s, weir_tensor *g, int64_t n)
{
    const double size = (double)n;

    return s->corners ? weir_affine(g, (size - 1) / 2, (size - 1) / 2)
                      : weir_affine(g, size / 2, (size - 1) / 2);
}

/* Mirrored at both ends of the axis until it lies between them. */
static weir_tensor *reflected(const sampling *s, weir_tensor *x, int64_t n)
{
    const double low = s->corners ? 0 : -0.5, span = (double)n - (s->corners ? 1 : 0);

    if (span <= 0)
        return weir_affine(x, 0, 0);
    x = weir_abs(weir_affine(x, 1, -low));
    weir_tensor *const turns = weir_floor(weir_affine(x, 1 / span, 0));
    weir_tensor *const rest = weir_sub(x, weir_affine(turns, span, 0));
    weir_tensor *const odd =
        weir_gt(weir_remainder(turns, number(s, 2)), number(s, 0.5));
    return weir_affine(weir_where(odd, weir_affine(rest, -1, span), rest), 1, low);
}

/* Element `at` (whole numbers) with this weight. */
static void add_tap(const sampling *s, taps *t, weir_tensor *at, weir_tensor *weight, int64_t n)
{
    const double       last = (double)n - 1;
    weir_tensor *const inside = weir_logical_and(weir_ge(at, number(s, 0)),
                                                 weir_le(at, number(s, last)));

    t->index[t->count] = weir_cast(weir_clamp(weir_detach(at), 0, last), WEIR_I64);
    t->weight[t->count++] =
        s->padding == ZEROS ? weir_where(inside, weight, number(s, 0)) : weight;
}

static void nearest(const sampling *s, weir_tensor *x, int64_t n, taps *t)
{
    x = weir_round_even(x);
    if (s->padding == REFLECTION)
        x = reflected(s, x, n);
    add_tap(s, t, x, weir_affine(x, 0, 1), n);
}

static void linear(const sampling *s, weir_tensor *x, int64_t n, taps *t)
{
    if (s->padding == REFLECTION)
        x = reflected(s, x, n);
    if (s->padding != ZEROS)
        x = weir_clamp(x, 0, (double)n - 1);
    weir_tensor *const low = weir_floor(x), *const share = weir_sub(x, low);
    add_tap(s, t, low, weir_affine(share, -1, 1), n);
    add_tap(s, t, weir_affine(low, 1, 1), share, n);
}

/* a (k^3 - 5 k^2 + 8 k - 4) for a distance k from 1 to 2, (a+2) k^3 - (a+3) k^2 + 1 below. */
static weir_tensor *cubic_weight(weir_tensor *k, bool far)
{
    static const double a = -0.75;

    if (!far)
        return weir_affine(
            weir_mul(weir_square(k), weir_affine(k, a + 2, -(a + 3))), 1, 1);
    weir_tensor *const inner = weir_affine(weir_mul(k, weir_affine(k, 1, -5)), 1, 8);
    return weir_affine(weir_mul(k, inner), a, -4 * a);
}

static void cubic(const sampling *s, weir_tensor *x, int64_t n, taps *t)
{
    weir_tensor *const low = weir_floor(x), *const share = weir_sub(x, low);

    for (int i = -1; i <= 2; i++) {
        weir_tensor *const distance = weir_affine(share, i <= 0 ? 1 : -1, i <= 0 ? -i : i);
        add_tap(s, t, weir_affine(low, 1, i), cubic_weight(distance, i == -1 || i == 2), n);
    }
}

static weir_status read_mode(const sampling *s, int axes, int *reach)
{
    const char *const mode = weir_onnx_str(s->c, "mode", "linear");

    *reach = strcmp(mode, "nearest") == 0                                    ? 1
             : strcmp(mode, "linear") == 0 || strcmp(mode, "bilinear") == 0  ? 2
             : strcmp(mode, "cubic") == 0 || strcmp(mode, "bicubic") == 0    ? 4
                                                                             : 0;
    if (*reach == 0 || (*reach == 4 && axes != 2))
        return weir_onnx_refuse(s->c, "mode %.20s over %d axes", mode, axes);
    if (*reach == 4 && s->padding != ZEROS)
        return weir_onnx_refuse(s->c, "mode %.20s with a padding other than zeros", mode);
    return WEIR_OK;
}

static weir_status read_padding(sampling *s)
{
    static const char *const names[] = {"zeros", "border", "reflection"};
    const char *const        name = weir_onnx_str(s->c, "padding_mode", "zeros");
    int                      k = 0;

    while (k < 3 && strcmp(names[k], name) != 0)
        k++;
    s->padding = (padding)k;
    return k < 3 ? WEIR_OK : weir_onnx_refuse(s->c, "padding_mode %.20s", name);
}

/* The sum over all corners: rows (batch*elements, channels) at flat indices. */
static weir_tensor *weighted(weir_tensor *rows, weir_tensor *batch, const taps *t, int axes,
                             const int64_t *stride, weir_onnx_call *c)
{
    weir_tensor *sum = NULL;
    int          corners = 1;

    for (int a = 0; a < axes; a++)
        corners *= t[a].count;
    for (int k = 0; k < corners; k++) {
        weir_tensor *at = batch, *weight = NULL;
        for (int a = 0, rest = k; a < axes; rest /= t[a++].count) {
            const int i = rest % t[a].count;
            at = weir_add(at, weir_mul(t[a].index[i],
                                       weir_fill_int(c->dev, weir_scalar(WEIR_I64), stride[a])));
            weight = weight ? weir_mul(weight, t[a].weight[i]) : t[a].weight[i];
        }
        const weir_desc d = weir_tensor_desc(weight);
        weight = weir_unsqueeze(weight, d.ndim);
        weir_tensor *const term = weir_mul(weir_gather(rows, at), weight);
        sum = sum ? weir_add(sum, term) : term;
    }
    return sum;
}

weir_status weir_onnx_grid_sample(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0), *const grid = weir_onnx_x(c, 1);
    sampling           s = {.c = c, .corners = weir_onnx_int(c, "align_corners", 0) != 0};
    taps               t[AXES] = {{0}};
    int64_t            stride[AXES], elements = 1;
    int                last[AXES + 2], first[AXES + 2], reach;

    if (!x || !grid)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x), g = weir_tensor_desc(grid);
    const int       axes = d.ndim - 2;
    if (axes < 1 || axes > AXES || g.ndim != d.ndim || g.dim[g.ndim - 1] != axes ||
        g.dim[0] != d.dim[0])
        return weir_onnx_refuse(c, "a grid with %d axes for an image with %d", g.ndim, d.ndim);
    s.type = g.dtype;
    WEIR_TRY(read_padding(&s));
    WEIR_TRY(read_mode(&s, axes, &reach));
    for (int a = axes; a-- > 0; elements *= d.dim[2 + a]) {
        /* The grid's last axis counts from the image's last. */
        weir_tensor *at = weir_squeeze(weir_narrow(grid, g.ndim - 1, axes - 1 - a, 1), g.ndim - 1);
        if (d.dim[2 + a] < 1)
            return weir_onnx_refuse(c, "an image without elements");
        at = place(&s, at, d.dim[2 + a]);
        (reach == 1 ? nearest : reach == 2 ? linear : cubic)(&s, at, d.dim[2 + a], &t[a]);
        stride[a] = elements;
    }
    for (int i = 0; i < axes + 2; i++) { /* (n,c,...) -> (n,...,c), and back */
        last[i] = i == 0 ? 0 : i == axes + 1 ? 1 : i + 1;
        first[i] = i == 0 ? 0 : i == 1 ? axes + 1 : i - 1;
    }
    weir_tensor *const rows =
        weir_reshape(weir_transpose(x, last), 2, (int64_t[]){d.dim[0] * elements, d.dim[1]});
    weir_tensor *const batch = weir_onnx_ramp(c, d.dim[0], elements, g.ndim - 1, 0);
    weir_tensor *const y = weighted(rows, batch, t, axes, stride, c);
    return weir_onnx_give(c, 0, y ? weir_transpose(weir_onnx_as(y, d.dtype), first) : NULL);
}

/* ---- grids ---- */

/* The places of n elements in [-1, 1]: their centres, or from edge to edge. */
static weir_tensor *places(weir_onnx_call *c, weir_dtype t, int64_t n, bool corners)
{
    const double size = (double)n;

    if (corners)
        return weir_arange(c->dev, t, n, n > 1 ? -1 : 0, n > 1 ? 2 / (size - 1) : 1);
    return weir_arange(c->dev, t, n, 1 / size - 1, 2 / size);
}

/* theta (n, k, k+1) times (places, 1): the grid (n, sizes..., k). */
weir_status weir_onnx_affine_grid(weir_onnx_call *c)
{
    weir_tensor *const theta = weir_onnx_x(c, 0);
    const bool         corners = weir_onnx_int(c, "align_corners", 0) != 0;
    int64_t            size[AXES + 2];
    weir_tensor       *y = NULL;
    size_t             n;

    if (!theta)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(theta);
    WEIR_TRY(weir_onnx_list(c, 1, size, AXES + 2, &n));
    const int k = (int)n - 2;
    if (k < 2 || d.ndim != 3 || d.dim[0] != size[0] || d.dim[1] != k || d.dim[2] != k + 1)
        return weir_onnx_refuse(c, "matrices with %d axes for a size of %zu", d.ndim, n);
    for (int j = 0; j <= k; j++) { /* column j of theta times the places along its axis; k: 1 */
        int64_t      dim[AXES + 2] = {d.dim[0], 1, 1, 1, 1};
        const int    axis = k - 1 - j;
        weir_tensor *column = weir_narrow(theta, 2, j, 1);
        dim[k + 1] = k;
        column = weir_reshape(column, k + 2, dim);
        if (j < k) {
            int64_t along[AXES + 2] = {1, 1, 1, 1, 1};
            if (size[2 + axis] < 1)
                return weir_onnx_refuse(c, "a size of %" PRId64, size[2 + axis]);
            along[1 + axis] = size[2 + axis];
            column = weir_mul(column, weir_reshape(places(c, d.dtype, size[2 + axis], corners),
                                                   k + 2, along));
        }
        y = y ? weir_add(y, column) : column;
    }
    return weir_onnx_give(c, 0, y);
}

/* ---- deformable convolution (Dai et al. 2017, with a mask: Zhu et al. 2019) ---- */

typedef struct deformed {
    weir_onnx_call *c;
    weir_tensor    *rows, *offset, *mask; /* offset (n,groups,cells,2,h,w); mask: NULL or 5 axes */
    weir_desc       x;
    int64_t         parts, cells, kernel[2], stride[2], dilation[2], pad[4], out[2];
} deformed;

static weir_status read_deformed(deformed *s, const weir_desc *w, const weir_desc *offset)
{
    weir_onnx_call *const c = s->c;
    static const struct { const char *name; size_t at, n; int64_t otherwise; } of[] = {
        {"strides", offsetof(deformed, stride), 2, 1},
        {"dilations", offsetof(deformed, dilation), 2, 1},
        {"pads", offsetof(deformed, pad), 4, 0}};
    const int64_t *at;

    s->parts = weir_onnx_int(c, "offset_group", 1);
    if (s->x.ndim != 4 || w->ndim != 4 || offset->ndim != 4 || s->parts < 1 ||
        s->x.dim[1] % s->parts)
        return weir_onnx_refuse(c, "%d axes of the image, %d of the filters", s->x.ndim, w->ndim);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const size_t n = weir_onnx_ints(c, of[i].name, &at);
        for (size_t k = 0; k < of[i].n; k++) {
            int64_t *const to = (int64_t *)(void *)((char *)s + of[i].at) + k;
            *to = n ? n == of[i].n ? at[k] : -1 : of[i].otherwise;
            if (*to < of[i].otherwise || *to > INT32_MAX)
                return weir_onnx_refuse(c, "%s has %zu numbers, or one too small", of[i].name, n);
        }
    }
    for (int i = 0; i < 2; i++) {
        s->kernel[i] = w->dim[2 + i];
        const int64_t room = s->x.dim[2 + i] + s->pad[i] + s->pad[2 + i] -
                             (s->kernel[i] - 1) * s->dilation[i] - 1;
        s->out[i] = room < 0 || s->kernel[i] < 1 || s->kernel[i] > 64 ? 0 : room / s->stride[i] + 1;
    }
    s->cells = s->kernel[0] * s->kernel[1];
    const int64_t *const o = offset->dim;
    if (s->out[0] < 1 || s->out[1] < 1 || o[0] != s->x.dim[0] || o[1] != 2 * s->parts * s->cells ||
        o[2] != s->out[0] || o[3] != s->out[1])
        return weir_onnx_refuse(c, "offsets that do not fit the windows");
    return WEIR_OK;
}

/* What one cell of all windows reads: (n,channels,h,w). */
static weir_tensor *read_cell(const deformed *s, int64_t cell)
{
    static const int     axes[] = {0, 1, 4, 2, 3};
    weir_onnx_call *const c = s->c;
    const sampling       how = {.c = c, .type = s->x.dtype, .padding = ZEROS};
    const int64_t        at[2] = {cell / s->kernel[1], cell % s->kernel[1]};
    const int64_t        stride[2] = {s->x.dim[3], 1}, pixels = s->x.dim[2] * s->x.dim[3];
    taps                 t[2] = {{0}};

    for (int i = 0; i < 2; i++) {
        const double       first = (double)(at[i] * s->dilation[i] - s->pad[i]);
        weir_tensor *const ramp = weir_onnx_ramp(c, s->out[i], s->stride[i], 4, 2 + i);
        weir_tensor *const place = weir_affine(weir_onnx_as(ramp, s->x.dtype), 1, first);
        weir_tensor *const two = weir_squeeze(weir_narrow(s->offset, 2, cell, 1), 2);
        weir_tensor *const move = weir_squeeze(weir_narrow(two, 2, i, 1), 2);
        linear(&how, weir_add(place, move), s->x.dim[2 + i], &t[i]);
    }
    weir_tensor *const group = weir_add(weir_onnx_ramp(c, s->x.dim[0], s->parts * pixels, 4, 0),
                                        weir_onnx_ramp(c, s->parts, pixels, 4, 1));
    weir_tensor *y = weighted(s->rows, group, t, 2, stride, c);
    if (y && s->mask)
        y = weir_mul(y, weir_unsqueeze(weir_squeeze(weir_narrow(s->mask, 2, cell, 1), 2), 4));
    y = y ? weir_transpose(y, axes) : NULL;
    return y ? weir_reshape(y, 4, (int64_t[]){s->x.dim[0], s->x.dim[1], s->out[0], s->out[1]})
             : NULL;
}

/* The sum over the cells of a window of convolutions with filters of one element. */
weir_status weir_onnx_deform_conv(weir_onnx_call *c)
{
    static const int   axes[] = {0, 1, 3, 4, 2};
    weir_tensor *const x = weir_onnx_x(c, 0), *const w = weir_onnx_x(c, 1);
    weir_tensor *const offset = weir_onnx_x(c, 2);
    weir_tensor *const bias = weir_onnx_has(c, 3) ? weir_onnx_x(c, 3) : NULL;
    weir_tensor *const mask = weir_onnx_has(c, 4) ? weir_onnx_x(c, 4) : NULL;
    weir_tensor       *y = NULL;
    deformed           s = {.c = c};

    if (!x || !w || !offset || (weir_onnx_has(c, 3) && !bias) || (weir_onnx_has(c, 4) && !mask))
        return weir_error_status();
    const weir_desc dw = weir_tensor_desc(w), d = weir_tensor_desc(offset);
    s.x = weir_tensor_desc(x);
    WEIR_TRY(read_deformed(&s, &dw, &d));
    const int64_t *const n = s.x.dim, each = n[1] / s.parts;
    s.rows = weir_transpose(weir_reshape(x, 5, (int64_t[]){n[0], s.parts, each, n[2], n[3]}), axes);
    s.rows = weir_reshape(s.rows, 2, (int64_t[]){n[0] * s.parts * n[2] * n[3], each});
    s.offset = weir_reshape(offset, 6, (int64_t[]){n[0], s.parts, s.cells, 2, s.out[0], s.out[1]});
    s.mask = mask ? weir_reshape(mask, 5, (int64_t[]){n[0], s.parts, s.cells, s.out[0], s.out[1]})
                  : NULL;
    if (!s.rows || !s.offset || (mask && !s.mask))
        return weir_error_status();
    const weir_conv2d_options o = {.groups = weir_onnx_int(c, "group", 1)};
    for (int64_t cell = 0; cell < s.cells; cell++) {
        weir_tensor *const row = weir_narrow(w, 2, cell / s.kernel[1], 1);
        weir_tensor *const filter = weir_narrow(row, 3, cell % s.kernel[1], 1);
        weir_tensor *const part = weir_conv2d(read_cell(&s, cell), filter, cell ? NULL : bias, &o);
        y = y ? weir_add(y, part) : part;
    }
    return weir_onnx_give(c, 0, y);
}
