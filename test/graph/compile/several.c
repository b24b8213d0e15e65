/* several.c - graphs side by side and again and again: shared parameters, one arena, the cycle from
 * one run to the next, old values read before they are overwritten. */
#include "graph/fixture.h"

/* All kinds of plans give the same result. */
static const weir_plan_options how[] = {
    {.level = 0}, {.level = WEIR_LEVEL_RECORDED}, {.disable = "fuse"}, {.disable = "order"},
    {.disable = "inplace"}, {.disable = "fuse,order,inplace"}};

/* SINGA computes 33 here: its default order lets the update run first. */
CASE(old_value_is_read_before_the_update)
{
    for (size_t i = 0; i < ARRAY_LENGTH(how); i++) {
        weir_device *d = fixture_open();
        weir_tensor *x = fixture_input(d, 1, (float[]){0}), *w = fixture_state(d, 1, (float[]){1});
        weir_graph  *g = weir_graph_begin(d);
        weir_tensor *h = weir_affine(weir_affine(weir_affine(x, 1, 1), 1, 1), 1, 1);
        weir_tensor *z = weir_keep(weir_mul(h, w));

        CHECK_OK(weir_increment(w, 10));
        weir_tensor *after = weir_keep(weir_mul(h, w));
        CHECK(fixture_finish(g, &how[i]));
        CHECK_NEAR(fixture_value(z), 3, 0);
        CHECK_NEAR(fixture_value(after), 33, 0);
        CHECK_NEAR(fixture_value(w), 11, 0);
        CHECK_OK(weir_graph_run(g));
        CHECK_NEAR(fixture_value(z), 33, 0);
        CHECK_NEAR(fixture_value(after), 63, 0);
        weir_graph_free(g);
        weir_release(x);
        weir_release(w);
        weir_device_close(d);
    }
}

CASE(a_failure_handled_before_the_recording_is_not_its_cause)
{
    weir_device *d = fixture_open();

    weir_fail(WEIR_ERR_IO, "no file of plans");
    weir_graph *g = weir_graph_begin(d);
    CHECK(weir_keep(NULL) == NULL);
    CHECK_STATUS(weir_graph_end(g, NULL), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "weir_keep: the tensor is NULL; the last failure, before the graph: "
                             "no file of plans");
    weir_graph_free(g);

    weir_error_clear();
    g = weir_graph_begin(d);
    CHECK(weir_keep(NULL) == NULL);
    CHECK_STATUS(weir_graph_end(g, NULL), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "weir_keep: the tensor is NULL");
    weir_graph_free(g);
    weir_device_close(d);
}

CASE(updates_feed_the_next_run)
{
    for (size_t i = 0; i < ARRAY_LENGTH(how); i++) {
        weir_device *d = fixture_open();
        weir_tensor *s = fixture_state(d, 2, NULL);
        weir_graph  *g = weir_graph_begin(d);
        weir_tensor *before = weir_keep(weir_copy(s));

        CHECK_OK(weir_increment(s, 1));
        weir_tensor *after = weir_keep(weir_copy(s));
        CHECK_OK(weir_graph_end(g, &how[i]));
        for (int run = 0; run < 50; run++) {
            CHECK_OK(weir_graph_run(g));
            CHECK(fixture_value(before) == (float)run && fixture_value(after) == (float)run + 1);
        }
        CHECK_OK(weir_write_fill(s, 100));
        CHECK_OK(weir_graph_run(g));
        CHECK(fixture_value(before) == 100 && fixture_value(after) == 101);
        weir_graph_free(g);
        weir_release(s);
        weir_device_close(d);
    }
}

CASE(new_inputs_every_run)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_input(d, 2, NULL);
    weir_graph  *g = weir_graph_begin(d);
    weir_tensor *y = weir_keep(weir_sum(weir_square(x), 0, false));

    CHECK_OK(weir_write(x, (float[]){9, 9}, 8));        /* at once, while recording too */
    CHECK_OK(weir_graph_end(g, NULL));
    CHECK_OK(weir_graph_run(g));
    CHECK(fixture_value(y) == 162);
    for (int i = 0; i < 10; i++) {
        CHECK_OK(weir_write(x, (float[]){(float)i, 1}, 8));
        CHECK_OK(weir_graph_run(g));
        CHECK(fixture_value(y) == (float)(i * i + 1));
    }
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}

/* ---- one arena ---- */

/* sum of (x + w)^2 over n elements, kept; sum of temporaries is more than one buffer of n. */
static weir_graph *squares(weir_device *d, weir_tensor *w, int64_t n, weir_tensor **sum)
{
    weir_graph  *g = weir_graph_begin(d);
    weir_tensor *x = weir_add(weir_uniform(d, weir_1d(WEIR_F32, n), 0, 1), w);
    *sum = weir_keep(weir_sum(weir_mul(x, weir_transpose(x, NULL)), 0, false));
    CHECK_OK(weir_graph_end(g, OPTIONS_WITHOUT("fuse")));
    return g;
}

static size_t arena(weir_device *d)
{
    weir_memory m;
    weir_device_memory(d, &m);
    return m.arena;
}

static size_t planned(const weir_graph *g)
{
    weir_graph_stats s = {0};
    CHECK_OK(weir_graph_stats_of(g, &s));
    return s.arena_bytes;
}

/* Graphs of growing size run in turns; the arena moves when it grows, and every plan follows. */
CASE(one_arena_the_largest)
{
    weir_device *d = fixture_open();
    weir_tensor *w = fixture_state(d, 1, (float[]){0.5f}), *sum[4];
    weir_graph  *g[4];
    float        first[4];

    for (int i = 0; i < 4; i++)
        g[i] = squares(d, w, 1000 << (4 * i), &sum[i]);
    CHECK(arena(d) == 0);                   /* nothing is allocated before the first run */
    for (int i = 0; i < 4; i++) {
        CHECK_OK(weir_device_seed(d, 1));
        CHECK_OK(weir_graph_run(g[i]));
        first[i] = fixture_value(sum[i]);
        CHECK(arena(d) == planned(g[i]));
        for (int k = 0; k <= i; k++) {
            CHECK_OK(weir_device_seed(d, 1));
            CHECK_OK(weir_graph_run(g[k]));
            CHECK(fixture_value(sum[k]) == first[k]);
        }
    }
    CHECK(arena(d) == planned(g[3]) && planned(g[3]) >= 4000u << 12);
    for (int i = 0; i < 4; i++)
        weir_graph_free(g[i]);
    weir_release(w);
    weir_device_close(d);
}

/* If the arena cannot grow, that is an error; the smaller graphs still run afterwards. */
CASE(arena_too_large)
{
    weir_device *d = fixture_open();
    weir_tensor *w = fixture_state(d, 1, (float[]){0.5f}), *small, *large;
    weir_graph  *g = squares(d, w, 100, &small);
    weir_graph  *h = squares(d, w, INT64_C(1) << 45, &large);

    CHECK_OK(weir_graph_run(g));
    CHECK_STATUS(weir_graph_run(h), WEIR_ERR_NOMEM);
    CHECK_TEXT(weir_error(), "arena");
    float v;
    CHECK_STATUS(weir_read(large, &v, sizeof v), WEIR_ERR_STATE);
    CHECK_OK(weir_graph_run(g));
    CHECK(fixture_value(small) > 0);
    weir_graph_free(g);
    weir_graph_free(h);
    weir_release(w);
    weir_device_close(d);
}

/* ---- train and evaluate ---- */

CASE(train_and_evaluate_in_turns)
{
    float seen[2][2][12];

    for (int on = 0; on < 2; on++) {
        weir_device *d = fixture_open();
        weir_tensor *x = fixture_input(d, 2, (float[]){1, 2}),
                    *w = fixture_param(d, 2, (float[]){0, 0});
        weir_tensor *lr = weir_input(d, weir_scalar(WEIR_F32)), *loss = NULL, *test = NULL;
        weir_graph  *train = NULL, *evaluate = NULL;
        CHECK_OK(weir_write_fill(lr, 0.125));
        for (int i = 0; i < 12; i++) {
            if (!train) {
                train = on ? weir_graph_begin(d) : NULL;
                loss = weir_mean(weir_square(weir_sub(x, w)), 0, false);
                weir_tensor *grad;
                CHECK_OK(weir_gradients(loss, 1, &w, &grad));
                CHECK_OK(weir_sgd_update(w, grad, NULL, lr, NULL));
                if (on) {
                    weir_keep(loss);
                    CHECK_OK(weir_graph_end(train, NULL));
                }
            }
            if (on)
                CHECK_OK(weir_graph_run(train));
            seen[on][0][i] = fixture_value(loss);
            if (!evaluate) {
                evaluate = on ? weir_graph_begin(d) : NULL;
                test = weir_sum(weir_mul(w, x), 0, false);
                if (on) {
                    weir_keep(test);
                    CHECK_OK(weir_graph_end(evaluate, NULL));
                }
            }
            if (on)
                CHECK_OK(weir_graph_run(evaluate));
            seen[on][1][i] = fixture_value(test);
        }
        weir_graph_free(train);
        weir_graph_free(evaluate);
        weir_release(x);
        weir_release(w);
        weir_release(lr);
        weir_device_close(d);
    }
    CHECK_BITS(seen[0], seen[1], sizeof seen[0]);
    CHECK(seen[0][0][11] < seen[0][0][0]);
}

/* Outputs kept across runs have memory of their own, and outlive the graph if retained. */
CASE(outputs_live_on)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_input(d, 2, (float[]){1, 2});
    weir_graph  *g = weir_graph_begin(d);
    weir_tensor *a = weir_keep(weir_affine(x, 2, 0)), *b = weir_keep(weir_affine(x, 2, 0));
    weir_tensor *same = weir_retain(weir_affine(a, 1, 0)), *copy = weir_keep(weir_copy(a));
    CHECK(fixture_finish(g, NULL));
    CHECK(fixture_value(a) == 2 && fixture_value(b) == 2 && fixture_value(same) == 2 &&
          fixture_value(copy) == 2);

    weir_graph *h = weir_graph_begin(d);
    weir_keep(weir_sum(weir_exp(weir_uniform(d, weir_1d(WEIR_F32, 9999), 0, 1)), 0, false));
    CHECK(fixture_finish(h, NULL));
    CHECK(fixture_value(a) == 2 && fixture_value(b) == 2 && fixture_value(same) == 2 &&
          fixture_value(copy) == 2);
    weir_graph_free(h);
    weir_graph_free(g);
    CHECK(fixture_value(same) == 2);
    weir_release(same);
    weir_release(x);
    weir_device_close(d);
}
