/* record.c - mistakes a program can make with operations, recorded or not: a status, a message, and
 * no other effect. */
#include "graph/fixture.h"

static const float two[] = {1, 2}, three[] = {1, 2, 3};

/* Runs `body` with the graph off and in a recording. The end of the recording fails with the status
 * of one of the mistakes. */
static void both_ways(void (*body)(weir_device *d), weir_status end)
{
    for (int on = 0; on < 2; on++) {
        weir_device *d = fixture_open();
        weir_graph  *g = on ? weir_graph_begin(d) : NULL;
        CHECK(!on || g);
        body(d);
        if (on && CHECK_STATUS(weir_graph_end(g, NULL), end) && end == WEIR_OK)
            CHECK_OK(weir_graph_run(g));
        weir_graph_free(g);
        weir_device_close(d);
    }
}

static void shapes_and_types(weir_device *d)
{
    weir_tensor *a = fixture_input(d, 2, two), *b = fixture_input(d, 3, three);
    weir_tensor *wide = weir_input(d, weir_1d(WEIR_F64, 2));

    CHECK_OK(weir_write_fill(wide, 1));
    CHECK(weir_add(a, b) == NULL);
    CHECK(weir_error_status() == WEIR_ERR_SHAPE);
    CHECK_TEXT(weir_error(), "add");
    CHECK_TEXT(weir_error(), "f32(2)");
    CHECK_TEXT(weir_error(), "f32(3)");
    CHECK(weir_mse_loss(a, wide) == NULL);
    CHECK(weir_error_status() == WEIR_ERR_DTYPE);
    CHECK_TEXT(weir_error(), "f64");
    CHECK(weir_matmul(a, b) == NULL);
    CHECK_TEXT(weir_error(), "matmul");
    weir_release(a);
    weir_release(b);
    weir_release(wide);
}

CASE(shape_and_type_mistakes)
{
    both_ways(shapes_and_types, WEIR_OK);
}

static void null_flow(weir_device *d)
{
    weir_tensor *a = fixture_input(d, 2, two), *b = fixture_input(d, 3, three);
    weir_tensor *bad = weir_relu(weir_sum(weir_add(a, b), 0, false));

    CHECK(bad == NULL);
    CHECK_TEXT(weir_error(), "add: ");
    CHECK(weir_keep(bad) == NULL && weir_escape(bad) == NULL);
    CHECK_STATUS(weir_sgd_update(a, bad, NULL, a, NULL), WEIR_ERR_SHAPE);
    CHECK_TEXT(weir_error(), "add: ");
    weir_release(a);
    weir_release(b);
}

CASE(null_keeps_the_first_message)
{
    both_ways(null_flow, WEIR_ERR_SHAPE);
}

static void bad_dims(weir_device *d)
{
    const weir_desc negative = weir_2d(WEIR_F32, 3, -1);
    const weir_desc huge = weir_2d(WEIR_F64, INT64_MAX / 2, 3);
    const weir_desc deep = {.dtype = WEIR_F32, .ndim = 9};
    const weir_desc odd = {.dtype = (weir_dtype)77, .ndim = 0};

    CHECK(weir_input(d, negative) == NULL);
    CHECK(weir_error_status() == WEIR_ERR_SHAPE);
    CHECK_TEXT(weir_error(), "-1");
    CHECK(weir_fill(d, negative, 1) == NULL);
    CHECK(weir_param(d, huge, "w") == NULL);
    CHECK(weir_error_status() == WEIR_ERR_SHAPE);
    CHECK(weir_normal(d, huge, 0, 1) == NULL);
    CHECK(weir_state(d, deep, "s") == NULL);
    CHECK(weir_uniform(d, odd, 0, 1) == NULL);
    CHECK(weir_param(d, weir_1d(WEIR_I32, 3), "w") == NULL);
    CHECK(weir_error_status() == WEIR_ERR_DTYPE);

    weir_tensor *x = fixture_input(d, 2, two);
    CHECK(weir_broadcast_to(x, weir_2d(WEIR_F32, INT64_MAX / 4, 2)) == NULL);
    CHECK(weir_error_status() == WEIR_ERR_SHAPE);
    CHECK(weir_reshape(x, 1, (const int64_t[]){-5}) == NULL);
    weir_release(x);
}

CASE(dims_negative_or_too_large)
{
    both_ways(bad_dims, WEIR_OK);
}

/* A tensor larger than memory fails when it is first written. */
CASE(more_than_memory)
{
    weir_device *d = fixture_open();
    weir_tensor *x = weir_input(d, weir_1d(WEIR_F32, INT64_C(1) << 58));

    CHECK(x != NULL);
    CHECK_STATUS(weir_write_fill(x, 1), WEIR_ERR_NOMEM);
    weir_graph *g = weir_graph_begin(d);
    CHECK(weir_keep(weir_sum(weir_relu(weir_broadcast_to(
              weir_fill(d, weir_scalar(WEIR_F32), 1), weir_1d(WEIR_F32, INT64_C(1) << 58))),
          0, false)) != NULL);
    if (CHECK_OK(weir_graph_end(g, OPTIONS_AS_RECORDED)))
        CHECK_STATUS(weir_graph_run(g), WEIR_ERR_NOMEM);
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}

CASE(closed_device)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_param(d, 2, two), *y = weir_retain(weir_relu(x));
    float        v[2];

    weir_device_close(d);
    CHECK(weir_add(x, y) == NULL);
    CHECK(weir_error_status() == WEIR_ERR_DEVICE);
    CHECK_TEXT(weir_error(), "closed");
    CHECK_STATUS(weir_read(y, v, sizeof v), WEIR_ERR_DEVICE);
    CHECK_STATUS(weir_write(x, two, sizeof two), WEIR_ERR_DEVICE);
    CHECK_STATUS(weir_write_normal(x, 0, 1), WEIR_ERR_DEVICE);
    CHECK_STATUS(weir_increment(x, 1), WEIR_ERR_DEVICE);
    const weir_pair *pairs;
    size_t           n;
    CHECK_STATUS(weir_backward(y, &pairs, &n), WEIR_ERR_DEVICE);
    CHECK(weir_keep(y) == NULL && weir_escape(y) == NULL);
    CHECK(weir_input(weir_tensor_device(x), weir_1d(WEIR_F32, 1)) == NULL);
    CHECK(weir_graph_begin(weir_tensor_device(x)) == NULL);
    CHECK_STATUS(weir_scope_begin(weir_tensor_device(x)), WEIR_ERR_DEVICE);
    CHECK(weir_tensor_desc(y).dim[0] == 2);
    weir_release(x);
    weir_release(y);
}

/* After their device is closed, graphs - recorded, planned or run - can only be refused and
 * freed. */
CASE(closed_device_with_graphs)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_param(d, 2, two);

    weir_graph *planned = weir_graph_begin(d);
    weir_tensor *y = weir_retain(weir_relu(x));
    CHECK(fixture_finish(planned, NULL));
    weir_graph  *open = weir_graph_begin(d);
    weir_tensor *z = weir_retain(weir_sum(weir_square(x), 0, false));
    CHECK_OK(weir_scope_begin(d));
    weir_relu(x);
    weir_device_close(d);

    float v[2];
    CHECK_STATUS(weir_graph_run(planned), WEIR_ERR_DEVICE);
    CHECK_STATUS(weir_read(y, v, sizeof v), WEIR_ERR_DEVICE);
    CHECK_STATUS(weir_graph_end(open, NULL), WEIR_ERR_DEVICE);
    CHECK_STATUS(weir_graph_run(open), WEIR_ERR_DEVICE);
    weir_graph_free(planned);
    weir_graph_free(open);
    CHECK(weir_relu(z) == NULL);
    weir_release(x);
    weir_release(y);
    weir_release(z);
}

CASE(closed_device_while_buffering)
{
    for (int suspended = 0; suspended < 2; suspended++) {
        weir_device *d = fixture_open();
        weir_tensor *x = fixture_param(d, 2, two);
        CHECK_OK(weir_device_set_buffering(d, true));
        weir_tensor *y = weir_retain(weir_relu(x));
        weir_sum(y, 0, false);
        if (suspended)
            CHECK_OK(weir_device_set_buffering(d, false));
        weir_device_close(d);
        weir_release(y);
        weir_release(x);
    }
}

CASE(two_devices)
{
    weir_device *d = fixture_open(), *e = fixture_open();
    weir_tensor *x = fixture_input(d, 2, two), *y = fixture_input(e, 2, two);

    CHECK(weir_add(x, y) == NULL);
    CHECK(weir_error_status() == WEIR_ERR_DEVICE);
    CHECK_TEXT(weir_error(), "different devices");
    weir_graph *g = weir_graph_begin(d);
    CHECK(weir_add(x, y) == NULL);
    CHECK(weir_mul(y, x) == NULL);
    weir_tensor *own = weir_relu(y);        /* on e nothing is being recorded */
    CHECK_NEAR(fixture_value(own), 1, 0);
    CHECK_OK(weir_graph_end(g, NULL));
    weir_graph_free(g);
    weir_release(x);
    weir_release(y);
    weir_device_close(d);
    weir_device_close(e);
}

CASE(reading_and_writing_recorded_values)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_input(d, 2, two);
    float        v[2];

    weir_graph  *g = weir_graph_begin(d);
    weir_tensor *y = weir_keep(weir_relu(x));
    weir_tensor *view = weir_retain(weir_reshape(y, 1, (int64_t[]){-1}));
    weir_tensor *held = weir_retain(weir_affine(x, 2, 1));
    CHECK_STATUS(weir_read(y, v, sizeof v), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "recorded");
    CHECK_STATUS(weir_write(y, two, sizeof two), WEIR_ERR_STATE);
    CHECK_STATUS(weir_write_fill(held, 0), WEIR_ERR_STATE);
    CHECK_STATUS(weir_graph_run(g), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "weir_graph_end");
    size_t peak;
    CHECK_STATUS(weir_graph_measure(g, &peak), WEIR_ERR_STATE);
    weir_graph_stats stats;
    CHECK_STATUS(weir_graph_stats_of(g, &stats), WEIR_ERR_STATE);
    CHECK(weir_graph_text(g, WEIR_TEXT_PLAN) == NULL);

    CHECK_OK(weir_graph_end(g, NULL));
    CHECK_STATUS(weir_read(y, v, sizeof v), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "not run");
    CHECK_STATUS(weir_write(y, two, sizeof two), WEIR_ERR_STATE);
    CHECK_OK(weir_graph_run(g));
    CHECK(fixture_value(y) == 1 && fixture_value(view) == 1);
    CHECK(fixture_value(held) == 3);
    CHECK_STATUS(weir_read(y, v, 4), WEIR_ERR_SHAPE);
    CHECK_STATUS(weir_read(y, NULL, sizeof v), WEIR_ERR_SHAPE);
    CHECK_STATUS(weir_graph_end(g, NULL), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "planned already");
    weir_graph_free(g);
    CHECK(fixture_value(held) == 3);
    weir_release(held);
    weir_release(view);
    weir_release(x);
    weir_device_close(d);
}

/* A value of one recording in another, or at once. */
CASE(values_of_another_graph)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_input(d, 2, two);

    CHECK_OK(weir_device_set_buffering(d, true));
    weir_tensor *recorded = weir_retain(weir_relu(x));
    CHECK_OK(weir_device_set_buffering(d, false));
    CHECK(weir_relu(recorded) == NULL);
    CHECK(weir_error_status() == WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "recorded in a graph");
    weir_graph *g = weir_graph_begin(d);
    CHECK(g != NULL);
    CHECK(weir_relu(recorded) == NULL);
    CHECK(weir_error_status() == WEIR_ERR_STATE);
    CHECK_OK(weir_graph_end(g, NULL));
    weir_graph_free(g);
    CHECK_OK(weir_device_exec(d));
    CHECK(fixture_value(weir_affine(recorded, 3, 0)) == 3);
    weir_release(recorded);
    weir_release(x);
    weir_device_close(d);
}

/* The result of one graph feeds another: the second must not run before the first has. */
CASE(output_of_another_graph)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_input(d, 2, two);

    weir_graph  *first = weir_graph_begin(d);
    weir_tensor *y = weir_keep(weir_affine(x, 10, 0));
    CHECK_OK(weir_graph_end(first, NULL));
    weir_graph  *second = weir_graph_begin(d);
    weir_tensor *z = weir_keep(weir_affine(y, 1, 1));
    CHECK_OK(weir_graph_end(second, NULL));
    CHECK_STATUS(weir_graph_run(second), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "never been written");
    float v[2];
    CHECK_STATUS(weir_read(y, v, sizeof v), WEIR_ERR_STATE);
    CHECK_OK(weir_graph_run(first));
    CHECK_OK(weir_graph_run(second));
    CHECK(fixture_value(z) == 11);
    weir_graph_free(first);
    CHECK_OK(weir_graph_run(second));
    CHECK(fixture_value(z) == 11);
    weir_graph_free(second);
    weir_release(x);
    weir_device_close(d);
}

CASE(inputs_never_written)
{
    weir_device *d = fixture_open();
    weir_tensor *x = weir_input(d, weir_1d(WEIR_F32, 2));

    CHECK(weir_relu(x) == NULL);
    CHECK(weir_error_status() == WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "never been written");
    weir_graph  *g = weir_graph_begin(d);
    weir_tensor *y = weir_keep(weir_relu(weir_relu(x)));
    CHECK_OK(weir_graph_end(g, NULL));
    CHECK_STATUS(weir_graph_run(g), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "never been written");
    CHECK_OK(weir_write(x, two, sizeof two));
    CHECK_OK(weir_graph_run(g));
    CHECK(fixture_value(y) == 1);
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}

CASE(begin_while_recording)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_input(d, 2, two);
    weir_graph  *g = weir_graph_begin(d);

    CHECK(weir_graph_begin(d) == NULL);
    CHECK(weir_error_status() == WEIR_ERR_STATE);
    CHECK_STATUS(weir_device_exec(d), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "another graph is being recorded");
    weir_tensor *y = weir_keep(weir_relu(x));
    CHECK(fixture_finish(g, NULL));
    CHECK(fixture_value(y) == 1);
    weir_graph_free(g);
    CHECK_STATUS(weir_graph_end(NULL, NULL), weir_error_status());
    weir_graph_free(NULL);
    weir_release(x);
    weir_device_close(d);
}

/* A failed end leaves a graph that can only be freed, and a device that works. */
CASE(unknown_pass)
{
    weir_device                   *d = fixture_open();
    weir_tensor                   *x = fixture_input(d, 2, two);
    static const weir_plan_options bad[] = {
        {.disable = "dce,cze"}, {.disable = "dc"}, {.disable = "dcex"}, {.level = 2},
        {.level = -2}};

    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        weir_graph  *g = weir_graph_begin(d);
        weir_tensor *y = weir_retain(weir_relu(x));
        CHECK_STATUS(weir_graph_end(g, &bad[i]), WEIR_ERR_INVALID);
        if (i == 0) {
            CHECK_TEXT(weir_error(), "unknown pass 'cze' (expected fold, copies, ");
            CHECK_TEXT(weir_error(), ", concat_parts or buckets)");
        }
        CHECK_STATUS(weir_graph_run(g), WEIR_ERR_STATE);
        CHECK_STATUS(weir_graph_end(g, NULL), WEIR_ERR_STATE);
        weir_graph_free(g);
        CHECK(weir_relu(y) == NULL);
        weir_release(y);
        CHECK(fixture_value(weir_relu(x)) == 1);
    }
    weir_graph *g = weir_graph_begin(d);
    weir_tensor *y = weir_keep(weir_relu(x));
    CHECK(fixture_finish(g, OPTIONS_WITHOUT(" fold, copies ,,fuse order,")));
    CHECK(fixture_value(y) == 1);
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}

/* What an update may write: whole tensors of the user's own, not shared with what it reads. */
static void update_targets(weir_device *d)
{
    weir_tensor *p = fixture_param(d, 2, two), *q = fixture_param(d, 2, two),
                *s = fixture_state(d, 2, two);
    weir_tensor *lr = weir_input(d, weir_scalar(WEIR_F32));
    CHECK_OK(weir_write_fill(lr, 0.5));

    CHECK_STATUS(weir_increment(weir_relu(p), 1), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "not a result or a view");
    weir_tensor *wide = weir_broadcast_to(s, weir_2d(WEIR_F32, 3, 2));
    CHECK_STATUS(weir_increment(wide, 1), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_increment(weir_transpose(wide, NULL), 1), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_sgd_update(p, p, NULL, lr, NULL), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "share memory");
    CHECK_STATUS(weir_sgd_update(p, weir_reshape(p, 1, (int64_t[]){2}), NULL, lr, NULL),
                 WEIR_ERR_INVALID);
    CHECK_STATUS(weir_sgd_update(p, q, p, lr, &(weir_sgd_options){.momentum = 0.5}),
                 WEIR_ERR_INVALID);
    CHECK_STATUS(weir_sgd_update(p, q, q, lr, &(weir_sgd_options){.momentum = 0.5}),
                 WEIR_ERR_INVALID);
    CHECK_OK(weir_sgd_update(p, q, s, lr, &(weir_sgd_options){.momentum = 0.5}));
    CHECK_OK(weir_sgd_update(p, weir_copy(p), NULL, lr, NULL));
    weir_release(p);
    weir_release(q);
    weir_release(s);
    weir_release(lr);
}

CASE(what_updates_may_write)
{
    both_ways(update_targets, WEIR_ERR_INVALID);
}

/* Handles released while their graph is still being recorded, in any order. */
CASE(released_early)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_param(d, 2, two);
    weir_graph  *g = weir_graph_begin(d);
    weir_tensor *a = weir_retain(weir_relu(x)), *b = weir_retain(weir_affine(a, 2, 0));
    weir_tensor *c = weir_keep(weir_add(a, b));

    weir_release(x);                    /* the graph keeps what it reads */
    weir_release(a);
    CHECK_OK(weir_graph_end(g, NULL));
    weir_release(b);
    CHECK_OK(weir_graph_run(g));
    CHECK_OK(weir_graph_run(g));
    CHECK(fixture_value(c) == 3);
    weir_graph_free(g);

    g = weir_graph_begin(d);            /* freed while recording */
    CHECK(weir_relu(weir_fill(d, weir_1d(WEIR_F32, 4), 1)) != NULL);
    weir_graph_free(g);
    CHECK(fixture_value(weir_fill(d, weir_1d(WEIR_F32, 4), 1)) == 1);
    weir_device_close(d);
}

CASE(empty_graph)
{
    weir_device *d = fixture_open();
    weir_graph  *g = weir_graph_begin(d);
    size_t       peak = 1;

    CHECK(fixture_finish(g, NULL));
    CHECK_OK(weir_graph_measure(g, &peak));
    CHECK(peak == 0);
    weir_graph_stats s;
    CHECK_OK(weir_graph_stats_of(g, &s));
    CHECK(s.instructions == 0 && s.arena_bytes == 0 && s.runs == 2);
    weir_graph_free(g);
    weir_device_close(d);
}

/* Tensors without elements through every stage of a step. */
CASE(zero_sizes)
{
    weir_device *d = fixture_open();
    weir_tensor *x = weir_param(d, weir_2d(WEIR_F32, 0, 3), "x"), *s = fixture_state(d, 3, NULL);
    weir_graph  *g = weir_graph_begin(d);
    weir_tensor *y = weir_keep(weir_relu(weir_affine(x, 2, 1)));
    weir_tensor *sum = weir_keep(weir_sum(weir_add(y, s), 0, false));

    CHECK_OK(weir_increment(s, 1));
    CHECK(fixture_finish(g, NULL));
    CHECK_OK(weir_graph_run(g));
    CHECK(fixture_value(sum) == 0 && fixture_value(s) == 2);
    CHECK_OK(weir_read(y, &(float){0}, 0));
    weir_graph_free(g);
    weir_release(x);
    weir_release(s);
    weir_device_close(d);
}

/* ---- failures whose status the program ignores ---- */

static void hand_on_nothing(weir_device *d, weir_tensor *x, weir_tensor *w)
{
    (void)d;
    weir_keep(weir_add(weir_tanh(weir_matmul(x, w)), x));
}

static void minimize_no_loss(weir_device *d, weir_tensor *x, weir_tensor *w)
{
    (void)w;
    weir_optim *o = weir_sgd_new(d, 0.1, NULL);
    CHECK(weir_minimize(o, weir_keep(weir_affine(x, 2, 0))) != WEIR_OK);
    weir_optim_free(o);
}

static void update_wrongly(weir_device *d, weir_tensor *x, weir_tensor *w)
{
    (void)d;
    weir_keep(weir_tanh(x));
    CHECK(weir_assign(w, x) != WEIR_OK);
}

static void update_with_no_pairs(weir_device *d, weir_tensor *x, weir_tensor *w)
{
    const weir_pair *pairs;
    size_t           n;
    (void)w;
    weir_optim *o = weir_sgd_new(d, 0.1, NULL);
    CHECK(weir_backward(weir_keep(weir_tanh(x)), &pairs, &n) != WEIR_OK);
    CHECK(weir_optim_update(o, pairs, n) != WEIR_OK);
    weir_optim_free(o);
}

/* weir_graph_end is the only check that a program needs: a recording that went on after a failure
 * is not planned, and the message is that of the failure, even if the recording was paused in
 * between. */
CASE(overlooked_failures_end_the_recording)
{
    static const struct {
        void      (*body)(weir_device *d, weir_tensor *x, weir_tensor *w);
        const char *text;
    } bad[] = {{hand_on_nothing, "matmul"}, {minimize_no_loss, "must be a scalar"},
               {update_wrongly, "assign"}, {update_with_no_pairs, "must be a scalar"}};

    for (size_t i = 0; i < 2 * ARRAY_LENGTH(bad); i++) {
        weir_device *d = fixture_open();
        weir_tensor *x = fixture_input(d, 3, (float[]){1, 2, 3}), *w = fixture_state(d, 2, NULL);
        weir_graph  *g = weir_graph_begin(d);
        bad[i / 2].body(d, x, w);
        if (i % 2) {
            CHECK_OK(weir_graph_pause(g));
            CHECK_OK(weir_graph_resume(g));
        }
        CHECK(weir_graph_end(g, NULL) != WEIR_OK);
        CHECK_TEXT(weir_error(), "weir_graph_end: a call of the step failed: ");
        CHECK_TEXT(weir_error(), bad[i / 2].text);
        CHECK_STATUS(weir_graph_run(g), WEIR_ERR_STATE);
        weir_graph_free(g);

        g = weir_graph_begin(d);                            /* the next one is a new one */
        weir_tensor *const y = weir_keep(weir_tanh(x));
        CHECK_OK(weir_graph_end(g, NULL));
        CHECK_OK(weir_graph_run(g));
        CHECK(fixture_value(y) == tanhf(1));
        weir_graph_free(g);
        weir_release(x);
        weir_release(w);
        weir_device_close(d);
    }
}

/* A failure before the recording or while it is paused, one whose status was read, or one of a call
 * whose result is unused does not fail the step. */
CASE(failures_looked_at_spoil_nothing)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_input(d, 3, (float[]){1, 2, 3}), *w = fixture_state(d, 2, NULL);

    CHECK(weir_assign(w, x) != WEIR_OK);
    weir_graph *g = weir_graph_begin(d);
    CHECK(weir_matmul(x, w) == NULL);
    CHECK_OK(weir_graph_pause(g));
    CHECK(weir_assign(w, x) != WEIR_OK);
    CHECK_OK(weir_graph_resume(g));
    weir_keep(weir_tanh(x));
    CHECK_OK(weir_graph_end(g, NULL));
    CHECK_OK(weir_graph_run(g));
    weir_graph_free(g);
    weir_release(x);
    weir_release(w);
    weir_device_close(d);
}
