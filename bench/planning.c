/* planning.c - how long a step of a given size and shape takes to record, plan and run first.
 *
 * `planning SHAPE NODES` prints a line: the shape, the nodes recorded, the process's milliseconds
 * of recording, of planning (weir_graph_end without a budget) and of the first run, the planned
 * peak. bench/planning.py builds it against one libweir or two and makes a table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "weir.h"

enum { BATCH = 2, WIDTH = 4 };

typedef struct job {
    weir_device *dev;
    weir_model  *model;
    weir_optim  *sgd;
    weir_tensor *x, *target;
    size_t       size;          /* layers, parameters, branches or steps */
    weir_layer  *gpt;
    weir_tensor **param;
} job;

static double cpu_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static weir_tensor *param_of(job *j, size_t i, weir_desc desc)
{
    if (!j->param[i]) {
        j->param[i] = weir_param(j->dev, desc, NULL);
        weir_write_fill(j->param[i], 0.1);
    }
    return j->param[i];
}

static weir_tensor *mean_of(weir_tensor *x)
{
    return weir_mean(weir_square(x), 0, false);
}

/* One layer after another, each with parameters of its own. */
static weir_tensor *chain(job *j)
{
    weir_tensor *x = j->x;

    for (size_t i = 0; i < j->size; i++) {
        weir_tensor *w = param_of(j, 2 * i, weir_2d(WEIR_F32, WIDTH, WIDTH));
        weir_tensor *b = param_of(j, 2 * i + 1, weir_1d(WEIR_F32, WIDTH));
        x = weir_relu(weir_linear(x, w, b));
    }
    return mean_of(x);
}

/* Many small parameters that each meet the loss by themselves. */
static weir_tensor *params(job *j)
{
    weir_tensor *sum = mean_of(j->x);

    for (size_t i = 0; i < j->size; i++)
        sum = weir_add(sum, mean_of(param_of(j, i, weir_1d(WEIR_F32, 1 + (int64_t)(i % 7)))));
    return sum;
}

/* Branches from one value that are all there before the first is summed up. */
static weir_tensor *wide(job *j)
{
    weir_tensor **branch = calloc(j->size, sizeof *branch), *sum = j->x;
    weir_tensor  *w = param_of(j, 0, weir_2d(WEIR_F32, WIDTH, WIDTH));

    for (size_t i = 0; i < j->size; i++)
        branch[i] = weir_matmul(weir_affine(j->x, 1 + (double)i, 0), w);
    for (size_t i = 0; i < j->size; i++)
        sum = weir_add(sum, weir_matmul(weir_tanh(branch[i]), w));
    free(branch);
    return mean_of(sum);
}

/* One cell, run for step after step of a sequence. */
static weir_tensor *recurrent(job *j)
{
    weir_tensor *w = param_of(j, 0, weir_2d(WEIR_F32, WIDTH, WIDTH));
    weir_tensor *u = param_of(j, 1, weir_2d(WEIR_F32, WIDTH, WIDTH));
    weir_tensor *h = j->x;

    for (size_t i = 0; i < j->size; i++) {
        weir_tensor *x = weir_narrow(j->target, 0, BATCH * (int64_t)i, BATCH);
        h = weir_tanh(weir_add(weir_matmul(x, w), weir_matmul(h, u)));
    }
    return mean_of(h);
}

/* A transformer of many layers. */
static weir_tensor *gpt(job *j)
{
    return weir_cross_entropy(weir_apply(j->gpt, j->x), j->target);
}

static const struct shape {
    const char   *name;
    double        nodes;        /* recorded for each of `size`, about */
    weir_tensor *(*loss)(job *j);
} shapes[] = {
    {"chain", 8, chain}, {"params", 6, params}, {"wide", 11, wide},
    {"recurrent", 10, recurrent}, {"gpt", 60, gpt},
};

static void inputs(job *j, const struct shape *s)
{
    if (s->loss == gpt) {
        j->x = weir_input(j->dev, weir_2d(WEIR_I32, BATCH, WIDTH));
        j->target = weir_input(j->dev, weir_1d(WEIR_I32, BATCH * WIDTH));
        j->gpt = weir_gpt_new(j->model, 8, WIDTH, 8, 2, (int)j->size);
    } else {
        const int64_t rows = s->loss == recurrent ? BATCH * (int64_t)j->size : BATCH;
        j->x = weir_input(j->dev, weir_2d(WEIR_F32, BATCH, WIDTH));
        j->target = weir_input(j->dev, weir_2d(WEIR_F32, rows, WIDTH));
    }
    weir_write_fill(j->x, 1);
    weir_write_fill(j->target, 1);
}

static int measure(const struct shape *s, double nodes)
{
    job j = {.dev = weir_device_open("cpu", NULL), .size = (size_t)(nodes / s->nodes) + 1};
    weir_graph_stats stats;

    j.model = weir_model_new(j.dev);
    j.sgd = weir_sgd_new(j.dev, 0.1, NULL);
    j.param = calloc(2 * j.size + 2, sizeof *j.param);
    inputs(&j, s);
    const double began = cpu_ms();
    weir_graph  *g = weir_graph_begin(j.dev);
    weir_status  status = weir_minimize(j.sgd, weir_keep(s->loss(&j)));
    const double recorded = cpu_ms();
    if (status == WEIR_OK)
        status = weir_graph_end(g, NULL);
    const double planned = cpu_ms();
    if (status == WEIR_OK)
        status = weir_graph_run(g);
    const double ran = cpu_ms();
    if (status == WEIR_OK)
        status = weir_graph_stats_of(g, &stats);
    if (status == WEIR_OK)
        printf("%s %zu %.2f %.2f %.2f %zu\n", s->name, stats.nodes, recorded - began,
               planned - recorded, ran - planned, stats.planned_peak_bytes);
    else
        fprintf(stderr, "planning: %s: %s\n", s->name, weir_error());
    fflush(stdout);
    weir_graph_free(g);
    _Exit(status != WEIR_OK);
}

int main(int argc, char **argv)
{
    for (size_t k = 0; argc == 3 && k < sizeof shapes / sizeof *shapes; k++)
        if (strcmp(argv[1], shapes[k].name) == 0)
            return measure(&shapes[k], atof(argv[2]));
    fprintf(stderr, "usage: planning chain|params|wide|recurrent|gpt NODES\n");
    return 2;
}
