/* sequential.c - layers in a row: names, results, sharing, mistakes; layers of one function. */
#include "check.h"
#include "weir.h"

static weir_device *open_cpu(void)
{
    return weir_device_open(check_device(), &(weir_device_options){.threads = 1, .seed = 5});
}

static void named(const weir_model *m, size_t i, const char *name)
{
    CHECK(strcmp(weir_tensor_name(weir_model_param(m, i)), name) == 0);
}

CASE(parts_are_numbered_as_in_pytorch)
{
    weir_device *const d = open_cpu();
    weir_model *const  m = weir_model_new(d);
    weir_layer *const  inner =
        weir_sequential_new(m, NULL, 2, (weir_layer *const[]){weir_linear_new(m, NULL, 5, 4, true),
                                                              weir_tanh_new(m)});
    weir_layer *const  net = weir_sequential_new(
        m, "net", 5,
        (weir_layer *const[]){weir_linear_new(m, NULL, 3, 5, true), weir_relu_new(m), inner,
                              weir_dropout_new(m, 0.5), weir_linear_new(m, "out", 4, 2, false)});

    CHECK(net && weir_model_param_count(m) == 5);
    named(m, 0, "net.2.0.weight");
    named(m, 1, "net.2.0.bias");
    named(m, 2, "net.0.weight");
    named(m, 4, "net.out.weight");
    CHECK_TEXT(weir_layer_name(inner), "net.2");
    CHECK(weir_layer_parent(inner) == net);
    weir_model_free(m);
    weir_device_close(d);
}

/* (n,1,6,6) -> (n,2,6,6) -> (n,2,3,3) -> (n,18) -> (n,2): as layers in a row, and by calls. */
CASE(a_row_is_what_its_calls_are)
{
    weir_device *const        d = open_cpu();
    weir_model *const         m = weir_model_new(d);
    const weir_conv2d_options same = {.pad = {1, 1}};
    const weir_pool2d_options half = {.kernel = {2, 2}};
    weir_layer *const         conv = weir_conv2d_new(m, NULL, 1, 2, 3, &same, true);
    weir_layer *const         fc = weir_linear_new(m, NULL, 18, 2, true);
    weir_layer *const         net = weir_sequential_new(
        m, NULL, 5, (weir_layer *const[]){conv, weir_gelu_new(m), weir_max_pool2d_new(m, &half),
                                          weir_flatten_new(m), fc});
    weir_tensor *const        x = weir_input(d, weir_4d(WEIR_F32, 3, 1, 6, 6));
    float                     row[6], calls[6];

    named(m, 0, "0.weight");
    named(m, 2, "4.weight");
    CHECK_OK(weir_write_uniform(x, -1, 1));
    CHECK_OK(weir_scope_begin(d));
    CHECK_OK(weir_read(weir_apply(net, x), row, sizeof row));
    weir_tensor *y = weir_max_pool2d(weir_gelu(weir_apply(conv, x)), &half);
    CHECK_OK(weir_read(weir_apply(fc, weir_flatten(y)), calls, sizeof calls));
    CHECK_BITS(row, calls, sizeof row);
    CHECK_OK(weir_scope_end(d));
    weir_release(x);
    weir_model_free(m);
    weir_device_close(d);
}

/* Each layer of one function gives the function's bits. */
CASE(functions_as_layers)
{
    weir_device *const d = open_cpu();
    weir_model *const  m = weir_model_new(d);
    weir_tensor *const x = weir_input(d, weir_4d(WEIR_F32, 1, 2, 2, 2));
    const weir_pool2d_options p = {.kernel = {2, 2}};
    float              a[8], b[8];

    CHECK_OK(weir_write_uniform(x, -2, 2));
    CHECK_OK(weir_scope_begin(d));
    const struct {
        weir_layer  *layer;
        weir_tensor *want;
    } rows[] = {
        {weir_relu_new(m), weir_relu(x)},
        {weir_gelu_new(m), weir_gelu(x)},
        {weir_silu_new(m), weir_silu(x)},
        {weir_tanh_new(m), weir_tanh(x)},
        {weir_sigmoid_new(m), weir_sigmoid(x)},
        {weir_leaky_relu_new(m, 0.1), weir_leaky_relu(x, 0.1)},
        {weir_softmax_new(m, 1), weir_softmax(x, 1)},
        {weir_flatten_new(m), weir_flatten(x)},
        {weir_max_pool2d_new(m, &p), weir_max_pool2d(x, &p)},
        {weir_avg_pool2d_new(m, &p), weir_avg_pool2d(x, &p)},
        {weir_global_avg_pool2d_new(m), weir_global_avg_pool2d(x)},
        {weir_function_new(m, "softsign", weir_softsign), weir_softsign(x)},
        {weir_sequential_new(m, "none", 0, NULL), x},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        weir_tensor *const y = weir_apply(rows[i].layer, x);
        const size_t       bytes = weir_tensor_bytes(rows[i].want);
        if (!CHECK(y && weir_tensor_bytes(y) == bytes))
            continue;
        CHECK(weir_tensor_desc(y).ndim == weir_tensor_desc(rows[i].want).ndim);
        CHECK_OK(weir_read(y, a, bytes));
        CHECK_OK(weir_read(rows[i].want, b, bytes));
        CHECK_BITS(a, b, bytes);
    }
    CHECK_OK(weir_scope_end(d));
    weir_release(x);
    weir_model_free(m);
    weir_device_close(d);
}

CASE(a_layer_may_come_twice_in_a_row)
{
    weir_device *const d = open_cpu();
    weir_model *const  m = weir_model_new(d);
    weir_layer *const  fc = weir_linear_new(m, NULL, 3, 3, false), *const relu = weir_relu_new(m);
    weir_layer *const  net =
        weir_sequential_new(m, NULL, 4, (weir_layer *const[]){fc, relu, fc, relu});
    weir_tensor *const x = weir_input(d, weir_2d(WEIR_F32, 2, 3));
    float              a[6], b[6];

    CHECK(weir_model_param_count(m) == 1);
    named(m, 0, "0.weight");
    CHECK_OK(weir_write_uniform(x, 0, 1));
    CHECK_OK(weir_scope_begin(d));
    CHECK_OK(weir_read(weir_apply(net, x), a, sizeof a));
    weir_tensor *const y = weir_relu(weir_apply(fc, weir_relu(weir_apply(fc, x))));
    CHECK_OK(weir_read(y, b, sizeof b));
    CHECK_BITS(a, b, sizeof a);
    CHECK_OK(weir_scope_end(d));
    weir_release(x);
    weir_model_free(m);
    weir_device_close(d);
}

CASE(rows_that_cannot_be)
{
    weir_device *const d = open_cpu();
    weir_model *const  m = weir_model_new(d), *const other = weir_model_new(d);
    weir_layer *const  fc = weir_linear_new(m, NULL, 3, 3, false);

    CHECK(!weir_sequential_new(m, NULL, 2, (weir_layer *const[]){fc, weir_linear_new(m, NULL, 3, 0,
                                                                                     true)}));
    CHECK_TEXT(weir_error(), "linear : in 3 and out 0");    /* the first mistake */
    CHECK(weir_layer_parent(fc) == NULL && *weir_layer_name(fc) == '\0');
    CHECK(!weir_sequential_new(m, NULL, -1, &fc));
    CHECK_TEXT(weir_error(), "n is -1");
    CHECK(!weir_sequential_new(m, NULL, 1, NULL) && !weir_sequential_new(NULL, NULL, 1, &fc));
    CHECK(!weir_sequential_new(other, NULL, 1, &fc));
    CHECK_TEXT(weir_error(), "layer 0 belongs to another model");
    CHECK(weir_sequential_new(m, "a", 1, &fc));
    CHECK(!weir_sequential_new(m, "b", 1, &fc) && weir_error_status() == WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "layer 0 is a part of 'a' already");
    CHECK(!weir_max_pool2d_new(m, NULL) && !weir_avg_pool2d_new(m, NULL));
    CHECK(!weir_leaky_relu_new(m, NAN) && weir_error_status() == WEIR_ERR_INVALID);
    CHECK(!weir_function_new(m, "f", NULL) && !weir_function_new(m, NULL, weir_relu));
    CHECK(!weir_relu_new(NULL));
    weir_model_free(other);
    weir_model_free(m);
    weir_device_close(d);
}
