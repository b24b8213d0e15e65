/* mpi_job.c - one process of a job that mpi.sh starts under an MPI launcher.
 *
 *   mpi_job bits           trains; rank 0 prints a number made of all bits of the parameters
 *   mpi_job late RANK      RANK comes to the second sum after the timeout; all print their failure
 *   mpi_job kind RANK      RANK gathers where all others sum; all print their failure
 *   mpi_job engine         MPI sums, in a graph and at once; rank 0 prints "sums right"
 *   mpi_job alone          opens no communicator that sends: prints the number of ranks */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "weir.h"

enum { N = 30000, ROWS = 8, PARTS = 4, STEPS = 3, TIMEOUT_MS = 1000 };

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, weir_error());
    return 1;
}

static weir_status write_part(weir_tensor *x, weir_tensor *y, int step, int part)
{
    static float data[ROWS * 28 * 28];
    int32_t      label[ROWS];
    uint64_t     random = (uint64_t)(step * PARTS + part);

    for (int i = 0; i < ROWS * 28 * 28; i++)
        data[i] = (float)(weir_splitmix64(&random) >> 40) * 0x1p-24f;
    for (int i = 0; i < ROWS; i++)
        label[i] = (int32_t)(weir_splitmix64(&random) % 10);
    WEIR_TRY(weir_write(x, data, sizeof data));
    return weir_write(y, label, sizeof label);
}

static weir_status print_bits(const weir_model *model)
{
    uint64_t bits = 0;

    for (size_t i = 0; i < weir_model_param_count(model); i++) {
        weir_tensor *const t = weir_model_param(model, i);
        const size_t       bytes = weir_tensor_bytes(t);
        unsigned char     *v = malloc(bytes);
        WEIR_TRY(weir_read(t, v, bytes));
        for (size_t k = 0; k < bytes; k++) {
            bits ^= v[k];
            bits = weir_splitmix64(&bits);
        }
        free(v);
    }
    printf("bits %016llx\n", (unsigned long long)bits);
    return WEIR_OK;
}

typedef struct job {
    weir_layer  *net;
    weir_optim  *optim;
    weir_tensor *x, *y;
} job;

static weir_status add(void *ctx)
{
    const job *const j = ctx;

    return weir_optim_accumulate(j->optim, weir_cross_entropy(weir_apply(j->net, j->x), j->y));
}

static weir_status update(void *ctx)
{
    return weir_optim_apply(((const job *)ctx)->optim);
}

/* LeNet; the ranks share PARTS micro-batches. */
static weir_status train(weir_device *d, weir_comm *c)
{
    const int   n = PARTS / weir_comm_world(c);
    weir_model *m = weir_model_new(d);
    job j = {weir_lenet_new(m, 10), weir_adam_new(d, 0.01, NULL),
             weir_input(d, weir_4d(WEIR_F32, ROWS, 1, 28, 28)),
             weir_input(d, weir_1d(WEIR_I32, ROWS))};
    weir_step *const one = weir_step_new(d, add, &j, &(weir_step_options){.graph = true});
    weir_step *const use = weir_step_new(d, update, &j, &(weir_step_options){.graph = true});

    weir_status s = weir_data_parallel(
        j.optim, c, &(weir_parallel_options){.micro_batches = n, .model = m});
    for (int i = 0; i < STEPS && s == WEIR_OK; i++) {
        for (int k = 0; k < n && s == WEIR_OK; k++) {
            s = write_part(j.x, j.y, i, weir_comm_rank(c) * n + k);
            s = s == WEIR_OK ? weir_step_run(one) : s;
        }
        s = s == WEIR_OK ? weir_step_run(use) : s;
    }
    if (s == WEIR_OK && weir_comm_rank(c) == 0)
        s = print_bits(m);
    weir_step_free(one);
    weir_step_free(use);
    weir_release(j.x);
    weir_release(j.y);
    weir_optim_free(j.optim);
    weir_model_free(m);
    return s;
}

/* The second sum fails on every rank, or the first where the news overtakes it; each says why. */
static weir_status fail_once(weir_device *d, weir_comm *c, bool late, int culprit)
{
    weir_tensor *const x = weir_param(d, weir_1d(WEIR_F32, N), "x");
    const bool         mine = weir_comm_rank(c) == culprit;

    WEIR_TRY(weir_write_fill(x, 1));
    WEIR_TRY(weir_scope_begin(d));
    weir_tensor *sum = weir_all_reduce(c, x);
    if (sum && mine && late)
        usleep(1500 * TIMEOUT_MS);
    if (sum)
        sum = mine && !late ? weir_all_gather(c, x) : weir_all_reduce(c, x);
    if (!sum)
        printf("rank %d: %s\n", weir_comm_rank(c), weir_error());
    fflush(stdout);
    WEIR_TRY(weir_scope_end(d));
    weir_release(x);
    return WEIR_OK;
}

/* The sum over ranks of rank + i / 8, exact in f32; halves are summed here. */
static bool is_right(weir_tensor *sum, int world)
{
    static float v[N];

    if (weir_read(sum, v, sizeof v) != WEIR_OK)
        return false;
    for (int i = 0; i < N; i++)
        if (v[i] != (float)(world * (world - 1)) / 2 + (float)(world * (i % 64)) / 8)
            return false;
    return true;
}

static weir_status sum_by_engine(weir_device *d, weir_comm *c)
{
    static float       v[N];
    weir_tensor *const x = weir_input(d, weir_1d(WEIR_F32, N));
    weir_graph *const  g = weir_graph_begin(d);
    weir_tensor *const y = weir_keep(weir_all_reduce(c, x));
    weir_tensor *const z = weir_keep(weir_cast(weir_all_reduce(c, weir_cast(x, WEIR_BF16)),
                                               WEIR_F32));

    for (int i = 0; i < N; i++)
        v[i] = (float)weir_comm_rank(c) + (float)(i % 64) / 8;
    WEIR_TRY(weir_graph_end(g, NULL));
    WEIR_TRY(weir_write(x, v, sizeof v));
    for (int i = 0; i < STEPS; i++)
        WEIR_TRY(weir_graph_run(g));
    WEIR_TRY(weir_scope_begin(d));
    const bool right = is_right(y, weir_comm_world(c)) && is_right(z, weir_comm_world(c)) &&
                       is_right(weir_all_reduce(c, x), weir_comm_world(c));
    WEIR_TRY(weir_scope_end(d));
    if (weir_comm_rank(c) == 0)
        printf("sums %s\n", right ? "right" : "wrong");
    weir_graph_free(g);
    weir_release(x);
    return WEIR_OK;
}

int main(int argc, char **argv)
{
    const char *const way = argc > 1 ? argv[1] : "";
    const bool        breaks = strcmp(way, "late") == 0 || strcmp(way, "kind") == 0;
    const bool        engine = strcmp(way, "engine") == 0;
    weir_device *d = weir_device_open("cpu", &(weir_device_options){.threads = 1});
    weir_comm   *c = weir_comm_open("auto", d, &(weir_comm_options){
                                        .timeout_s = breaks ? 1e-3 * TIMEOUT_MS : 60,
                                        .order = engine ? "engine" : NULL});

    if (!c)
        return failed("open");
    if (strcmp(way, "alone") == 0)
        printf("ranks %d\n", weir_comm_world(c));
    else if ((engine ? sum_by_engine(d, c)
              : breaks ? fail_once(d, c, way[0] == 'l', argc > 2 ? atoi(argv[2]) : 0)
                     : train(d, c)) != WEIR_OK)
        return failed(way);
    weir_comm_close(c);
    weir_device_close(d);
    return 0;
}
