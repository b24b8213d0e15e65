/* matrix.c - products, convolutions, pooling, recurrent layers. Attributes: core/attr.h. */
#include "model/onnx/write/calls.h"

#include <string.h>

/* ---- products: ta, tb ---- */

/* The last two axes of input i swapped. */
static const char *flipped(weir_onnx_writer *w, const weir_onnx_written *c, uint32_t i)
{
    const int n = weir_onnx_in_desc(w, c, i)->ndim;
    int       axis[WEIR_MAX_DIMS];

    for (int k = 0; k < n; k++)
        axis[k] = k < n - 2 ? k : 2 * n - 3 - k;
    return weir_onnx_transposed(w, NULL, weir_onnx_in(w, c, i), n, axis);
}

void weir_onnx_write_matmul(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const int64_t *const a = c->call->attr;
    const char *const    in[] = {weir_onnx_in(w, c, 0), weir_onnx_in(w, c, 1)};
    const weir_onnx_set  set[] = {WEIR_SET_INT("transA", a[0]), WEIR_SET_INT("transB", a[1])};

    if (a[0] || a[1])
        weir_put_node(w, "Gemm", c->out[0], 2, in, 2, set);
    else
        weir_put_node2(w, "MatMul", c->out[0], in[0], in[1]);
}

void weir_onnx_write_batch_matmul(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const int64_t *const a = c->call->attr;
    const char *const    x = a[0] ? flipped(w, c, 0) : weir_onnx_in(w, c, 0);

    weir_put_node2(w, "MatMul", c->out[0], x, a[1] ? flipped(w, c, 1) : weir_onnx_in(w, c, 1));
}

void weir_onnx_write_linear(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const char *in[3];

    for (uint32_t i = 0; i < c->uses; i++)
        in[i] = weir_onnx_in(w, c, i);
    weir_put_node(w, "Gemm", c->out[0], c->uses, in, 1,
                   &(weir_onnx_set)WEIR_SET_INT("transB", 1));
}

/* ---- windows ---- */

/* stride, pad, pad_end, dilation of two axes each, groups. */
static void convolve(weir_onnx_writer *w, const weir_onnx_written *c, const char *op,
                     const int64_t *output_pad)
{
    const int64_t *const   a = c->call->attr;
    const weir_desc *const f = weir_onnx_in_desc(w, c, 1);
    const char            *in[3];
    const weir_onnx_set    set[] = {
        WEIR_SET_LIST("kernel_shape", f->dim + 2, 2), WEIR_SET_LIST("strides", a, 2),
        WEIR_SET_LIST("pads", a + 2, 4), WEIR_SET_LIST("dilations", a + 6, 2),
        WEIR_SET_INT("group", a[8]), WEIR_SET_LIST("output_padding", output_pad, 2)};

    for (uint32_t i = 0; i < c->uses; i++)
        in[i] = weir_onnx_in(w, c, i);
    weir_put_node(w, op, c->out[0], c->uses, in, output_pad ? 6 : 5, set);
}

void weir_onnx_write_conv2d(weir_onnx_writer *w, const weir_onnx_written *c)
{
    convolve(w, c, "Conv", NULL);
}

/* Words 9 and 10 are the size of the result. */
void weir_onnx_write_conv_transpose2d(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const int64_t *const   a = c->call->attr;
    const weir_desc *const x = weir_onnx_in_desc(w, c, 0), *const f = weir_onnx_in_desc(w, c, 1);
    int64_t                more[2];

    for (int i = 0; i < 2; i++)
        more[i] = a[9 + i] - ((x->dim[2 + i] - 1) * a[i] - a[2 + i] - a[4 + i] +
                              (f->dim[2 + i] - 1) * a[6 + i] + 1);
    convolve(w, c, "ConvTranspose", more);
}

/* kernel, stride, pad, pad_end of two axes each, exclude_pad. */
static void pool(weir_onnx_writer *w, const weir_onnx_written *c, const char *op, bool average)
{
    const int64_t *const a = c->call->attr;
    const char *const    x = weir_onnx_in(w, c, 0);
    const weir_onnx_set  set[] = {WEIR_SET_LIST("kernel_shape", a, 2),
                                  WEIR_SET_LIST("strides", a + 2, 2),
                                  WEIR_SET_LIST("pads", a + 4, 4),
                                  WEIR_SET_INT("count_include_pad", !a[8])};

    weir_put_node(w, op, c->out[0], 1, &x, average ? 4 : 3, set);
}

void weir_onnx_write_max_pool2d(weir_onnx_writer *w, const weir_onnx_written *c)
{
    pool(w, c, "MaxPool", false);
}

void weir_onnx_write_avg_pool2d(weir_onnx_writer *w, const weir_onnx_written *c)
{
    pool(w, c, "AveragePool", true);
}

/* The corners of pixels meet (half_pixel), as PyTorch's align_corners=False. */
void weir_onnx_write_upsample_bilinear(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const int64_t *const a = c->call->attr;
    const float          scale[4] = {1, 1, (float)a[0], (float)a[1]};
    const weir_desc      four = {WEIR_F32, 1, {4}}, none = {WEIR_F32, 1, {0}};
    const char *const    in[] = {weir_onnx_in(w, c, 0),
                                 w->opset < 13 ? weir_onnx_elements_of(w, &none, scale, 0) : "",
                                 weir_onnx_elements_of(w, &four, scale, sizeof scale)};
    const weir_onnx_set  set[] = {WEIR_SET_TEXT("mode", "linear"),
                                  WEIR_SET_TEXT("coordinate_transformation_mode", "half_pixel")};

    weir_put_node(w, "Resize", c->out[0], 3, in, 2, set);
}

/* ---- lstm: sums of gates (t,n,4w), w_hh (4w,w), h0, c0 (n,w) ---- */

/* Rows of gates i f g o, as Weir has them, in ONNX's order i o f g. */
static const char *gates(weir_onnx_writer *w, const char *x, int64_t width)
{
    const weir_desc d = {WEIR_I64, 1, {4 * width}};
    int64_t *const  row = weir_host_alloc((size_t)(4 * width + 1) * sizeof *row);

    w->failed = w->failed || !row;
    for (int64_t i = 0; row && i < width; i++) {
        row[i] = i;
        row[width + i] = 3 * width + i;
        row[2 * width + i] = width + i;
        row[3 * width + i] = 2 * width + i;
    }
    const char *const rows =
        row ? weir_onnx_elements_of(w, &d, row, (size_t)(4 * width) * sizeof *row) : NULL;
    weir_host_free(row);
    return weir_put_node2(w, "Gather", NULL, x, rows);
}

/* The sums hold the input's part already, so its weights are the identity. */
static const char *identity(weir_onnx_writer *w, int64_t n, weir_dtype t)
{
    const weir_desc   d = {t, 2, {n, n}};
    const char *const zeros = weir_onnx_filled(w, NULL, &d, 0);

    return weir_put_node1(w, "EyeLike", NULL, zeros);
}

static const char *one_direction(weir_onnx_writer *w, const char *x, const weir_desc *d)
{
    const weir_desc to = {d->dtype, 3, {1, d->dim[0], d->dim[1]}};

    return weir_onnx_reshaped(w, NULL, x, &to);
}

void weir_onnx_write_lstm(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const weir_desc *const sums = weir_onnx_in_desc(w, c, 0), *const r = weir_onnx_in_desc(w, c, 1);
    const int64_t          width = r->dim[1];
    const weir_desc        square = {sums->dtype, 2, {4 * width, 4 * width}};
    const char *const      weights = gates(w, identity(w, 4 * width, sums->dtype), width);
    const char *const      in[] = {
        weir_onnx_in(w, c, 0), one_direction(w, weights, &square),
        one_direction(w, gates(w, weir_onnx_in(w, c, 1), width), r), "", "",
        one_direction(w, weir_onnx_in(w, c, 2), weir_onnx_in_desc(w, c, 2)),
        one_direction(w, weir_onnx_in(w, c, 3), weir_onnx_in_desc(w, c, 3))};
    const weir_onnx_set    set[] = {
        WEIR_SET_INT("hidden_size", width),
        WEIR_SET_TEXT("direction", c->call->attr[0] ? "reverse" : "forward")};
    const char *const      out[] = {weir_onnx_fresh(w, w->node), "", weir_onnx_fresh(w, w->node)};

    weir_put_node_of(w, "LSTM", c->out[2] ? 3 : 1, out, 7, in, 2, set);
    if (c->out[1])
        weir_onnx_reshaped(w, c->out[1], out[0], weir_onnx_out_desc(w, c, 1));
    if (c->out[2])      /* (1,n,w), the cells of the last step: the only ones that are read */
        weir_onnx_expanded(w, c->out[2], out[2], weir_onnx_out_desc(w, c, 2));
}

const char *weir_onnx_lstm_refused(const weir_onnx_writer *w, const weir_onnx_written *c)
{
    const uint32_t         cells = w->r.value[c->call->out[2]].storage;
    const weir_desc *const d = weir_onnx_out_desc(w, c, 2);
    const int64_t          step = d->dim[1] * d->dim[2];
    const int64_t          last = c->call->attr[0] ? 0 : (d->dim[0] - 1) * step;

    for (uint32_t i = 0; i < w->r.values; i++) {
        const weir_recording_value *const v = &w->r.value[i];
        if (w->needed[cells] && v->storage == cells && i != c->call->out[2] &&
            (v->offset < last || v->offset + weir_recording_count(&v->layout.desc) > last + step))
            return "cells of other steps than the last are read";
    }
    for (uint32_t i = 0; i < w->r.outputs; i++)
        if (w->r.output[i].value == c->call->out[2])
            return "cells of other steps than the last are read";
    return NULL;
}
