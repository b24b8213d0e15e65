/* nets.c - whole networks: numbers and names of parameters, shapes that come out, closed scopes. */
#include "check.h"
#include "weir.h"

static weir_device *open_cpu(void)
{
    return weir_device_open(check_device(), &(weir_device_options){.threads = 1, .seed = 3});
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

/* A network on a device of its own: the numbers of parameters and tensors, some names. */
typedef struct known {
    weir_layer *(*make)(weir_model *m);
    int64_t     count;
    size_t      tensors;
    const char *names[4];
} known;

static weir_layer *vgg16(weir_model *m)
{
    return weir_vgg16_new(m, 1000, 224);
}

static weir_layer *mobilenet_v2(weir_model *m)
{
    return weir_mobilenet_v2_new(m, 1000);
}

static weir_layer *densenet121(weir_model *m)
{
    return weir_densenet121_new(m, 1000);
}

static weir_layer *unet(weir_model *m)
{
    return weir_unet_new(m, 3, 2, 64, false);
}

static weir_layer *unet_upsample(weir_model *m)
{
    return weir_unet_new(m, 3, 2, 4, true);
}

/* torchvision 0.20's vgg16(), mobilenet_v2(), densenet121(); U-Net's by hand: two convolutions of a
 * level 9 (i o + o o) + 4 o, a transposed one 2 c c + c / 2, its other form 9 c c / 2 + c / 2. */
CASE(large_network_parameters)
{
    static const known nets[] = {
        {vgg16, 138357544, 32, {"features.0.weight", "features.28.bias", "classifier.0.weight",
                                "classifier.6.bias"}},
        {mobilenet_v2, 3504872, 158, {"features.0.0.weight", "features.1.conv.1.weight",
                                      "features.17.conv.3.bias", "classifier.1.weight"}},
        {densenet121, 7978856, 364, {"features.conv0.weight", "features.norm5.bias",
                                     "features.denseblock4.denselayer16.conv2.weight",
                                     "features.transition3.conv.weight"}},
        {unet, 31037698, 64, {"down4.conv2.weight", "rise3.bias", "up0.bn1.weight", "out.bias"}},
        {unet_upsample, 0, 64, {"down0.conv1.weight", "rise0.weight", "rise0.bias", "out.weight"}},
    };
    int64_t small = 4 * 2 + 2;          /* of the last one, of width 4: out */

    for (int64_t o = 4, i = 3; o <= 64; i = o, o *= 2)
        small += 9 * (i * o + o * o) + 4 * o;
    for (int64_t o = 4; o <= 32; o *= 2)
        small += 9 * (2 * o * o + o * o) + 4 * o + 9 * 2 * o * o + o;
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++) {
        weir_device *d = open_cpu();
        weir_model  *m = weir_model_new(d);
        CHECK(nets[i].make(m) != NULL);
        CHECK(elements(m) == (nets[i].count ? nets[i].count : small));
        CHECK(weir_model_param_count(m) == nets[i].tensors);
        for (int name = 0; name < 4; name++)
            CHECK(has_param(m, nets[i].names[name]));
        weir_model_free(m);
        weir_device_close(d);
    }
}

CASE(large_network_mistakes)
{
    weir_device *d = open_cpu();
    weir_model  *m = weir_model_new(d);
    weir_tensor *x = weir_input(d, weir_4d(WEIR_F32, 1, 3, 40, 32));

    CHECK(weir_vgg16_new(m, 10, 48) == NULL);
    CHECK_TEXT(weir_error(), "image size is 48 but must be a multiple of 32");
    CHECK(weir_vgg16_new(m, 10, 0) == NULL && weir_vgg16_new(m, 10, INT64_MAX) == NULL);
    CHECK(weir_mobilenet_v2_new(m, 0) == NULL);
    CHECK_TEXT(weir_error(), "classifier.1");
    CHECK(weir_densenet121_new(m, -1) == NULL);
    CHECK(weir_unet_new(m, 3, 2, 0, false) == NULL);
    CHECK_TEXT(weir_error(), "width is 0");
    CHECK(weir_unet_new(m, 0, 2, 4, false) == NULL);
    CHECK(weir_unet_new(m, 3, 0, 4, true) == NULL);
    CHECK(weir_model_param_count(m) == 0 && weir_model_state_count(m) == 0);
    CHECK(weir_apply(weir_unet_new(m, 3, 2, 2, false), x) == NULL);
    CHECK_TEXT(weir_error(), "height 40 and width 32 must be multiples of 16");
    weir_release(x);
    weir_model_free(m);
    weir_device_close(d);
}

/* Blocks have 12 w w + 13 w parameters: 4 + 8 square matrices, norms 4, biases 3 + 1 + 4 + 1. */
CASE(gpt_parameters)
{
    enum { VOCAB = 50, CONTEXT = 20, WIDTH = 24, LAYERS = 3 };
    weir_device *d = open_cpu();
    weir_model  *m = weir_model_new(d);

    CHECK(weir_gpt_new(m, VOCAB, CONTEXT, WIDTH, 4, LAYERS) != NULL);
    CHECK(elements(m) ==
          (2 * VOCAB + CONTEXT + 2) * WIDTH + LAYERS * (12 * WIDTH * WIDTH + 13 * WIDTH));
    CHECK(weir_model_param_count(m) == 2 + 12 * LAYERS + 2 + 1);
    CHECK(has_param(m, "token.weight") && has_param(m, "block2.qkv.bias"));
    CHECK(has_param(m, "block0.norm2.weight") && has_param(m, "norm.bias"));
    weir_model_free(m);
    weir_device_close(d);
}

CASE(char_lstm_parameters)
{
    enum { VOCAB = 30, WIDTH = 12, LAYERS = 2 };
    weir_device *d = open_cpu();
    weir_model  *m = weir_model_new(d);

    CHECK(weir_char_lstm_new(m, VOCAB, WIDTH, LAYERS) != NULL);
    CHECK(elements(m) == 2 * VOCAB * WIDTH + VOCAB + LAYERS * (8 * WIDTH * WIDTH + 8 * WIDTH));
    CHECK(has_param(m, "token.weight") && has_param(m, "lstm.weight_hh_l1"));
    weir_model_free(m);
    weir_device_close(d);
}

/* Row i*t + s is position s of sequence i, and it depends on tokens 0..s of sequence i only. */
static void looks_back_only(weir_device *d, weir_layer *net)
{
    enum { N = 2, T = 4, VOCAB = 9, CHANGED = 1 * T + 2 };
    int32_t      token[N * T] = {1, 2, 3, 4, 5, 6, 7, 8};
    float        before[N * T][VOCAB], after[N * T][VOCAB];
    weir_tensor *x = weir_input(d, weir_2d(WEIR_I32, N, T));

    CHECK_OK(weir_no_grad_begin(d));
    CHECK_OK(weir_write(x, token, sizeof token));
    CHECK_OK(weir_read(weir_apply(net, x), before, sizeof before));
    token[CHANGED] = 0;
    CHECK_OK(weir_write(x, token, sizeof token));
    CHECK_OK(weir_read(weir_apply(net, x), after, sizeof after));
    for (int i = 0; i < N * T; i++)
        CHECK((memcmp(before[i], after[i], sizeof before[i]) == 0) == (i < CHANGED));
    CHECK_OK(weir_no_grad_end(d));
    weir_release(x);
}

CASE(text_networks_look_back_only)
{
    weir_device *d = open_cpu();
    weir_model  *m = weir_model_new(d);

    looks_back_only(d, weir_gpt_new(m, 9, 5, 16, 2, 2));
    looks_back_only(d, weir_char_lstm_new(m, 9, 16, 2));
    weir_model_free(m);
    weir_device_close(d);
}

CASE(text_network_mistakes)
{
    weir_device *d = open_cpu();
    weir_model  *m = weir_model_new(d);
    weir_tensor *x = weir_input(d, weir_2d(WEIR_I32, 2, 6));
    weir_tensor *flat = weir_input(d, weir_1d(WEIR_I32, 6));

    CHECK(weir_gpt_new(NULL, 9, 5, 16, 2, 2) == NULL && weir_char_lstm_new(NULL, 9, 5, 1) == NULL);
    CHECK(weir_gpt_new(m, 9, 5, 16, 3, 2) == NULL);
    CHECK_TEXT(weir_error(), "3 heads do not divide the width 16");
    CHECK(weir_gpt_new(m, 9, 0, 16, 2, 2) == NULL);
    CHECK_TEXT(weir_error(), "context is 0");
    CHECK(weir_char_lstm_new(m, 9, 16, 0) == NULL);
    CHECK_TEXT(weir_error(), "layers is 0");
    CHECK(weir_model_param_count(m) == 0);
    CHECK(weir_apply(weir_gpt_new(m, 9, 5, 16, 2, 2), x) == NULL);
    CHECK_TEXT(weir_error(), "6 positions but must have 1 to the context 5");
    CHECK(weir_apply(weir_char_lstm_new(m, 9, 16, 1), flat) == NULL);
    CHECK_TEXT(weir_error(), "must be tokens");
    weir_release(x);
    weir_release(flat);
    weir_model_free(m);
    weir_device_close(d);
}

/* Without a tape nothing but the logits is alive after a network was applied. */
CASE(networks_close_their_scope)
{
    weir_device *d = weir_device_open(check_device(), &(weir_device_options){.guard = -1});
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
    CHECK(weir_mlp_new(m, 3, NULL) == NULL);
    CHECK_TEXT(weir_error(), "mlp: widths is NULL");
    CHECK(weir_lenet_new(NULL, 10) == NULL);
    CHECK(weir_model_param_count(m) == 0 && weir_model_state_count(m) == 0);
    weir_model_free(m);
    weir_device_close(d);
}
