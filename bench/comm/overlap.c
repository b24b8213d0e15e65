/* overlap.c - a step of data parallelism whose sums go on beside computing, and one that waits for
 * each sum where it stands.
 *
 * `overlap [RANKS [ROUNDS [SPEC]]]`: that many processes (2) train a perceptron of 784-1024-1024-
 * 1024-10, batch 64 and one thread each, over local: or (SPEC auto) as ranks of weir launch or
 * mpirun. Both plans have a model of their own and take turns, ROUNDS (15) times. Rank 0 prints
 * medians of a step: its time; that in which a collective was under way, in the plan that waits;
 * that in which the rank waited for one; and the planned peak. The bits of both must be equal.
 * Build: `cmake --build build --target overlap`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "timing.h"
#include "weir.h"

enum { BATCH = 64, IN = 784, WIDE = 1024, OUT = 10, WARM = 3, MOST = 1000 };

/* A model with one of the plans, and what its steps took. */
typedef struct one {
    weir_model  *model;
    weir_layer  *net;
    weir_optim  *optim;
    weir_tensor *x, *y;
    weir_step   *step;
    weir_graph_stats planned;
    double       ms[MOST], wire[MOST], waited[MOST];
} one;

static void check(weir_status s)
{
    if (s != WEIR_OK) {
        fprintf(stderr, "overlap: %s\n", weir_error());
        exit(1);
    }
}

static weir_status minimize(void *ctx)
{
    one *const o = ctx;

    return weir_minimize(o->optim, weir_cross_entropy(weir_apply(o->net, o->x), o->y));
}

static void open_one(one *o, weir_device *d, weir_comm *c, const char *disable)
{
    const weir_step_options how = {.graph = true, .plan = {.disable = disable}};

    memset(o, 0, sizeof *o);
    check(weir_device_set_random(d, (weir_random){.seed = 1}));
    o->model = weir_model_new(d);
    o->net = weir_mlp_new(o->model, 5, (int64_t[]){IN, WIDE, WIDE, WIDE, OUT});
    o->optim = weir_sgd_new(d, 0.01, &(weir_sgd_options){.momentum = 0.9});
    o->x = weir_input(d, weir_2d(WEIR_F32, BATCH, IN));
    o->y = weir_input(d, weir_1d(WEIR_I32, BATCH));
    o->step = weir_step_new(d, minimize, o, &how);
    if (!o->net || !o->optim || !o->x || !o->y || !o->step)
        check(weir_error_status());
    check(weir_data_parallel(o->optim, c, &(weir_parallel_options){.model = o->model}));
}

static void close_one(one *o)
{
    weir_step_free(o->step);
    weir_release(o->x);
    weir_release(o->y);
    weir_optim_free(o->optim);
    weir_model_free(o->model);
}

static void write_batch(const one *o, uint64_t number)
{
    static float x[BATCH * IN];
    int32_t      y[BATCH];

    for (int i = 0; i < BATCH * IN; i++)
        x[i] = (float)(weir_splitmix64(&number) >> 40) * 0x1p-24f;
    for (int i = 0; i < BATCH; i++)
        y[i] = (int32_t)(weir_splitmix64(&number) % OUT);
    check(weir_write(o->x, x, sizeof x));
    check(weir_write(o->y, y, sizeof y));
}

static void run_one(one *o, const weir_comm *c, int round)
{
    weir_comm_stats before, after;

    write_batch(o, (uint64_t)(round * weir_comm_world(c) + weir_comm_rank(c)));
    check(weir_comm_stats_of(c, &before));
    const double begin = now_ms();
    check(weir_step_run(o->step));
    const int at = round < WARM ? 0 : round - WARM;
    o->ms[at] = now_ms() - begin;
    check(weir_comm_stats_of(c, &after));
    o->wire[at] = after.wire_ms - before.wire_ms;
    o->waited[at] = after.waited_ms - before.waited_ms;
}

static bool same_bits(const one *a, const one *b)
{
    bool same = true;

    for (size_t i = 0; i < weir_model_param_count(a->model); i++) {
        weir_tensor *const s = weir_model_param(a->model, i), *t = weir_model_param(b->model, i);
        const size_t       bytes = weir_tensor_bytes(s);
        char *const        x = malloc(2 * bytes);
        if (!x)
            exit(1);
        check(weir_read(s, x, bytes));
        check(weir_read(t, x + bytes, bytes));
        same &= memcmp(x, x + bytes, bytes) == 0;
        free(x);
    }
    return same;
}

static void print_one(const char *name, one *o, int rounds)
{
    const double ms = median(o->ms, rounds), waited = median(o->waited, rounds);

    printf("| %s | %.1f | %.1f | %.1f | %.2f |\n", name, ms, median(o->wire, rounds), waited,
           (double)o->planned.planned_peak_bytes / 1e6);
}

static void print_table(one *beside, one *alone, int rounds)
{
    double ratio[MOST];

    for (int i = 0; i < rounds; i++)
        ratio[i] = beside->ms[i] / alone->ms[i];
    const double paired = median(ratio, rounds);
    printf("| sums | step, ms | a collective under way, ms | waited, ms | planned peak, MB |\n"
           "|---|---:|---:|---:|---:|\n");
    print_one("beside computing", beside, rounds);
    print_one("waited for at once", alone, rounds);
    printf("\nstep beside / at once: %.2f (median of %d pairs); bits %s\n", paired, rounds,
           same_bits(beside, alone) ? "equal" : "DIFFER");
}

/* Runs both in turn; rank 0 prints. */
static void train(weir_device *d, weir_comm *c, int rounds)
{
    static one beside, alone;

    open_one(&beside, d, c, NULL);
    open_one(&alone, d, c, "overlap");
    for (int i = 0; i < WARM + rounds; i++) {
        run_one(i % 2 ? &alone : &beside, c, i);
        run_one(i % 2 ? &beside : &alone, c, i);
    }
    check(weir_graph_stats_of(weir_step_graph(beside.step), &beside.planned));
    check(weir_graph_stats_of(weir_step_graph(alone.step), &alone.planned));
    if (weir_comm_rank(c) == 0)
        print_table(&beside, &alone, rounds);
    close_one(&beside);
    close_one(&alone);
}

static void rank(const char *spec, int rounds)
{
    weir_device *const d = weir_device_open("cpu", &(weir_device_options){.threads = 1});
    weir_comm *const   c = d ? weir_comm_open(spec, d, NULL) : NULL;

    if (!c)
        check(weir_error_status());
    train(d, c, rounds);
    weir_comm_close(c);
    weir_device_close(d);
}

int main(int argc, char **argv)
{
    const int         ranks = argc > 1 ? atoi(argv[1]) : 2, rounds = argc > 2 ? atoi(argv[2]) : 15;
    const char *const given = argc > 3 ? argv[3] : NULL;
    int               failed = 0;

    if (ranks < 1 || ranks > 64 || rounds < 1 || rounds > MOST) {
        fprintf(stderr, "overlap: %d ranks, %d rounds (at most 64, %d)\n", ranks, rounds, MOST);
        return 2;
    }
    for (int r = 0; r < ranks && !given; r++) {
        char spec[64];
        snprintf(spec, sizeof spec, "local:overlap-%ld,rank=%d,world=%d", (long)getpid(), r, ranks);
        if (fork() == 0) {
            rank(spec, rounds);
            return 0;
        }
    }
    if (given)
        rank(given, rounds);
    for (int status; !given && wait(&status) > 0;)
        failed |= status != 0;
    return failed;
}
