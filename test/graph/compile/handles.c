/* handles.c - handles of results after their recording, their graph or their device: each public
 * call says what became of the value, and touches nothing that was freed. */
#include "graph/fixture.h"

static const float two[] = {1, 2};

static const char NOT_KEPT[] = "was not kept: call weir_keep before weir_graph_end";

/* Checks that every public call that takes a result refuses t with this message. */
static void check_refused(weir_device *d, weir_tensor *t, weir_tensor *p, const char *words)
{
    float            v[2];
    void            *memory;
    int64_t          stride[WEIR_MAX_DIMS];
    weir_tensor     *grad, *out[2];
    const weir_pair *pairs;
    size_t           n = 2;

    CHECK_STATUS(weir_read(t, v, sizeof v), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), words);
    CHECK_STATUS(weir_write(t, v, sizeof v), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), words);
    CHECK_STATUS(weir_write_fill(t, 1), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), words);
    CHECK_STATUS(weir_tensor_memory(t, &memory, stride), check_on_cpu() ? WEIR_ERR_STATE
                                                                        : weir_error_status());
    CHECK_STATUS(weir_tensor_make_state(t), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), words);
    CHECK(!weir_keep(t));
    CHECK_TEXT(weir_error(), words);
    CHECK(!weir_relu(t));
    CHECK_TEXT(weir_error(), words);
    CHECK(!weir_reshape(t, 1, (int64_t[]){2}));
    CHECK_TEXT(weir_error(), words);
    CHECK_STATUS(weir_assign(p, t), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), words);
    weir_tensor *const sum = weir_sum(weir_square(p), 0, false);
    CHECK_STATUS(weir_backward_from(t, NULL, &pairs, &n), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), words);
    CHECK_STATUS(weir_gradients(sum, 1, &t, &grad), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), words);
    n = 2;
    CHECK_STATUS(weir_vjp(t, p, &n, out), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), words);
    CHECK_STATUS(weir_vjp_from(1, &t, &p, 1, &p, out), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), words);
    const weir_desc desc = weir_tensor_desc(t);
    CHECK(desc.ndim == 1 && desc.dim[0] == 2 && weir_tensor_bytes(t) == sizeof v);
    CHECK(weir_tensor_device(t) == d && weir_tensor_name(t)[0] == 0);
    weir_tensor *const h = weir_hollow(t);
    CHECK_STATUS(weir_read(h, v, sizeof v), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), words);
    weir_release(h);
    weir_release(weir_retain(t));
}

typedef struct world {
    weir_device *d;
    weir_tensor *x, *p, *left, *view, *grad, *kept;
    weir_graph  *g;
} world;

/* Of a recording: results that nobody keeps, one of them a view of what is kept, and a kept one. */
static void record(world *w)
{
    *w = (world){.d = fixture_open()};
    w->x = fixture_input(w->d, 2, two);
    w->p = fixture_param(w->d, 2, two);
    w->g = weir_graph_begin(w->d);
    w->left = weir_exp(weir_mul(w->x, w->p));
    w->kept = weir_keep(weir_affine(w->left, 2, 0));
    w->view = weir_reshape(w->kept, 1, (int64_t[]){2});
    CHECK_OK(weir_gradients(weir_sum(w->kept, 0, false), 1, &w->p, &w->grad));
}

static void leave(world *w)
{
    weir_graph_free(w->g);
    weir_release(w->x);
    weir_release(w->p);
    weir_device_close(w->d);
}

CASE(what_was_not_kept)
{
    world w;

    record(&w);
    CHECK(fixture_finish(w.g, NULL));
    for (int i = 0; i < 20; i++)                /* freed memory would have new owners by now */
        weir_affine(w.x, i, 200);
    check_refused(w.d, w.left, w.p, NOT_KEPT);
    check_refused(w.d, w.view, w.p, NOT_KEPT);
    check_refused(w.d, w.grad, w.p, NOT_KEPT);
    CHECK_NEAR(fixture_value(w.kept), 2 * exp(1), 1e-5);
    leave(&w);
}

CASE(what_belongs_to_a_graph_that_was_freed)
{
    world w;

    record(&w);
    weir_tensor *own = weir_retain(weir_keep(weir_relu(w.kept)));
    CHECK(fixture_finish(w.g, NULL));
    weir_graph_free(w.g);
    w.g = NULL;
    for (int i = 0; i < 20; i++)
        weir_affine(w.x, i, 200);
    check_refused(w.d, w.kept, w.p, "belonged to a graph that was freed");
    check_refused(w.d, w.left, w.p, "belonged to a graph that was freed");
    CHECK_NEAR(fixture_value(own), 2 * exp(1), 1e-5);      /* retained: it is the caller's */
    weir_release(own);
    leave(&w);
}

CASE(of_a_recording_that_failed)
{
    world w;
    float v[2];

    record(&w);
    CHECK_STATUS(weir_graph_end(w.g, &(weir_plan_options){.disable = "nonsense"}),
                 WEIR_ERR_INVALID);
    check_refused(w.d, w.left, w.p, "belonged to a graph whose weir_graph_end failed");
    CHECK_STATUS(weir_read(w.kept, v, sizeof v), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "weir_graph_end failed");
    CHECK(!weir_relu(w.kept));
    CHECK_TEXT(weir_error(), "weir_graph_end failed");
    weir_error_clear();
    CHECK_STATUS(weir_graph_run(w.g), WEIR_ERR_STATE);      /* repeats the reason */
    CHECK_TEXT(weir_error(), "the graph is broken");
    CHECK_TEXT(weir_error(), "nonsense");
    CHECK(!weir_graph_text(w.g, WEIR_TEXT_PLAN));
    CHECK_TEXT(weir_error(), "nonsense");
    leave(&w);
}

CASE(of_a_recording_that_was_given_up)
{
    world w;
    float v[2];

    record(&w);
    weir_tensor *own = weir_retain(w.kept);
    weir_graph_free(w.g);
    w.g = NULL;
    check_refused(w.d, w.left, w.p, "belonged to a graph that was freed");
    CHECK_STATUS(weir_read(own, v, sizeof v), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "freed before it ran");
    weir_release(own);
    leave(&w);
}

CASE(of_a_paused_recording)
{
    world w;

    record(&w);
    CHECK_OK(weir_graph_pause(w.g));
    CHECK(fixture_finish(w.g, NULL));
    check_refused(w.d, w.left, w.p, NOT_KEPT);
    leave(&w);
}

CASE(of_a_device_that_is_closed)
{
    world w;
    float v[2];

    record(&w);
    CHECK(fixture_finish(w.g, NULL));
    weir_device_close(w.d);
    CHECK_STATUS(weir_read(w.kept, v, sizeof v), WEIR_ERR_DEVICE);
    CHECK_TEXT(weir_error(), "closed");
    CHECK_STATUS(weir_read(w.left, v, sizeof v), WEIR_ERR_DEVICE);
    CHECK(!weir_relu(w.left));
    weir_graph_free(w.g);
    weir_release(w.x);
    weir_release(w.p);
}

CASE(of_a_recording_when_the_device_closes)
{
    world w;
    float v[2];

    record(&w);
    weir_device_close(w.d);
    CHECK_STATUS(weir_read(w.left, v, sizeof v), WEIR_ERR_DEVICE);
    CHECK(!weir_add(w.left, w.x));
    weir_graph_free(w.g);
    weir_release(w.x);
    weir_release(w.p);
}

/* The memory for handles of freed graphs does not grow with the number of graphs. */
CASE(many_graphs)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_input(d, 2, two), *last = NULL;
    float        v[2];

    for (int i = 0; i < 600; i++) {
        weir_graph *g = weir_graph_begin(d);
        last = weir_keep(weir_relu(weir_neg(x)));
        CHECK_OK(weir_graph_end(g, NULL));
        weir_graph_free(g);
    }
    CHECK_STATUS(weir_read(last, v, sizeof v), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "freed");
    weir_release(x);
    weir_device_close(d);
}
