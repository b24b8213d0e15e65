/* names.c - names of recorded calls and of tensors in every text, and paths in error messages. */
#include <stdio.h>
#include <string.h>

#include "graph/fixture.h"

typedef struct step {
    weir_device *d;
    weir_tensor *x, *w, *b;
    weir_optim  *sgd;
    weir_graph  *g;
} step;

static weir_tensor *filled(weir_tensor *t, double value)
{
    CHECK_OK(weir_write_fill(t, value));
    return t;
}

/* Records relu(x w + b) twice in "net/body", a loss, its gradient and the updates. named: with name
 * scopes and names of tensors. */
static step record(bool named, const weir_plan_options *options)
{
    /* Guard zones take their share of a budget: this step would not fit in 90 %. */
    step s = {.d = options && options->budget ? fixture_open_unguarded() : fixture_open()};

    s.x = filled(weir_input(s.d, weir_2d(WEIR_F32, 64, 64)), 1);
    s.w = filled(weir_param(s.d, weir_2d(WEIR_F32, 64, 64), named ? "body.weight" : NULL), 0.01);
    s.b = filled(weir_param(s.d, weir_1d(WEIR_F32, 64), named ? "body.bias" : NULL), 0.5);
    s.sgd = weir_sgd_new(s.d, 0.1, NULL);
    s.g = weir_graph_begin(s.d);
    if (named) {
        CHECK_OK(weir_set_name(s.x, "pixels"));
        CHECK_OK(weir_name_scope_begin(s.d, "net"));
        CHECK_OK(weir_name_scope_begin(s.d, "body"));
        CHECK(strcmp(weir_name_scope(s.d), "net/body") == 0);
    }
    weir_tensor *y = weir_relu(weir_linear(s.x, s.w, s.b));
    y = weir_relu(weir_linear(y, s.w, s.b));
    if (named) {
        CHECK_OK(weir_name_scope_end(s.d));
        CHECK_OK(weir_name_scope_begin(s.d, "head"));
    }
    weir_tensor *loss = weir_mean(weir_mul(y, y), 0, false);
    if (named) {
        CHECK_OK(weir_set_name(loss, "loss"));
        CHECK_OK(weir_name_scope_end(s.d));
        CHECK_OK(weir_name_scope_end(s.d));
    }
    weir_keep(loss);
    CHECK_OK(weir_minimize(s.sgd, loss));
    CHECK_OK(weir_graph_end(s.g, options));
    return s;
}

static void done(step *s)
{
    weir_graph_free(s->g);
    weir_optim_free(s->sgd);
    weir_release(s->x);
    weir_release(s->w);
    weir_release(s->b);
    weir_device_close(s->d);
}

static bool has(const step *s, weir_text what, const char *wanted)
{
    char *const text = weir_graph_text(s->g, what);
    const bool  there = text && strstr(text, wanted);

    if (!there)
        printf("no '%s' in:\n%s\n", wanted, text ? text : "");
    weir_text_free(text);
    return there;
}

CASE(names_are_in_every_text)
{
    step s = record(true, &(weir_plan_options){.disable = "fuse"});
    static const weir_text all[] = {WEIR_TEXT_GRAPH, WEIR_TEXT_PLAN, WEIR_TEXT_COST, WEIR_TEXT_DOT,
                                    WEIR_TEXT_TIMELINE_SVG, WEIR_TEXT_ADDRESSES_SVG, WEIR_TEXT_JSON,
                                    WEIR_TEXT_STEPFILE, WEIR_TEXT_EXPLAIN};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        CHECK(has(&s, all[i], "net/body/linear"));
        CHECK(has(&s, all[i], "net/body/linear2:grad"));
    }
    CHECK(has(&s, WEIR_TEXT_GRAPH, ":pixels"));
    CHECK(has(&s, WEIR_TEXT_GRAPH, ":body.weight"));
    CHECK(has(&s, WEIR_TEXT_GRAPH, ":loss"));
    CHECK(has(&s, WEIR_TEXT_GRAPH, "sgd_update(body.bias)"));
    CHECK(has(&s, WEIR_TEXT_STEPFILE, "\"name\": \"pixels\""));
    CHECK(has(&s, WEIR_TEXT_STEPFILE, "\"path\": \"net/head/mul\""));
    done(&s);
}

CASE(a_fused_group_has_the_names_of_all)
{
    step s = record(true, NULL);

    CHECK(has(&s, WEIR_TEXT_PLAN, "{"));
    CHECK(has(&s, WEIR_TEXT_PLAN, "relu2"));
    done(&s);
}

/* The plan with all names taken out: what follows a ':' of a storage, and the end of the line. */
static char *plain(const step *s, weir_text what)
{
    char *const text = weir_graph_text(s->g, what);
    char       *to = text;

    for (const char *from = text; *from;) {
        if (*from == ':' && strncmp(from, ":body.", 6) == 0)
            from += strcspn(from, " !@,=");
        else if (strncmp(from, ":pixels", 7) == 0)
            from += 7;
        else if (strncmp(from, ":loss", 5) == 0)
            from += 5;
        else if (strncmp(from, "]  ", 3) == 0)
            *to++ = *from, from += strcspn(from, "\n");
        else
            *to++ = *from++;
    }
    *to = '\0';
    return text;
}

CASE(names_do_not_change_plans)
{
    const weir_plan_options budget = {.budget = "90%"};
    step  a = record(true, &budget), b = record(false, &budget);
    char *x = plain(&a, WEIR_TEXT_PLAN), *y = plain(&b, WEIR_TEXT_PLAN);

    CHECK(strcmp(x, y) == 0);
    weir_text_free(x);
    weir_text_free(y);
    CHECK_OK(weir_graph_run(a.g));
    CHECK_OK(weir_graph_run(b.g));
    float u[64], v[64];
    CHECK_OK(weir_read(a.b, u, sizeof u));
    CHECK_OK(weir_read(b.b, v, sizeof v));
    CHECK(memcmp(u, v, sizeof u) == 0);
    done(&a);
    done(&b);
}

static weir_status twice(void *ctx, weir_tensor *const *in, weir_tensor **out)
{
    weir_device *const d = weir_tensor_device(in[0]);

    WEIR_TRY(weir_name_scope_begin(d, "inner"));
    out[0] = weir_tanh(weir_matmul(in[0], ctx));
    WEIR_TRY(weir_name_scope_end(d));
    return WEIR_OK;
}

CASE(the_second_run_of_a_checkpoint_keeps_its_names)
{
    step         s = {.d = fixture_open()};
    weir_tensor *y;

    s.x = filled(weir_input(s.d, weir_2d(WEIR_F32, 8, 8)), 1);
    s.w = filled(weir_param(s.d, weir_2d(WEIR_F32, 8, 8), "w"), 0.1);
    s.b = filled(weir_param(s.d, weir_1d(WEIR_F32, 8), "b"), 0.1);
    s.sgd = weir_sgd_new(s.d, 0.1, NULL);
    s.g = weir_graph_begin(s.d);
    CHECK_OK(weir_name_scope_begin(s.d, "outer"));
    CHECK_OK(weir_checkpoint(twice, s.w, 1, &s.x, 1, &y));
    CHECK_OK(weir_name_scope_end(s.d));
    CHECK_OK(weir_minimize(s.sgd, weir_keep(weir_sum(y, 0, false))));
    CHECK_OK(weir_graph_end(s.g, &(weir_plan_options){.disable = "fuse"}));
    CHECK(has(&s, WEIR_TEXT_GRAPH, "outer/inner/matmul\n"));
    CHECK(has(&s, WEIR_TEXT_GRAPH, "outer/inner/matmul:recompute"));
    CHECK(has(&s, WEIR_TEXT_GRAPH, "outer/inner/tanh:grad"));
    done(&s);
}

CASE(errors_say_where)
{
    weir_device *d = fixture_open();
    weir_tensor *a = filled(weir_input(d, weir_2d(WEIR_F32, 2, 3)), 1);
    weir_tensor *b = filled(weir_input(d, weir_2d(WEIR_F32, 5, 7)), 1);

    CHECK_OK(weir_name_scope_begin(d, "decoder/block1"));
    CHECK(!weir_matmul(a, b));
    CHECK(strncmp(weir_error(), "decoder/block1/matmul: ", 23) == 0);
    weir_tensor *const line = weir_reshape(a, 3, (const int64_t[]){1, 2, 3});
    CHECK(!weir_conv1d(line, b, NULL, NULL));
    CHECK(strncmp(weir_error(), "decoder/block1/conv1d", 21) == 0);
    CHECK(!strstr(weir_error() + 10, "decoder"));
    weir_graph *g = weir_graph_begin(d);
    CHECK(!weir_add(a, b));
    CHECK(strncmp(weir_error(), "decoder/block1/add: ", 20) == 0);
    weir_graph_free(g);
    CHECK_OK(weir_name_scope_end(d));
    CHECK(!weir_add(a, b));
    CHECK(strncmp(weir_error(), "add: ", 5) == 0);
    weir_release(a);
    weir_release(b);
    weir_device_close(d);
}

CASE(name_scopes_and_names_are_checked)
{
    weir_device *d = fixture_open();
    weir_tensor *x = weir_input(d, weir_2d(WEIR_F32, 2, 3));
    char         longest[600];

    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    CHECK_STATUS(weir_name_scope_begin(d, NULL), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_name_scope_begin(d, ""), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_name_scope_begin(d, "a\nb"), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_name_scope_begin(d, longest), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_name_scope_end(d), WEIR_ERR_STATE);
    CHECK(weir_name_scope_begin(NULL, "a") != WEIR_OK && weir_name_scope_end(NULL) != WEIR_OK);
    CHECK(strcmp(weir_name_scope(d), "") == 0);
    CHECK_STATUS(weir_set_name(x, "a\x7f"), WEIR_ERR_INVALID);
    CHECK(weir_set_name(NULL, "a") != WEIR_OK);
    CHECK_OK(weir_set_name(x, "first"));
    CHECK_OK(weir_set_name(x, "second"));
    CHECK(strcmp(weir_tensor_name(x), "second") == 0);
    weir_tensor *const row = weir_narrow(filled(x, 1), 0, 0, 1);
    CHECK(strcmp(weir_tensor_name(row), "") == 0);
    CHECK_OK(weir_set_name(row, "row"));
    CHECK(strcmp(weir_tensor_name(row), "row") == 0);
    CHECK(strcmp(weir_tensor_name(x), "second") == 0);
    CHECK_OK(weir_set_name(x, NULL));
    CHECK(strcmp(weir_tensor_name(x), "") == 0);
    weir_release(x);
    weir_device_close(d);
}

/* A name with characters that JSON, DOT and SVG must escape. */
CASE(names_are_escaped)
{
    weir_device *d = fixture_open();
    weir_tensor *x = filled(weir_input(d, weir_2d(WEIR_F32, 64, 64)), 1);
    step         s = {.d = d, .x = x};

    s.g = weir_graph_begin(d);
    CHECK_OK(weir_set_name(x, "a\"<&>\\"));
    CHECK_OK(weir_name_scope_begin(d, "s\"<&>\\"));
    weir_keep(weir_relu(x));
    CHECK_OK(weir_name_scope_end(d));
    CHECK_OK(weir_graph_end(s.g, NULL));
    CHECK(has(&s, WEIR_TEXT_JSON, "s\\\"<&>\\\\/relu"));
    CHECK(has(&s, WEIR_TEXT_JSON, "a\\\"<&>\\\\"));
    CHECK(has(&s, WEIR_TEXT_DOT, "s\\\"<&>\\\\/relu"));
    CHECK(has(&s, WEIR_TEXT_TIMELINE_SVG, "s&quot;&lt;&amp;&gt;"));
    weir_graph_free(s.g);
    weir_release(x);
    weir_device_close(d);
}

CASE(shapes_are_checked_before_values)
{
    weir_device *d = fixture_open();
    weir_tensor *a = weir_input(d, weir_2d(WEIR_F32, 2, 3));
    weir_tensor *b = weir_input(d, weir_2d(WEIR_F32, 5, 7));
    weir_tensor *i = weir_input(d, weir_2d(WEIR_I32, 2, 3));

    CHECK(!weir_matmul(a, b) && weir_error_status() == WEIR_ERR_SHAPE);
    CHECK(!weir_add(a, b) && weir_error_status() == WEIR_ERR_SHAPE);
    CHECK(!weir_softmax(i, 1) && weir_error_status() == WEIR_ERR_DTYPE);
    CHECK(!weir_add(a, i) && weir_error_status() == WEIR_ERR_STATE);
    CHECK(strstr(weir_error(), "has never been written"));
    CHECK(!weir_relu(weir_transpose(a, NULL)) && weir_error_status() == WEIR_ERR_STATE);
    weir_release(a);
    weir_release(b);
    weir_release(i);
    weir_device_close(d);
}
