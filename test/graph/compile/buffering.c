/* buffering.c - recording as a switch of the device: on, off, exec, reset, as programs of SINGA use
 * it. */
#include "graph/fixture.h"

static const float two[] = {1, 2};

/* SetBufferFlag(true), the operations, SetBufferFlag(false), then ExecBuffOps again and again. */
CASE(record_once_execute_often)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_input(d, 2, two), *w = fixture_state(d, 2, (float[]){1, 1});

    CHECK(!weir_device_buffering(d));
    CHECK_OK(weir_device_set_buffering(d, true));
    CHECK(weir_device_buffering(d));
    CHECK_OK(weir_device_set_buffering(d, true));           /* on is on */
    weir_tensor *z = weir_keep(weir_mul(weir_affine(x, 1, 0), w));
    CHECK_OK(weir_increment(w, 10));
    CHECK(fixture_value(w) == 1);                               /* not computed yet */
    CHECK_OK(weir_device_set_buffering(d, false));
    CHECK(!weir_device_buffering(d));
    CHECK_OK(weir_device_set_buffering(d, false));
    for (int i = 0; i < 5; i++) {
        CHECK_OK(weir_write(x, (float[]){(float)i, 0}, sizeof two));
        CHECK_OK(weir_device_exec(d));
        CHECK(fixture_value(z) == (float)(i * (1 + 10 * i)));
        CHECK(fixture_value(w) == (float)(11 + 10 * i));
    }
    CHECK_OK(weir_device_reset_graph(d));
    CHECK_STATUS(weir_device_exec(d), WEIR_ERR_STATE);
    weir_release(x);
    weir_release(w);
    weir_device_close(d);
}

CASE(exec_ends_the_recording)
{
    weir_device *d = fixture_open();
    weir_tensor *s = fixture_state(d, 2, NULL);

    CHECK_STATUS(weir_device_exec(d), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "nothing was recorded");
    CHECK_OK(weir_device_set_buffering(d, true));
    CHECK_OK(weir_increment(s, 1));
    CHECK_OK(weir_device_exec(d));
    CHECK(!weir_device_buffering(d));
    CHECK_OK(weir_device_exec(d));
    CHECK(fixture_value(s) == 2);
    CHECK_OK(weir_increment(s, 5));                         /* at once again */
    CHECK(fixture_value(s) == 7);
    CHECK_OK(weir_device_set_buffering(d, true));           /* a new graph */
    CHECK_OK(weir_increment(s, 100));
    CHECK_OK(weir_device_exec(d));
    CHECK(fixture_value(s) == 107);
    weir_release(s);
    weir_device_close(d);
}

/* The switch pauses and resumes a graph that is not its own, and one recorded in that pause. */
CASE(the_switch_pauses_other_graphs)
{
    weir_device *d = fixture_open();
    weir_tensor *s = fixture_state(d, 2, NULL), *t = fixture_state(d, 2, NULL);
    weir_graph  *g = weir_graph_begin(d);

    CHECK_OK(weir_increment(s, 1));
    CHECK_OK(weir_device_set_buffering(d, true));           /* on is on */
    CHECK_OK(weir_device_set_buffering(d, false));
    CHECK(!weir_device_buffering(d));
    CHECK_OK(weir_increment(t, 5));
    CHECK(fixture_value(t) == 5);                           /* at once */
    weir_graph *inner = weir_graph_begin(d);
    CHECK_OK(weir_increment(t, 100));
    CHECK_OK(weir_device_set_buffering(d, false));
    CHECK_OK(weir_increment(t, 10));
    CHECK_OK(weir_device_set_buffering(d, true));
    CHECK_OK(weir_increment(t, 100));
    CHECK(fixture_value(t) == 15);
    CHECK(fixture_finish(inner, NULL));
    CHECK(fixture_value(t) == 215);
    CHECK_OK(weir_device_set_buffering(d, true));
    CHECK(weir_device_buffering(d));
    CHECK_OK(weir_increment(s, 20));
    CHECK(fixture_value(s) == 0);
    CHECK(fixture_finish(g, NULL));
    CHECK(fixture_value(s) == 21 && fixture_value(t) == 215);
    weir_graph_free(inner);
    weir_graph_free(g);

    g = weir_graph_begin(d);                                /* freed in its pause */
    CHECK_OK(weir_device_set_buffering(d, false));
    weir_graph_free(g);
    CHECK_OK(weir_device_set_buffering(d, true));           /* a graph of the switch's own */
    CHECK_OK(weir_increment(s, 1));
    CHECK_OK(weir_device_exec(d));
    CHECK(fixture_value(s) == 22);
    weir_release(s);
    weir_release(t);
    weir_device_close(d);
}

/* Switched off in the middle of a recording: calls are computed at once until it goes on. */
CASE(suspend_and_resume)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_param(d, 2, two), *grad;

    CHECK_OK(weir_device_set_buffering(d, true));
    CHECK_OK(weir_scope_begin(d));                          /* closed by the suspension */
    weir_tensor *y = weir_escape(weir_square(x)), *gone = weir_retain(weir_exp(x));
    CHECK_OK(weir_device_set_buffering(d, false));

    CHECK(fixture_value(weir_affine(x, 3, 0)) == 3);
    CHECK(weir_relu(y) == NULL);
    CHECK(weir_error_status() == WEIR_ERR_STATE);
    CHECK_OK(weir_scope_begin(d));
    weir_graph *g = weir_graph_begin(d);                    /* another one, whole */
    weir_tensor *other = weir_keep(weir_relu(x));
    CHECK_STATUS(weir_device_set_buffering(d, true), WEIR_ERR_STATE);
    CHECK(fixture_finish(g, NULL));
    CHECK(fixture_value(other) == 1);
    weir_graph_free(g);
    CHECK_OK(weir_scope_end(d));

    CHECK_OK(weir_device_set_buffering(d, true));
    weir_tensor *loss = weir_keep(weir_sum(weir_add(y, gone), 0, false));
    weir_release(gone);
    CHECK_OK(weir_gradients(loss, 1, &x, &grad));
    weir_keep(grad);
    CHECK_OK(weir_device_exec(d));
    CHECK_NEAR(fixture_value(loss), 1 + 4 + exp(1) + exp(2), 1e-5);
    CHECK_NEAR(fixture_value(grad), 2 + exp(1), 1e-5);
    weir_release(x);
    weir_device_close(d);
}

CASE(exec_of_a_suspended_recording)
{
    weir_device *d = fixture_open();
    weir_tensor *s = fixture_state(d, 2, NULL);

    CHECK_OK(weir_device_set_buffering(d, true));
    CHECK_OK(weir_increment(s, 1));
    weir_tensor *y = weir_retain(weir_copy(s));
    CHECK_OK(weir_device_set_buffering(d, false));
    weir_graph *g = weir_graph_begin(d);
    CHECK_OK(weir_device_exec(d));                          /* runs at once, g goes on */
    CHECK_OK(weir_increment(s, 100));
    CHECK_OK(weir_graph_end(g, NULL));
    CHECK(fixture_value(s) == 1 && fixture_value(y) == 1);
    CHECK_OK(weir_graph_run(g));
    CHECK(fixture_value(s) == 101);
    weir_graph_free(g);
    weir_release(y);
    weir_release(s);
    weir_device_close(d);
}

CASE(reset_at_any_time)
{
    for (int when = 0; when < 4; when++) {
        weir_device *d = fixture_open();
        weir_tensor *s = fixture_state(d, 2, NULL);
        CHECK_OK(weir_device_reset_graph(d));
        CHECK_OK(weir_device_set_buffering(d, when > 0));
        CHECK_OK(weir_increment(s, 1));
        weir_relu(s);
        if (when > 1)
            CHECK_OK(weir_device_set_buffering(d, false));
        if (when > 2)
            CHECK_OK(weir_device_exec(d));
        CHECK_OK(weir_device_reset_graph(d));
        CHECK(!weir_device_buffering(d));
        CHECK_STATUS(weir_device_exec(d), WEIR_ERR_STATE);
        CHECK_OK(weir_increment(s, 1));
        CHECK(fixture_value(s) == (when == 1 || when == 2 ? 1 : 2));
        weir_release(s);
        weir_device_close(d);
    }
}

/* ---- a graph of weir_graph_begin, paused ---- */

CASE(pause_and_resume)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_param(d, 2, two);
    weir_graph  *g = weir_graph_begin(d);

    CHECK_STATUS(weir_graph_resume(g), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "weir_graph_resume: the graph is being recorded");
    weir_tensor *y = weir_square(x);
    CHECK_OK(weir_graph_pause(g));
    CHECK(!weir_device_buffering(d));
    CHECK_STATUS(weir_graph_pause(g), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "weir_graph_pause: the graph is paused");
    CHECK(fixture_value(weir_affine(x, 3, 0)) == 3);            /* at once */
    weir_graph *other = weir_graph_begin(d);
    CHECK_STATUS(weir_graph_resume(g), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "another graph");
    CHECK_OK(weir_graph_end(other, NULL));
    weir_graph_free(other);
    CHECK_OK(weir_graph_resume(g));
    weir_tensor *z = weir_keep(weir_affine(y, 10, 0));
    CHECK(fixture_finish(g, NULL));
    CHECK(fixture_value(z) == 10);
    CHECK_STATUS(weir_graph_pause(g), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "planned already");
    CHECK_STATUS(weir_graph_pause(NULL), weir_error_status());
    CHECK_STATUS(weir_graph_resume(NULL), weir_error_status());
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}

/* Ended while paused; freed while paused; the device closed while paused. */
CASE(paused_to_the_end)
{
    for (int how = 0; how < 3; how++) {
        weir_device *d = fixture_open();
        weir_tensor *s = fixture_state(d, 2, NULL);
        weir_graph  *g = weir_graph_begin(d);
        CHECK_OK(weir_increment(s, 1));
        weir_exp(s);
        CHECK_OK(weir_graph_pause(g));
        if (how == 0) {
            CHECK(fixture_finish(g, NULL));
            CHECK(fixture_value(s) == 1);
        }
        if (how == 2) {
            weir_device_close(d);
            CHECK_STATUS(weir_graph_resume(g), WEIR_ERR_DEVICE);
            CHECK_STATUS(weir_graph_end(g, NULL), WEIR_ERR_DEVICE);
        }
        weir_graph_free(g);
        weir_release(s);
        if (how < 2)
            weir_device_close(d);
    }
}
