/* graph_errors.c - the mistakes that docs/user/what-a-graph-records.md explains, and what the
 * library says about each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weir.h"

static weir_device *dev;

/* Prints the sentence of a call that must fail. */
static void refused(weir_status s)
{
    if (s == WEIR_OK)
        exit(1);
    printf("%s\n", weir_error());
}

static weir_tensor *input(int64_t n)
{
    weir_tensor *x = weir_input(dev, weir_1d(WEIR_F32, n));
    weir_write_fill(x, 2);
    return x;
}

static void read_too_early(void)
{
    weir_tensor *x = input(3), *y;
    float        v[3];

    weir_graph *g = weir_graph_begin(dev);
    y = weir_keep(weir_square(x));
    refused(weir_read(y, v, sizeof v));                 /* still recording */
    weir_graph_end(g, NULL);
    refused(weir_read(y, v, sizeof v));                 /* planned, but not run yet */
    weir_graph_free(g);
    weir_release(x);
}

static void read_unkept(void)
{
    weir_tensor *x = input(3), *y, *z;
    float        v[3];

    weir_graph *g = weir_graph_begin(dev);
    y = weir_square(x);
    z = weir_keep(weir_relu(y));
    weir_graph_end(g, NULL);
    weir_graph_run(g);
    refused(weir_read(y, v, sizeof v));
    weir_graph_free(g);
    refused(weir_read(z, v, sizeof v));                 /* outputs are freed with their graph */
    weir_release(x);
}

static void incomplete(void)
{
    weir_tensor *a = input(3), *b = input(4);

    weir_graph *g = weir_graph_begin(dev);
    weir_keep(weir_add(a, b));
    refused(weir_graph_end(g, NULL));
    refused(weir_graph_run(g));
    weir_graph_free(g);
    weir_release(a);
    weir_release(b);
}

static void not_written(void)
{
    weir_tensor *x = weir_input(dev, weir_1d(WEIR_F32, 3));

    weir_graph *g = weir_graph_begin(dev);
    weir_keep(weir_square(x));
    weir_graph_end(g, NULL);
    refused(weir_graph_run(g));
    weir_graph_free(g);
    weir_release(x);
}

static void two_at_once(void)
{
    weir_graph *g = weir_graph_begin(dev);
    weir_graph *h = weir_graph_begin(dev);
    refused(h ? WEIR_OK : weir_error_status());
    refused(weir_graph_run(g));                         /* not ended yet */
    weir_graph_free(g);
}

static void write_result(void)
{
    weir_tensor *x = input(3), *y;
    float        v[3] = {0};

    weir_graph *g = weir_graph_begin(dev);
    y = weir_keep(weir_square(x));
    refused(weir_write(y, v, sizeof v));
    weir_graph_end(g, NULL);
    weir_graph_run(g);
    refused(weir_write(y, v, sizeof v));
    weir_graph_free(g);
    weir_release(x);
}

static void gradient_after_update(void)
{
    weir_tensor *w = weir_param(dev, weir_1d(WEIR_F32, 3), "w");
    weir_write_fill(w, 1);
    weir_optim *sgd = weir_sgd_new(dev, 0.1, NULL);

    weir_graph  *g = weir_graph_begin(dev);
    weir_tensor *a = weir_sum(weir_square(w), 0, false);
    weir_tensor *b = weir_mean(weir_square(w), 0, false);
    weir_minimize(sgd, a);
    refused(weir_minimize(sgd, b));                     /* b read w before the first update */
    weir_graph_free(g);
    weir_optim_free(sgd);
    weir_release(w);
}

static const struct {
    const char *name;
    void (*play)(void);
} parts[] = {
    {"early", read_too_early},    {"unkept", read_unkept},       {"incomplete", incomplete},
    {"unwritten", not_written},   {"two", two_at_once},          {"write", write_result},
    {"gradient", gradient_after_update},
};

/* Runs the part whose name is given as argument, or all parts. */
int main(int argc, char **argv)
{
    dev = weir_device_open("cpu", NULL);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (argc < 2 || strcmp(argv[1], parts[i].name) == 0)
            parts[i].play();
    weir_device_close(dev);
}
