/* summary.c - summaries: counts of known networks, sums of columns, sharing, levels, no effects. */
#include "check.h"
#include "weir.h"

static weir_device *open_cpu(void)
{
    return weir_device_open(check_device(), &(weir_device_options){.threads = 1, .seed = 5});
}

/* The number behind `"key":` from `from` on in a JSON text. */
static double json_number(const char *from, const char *key)
{
    char quoted[40];

    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *const at = from ? strstr(from, quoted) : NULL;
    return at ? strtod(at + strlen(quoted), NULL) : -1;
}

static const char *const columns[] = {"parameters", "trainable", "parameter_bytes", "states",
                                      "state_bytes", "flops", "multiply_adds"};

/* Every column of the JSON summary adds up to its total. */
static void adds_up(const char *json)
{
    const char *const total = json ? strstr(json, "\"total\"") : NULL;

    CHECK_OR_RETURN(total);
    for (size_t i = 0; i < ARRAY_LENGTH(columns); i++) {
        double sum = 0;
        for (const char *row = json; (row = strstr(row, "{\"depth\"")) != NULL; row++)
            sum += json_number(row, columns[i]);
        CHECK(sum == json_number(total, columns[i]));
    }
}

/* Parameters and multiply-adds of a network for one image, as torchvision and fvcore count them. */
CASE(counts_of_known_networks)
{
    weir_device *const d = weir_device_open("sim:v100", NULL);
    weir_model *const  m = weir_model_new(d);
    const struct {
        weir_layer *net;
        double      params, multiply_adds;
    } rows[] = {
        {weir_resnet_new(m, 18, 1000, false), 11689512, 1814073344},
        {weir_resnet_new(m, 50, 1000, false), 25557032, 4089184256},
        {weir_vgg16_new(m, 1000, 224), 138357544, 15470264320},
        {weir_mobilenet_v2_new(m, 1000), 3504872, 300774272},
        {weir_densenet121_new(m, 1000), 7978856, 2834161664},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        char *const json = weir_layer_summary(rows[i].net, weir_4d(WEIR_F32, 1, 3, 224, 224),
                                              &(weir_summary_options){.json = true});
        const char *const total = json ? strstr(json, "\"total\"") : NULL;
        if (CHECK(total)) {
            CHECK(json_number(total, "parameters") == rows[i].params);
            CHECK(json_number(total, "multiply_adds") == rows[i].multiply_adds);
            CHECK(json_number(total, "parameter_bytes") == 4 * rows[i].params);
            adds_up(json);
        }
        weir_text_free(json);
    }
    weir_model_free(m);
    weir_device_close(d);
}

static weir_layer *small_net(weir_model *m)
{
    const weir_conv2d_options same = {.pad = {1, 1}};

    return weir_sequential_new(
        m, "net", 6,
        (weir_layer *const[]){weir_conv2d_new(m, NULL, 1, 2, 3, &same, true),
                              weir_batch_norm_new(m, NULL, 2), weir_relu_new(m),
                              weir_dropout_new(m, 0.5), weir_flatten_new(m),
                              weir_linear_new(m, "out", 32, 3, true)});
}

CASE(the_table)
{
    weir_device *const d = open_cpu();
    weir_model *const  m = weir_model_new(d);
    weir_layer *const  net = small_net(m);
    const weir_desc    x = weir_4d(WEIR_F32, 2, 1, 4, 4);

    CHECK_OK(weir_layer_set_trainable(net, false));
    CHECK_OK(weir_tensor_set_trainable(weir_model_find(m, "net.out.bias"), true));
    char *const text = weir_layer_summary(net, x, NULL);
    CHECK_TEXT(text, "layer      kind        output            parameters           bytes");
    CHECK_TEXT(text, "net        sequential  f32(2,3)                   -               -");
    CHECK_TEXT(text, "  net.0    conv2d      f32(2,2,4,4)              20              80"
                     "               1,216                 576\n");
    CHECK_TEXT(text, "  net.2    relu        f32(2,2,4,4)               -               -"
                     "                  64                   -\n");
    CHECK_TEXT(text, "  net.out  linear      f32(2,3)                  99             396"
                     "                 390                 192\n");
    CHECK_TEXT(text, "input f32(2,1,4,4); trainable parameters 3, frozen 120; states 4 (16 bytes)");
    weir_text_free(text);
    char *const outer = weir_layer_summary(net, x, &(weir_summary_options){.depth = 1});
    CHECK_TEXT(outer, "net    sequential  f32(2,3)             123             492");
    CHECK(!strstr(outer ? outer : "", "net.0"));
    weir_text_free(outer);
    weir_model_free(m);
    weir_device_close(d);
}

/* A summary leaves elements, training and the random stream as they are. */
CASE(nothing_is_computed)
{
    weir_device *const d = open_cpu();
    weir_model *const  m = weir_model_new(d);
    weir_layer *const  net = small_net(m);
    const weir_random  before = weir_device_random(d);
    weir_memory        bytes[2];

    weir_device_reset_peak(d);
    weir_device_memory(d, &bytes[0]);
    weir_text_free(weir_layer_summary(net, weir_4d(WEIR_F32, 64, 1, 4, 4), NULL));
    weir_device_memory(d, &bytes[1]);
    const weir_random after = weir_device_random(d);
    CHECK(after.position == before.position && bytes[1].live == bytes[0].live);
    CHECK(bytes[1].live_peak == bytes[0].live_peak);
    CHECK(weir_model_training(m));
    weir_model_free(m);
    weir_device_close(d);
}

/* A layer that comes twice counts once; one that is never called is listed without a result. */
typedef struct pair {
    weir_layer *fc, *idle;
} pair;

static weir_tensor *pair_apply(void *ctx, weir_tensor *x)
{
    pair *p = ctx;

    return weir_add(weir_apply(p->fc, weir_apply(p->fc, x)), x);
}

CASE(shared_idle_and_the_models_own)
{
    weir_device *const d = open_cpu();
    weir_model *const  m = weir_model_new(d);
    pair               p;
    weir_layer *const  l = weir_layer_new(m, "pair", &(weir_layer_def){"pair", pair_apply, NULL},
                                          &p);

    p.fc = weir_layer_add(l, "fc", weir_linear_new(m, NULL, 4, 4, false));
    p.idle = weir_layer_add(l, "idle", weir_linear_new(m, NULL, 4, 5, false));
    CHECK(weir_model_add_param(m, "own", weir_1d(WEIR_F64, 3)));
    char *const text = weir_layer_summary(l, weir_2d(WEIR_F32, 2, 4), NULL),
               *const json = weir_layer_summary(l, weir_2d(WEIR_F32, 2, 4),
                                                &(weir_summary_options){.json = true});
    CHECK_TEXT(text, "(shared)\n");
    CHECK_TEXT(text, "pair.idle  linear  not applied              20");
    CHECK_TEXT(text, "model   not applied               3              24");
    adds_up(json);
    CHECK_TEXT(json, "\"parameters\":39,\"trainable\":39,\"parameter_bytes\":168");
    weir_text_free(text);
    weir_text_free(json);
    weir_model_free(m);
    weir_device_close(d);
}

CASE(summaries_that_cannot_be)
{
    weir_device *const d = open_cpu();
    weir_model *const  m = weir_model_new(d);
    weir_layer *const  net = small_net(m);
    const weir_desc    x = weir_4d(WEIR_F32, 2, 1, 4, 4);
    weir_summary_row   rows[2] = {{.name = "a", .kind = "b"},
                                  {.name = "c", .kind = "d", .depth = 2}};

    CHECK(!weir_layer_summary(net, weir_4d(WEIR_F32, 2, 3, 4, 4), NULL));
    CHECK(weir_error_status() == WEIR_ERR_SHAPE);
    CHECK_TEXT(weir_error(), "conv2d");
    CHECK(!weir_layer_summary(NULL, x, NULL));
    CHECK(!weir_layer_summary(net, x, &(weir_summary_options){.depth = -1}));
    CHECK_TEXT(weir_error(), "depth is -1");
    weir_graph *const g = weir_graph_begin(d);
    CHECK(!weir_layer_summary(net, x, NULL) && weir_error_status() == WEIR_ERR_STATE);
    weir_error_clear();
    CHECK_STATUS(weir_graph_cost_of(g, NULL), WEIR_ERR_INVALID);
    weir_graph_free(g);
    CHECK(!weir_summary_text(2, rows, x, NULL));
    CHECK_TEXT(weir_error(), "row 1 has depth 2 after depth 0");
    rows[1].depth = 1;
    rows[1].kind = NULL;
    CHECK(!weir_summary_text(2, rows, x, NULL) && !weir_summary_text(1, NULL, x, NULL));
    char *const text = weir_summary_text(0, NULL, x, NULL);
    CHECK_TEXT(text, "total");
    weir_text_free(text);
    weir_model_free(m);
    weir_device_close(d);
}
