/* step.c - a step that runs either way: what it keeps, what it refuses, what a failure leaves. */
#include "graph/fixture.h"

typedef struct counter {
    weir_device *d;
    weir_tensor *x, *s, *y;
    weir_step   *inner;
    int          calls;
    weir_status  status;
} counter;

static weir_status count(void *ctx)
{
    counter *c = ctx;

    c->calls++;
    if (c->inner)
        return weir_step_run(c->inner);
    weir_exp(c->x);
    CHECK_OK(weir_increment(c->s, 1));
    c->y = weir_keep(weir_mul(weir_affine(c->x, 2, 0), c->s));
    return c->status;
}

static counter open_counter(void)
{
    counter c = {.d = fixture_open()};
    c.x = fixture_input(c.d, 2, (float[]){1, 2});
    c.s = fixture_state(c.d, 2, NULL);
    return c;
}

static void close_counter(counter *c)
{
    weir_release(c->x);
    weir_release(c->s);
    weir_device_close(c->d);
}

CASE(off_and_on_alike)
{
    for (int on = 0; on < 2; on++) {
        counter    c = open_counter();
        weir_step *s = weir_step_new(c.d, count, &c, &(weir_step_options){.graph = on});
        CHECK(c.calls == 0 && weir_step_graph(s) == NULL);
        for (int i = 1; i <= 6; i++) {
            CHECK_OK(weir_write(c.x, (float[]){(float)i, 0}, 8));
            CHECK_OK(weir_step_run(s));
            CHECK(fixture_value(c.y) == (float)(2 * i * i));
            CHECK(c.calls == (on ? 1 : i));
        }
        CHECK((weir_step_graph(s) != NULL) == on);
        weir_tensor *y = weir_retain(c.y);
        weir_step_free(s);
        CHECK(fixture_value(y) == 72);
        weir_release(y);
        close_counter(&c);
    }
}

/* Graph off: running the step again frees its previous results. */
CASE(kept_results_do_not_pile_up)
{
    counter     c = open_counter();
    weir_step  *s = weir_step_new(c.d, count, &c, NULL);
    weir_memory first, later;

    CHECK_OK(weir_step_run(s));
    weir_device_memory(c.d, &first);
    for (int i = 0; i < 10; i++)
        CHECK_OK(weir_step_run(s));
    weir_device_memory(c.d, &later);
    CHECK(later.live == first.live && later.pool == first.pool);
    weir_step_free(s);
    close_counter(&c);
}

/* The step returns its function's error; the next run starts from the beginning. */
CASE(a_failing_function)
{
    for (int on = 0; on < 2; on++) {
        counter    c = open_counter();
        weir_step *s = weir_step_new(c.d, count, &c, &(weir_step_options){.graph = on});
        c.status = WEIR_ERR_IO;
        CHECK(weir_step_run(s) == WEIR_ERR_IO);
        CHECK(weir_step_graph(s) == NULL);
        c.status = WEIR_OK;
        CHECK_OK(weir_step_run(s));
        CHECK(c.calls == 2 && fixture_value(c.s) == (on ? 1 : 2));
        weir_step_free(s);
        close_counter(&c);
    }
}

CASE(steps_do_not_nest)
{
    for (int on = 0; on < 2; on++) {
        counter    c = open_counter(), outer = {.d = c.d};
        weir_step *s = weir_step_new(c.d, count, &c, &(weir_step_options){.graph = on});
        outer.inner = s;
        weir_step *o = weir_step_new(c.d, count, &outer, &(weir_step_options){.graph = on});
        CHECK_STATUS(weir_step_run(o), WEIR_ERR_STATE);
        weir_graph *g = weir_graph_begin(c.d);
        CHECK_STATUS(weir_step_run(s), WEIR_ERR_STATE);
        CHECK_OK(weir_graph_end(g, NULL));
        weir_graph_free(g);
        CHECK_OK(weir_step_run(s));
        CHECK(fixture_value(c.s) == 1);
        weir_step_free(o);
        weir_step_free(s);
        close_counter(&c);
    }
}

CASE(mistakes)
{
    counter c = open_counter();

    CHECK(weir_step_new(NULL, count, &c, NULL) == NULL);
    CHECK(weir_step_new(c.d, NULL, &c, NULL) == NULL);
    CHECK(weir_error_status() == WEIR_ERR_INVALID);
    CHECK(weir_step_run(NULL) != WEIR_OK);
    CHECK(weir_step_graph(NULL) == NULL);
    weir_step_free(NULL);
    weir_step *s = weir_step_new(c.d, count, &c,
                                 &(weir_step_options){.graph = true, .plan = {.disable = "all"}});
    CHECK_STATUS(weir_step_run(s), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_step_run(s), WEIR_ERR_INVALID);
    weir_device_close(c.d);
    CHECK_STATUS(weir_step_run(s), WEIR_ERR_DEVICE);
    weir_step_free(s);
    weir_release(c.x);
    weir_release(c.s);
}

/* A step that adds 1 to a state; what its callbacks saw. */
typedef struct looped {
    weir_tensor *count;
    int64_t      before, after, last;
    double       seen;
    int64_t      stop_at, fail_at;
} looped;

static weir_status count_up(void *ctx)
{
    looped *l = ctx;

    WEIR_TRY(weir_increment(l->count, 1));
    return weir_keep(weir_affine(l->count, 10, 0)) ? WEIR_OK : weir_error_status();
}

static weir_status see_before(void *ctx, const weir_step_event *e)
{
    looped *l = ctx;

    l->before++;
    CHECK(e->kept_count == 0 && !*e->stop);
    return e->step == l->fail_at ? weir_fail(WEIR_ERR_IO, "no data for step 7") : WEIR_OK;
}

static weir_status see_after(void *ctx, const weir_step_event *e)
{
    looped *l = ctx;

    l->after++;
    l->last = e->step;
    *e->stop = e->step == l->stop_at;
    if (!CHECK(e->kept_count == 1))
        return WEIR_ERR_STATE;
    return weir_read(e->kept[0], &l->seen, sizeof l->seen);
}

CASE(loops_tell_numbers_and_kept_values)
{
    for (int graph = 0; graph < 2; graph++) {
        weir_device *const d = weir_device_open(check_device(), NULL);
        looped             l = {.count = weir_state(d, weir_scalar(WEIR_F64), "count"),
                                .stop_at = -1, .fail_at = -1};
        weir_step *const   s = weir_step_new(d, count_up, &l, &(weir_step_options){.graph = graph});
        weir_step_loop_options o = {see_before, see_after, &l, 100};
        int64_t            done = -1;

        CHECK_OK(weir_write_fill(l.count, 0));
        CHECK_OK(weir_step_loop(s, 5, &o, &done));
        CHECK(done == 5 && l.before == 5 && l.after == 5 && l.last == 104 && l.seen == 50);
        o.first = 0;
        l.stop_at = 2;
        CHECK_OK(weir_step_loop(s, 5, &o, &done));
        CHECK(done == 3 && l.last == 2 && l.seen == 80);
        l.stop_at = -1;
        l.fail_at = 7;
        CHECK_STATUS(weir_step_loop(s, 100, &o, &done), WEIR_ERR_IO);
        CHECK_TEXT(weir_error(), "no data for step 7");
        CHECK(done == 7 && l.last == 6 && l.seen == 150);
        CHECK_OK(weir_step_loop(s, 2, NULL, NULL));
        CHECK_OK(weir_step_loop(s, 0, NULL, &done));
        CHECK(done == 0);
        CHECK_STATUS(weir_step_loop(s, -1, NULL, NULL), WEIR_ERR_INVALID);
        CHECK_TEXT(weir_error(), "-1 steps");
        weir_step_free(s);
        weir_release(l.count);
        weir_device_close(d);
    }
}
