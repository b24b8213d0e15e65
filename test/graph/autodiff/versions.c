/* versions.c - a gradient reads what the forward read, or is an error that names the value, who
 * changed it and what to do; with the graph off and on, through checkpoints, under a budget. */
#include "graph/fixture.h"

static const float two[] = {2, 2}, three[] = {3, 3}, ones[] = {1, 1};

static weir_tensor *power_sum(weir_tensor *p, int n)
{
    weir_tensor *y = p;

    while (--n > 0)
        y = weir_mul(y, p);
    return weir_sum(y, 0, false);
}

static weir_status gradient_of(weir_tensor *loss, weir_tensor *p, weir_tensor **grad)
{
    return weir_gradients(loss, 1, &p, grad);
}

/* ---- two losses of one parameter ---- */

typedef enum order { UPDATE_BETWEEN, BOTH_FIRST, RECOMPUTE_FORWARD } order;

/* p <- p - 0.1 d/dp sum p^2, and the gradient of sum p^3 into *grad. */
static weir_status two_losses(weir_device *d, weir_tensor *p, order how, weir_tensor **grad)
{
    weir_tensor *first = power_sum(p, 2), *second = power_sum(p, 3), *g;
    weir_optim  *sgd = weir_sgd_new(d, 0.1, NULL);
    weir_status  status = gradient_of(first, p, &g);

    if (status == WEIR_OK && how == BOTH_FIRST)
        status = gradient_of(second, p, grad);
    if (status == WEIR_OK)
        status = weir_optim_update(sgd, &(weir_pair){p, g}, 1);
    if (status == WEIR_OK && how == RECOMPUTE_FORWARD)
        second = power_sum(p, 3);
    if (status == WEIR_OK && how != BOTH_FIRST)
        status = gradient_of(second, p, grad);
    if (status == WEIR_OK)
        weir_keep(*grad);
    weir_optim_free(sgd);
    return status;
}

static void check_two_losses(bool graph, order how, double want)
{
    weir_device *d = fixture_open();
    weir_tensor *p = fixture_param(d, 2, two), *grad = NULL;
    weir_graph  *g = graph ? weir_graph_begin(d) : NULL;
    weir_status  status = two_losses(d, p, how, &grad);

    if (how == UPDATE_BETWEEN) {
        CHECK_STATUS(status, WEIR_ERR_STATE);
        CHECK_TEXT(weir_error(), "the gradient of mul reads its input");
        CHECK_TEXT(weir_error(), "'t' f32(2)");
        CHECK_TEXT(weir_error(), "which sgd_update has changed since");
        CHECK_TEXT(weir_error(), "compute the forward again");
    } else if (CHECK_OK(status) && (!graph || fixture_finish(g, NULL))) {
        CHECK_NEAR(fixture_value(grad), want, 1e-6);
        CHECK_NEAR(fixture_value(p), 1.6, 1e-6);
    }
    weir_graph_free(g);
    weir_release(p);
    weir_device_close(d);
}

CASE(two_losses_off)
{
    check_two_losses(false, UPDATE_BETWEEN, 0);
    check_two_losses(false, BOTH_FIRST, 12);
    check_two_losses(false, RECOMPUTE_FORWARD, 7.68);
}

CASE(two_losses_on)
{
    check_two_losses(true, UPDATE_BETWEEN, 0);
    check_two_losses(true, BOTH_FIRST, 12);
    check_two_losses(true, RECOMPUTE_FORWARD, 7.68);
}

/* ---- writers ---- */

static void expect_changed(weir_tensor *loss, weir_tensor *p, const char *by)
{
    weir_tensor *grad;

    CHECK_STATUS(gradient_of(loss, p, &grad), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), by);
}

CASE(writers_with_the_graph_off)
{
    weir_device *d = fixture_open();
    weir_tensor *p = fixture_param(d, 2, two), *loss, *view, *t = fixture_input(d, 2, three);
    void        *memory;
    int64_t      stride[WEIR_MAX_DIMS];

    loss = power_sum(p, 2);
    CHECK_OK(weir_write(p, three, sizeof three));
    expect_changed(loss, p, "weir_write");
    loss = power_sum(p, 2);
    CHECK_OK(weir_write_fill(p, 2));
    expect_changed(loss, p, "weir_write_fill");
    loss = power_sum(p, 2);
    CHECK_OK(weir_write_normal(p, 0, 1));
    expect_changed(loss, p, "weir_write_normal");
    loss = power_sum(p, 2);
    CHECK_OK(weir_assign(p, t));
    expect_changed(loss, p, "assign");
    loss = power_sum(p, 2);
    view = weir_narrow(p, 0, 1, 1);    /* a write through a view */
    CHECK_OK(weir_write(view, ones, sizeof *ones));
    expect_changed(loss, p, "weir_write");
    if (check_on_cpu()) {
        loss = power_sum(p, 2);
        CHECK_OK(weir_tensor_memory(p, &memory, stride));
        ((float *)memory)[1] = 9;
        expect_changed(loss, p, "address was given away");
        loss = power_sum(p, 2);
        ((float *)memory)[0] = 8;
        expect_changed(loss, p, "address was given away");
    }
    weir_release(p);
    weir_release(t);
    weir_device_close(d);
}

/* What a run of a graph overwrites: parameters, and results that it keeps. */
CASE(a_run_of_a_graph_between)
{
    weir_device *d = fixture_open();
    weir_tensor *p = fixture_param(d, 2, two), *w = fixture_param(d, 2, ones),
                *t = fixture_input(d, 2, three);
    weir_graph  *g = weir_graph_begin(d);
    weir_tensor *kept = weir_keep(weir_affine(t, 2, 0)), *grad;

    CHECK_OK(weir_assign(p, t));
    CHECK(fixture_finish(g, NULL));
    weir_tensor *loss = power_sum(p, 2), *other = weir_sum(weir_mul(w, kept), 0, false);
    CHECK_OK(weir_graph_run(g));
    expect_changed(loss, p, "assign");
    expect_changed(other, w, "weir_graph_run");
    other = weir_sum(weir_mul(w, kept), 0, false);
    CHECK_OK(gradient_of(other, w, &grad));
    CHECK(fixture_value(grad) == 6);
    weir_graph_free(g);
    weir_release(p);
    weir_release(w);
    weir_release(t);
    weir_device_close(d);
}

/* A result that another graph reads is unchanged. */
CASE(a_run_of_another_graph_between)
{
    weir_device *d = fixture_open();
    weir_tensor *w = fixture_param(d, 2, ones), *t = fixture_input(d, 2, three), *grad;
    weir_graph  *g = weir_graph_begin(d);
    weir_tensor *kept = weir_keep(weir_affine(t, 2, 0));

    CHECK(fixture_finish(g, NULL));
    weir_graph *h = weir_graph_begin(d);
    weir_keep(weir_relu(kept));
    CHECK(fixture_finish(h, NULL));
    weir_tensor *loss = weir_sum(weir_mul(w, kept), 0, false);
    CHECK_OK(weir_graph_run(h));
    CHECK_OK(gradient_of(loss, w, &grad));
    CHECK(fixture_value(grad) == 6);
    weir_graph_free(h);
    weir_graph_free(g);
    weir_release(w);
    weir_release(t);
    weir_device_close(d);
}

/* The gradients of mul with respect to a read b only; those of add read nothing. */
CASE(what_no_gradient_reads_may_change)
{
    weir_device *d = fixture_open();
    weir_tensor *a = fixture_param(d, 2, two), *b = fixture_input(d, 2, three), *grad;

    weir_tensor *loss = weir_sum(weir_add(weir_mul(a, b), a), 0, false);
    CHECK_OK(weir_write(a, ones, sizeof ones));
    CHECK_OK(gradient_of(loss, a, &grad));
    CHECK(fixture_value(grad) == 4);
    loss = weir_sum(weir_mul(a, weir_copy(b)), 0, false);
    CHECK_OK(weir_write(b, ones, sizeof ones));
    CHECK_OK(gradient_of(loss, a, &grad));
    CHECK(fixture_value(grad) == 3);
    loss = weir_sum(weir_mul(a, b), 0, false);
    CHECK_OK(weir_write(b, three, sizeof three));
    expect_changed(loss, a, "weir_write");
    weir_release(a);
    weir_release(b);
    weir_device_close(d);
}

/* At each run, the forward and the gradient of a recorded step both read what the host wrote
 * last. */
CASE(host_writes_while_recording_are_of_no_moment)
{
    weir_device *d = fixture_open();
    weir_tensor *p = fixture_param(d, 2, two), *grad;
    weir_graph  *g = weir_graph_begin(d);
    weir_tensor *loss = power_sum(p, 2);

    CHECK_OK(weir_write(p, three, sizeof three));
    CHECK_OK(weir_graph_pause(g));
    CHECK_OK(weir_assign(p, weir_affine(p, 1, 1)));
    CHECK_OK(weir_graph_resume(g));
    CHECK_OK(gradient_of(loss, p, &grad));
    weir_keep(grad);
    CHECK(fixture_finish(g, NULL));
    CHECK(fixture_value(grad) == 8);
    weir_graph_free(g);
    weir_release(p);
    weir_device_close(d);
}

/* Updates of another recording do not count as changes in this one. */
CASE(two_graphs_at_a_time)
{
    weir_device *d = fixture_open();
    weir_tensor *p = fixture_param(d, 2, two), *grad;
    weir_graph  *g = weir_graph_begin(d);
    weir_tensor *loss = power_sum(p, 2);

    CHECK_OK(weir_graph_pause(g));
    weir_graph *h = weir_graph_begin(d);
    CHECK_OK(weir_assign(p, weir_affine(p, 1, 1)));
    CHECK_OK(weir_graph_end(h, NULL));
    CHECK_OK(weir_graph_resume(g));
    CHECK_OK(gradient_of(loss, p, &grad));
    weir_keep(grad);
    CHECK(fixture_finish(g, NULL));
    CHECK(fixture_value(grad) == 4);
    weir_graph_free(h);
    weir_graph_free(g);
    weir_release(p);
    weir_device_close(d);
}

/* ---- results that became states ---- */

CASE(a_result_that_is_updated)
{
    weir_device *d = fixture_open();
    weir_tensor *p = fixture_param(d, 2, two), *t = fixture_input(d, 2, three);
    weir_tensor *r = weir_affine(t, 1, 0), *loss = weir_sum(weir_mul(p, r), 0, false);

    CHECK_OK(weir_tensor_make_state(r));
    CHECK_OK(weir_accumulate(r, t));
    expect_changed(loss, p, "accumulate");
    weir_release(p);
    weir_release(t);
    weir_device_close(d);
}

/* ---- checkpoints ---- */

static weir_status times_state(void *ctx, weir_tensor *const *in, weir_tensor **out)
{
    out[0] = weir_mul(in[0], weir_affine(ctx, 2, 0));
    return out[0] ? WEIR_OK : weir_error_status();
}

static void check_checkpoint(bool graph)
{
    weir_device *d = fixture_open();
    weir_tensor *p = fixture_param(d, 2, two), *s = fixture_state(d, 2, three),
                *t = fixture_input(d, 2, ones);
    weir_graph  *g = graph ? weir_graph_begin(d) : NULL;
    weir_tensor *y, *grad;

    CHECK_OK(weir_checkpoint(times_state, s, 1, &p, 1, &y));
    CHECK_OK(gradient_of(weir_sum(y, 0, false), p, &grad));
    CHECK_OK(weir_checkpoint(times_state, s, 1, &p, 1, &y));
    weir_tensor *loss = weir_sum(y, 0, false);
    CHECK_OK(weir_assign(s, t));
    CHECK_STATUS(gradient_of(loss, p, &grad), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "weir_checkpoint: the function is called again");
    CHECK_TEXT(weir_error(), "has been changed by assign");
    CHECK_OK(weir_checkpoint(times_state, s, 1, &p, 1, &y));
    CHECK_OK(gradient_of(weir_sum(y, 0, false), p, &grad));
    weir_keep(grad);
    if (!graph || fixture_finish(g, NULL))
        CHECK(fixture_value(grad) == 2);
    weir_graph_free(g);
    weir_release(p);
    weir_release(s);
    weir_release(t);
    weir_device_close(d);
}

CASE(checkpoints_read_what_they_read)
{
    check_checkpoint(false);
    check_checkpoint(true);
}

/* ---- random numbers: the seed is a part of what the forward read ---- */

static weir_status drop(void *ctx, weir_tensor *const *in, weir_tensor **out)
{
    (void)ctx;
    out[0] = weir_dropout(in[0], 0.5);
    return out[0] ? WEIR_OK : weir_error_status();
}

CASE(another_seed_before_the_gradient)
{
    enum { N = 64 };
    weir_device *d = fixture_open();
    weir_tensor *p = fixture_param(d, N, NULL), *y, *grad;
    float        value[N], gradient[N];

    CHECK_OK(weir_write_fill(p, 1));
    for (int way = 0; way < 2; way++) {
        if (way == 0)
            y = weir_dropout(p, 0.5);
        else
            CHECK_OK(weir_checkpoint(drop, NULL, 1, &p, 1, &y));
        CHECK_OK(weir_read(y, value, sizeof value));
        weir_tensor *loss = weir_sum(y, 0, false);
        CHECK_OK(weir_device_seed(d, 99));
        CHECK_OK(gradient_of(loss, p, &grad));
        CHECK_OK(weir_read(grad, gradient, sizeof gradient));
        CHECK_BITS(value, gradient, sizeof value);
    }
    weir_release(p);
    weir_device_close(d);
}

/* ---- a budget with the graph off keeps copies of what is overwritten ---- */

CASE(under_a_budget)
{
    enum { N = 1 << 14 };
    weir_device *d = fixture_open();
    weir_tensor *p = fixture_param(d, N, NULL), *s = fixture_state(d, N, NULL), *y, *grad;

    if (check_on_cpu()) {
        CHECK_OK(weir_write_fill(p, 2));
        CHECK_OK(weir_write_fill(s, 3));
        CHECK_OK(weir_device_set_budget(d, "1MB"));
        y = weir_mul(p, weir_affine(s, 2, 0));      /* reads a result made from s, not s */
        for (int i = 0; i < 4; i++)
            y = weir_tanh(y);
        weir_tensor *loss = weir_sum(y, 0, false);
        CHECK_OK(weir_write_fill(s, 7));
        CHECK_OK(gradient_of(loss, p, &grad));
        loss = weir_sum(weir_mul(p, s), 0, false);
        CHECK_OK(weir_write_fill(s, 3));
        expect_changed(loss, p, "weir_write_fill");
    }
    weir_release(p);
    weir_release(s);
    weir_device_close(d);
}

/* ---- training in the usual order ---- */

static weir_status micro_batches(weir_device *d, weir_tensor *p, weir_optim *o)
{
    for (int i = 0; i < 3; i++) {
        CHECK_OK(weir_scope_begin(d));
        CHECK_OK(weir_optim_accumulate(o, power_sum(p, 2)));
        CHECK_OK(weir_scope_end(d));
    }
    return weir_optim_apply(o);
}

CASE(accumulated_steps_go_on)
{
    weir_device *d = fixture_open();
    weir_tensor *p = fixture_param(d, 2, two);
    weir_optim  *o = weir_sgd_new(d, 0.125, &(weir_sgd_options){.momentum = 0.5});

    for (int step = 0; step < 3; step++)
        CHECK_OK(micro_batches(d, p, o));
    CHECK(isfinite((double)fixture_value(p)) && fixture_value(p) < 2);
    weir_optim_free(o);
    weir_release(p);
    weir_device_close(d);
}
