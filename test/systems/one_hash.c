/* one_hash.c - training by drawn numbers of ranks, budgets and buckets: the same bits each time.
 *
 *   one_hash COUNT [SEED [STEPS [MPI ...]]]
 *
 * A step has 8 micro-batches, which one process computes, or 2, 4 or 8 ranks share out. In order
 * tree all of them must end with the same parameters, states of the optimiser, running statistics
 * and loss scale: one hash for each network, whatever the number of ranks, with the graph on or
 * off, within any budget that works, and however gradients are packed; and where all ranks are
 * killed after a checkpoint and others, of another number, go on with it. MPI: openmpi and mpich
 * are drawn, too, beside shared memory; their launchers start this program again, as
 *
 *   one_hash rank FOLDER SPEC KIND RANKS GRAPH BUDGET BUCKET FIRST LAST STEPS */
#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "weir.h"

enum { PARTS = 8, ROWS = 4, SIDE = 8, CLASSES = 10, TOKENS = 8, VOCABULARY = 17 };

static int steps = 3;

typedef enum net { DROPOUT, NORM, GPT, MIXED, NETS } net;

static const char *const net_name[NETS] = {"dropout, clipped", "batch norm, applied twice, Adam",
                                           "GPT, clipped, Adam", "f16, scaler, all of it"};

/* How it is trained, or a part of it. */
typedef struct way {
    net         kind;
    int         ranks;
    bool        graph;
    const char *budget;         /* NULL: none */
    size_t      bucket;
    const char *mpi;            /* NULL: local */
    int         first, last;    /* steps [first, last), after a checkpoint if first > 0; a rank that
                                 * is not to do the last one saves, goes on for a step and dies */
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

static weir_run run_of(const job *j)
{
    return (weir_run){.model = j->m, .optim = j->o, .scaler = j->scaler, .comm = j->c};
}

static weir_status save_and_go_on(const job *j, int step)
{
    weir_run run = run_of(j);

    run.step = step;
    return step == j->w->last && step > 0 ? weir_run_save(&run, "run", NULL) : WEIR_OK;
}

static weir_status load(const job *j)
{
    weir_run run = run_of(j);

    WEIR_TRY(weir_run_load(&run, "run"));
    return run.step == j->w->first ? WEIR_OK : WEIR_ERR_STATE;
}

static weir_status train(job *j)
{
    const weir_step_options options = {.graph = j->w->graph, .plan = {.budget = j->w->budget}};
    const int               own = PARTS / j->w->ranks, first = weir_comm_rank(j->c) * own;
    weir_step *const one = weir_step_new(j->d, own > 1 ? accumulate : minimize, j, &options);
    weir_step *const use = own > 1 ? weir_step_new(j->d, apply, j, &options) : NULL;
    weir_status      s = one && (use || own == 1) ? WEIR_OK : weir_error_status();

    if (j->w->first > 0 && s == WEIR_OK)
        s = load(j);
    for (int step = j->w->first; step < steps && s == WEIR_OK; step++) {
        s = save_and_go_on(j, step);
        if (step > j->w->last)
            raise(SIGKILL);
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

/* Works in a folder, where it leaves its outcome. */
static int rank_main(const way *w, const char *spec, const char *folder)
{
    job     j = {.w = w};
    outcome out = {0};
    char    name[32];

    if (chdir(folder) != 0)
        return 1;
    j.d = weir_device_open("cpu", &(weir_device_options){.threads = 1});
    j.c = weir_comm_open(spec, j.d, &(weir_comm_options){.order = "tree"});
    (void)weir_device_set_random(j.d, (weir_random){.seed = 3 + (uint64_t)weir_comm_rank(j.c)});
    build(&j);
    out.status = j.c ? begin(&j) : weir_error_status();
    out.status = out.status == WEIR_OK ? train(&j) : out.status;
    out.status = out.status == WEIR_OK ? read_bits(&j, &out) : out.status;
    snprintf(out.sentence, sizeof out.sentence, "%s", out.status == WEIR_OK ? "" : weir_error());
    snprintf(name, sizeof name, "outcome.%d", weir_comm_rank(j.c));
    FILE *const f = fopen(name, "wb");
    bool        told = f && fwrite(&out, sizeof out, 1, f) == 1;
    told = f && fclose(f) == 0 && told;
    weir_release(j.x);
    weir_release(j.y);
    weir_optim_free(j.o);
    weir_scaler_free(j.scaler);
    weir_model_free(j.m);
    weir_comm_close(j.c);
    weir_device_close(j.d);
    return !told;
}

/* The rank that the arguments of a launcher's process describe. */
static int launched(char **argv)
{
    const way w = {.kind = (net)atoi(argv[4]), .ranks = atoi(argv[5]), .graph = atoi(argv[6]) != 0,
                   .budget = *argv[7] ? argv[7] : NULL, .bucket = strtoull(argv[8], NULL, 10),
                   .first = atoi(argv[9]), .last = atoi(argv[10])};

    steps = atoi(argv[11]);
    return rank_main(&w, argv[3], argv[2]);
}

/* ---- jobs ---- */

static char folder[64];         /* of checkpoints and outcomes */

static void start_local(const way *w)
{
    static int runs;

    runs++;
    for (int r = 0; r < w->ranks; r++) {
        char spec[96];
        snprintf(spec, sizeof spec, "local:one-hash-%ld-%d,rank=%d,world=%d", (long)getpid(), runs,
                 r, w->ranks);
        if (fork() == 0)
            _exit(rank_main(w, spec, folder));
    }
}

static void start_mpi(const way *w)
{
    char command[1024], self[512] = "";

    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return;
    snprintf(command, sizeof command,
             "exec mpirun.%s %s -n %d %s rank %s auto %d %d %d '%s' %zu %d %d %d >/dev/null 2>&1 "
             "</dev/null", w->mpi,
             strcmp(w->mpi, "openmpi") == 0 ? "--allow-run-as-root --oversubscribe" : "", w->ranks,
             self, folder, (int)w->kind, w->ranks, w->graph, w->budget ? w->budget : "", w->bucket,
             w->first, w->last, steps);
    if (fork() == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
}

/* Reads what rank r has left, and removes it. */
static outcome take_outcome(int r)
{
    outcome one = {.status = WEIR_ERR_IO, .sentence = "a rank has ended"};
    char    path[96];

    snprintf(path, sizeof path, "%s/outcome.%d", folder, r);
    FILE *const f = fopen(path, "rb");
    if (!f || fread(&one, sizeof one, 1, f) != 1)
        one.status = WEIR_ERR_IO;
    if (f)
        fclose(f);
    remove(path);
    return one;
}

/* Runs the ranks; *out is what they agree on. ERR_STATE in it: they differ. */
static void run(const way *w, outcome *out)
{
    if (w->mpi)
        start_mpi(w);
    else
        start_local(w);
    while (wait(NULL) > 0)
        continue;
    for (int r = 0; r < w->ranks; r++) {
        const outcome one = take_outcome(r);
        if (r == 0 || (out->status == WEIR_OK && one.status != WEIR_OK))
            *out = one;
        else if (out->status == WEIR_OK && one.hash != out->hash)
            out->status = WEIR_ERR_STATE;
    }
}

/* Leaves a checkpoint of the first `last` steps of one that was killed. */
static bool leave_checkpoint(const way *w)
{
    outcome none;
    char    path[96];

    snprintf(path, sizeof path, "%s/run", folder);
    remove(path);
    run(w, &none);
    return none.status == WEIR_ERR_IO && access(path, F_OK) == 0;
}

/* The MPIs of the command line. */
static char **mpis;
static int    n_mpis;

static way draw(int i, uint64_t *random)
{
    static const char *const budgets[] = {NULL, "100%", "60%", "40%"};
    way w = {.kind = (net)(i % NETS), .ranks = 1 << weir_splitmix64(random) % 4,
             .graph = weir_splitmix64(random) % 4 != 0,
             .bucket = (size_t)1 << weir_splitmix64(random) % 18, .last = steps};

    w.budget = budgets[weir_splitmix64(random) % 4];
    if (!w.graph)
        w.budget = NULL;
    const uint64_t engine = weir_splitmix64(random) % (uint64_t)(n_mpis + 1);
    w.mpi = engine > 0 ? mpis[engine - 1] : NULL;
    return w;
}

/* Of every second way, another number of ranks that begins it; 0: none. */
static int draw_earlier(int i, const way *w, uint64_t *random)
{
    const int other = 1 << weir_splitmix64(random) % 4;

    if (i / NETS % 2 == 0)
        return 0;
    return other != w->ranks ? other : w->ranks == 8 ? 2 : 2 * w->ranks;
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

static void remove_folder(void)
{
    DIR *const at = opendir(folder);

    for (const struct dirent *e; at && (e = readdir(at));) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        remove(path);
    }
    if (at)
        closedir(at);
    rmdir(folder);
}

/* Runs a drawn way, the first half of it by `earlier` ranks if not 0. */
static void run_drawn(way *w, int earlier, char bytes[32], outcome *out)
{
    way before = *w;

    before.ranks = earlier;
    before.budget = NULL;
    before.last = (steps - 1) / 2;
    if (earlier > 0)
        w->first = before.last;
    if (earlier > 0 && !leave_checkpoint(&before))
        *out = (outcome){.status = WEIR_ERR_IO, .sentence = "no checkpoint was left"};
    else
        run_within(w, bytes, out);
}

int main(int argc, char **argv)
{
    outcome want[NETS];
    int     bad = 0;

    if (argc == 12 && strcmp(argv[1], "rank") == 0)
        return launched(argv);
    if (argc < 2)
        return fprintf(stderr, "usage: one_hash COUNT [SEED [STEPS [MPI ...]]]\n"), 2;
    const int count = atoi(argv[1]);
    steps = argc > 3 ? atoi(argv[3]) : steps;
    mpis = argv + 4;
    n_mpis = argc > 4 ? argc - 4 : 0;
    uint64_t  random = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    snprintf(folder, sizeof folder, "/tmp/weir-one-hash-%ld", (long)getpid());
    if (steps < 3 || mkdir(folder, 0700) != 0)
        return fprintf(stderr, "one_hash: %d steps (at least 3), folder %s\n", steps, folder), 2;

    for (int k = 0; k < NETS; k++) {
        run(&(way){.kind = (net)k, .ranks = 1, .graph = true, .last = steps}, &want[k]);
        printf("%s: %016" PRIx64 ", %g steps skipped %s\n", net_name[k], want[k].hash,
               want[k].skipped, want[k].sentence);
        bad += want[k].status != WEIR_OK || (k == MIXED && want[k].skipped == 0);
    }
    for (int i = 0; i < count; i++) {
        way       w = draw(i, &random);
        const int earlier = draw_earlier(i, &w, &random);
        char      bytes[32], begun[40] = "";
        outcome   out;
        run_drawn(&w, earlier, bytes, &out);
        if (earlier > 0)
            snprintf(begun, sizeof begun, ", begun by %d and killed", earlier);
        const bool good = out.status == WEIR_OK && out.hash == want[w.kind].hash;
        bad += !good;
        printf("%s: %s, %d x %d%s, graph %s, budget %s, buckets of %zu bytes, %s: %016" PRIx64
               " %s\n", good ? "ok" : "FAILED", w.mpi ? w.mpi : "local", w.ranks, PARTS / w.ranks,
               begun,
               w.graph ? "on" : "off", w.budget ? w.budget : "none", w.bucket, net_name[w.kind],
               out.hash, out.sentence);
        fflush(stdout);
    }
    remove_folder();
    printf("one_hash: %d passed, %d failed\n", count + NETS - bad, bad);
    return bad > 0;
}
