/* scaling.c - simulated scaling curves of data parallelism, from 1 to 4096 ranks.
 *
 * `scaling [MOST]`: training steps of three networks on simulated P100s, 4 on each node, whose link
 * to the others carries 3.1 GB/s (25 Gbit/s) with 20 us a message; within a node the ranks have
 * 12 GB/s. For each power of two up to MOST (4096) it prints what the wire takes, what of it
 * computing waits for, the step, and the efficiency: the step of one rank over it; with planned
 * buckets and with given ones. Nothing is computed or measured.
 * Build: `cmake --build build --target scaling`. */
#include <stdio.h>
#include <stdlib.h>

#include "weir.h"

enum { NODE = 4, MOST = 4096 };

typedef struct network {
    const char *name;
    int64_t     batch;
    bool        text;           /* x is (batch, LENGTH) tokens */
    weir_layer *(*make)(weir_model *m);
} network;

enum { LENGTH = 1024, TOKENS = 50257, PIXELS = 224, CLASSES = 1000 };

static weir_layer *make_resnet(weir_model *m)
{
    return weir_resnet_new(m, 50, CLASSES, false);
}

static weir_layer *make_vgg(weir_model *m)
{
    return weir_vgg16_new(m, CLASSES, PIXELS);
}

/* GPT-2 small. */
static weir_layer *make_gpt(weir_model *m)
{
    return weir_gpt_new(m, TOKENS, LENGTH, 768, 12, 12);
}

static const network networks[] = {
    {"ResNet-50", 64, false, make_resnet},
    {"VGG-16", 64, false, make_vgg},
    {"GPT-2 small", 4, true, make_gpt},
};

static void check(weir_status s)
{
    if (s != WEIR_OK) {
        fprintf(stderr, "scaling: %s\n", weir_error());
        exit(1);
    }
}

typedef struct training {
    const network *n;
    weir_model    *model;
    weir_layer    *net;
    weir_optim    *optim;
    weir_tensor   *x, *y;
} training;

static weir_status minimize(void *ctx)
{
    const training *const t = ctx;

    return weir_minimize(t->optim, weir_cross_entropy(weir_apply(t->net, t->x), t->y));
}

/* What a step takes, in milliseconds. */
typedef struct times {
    double wire, exposed, step;
} times;

static void run(training *t, weir_device *d, weir_comm *c, times *out)
{
    weir_step *const step = weir_step_new(d, minimize, t, &(weir_step_options){.graph = true});
    weir_comm_stats  before, after;

    check(step ? weir_step_run(step) : weir_error_status());
    check(weir_comm_stats_of(c, &before));
    const double begin = weir_device_clock(d);
    check(weir_step_run(step));
    out->step = 1e3 * (weir_device_clock(d) - begin);
    check(weir_comm_stats_of(c, &after));
    out->wire = after.wire_ms - before.wire_ms;
    out->exposed = after.waited_ms - before.waited_ms;
    weir_step_free(step);
}

static times simulate(const network *n, int world, const char *order, size_t bucket)
{
    char     name[96];
    training t = {.n = n};
    times    result;

    snprintf(name, sizeof name, "sim:p100,wire=3.1e9,alpha=20e-6,world=%d,node=%d", world,
             world < NODE ? world : NODE);
    weir_device *const d = weir_device_open(name, &(weir_device_options){.threads = 1});
    weir_comm *const   c = d ? weir_comm_open("auto", d, &(weir_comm_options){.order = order})
                             : NULL;
    t.model = c ? weir_model_new(d) : NULL;
    t.net = t.model ? n->make(t.model) : NULL;
    if (!t.net)
        check(weir_error_status());
    t.x = weir_input(d, n->text ? weir_2d(WEIR_I32, n->batch, LENGTH)
                                : weir_4d(WEIR_F32, n->batch, 3, PIXELS, PIXELS));
    t.y = weir_input(d, weir_1d(WEIR_I32, n->batch * (n->text ? LENGTH : 1)));
    t.optim = weir_sgd_new(d, 0.01, &(weir_sgd_options){.momentum = 0.9});
    check(weir_write_fill(t.x, 0));
    check(weir_write_fill(t.y, 0));
    const weir_parallel_options p = {.model = t.model, .bucket = bucket};
    check(weir_data_parallel(t.optim, c, &p));
    run(&t, d, c, &result);
    weir_release(t.x);
    weir_release(t.y);
    weir_optim_free(t.optim);
    weir_model_free(t.model);
    weir_comm_close(c);
    weir_device_close(d);
    return result;
}

static void print_network(const network *n, int most)
{
    const size_t small = 1 << 20, large = 25 << 20;
    const times  one = simulate(n, 1, "tree", 0);

    printf("## %s, batch %lld on each rank\n\n"
           "| ranks | wire, ms | exposed, ms | step, ms | efficiency | with buckets of 1 MiB | "
           "of 25 MiB | order serial |\n|---:|---:|---:|---:|---:|---:|---:|---:|\n", n->name,
           (long long)n->batch);
    for (int world = 1; world <= most; world *= 2) {
        const times planned = simulate(n, world, "tree", 0);
        const times fine = simulate(n, world, "tree", small);
        const times coarse = simulate(n, world, "tree", large);
        const times serial = simulate(n, world, "serial", 0);
        printf("| %d | %.1f | %.1f | %.1f | %.0f %% | %.0f %% | %.0f %% | %.0f %% |\n", world,
               planned.wire, planned.exposed, planned.step, 100 * one.step / planned.step,
               100 * one.step / fine.step, 100 * one.step / coarse.step,
               100 * one.step / serial.step);
        fflush(stdout);
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    const int most = argc > 1 ? atoi(argv[1]) : MOST;

    if (most < 1 || most > 65536) {
        fprintf(stderr, "scaling: %d ranks (from 1 to 65536)\n", most);
        return 2;
    }
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        print_network(&networks[i], most);
    return 0;
}
