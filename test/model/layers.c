/* layers.c - layers: initial parameters, training and evaluation, mistakes, no leaks. */
#include "check.h"
#include "core/mem.h"
#include "weir.h"

enum { MOST = 4096 };

static weir_device *open_cpu(void)
{
    return weir_device_open(check_device(), &(weir_device_options){.threads = 1, .seed = 3});
}

/* Elements of an f32 tensor into `out` (at most MOST); their number, 0 after a failure. */
static size_t read_all(const weir_tensor *t, float *out)
{
    const size_t bytes = weir_tensor_bytes(t);
    if (!CHECK(t != NULL && bytes <= MOST * sizeof *out) || !CHECK_OK(weir_read(t, out, bytes)))
        return 0;
    return bytes / sizeof *out;
}

static void all_equal(const weir_tensor *t, double value)
{
    float        v[MOST];
    const size_t n = read_all(t, v);
    bool         equal = n > 0;
    for (size_t i = 0; i < n; i++)
        equal = equal && v[i] == (float)value;
    CHECK(equal);
}

CASE(linear_starts_uniform)
{
    weir_device *d = open_cpu();
    weir_model  *m = weir_model_new(d);
    float        v[MOST], low = 0, high = 0;

    CHECK(weir_linear_new(m, "fc1", 25, 100, true) != NULL);
    CHECK(weir_model_param_count(m) == 2 && weir_model_state_count(m) == 0);
    CHECK_TEXT(weir_tensor_name(weir_model_param(m, 0)), "fc1.weight");
    CHECK_TEXT(weir_tensor_name(weir_model_param(m, 1)), "fc1.bias");
    const weir_desc w = weir_tensor_desc(weir_model_param(m, 0));
    CHECK(w.ndim == 2 && w.dim[0] == 100 && w.dim[1] == 25);
    const size_t n = read_all(weir_model_param(m, 0), v);
    for (size_t i = 0; i < n; i++) {
        low = v[i] < low ? v[i] : low;
        high = v[i] > high ? v[i] : high;
    }
    CHECK(low >= -0.2f && low < -0.19f && high <= 0.2f && high > 0.19f);   /* 1/sqrt(25) */
    all_equal(weir_model_param(m, 1), 0);
    weir_model_free(m);
    weir_device_close(d);
}

/* The root mean square and the mean of a tensor whose initial values are normal. */
static void starts_normal(const weir_tensor *t, double stddev)
{
    float        v[MOST];
    double       sum = 0, squares = 0;
    const size_t n = read_all(t, v);

    for (size_t i = 0; i < n; i++) {
        sum += (double)v[i];
        squares += (double)v[i] * (double)v[i];
    }
    CHECK_NEAR(sum / (double)n, 0, 4 * stddev / sqrt((double)n));
    CHECK(fabs(sqrt(squares / (double)n) / stddev - 1) < 0.1);
}

CASE(conv2d_starts_he_normal)
{
    weir_device *d = open_cpu();
    weir_model  *m = weir_model_new(d);

    CHECK(weir_conv2d_new(m, "c", 8, 32, 3, &(weir_conv2d_options){.groups = 2}, true) != NULL);
    const weir_desc w = weir_tensor_desc(weir_model_param(m, 0));
    CHECK(w.ndim == 4 && w.dim[0] == 32 && w.dim[1] == 4 && w.dim[2] == 3 && w.dim[3] == 3);
    starts_normal(weir_model_param(m, 0), sqrt(2.0 / (4 * 3 * 3)));     /* fan in of a group */
    all_equal(weir_model_param(m, 1), 0);
    weir_model_free(m);
    weir_device_close(d);
}

CASE(conv_transpose2d_starts_normal)
{
    weir_device *const d = open_cpu();
    weir_model *const  m = weir_model_new(d);
    const weir_conv_transpose2d_options o = {.stride = {2, 2}, .pad = {1, 1}, .groups = 2};
    weir_layer *const  l = weir_conv_transpose2d_new(m, "up", 16, 24, 4, &o, true);
    weir_tensor *const x = weir_input(d, weir_4d(WEIR_F32, 2, 16, 3, 5));

    const weir_desc w = weir_tensor_desc(weir_model_param(m, 0));
    CHECK(w.ndim == 4 && w.dim[0] == 16 && w.dim[1] == 12 && w.dim[2] == 4 && w.dim[3] == 4);
    CHECK_TEXT(weir_tensor_name(weir_model_param(m, 0)), "up.weight");
    CHECK_TEXT(weir_tensor_name(weir_model_param(m, 1)), "up.bias");
    starts_normal(weir_model_param(m, 0), sqrt(1 / (8.0 * 16 / 4)));
    all_equal(weir_model_param(m, 1), 0);
    CHECK_OK(weir_write_fill(x, 1));
    CHECK_OK(weir_scope_begin(d));
    weir_tensor *const y = weir_apply(l, x);
    if (CHECK(y)) {
        const weir_desc out = weir_tensor_desc(y);
        CHECK(out.dim[0] == 2 && out.dim[1] == 24 && out.dim[2] == 6 && out.dim[3] == 10);
    }
    CHECK_OK(weir_scope_end(d));
    weir_release(x);
    weir_model_free(m);
    weir_device_close(d);
}

/* Layer, RMS and group norm of (1, 4) with values 2 4 6 9, groups of two. */
CASE(norms_normalise)
{
    static const float values[] = {2, 4, 6, 9};
    weir_device *const d = open_cpu();
    weir_model *const  m = weir_model_new(d);
    weir_layer *const  l[] = {weir_layer_norm_new(m, "ln", 4), weir_rms_norm_new(m, "rms", 4),
                              weir_group_norm_new(m, "gn", 2, 4)};
    weir_tensor *const x = weir_input(d, weir_2d(WEIR_F32, 1, 4));
    const double       want[] = {-3.25 / sqrt(6.6875 + 1e-5), 2 / sqrt(34.25 + 1e-5),
                                 -1 / sqrt(1 + 1e-5)};
    float              y[MOST];

    CHECK(weir_model_param_count(m) == 5 && weir_model_state_count(m) == 0);
    CHECK_TEXT(weir_tensor_name(weir_model_param(m, 1)), "ln.bias");
    CHECK_TEXT(weir_tensor_name(weir_model_param(m, 2)), "rms.weight");
    for (size_t i = 0; i < 5; i++)
        all_equal(weir_model_param(m, i), i == 0 || i == 2 || i == 3);
    CHECK_OK(weir_write(x, values, sizeof values));
    CHECK_OK(weir_scope_begin(d));
    for (int i = 0; i < 3; i++)
        if (read_all(weir_apply(l[i], x), y) == 4)
            CHECK_NEAR(y[0], want[i], 1e-5);
    CHECK_OK(weir_scope_end(d));
    weir_release(x);
    weir_model_free(m);
    weir_device_close(d);
}

CASE(embedding_looks_up)
{
    static const int32_t tokens[] = {7, 0, 7};
    weir_device *const   d = open_cpu();
    weir_model *const    m = weir_model_new(d);
    weir_layer *const    l = weir_embedding_new(m, "token", 50, 40, WEIR_F32, 0.25);
    weir_tensor *const   x = weir_input(d, weir_1d(WEIR_I32, 3));
    float                table[MOST], y[MOST];

    CHECK_TEXT(weir_tensor_name(weir_model_param(m, 0)), "token.weight");
    starts_normal(weir_model_param(m, 0), 0.25);
    CHECK(weir_embedding_new(m, "wide", 50, 40, WEIR_F32, 0) != NULL);
    starts_normal(weir_model_param(m, 1), 1);
    CHECK_OK(weir_write(x, tokens, sizeof tokens));
    CHECK_OK(weir_scope_begin(d));
    if (read_all(weir_model_param(m, 0), table) == 2000 && read_all(weir_apply(l, x), y) == 120)
        for (int i = 0; i < 3; i++)
            CHECK_BITS(y + 40 * i, table + 40 * tokens[i], 40 * sizeof *y);
    CHECK_OK(weir_scope_end(d));
    weir_release(x);
    weir_model_free(m);
    weir_device_close(d);
}

/* In each float type, with its gradient. */
CASE(embedding_of_a_type)
{
    static const weir_dtype types[] = {WEIR_F32, WEIR_F64, WEIR_F16, WEIR_BF16};
    static const int64_t    tokens[] = {3, 0, 3};
    weir_device *const      d = open_cpu();

    for (int i = 0; i < 4; i++) {
        weir_model *const  m = weir_model_new(d);
        weir_layer *const  l = weir_embedding_new(m, "token", 4, 8, types[i], 0.5);
        weir_tensor *const x = weir_input(d, weir_1d(WEIR_I64, 3));
        weir_tensor *const w = weir_model_param(m, 0);
        weir_tensor       *dw = NULL;
        float              table[32], y[24], got[32];
        CHECK_OK(weir_write(x, tokens, sizeof tokens));
        CHECK_OK(weir_scope_begin(d));
        weir_tensor *const out = weir_apply(l, x);
        CHECK(weir_tensor_desc(w).dtype == types[i] && weir_tensor_desc(out).dtype == types[i]);
        CHECK(read_all(weir_cast(w, WEIR_F32), table) == 32);
        CHECK(read_all(weir_cast(out, WEIR_F32), y) == 24);
        for (int k = 0; k < 3; k++)
            CHECK_BITS(y + 8 * k, table + 8 * tokens[k], 8 * sizeof *y);
        CHECK(table[0] != 0 && table[0] != table[8]);
        CHECK_OK(weir_gradients(weir_sum(out, 0, false), 1, &w, &dw));
        CHECK(weir_tensor_desc(dw).dtype == types[i]);
        CHECK(read_all(weir_cast(dw, WEIR_F32), got) == 32);
        for (int k = 0; k < 32; k++)
            CHECK(got[k] == (float)(k < 8 ? 1 : k < 24 ? 0 : 2));
        CHECK_OK(weir_scope_end(d));
        weir_release(x);
        weir_model_free(m);
    }
    weir_device_close(d);
}

/* The running mean changes in training only; evaluation uses it as it is. */
CASE(batch_norm_trains_and_evaluates)
{
    weir_device *d = open_cpu();
    weir_model  *m = weir_model_new(d);
    weir_layer  *bn = weir_batch_norm_new(m, "bn", 1);
    weir_tensor *x = weir_input(d, weir_2d(WEIR_F32, 4, 1));
    const float  values[] = {2, 4, 6, 8};
    float        y[MOST], mean;

    CHECK(weir_model_param_count(m) == 2 && weir_model_state_count(m) == 2);
    all_equal(weir_model_param(m, 0), 1);
    all_equal(weir_model_param(m, 1), 0);
    all_equal(weir_model_state(m, 0), 0);
    all_equal(weir_model_state(m, 1), 1);
    CHECK_OK(weir_write(x, values, sizeof values));
    CHECK_OK(weir_scope_begin(d));
    CHECK(weir_model_training(m));
    if (read_all(weir_apply(bn, x), y) == 4)
        CHECK_NEAR(y[0], -3 / sqrt(5.0 + 1e-5), 1e-5);
    CHECK_OK(weir_read(weir_model_state(m, 0), &mean, sizeof mean));
    CHECK_NEAR(mean, 0.5, 1e-6);                        /* 0.9 * 0 + 0.1 * 5 */
    weir_model_train(m, false);
    if (read_all(weir_apply(bn, x), y) == 4)            /* unbiased variance 20/3 */
        CHECK_NEAR(y[0], 1.5 / sqrt(0.9 + 2.0 / 3 + 1e-5), 1e-5);
    all_equal(weir_model_state(m, 0), (double)mean);
    CHECK_OK(weir_scope_end(d));
    weir_release(x);
    weir_model_free(m);
    weir_device_close(d);
}

CASE(dropout_only_in_training)
{
    weir_device *d = open_cpu();
    weir_model  *m = weir_model_new(d);
    weir_layer  *drop = weir_dropout_new(m, 0.5);
    weir_tensor *x = weir_input(d, weir_1d(WEIR_F32, 1000));
    float        y[MOST];
    int          zeros = 0, others = 0;

    CHECK_OK(weir_write_fill(x, 1));
    CHECK_OK(weir_scope_begin(d));
    const size_t n = read_all(weir_apply(drop, x), y);
    for (size_t i = 0; i < n; i++) {
        zeros += y[i] == 0.0f;
        others += y[i] != 0.0f && y[i] != 2.0f;
    }
    CHECK(zeros > 400 && zeros < 600 && others == 0);
    weir_model_train(m, false);
    all_equal(weir_apply(drop, x), 1);
    CHECK_OK(weir_scope_end(d));
    weir_release(x);
    weir_model_free(m);
    weir_device_close(d);
}

CASE(mistakes_are_named_and_leave_nothing)
{
    weir_device *d = open_cpu();
    weir_model  *m = weir_model_new(d);
    char         name[400];

    CHECK(weir_linear_new(m, "fc9", 0, 3, true) == NULL);
    CHECK_TEXT(weir_error(), "linear fc9");
    CHECK(weir_error_status() == WEIR_ERR_INVALID);
    CHECK(weir_conv2d_new(m, "c", 3, 4, 0, NULL, false) == NULL);
    CHECK_TEXT(weir_error(), "kernel 0");
    CHECK(weir_conv2d_new(m, "c", 3, 4, 3, &(weir_conv2d_options){.groups = 2}, false) == NULL);
    CHECK_TEXT(weir_error(), "2 groups");
    CHECK(weir_batch_norm_new(m, "bn", -1) == NULL);
    CHECK_TEXT(weir_error(), "channels is -1");
    CHECK(weir_conv_transpose2d_new(m, "up", 3, 0, 3, NULL, false) == NULL);
    CHECK_TEXT(weir_error(), "conv_transpose2d up: in 3, out 0");
    CHECK(weir_layer_norm_new(m, "ln", 0) == NULL && weir_rms_norm_new(m, NULL, -4) == NULL);
    CHECK_TEXT(weir_error(), "rms_norm: width is -4");
    CHECK(weir_group_norm_new(m, "gn", 3, 4) == NULL);
    CHECK_TEXT(weir_error(), "group_norm gn: 3 groups do not divide 4 channels");
    CHECK(weir_embedding_new(m, "e", 0, 4, WEIR_F32, 0) == NULL);
    CHECK_TEXT(weir_error(), "embedding e: rows is 0");
    CHECK(weir_embedding_new(m, "e", 4, 4, WEIR_F32, (double)NAN) == NULL);
    CHECK_TEXT(weir_error(), "deviation is nan");
    CHECK(weir_embedding_new(m, "e", 4, 4, WEIR_I32, 0) == NULL);
    CHECK_TEXT(weir_error(), "embedding e: elements are f32, f64, f16 or bf16, not i32");
    CHECK(weir_dropout_new(m, 1.5) == NULL && weir_dropout_new(m, (double)NAN) == NULL);
    CHECK_TEXT(weir_error(), "dropout");
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    CHECK(weir_linear_new(m, name, 2, 2, true) == NULL);
    CHECK_TEXT(weir_error(), "characters");
    CHECK(weir_model_param(m, 0) == NULL);
    CHECK_TEXT(weir_error(), "index 0");
    CHECK(weir_model_param_count(m) == 0 && weir_model_state_count(m) == 0);
    weir_model_free(m);
    weir_device_close(d);
}

CASE(null_flows)
{
    CHECK(weir_model_new(NULL) == NULL);
    CHECK(weir_linear_new(NULL, "fc", 2, 2, true) == NULL);
    CHECK(weir_apply(NULL, NULL) == NULL);
    CHECK(weir_model_param_count(NULL) == 0 && !weir_model_training(NULL));
    CHECK(weir_model_state(NULL, 0) == NULL);
    weir_model_train(NULL, true);
    weir_model_free(NULL);
}

/* A retained parameter outlives its model. */
CASE(retained_parameter_lives_on)
{
    weir_device *d = open_cpu();
    weir_model  *m = weir_model_new(d);

    CHECK_OR_RETURN(weir_batch_norm_new(m, "bn", 3) != NULL);
    weir_tensor *scale = weir_retain(weir_model_param(m, 0));
    weir_model_free(m);
    all_equal(scale, 1);
    weir_release(scale);
    weir_device_close(d);
}

/* Whichever allocation of a constructor fails: NULL and the model as it was, nothing lost - or
 * all is well, when the device found the memory elsewhere. */
CASE(constructors_roll_back)
{
    weir_device *d = open_cpu();
    bool         failed = true;
    int          refused = 0;

    for (int n = 0; failed && n < 2000; n++) {
        weir_model *m = weir_model_new(d);
        weir_mem_fail_nth(n, false);
        const weir_layer *l = weir_digits_cnn_new(m, 10);
        failed = weir_mem_failed();
        weir_mem_fail_nth(-1, false);
        if (l) {
            CHECK(weir_model_param_count(m) == 8 && weir_model_state_count(m) == 4);
        } else {
            CHECK(failed && weir_error_status() == WEIR_ERR_NOMEM);
            CHECK(weir_model_param_count(m) == 0 && weir_model_state_count(m) == 0);
            refused++;
        }
        weir_model_free(m);
    }
    CHECK(!failed && refused > 10);
    weir_device_close(d);
}
