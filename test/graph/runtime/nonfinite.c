/* nonfinite.c - finds the first result of a step that is not finite, and leaves no trace. */
#include <math.h>
#include <string.h>

#include "graph/fixture.h"

enum { ROWS = 32, WIDTH = 64, LAYERS = 6 };

typedef struct chain {
    weir_device *d;
    weir_tensor *x, *w[LAYERS];
    weir_optim  *sgd;
    weir_graph  *g;
} chain;

/* x through six layers log(x w)^2, named block0 to block5, with an update. */
static chain record(const weir_plan_options *options)
{
    chain c = {.d = fixture_open()};
    char  name[] = "block0", weight[] = "block0.weight";

    c.x = weir_input(c.d, weir_2d(WEIR_F32, ROWS, WIDTH));
    c.sgd = weir_sgd_new(c.d, 1e-3, &(weir_sgd_options){.momentum = 0.9});
    CHECK_OK(weir_write_fill(c.x, 1));
    c.g = weir_graph_begin(c.d);
    weir_tensor *y = c.x;
    for (int i = 0; i < LAYERS; i++) {
        name[5] = weight[5] = (char)('0' + i);
        c.w[i] = weir_param(c.d, weir_2d(WEIR_F32, WIDTH, WIDTH), weight);
        CHECK_OK(weir_write_fill(c.w[i], 0.5));
        CHECK_OK(weir_name_scope_begin(c.d, name));
        y = weir_square(weir_log(weir_matmul(y, c.w[i])));
        CHECK_OK(weir_name_scope_end(c.d));
    }
    weir_tensor *loss = weir_keep(weir_mean(y, 0, false));
    CHECK_OK(weir_minimize(c.sgd, loss));
    CHECK_OK(weir_graph_end(c.g, options));
    return c;
}

static void done(chain *c)
{
    weir_graph_free(c->g);
    weir_optim_free(c->sgd);
    for (int i = 0; i < LAYERS; i++)
        weir_release(c->w[i]);
    weir_release(c->x);
    weir_device_close(c->d);
}

/* In plans without a budget and with one that recomputes and offloads. */
static const weir_plan_options plans[] = {
    {0}, {.disable = "fuse"}, {.budget = "70%"}, {.budget = "45%"}};

CASE(finite_steps_are_silent_and_unchanged)
{
    for (size_t p = 0; p < sizeof plans / sizeof *plans; p++) {
        chain          c = record(&plans[p]), same = record(&plans[p]);
        weir_nonfinite f = {.found = true};
        static float   a[WIDTH * WIDTH], b[WIDTH * WIDTH];

        for (int run = 0; run < 2; run++) {
            CHECK_OK(weir_graph_find_nonfinite(c.g, false, &f));
            CHECK(!f.found && f.bad_input == -1);
            CHECK_OK(weir_graph_run(c.g));
            CHECK_OK(weir_graph_run(same.g));
        }
        for (int i = 0; i < LAYERS; i++) {
            CHECK_OK(weir_read(c.w[i], a, sizeof a));
            CHECK_OK(weir_read(same.w[i], b, sizeof b));
            CHECK(memcmp(a, b, sizeof a) == 0);
        }
        done(&c);
        done(&same);
    }
}

CASE(the_first_operation_is_found)
{
    for (size_t p = 0; p < sizeof plans / sizeof *plans; p++) {
        chain          c = record(&plans[p]);
        weir_nonfinite f;
        static float   w[WIDTH * WIDTH];

        CHECK_OK(weir_write_fill(c.w[3], -0.5));        /* log of a negative number */
        CHECK_OK(weir_graph_find_nonfinite(c.g, false, &f));
        CHECK(f.found && isnan(f.value) && f.index == 0 && f.bad_input == -1 && f.result == 0);
        CHECK(strstr(f.name, "block3/") && strstr(f.name, "log") && strstr(f.op, "log"));
        CHECK_OK(weir_read(c.w[5], w, sizeof w));
        CHECK(w[0] == 0.5f);
        done(&c);
    }
}

CASE(an_input_that_is_not_finite_is_named)
{
    chain          c = record(NULL);
    weir_nonfinite f;
    static float   w[WIDTH * WIDTH];

    CHECK_OK(weir_read(c.w[2], w, sizeof w));
    w[5 * WIDTH + 7] = INFINITY;                /* column 7 of the product */
    CHECK_OK(weir_write(c.w[2], w, sizeof w));
    CHECK_OK(weir_graph_find_nonfinite(c.g, false, &f));
    CHECK(f.found && isinf(f.value) && f.index == 7 && strcmp(f.name, "block2/matmul") == 0);
    CHECK(f.bad_input == 1 && strcmp(f.input, "block2.weight") == 0);
    CHECK_OK(weir_graph_find_nonfinite(c.g, true, &f));
    CHECK(f.found && isnan(f.value) && strcmp(f.name, "block2/matmul") != 0);
    done(&c);
}

CASE(halves_and_wrong_states)
{
    weir_device   *d = fixture_open();
    weir_tensor   *x = weir_input(d, weir_2d(WEIR_F32, 4, 4));
    weir_graph    *g = weir_graph_begin(d);
    weir_nonfinite f;

    CHECK_OK(weir_write_fill(x, 70000));
    weir_keep(weir_cast(x, WEIR_F16));
    CHECK_STATUS(weir_graph_find_nonfinite(g, false, &f), WEIR_ERR_STATE);
    CHECK_OK(weir_graph_end(g, NULL));
    CHECK_OK(weir_graph_find_nonfinite(g, false, &f));
    CHECK(f.found && isinf(f.value) && strcmp(f.op, "cast") == 0);
    CHECK(weir_graph_find_nonfinite(NULL, false, &f) != WEIR_OK);
    CHECK(weir_graph_find_nonfinite(g, false, NULL) != WEIR_OK);
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}
