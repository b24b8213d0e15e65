/* prediction.c - predicted times of data parallelism beside those of ranks that run.
 *
 * `prediction [RANKS [ROUNDS]]`: that many processes (2) train the perceptron of overlap.c, 784-
 * 1024-1024-1024-10, batch 64 and one thread each, over local:, with the pass `overlap` and without
 * it, ROUNDS (21) steps. Before, weir_comm_measure fits the wire, and rank 0 times the step of one
 * process while the others sleep. Predictions stand beside the medians of rank 0:
 *
 *   plan       wire_predicted_ms and exposed_predicted_ms of weir_graph_stats after five measured
 *              steps (profile_steps); its step is the measured one of one process and the wait
 *   estimated  the same before them, by the device's estimate of computing and the fitted wire
 *   simulated  a device sim: with the fitted wire, and rates by which the step of one rank takes
 *              what was measured
 *
 * Build: `cmake --build build --target prediction`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "timing.h"
#include "weir.h"

enum { BATCH = 64, IN = 784, WIDE = 1024, OUT = 10, WARM = 5, MOST = 1000 };

typedef struct training {
    weir_model  *model;
    weir_layer  *net;
    weir_optim  *optim;
    weir_tensor *x, *y;
    weir_step   *step;
} training;

/* Milliseconds of a step. */
typedef struct times {
    double step, wire, exposed;
} times;

static void check(weir_status s)
{
    if (s != WEIR_OK) {
        fprintf(stderr, "prediction: %s\n", weir_error());
        exit(1);
    }
}

static weir_status minimize(void *ctx)
{
    const training *const t = ctx;

    return weir_minimize(t->optim, weir_cross_entropy(weir_apply(t->net, t->x), t->y));
}

/* comm NULL: one process. */
static void open_training(training *t, weir_device *d, weir_comm *comm, const char *disable)
{
    const weir_step_options how = {.graph = true,
                                   .plan = {.disable = disable, .profile_steps = WARM}};

    t->model = weir_model_new(d);
    t->net = weir_mlp_new(t->model, 5, (int64_t[]){IN, WIDE, WIDE, WIDE, OUT});
    t->optim = weir_sgd_new(d, 0.01, &(weir_sgd_options){.momentum = 0.9});
    t->x = weir_input(d, weir_2d(WEIR_F32, BATCH, IN));
    t->y = weir_input(d, weir_1d(WEIR_I32, BATCH));
    t->step = weir_step_new(d, minimize, t, &how);
    if (!t->net || !t->optim || !t->x || !t->y || !t->step)
        check(weir_error_status());
    check(weir_write_fill(t->x, 0.5));
    check(weir_write_fill(t->y, 1));
    if (comm)
        check(weir_data_parallel(t->optim, comm, &(weir_parallel_options){.model = t->model}));
}

static void close_training(training *t)
{
    weir_step_free(t->step);
    weir_release(t->x);
    weir_release(t->y);
    weir_optim_free(t->optim);
    weir_model_free(t->model);
}

static void count(const weir_comm *c, weir_comm_stats *s)
{
    *s = (weir_comm_stats){0};
    if (c)
        check(weir_comm_stats_of(c, s));
}

/* Medians of the steps' times, by the clock of the machine. *estimated: what the first step's plan
 * says. */
static times measure(training *t, const weir_comm *c, int rounds, weir_graph_stats *estimated)
{
    static double   step[MOST], wire[MOST], exposed[MOST];
    weir_comm_stats before, after;

    for (int i = -WARM; i < rounds; i++) {
        const int at = i < 0 ? 0 : i;
        count(c, &before);
        const double begin = now_ms();
        check(weir_step_run(t->step));
        step[at] = now_ms() - begin;
        count(c, &after);
        if (i == -WARM)
            check(weir_graph_stats_of(weir_step_graph(t->step), estimated));
        wire[at] = after.wire_ms - before.wire_ms;
        exposed[at] = after.waited_ms - before.waited_ms;
    }
    return (times){median(step, rounds), median(wire, rounds), median(exposed, rounds)};
}

/* What a step takes on a simulated machine. */
static times simulate(const char *name, const char *disable)
{
    training           t;
    weir_comm_stats    before, after;
    weir_device *const d = weir_device_open(name, &(weir_device_options){.threads = 1});
    weir_comm *const   c = d ? weir_comm_open("auto", d, NULL) : NULL;

    if (!c)
        check(weir_error_status());
    open_training(&t, d, c, disable);
    check(weir_step_run(t.step));
    count(c, &before);
    const double begin = weir_device_clock(d);
    check(weir_step_run(t.step));
    const double step = 1e3 * (weir_device_clock(d) - begin);
    count(c, &after);
    close_training(&t);
    weir_comm_close(c);
    weir_device_close(d);
    return (times){step, after.wire_ms - before.wire_ms, after.waited_ms - before.waited_ms};
}

/* A step of one rank takes `one_ms`; the network takes what was fitted to `world` ranks. Rates are
 * those that the CPU device estimates with, times one number. */
static void name_simulated(char *name, size_t size, int world, double one_ms, double constant,
                           double per_byte)
{
    static const char form[] = "sim:flops=%.6g,memory=%.6g,call=%.6g,world=%d,wire=%.6g,alpha=%.6g";
    const double      others = world - 1, f = 1.5e11, m = 1.5e10, call = 2e-6;

    snprintf(name, size, form, f, m, call, 1, 1e9, 0.0);
    const double slower = one_ms / simulate(name, NULL).step;
    snprintf(name, size, form, f / slower, m / slower, call * slower, world,
             2 * others / world / per_byte, constant / (2 * others));
}

static void print_row(const char *sums, const char *what, times t, const times *real)
{
    printf("| %s | %s | %.2f | %.2f | %.2f |", sums, what, t.step, t.wire, t.exposed);
    if (real)
        printf(" %.2f | %.2f | %.2f |\n", t.step / real->step, t.wire / real->wire,
               t.exposed / real->exposed);
    else
        printf(" | | |\n");
}

static void print_plan(const char *sums, const char *what, const weir_graph_stats *s, double one_ms,
                       const times *real)
{
    print_row(sums, what, (times){one_ms + s->exposed_predicted_ms, s->wire_predicted_ms,
                                  s->exposed_predicted_ms}, real);
}

/* One way of summing: measured by all ranks, predicted and printed by rank 0. */
static void compare_one(weir_device *d, weir_comm *c, const char *disable, double one_ms,
                        const char *machine, int rounds)
{
    const char *const sums = disable ? "waited for at once" : "beside computing";
    training          t;
    weir_graph_stats  plan, estimated;

    open_training(&t, d, c, disable);
    const times real = measure(&t, c, rounds, &estimated);
    check(weir_graph_stats_of(weir_step_graph(t.step), &plan));
    close_training(&t);
    if (weir_comm_rank(c) > 0)
        return;
    print_row(sums, "measured", real, NULL);
    print_plan(sums, "plan", &plan, one_ms, &real);
    print_plan(sums, "estimated", &estimated, one_ms, &real);
    print_row(sums, "simulated", simulate(machine, disable), &real);
}

static double measure_alone(weir_device *d, int rounds)
{
    training         t;
    weir_graph_stats estimated;

    open_training(&t, d, NULL, NULL);
    const times one = measure(&t, NULL, rounds, &estimated);
    close_training(&t);
    return one.step;
}

static void rank(const char *spec, int r, int rounds)
{
    weir_device *const d = weir_device_open("cpu", &(weir_device_options){.threads = 1});
    const double       one_ms = d && r == 0 ? measure_alone(d, rounds) : 0;
    weir_comm *const   c = d ? weir_comm_open(spec, d, NULL) : NULL;
    char               machine[160] = "";
    double             constant, per_byte;

    if (!c)
        check(weir_error_status());
    check(weir_comm_measure(c, &constant, &per_byte));
    if (r == 0) {
        name_simulated(machine, sizeof machine, weir_comm_world(c), one_ms, constant, per_byte);
        printf("%d ranks; a sum takes %.1f us + bytes / (%.3f GB/s); one process: %.2f ms a step\n"
               "%s\n\n| sums | | step, ms | wire, ms | waited, ms | step / measured | wire / "
               "measured | waited / measured |\n|---|---|---:|---:|---:|---:|---:|---:|\n",
               weir_comm_world(c), 1e6 * constant, 1e-9 / per_byte, one_ms, machine);
    }
    compare_one(d, c, NULL, one_ms, machine, rounds);
    compare_one(d, c, "overlap", one_ms, machine, rounds);
    weir_comm_close(c);
    weir_device_close(d);
}

int main(int argc, char **argv)
{
    const int ranks = argc > 1 ? atoi(argv[1]) : 2, rounds = argc > 2 ? atoi(argv[2]) : 21;
    int       failed = 0;

    if (ranks < 2 || ranks > 64 || rounds < 1 || rounds > MOST) {
        fprintf(stderr, "prediction: %d ranks (2 to 64), %d rounds (1 to %d)\n", ranks, rounds,
                MOST);
        return 2;
    }
    for (int r = 0; r < ranks; r++) {
        char spec[64];
        snprintf(spec, sizeof spec, "local:prediction-%ld,rank=%d,world=%d", (long)getpid(), r,
                 ranks);
        if (fork() == 0) {
            rank(spec, r, rounds);
            return 0;
        }
    }
    for (int status; wait(&status) > 0;)
        failed |= status != 0;
    return failed;
}
