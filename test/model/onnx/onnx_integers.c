/* onnx_integers.c - operators on integers of every size, and those that are computed from known
 * elements: results worked out by hand. */
#include <math.h>

#include "model/onnx/onnx_bytes.h"

enum { MOST = 16, INPUTS = 6, OUTPUTS = 4, PB_U16 = 4, PB_I16 = 5, PB_U32 = 12, PB_BOOL = 9 };

/* Elements of a type of ONNX. */
typedef struct numbers {
    int     type, ndim;
    int64_t dim[4];
    double  v[MOST];
} numbers;

typedef struct sample {
    const char *op;
    int         n_in, n_out;
    void      (*attributes)(pb *a);
    numbers     in[INPUTS], out[OUTPUTS];
    int64_t     opset; /* 0: 23 */
} sample;

static size_t count_of(const numbers *t)
{
    size_t n = 1;

    for (int i = 0; i < t->ndim; i++)
        n *= (size_t)t->dim[i];
    return n;
}

/* Elements as they lie in memory. Returns their bytes. */
static size_t encode(const numbers *t, char *to)
{
    const size_t n = count_of(t);

    for (size_t i = 0; i < n; i++)
        switch (t->type) {
        case PB_F32: ((float *)(void *)to)[i] = (float)t->v[i]; break;
        case PB_I32: ((int32_t *)(void *)to)[i] = (int32_t)t->v[i]; break;
        case PB_U32: ((uint32_t *)(void *)to)[i] = (uint32_t)t->v[i]; break;
        case PB_I64: ((int64_t *)(void *)to)[i] = (int64_t)t->v[i]; break;
        case PB_I16: ((int16_t *)(void *)to)[i] = (int16_t)t->v[i]; break;
        case PB_U16: ((uint16_t *)(void *)to)[i] = (uint16_t)t->v[i]; break;
        case PB_I8: ((int8_t *)to)[i] = (int8_t)t->v[i]; break;
        default: ((uint8_t *)to)[i] = (uint8_t)t->v[i];
        }
    return n * (t->type == PB_I64                                                ? 8
                : t->type == PB_F32 || t->type == PB_I32 || t->type == PB_U32 ? 4
                : t->type == PB_I16 || t->type == PB_U16                      ? 2
                                                                              : 1);
}

static weir_dtype dtype_of(int type)
{
    return type == PB_F32   ? WEIR_F32
           : type == PB_I32 ? WEIR_I32
           : type == PB_U32 ? WEIR_U32
           : type == PB_I64 ? WEIR_I64
           : type == PB_I16 ? WEIR_I16
           : type == PB_U16 ? WEIR_U16
           : type == PB_I8  ? WEIR_I8
           : type == PB_U8  ? WEIR_U8
                            : WEIR_BOOL;
}

/* All inputs are initializers: 0-d ones and integers are known, floats are too where they must. */
static void build(const sample *s, pb *m)
{
    static const char *const in[] = {"a", "b", "c", "d", "e", "f"};
    static const char *const out[] = {"w", "x", "y", "z"};
    static pb                g;
    pb                       a = {0};
    char                     names[32] = "", results[16] = "", raw[MOST * 8];

    g = (pb){0};
    for (int i = 0; i < s->n_in; i++) {
        snprintf(names + strlen(names), 4, "%s%s", i ? "," : "", in[i]);
        net_init(&g, in[i], s->in[i].type, s->in[i].ndim, s->in[i].dim, raw,
                 encode(&s->in[i], raw));
    }
    for (int i = 0; i < s->n_out; i++)
        snprintf(results + strlen(results), 4, "%s%s", i ? "," : "", out[i]);
    if (s->attributes)
        s->attributes(&a);
    net_node(&g, s->op, names, results, &a);
    for (int i = 0; i < s->n_out; i++)
        net_output(&g, out[i]);
    net_model(m, &g, s->opset ? s->opset : 23);
}

static void check_output(const sample *s, const numbers *want, weir_tensor *t)
{
    const weir_desc d = weir_tensor_desc(t);
    char            got[MOST * 8] = {0}, bytes[MOST * 8] = {0};
    const size_t    n = encode(want, bytes);
    bool            same = d.dtype == dtype_of(want->type) && d.ndim == want->ndim &&
                memcmp(d.dim, want->dim, (size_t)want->ndim * sizeof *d.dim) == 0;

    check_that(same, __FILE__, __LINE__, "%s: another type or shape", s->op);
    if (!same || !CHECK_OK(weir_read(t, got, n)))
        return;
    for (size_t i = 0; i < count_of(want); i++) {
        const double v = want->type == PB_F32 ? (double)((float *)(void *)got)[i] : 0;
        same = same && (want->type != PB_F32 || fabs(v - want->v[i]) <= 2e-6);
    }
    same = same && (want->type == PB_F32 || memcmp(got, bytes, n) == 0);
    check_that(same, __FILE__, __LINE__, "%s: another value", s->op);
}

static void check_sample(weir_device *d, const sample *s)
{
    static pb    m;
    weir_tensor *out[OUTPUTS];

    build(s, &m);
    weir_onnx *const net = weir_onnx_open_bytes(d, m.at, m.n, NULL);
    if (!check_that(net != NULL, __FILE__, __LINE__, "%s: %s", s->op, weir_error()))
        return;
    CHECK_OK(weir_scope_begin(d));
    const bool done = weir_onnx_apply(net, 0, NULL, OUTPUTS, out) == WEIR_OK;
    check_that(done, __FILE__, __LINE__, "%s: %s", s->op, weir_error());
    for (int i = 0; done && i < s->n_out; i++)
        check_output(s, &s->out[i], out[i]);
    CHECK_OK(weir_scope_end(d));
    weir_onnx_free(net);
}

static void left(pb *a)
{
    attr_text(a, "direction", "LEFT");
}

static void right(pb *a)
{
    attr_text(a, "direction", "RIGHT");
}

static void first_axis(pb *a)
{
    attr_int(a, "axis", 0);
}

static void blocks_of_2(pb *a)
{
    attr_int(a, "axis", 0);
    attr_int(a, "block_size", 2);
}

static void to_i32(pb *a)
{
    attr_int(a, "to", PB_I32);
}

static void sums(pb *a)
{
    attr_text(a, "equation", "...ii->...i");
}

static void largest(pb *a)
{
    attr_text(a, "reduction", "max");
}

static void grams(pb *a)
{
    attr_text(a, "mode", "TF");
    attr_int(a, "min_gram_length", 1);
    attr_int(a, "max_gram_length", 2);
    attr_int(a, "max_skip_count", 1);
    attr_ints(a, "ngram_counts", 2, (int64_t[]){0, 2}, true);
    attr_ints(a, "ngram_indexes", 3, (int64_t[]){0, 1, 2}, true);
    attr_ints(a, "pool_int64s", 4, (int64_t[]){7, 8, 5, 7}, true);
}

static void wrap(pb *a)
{
    attr_text(a, "mode", "wrap");
}

static void pairs(pb *a)
{
    attr_ints(a, "kernel_shape", 1, (int64_t[]){2}, true);
    attr_ints(a, "strides", 1, (int64_t[]){2}, true);
}

#define N1(type, n, ...)       {type, 1, {n}, {__VA_ARGS__}}
#define N2(type, a, b, ...)    {type, 2, {a, b}, {__VA_ARGS__}}
#define N3(type, a, b, c, ...) {type, 3, {a, b, c}, {__VA_ARGS__}}
#define N0(type, v)            {type, 0, {0}, {v}}

static const sample integers[] = {
    {"BitShift", 2, 1, left, {N1(PB_U8, 3, 1, 200, 3), N1(PB_U8, 3, 7, 1, 8)},
     {N1(PB_U8, 3, 128, 144, 0)}, 0},
    {"BitShift", 2, 1, right, {N1(PB_I8, 3, -8, 127, -1), N1(PB_I8, 3, 2, 3, -1)},
     {N1(PB_I8, 3, -2, 15, -1)}, 26},
    {"BitwiseAnd", 2, 1, NULL, {N1(PB_U16, 2, 0xff0f, 3), N1(PB_U16, 2, 0xf0ff, 6)},
     {N1(PB_U16, 2, 0xf00f, 2)}, 0},
    {"BitwiseNot", 1, 1, NULL, {N1(PB_U32, 2, 0, 5)}, {N1(PB_U32, 2, 4294967295.0, 4294967290.0)},
     0},
    {"BitCast", 1, 1, to_i32, {N1(PB_F32, 2, 1, -2)}, {N1(PB_I32, 2, 0x3f800000, -1073741824.0)},
     26},
    {"Div", 2, 1, NULL, {N1(PB_I16, 3, -7, 7, 300), N1(PB_I16, 3, 2, -2, 7)},
     {N1(PB_I16, 3, -3, -3, 42)}, 0},
    {"QuantizeLinear", 3, 1, first_axis,
     {N2(PB_F32, 2, 3, 1, -1, 0.5, 100, -1000, 2.5), N1(PB_F32, 2, 0.5, 1), N1(PB_I8, 2, 1, 0)},
     {N2(PB_I8, 2, 3, 3, -1, 2, 100, -128, 2)}, 0},
    {"DequantizeLinear", 3, 1, blocks_of_2,
     {N1(PB_U16, 3, 10, 20, 65535), N1(PB_F32, 2, 2, 0.5), N1(PB_U16, 2, 12, 1)},
     {N1(PB_F32, 3, -4, 16, 32767)}, 0},
    {"DynamicQuantizeLinear", 1, 3, NULL, {N1(PB_F32, 3, 0, 2, -3)},
     {N1(PB_U8, 3, 153, 255, 0), N0(PB_F32, 5.0 / 255), N0(PB_U8, 153)}, 0},
    {"MatMulInteger", 4, 1, NULL,
     {N2(PB_U8, 1, 3, 11, 7, 3), N2(PB_I8, 3, 1, 1, 2, -4), N0(PB_U8, 10), N0(PB_I8, 1)},
     {N2(PB_I32, 1, 1, 32)}, 0},
    {"ScatterElements", 3, 1, largest,
     {N1(PB_F32, 3, 1, 5, 2), N1(PB_I64, 3, 1, 2, 2), N1(PB_F32, 3, 4, 3, 9)},
     {N1(PB_F32, 3, 1, 5, 9)}, 0},
    {"Pad", 2, 1, wrap, {N1(PB_I16, 3, 1, 2, 3), N1(PB_I64, 2, 2, 4)},
     {N1(PB_I16, 9, 2, 3, 1, 2, 3, 1, 2, 3, 1)}, 0},
    {"Einsum", 1, 1, sums, {N3(PB_F32, 2, 2, 2, 1, 2, 3, 4, 5, 6, 7, 8)},
     {N2(PB_F32, 2, 2, 1, 4, 5, 8)}, 0},
    {"TfIdfVectorizer", 1, 1, grams, {N1(PB_I64, 5, 5, 7, 7, 8, 5)}, {N1(PB_F32, 3, 2, 1, 2)}, 0},
    {"Det", 1, 1, NULL, {N2(PB_F32, 3, 3, 0, 2, 1, 3, 1, 0, 2, 0, 4)}, {N0(PB_F32, -26)}, 0},
};

CASE(integers_by_hand)
{
    weir_device *d = weir_device_open(check_device(), NULL);

    for (size_t i = 0; i < ARRAY_LENGTH(integers); i++)
        check_sample(d, &integers[i]);
    weir_device_close(d);
}

static const sample known[] = {
    {"Compress", 2, 1, first_axis,
     {N2(PB_F32, 3, 2, 1, 2, 3, 4, 5, 6), N1(PB_BOOL, 3, 0, 1, 1)},
     {N2(PB_F32, 2, 2, 3, 4, 5, 6)}, 0},
    {"NonZero", 1, 1, NULL, {N2(PB_I8, 2, 2, 0, -1, 3, 0)}, {N2(PB_I64, 2, 2, 0, 1, 1, 0)}, 0},
    {"Unique", 1, 4, NULL, {N1(PB_F32, 5, 2, 1, 2, 5, 1)},
     {N1(PB_F32, 3, 1, 2, 5), N1(PB_I64, 3, 1, 0, 3), N1(PB_I64, 5, 1, 0, 1, 2, 0),
      N1(PB_I64, 3, 2, 2, 1)}, 0},
    {"Unique", 1, 1, first_axis, {N2(PB_I16, 3, 2, 1, 2, 0, 7, 1, 2)},
     {N2(PB_I16, 2, 2, 0, 7, 1, 2)}, 0},
    /* The second box lies within the first, the third apart. */
    {"NonMaxSuppression", 4, 1, NULL,
     {N3(PB_F32, 1, 3, 4, 0, 0, 10, 10, 0, 0, 10, 9, 20, 20, 30, 30),
      N3(PB_F32, 1, 1, 3, 0.5, 0.9, 0.4), N1(PB_I64, 1, 3), N1(PB_F32, 1, 0.5)},
     {N2(PB_I64, 2, 3, 0, 0, 1, 0, 0, 2)}, 0},
    {"Col2Im", 3, 1, NULL,
     {N3(PB_F32, 1, 2, 2, 1, 2, 3, 4), N1(PB_I64, 1, 3), N1(PB_I64, 1, 2)},
     {N3(PB_F32, 1, 1, 3, 1, 5, 4)}, 0},
    {"MaxUnpool", 2, 1, pairs, {N3(PB_F32, 1, 1, 2, 5, 7), N3(PB_I64, 1, 1, 2, 1, 2)},
     {N3(PB_F32, 1, 1, 4, 0, 5, 7, 0)}, 0},
    {"HannWindow", 1, 1, NULL, {N0(PB_I64, 4)}, {N1(PB_F32, 4, 0, 0.5, 1, 0.5)}, 0},
    {"DFT", 1, 1, NULL, {N3(PB_F32, 1, 4, 1, 1, 2, 3, 4)},
     {N3(PB_F32, 1, 4, 2, 10, 0, -2, 2, -2, 0, -2, -2)}, 20},
};

CASE(results_as_large_as_elements_say)
{
    weir_device *d = weir_device_open(check_device(), NULL);

    for (size_t i = 0; i < ARRAY_LENGTH(known); i++)
        check_sample(d, &known[i]);
    weir_device_close(d);
}

/* A recorded graph has fixed shapes: an input that says them must be named. */
CASE(elements_that_are_not_known_are_refused)
{
    static pb    m;
    pb           g = {0};
    weir_device *d = weir_device_open(check_device(), NULL);
    weir_tensor *x = weir_input(d, weir_1d(WEIR_F32, 3)), *out = NULL;
    const float  v[] = {0, 2, 3};

    net_input(&g, "x", PB_F32, 1, (int64_t[]){3});
    net_node(&g, "NonZero", "x", "y", NULL);
    net_output(&g, "y");
    net_model(&m, &g, 23);
    CHECK_OK(weir_write(x, v, sizeof v));
    weir_onnx *net = weir_onnx_open_bytes(d, m.at, m.n, NULL);
    CHECK_STATUS(weir_onnx_apply(net, 1, &x, 1, &out), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "input 0, 'x', must be known when the model is recorded");
    weir_onnx_free(net);
    net = weir_onnx_open_bytes(d, m.at, m.n, &(weir_onnx_options){.values = "x"});
    CHECK_OK(weir_scope_begin(d));
    int64_t at[2] = {0};
    CHECK_OK(weir_onnx_apply(net, 1, &x, 1, &out));
    CHECK_OK(weir_read(out, at, sizeof at));
    CHECK(at[0] == 1 && at[1] == 2);
    CHECK_OK(weir_scope_end(d));
    weir_onnx_free(net);
    weir_release(x);
    weir_device_close(d);
}

/* The slope of a determinant is its matrix of cofactors. */
CASE(compositions_have_gradients)
{
    static const float x[4] = {1, 2, 3, 4}, want[4] = {4, -3, -2, 1};
    static pb          m;
    pb                 g = {0};
    float              slope[4] = {0};
    weir_device       *d = weir_device_open(check_device(), NULL);
    weir_tensor       *p = weir_param(d, weir_2d(WEIR_F32, 2, 2), "p"), *out = NULL, *grad = NULL;

    net_input(&g, "x", PB_F32, 2, (int64_t[]){2, 2});
    net_node(&g, "Det", "x", "y", NULL);
    net_output(&g, "y");
    net_model(&m, &g, 23);
    weir_onnx *const net = weir_onnx_open_bytes(d, m.at, m.n, NULL);
    CHECK_OK(weir_write(p, x, sizeof x));
    CHECK_OK(weir_scope_begin(d));
    CHECK_OK(weir_onnx_apply(net, 1, &p, 1, &out));
    CHECK_OK(weir_gradients(out, 1, &p, &grad));
    CHECK_OK(weir_read(grad, slope, sizeof slope));
    for (int i = 0; i < 4; i++)
        CHECK(slope[i] == want[i]);
    CHECK_OK(weir_scope_end(d));
    weir_onnx_free(net);
    weir_release(p);
    weir_device_close(d);
}
