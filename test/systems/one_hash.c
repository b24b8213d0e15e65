/* one_hash.c - training by drawn numbers of ranks, budgets and buckets: the same bits each time.
 *
 *   one_hash COUNT [SEED [STEPS]]
 *
 * A step has 8 micro-batches, which one process computes, or 2, 4 or 8 ranks share out. In order
 * tree all of them must end with the same parameters, states of the optimiser, running statistics
 * and loss scale: one hash for each network, whatever the number of ranks, with the graph on or
 * off, within any budget that works, and however gradients are packed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "weir.h"

enum { PARTS = 8, ROWS = 4, SIDE = 8, CLASSES = 10, TOKENS = 8, VOCABULARY = 17 };

static int steps = 3;

typedef enum net { DROPOUT, NORM, GPT, MIXED, NETS } net;

static const char *const net_name[NETS] = {"dropout, clipped", "batch norm, applied twice, Adam",
                                           "GPT, clipped, Adam", "f16, scaler, all of it"};

/* How it is trained. */
typedef struct way {
    net         kind;
    int         ranks;
    bool        graph;
    const char *budget;         /* NULL: none */
    size_t      bucket;
} way;

/* What a rank tells its parent. */
typedef struct outcome {
    weir_status status;
    uint64_t    hash;
    double      skipped;        /* steps, by the scaler */
    char        sentence[300];
} outcome;

typedef struct job {
    const way   *w;
    weir_device *d;
    weir_comm   *c;
    weir_model  *m;
    weir_layer  *a, *norm, *dropout, *b;
    weir_optim  *o;
    weir_scaler *scaler;
    weir_tensor *x, *y;
} job;

/* ---- the network ---- */

static bool is_text(const job *j)
{
    return j->w->kind == GPT;
}

static void build(job *j)
{
    const net kind = j->w->kind;

    j->m = weir_model_new(j->d);
    if (is_text(j)) {
        j->a = weir_gpt_new(j->m, VOCABULARY, TOKENS, 16, 2, 2);
        j->dropout = weir_dropout_new(j->m, 0.1);
        j->x = weir_input(j->d, weir_2d(WEIR_I32, ROWS, TOKENS));
        j->y = weir_input(j->d, weir_1d(WEIR_I32, ROWS * TOKENS));
    } else {
        j->a = weir_conv2d_new(j->m, "conv", 1, 8, 3, NULL, true);
        j->norm = kind == DROPOUT ? NULL : weir_batch_norm_new(j->m, "norm", 8);
        j->dropout = kind == NORM ? NULL : weir_dropout_new(j->m, 0.25);
        j->b = weir_linear_new(j->m, "linear", 8 * (SIDE - 2) * (SIDE - 2), CLASSES, true);
        j->x = weir_input(j->d, weir_4d(WEIR_F32, ROWS, 1, SIDE, SIDE));
        j->y = weir_input(j->d, weir_1d(WEIR_I32, ROWS));
    }
    j->o = kind == DROPOUT ? weir_sgd_new(j->d, 0.05, &(weir_sgd_options){.momentum = 0.9})
                           : weir_adam_new(j->d, 0.01, NULL);
}

static weir_tensor *logits(const job *j)
{
    weir_tensor *x = weir_apply(j->a, j->x);

    if (j->norm)
        x = weir_apply(j->norm, weir_relu(weir_apply(j->norm, x)));
    if (j->dropout)
        x = weir_apply(j->dropout, x);
    return is_text(j) ? x : weir_apply(j->b, weir_flatten(x));
}

/* The data of one micro-batch of the second step overflow in f16. */
static weir_status write_part(const job *j, int step, int part)
{
    uint64_t random = (uint64_t)(step * PARTS + part) + 77;
    float    x[ROWS * SIDE * SIDE];
    int32_t  tokens[ROWS * TOKENS], y[ROWS * TOKENS];
    const int n = is_text(j) ? ROWS * TOKENS : ROWS;
    const float most = j->w->kind == MIXED && step == 1 && part == 5 ? 60000 : 1;

    for (int i = 0; i < n; i++) {
        tokens[i] = (int32_t)(weir_splitmix64(&random) % VOCABULARY);
        y[i] = (int32_t)(weir_splitmix64(&random) % CLASSES);
    }
    for (int i = 0; i < ROWS * SIDE * SIDE; i++)
        x[i] = (float)(weir_splitmix64(&random) >> 40) * 0x1p-24f * most;
    WEIR_TRY(is_text(j) ? weir_write(j->x, tokens, sizeof tokens) : weir_write(j->x, x, sizeof x));
    return weir_write(j->y, y, (size_t)n * sizeof *y);
}

/* ---- a rank ---- */

static weir_status accumulate(void *ctx)
{
    const job *const j = ctx;

    return weir_optim_accumulate(j->o, weir_cross_entropy(logits(j), j->y));
}

static weir_status minimize(void *ctx)
{
    const job *const j = ctx;

    return weir_minimize(j->o, weir_cross_entropy(logits(j), j->y));
}

static weir_status apply(void *ctx)
{
    return weir_optim_apply(((const job *)ctx)->o);
}

static weir_status begin(job *j)
{
    const weir_parallel_options options = {.micro_batches = PARTS / j->w->ranks,
                                           .bucket = j->w->bucket, .model = j->m};

    if (j->w->kind != NORM)
        WEIR_TRY(weir_optim_set_clip_norm(j->o, 0.5));
    if (j->w->kind == MIXED) {
        j->scaler = weir_scaler_new(j->d, &(weir_scaler_options){.scale = 256, .interval = 2});
        WEIR_TRY(weir_model_set_precision(j->m, WEIR_F16));
        WEIR_TRY(weir_optim_set_scaler(j->o, j->scaler));
    }
    return weir_data_parallel(j->o, j->c, &options);
}

static weir_status train(job *j)
{
    const weir_step_options options = {.graph = j->w->graph, .plan = {.budget = j->w->budget}};
    const int               own = PARTS / j->w->ranks, first = weir_comm_rank(j->c) * own;
    weir_step *const one = weir_step_new(j->d, own > 1 ? accumulate : minimize, j, &options);
    weir_step *const use = own > 1 ? weir_step_new(j->d, apply, j, &options) : NULL;
    weir_status      s = one && (use || own == 1) ? WEIR_OK : weir_error_status();

    for (int step = 0; step < steps && s == WEIR_OK; step++) {
        for (int i = 0; i < own && s == WEIR_OK; i++) {
            s = write_part(j, step, first + i);
            s = s == WEIR_OK ? weir_step_run(one) : s;
        }
        s = s == WEIR_OK && use ? weir_step_run(use) : s;
    }
    weir_step_free(one);
    weir_step_free(use);
    return s;
}

/* Adds a hash of name and elements, so that the order of tensors does not matter. */
static weir_status add_bits(weir_tensor *t, uint64_t *hash)
{
    const char *const name = weir_tensor_name(t), *const last = strrchr(name, '.');
    const size_t      bytes = weir_tensor_bytes(t);
    uint64_t          h = 0;

    if (last && (strcmp(last, ".sum") == 0 || strcmp(last, ".summed") == 0))
        return WEIR_OK;         /* zero between steps; each number of ranks has others */
    unsigned char *const data = malloc(bytes + 1);
    if (!data)
        return WEIR_ERR_NOMEM;
    const weir_status s = weir_read(t, data, bytes);
    for (const char *c = name; *c; c++)
        h = (h ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    for (size_t i = 0; i < bytes && s == WEIR_OK; i++) {
        h ^= data[i];
        h = weir_splitmix64(&h);
    }
    free(data);
    *hash += h;
    return s;
}

static weir_status read_bits(const job *j, outcome *out)
{
    for (size_t i = 0; i < weir_model_param_count(j->m); i++)
        WEIR_TRY(add_bits(weir_model_param(j->m, i), &out->hash));
    for (size_t i = 0; i < weir_model_state_count(j->m); i++)
        WEIR_TRY(add_bits(weir_model_state(j->m, i), &out->hash));
    for (size_t i = 0; i < weir_optim_state_count(j->o); i++)
        WEIR_TRY(add_bits(weir_optim_state(j->o, i), &out->hash));
    for (size_t i = 0; i < weir_scaler_state_count(j->scaler); i++)
        WEIR_TRY(add_bits(weir_scaler_state(j->scaler, i), &out->hash));
    return j->scaler ? weir_read(weir_scaler_state(j->scaler, 2), &out->skipped,
                                 sizeof out->skipped)
                     : WEIR_OK;
}

static void rank_main(const way *w, const char *name, int rank, int to_parent)
{
    job     j = {.w = w};
    outcome out = {0};
    char    spec[96];

    snprintf(spec, sizeof spec, "local:%s,rank=%d,world=%d", name, rank, w->ranks);
    j.d = weir_device_open("cpu", &(weir_device_options){.threads = 1,
                                                         .seed = 3 + (uint64_t)rank});
    j.c = weir_comm_open(spec, j.d, &(weir_comm_options){.order = "tree"});
    build(&j);
    out.status = j.c ? begin(&j) : weir_error_status();
    out.status = out.status == WEIR_OK ? train(&j) : out.status;
    out.status = out.status == WEIR_OK ? read_bits(&j, &out) : out.status;
    snprintf(out.sentence, sizeof out.sentence, "%s", out.status == WEIR_OK ? "" : weir_error());
    weir_release(j.x);
    weir_release(j.y);
    weir_optim_free(j.o);
    weir_scaler_free(j.scaler);
    weir_model_free(j.m);
    weir_comm_close(j.c);
    weir_device_close(j.d);
    const bool told = write(to_parent, &out, sizeof out) == sizeof out;
    _exit(!told);
}

/* ---- jobs ---- */

/* Runs the ranks; *out is what they agree on. ERR_STATE in it: they differ. */
static void run(const way *w, outcome *out)
{
    static int runs;
    char       name[64];
    int        ends[2];

    snprintf(name, sizeof name, "one-hash-%ld-%d", (long)getpid(), runs++);
    *out = (outcome){.status = WEIR_ERR_IO};
    if (pipe(ends) != 0)
        return;
    for (int r = 0; r < w->ranks; r++)
        if (fork() == 0)
            rank_main(w, name, r, ends[1]);
    close(ends[1]);
    for (int r = 0; r < w->ranks; r++) {
        outcome one = {.status = WEIR_ERR_IO};
        if (read(ends[0], &one, sizeof one) != sizeof one)
            snprintf(one.sentence, sizeof one.sentence, "a rank has ended");
        if (r == 0 || (out->status == WEIR_OK && one.status != WEIR_OK))
            *out = one;
        else if (out->status == WEIR_OK && one.hash != out->hash)
            out->status = WEIR_ERR_STATE;
    }
    close(ends[0]);
    while (wait(NULL) > 0)
        continue;
}

static way draw(int i, uint64_t *random)
{
    static const char *const budgets[] = {NULL, "100%", "60%", "40%"};
    way w = {.kind = (net)(i % NETS), .ranks = 1 << weir_splitmix64(random) % 4,
             .graph = weir_splitmix64(random) % 4 != 0,
             .bucket = (size_t)1 << weir_splitmix64(random) % 18};

    w.budget = budgets[weir_splitmix64(random) % 4];
    if (!w.graph)
        w.budget = NULL;
    return w;
}

/* The bytes that the sentence about a budget that is too small asks for; 0: it is about something
 * else. */
static uint64_t smallest_of(const outcome *out)
{
    static const char words[] = "the smallest that works is ";
    const char *const at = out->status != WEIR_OK ? strstr(out->sentence, words) : NULL;

    return at ? strtoull(at + sizeof words - 1, NULL, 10) : 0;
}

/* Runs the ranks. Where no plan meets a drawn budget, within the smallest that one meets: of the
 * graph that accumulates, then of the one that applies. */
static void run_within(way *w, char bytes[32], outcome *out)
{
    run(w, out);
    for (int i = 0; i < 2 && smallest_of(out) > 0; i++) {
        snprintf(bytes, 32, "%" PRIu64, smallest_of(out));
        w->budget = bytes;
        run(w, out);
    }
}

int main(int argc, char **argv)
{
    outcome want[NETS];
    int     bad = 0;

    if (argc < 2 || argc > 4)
        return fprintf(stderr, "usage: one_hash COUNT [SEED [STEPS]]\n"), 2;
    const int count = atoi(argv[1]);
    steps = argc > 3 ? atoi(argv[3]) : steps;
    uint64_t  random = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

    for (int k = 0; k < NETS; k++) {
        run(&(way){.kind = (net)k, .ranks = 1, .graph = true}, &want[k]);
        printf("%s: %016" PRIx64 ", %g steps skipped %s\n", net_name[k], want[k].hash,
               want[k].skipped, want[k].sentence);
        bad += want[k].status != WEIR_OK || (k == MIXED && want[k].skipped == 0);
    }
    for (int i = 0; i < count; i++) {
        way     w = draw(i, &random);
        char    bytes[32];
        outcome out;
        run_within(&w, bytes, &out);
        const bool good = out.status == WEIR_OK && out.hash == want[w.kind].hash;
        bad += !good;
        printf("%s: %d x %d, graph %s, budget %s, buckets of %zu bytes, %s: %016" PRIx64 " %s\n",
               good ? "ok" : "FAILED", w.ranks, PARTS / w.ranks,
               w.graph ? "on" : "off", w.budget ? w.budget : "none", w.bucket, net_name[w.kind],
               out.hash, out.sentence);
        fflush(stdout);
    }
    printf("one_hash: %d passed, %d failed\n", count + NETS - bad, bad);
    return bad > 0;
}
