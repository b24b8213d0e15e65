/* onnx.c - imported models: values, shapes, training within a budget, names, refusals. */
#include "core/mem.h"
#include "model/onnx/onnx_bytes.h"

enum { CLASSES = 5, STEPS = 4 };

static weir_device *device(void)
{
    return weir_device_open(check_device(), &(weir_device_options){.threads = 1, .seed = 3});
}

static weir_onnx *open_model(weir_device *d, const pb *m, const weir_onnx_options *o)
{
    weir_onnx *const net = weir_onnx_open_bytes(d, m->at, m->n, o);

    check_that(net != NULL, __FILE__, __LINE__, "the model is refused: %s", weir_error());
    return net;
}

/* The parameter or state of that name. */
static weir_tensor *named(weir_onnx *net, const char *name)
{
    weir_tensor *const t = weir_model_find(weir_onnx_model(net), name);

    check_that(t != NULL, __FILE__, __LINE__, "no '%s'", name);
    return t;
}

/* One input, one output. */
static weir_tensor *apply(weir_onnx *net, weir_tensor *x)
{
    weir_tensor *y = NULL;

    CHECK_OK(weir_onnx_apply(net, 1, &x, 1, &y));
    return y;
}

/* The network of net_convolutional by hand. */
static weir_tensor *by_hand(weir_onnx *net, weir_tensor *x, bool train)
{
    weir_batch_norm_options norm = weir_batch_norm_options_default();

    norm.eps = (double)1e-5f;
    norm.momentum = 1 - (double)0.9f;
    norm.train = train;
    weir_tensor *h = weir_conv2d(x, named(net, "conv.weight"), named(net, "conv.bias"),
                                 &(weir_conv2d_options){.pad = {1, 1}});
    h = weir_batch_norm(h, named(net, "norm.weight"), named(net, "norm.bias"),
                        named(net, "norm.mean"), named(net, "norm.var"), &norm);
    h = weir_max_pool2d(weir_relu(h), &(weir_pool2d_options){.kernel = {2, 2}, .stride = {2, 2}});
    return weir_gemm(weir_flatten(h), named(net, "fc.weight"), named(net, "fc.bias"), 1, 1, false,
                     true);
}

CASE(a_network_has_the_bits_of_its_operations)
{
    static pb    m;
    float        y[3 * CLASSES], want[3 * CLASSES], on[3 * CLASSES];
    weir_device *d = device();
    net_convolutional(&m);
    weir_onnx   *net = open_model(d, &m, NULL);
    weir_tensor *x = weir_input(d, weir_4d(WEIR_F32, 3, 3, 8, 8));
    CHECK_OK(weir_write_normal(x, 0, 1));
    CHECK_OK(weir_scope_begin(d));
    CHECK_OK(weir_read(apply(net, x), y, sizeof y));
    CHECK_OK(weir_read(by_hand(net, x, false), want, sizeof want));
    CHECK_OK(weir_scope_end(d));
    CHECK_BITS(y, want, sizeof y);
    weir_graph  *g = weir_graph_begin(d);
    weir_tensor *out = weir_keep(apply(net, x));
    CHECK_OK(weir_graph_end(g, NULL));
    CHECK_OK(weir_graph_run(g));
    CHECK_OK(weir_read(out, on, sizeof on));
    CHECK_BITS(on, want, sizeof on);
    weir_graph_free(g);
    weir_release(x);
    weir_onnx_free(net);
    weir_device_close(d);
}

/* Another batch is another graph over the same parameters; Shape, Gather, Concat are computed at
 * once, so that no operation of the graph is about shapes. */
CASE(shapes_are_computed_while_recording)
{
    static pb    m;
    int64_t      token[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 2};
    float        y[72], one[24];
    weir_device *d = device();
    net_text(&m);
    weir_onnx *net = open_model(d, &m, NULL);
    for (int64_t batch = 3; batch > 0; batch -= 2) {
        weir_tensor *x = weir_input(d, weir_2d(WEIR_I64, batch, 4));
        weir_graph  *g = weir_graph_begin(d);
        weir_tensor *out = weir_keep(apply(net, x));
        CHECK_OK(weir_graph_end(g, NULL));
        CHECK_OK(weir_write(x, token, (size_t)batch * 4 * sizeof *token));
        CHECK_OK(weir_graph_run(g));
        const weir_desc desc = weir_tensor_desc(out);
        CHECK(desc.ndim == 3 && desc.dim[0] == batch && desc.dim[2] == 6);
        CHECK_OK(weir_read(out, batch == 3 ? y : one, (size_t)batch * 24 * sizeof *y));
        char *const text = weir_graph_text(g, WEIR_TEXT_GRAPH);
        CHECK(text && strstr(text, "softmax") && !strstr(text, " concat "));
        weir_text_free(text);
        weir_graph_free(g);
        weir_release(x);
    }
    for (int i = 0; i < 24; i++)
        CHECK_NEAR(one[i], y[i], 1e-5);
    weir_onnx_free(net);
    weir_device_close(d);
}

/* ---- training ---- */

typedef struct training {
    weir_device *d;
    weir_onnx   *net;
    weir_tensor *x, *y, *loss;
    weir_optim  *optim;
    weir_step   *step;
    bool         hand;
} training;

static weir_status record(void *context)
{
    training *const    t = context;
    weir_tensor *const logits = t->hand ? by_hand(t->net, t->x, true) : apply(t->net, t->x);

    t->loss = weir_keep(weir_cross_entropy(logits, t->y));
    return weir_minimize(t->optim, t->loss);
}

/* A number that depends on the bits of every parameter and state. */
static uint64_t bits_of(const weir_model *m)
{
    const size_t n = weir_model_param_count(m), all = n + weir_model_state_count(m);
    uint32_t     v[512];
    uint64_t     sum = 0;

    for (size_t i = 0; i < all; i++) {
        weir_tensor *const t = i < n ? weir_model_param(m, i) : weir_model_state(m, i - n);
        const size_t       bytes = weir_tensor_bytes(t);
        if (CHECK(bytes <= sizeof v) && CHECK_OK(weir_read(t, v, bytes)))
            for (size_t k = 0; k < bytes / sizeof *v; k++)
                sum = sum * 31 + v[k];
    }
    return sum;
}

static void check_memory(weir_step *step, bool limited)
{
    weir_graph_stats s;
    size_t           measured = 0;

    CHECK_OK(weir_graph_stats_of(weir_step_graph(step), &s));
    CHECK_OK(weir_graph_measure(weir_step_graph(step), &measured));
    CHECK(measured == s.arena_bytes);
    CHECK(!limited || (s.budget_bytes && s.planned_peak_bytes <= s.budget_bytes));
}

/* The smallest budget that the step can be planned for, in bytes. */
static void smallest(training *t, char text[24])
{
    weir_graph_needs  needs = {0};
    weir_graph *const g = weir_graph_begin(t->d);

    CHECK_OK(record(t));
    CHECK_OK(weir_graph_end_needs(g, NULL, &needs));
    weir_graph_free(g);
    CHECK(needs.least_bytes > 0);
    snprintf(text, 24, "%zu", needs.least_bytes);
}

/* Trains some steps; returns the loss, and the bits of the model in *sum. */
static float train(bool graph, bool hand, bool limited, uint64_t *sum)
{
    static pb     m;
    char          budget[24] = "";
    const int32_t label[8] = {0, 1, 2, 3, 4, 0, 1, 2};
    training      t = {.d = device(), .hand = hand};
    float         loss = 0;

    net_convolutional(&m);
    t.net = open_model(t.d, &m, &(weir_onnx_options){.train = true});
    t.x = weir_input(t.d, weir_4d(WEIR_F32, 8, 3, 8, 8));
    t.y = weir_input(t.d, weir_1d(WEIR_I32, 8));
    t.optim = weir_sgd_new(t.d, 0.05, &(weir_sgd_options){.momentum = 0.9});
    if (limited)
        smallest(&t, budget);
    t.step = weir_step_new(t.d, record, &t, &(weir_step_options){
        .graph = graph, .plan = {.budget = limited ? budget : NULL}});
    CHECK_OK(weir_write_normal(t.x, 0, 1));
    CHECK_OK(weir_write(t.y, label, sizeof label));
    for (int i = 0; i < STEPS; i++)
        CHECK_OK(weir_step_run(t.step));
    CHECK_OK(weir_read(t.loss, &loss, sizeof loss));
    *sum = bits_of(weir_onnx_model(t.net));
    if (graph)
        check_memory(t.step, limited);
    weir_step_free(t.step);
    weir_optim_free(t.optim);
    weir_release(t.x);
    weir_release(t.y);
    weir_onnx_free(t.net);
    weir_device_close(t.d);
    return loss;
}

CASE(training_has_the_bits_of_the_same_network_by_hand)
{
    uint64_t    want, sum;
    const float loss = train(false, true, false, &want);

    CHECK(loss > 0 && loss < 2);
    CHECK(train(true, true, false, &sum) == loss && sum == want);
    CHECK(train(false, false, false, &sum) == loss && sum == want);
    CHECK(train(true, false, false, &sum) == loss && sum == want);
    CHECK(train(true, false, true, &sum) == loss && sum == want);
}

CASE(names_of_parameters_and_what_is_frozen)
{
    static pb    m;
    weir_device *d = device();
    net_convolutional(&m);
    weir_onnx *net = open_model(d, &m, &(weir_onnx_options){.frozen = "conv.weight,fc.bias"});
    CHECK(weir_model_param_count(weir_onnx_model(net)) == 6);
    CHECK(weir_model_state_count(weir_onnx_model(net)) == 2);
    CHECK(!weir_tensor_needs_grad(named(net, "conv.weight")));
    CHECK(weir_tensor_needs_grad(named(net, "conv.bias")));
    CHECK(!weir_tensor_needs_grad(named(net, "fc.bias")));
    CHECK(!weir_tensor_needs_grad(named(net, "norm.mean")));
    weir_onnx_free(net);
    net = open_model(d, &m, &(weir_onnx_options){.frozen = "*"});
    for (size_t i = 0; i < weir_model_param_count(weir_onnx_model(net)); i++)
        CHECK(!weir_tensor_needs_grad(weir_model_param(weir_onnx_model(net), i)));
    weir_onnx_free(net);
    CHECK(!weir_onnx_open_bytes(d, m.at, m.n, &(weir_onnx_options){.frozen = "conv.wieght"}));
    CHECK(weir_error_status() == WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "there is no parameter 'conv.wieght'");
    weir_device_close(d);
}

/* ---- inputs, outputs, refusals ---- */

CASE(inputs_and_outputs_by_name)
{
    static pb    m;
    weir_desc    desc;
    weir_device *d = device();
    net_convolutional(&m);
    weir_onnx *net = open_model(d, &m, NULL);
    CHECK(weir_onnx_input_count(net) == 1 && weir_onnx_output_count(net) == 1);
    CHECK(strcmp(weir_onnx_input_name(net, 0), "x") == 0 && !*weir_onnx_input_name(net, 1));
    CHECK(strcmp(weir_onnx_output_name(net, 0), "y") == 0 && !*weir_onnx_output_name(net, 1));
    CHECK_STATUS(weir_onnx_input_desc(net, 0, &desc), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "\"batch=1\"");
    CHECK(desc.dtype == WEIR_F32 && desc.ndim == 4 && desc.dim[0] == -1 && desc.dim[3] == 8);
    CHECK_STATUS(weir_onnx_input_desc(net, 1, &desc), WEIR_ERR_INVALID);
    weir_onnx_free(net);
    static const char *const wrong[] = {"seq=9", "batch", "batch=", "batch=x", "batch=8,seq=1"};
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
        CHECK(!weir_onnx_open_bytes(d, m.at, m.n, &(weir_onnx_options){.dims = wrong[i]}));
        CHECK_TEXT(weir_error(), "no input has a dim like");
    }
    CHECK(!weir_onnx_open_bytes(d, m.at, m.n, &(weir_onnx_options){.values = "y"}));
    CHECK_TEXT(weir_error(), "there is no input 'y'");
    net = open_model(d, &m, &(weir_onnx_options){.dims = "batch=8"});
    CHECK_OK(weir_onnx_input_desc(net, 0, &desc));
    CHECK(desc.dtype == WEIR_F32 && desc.ndim == 4 && desc.dim[0] == 8 && desc.dim[3] == 8);
    weir_tensor *bad[] = {weir_input(d, weir_4d(WEIR_F32, 4, 3, 8, 8)),
                          weir_input(d, weir_4d(WEIR_F64, 8, 3, 8, 8)),
                          weir_input(d, weir_3d(WEIR_F32, 8, 3, 64))};
    const weir_status status[] = {WEIR_ERR_SHAPE, WEIR_ERR_DTYPE, WEIR_ERR_SHAPE};
    static const char *const says[] = {"axis 0 of the input 'x' has size 4, but the model takes 8",
                                       "is f64, but the model takes float", "has 3 axes"};
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        weir_tensor *y;
        CHECK_STATUS(weir_onnx_apply(net, 1, &bad[i], 1, &y), status[i]);
        CHECK_TEXT(weir_error(), says[i]);
        CHECK_STATUS(weir_onnx_apply(net, 1, &bad[i], 0, &y), WEIR_ERR_INVALID);
        weir_release(bad[i]);
    }
    weir_onnx_free(net);
    weir_device_close(d);
}

/* Operators that Weir lacks are named together, each once, before memory is taken for weights. */
CASE(what_is_lacking_is_one_sentence)
{
    static pb    m;
    pb           g = {0};
    weir_device *d = device();
    weir_memory  before, after;
    net_input(&g, "x", PB_F32, 1, (int64_t[]){4});
    net_weights(&g, "w", 1, (int64_t[]){4}, 0);
    net_node(&g, "ImageDecoder", "x", "a", NULL);
    net_node(&g, "Add", "x,w", "b", NULL);
    net_node(&g, "StringSplit", "b", "c", NULL);
    net_node(&g, "ImageDecoder", "c", "y", NULL);
    net_output(&g, "y");
    net_model(&m, &g, 17);
    weir_device_memory(d, &before);
    CHECK(!weir_onnx_open_bytes(d, m.at, m.n, NULL) && weir_error_status() == WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "Weir lacks 2 of its operators (opset 17): ImageDecoder, StringSplit");
    weir_device_memory(d, &after);
    CHECK(before.live == after.live);
    net_model(&m, &g, 5);
    CHECK(!weir_onnx_open_bytes(d, m.at, m.n, NULL));
    CHECK_TEXT(weir_error(), "has the opset 5; Weir reads 6 to 28");
    weir_device_close(d);
}

/* A shape that comes as an input is read where the option says so, else the node says what to do.
 */
CASE(inputs_as_values)
{
    static pb     m;
    pb            g = {0};
    weir_tensor  *y;
    const int64_t shape[2] = {3, -1};
    weir_device  *d = device();
    net_input(&g, "x", PB_F32, 1, (int64_t[]){6});
    net_input(&g, "shape", PB_I64, 1, (int64_t[]){2});
    net_node(&g, "Reshape", "x,shape", "y", NULL);
    net_output(&g, "y");
    net_model(&m, &g, 21);
    weir_tensor *in[] = {weir_input(d, weir_1d(WEIR_F32, 6)), weir_input(d, weir_1d(WEIR_I64, 2))};
    CHECK_OK(weir_write_fill(in[0], 2));
    CHECK_OK(weir_write(in[1], shape, sizeof shape));
    weir_onnx *net = open_model(d, &m, NULL);
    CHECK_OK(weir_scope_begin(d));
    CHECK_STATUS(weir_onnx_apply(net, 2, in, 1, &y), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "node 'Reshape' (Reshape): input 1, 'shape', must be known");
    CHECK_STATUS(weir_onnx_apply(net, 1, in, 1, &y), WEIR_ERR_INVALID);
    weir_onnx_free(net);
    net = open_model(d, &m, &(weir_onnx_options){.values = "shape"});
    CHECK_OK(weir_onnx_apply(net, 2, in, 1, &y));
    CHECK(weir_tensor_desc(y).ndim == 2 && weir_tensor_desc(y).dim[1] == 2);
    CHECK_OK(weir_scope_end(d));
    weir_onnx_free(net);
    weir_release(in[0]);
    weir_release(in[1]);
    weir_device_close(d);
}

/* ---- exports for inference ---- */

CASE(folded_norms_are_counted)
{
    static pb    m;
    pb           g = {0};
    weir_device *d = device();

    net_convolutional(&m);
    weir_onnx *whole = open_model(d, &m, NULL);
    net_input(&g, "x", PB_F32, 4, (int64_t[]){-1, 1, 2, 2});
    net_weights(&g, "w", 4, (int64_t[]){1, 1, 1, 1}, 0);
    net_weights(&g, "b", 1, (int64_t[]){1}, 0);
    net_node(&g, "Conv", "x,w,b", "a", NULL);
    net_node(&g, "Conv", "a,w", "y", NULL);
    net_output(&g, "y");
    net_model(&m, &g, 17);
    weir_onnx *folded = open_model(d, &m, NULL);
    CHECK(weir_onnx_folded(whole) == 0 && weir_onnx_folded(folded) == 1);
    CHECK(weir_onnx_folded(NULL) == 0);
    weir_onnx_free(whole);
    weir_onnx_free(folded);
    weir_device_close(d);
}

/* ---- other values than the outputs ---- */

CASE(values_inside_are_handed_out)
{
    static pb    m;
    float        rows[2 * 64], y[2 * CLASSES], again[2 * CLASSES];
    weir_tensor *out[2] = {NULL, NULL};
    weir_device *d = device();
    net_convolutional(&m);
    weir_onnx   *net = open_model(d, &m, NULL);
    weir_tensor *x = weir_input(d, weir_4d(WEIR_F32, 2, 3, 8, 8));
    CHECK(weir_onnx_node_count(net) == 6 && strcmp(weir_onnx_node_op(net, 4), "Flatten") == 0);
    CHECK(strcmp(weir_onnx_node_output(net, 4, 0), "e") == 0 && !*weir_onnx_node_output(net, 4, 1));
    CHECK(!*weir_onnx_node_name(net, 6) && !*weir_onnx_node_op(net, 6));
    CHECK_OK(weir_write_normal(x, 0, 1));
    CHECK_OK(weir_scope_begin(d));
    CHECK_OK(weir_onnx_select(net, "e,y"));
    CHECK(weir_onnx_output_count(net) == 2 && strcmp(weir_onnx_output_name(net, 0), "e") == 0);
    CHECK_OK(weir_onnx_apply(net, 1, &x, 2, out));
    CHECK_OK(weir_read(out[0], rows, sizeof rows));
    CHECK_OK(weir_read(out[1], y, sizeof y));
    CHECK_STATUS(weir_onnx_select(net, "e,z"), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "no value 'z'");
    CHECK_OK(weir_onnx_select(net, NULL));
    CHECK(weir_onnx_output_count(net) == 1);
    CHECK_OK(weir_read(apply(net, x), again, sizeof again));
    CHECK_BITS(y, again, sizeof y);
    CHECK_OK(weir_scope_end(d));
    CHECK_OK(weir_onnx_select(net, "e"));      /* the product is not even recorded */
    weir_graph *g = weir_graph_begin(d);
    CHECK(weir_keep(apply(net, x)) != NULL);
    CHECK_OK(weir_graph_end(g, NULL));
    char *const text = weir_graph_recorded(g);
    CHECK(text && !strstr(text, "matmul") && !strstr(text, "gemm"));
    weir_text_free(text);
    weir_graph_free(g);
    weir_release(x);
    weir_onnx_free(net);
    weir_device_close(d);
}
