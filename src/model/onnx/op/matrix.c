/* matrix.c - matrix products, convolutions and pooling; one axis is computed as two. */
#include <string.h>

#include "model/onnx/op/ops.h"

weir_status weir_onnx_matmul(weir_onnx_call *c)
{
    weir_tensor *const a = weir_onnx_x(c, 0);
    return weir_onnx_give(c, 0, weir_matmul(a, weir_onnx_x(c, 1)));
}

/* x w^T + bias, with a bias of one axis or none. */
static bool is_linear(weir_onnx_call *c, weir_tensor *x, weir_tensor *w, weir_tensor *bias)
{
    const weir_desc d = weir_tensor_desc(w), add = weir_tensor_desc(bias);

    return weir_onnx_int(c, "transB", 0) && !weir_onnx_int(c, "transA", 0) &&
           weir_onnx_float(c, "alpha", 1) == 1 && weir_onnx_float(c, "beta", 1) == 1 &&
           weir_tensor_desc(x).ndim == 2 && d.ndim == 2 &&
           (!bias || (add.ndim == 1 && add.dim[0] == d.dim[0] && add.dtype == d.dtype));
}

weir_status weir_onnx_gemm(weir_onnx_call *c)
{
    weir_tensor *const a = weir_onnx_x(c, 0), *const b = weir_onnx_x(c, 1);
    weir_tensor *const add = weir_onnx_has(c, 2) ? weir_onnx_x(c, 2) : NULL;
    const bool         ta = weir_onnx_int(c, "transA", 0) != 0;
    const bool         tb = weir_onnx_int(c, "transB", 0) != 0;

    if (!a || !b || (weir_onnx_has(c, 2) && !add))
        return weir_error_status();
    if (is_linear(c, a, b, add))
        return weir_onnx_give(c, 0, weir_linear(a, b, add));
    return weir_onnx_give(c, 0,
                          weir_gemm(a, b, add, weir_onnx_float(c, "alpha", 1),
                                    weir_onnx_float(c, "beta", 1), ta, tb));
}

enum { EQUATION = 200 };

/* Labels that occur once, in order of the alphabet: the result where an equation has no "->". */
static void add_result(char *equation)
{
    size_t n = strlen(equation);
    char   labels[54];
    size_t k = 0;

    for (int letter = 'A'; letter <= 'z'; letter++) {
        const char *const at = letter > 'Z' && letter < 'a' ? NULL : strchr(equation, letter);
        if (at && !strchr(at + 1, letter))
            labels[k++] = (char)letter;
    }
    if (n + k + 3 > EQUATION)
        return;
    memcpy(equation + n, "->", 2);
    memcpy(equation + n + 2, labels, k);
    equation[n + 2 + k] = 0;
}

/* The first operand's labels, of which one that stands twice is a diagonal: x where both axes have
 * one place, by a mask, and the second of them summed. Labels after it move on. */
static weir_tensor *diagonal(weir_onnx_call *c, weir_tensor *x, char *equation)
{
    for (size_t i = 0; x && equation[i] && !strchr(",-", equation[i]); i++) {
        char *const twin = strchr(equation + i + 1, equation[i]);
        const size_t k = twin ? (size_t)(twin - equation) : 0;
        if (!twin || memchr(equation, ',', k) || memchr(equation, '-', k))
            continue;
        const weir_desc d = weir_tensor_desc(x);
        if (k >= (size_t)d.ndim || d.dim[i] != d.dim[k])
            return (void)weir_onnx_refuse(c, "label %c has two sizes", equation[i]), NULL;
        weir_tensor *const on = weir_eq(weir_onnx_ramp(c, d.dim[i], 1, d.ndim, (int)i),
                                        weir_onnx_ramp(c, d.dim[k], 1, d.ndim, (int)k));
        weir_tensor *const sum =
            weir_sum(weir_where(on, x, weir_onnx_scalar(c, d.dtype, 0)), 1u << k, false);
        x = weir_onnx_as(sum, d.dtype);
        memmove(twin, twin + 1, strlen(twin));
    }
    return x;
}

/* "..." of one operand as letters of its other axes. */
static weir_status spell_out(weir_onnx_call *c, const char *given, int ndim, char *equation)
{
    const char *const spare = "ZYXWVUTS";
    size_t            n = 0, named = 0;

    for (const char *p = given; *p && !strchr(",-", *p); p++)
        named += *p != '.' && *p != ' ';
    const size_t more = strstr(given, "...") && (size_t)ndim > named ? (size_t)ndim - named : 0;
    for (const char *p = given; *p; p++) {
        const bool dots = strncmp(p, "...", 3) == 0;
        if (n + more + 2 > EQUATION)
            return weir_onnx_refuse(c, "an equation of more than %d letters", EQUATION);
        if (dots) {
            memcpy(equation + n, spare, more);
            n += more;
            p += 2;
        } else if (*p != ' ') {
            equation[n++] = *p;
        }
    }
    equation[n] = 0;
    return WEIR_OK;
}

weir_status weir_onnx_einsum(weir_onnx_call *c)
{
    const char *const given = weir_onnx_str(c, "equation", "");
    char              equation[EQUATION];

    if (c->node->n_in < 1 || c->node->n_in > 2)
        return weir_onnx_refuse(c, "%zu operands", c->node->n_in);
    weir_tensor       *a = weir_onnx_x(c, 0);
    weir_tensor *const b = c->node->n_in == 2 ? weir_onnx_x(c, 1) : NULL;
    if (!a || (c->node->n_in == 2 && !b))
        return weir_error_status();
    if (b && strstr(given, "..."))
        return weir_onnx_refuse(c, "'...' of two operands");
    WEIR_TRY(spell_out(c, given, weir_tensor_desc(a).ndim, equation));
    if (!strstr(equation, "->"))
        add_result(equation);
    if (!b)
        a = diagonal(c, a, equation);
    return weir_onnx_give(c, 0, weir_einsum(equation, a, b));
}

/* ---- windows ---- */

/* What attributes say of a window over one or two axes; one axis is the second of two. */
typedef struct window {
    int     axes;
    int64_t kernel[2], stride[2], dilation[2], begin[2], end[2];
} window;

/* The numbers of an attribute, `otherwise` where it is not given; pads: behind the first `axes`. */
static weir_status numbers(weir_onnx_call *c, const char *name, int axes, int64_t otherwise,
                           int64_t to[2], int64_t behind[2])
{
    const int64_t *at;
    const size_t   n = weir_onnx_ints(c, name, &at);

    to[0] = to[1] = otherwise;
    if (behind)
        behind[0] = behind[1] = otherwise;
    if (n == 0)
        return WEIR_OK;
    if (n != (size_t)(behind ? 2 * axes : axes))
        return weir_onnx_refuse(c, "%s has %zu numbers for %d axes", name, n, axes);
    for (int i = 0; i < axes; i++) {
        to[2 - axes + i] = at[i];
        if (behind)
            behind[2 - axes + i] = at[axes + i];
        if (at[i] < 0 || at[i] > INT32_MAX ||
            (behind && (at[axes + i] < 0 || at[axes + i] > INT32_MAX)))
            return weir_onnx_refuse(c, "a negative or huge number in %s", name);
    }
    return WEIR_OK;
}

/* SAME: as many results as strides fit; the odd element goes to the end (upper) or the front. */
static weir_status auto_pad(weir_onnx_call *c, window *w, const int64_t size[2])
{
    const char *const mode = weir_onnx_str(c, "auto_pad", "NOTSET");
    const bool        upper = strcmp(mode, "SAME_UPPER") == 0;

    if (strcmp(mode, "NOTSET") == 0 || !*mode)
        return WEIR_OK;
    for (int i = 0; i < 2; i++)
        w->begin[i] = w->end[i] = 0;
    if (strcmp(mode, "VALID") == 0)
        return WEIR_OK;
    if (!upper && strcmp(mode, "SAME_LOWER") != 0)
        return weir_onnx_refuse(c, "auto_pad %.20s", mode);
    for (int i = 2 - w->axes; i < 2; i++) {
        const int64_t out = (size[i] + w->stride[i] - 1) / w->stride[i];
        const int64_t all =
            (out - 1) * w->stride[i] + w->dilation[i] * (w->kernel[i] - 1) + 1 - size[i];
        const int64_t less = all > 0 ? all / 2 : 0, more = all > 0 ? all - less : 0;
        w->begin[i] = upper ? less : more;
        w->end[i] = upper ? more : less;
    }
    return WEIR_OK;
}

/* kernel: the sizes that the filters have; NULL: those of kernel_shape. */
static weir_status read_window(weir_onnx_call *c, const weir_desc *x, const weir_desc *filters,
                               window *w)
{
    w->axes = x->ndim - 2;
    if (w->axes < 1 || w->axes > 2)
        return weir_onnx_refuse(c, "windows over %d axes; Weir has them over 1 and 2", w->axes);
    if (filters && filters->ndim != x->ndim)
        return weir_onnx_refuse(c, "filters with %d axes for a tensor with %d", filters->ndim,
                                x->ndim);
    const int64_t size[2] = {w->axes == 2 ? x->dim[2] : 1, x->dim[x->ndim - 1]};
    WEIR_TRY(numbers(c, "kernel_shape", w->axes, 1, w->kernel, NULL));
    for (int i = 0; filters && i < w->axes; i++)
        w->kernel[2 - w->axes + i] = filters->dim[2 + i];
    WEIR_TRY(numbers(c, "strides", w->axes, 1, w->stride, NULL));
    WEIR_TRY(numbers(c, "dilations", w->axes, 1, w->dilation, NULL));
    WEIR_TRY(numbers(c, "pads", w->axes, 0, w->begin, w->end));
    w->kernel[0] = w->axes == 1 ? 1 : w->kernel[0];
    w->stride[0] = w->axes == 1 ? 1 : w->stride[0];
    w->dilation[0] = w->axes == 1 ? 1 : w->dilation[0];
    if (w->axes == 1)
        w->begin[0] = w->end[0] = 0;
    for (int i = 0; i < 2; i++)
        if (w->stride[i] < 1 || w->dilation[i] < 1 || w->kernel[i] < 1)
            return weir_onnx_refuse(c, "a stride, dilation or kernel of 0");
    return auto_pad(c, w, size);
}

/* (a,b,l) -> (a,b,1,l), and back. */
static weir_tensor *wide(weir_tensor *x)
{
    return x && weir_tensor_desc(x).ndim == 3 ? weir_unsqueeze(x, 2) : x;
}

static weir_tensor *narrow_back(weir_tensor *y, const window *w)
{
    return y && w->axes == 1 ? weir_squeeze(y, 2) : y;
}

weir_status weir_onnx_conv_of(weir_onnx_call *c, weir_tensor *x, weir_tensor *filters,
                              weir_tensor *bias, weir_tensor **y)
{
    const weir_desc dx = weir_tensor_desc(x), df = weir_tensor_desc(filters);
    window          w;

    WEIR_TRY(read_window(c, &dx, &df, &w));
    const weir_conv2d_options o = {.stride = {w.stride[0], w.stride[1]},
                                   .dilation = {w.dilation[0], w.dilation[1]},
                                   .pad = {w.begin[0], w.begin[1]},
                                   .pad_end = {w.end[0], w.end[1]},
                                   .asymmetric = true,
                                   .groups = weir_onnx_int(c, "group", 1)};
    *y = narrow_back(weir_conv2d(wide(x), wide(filters), bias, &o), &w);
    return *y ? WEIR_OK : weir_error_status();
}

weir_status weir_onnx_conv(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0), *const filters = weir_onnx_x(c, 1);
    weir_tensor *const bias = weir_onnx_has(c, 2) ? weir_onnx_x(c, 2) : NULL;
    weir_tensor       *y;

    if (!x || !filters || (weir_onnx_has(c, 2) && !bias))
        return weir_error_status();
    if (weir_tensor_desc(x).ndim == 5)
        return weir_onnx_conv_volume(c);
    WEIR_TRY(weir_onnx_conv_of(c, x, filters, bias, &y));
    return weir_onnx_give(c, 0, y);
}

/* The pads, or the output_padding, that give a transposed convolution the size of output_shape, or
 * by auto_pad SAME that of its input times the stride. */
static weir_status wanted_size(weir_onnx_call *c, const weir_desc *x, window *w, int64_t more[2])
{
    const char *const mode = weir_onnx_str(c, "auto_pad", "NOTSET");
    const bool        upper = strcmp(mode, "SAME_UPPER") == 0;
    const bool        same = upper || strcmp(mode, "SAME_LOWER") == 0;
    int64_t           shape[2];

    if (weir_onnx_attr_of(c, "output_shape"))
        WEIR_TRY(numbers(c, "output_shape", w->axes, 0, shape, NULL));
    else if (!same)
        return WEIR_OK;
    for (int i = 2 - w->axes; i < 2; i++) {
        const int64_t size = x->dim[x->ndim - 2 + i];
        const int64_t want =
            weir_onnx_attr_of(c, "output_shape") ? shape[i] : size * w->stride[i];
        const int64_t all = (size - 1) * w->stride[i] + more[i] +
                            (w->kernel[i] - 1) * w->dilation[i] + 1 - want;
        const int64_t less = all > 0 ? all / 2 : 0, rest = all > 0 ? all - less : 0;
        w->begin[i] = upper ? less : rest;
        w->end[i] = upper ? rest : less;
        more[i] -= all < 0 ? all : 0;
    }
    return WEIR_OK;
}

/* What both ends share of the pads is the convolution's own, so that a file of Weir's has the bits
 * that were recorded; what one end has more is cut off. output_padding adds zeros' sums. */
weir_status weir_onnx_conv_transpose(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0), *const filters = weir_onnx_x(c, 1);
    weir_tensor *const bias = weir_onnx_has(c, 2) ? weir_onnx_x(c, 2) : NULL;
    window             w;
    int64_t            more[2], both[2];

    if (!x || !filters || (weir_onnx_has(c, 2) && !bias))
        return weir_error_status();
    const weir_desc dx = weir_tensor_desc(x), df = weir_tensor_desc(filters);
    if (dx.ndim == 5)
        return weir_onnx_conv_transpose_volume(c);
    WEIR_TRY(read_window(c, &dx, &df, &w));
    WEIR_TRY(numbers(c, "output_padding", w.axes, 0, more, NULL));
    if (w.axes == 1)
        more[0] = 0;
    WEIR_TRY(wanted_size(c, &dx, &w, more));
    for (int i = 0; i < 2; i++)
        both[i] = w.begin[i] < w.end[i] ? w.begin[i] : w.end[i];
    const weir_conv_transpose2d_options o = {.stride = {w.stride[0], w.stride[1]},
                                             .pad = {both[0], both[1]},
                                             .dilation = {w.dilation[0], w.dilation[1]},
                                             .output_pad = {more[0], more[1]},
                                             .groups = weir_onnx_int(c, "group", 1)};
    weir_tensor                        *y = weir_conv_transpose2d(wide(x), wide(filters), bias, &o);
    if (!y)
        return weir_error_status();
    const weir_desc dy = weir_tensor_desc(y);
    for (int i = 0; i < 2; i++) {
        const int64_t left = dy.dim[2 + i] - (w.begin[i] - both[i]) - (w.end[i] - both[i]);
        if (left < 1)
            return weir_onnx_refuse(c, "pads cut off the whole result");
        if (left < dy.dim[2 + i])
            y = weir_narrow(y, 2 + i, w.begin[i] - both[i], left);
    }
    return weir_onnx_give(c, 0, narrow_back(y, &w));
}

/* ---- pooling ---- */

/* ceil_mode: one more window where the last begins inside the tensor or the pad before it. */
static void round_up(window *w, const int64_t size[2])
{
    for (int i = 0; i < 2; i++) {
        const int64_t room = size[i] + w->begin[i] + w->end[i] - w->kernel[i];
        const int64_t more = room % w->stride[i];
        if (room < 0 || more == 0 ||
            (room / w->stride[i] + 1) * w->stride[i] >= size[i] + w->begin[i])
            continue;
        w->end[i] += w->stride[i] - more;
    }
}

static weir_status pool(weir_onnx_call *c, bool largest)
{
    weir_tensor *const x = weir_onnx_x(c, 0);
    const bool         up = weir_onnx_int(c, "ceil_mode", 0) != 0;
    const bool         all = weir_onnx_int(c, "count_include_pad", 0) != 0;
    window             w;

    if (!x)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    if (!weir_onnx_attr_of(c, "kernel_shape"))
        return weir_onnx_refuse(c, "no kernel_shape");
    const bool real = d.dtype == WEIR_F32 || d.dtype == WEIR_F64 || d.dtype == WEIR_F16 ||
                      d.dtype == WEIR_BF16;
    if (d.ndim > 4 || (up && all && !largest) || (largest && (weir_onnx_wants(c, 1) || !real)))
        return weir_onnx_pool_windows(c, largest);
    WEIR_TRY(read_window(c, &d, NULL, &w));
    if (w.dilation[0] != 1 || w.dilation[1] != 1)
        return weir_onnx_pool_windows(c, largest);
    const int64_t size[2] = {w.axes == 2 ? d.dim[2] : 1, d.dim[d.ndim - 1]};
    if (up)
        round_up(&w, size);
    const weir_pool2d_options o = {.kernel = {w.kernel[0], w.kernel[1]},
                                   .stride = {w.stride[0], w.stride[1]},
                                   .pad = {w.begin[0], w.begin[1]},
                                   .pad_end = {w.end[0], w.end[1]},
                                   .asymmetric = true,
                                   .exclude_pad = !all};
    weir_tensor *const        in = wide(x);
    return weir_onnx_give(
        c, 0, narrow_back(largest ? weir_max_pool2d(in, &o) : weir_avg_pool2d(in, &o), &w));
}

weir_status weir_onnx_max_pool(weir_onnx_call *c)
{
    return pool(c, true);
}

weir_status weir_onnx_average_pool(weir_onnx_call *c)
{
    return pool(c, false);
}

/* Over all axes after the channels. */
static weir_status whole(weir_onnx_call *c, weir_tensor *(*fn)(weir_tensor *, uint32_t, bool))
{
    weir_tensor *const x = weir_onnx_x(c, 0);

    if (!x)
        return weir_error_status();
    const int ndim = weir_tensor_desc(x).ndim;
    if (ndim < 3)
        return weir_onnx_refuse(c, "a tensor with %d axes", ndim);
    return weir_onnx_give(c, 0, fn(x, ((1u << ndim) - 1) & ~3u, true));
}

weir_status weir_onnx_global_average_pool(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0);

    if (x && weir_tensor_desc(x).ndim == 4)
        return weir_onnx_give(c, 0, weir_global_avg_pool2d(x));
    return whole(c, weir_mean);
}

weir_status weir_onnx_global_max_pool(weir_onnx_call *c)
{
    return whole(c, weir_amax);
}
