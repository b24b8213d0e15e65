/* layer_tree.c - layers of a program's own: parts, names, files, freezing, mistakes. */
#include "check.h"
#include "temp_folder.h"
#include "weir.h"

static weir_device *open_cpu(void)
{
    return weir_device_open(check_device(), &(weir_device_options){.threads = 1, .seed = 5});
}

/* y = x + scale * relu(fc(x)), with a count of its calls in a state. */
typedef struct block {
    weir_layer  *fc;
    weir_tensor *scale, *calls;
} block;

static int released;

static weir_tensor *block_apply(void *ctx, weir_tensor *x)
{
    block *b = ctx;

    if (weir_increment(b->calls, 1) != WEIR_OK)
        return NULL;
    return weir_add(x, weir_mul(b->scale, weir_relu(weir_apply(b->fc, x))));
}

static void block_release(void *ctx)
{
    released++;
    free(ctx);
}

static const weir_layer_def block_def = {"residual", block_apply, block_release};

static weir_layer *block_new(weir_model *m, const char *name, int64_t width)
{
    block *const      b = calloc(1, sizeof *b);
    weir_layer *const l = weir_layer_new(m, name, &block_def, b);

    b->fc = weir_layer_add(l, "fc", weir_linear_new(m, NULL, width, width, true));
    b->scale = weir_layer_add_param(l, "scale", weir_1d(WEIR_F32, width));
    b->calls = weir_layer_add_state(l, "calls", weir_scalar(WEIR_F64));
    if (b->scale)
        CHECK_OK(weir_write_fill(b->scale, 2));
    if (!l)
        free(b);
    return l;
}

/* Parameter i of the model has this name. */
static void named(const weir_model *m, size_t i, const char *name)
{
    CHECK(strcmp(weir_tensor_name(weir_model_param(m, i)), name) == 0);
}

CASE(parts_have_names_below_their_layer)
{
    weir_device *const d = open_cpu();
    weir_model *const  m = weir_model_new(d);
    weir_layer *const  l = block_new(m, "block1", 3);

    CHECK(weir_model_param_count(m) == 3 && weir_model_state_count(m) == 1);
    named(m, 0, "block1.fc.weight");
    named(m, 1, "block1.fc.bias");
    named(m, 2, "block1.scale");
    CHECK_TEXT(weir_tensor_name(weir_model_state(m, 0)), "block1.calls");
    CHECK_TEXT(weir_layer_name(l), "block1");
    CHECK_TEXT(weir_layer_kind(l), "residual");
    CHECK(weir_layer_model(l) == m && weir_layer_parent(l) == NULL);
    CHECK(weir_model_find(m, "block1.scale") == weir_model_param(m, 2));
    CHECK(weir_model_find(m, "block1.calls") == weir_model_state(m, 0));
    CHECK(!weir_model_find(m, "scale") && weir_error_status() == WEIR_ERR_INVALID);
    released = 0;
    weir_model_free(m);
    CHECK(released == 1);
    weir_device_close(d);
}

CASE(trees_are_renamed_when_they_join)
{
    weir_device *const d = open_cpu();
    weir_model *const  m = weir_model_new(d);
    weir_layer *const  mlp = weir_mlp_new(m, 3, (const int64_t[]){4, 5, 6});
    weir_layer *const  outer = weir_layer_new(m, NULL, &(weir_layer_def){.apply = block_apply},
                                              NULL);
    weir_layer *const  inner = block_new(m, NULL, 3);

    named(m, 0, "fc1.weight");
    CHECK(weir_layer_add(outer, "head", mlp) == mlp);
    CHECK(weir_layer_add(outer, "body", inner) == inner);
    named(m, 3, "head.fc2.bias");
    named(m, 4, "body.fc.weight");
    CHECK_OK(weir_layer_set_name(outer, "net"));
    named(m, 0, "net.head.fc1.weight");
    named(m, 4, "net.body.fc.weight");
    named(m, 6, "net.body.scale");
    CHECK_TEXT(weir_tensor_name(weir_model_state(m, 0)), "net.body.calls");
    CHECK_OK(weir_layer_set_name(outer, "net.body"));
    named(m, 4, "net.body.body.fc.weight");
    CHECK(weir_layer_parent(inner) == outer);
    /* Texts of a step have the new names, too. */
    weir_graph *const g = weir_graph_begin(d);
    weir_keep(weir_sum(weir_model_param(m, 0), 0, false));
    char *const text = weir_graph_end(g, NULL) == WEIR_OK ? weir_graph_text(g, WEIR_TEXT_GRAPH)
                                                          : NULL;
    CHECK(text && strstr(text, "net.body.head.fc1.weight") && !strstr(text, " fc1.weight"));
    weir_text_free(text);
    weir_graph_free(g);
    weir_model_free(m);
    weir_device_close(d);
}

/* The value of a scalar f64 state. */
static double number(const weir_tensor *t)
{
    double v = NAN;
    CHECK_OK(weir_read(t, &v, sizeof v));
    return v;
}

CASE(own_layers_train_save_and_load)
{
    folder             f;
    float              before[3], after[3];
    weir_device *const d = open_cpu();
    weir_model *const  m = weir_model_new(d), *const copy = weir_model_new(d);
    weir_layer *const  l = block_new(m, "block1", 3);
    weir_optim *const  sgd = weir_sgd_new(d, 0.1, NULL);
    weir_tensor *const x = weir_input(d, weir_2d(WEIR_F32, 2, 3));

    CHECK_OR_RETURN(folder_make(&f));
    block_new(copy, "block1", 3);
    CHECK_OK(weir_write_uniform(x, -1, 1));
    weir_graph *const step = weir_graph_begin(d);
    weir_tensor *const loss = weir_keep(weir_mean(weir_square(weir_apply(l, x)), 0, false));
    CHECK_OK(weir_minimize(sgd, loss));
    CHECK_OK(weir_graph_end(step, NULL));
    for (int i = 0; i < 3; i++)
        CHECK_OK(weir_graph_run(step));
    CHECK_OK(weir_read(weir_model_find(m, "block1.scale"), before, sizeof before));
    CHECK(before[0] != 2.0f || before[1] != 2.0f || before[2] != 2.0f);
    CHECK(number(weir_model_find(m, "block1.calls")) == 3);
    CHECK_OK(weir_model_save(m, f.file[0], NULL));
    CHECK_OK(weir_model_load(copy, f.file[0], NULL));
    CHECK_OK(weir_read(weir_model_find(copy, "block1.scale"), after, sizeof after));
    CHECK_BITS(after, before, sizeof before);
    CHECK(number(weir_model_find(copy, "block1.calls")) == 3);
    weir_graph_free(step);
    weir_release(x);
    weir_optim_free(sgd);
    weir_model_free(copy);
    weir_model_free(m);
    weir_device_close(d);
    folder_remove(&f);
}

/* A tensor's first element changes in a step. */
static bool moves(weir_graph *g, const weir_tensor *t)
{
    float before[64], after[64];

    CHECK_OK(weir_read(t, before, weir_tensor_bytes(t)));
    CHECK_OK(weir_graph_run(g));
    CHECK_OK(weir_read(t, after, weir_tensor_bytes(t)));
    return memcmp(before, after, weir_tensor_bytes(t)) != 0;
}

CASE(frozen_layers_do_not_learn)
{
    weir_device *const d = open_cpu();
    weir_model *const  m = weir_model_new(d);
    weir_layer *const  body = weir_linear_new(m, "body", 4, 4, true);
    weir_layer *const  head = weir_linear_new(m, "head", 4, 2, true);
    weir_layer *const  net = weir_sequential_new(m, NULL, 2, (weir_layer *const[]){body, head});
    weir_optim *const  sgd = weir_sgd_new(d, 0.1, NULL);
    weir_tensor *const x = weir_input(d, weir_2d(WEIR_F32, 3, 4));

    CHECK_OK(weir_write_uniform(x, -1, 1));
    for (int frozen = 0; frozen < 2; frozen++) {
        CHECK_OK(weir_layer_set_trainable(body, !frozen));
        weir_graph *const step = weir_graph_begin(d);
        CHECK_OK(weir_minimize(sgd, weir_mean(weir_square(weir_apply(net, x)), 0, false)));
        CHECK_OK(weir_graph_end(step, NULL));
        CHECK(moves(step, weir_model_find(m, "body.weight")) == !frozen);
        CHECK(moves(step, weir_model_find(m, "head.weight")));
        weir_graph_free(step);
    }
    CHECK_OK(weir_layer_set_trainable(net, false));
    CHECK(!weir_tensor_needs_grad(weir_model_find(m, "head.bias")));
    weir_release(x);
    weir_optim_free(sgd);
    weir_model_free(m);
    weir_device_close(d);
}

CASE(tensors_of_the_model_itself)
{
    weir_device *const d = open_cpu();
    weir_model *const  m = weir_model_new(d);

    weir_tensor *const w = weir_model_add_param(m, "temperature", weir_scalar(WEIR_F32));
    weir_tensor *const s = weir_model_add_state(m, "seen", weir_1d(WEIR_I64, 2));
    CHECK(w && weir_tensor_needs_grad(w) && weir_model_find(m, "temperature") == w);
    CHECK(s && !weir_tensor_needs_grad(s) && weir_model_find(m, "seen") == s);
    CHECK(!weir_model_add_param(m, "seen", weir_scalar(WEIR_F32)));
    CHECK_TEXT(weir_error(), "there is a tensor 'seen' already");
    CHECK(!weir_model_add_param(m, "whole", weir_scalar(WEIR_I32)));
    CHECK(weir_error_status() == WEIR_ERR_DTYPE);
    CHECK(!weir_model_add_state(m, "", weir_scalar(WEIR_F32)));
    CHECK_TEXT(weir_error(), "the name is empty");
    weir_model_free(m);
    weir_device_close(d);
}

/* A part that failed is told at the first use of the layer. */
CASE(a_layer_without_its_parts_is_not_applied)
{
    weir_device *const d = open_cpu();
    weir_model *const  m = weir_model_new(d);
    weir_tensor *const x = weir_input(d, weir_2d(WEIR_F32, 2, 3));
    weir_layer *const  l = weir_layer_new(m, "net", &(weir_layer_def){.apply = block_apply}, NULL);

    CHECK(!weir_layer_add(l, "fc", weir_linear_new(m, NULL, 0, 3, true)));
    CHECK_TEXT(weir_error(), "in 0");
    CHECK(!weir_apply(l, x) && weir_error_status() == WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "a part of the layer 'net' could not be made");
    weir_release(x);
    weir_model_free(m);
    weir_device_close(d);
}

CASE(parts_that_do_not_fit)
{
    weir_device *const   d = open_cpu();
    weir_model *const    m = weir_model_new(d), *const other = weir_model_new(d);
    const weir_layer_def def = {.apply = block_apply};
    weir_layer *const    a = weir_layer_new(m, "a", &def, NULL),
                      *const b = weir_layer_new(m, "b", &def, NULL),
                      *const c = weir_layer_new(m, NULL, &def, NULL);
    char                 name[300];

    CHECK(!weir_layer_new(m, "x", &(weir_layer_def){.kind = "none"}, NULL));
    CHECK_TEXT(weir_error(), "no apply function");
    CHECK(!weir_layer_new(m, "x", NULL, NULL) && !weir_layer_new(NULL, "x", &def, NULL));
    CHECK(weir_layer_add(a, "b", b) == b);
    CHECK(!weir_layer_add(a, "again", b) && weir_error_status() == WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "'a.b' is a part of 'a' already");
    CHECK(!weir_layer_add(b, "a", a));
    CHECK_TEXT(weir_error(), "'a' cannot be inside itself");
    CHECK(!weir_layer_add(a, "b", c));
    CHECK_TEXT(weir_error(), "there is a layer 'a.b' already");
    CHECK(!weir_layer_add(a, "", c));
    CHECK_TEXT(weir_error(), "the name is empty");
    CHECK(!weir_layer_add(a, "x", weir_relu_new(other)));
    CHECK_TEXT(weir_error(), "different models");
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    CHECK(!weir_layer_add(a, name, c) && weir_error_status() == WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "more than 255 characters");
    CHECK_STATUS(weir_layer_set_name(b, "c"), WEIR_ERR_STATE);
    weir_model_free(other);
    weir_model_free(m);
    weir_device_close(d);
}
