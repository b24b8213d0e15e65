/* step.c - steps of data parallelism, timed: one rank of a comparison, see link.py.
 *
 * `comm_step MODEL STEPS [WIRE [DISABLE]]` joins the ranks of a launcher ("auto") with one thread
 * and trains resnet18 (32 px, batch 32) or gpt (6 layers of 384, 256 tokens, batch 8) on random
 * data: 5 steps to warm up, of which the plan's predictions are made (profile_steps), then STEPS
 * (at most 1000). WIRE: the type in which gradients are sent (f32); DISABLE: passes that are left
 * out. Rank 0 prints a line for each step: milliseconds of the step, those in which a collective
 * was under way, those in which the rank waited for one; then "predicted" and what the plan says of
 * the last two, "estimated" and what it said before the first step, "memory" and the planned peak
 * in bytes.
 * Build: `cmake --build build --target comm_step`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "timing.h"
#include "weir.h"

enum { WARM = 5, MOST = 1000 };

/* A model in training, and the shape of its batch. */
typedef struct job {
    weir_model  *model;
    weir_layer  *net;
    weir_optim  *optim;
    weir_tensor *x, *y;
    int32_t      classes;
} job;

static void check(weir_status s)
{
    if (s != WEIR_OK) {
        fprintf(stderr, "comm_step: %s\n", weir_error());
        exit(1);
    }
}

static weir_status minimize(void *ctx)
{
    const job *const j = ctx;

    return weir_minimize(j->optim, weir_cross_entropy(weir_apply(j->net, j->x), j->y));
}

static void open_job(job *j, weir_device *d, const char *model)
{
    const bool text = strcmp(model, "gpt") == 0;

    j->model = weir_model_new(d);
    j->classes = text ? 256 : 10;
    j->net = text ? weir_gpt_new(j->model, 256, 256, 384, 6, 6)
                  : weir_resnet_new(j->model, 18, 10, true);
    j->optim = weir_sgd_new(d, 0.01, &(weir_sgd_options){.momentum = 0.9});
    j->x = weir_input(d, text ? weir_2d(WEIR_I32, 8, 256) : weir_4d(WEIR_F32, 32, 3, 32, 32));
    j->y = weir_input(d, weir_1d(WEIR_I32, text ? 8 * 256 : 32));
    if (!j->net || !j->optim || !j->x || !j->y)
        check(weir_error_status());
}

static void close_job(job *j)
{
    weir_release(j->x);
    weir_release(j->y);
    weir_optim_free(j->optim);
    weir_model_free(j->model);
}

/* Random elements: in [0, 1) of f32, below `classes` of i32. */
static void write_random(weir_tensor *t, int32_t classes, uint64_t number)
{
    const size_t n = weir_tensor_bytes(t) / 4;
    int32_t     *data = malloc(4 * n);

    if (!data)
        exit(1);
    for (size_t i = 0; i < n; i++) {
        const uint64_t word = weir_splitmix64(&number);
        const float    one = (float)(word >> 40) * 0x1p-24f;
        data[i] = (int32_t)(word % (uint64_t)classes);
        if (weir_tensor_desc(t).dtype == WEIR_F32)
            memcpy(&data[i], &one, sizeof one);
    }
    check(weir_write(t, data, 4 * n));
    free(data);
}

static void run_one(weir_step *step, const weir_comm *c, bool counts)
{
    weir_comm_stats before, after;

    check(weir_comm_stats_of(c, &before));
    const double begin = now_ms();
    check(weir_step_run(step));
    const double ms = now_ms() - begin;
    check(weir_comm_stats_of(c, &after));
    if (counts && weir_comm_rank(c) == 0)
        printf("%.3f %.3f %.3f\n", ms, after.wire_ms - before.wire_ms,
               after.waited_ms - before.waited_ms);
}

static void train(weir_device *d, weir_comm *c, const char *model, int steps,
                  const weir_parallel_options *options, const char *disable)
{
    const weir_step_options how = {.graph = true,
                                   .plan = {.disable = disable, .profile_steps = WARM}};
    weir_graph_stats        estimated, predicted;
    job                     j;

    open_job(&j, d, model);
    weir_parallel_options p = *options;
    p.model = j.model;
    check(weir_data_parallel(j.optim, c, &p));
    weir_step *const step = weir_step_new(d, minimize, &j, &how);
    if (!step)
        check(weir_error_status());
    for (int i = 0; i < WARM + steps; i++) {
        write_random(j.x, j.classes, (uint64_t)(i * weir_comm_world(c) + weir_comm_rank(c)));
        write_random(j.y, j.classes, (uint64_t)i + 1000);
        run_one(step, c, i >= WARM);
        if (i == 0)
            check(weir_graph_stats_of(weir_step_graph(step), &estimated));
    }
    check(weir_graph_stats_of(weir_step_graph(step), &predicted));
    if (weir_comm_rank(c) == 0)
        printf("predicted %.3f %.3f\nestimated %.3f %.3f\nmemory %zu\n",
               predicted.wire_predicted_ms, predicted.exposed_predicted_ms,
               estimated.wire_predicted_ms, estimated.exposed_predicted_ms,
               predicted.planned_peak_bytes);
    weir_step_free(step);
    close_job(&j);
}

int main(int argc, char **argv)
{
    const int         steps = argc > 2 ? atoi(argv[2]) : 0;
    const char *const wire = argc > 3 ? argv[3] : "f32";
    weir_parallel_options options = {.wire = WEIR_F32};

    if (argc < 3 || steps < 1 || steps > MOST ||
        (strcmp(argv[1], "gpt") != 0 && strcmp(argv[1], "resnet18") != 0)) {
        fprintf(stderr, "usage: comm_step resnet18|gpt STEPS [f32|bf16|f16 [DISABLE]]\n");
        return 2;
    }
    if (strcmp(wire, "f32") != 0)
        options.wire = strcmp(wire, "bf16") == 0 ? WEIR_BF16 : WEIR_F16;
    setvbuf(stdout, NULL, _IOLBF, 0);   /* link.py reads lines of a rank that does not end, too */
    weir_device *const d = weir_device_open("cpu", &(weir_device_options){.threads = 1});
    weir_comm *const   c = d ? weir_comm_open("auto", d, NULL) : NULL;
    double             constant, per_byte;
    if (!c)
        check(weir_error_status());
    check(weir_comm_measure(c, &constant, &per_byte));      /* for the cuts between buckets */
    train(d, c, argv[1], steps, &options, argc > 4 ? argv[4] : NULL);
    weir_comm_close(c);
    weir_device_close(d);
    return 0;
}
