/* onnx_ops.c - single operators that are composed of several: values worked out by hand, gradients
 * through what moves elements by weights or indices. */
#include "model/onnx/onnx_damage.h"

enum { MOST = 32 };

/* Numbers of a tensor with up to 5 axes. */
typedef struct numbers {
    int     ndim;
    int64_t dim[5];
    double  v[MOST];
} numbers;

static size_t count_of(const numbers *t)
{
    size_t n = 1;

    for (int i = 0; i < t->ndim; i++)
        n *= (size_t)t->dim[i];
    return n;
}

static weir_desc desc_of(const numbers *t, weir_dtype type)
{
    weir_desc d = {.dtype = type, .ndim = t->ndim};

    memcpy(d.dim, t->dim, sizeof t->dim);
    return d;
}

/* An operator with float inputs, and integer ones, which are initializers of the model. */
typedef struct sample {
    const char *op, *in, *floats, *ints;        /* names: all inputs, those of each type */
    void      (*attributes)(pb *a);
    numbers     x[3], i[2], y;
    const char *says;                           /* part of a refusal; NULL: y comes out */
    int64_t     opset;
} sample;

static const char *nth(const char *names, int n, char name[8])
{
    for (; n > 0; n--)
        names = strchr(names, ',') + 1;
    snprintf(name, 8, "%.*s", (int)strcspn(names, ","), names);
    return name;
}

static int length(const char *names)
{
    int n = names && *names ? 1 : 0;

    for (const char *p = names; p && *p; p++)
        n += *p == ',';
    return n;
}

static void build(const sample *s, pb *m)
{
    static pb g;
    pb        a = {0};
    char      name[8];

    g = (pb){0};
    for (int k = 0; k < length(s->floats); k++)
        net_input(&g, nth(s->floats, k, name), PB_F32, s->x[k].ndim, s->x[k].dim);
    for (int k = 0; k < length(s->ints); k++) {
        int64_t v[MOST];
        for (size_t e = 0; e < count_of(&s->i[k]); e++)
            v[e] = (int64_t)s->i[k].v[e];
        net_init(&g, nth(s->ints, k, name), PB_I64, s->i[k].ndim, s->i[k].dim, v,
                 count_of(&s->i[k]) * sizeof *v);
    }
    if (s->attributes)
        s->attributes(&a);
    net_node(&g, s->op, s->in, "y", &a);
    net_output(&g, "y");
    net_model(m, &g, s->opset ? s->opset : 23);
}

static void write_floats(weir_tensor *t, const numbers *x)
{
    float v[MOST];

    for (size_t i = 0; i < count_of(x); i++)
        v[i] = (float)x->v[i];
    CHECK_OK(weir_write(t, v, count_of(x) * sizeof *v));
}

static int make_inputs(weir_device *d, const sample *s, weir_tensor **in)
{
    const int n = length(s->floats);

    for (int k = 0; k < n; k++) {
        in[k] = weir_input(d, desc_of(&s->x[k], WEIR_F32));
        write_floats(in[k], &s->x[k]);
    }
    return n;
}

static void check_sample(weir_device *d, const sample *s)
{
    static pb    m;
    float        got[MOST];
    weir_tensor *in[3], *out = NULL;

    build(s, &m);
    weir_onnx *const net = weir_onnx_open_bytes(d, m.at, m.n, NULL);
    if (!check_that(net != NULL, __FILE__, __LINE__, "%s: %s", s->op, weir_error()))
        return;
    const int n = make_inputs(d, s, in);
    CHECK_OK(weir_scope_begin(d));
    const weir_status status = weir_onnx_apply(net, (size_t)n, in, 1, &out);
    if (s->says) {
        check_that(status != WEIR_OK, __FILE__, __LINE__, "%s: computes what is refused", s->op);
        CHECK_TEXT(weir_error(), s->says);
    } else if (check_that(status == WEIR_OK, __FILE__, __LINE__, "%s: %s", s->op, weir_error())) {
        const weir_desc have = weir_tensor_desc(out), want = desc_of(&s->y, have.dtype);
        const bool      shape = have.ndim == want.ndim &&
                           memcmp(have.dim, want.dim, sizeof have.dim) == 0;
        if (check_that(shape, __FILE__, __LINE__, "%s: another shape", s->op) &&
            CHECK_OK(weir_read(out, got, count_of(&s->y) * sizeof *got)))
            for (size_t i = 0; i < count_of(&s->y); i++)
                check_that(fabs((double)got[i] - s->y.v[i]) < 1e-5, __FILE__, __LINE__,
                           "%s: element %zu is %g, not %g", s->op, i, (double)got[i], s->y.v[i]);
    }
    CHECK_OK(weir_scope_end(d));
    for (int k = 0; k < n; k++)
        weir_release(in[k]);
    weir_onnx_free(net);
}

/* ---- attributes ---- */

static void linear(pb *a)
{
    attr_text(a, "mode", "linear");
}

static void floor_corner(pb *a)
{
    attr_text(a, "nearest_mode", "floor");
    attr_text(a, "coordinate_transformation_mode", "asymmetric");
}

static void crop(pb *a)
{
    attr_text(a, "mode", "linear");
    attr_text(a, "coordinate_transformation_mode", "tf_crop_and_resize");
    attr_float(a, "extrapolation_value", 7);
}

static void lanczos(pb *a)
{
    attr_text(a, "mode", "lanczos");
}

static void ignore_1(pb *a)
{
    attr_int(a, "ignore_index", 1);
}

static void sum_ignore_1(pb *a)
{
    attr_int(a, "ignore_index", 1);
    attr_text(a, "reduction", "sum");
}

static void add(pb *a)
{
    attr_text(a, "reduction", "add");
}

static void median(pb *a)
{
    attr_text(a, "reduction", "median");
}

static void exclusive(pb *a)
{
    attr_int(a, "exclusive", 1);
}

static void axis_1(pb *a)
{
    attr_int(a, "axis", 1);
}

static void p_3(pb *a)
{
    attr_int(a, "p", 3);
}

static void causal(pb *a)
{
    attr_int(a, "is_causal", 1);
    attr_int(a, "q_num_heads", 1);
    attr_int(a, "kv_num_heads", 1);
}

static void one_head(pb *a)
{
    attr_int(a, "num_heads", 1);
}

static void two_heads(pb *a)
{
    attr_int(a, "num_heads", 2);
}

static void dilated(pb *a)
{
    attr_ints(a, "kernel_shape", 1, (int64_t[]){2}, true);
    attr_ints(a, "dilations", 1, (int64_t[]){2}, true);
    attr_ints(a, "pads", 2, (int64_t[]){1, 0}, true);
}

static void cube(pb *a)
{
    attr_ints(a, "kernel_shape", 3, (int64_t[]){2, 1, 2}, true);
    attr_ints(a, "pads", 6, (int64_t[]){0, 0, 0, 0, 0, 1}, true);
}

static void huge_window(pb *a)
{
    attr_ints(a, "kernel_shape", 3, (int64_t[]){2000, 1, 1}, true);
}

static void pairs(pb *a)
{
    attr_ints(a, "kernel_shape", 1, (int64_t[]){2}, true);
}

static void stride_2(pb *a)
{
    attr_ints(a, "strides", 3, (int64_t[]){2, 1, 1}, true);
    attr_ints(a, "pads", 6, (int64_t[]){1, 0, 0, 0, 0, 0}, true);
}

static void broadcast_from_1(pb *a)
{
    attr_int(a, "broadcast", 1);
    attr_int(a, "axis", 1);
}

static void smallest(pb *a)
{
    attr_int(a, "largest", 0);
}

static void corners(pb *a)
{
    attr_int(a, "align_corners", 1);
}

static void mirrored(pb *a)
{
    attr_text(a, "mode", "nearest");
    attr_text(a, "padding_mode", "reflection");
}

static void cubic_border(pb *a)
{
    attr_text(a, "mode", "cubic");
    attr_text(a, "padding_mode", "border");
}

static void last_axis(pb *a)
{
    attr_ints(a, "axes", 1, (int64_t[]){-1}, true);
}

static void rows_in_time(pb *a)
{
    attr_int(a, "time_axis", 1);
    attr_int(a, "batch_axis", 0);
}

static void one_hidden(pb *a)
{
    attr_int(a, "hidden_size", 1);
}

static void clipped(pb *a)
{
    attr_float(a, "clip", 1);
}

static void no_gates(pb *a)
{
    attr_text(a, "update_rule", "linear");
    attr_int(a, "q_num_heads", 1);
    attr_int(a, "kv_num_heads", 1);
}

static void swish(pb *a)
{
    attr_text(a, "activation", "relu");
}

static void size_5(pb *a)
{
    attr_ints(a, "strides", 2, (int64_t[]){1, 2}, true);
    attr_ints(a, "output_shape", 2, (int64_t[]){1, 5}, true);
}

static void uneven(pb *a)
{
    attr_ints(a, "strides", 2, (int64_t[]){1, 2}, true);
    attr_ints(a, "pads", 4, (int64_t[]){0, 1, 0, 2}, true);
}

static void all_cut(pb *a)
{
    attr_ints(a, "strides", 2, (int64_t[]){1, 2}, true);
    attr_ints(a, "pads", 4, (int64_t[]){0, 3, 0, 2}, true);
}

static void two_groups(pb *a)
{
    attr_int(a, "num_groups", 2);
    attr_float(a, "epsilon", 0);
}

static const sample samples[] = {
    {"MaxPool", "x", "x", NULL, dilated, {{3, {1, 1, 4}, {1, 5, 2, 3}}}, {{0}},
     {3, {1, 1, 3}, {5, 2, 5}}, NULL, 0},
    {"AveragePool", "x", "x", NULL, dilated, {{3, {1, 1, 4}, {1, 5, 2, 3}}}, {{0}},
     {3, {1, 1, 3}, {5, 1.5, 4}}, NULL, 0},
    {"AveragePool", "x", "x", NULL, cube, {{5, {1, 1, 2, 1, 2}, {1, 5, 2, 3}}}, {{0}},
     {5, {1, 1, 1, 1, 2}, {2.75, 4}}, NULL, 0},
    {"MaxPool", "x", "x", NULL, cube, {{5, {1, 1, 2, 1, 2}, {1, 5, 2, 3}}}, {{0}},
     {5, {1, 1, 1, 1, 2}, {5, 5}}, NULL, 0},
    {"MaxPool", "x", "x", NULL, huge_window, {{5, {1, 1, 2, 1, 2}, {0}}}, {{0}}, {0},
     "a window of more than 1024 elements", 0},
    {"LpPool", "x", "x", NULL, pairs, {{3, {1, 1, 3}, {3, -4, 0}}}, {{0}},
     {3, {1, 1, 2}, {5, 4}}, NULL, 0},
    {"Conv", "x,w,b", "x,w,b", NULL, stride_2,
     {{5, {1, 1, 3, 1, 2}, {1, 2, 3, 4, 5, 6}}, {5, {1, 1, 2, 1, 2}, {10, 1, 100, 1}},
      {1, {1}, {0.5}}},
     {{0}}, {5, {1, 1, 2, 1, 1}, {102.5, 540.5}}, NULL, 0},
    {"Add", "x,b", "x,b", NULL, broadcast_from_1,
     {{3, {1, 2, 2}, {1, 2, 3, 4}}, {1, {2}, {10, 20}}}, {{0}},
     {3, {1, 2, 2}, {11, 12, 23, 24}}, NULL, 6},
    /* 1, 2 -> 4 elements: at -0.25, 0.25, 0.75, 1.25 */
    {"Resize", "x,,,s", "x", "s", linear, {{2, {1, 2}, {1, 2}}}, {{1, {2}, {1, 4}}},
     {2, {1, 4}, {1, 1.25, 1.75, 2}}, NULL, 19},
    {"Resize", "x,,,s", "x", "s", floor_corner, {{2, {1, 3}, {1, 2, 3}}}, {{1, {2}, {2, 5}}},
     {2, {2, 5}, {1, 1, 2, 2, 3, 1, 1, 2, 2, 3}}, NULL, 19},
    /* A region of all elements, and one far away. */
    {"Resize", "x,r,,s", "x", "r,s", crop, {{2, {1, 2}, {1, 2}}},
     {{1, {4}, {0, 0, 0, 1}}, {1, {2}, {1, 3}}}, {2, {1, 3}, {1, 1.5, 2}}, NULL, 19},
    {"Resize", "x,r,,s", "x", "r,s", crop, {{2, {1, 2}, {1, 2}}},
     {{1, {4}, {0, 4e18, 0, 8e18}}, {1, {2}, {1, 2}}}, {2, {1, 2}, {7, 7}}, NULL, 19},
    {"Resize", "x,,,s", "x", "s", lanczos, {{2, {1, 2}, {1, 2}}}, {{1, {2}, {1, 4}}}, {0},
     "mode lanczos", 19},
    {"Resize", "x,,,s", "x", "s", NULL, {{2, {1, 2}, {0}}}, {{1, {2}, {1, 1 << 30}}}, {0},
     "2 elements become 1073741824", 19},
    {"Resize", "x,,,s", "x", "s", NULL, {{2, {1, 2}, {0}}}, {{1, {2}, {1, 1e18}}}, {0},
     "size 1e+18", 19},
    {"Resize", "x,,,s", "x", "s", NULL, {{2, {1, 2}, {1, 2}}}, {{1, {1}, {4}}}, {0},
     "0 scales and 1 sizes for 2 axes", 19},
    {"NegativeLogLikelihoodLoss", "x,t", "x", "t", NULL,
     {{2, {2, 3}, {-1, -2, -3, -4, -5, -6}}}, {{1, {2}, {2, 0}}}, {0, {0}, {3.5}}, NULL, 0},
    {"NegativeLogLikelihoodLoss", "x,t,w", "x,w", "t", ignore_1,
     {{2, {2, 3}, {-1, -2, -3, -4, -5, -6}}, {1, {3}, {2, 1, 4}}}, {{1, {2}, {2, 1}}},
     {0, {0}, {3}}, NULL, 0},
    {"NegativeLogLikelihoodLoss", "x,t,w", "x,w", "t", sum_ignore_1,
     {{3, {1, 3, 2}, {-1, -2, -3, -4, -5, -6}}, {1, {3}, {2, 1, 4}}}, {{2, {1, 2}, {2, 1}}},
     {0, {0}, {20}}, NULL, 0},
    {"NegativeLogLikelihoodLoss", "x,t", "x", "t", NULL, {{2, {2, 3}, {0}}}, {{1, {3}, {0}}}, {0},
     "classes do not have the shape of the scores", 0},
    {"SoftmaxCrossEntropyLoss", "x,t", "x", "t", NULL, {{2, {1, 2}, {0, 0}}}, {{1, {1}, {1}}},
     {0, {0}, {0.6931472}}, NULL, 0},
    {"ScatterElements", "x,i,u", "x,u", "i", axis_1,
     {{2, {1, 4}, {1, 2, 3, 4}}, {2, {1, 2}, {7, 0}}}, {{2, {1, 2}, {-1, 1}}},
     {2, {1, 4}, {1, 0, 3, 7}}, NULL, 0},
    {"ScatterElements", "x,i,u", "x,u", "i", axis_1,
     {{2, {2, 2}, {1, 2, 3, 4}}, {2, {1, 1}, {9}}}, {{2, {1, 1}, {2}}}, {0}, "index", 0},
    {"GatherElements", "x,i", "x", "i", axis_1, {{2, {2, 2}, {1, 2, 3, 4}}},
     {{2, {2, 2}, {0, 0, 1, -2}}}, {2, {2, 2}, {1, 1, 4, 3}}, NULL, 0},
    {"GatherElements", "x,i", "x", "i", axis_1, {{2, {2, 2}, {1, 2, 3, 4}}}, {{2, {1, 1}, {2}}},
     {0}, "index", 0},
    {"GatherElements", "x,i", "x", "i", NULL, {{2, {2, 2}, {1, 2, 3, 4}}},
     {{2, {1, 2}, {0, -3}}}, {0}, "index", 0},
    {"GatherND", "x,i", "x", "i", NULL, {{2, {2, 2}, {1, 2, 3, 4}}}, {{2, {2, 2}, {0, 0, 1, -1}}},
     {1, {2}, {1, 4}}, NULL, 0},
    {"GatherND", "x,i", "x", "i", NULL, {{2, {2, 2}, {1, 2, 3, 4}}}, {{2, {1, 2}, {0, 2}}}, {0},
     "index", 0},
    {"ScatterND", "x,i,u", "x,u", "i", add,
     {{2, {2, 2}, {1, 2, 3, 4}}, {1, {1}, {9}}}, {{2, {1, 2}, {0, 2}}}, {0}, "index", 0},
    {"ScatterND", "x,i,u", "x,u", "i", add,
     {{2, {2, 2}, {1, 2, 3, 4}}, {2, {2, 2}, {1, 1, 2, 2}}}, {{2, {2, 1}, {1, 1}}},
     {2, {2, 2}, {1, 2, 6, 7}}, NULL, 0},
    {"ScatterND", "x,i,u", "x,u", "i", median,
     {{1, {2}, {1, 2}}, {1, {1}, {1}}}, {{2, {1, 1}, {1}}}, {0}, "reduction median", 0},
    {"CumProd", "x,a", "x", "a", exclusive, {{1, {4}, {2, 3, 4, 5}}}, {{0, {0}, {0}}},
     {1, {4}, {1, 2, 6, 24}}, NULL, 26},
    {"LpNormalization", "x", "x", NULL, NULL, {{2, {2, 2}, {3, 4, 0, 0}}}, {{0}},
     {2, {2, 2}, {0.6, 0.8, 0, 0}}, NULL, 0},
    {"LpNormalization", "x", "x", NULL, p_3, {{2, {2, 2}, {0}}}, {{0}}, {0}, "p 3", 0},
    /* the first row sees one key; the second both, with scores 0 and 0 */
    {"Attention", "q,k,v", "q,k,v", NULL, causal,
     {{3, {1, 2, 1}, {0, 0}}, {3, {1, 2, 1}, {5, 7}}, {3, {1, 2, 1}, {1, 3}}}, {{0}},
     {3, {1, 2, 1}, {1, 2}}, NULL, 0},
    {"TopK", "x,k", "x", "k", NULL, {{2, {2, 3}, {1, 5, 5, 9, 7, 8}}}, {{1, {1}, {2}}},
     {2, {2, 2}, {5, 5, 9, 8}}, NULL, 0},
    {"TopK", "x,k", "x", "k", smallest, {{1, {4}, {3, -1, 2, -1}}}, {{1, {1}, {3}}},
     {1, {3}, {-1, -1, 2}}, NULL, 0},
    {"TopK", "x,k", "x", "k", NULL, {{1, {4}, {0}}}, {{1, {1}, {5}}}, {0}, "5 of 4 elements", 0},
    {"ReverseSequence", "x,n", "x", "n", rows_in_time, {{2, {2, 3}, {1, 2, 3, 4, 5, 6}}},
     {{1, {2}, {2, 1}}}, {2, {2, 3}, {2, 1, 3, 4, 5, 6}}, NULL, 0},
    {"TensorScatter", "x,u,n", "x,u", "n", NULL,
     {{3, {2, 3, 1}, {1, 2, 3, 4, 5, 6}}, {3, {2, 1, 1}, {70, 80}}}, {{1, {2}, {2, 0}}},
     {3, {2, 3, 1}, {1, 2, 70, 80, 5, 6}}, NULL, 24},
    {"CenterCropPad", "x,n", "x", "n", last_axis, {{2, {1, 4}, {1, 2, 3, 4}}}, {{1, {1}, {1}}},
     {2, {1, 1}, {2}}, NULL, 0},
    {"CenterCropPad", "x,n", "x", "n", NULL, {{2, {1, 2}, {1, 2}}}, {{1, {2}, {1, 5}}},
     {2, {1, 5}, {0, 1, 2, 0, 0}}, NULL, 0},
    /* at the middle of both columns, and half an element beyond the last one, where half is 0 */
    {"GridSample", "x,g", "x,g", NULL, corners,
     {{4, {1, 1, 1, 2}, {1, 3}}, {4, {1, 1, 2, 2}, {0, 0, 2, 0}}}, {{0}},
     {4, {1, 1, 1, 2}, {2, 1.5}}, NULL, 0},
    {"GridSample", "x,g", "x,g", NULL, mirrored,
     {{4, {1, 1, 1, 2}, {1, 3}}, {4, {1, 1, 2, 2}, {1.5, 0, 2.5, 0}}}, {{0}},
     {4, {1, 1, 1, 2}, {3, 1}}, NULL, 0},
    {"GridSample", "x,g", "x,g", NULL, cubic_border,
     {{4, {1, 1, 1, 2}, {0}}, {4, {1, 1, 2, 2}, {0}}}, {{0}}, {0},
     "a padding other than zeros", 0},
    {"AffineGrid", "t,n", "t", "n", NULL, {{3, {1, 2, 3}, {1, 0, 0.25, 0, 2, 0}}},
     {{1, {4}, {1, 1, 1, 2}}}, {4, {1, 1, 2, 2}, {-0.25, 0, 0.75, 0}}, NULL, 0},
    /* gates of 1/2 each; the candidate is tanh(1) */
    {"LSTM", "x,w,r", "x,w,r", NULL, one_hidden,
     {{3, {1, 1, 1}, {1}}, {3, {1, 4, 1}, {0, 0, 0, 1}}, {3, {1, 4, 1}, {0}}}, {{0}},
     {4, {1, 1, 1, 1}, {0.1816997}}, NULL, 0},
    {"GRU", "x,w,r", "x,w,r", NULL, NULL,
     {{3, {1, 1, 1}, {1}}, {3, {1, 3, 1}, {0, 0, 1}}, {3, {1, 3, 1}, {0}}}, {{0}},
     {4, {1, 1, 1, 1}, {0.3807971}}, NULL, 0},
    {"RNN", "x,w,r", "x,w,r", NULL, NULL,
     {{3, {2, 1, 1}, {1, 0}}, {3, {1, 1, 1}, {1}}, {3, {1, 1, 1}, {1}}}, {{0}},
     {4, {2, 1, 1, 1}, {0.7615942, 0.6420149}}, NULL, 0},
    {"RNN", "x,w,r", "x,w,r", NULL, clipped,
     {{3, {1, 1, 1}, {0}}, {3, {1, 1, 1}, {0}}, {3, {1, 1, 1}, {0}}}, {{0}}, {0}, "clip", 0},
    {"RNN", "x,w,r", "x,w,r", NULL, NULL,
     {{3, {1, 1, 1}, {0}}, {3, {1, 2, 1}, {0}}, {3, {1, 1, 1}, {0}}}, {{0}}, {0},
     "input 1 has another shape", 0},
    /* states 2, then 2 + 3 * 5; scale 1 */
    {"LinearAttention", "q,k,v", "q,k,v", NULL, no_gates,
     {{3, {1, 2, 1}, {1, 1}}, {3, {1, 2, 1}, {1, 3}}, {3, {1, 2, 1}, {2, 5}}}, {{0}},
     {3, {1, 2, 1}, {2, 17}}, NULL, 27},
    {"CausalConvWithState", "x,w", "x,w", NULL, NULL,
     {{3, {1, 1, 3}, {1, 2, 3}}, {3, {1, 1, 2}, {10, 1}}}, {{0}},
     {3, {1, 1, 3}, {1, 12, 23}}, NULL, 27},
    {"CausalConvWithState", "x,w", "x,w", NULL, swish,
     {{3, {1, 1, 1}, {0}}, {3, {1, 1, 1}, {0}}}, {{0}}, {0}, "activation relu", 27},
    {"ConvTranspose", "x,w", "x,w", NULL, size_5,
     {{4, {1, 1, 1, 2}, {1, 2}}, {4, {1, 1, 1, 2}, {1, 10}}}, {{0}},
     {4, {1, 1, 1, 5}, {1, 10, 2, 20, 0}}, NULL, 0},
    {"ConvTranspose", "x,w", "x,w", NULL, uneven,
     {{4, {1, 1, 1, 2}, {1, 2}}, {4, {1, 1, 1, 2}, {1, 10}}}, {{0}},
     {4, {1, 1, 1, 1}, {10}}, NULL, 0},
    {"ConvTranspose", "x,w", "x,w", NULL, all_cut,
     {{4, {1, 1, 1, 2}, {1, 2}}, {4, {1, 1, 1, 2}, {1, 10}}}, {{0}}, {0}, "cut off the whole", 0},
    {"SwiGLU", "a,b", "a,b", NULL, NULL, {{1, {2}, {0, 1}}, {1, {2}, {5, 2}}}, {{0}},
     {1, {2}, {0, 1.4621172}}, NULL, 28},
    /* -1, 1, -1, 1, scaled by group up to opset 20, then by channel */
    {"GroupNormalization", "x,s,b", "x,s,b", NULL, two_groups,
     {{3, {1, 4, 1}, {1, 3, 0, 4}}, {1, {2}, {2, 10}}, {1, {2}, {0, 100}}}, {{0}},
     {3, {1, 4, 1}, {-2, 2, 90, 110}}, NULL, 18},
    {"GroupNormalization", "x,s,b", "x,s,b", NULL, two_groups,
     {{3, {1, 4, 1}, {1, 3, 0, 4}}, {1, {4}, {1, 2, 3, 4}}, {1, {4}, {0, 0, 10, 10}}}, {{0}},
     {3, {1, 4, 1}, {-1, 2, 7, 14}}, NULL, 21},
    {"GroupNormalization", "x,s,b", "x,s,b", NULL, two_groups,
     {{3, {1, 3, 1}, {0}}, {1, {3}, {0}}, {1, {3}, {0}}}, {{0}}, {0}, "2 groups", 21},
    {"MeanVarianceNormalization", "x", "x", NULL, NULL, {{4, {1, 1, 1, 2}, {1, 3}}}, {{0}},
     {4, {1, 1, 1, 2}, {-1, 1}}, NULL, 0},
    /* a turn by 90 degrees */
    {"RotaryEmbedding", "x,c,s", "x,c,s", NULL, one_head,
     {{3, {1, 1, 2}, {1, 2}}, {3, {1, 1, 1}, {0}}, {3, {1, 1, 1}, {1}}}, {{0}},
     {3, {1, 1, 2}, {-2, 1}}, NULL, 0},
    {"RotaryEmbedding", "x,c,s", "x,c,s", NULL, two_heads,
     {{3, {1, 1, 3}, {0}}, {3, {1, 1, 1}, {0}}, {3, {1, 1, 1}, {1}}}, {{0}}, {0}, "num_heads 2", 0},
};

CASE(values_by_hand)
{
    weir_device *d = weir_device_open(check_device(), &(weir_device_options){.threads = 1});

    for (size_t i = 0; i < ARRAY_LENGTH(samples); i++)
        check_sample(d, &samples[i]);
    weir_device_close(d);
}

/* A copy of its own size, so that a sanitizer sees a read behind the end. */
static bool try_damaged(weir_device *d, const sample *s)
{
    static pb    m;
    weir_tensor *in[3], *out[2];
    bool         good = false;

    build(s, &m);
    const size_t         size = onnx_damage(m.at, m.n);
    unsigned char *const copy = malloc(size + 1);
    memcpy(copy + 1, m.at, size);
    weir_onnx *const net = weir_onnx_open_bytes(d, copy + 1, size, NULL);
    const int        n = make_inputs(d, s, in);
    CHECK_OK(weir_scope_begin(d));
    const size_t outputs = net ? weir_onnx_output_count(net) : 0;
    if (net && outputs <= ARRAY_LENGTH(out))
        good = weir_onnx_apply(net, (size_t)n, in, outputs, out) == WEIR_OK;
    CHECK(good || outputs > ARRAY_LENGTH(out) || strlen(weir_error()) > 20);
    CHECK_OK(weir_scope_end(d));
    for (int k = 0; k < n; k++)
        weir_release(in[k]);
    weir_onnx_free(net);
    free(copy);
    return good;
}

CASE(damaged_operators_never_crash)
{
    int          good = 0, refused = 0;
    weir_device *d = weir_device_open(check_device(), &(weir_device_options){.threads = 1});

    CHECK_OK(weir_device_set_budget(d, "16MB"));
    for (int i = 0; i < onnx_rounds(5000, 20); i++)
        for (size_t k = 0; k < ARRAY_LENGTH(samples); k++)
            if (try_damaged(d, &samples[k]))
                good++;
            else
                refused++;
    CHECK(good > 0 && refused > good / 4);
    weir_device_close(d);
}

/* The sum of a resized image: its gradient is what each element counts, so all of them together are
 * as many as the result has elements. */
CASE(resizing_has_a_gradient)
{
    static pb    m;
    float        g[4], sum = 0;
    pb           net = {0}, a = {0};
    weir_tensor *y = NULL, *grad = NULL;
    weir_device *d = weir_device_open(check_device(), &(weir_device_options){.threads = 1});

    net_weights(&net, "w", 4, (int64_t[]){1, 1, 2, 2}, 0);
    net_ints(&net, "s", 4, (int64_t[]){1, 1, 5, 3});
    linear(&a);
    net_node(&net, "Resize", "w,,,s", "y", &a);
    net_output(&net, "y");
    net_model(&m, &net, 19);
    weir_onnx *model = weir_onnx_open_bytes(d, m.at, m.n, NULL);
    CHECK_OR_RETURN(model != NULL);
    weir_tensor *w = weir_model_find(weir_onnx_model(model), "w");
    CHECK_OK(weir_scope_begin(d));
    CHECK_OK(weir_onnx_apply(model, 0, NULL, 1, &y));
    CHECK_OK(weir_gradients(weir_sum(y, 0, false), 1, &w, &grad));
    CHECK_OK(weir_read(grad, g, sizeof g));
    for (int i = 0; i < 4; i++)
        sum += g[i];
    CHECK_NEAR(sum, 15, 1e-5);
    CHECK_OK(weir_scope_end(d));
    weir_onnx_free(model);
    weir_device_close(d);
}
