/* nets.c - whole networks: numbers and names of parameters, shapes that come out, closed scopes. */
#include "check.h"
#include "weir.h"

static weir_device *open_cpu(void)
{
    return weir_device_open("cpu", &(weir_device_options){.threads = 1, .seed = 3});
}

static int64_t elements(const weir_model *m)
{
    int64_t sum = 0;
    for (size_t i = 0; i < weir_model_param_count(m); i++)
        sum += (int64_t)(weir_tensor_bytes(weir_model_param(m, i)) / sizeof(float));
    return sum;
}

static bool has_param(const weir_model *m, const char *name)
{
    for (size_t i = 0; i < weir_model_param_count(m); i++)
        if (strcmp(weir_tensor_name(weir_model_param(m, i)), name) == 0)
            return true;
    return false;
}

/* The numbers of torchvision 0.20: resnet18() and so on, sums of p.numel(). */
CASE(resnet_parameters)
{
    static const struct {
        int     depth;
        int64_t count;
        size_t  tensors;
    } known[] = {
        {18, 11689512, 62}, {34, 21797672, 110}, {50, 25557032, 161}, {101, 44549160, 314}};

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        weir_device *d = open_cpu();
        weir_model  *m = weir_model_new(d);
        CHECK(weir_resnet_new(m, known[i].depth, 1000, false) != NULL);
        CHECK(elements(m) == known[i].count);
        CHECK(weir_model_param_count(m) == known[i].tensors);
        CHECK(has_param(m, "layer1.0.conv1.weight") && has_param(m, "layer4.1.bn2.bias"));
        CHECK(has_param(m, "layer2.0.downsample.0.weight") && has_param(m, "fc.bias"));
        CHECK(has_param(m, "layer1.0.downsample.1.weight") == (known[i].depth >= 50));
        weir_model_free(m);
        weir_device_close(d);
    }
}

/* Applies a network to zeros of `in` and checks that logits (n,classes) come out finite. */
static void gives_logits(weir_device *d, weir_layer *net, weir_desc in, int64_t classes)
{
    weir_tensor *x = weir_input(d, in);
    float        v[64];

    CHECK_OK(weir_write_normal(x, 0, 1));
    CHECK_OK(weir_scope_begin(d));
    weir_tensor *y = weir_apply(net, x);
    if (CHECK(y != NULL)) {
        const weir_desc out = weir_tensor_desc(y);
        CHECK(out.ndim == 2 && out.dim[0] == in.dim[0] && out.dim[1] == classes);
        if (CHECK_OK(weir_read(y, v, weir_tensor_bytes(y))))
            CHECK(isfinite(v[0]) && isfinite(v[classes - 1]));
    }
    CHECK_OK(weir_scope_end(d));
    weir_release(x);
}

CASE(mlp_shapes)
{
    weir_device *d = open_cpu();
    weir_model  *m = weir_model_new(d);
    weir_layer  *net = weir_mlp_new(m, 4, (const int64_t[]){12, 7, 5, 3});

    CHECK(elements(m) == 13 * 7 + 8 * 5 + 6 * 3);
    CHECK(has_param(m, "fc1.weight") && has_param(m, "fc3.bias"));
    gives_logits(d, net, weir_2d(WEIR_F32, 6, 12), 3);
    weir_model_free(m);
    weir_device_close(d);
}

CASE(lenet_shapes)
{
    weir_device *d = open_cpu();
    weir_model  *m = weir_model_new(d);
    weir_layer  *net = weir_lenet_new(m, 10);

    CHECK(elements(m) == 26 * 20 + 501 * 50 + 801 * 500 + 501 * 10);
    gives_logits(d, net, weir_4d(WEIR_F32, 2, 1, 28, 28), 10);
    weir_model_free(m);
    weir_device_close(d);
}

CASE(digits_cnn_shapes)
{
    weir_device *d = open_cpu();
    weir_model  *m = weir_model_new(d);
    weir_layer  *net = weir_digits_cnn_new(m, 10);

    CHECK(elements(m) == 9 * 32 + 2 * 32 + 9 * 32 * 64 + 2 * 64 + 1025 * 10);
    gives_logits(d, net, weir_4d(WEIR_F32, 3, 1, 8, 8), 10);
    weir_model_free(m);
    weir_device_close(d);
}

CASE(resnet_shapes)
{
    static const struct {
        int     depth;
        bool    cifar;
        int64_t side;
    } nets[] = {{18, true, 16}, {18, false, 64}, {50, true, 16}};

    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++) {
        weir_device *d = open_cpu();
        weir_model  *m = weir_model_new(d);
        weir_layer  *net = weir_resnet_new(m, nets[i].depth, 10, nets[i].cifar);
        gives_logits(d, net, weir_4d(WEIR_F32, 2, 3, nets[i].side, nets[i].side), 10);
        weir_model_free(m);
        weir_device_close(d);
    }
}

/* Without a tape nothing but the logits is alive after a network was applied. */
CASE(networks_close_their_scope)
{
    weir_device *d = open_cpu();
    weir_model  *m = weir_model_new(d);
    weir_layer  *net = weir_mlp_new(m, 3, (const int64_t[]){300, 400, 16});
    weir_tensor *x = weir_input(d, weir_2d(WEIR_F32, 64, 300));
    weir_memory  before, after;

    CHECK_OK(weir_write_fill(x, 0.5));
    CHECK_OK(weir_scope_begin(d));
    CHECK_OK(weir_no_grad_begin(d));
    weir_device_memory(d, &before);
    weir_tensor *y = weir_apply(net, x);
    weir_device_memory(d, &after);
    CHECK(y != NULL && after.live - before.live == 64 * 16 * sizeof(float));
    CHECK_OK(weir_no_grad_end(d));
    CHECK_OK(weir_scope_end(d));
    weir_release(x);
    weir_model_free(m);
    weir_device_close(d);
}

CASE(mistakes_are_named_and_leave_nothing)
{
    weir_device *d = open_cpu();
    weir_model  *m = weir_model_new(d);

    CHECK(weir_resnet_new(m, 19, 10, true) == NULL);
    CHECK_TEXT(weir_error(), "depth 19");
    CHECK(weir_resnet_new(m, 18, 0, true) == NULL);
    CHECK_TEXT(weir_error(), "out 0");
    CHECK(weir_mlp_new(m, 1, (const int64_t[]){5}) == NULL);
    CHECK_TEXT(weir_error(), "1 widths");
    CHECK(weir_mlp_new(m, 3, (const int64_t[]){5, 4, -2}) == NULL);
    CHECK_TEXT(weir_error(), "fc2");
    CHECK(weir_lenet_new(NULL, 10) == NULL);
    CHECK(weir_model_param_count(m) == 0 && weir_model_state_count(m) == 0);
    weir_model_free(m);
    weir_device_close(d);
}
