/* graph_records.c - what a recorded step contains and what it does not: the programs of
 * docs/user/what-a-graph-records.md. */
#include <stdio.h>
#include <string.h>

#include "weir.h"

static weir_device *dev;

static float number(const weir_tensor *t)
{
    float v = 0;
    if (weir_read(t, &v, sizeof v) != WEIR_OK)
        fprintf(stderr, "%s\n", weir_error());
    return v;
}

static void host_code_runs_once(void)
{
    weir_tensor *x = weir_input(dev, weir_scalar(WEIR_F32));
    const bool   twice = true;

    weir_graph *g = weir_graph_begin(dev);
    printf("recording\n");                              /* printed once */
    weir_tensor *y = weir_square(x);
    if (twice)                                          /* decided once */
        y = weir_affine(y, 2, 0);
    weir_keep(y);
    weir_graph_end(g, NULL);
    for (int i = 1; i <= 3; i++) {
        weir_write(x, &(float){(float)i}, sizeof(float));
        weir_graph_run(g);
        printf("2 * %d^2 = %g\n", i, (double)number(y));
    }
    weir_graph_free(g);
    weir_release(x);
}

static void a_choice_in_the_graph(void)
{
    weir_tensor *x = weir_input(dev, weir_scalar(WEIR_F32));

    weir_graph  *g = weir_graph_begin(dev);
    weir_tensor *large = weir_gt(x, weir_fill(dev, weir_scalar(WEIR_F32), 10));
    weir_tensor *y = weir_keep(weir_where(large, weir_fill(dev, weir_scalar(WEIR_F32), 10), x));
    weir_graph_end(g, NULL);
    for (int i = 8; i <= 12; i += 2) {
        weir_write(x, &(float){(float)i}, sizeof(float));
        weir_graph_run(g);
        printf("at most 10: %g\n", (double)number(y));
    }
    weir_graph_free(g);
    weir_release(x);
}

static void draws_and_updates(void)
{
    weir_tensor *count = weir_state(dev, weir_scalar(WEIR_F32), "count");
    weir_write_fill(count, 0);
    weir_device_seed(dev, 1);

    weir_graph  *g = weir_graph_begin(dev);
    weir_tensor *u = weir_keep(weir_uniform(dev, weir_scalar(WEIR_F32), 0, 1));
    weir_increment(count, 1);                           /* once in each run, from run to run */
    weir_graph_end(g, NULL);
    for (int i = 0; i < 3; i++) {
        weir_graph_run(g);
        printf("run %g drew %.3f\n", (double)number(count), (double)number(u));
    }
    weir_device_seed(dev, 1);
    weir_graph_run(g);
    printf("seeded again: %.3f\n", (double)number(u));
    weir_graph_free(g);
    weir_release(count);
}

static void another_shape(void)
{
    for (int64_t n = 2; n <= 4; n += 2) {               /* a graph for each shape */
        weir_tensor *x = weir_input(dev, weir_1d(WEIR_F32, n));
        weir_write_fill(x, 3);
        weir_graph  *g = weir_graph_begin(dev);
        weir_tensor *y = weir_keep(weir_sum(x, 0, false));
        weir_graph_end(g, NULL);
        weir_graph_run(g);
        printf("sum of %d: %g\n", (int)n, (double)number(y));
        weir_graph_free(g);
        weir_release(x);
    }
}

static void computed_in_between(void)
{
    weir_tensor *x = weir_input(dev, weir_scalar(WEIR_F32));
    weir_write_fill(x, 3);

    weir_graph  *g = weir_graph_begin(dev);
    weir_tensor *a = weir_square(x);                    /* recorded */
    weir_graph_pause(g);
    printf("at once: %g\n", (double)number(weir_sqrt(x)));
    weir_graph_resume(g);
    weir_tensor *b = weir_keep(weir_neg(a));            /* recorded */
    weir_graph_end(g, NULL);
    weir_graph_run(g);
    printf("recorded: %g\n", (double)number(b));
    weir_graph_free(g);
    weir_release(x);
}

static void a_graph_with_a_stop(void)
{
    weir_tensor *w = weir_param(dev, weir_scalar(WEIR_F32), "w"), *dw;
    weir_tensor *dy = weir_input(dev, weir_scalar(WEIR_F32));
    weir_write_fill(w, 3);

    weir_graph  *g = weir_graph_begin(dev);
    weir_tensor *y = weir_keep(weir_square(w));         /* the first half */
    weir_graph_stop(g);
    weir_gradients_from(y, dy, 1, &w, &dw);             /* the second half */
    weir_keep(dw);
    weir_graph_end(g, NULL);                            /* planned as one step */

    weir_graph_run_to_stop(g);
    const float loss = number(y) - 8;                   /* the program's own: (y - 8)^2 */
    weir_write(dy, &(float){2 * loss}, sizeof(float));
    weir_graph_run_rest(g);
    printf("y %g, gradient of (y - 8)^2: %g\n", (double)number(y), (double)number(dw));
    weir_graph_free(g);
    weir_release(w);
    weir_release(dy);
}

typedef struct job {
    weir_tensor *x, *y;
    int          calls;
} job;

static weir_status square_step(void *ctx)
{
    job *j = ctx;
    j->calls++;
    j->y = weir_keep(weir_square(j->x));
    return WEIR_OK;             /* what failed is NULL, and a NULL that is kept fails the step */
}

static void a_step_either_way(void)
{
    job j = {.x = weir_input(dev, weir_scalar(WEIR_F32))};

    for (int graph = 0; graph <= 1; graph++) {
        weir_step *step =
            weir_step_new(dev, square_step, &j, &(weir_step_options){.graph = graph});
        j.calls = 0;
        for (int i = 1; i <= 5; i++) {
            weir_write(j.x, &(float){(float)i}, sizeof(float));
            weir_step_run(step);
        }
        printf("graph %s: %d calls, last result %g\n", graph ? "on" : "off", j.calls,
               (double)number(j.y));
        weir_step_free(step);
    }
    weir_release(j.x);
}

static void a_switch_of_the_device(void)
{
    weir_tensor *x = weir_input(dev, weir_scalar(WEIR_F32));
    weir_write_fill(x, 5);

    weir_device_set_buffering(dev, true);               /* begins an anonymous graph */
    weir_tensor *y = weir_keep(weir_square(x));
    weir_device_set_buffering(dev, false);              /* pauses it */
    for (int i = 0; i < 2; i++)
        weir_device_exec(dev);                          /* plans it the first time; runs it */
    printf("buffered: %g\n", (double)number(y));
    weir_device_reset_graph(dev);                       /* frees it */
    weir_release(x);
}

static const struct {
    const char *name;
    void (*play)(void);
} parts[] = {
    {"host-code", host_code_runs_once}, {"choice", a_choice_in_the_graph},
    {"draws", draws_and_updates},       {"shapes", another_shape},
    {"pause", computed_in_between},     {"step", a_step_either_way},
    {"switch", a_switch_of_the_device}, {"stop", a_graph_with_a_stop},
};

/* Plays the part that is named, or all of them. */
int main(int argc, char **argv)
{
    dev = weir_device_open("cpu", NULL);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (argc < 2 || strcmp(argv[1], parts[i].name) == 0)
            parts[i].play();
    weir_device_close(dev);
}
