/* parallel.c - several processes train one network, each with its own part of every batch.
 *
 *   parallel [RANKS]       RANKS processes (default 2) that share the 4 parts of a batch
 *   parallel auto          one of the ranks that `weir launch` or mpirun has started
 *
 * Prints the last loss and a number made of every bit of the parameters. With 4 ranks it is that of
 * one process, which computes the 4 parts one after another and adds up their gradients. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "weir.h"

enum { PARTS = 4, ROWS = 16, STEPS = 60 };

typedef struct job {
    weir_layer  *net;
    weir_optim  *optim;
    weir_tensor *x, *y, *loss;
} job;

/* Which of two numbers is larger: the rows of part `part` in a step. */
static weir_status write_part(const job *j, int step, int part)
{
    uint64_t random = (uint64_t)(step * PARTS + part);
    float    x[ROWS][2];
    int32_t  y[ROWS];

    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < 2; k++)
            x[i][k] = (float)(weir_splitmix64(&random) >> 40) * 0x1p-24f;
        y[i] = x[i][0] < x[i][1];
    }
    WEIR_TRY(weir_write(j->x, x, sizeof x));
    return weir_write(j->y, y, sizeof y);
}

static weir_status add_gradients(void *ctx)
{
    job *const j = ctx;

    j->loss = weir_keep(weir_cross_entropy(weir_apply(j->net, j->x), j->y));
    return weir_optim_accumulate(j->optim, j->loss);
}

static weir_status update(void *ctx)
{
    return weir_optim_apply(((job *)ctx)->optim);
}

/* Rank r computes parts r n to r n + n - 1, n = PARTS / ranks. */
static weir_status train(job *j, weir_device *dev, weir_comm *comm)
{
    const int               n = PARTS / weir_comm_world(comm);
    const weir_step_options graph = {.graph = true};
    weir_step *const        add = weir_step_new(dev, add_gradients, j, &graph);
    weir_step *const        use = weir_step_new(dev, update, j, &graph);
    weir_status             s = add && use ? WEIR_OK : weir_error_status();

    for (int i = 0; i < STEPS && s == WEIR_OK; i++) {
        for (int k = 0; k < n && s == WEIR_OK; k++) {
            s = write_part(j, i, weir_comm_rank(comm) * n + k);
            s = s == WEIR_OK ? weir_step_run(add) : s;
        }
        s = s == WEIR_OK ? weir_step_run(use) : s;
    }
    float loss = 0;
    s = s == WEIR_OK ? weir_read(j->loss, &loss, sizeof loss) : s;
    if (s == WEIR_OK && weir_comm_rank(comm) == 0)
        printf("last loss of rank 0: %.4f\n", (double)loss);
    weir_step_free(add);
    weir_step_free(use);
    return s;
}

/* A number made of all bits of the parameters. */
static weir_status print_bits(const weir_model *model)
{
    uint64_t bits = 0;

    for (size_t i = 0; i < weir_model_param_count(model); i++) {
        float        v[256];
        weir_tensor *t = weir_model_param(model, i);
        WEIR_TRY(weir_read(t, v, weir_tensor_bytes(t)));
        for (size_t k = 0; k < weir_tensor_bytes(t); k++) {
            bits ^= ((const unsigned char *)v)[k];
            bits = weir_splitmix64(&bits);
        }
    }
    printf("bits %016llx\n", (unsigned long long)bits);
    return WEIR_OK;
}

static bool divides_parts(int ranks)
{
    return ranks > 0 && PARTS % ranks == 0;
}

static weir_status wrong_ranks(void)
{
    fprintf(stderr, "parallel: 1, 2 or 4 ranks\n");
    return WEIR_ERR_INVALID;
}

static weir_status rank(const char *spec)
{
    weir_device *dev = weir_device_open("cpu", &(weir_device_options){.threads = 1});
    weir_comm   *comm = weir_comm_open(spec, dev, NULL);

    if (comm && !divides_parts(weir_comm_world(comm))) {
        weir_comm_close(comm);
        weir_device_close(dev);
        return wrong_ranks();
    }
    weir_model  *model = weir_model_new(dev);
    job          j = {.net = weir_mlp_new(model, 3, (int64_t[]){2, 16, 2}),
                      .optim = weir_adam_new(dev, 0.05, NULL),
                      .x = weir_input(dev, weir_2d(WEIR_F32, ROWS, 2)),
                      .y = weir_input(dev, weir_1d(WEIR_I32, ROWS))};
    weir_parallel_options options = {.model = model,
                                     .micro_batches = PARTS / weir_comm_world(comm)};

    weir_status s = weir_data_parallel(j.optim, comm, &options);
    s = s == WEIR_OK ? train(&j, dev, comm) : s;
    if (s == WEIR_OK && weir_comm_rank(comm) == 0)
        s = print_bits(model);
    if (s != WEIR_OK)
        fprintf(stderr, "rank %d: %s\n", weir_comm_rank(comm), weir_error());
    weir_release(j.x);
    weir_release(j.y);
    weir_optim_free(j.optim);
    weir_model_free(model);
    weir_comm_close(comm);
    weir_device_close(dev);
    return s;
}

int main(int argc, char **argv)
{
    const int ranks = argc > 1 ? atoi(argv[1]) : 2, parent = (int)getpid();
    int       failed = 0, status;

    if (argc > 1 && strcmp(argv[1], "auto") == 0)
        return rank("auto") != WEIR_OK;
    if (!divides_parts(ranks)) {
        (void)wrong_ranks();
        return 2;
    }
    for (int r = 0; r < ranks; r++) {
        char spec[64];
        snprintf(spec, sizeof spec, "local:parallel-%d,rank=%d,world=%d", parent, r, ranks);
        if (fork() == 0) {      /* before a device is open: its threads would not be copied */
            const weir_status s = rank(spec);
            fflush(stdout);
            _exit(s != WEIR_OK);
        }
    }
    while (wait(&status) > 0)
        failed += status != 0;
    return failed > 0;
}
