/* onnx_write.c - recorded steps as ONNX files: networks read again to the bit, names, weights in a
 * file of their own, what is refused, failing memory. The way "onnx" of the op table
 * (test/graph/ops/onnx.c) has each operation. */
#include <string.h>
#include <sys/stat.h>

#include "core/mem.h"
#include "temp_folder.h"

static weir_device *device(void)
{
    return weir_device_open(check_device(), &(weir_device_options){.threads = 1});
}

/* A graph of a network in evaluation, or of a step of its training. */
typedef struct net {
    weir_device *d;
    weir_model  *m;
    weir_layer  *layers;
    weir_optim  *optim;
    weir_tensor *x, *t, *y, *loss;
    weir_graph  *g;
} net;

static void image_net(net *n)
{
    n->layers = weir_resnet_cifar_new(n->m, 8, 10);
    n->x = weir_input(n->d, weir_4d(WEIR_F32, 2, 3, 16, 16));
}

static void text_net(net *n)
{
    n->layers = weir_gpt_new(n->m, 11, 8, 16, 2, 2);
    n->x = weir_input(n->d, weir_2d(WEIR_I32, 2, 8));
}

static void group_net(net *n)
{
    n->layers = weir_group_norm_new(n->m, "norm", 3, 6);
    n->x = weir_input(n->d, weir_4d(WEIR_F32, 2, 6, 4, 5));
}

static void recurrent_net(net *n)
{
    n->layers = weir_char_lstm_new(n->m, 11, 8, 2);
    n->x = weir_input(n->d, weir_2d(WEIR_I32, 5, 2));
}

static void upsampling_net(net *n)
{
    n->layers = weir_conv_transpose2d_new(
        n->m, "up", 16, 32, 4,
        &(weir_conv_transpose2d_options){.stride = {2, 2}, .pad = {1, 1}, .groups = 1}, true);
    n->x = weir_input(n->d, weir_4d(WEIR_F32, 2, 16, 12, 12));
}

static net record(void (*make)(net *n), bool train)
{
    net n = {.d = device()};

    n.m = weir_model_new(n.d);
    make(&n);
    weir_model_train(n.m, train);
    CHECK_OK(weir_set_name(n.x, "pixels"));
    CHECK_OK(weir_write_fill(n.x, 1));
    n.g = weir_graph_begin(n.d);
    n.y = weir_keep(weir_apply(n.layers, n.x));
    if (train) {
        n.t = weir_input(n.d, weir_1d(WEIR_I32, weir_tensor_desc(n.y).dim[0]));
        n.optim = weir_sgd_new(n.d, 0.01, NULL);
        n.loss = weir_keep(weir_cross_entropy(n.y, n.t));
        CHECK_OK(weir_minimize(n.optim, n.loss));
    }
    CHECK_OK(weir_graph_end(n.g, NULL));
    CHECK_OK(weir_graph_bind(n.g, n.y, WEIR_ROLE_OUTPUT, "logits"));
    return n;
}

static void release(net *n)
{
    weir_graph_free(n->g);
    weir_optim_free(n->optim);
    weir_release(n->x);
    weir_release(n->t);
    weir_model_free(n->m);
    weir_device_close(n->d);
}

/* Opens the file and compares what it computes with the graph's result, bit for bit. */
static void same_again(const net *n, const char *path)
{
    const size_t     bytes = weir_tensor_bytes(n->y);
    char *const      want = malloc(bytes), *const got = malloc(bytes);
    weir_onnx *const again = weir_onnx_open(n->d, path, NULL);
    weir_tensor     *y = NULL;

    CHECK_OK(weir_graph_run(n->g));
    CHECK_OK(weir_read(n->y, want, bytes));
    CHECK_OK(weir_scope_begin(n->d));
    if (check_that(again != NULL, __FILE__, __LINE__, "%s", weir_error()) &&
        CHECK_OK(weir_onnx_apply(again, 1, &n->x, 1, &y)) && CHECK(weir_tensor_bytes(y) == bytes) &&
        CHECK_OK(weir_read(y, got, bytes))) {
        CHECK(memcmp(want, got, bytes) == 0);
        CHECK_TEXT(weir_onnx_input_name(again, 0), "pixels");
        CHECK_TEXT(weir_onnx_output_name(again, 0), "logits");
        CHECK(weir_model_param_count(weir_onnx_model(again)) == weir_model_param_count(n->m));
    }
    CHECK_OK(weir_scope_end(n->d));
    weir_onnx_free(again);
    free(want);
    free(got);
}

static void there_and_back(void (*make)(net *n), const weir_onnx_save_options *o)
{
    folder f;
    net    n = record(make, false);

    if (CHECK(folder_make(&f))) {
        if (CHECK_OK(weir_graph_save_onnx(n.g, f.file[0], o)))
            same_again(&n, f.file[0]);
        char data[100];
        snprintf(data, sizeof data, "%s.data", f.file[0]);
        CHECK((unlink(data) == 0) == (o && o->external));
        folder_remove(&f);
    }
    release(&n);
}

CASE(networks_are_read_again_to_the_bit)
{
    there_and_back(image_net, NULL);
    there_and_back(image_net, &(weir_onnx_save_options){.opset = 13});
    there_and_back(text_net, &(weir_onnx_save_options){.opset = 23});
    there_and_back(recurrent_net, NULL);
}

/* Our own kernels sum in an order that depends on the sizes of what they compute. */
CASE(a_transposed_convolution_is_read_with_its_pads)
{
    setenv("WEIR_CONV", "own", 1);
    there_and_back(upsampling_net, NULL);
    unsetenv("WEIR_CONV");
}

CASE(weights_in_a_file_of_their_own)
{
    there_and_back(image_net, &(weir_onnx_save_options){.external = true});
}

CASE(layers_keep_their_names)
{
    folder f;
    net    n = record(image_net, false);

    CHECK_OR_RETURN(folder_make(&f));
    CHECK_OK(weir_graph_save_onnx(n.g, f.file[0], NULL));
    weir_onnx *const again = weir_onnx_open(n.d, f.file[0], NULL);
    if (CHECK(again)) {
        CHECK_TEXT(weir_onnx_node_name(again, 0), "conv2d_1");
        CHECK(strcmp(weir_onnx_node_op(again, 0), "Conv") == 0);
        CHECK(strcmp(weir_onnx_node_op(again, 1), "BatchNormalization") == 0);
        for (size_t i = 0; i < weir_model_param_count(n.m); i++)
            CHECK(weir_model_find(weir_onnx_model(again),
                                  weir_tensor_name(weir_model_param(n.m, i))));
    }
    weir_onnx_free(again);
    folder_remove(&f);
    release(&n);
}

/* From opset 21 on, whose scale and bias are those of channels, group norm is one operator. */
CASE(group_norm_is_one_operator_from_opset_21)
{
    for (int opset = 20; opset <= 21; opset++) {
        folder f;
        net    n = record(group_net, false);
        CHECK_OR_RETURN(folder_make(&f));
        CHECK_OK(weir_graph_save_onnx(n.g, f.file[0], &(weir_onnx_save_options){.opset = opset}));
        weir_onnx *const again = weir_onnx_open(n.d, f.file[0], NULL);
        if (CHECK(again)) {
            const size_t last = weir_onnx_node_count(again) - 1;
            CHECK_TEXT(weir_onnx_node_op(again, last), opset == 21 ? "GroupNormalization" : "Add");
            CHECK((last == 0) == (opset == 21));
        }
        weir_onnx_free(again);
        if (opset == 21)
            same_again(&n, f.file[0]);
        folder_remove(&f);
        release(&n);
    }
}

/* Of a training step the forward part is written: here the loss, of batch statistics. */
CASE(the_forward_part_of_a_training_step)
{
    folder f;
    net    n = record(image_net, true);

    CHECK_OR_RETURN(folder_make(&f));
    CHECK_OK(weir_graph_save_onnx(n.g, f.file[0], NULL));
    weir_onnx *again = weir_onnx_open(n.d, f.file[0], NULL);
    if (CHECK(again)) {
        CHECK(weir_onnx_input_count(again) == 2 && weir_onnx_output_count(again) == 2);
        weir_onnx_free(again);
    }
    CHECK_OK(weir_graph_save_onnx(n.g, f.file[0], &(weir_onnx_save_options){.outputs = "logits"}));
    again = weir_onnx_open(n.d, f.file[0], NULL);
    if (CHECK(again))
        CHECK(weir_onnx_input_count(again) == 1 && weir_onnx_output_count(again) == 1);
    weir_onnx_free(again);
    folder_remove(&f);
    release(&n);
}

CASE(what_cannot_be_written_is_named_at_once)
{
    folder             f;
    weir_device *const d = device();
    weir_tensor *const x = weir_input(d, weir_1d(WEIR_F32, 3));
    weir_graph *const  g = weir_graph_begin(d);
    weir_tensor       *y = weir_add(weir_uniform(d, weir_1d(WEIR_F32, 3), 0, 1), x);

    y = weir_keep(weir_cumprod(weir_add(y, weir_normal(d, weir_1d(WEIR_F32, 3), 0, 1)), 0, false));
    CHECK_STATUS(weir_graph_save_onnx(g, "/nowhere", NULL), WEIR_ERR_STATE);
    CHECK_OK(weir_graph_end(g, NULL));
    CHECK_OR_RETURN(folder_make(&f));
    CHECK_STATUS(weir_graph_save_onnx(g, f.file[0], NULL), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "3 operations cannot be written to opset 18: cumprod (from opset 26 "
                             "on), normal (no operator of ONNX), uniform (no operator of ONNX)");
    CHECK(access(f.file[0], F_OK) != 0);
    CHECK_STATUS(weir_graph_save_onnx(g, f.file[0], &(weir_onnx_save_options){.opset = 8}),
                 WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "opset 8; Weir writes 9 to 28");
    CHECK_STATUS(weir_graph_save_onnx(g, f.file[0], &(weir_onnx_save_options){.outputs = "z"}),
                 WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "outputs 'z': the graph has 0 of them");
    CHECK_STATUS(weir_graph_save_onnx(g, NULL, NULL), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_graph_save_onnx(NULL, f.file[0], NULL), WEIR_ERR_INVALID);
    folder_remove(&f);
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}

CASE(a_parameter_that_the_step_changed_first_is_refused)
{
    weir_device *const d = device();
    weir_tensor *const w = weir_state(d, weir_1d(WEIR_F32, 3), "w");

    CHECK_OK(weir_write_fill(w, 1));
    weir_graph *const g = weir_graph_begin(d);
    CHECK_OK(weir_assign(w, weir_fill(d, weir_1d(WEIR_F32, 3), 2)));
    weir_keep(weir_exp(w));
    CHECK_OK(weir_graph_end(g, NULL));
    CHECK_STATUS(weir_graph_save_onnx(g, "/nowhere", NULL), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "exp (it reads what the step has changed)");
    weir_graph_free(g);
    weir_release(w);
    weir_device_close(d);
}

/* The file that was there stays until the new one is whole. */
CASE(failing_memory_leaves_the_old_file)
{
    folder      f;
    struct stat now;
    bool        good = false;
    net         n = record(recurrent_net, false);

    CHECK_OR_RETURN(folder_make(&f));
    file_text(&f, 0, "old");
    for (int64_t nth = 0; !good && nth < 5000; nth += nth < 40 ? 1 : 37) {
        weir_mem_fail_nth(nth, false);
        const weir_status s = weir_graph_save_onnx(n.g, f.file[0], NULL);
        good = !weir_mem_failed();
        weir_mem_fail_nth(-1, false);
        CHECK(good ? s == WEIR_OK : s == WEIR_OK || s == WEIR_ERR_NOMEM);
        CHECK(stat(f.file[0], &now) == 0 && (now.st_size == 3) == (s != WEIR_OK));
        file_text(&f, 0, "old");
    }
    CHECK(good);
    folder_remove(&f);
    release(&n);
}
