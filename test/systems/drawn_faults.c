/* drawn_faults.c - jobs of three ranks, each with one fault at a drawn moment.
 *
 *   drawn_faults COUNT [SEED]
 *
 * Ranks train and save a checkpoint after each step. One of them is killed, exits, is stopped,
 * sleeps in a callback, records another graph, has a budget that is too small, or a full disk.
 * Every rank that lives must get an error that names it, within the timeout and 5 seconds, and the
 * last checkpoint that any rank has reported must load. */
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "weir.h"

enum { RANKS = 3, ROWS = 8, WIDTH = 32, LAST_MOMENT_US = 30000, START_LIMIT_S = 120 };

static const double timeout_s = 1, grace_s = 5;

typedef enum fault_kind { KILLED, EXITS, STOPPED, SLEEPS, GRAPH, BUDGET, FULL, KINDS } fault_kind;

static const char *const kind_name[KINDS] = {
    "SIGKILL", "_exit", "SIGSTOP", "sleep in a callback", "another graph", "another budget",
    "full disk in a checkpoint"};

/* What a rank tells the parent, in one write. */
typedef enum told { FAULT, SAVED, ENDED } told;

typedef struct report {
    told        what;
    int         rank;
    int64_t     step;
    weir_status status;
    char        sentence[700];
} report;

/* One job. */
typedef struct draw {
    fault_kind kind;
    int        culprit;
    int64_t    step;            /* of the fault, */
    long       after_us;        /* and for signals the time since that step began */
    char       path[256], name[64];
    int        to_parent;
} draw;

/* A rank. */
typedef struct job {
    const draw  *w;
    int          rank;
    weir_device *d;
    weir_comm   *c;
    weir_layer  *first, *second;
    weir_optim  *optim;
    weir_tensor *x;
    weir_run     run;
    bool         sleeps;        /* the next callback does */
} job;

static draw now;                /* for the signal handler */

static void tell(const draw *w, told what, int rank, int64_t step, weir_status status)
{
    report r = {.what = what, .rank = rank, .step = step, .status = status};

    if (status != WEIR_OK)
        snprintf(r.sentence, sizeof r.sentence, "%s", weir_error());
    if (write(w->to_parent, &r, sizeof r) != (ssize_t)sizeof r)
        _exit(9);
}

/* ---- faults ---- */

static void on_alarm(int number)
{
    const report r = {.what = FAULT, .rank = now.culprit};

    (void)number;
    if (write(now.to_parent, &r, sizeof r) != (ssize_t)sizeof r || now.kind == EXITS)
        _exit(3);
    raise(now.kind == KILLED ? SIGKILL : SIGSTOP);
}

static bool is_fault(const job *j, fault_kind kind)
{
    return j->w->kind == kind && j->rank == j->w->culprit && j->run.step == j->w->step;
}

/* What the fault changes before the step. */
static void prepare_fault(job *j)
{
    const struct itimerval t = {.it_value = {.tv_usec = j->w->after_us + 1}};

    if (is_fault(j, KILLED) || is_fault(j, EXITS) || is_fault(j, STOPPED)) {
        signal(SIGALRM, on_alarm);
        setitimer(ITIMER_REAL, &t, NULL);
    }
    if (is_fault(j, SLEEPS))
        j->sleeps = true;
    if (is_fault(j, GRAPH) || is_fault(j, BUDGET))
        tell(j->w, FAULT, j->rank, j->run.step, WEIR_OK);
}

static weir_status same(void *ctx, const weir_host_in *x, const weir_host_out *y)
{
    job *const   j = ctx;
    const double seconds = timeout_s + 2;

    if (j->sleeps) {
        j->sleeps = false;
        tell(j->w, FAULT, j->rank, j->run.step, WEIR_OK);
        nanosleep(&(struct timespec){.tv_sec = (time_t)seconds}, NULL);
    }
    memcpy(y->data, x->data, ROWS * WIDTH * sizeof(float));
    return WEIR_OK;
}

static weir_status same_back(void *ctx, const weir_host_in *x, const weir_host_in *y,
                             const weir_host_in *dy, const weir_host_out *dx)
{
    (void)ctx, (void)x, (void)y;
    memcpy(dx->data, dy->data, ROWS * WIDTH * sizeof(float));
    return WEIR_OK;
}

static const weir_callback_def loader = {.name = "loader", .forward = same, .backward = same_back};

/* ---- a rank ---- */

static weir_status record(job *j, weir_graph **g)
{
    const weir_desc desc = weir_2d(WEIR_F32, ROWS, WIDTH);
    weir_tensor    *h, *y;

    if (!(*g = weir_graph_begin(j->d)))
        return weir_error_status();
    h = weir_apply(j->first, j->x);
    h = is_fault(j, GRAPH) ? weir_relu(h) : weir_tanh(h);
    WEIR_TRY(weir_callback(&loader, j, 1, &h, 1, &desc, &y));
    WEIR_TRY(weir_minimize(j->optim, weir_sum(weir_square(weir_apply(j->second, y)), 0, false)));
    return weir_graph_end(*g, &(weir_plan_options){.budget = is_fault(j, BUDGET) ? "64" : NULL});
}

static weir_status save(job *j)
{
    const struct rlimit none = {0, RLIM_INFINITY}, all = {RLIM_INFINITY, RLIM_INFINITY};

    if (is_fault(j, FULL)) {
        tell(j->w, FAULT, j->rank, j->run.step, WEIR_OK);
        setrlimit(RLIMIT_FSIZE, &none);
    }
    const weir_status status = weir_run_save(&j->run, j->w->path, NULL);
    setrlimit(RLIMIT_FSIZE, &all);
    if (status == WEIR_OK)
        tell(j->w, SAVED, j->rank, j->run.step, WEIR_OK);
    return status;
}

/* Steps until one fails. Where graphs are at fault, all ranks record one again at that step, as
 * they do for a batch of another size. */
static weir_status train(job *j)
{
    const bool  again = j->w->kind == GRAPH || j->w->kind == BUDGET;
    weir_graph *g = NULL;
    weir_status status = WEIR_OK;

    while (status == WEIR_OK) {
        prepare_fault(j);
        if (!g || (again && j->run.step == j->w->step)) {
            weir_graph_free(g);
            status = record(j, &g);
        }
        status = status == WEIR_OK ? weir_graph_run(g) : status;
        j->run.step++;
        status = status == WEIR_OK ? save(j) : status;
    }
    tell(j->w, ENDED, j->rank, j->run.step, status);
    weir_graph_free(g);
    return status;
}

static weir_status open_rank(job *j)
{
    float v[ROWS * WIDTH];
    char  spec[128];

    for (int i = 0; i < ROWS * WIDTH; i++)
        v[i] = (float)(i % 7 - 3 + j->rank) / 8;
    snprintf(spec, sizeof spec, "local:%s,rank=%d,world=%d", j->w->name, j->rank, RANKS);
    j->d = weir_device_open("cpu", &(weir_device_options){.threads = 1, .seed = 5});
    j->c = weir_comm_open(spec, j->d, &(weir_comm_options){.timeout_s = timeout_s});
    if (!j->c)
        return weir_error_status();
    weir_model *const model = weir_model_new(j->d);
    j->first = weir_linear_new(model, "first", WIDTH, WIDTH, true);
    j->second = weir_linear_new(model, "second", WIDTH, 4, true);
    j->optim = weir_sgd_new(j->d, 1e-3, NULL);
    j->x = weir_input(j->d, weir_2d(WEIR_F32, ROWS, WIDTH));
    j->run = (weir_run){.model = model, .optim = j->optim, .comm = j->c};
    WEIR_TRY(weir_write(j->x, v, sizeof v));
    return weir_data_parallel(j->optim, j->c, &(weir_parallel_options){.model = model});
}

static void rank_main(const draw *w, int rank)
{
    job j = {.w = w, .rank = rank};

    now = *w;
    signal(SIGXFSZ, SIG_IGN);
    const weir_status status = open_rank(&j);
    if (status != WEIR_OK)
        tell(w, ENDED, rank, -1, status);
    else
        (void)train(&j);
    _exit(0);
}

/* ---- the parent ---- */

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What the parent has heard of a job. */
typedef struct heard {
    bool    fault, ended[RANKS];
    int     n;                  /* ranks that have ended */
    int64_t saved;              /* the last step that a rank has saved; -1: none */
    report  end[RANKS];
} heard;

/* Reads reports until `wanted` ranks have ended, or the time since the fault is over. */
static void listen_to(int from, int wanted, heard *h)
{
    double        until = seconds() + START_LIMIT_S;
    struct pollfd p = {.fd = from, .events = POLLIN};
    report        r;

    *h = (heard){.saved = -1};
    while (h->n < wanted && seconds() < until) {
        if (poll(&p, 1, 100) <= 0 || read(from, &r, sizeof r) != (ssize_t)sizeof r)
            continue;
        if (r.what == FAULT) {
            h->fault = true;
            until = seconds() + timeout_s + grace_s;
        } else if (r.what == SAVED) {
            h->saved = r.step > h->saved ? r.step : h->saved;
        } else if (!h->ended[r.rank]) {
            h->ended[r.rank] = true;
            h->end[r.rank] = r;
            h->n++;
        }
    }
}

/* Loads the checkpoint in a process of its own; the step, from -1. */
static int64_t load(const draw *w)
{
    int     ends[2];
    int64_t step = -1;

    if (pipe(ends) != 0)
        return -1;
    const pid_t pid = fork();
    if (pid == 0) {
        job j = {.d = weir_device_open("cpu", &(weir_device_options){.threads = 1})};
        j.run.model = weir_model_new(j.d);
        weir_linear_new(j.run.model, "first", WIDTH, WIDTH, true);
        weir_linear_new(j.run.model, "second", WIDTH, 4, true);
        j.run.optim = weir_sgd_new(j.d, 1e-3, NULL);
        if (weir_run_load(&j.run, w->path) == WEIR_OK)
            step = j.run.step;
        else
            fprintf(stderr, "  %s\n", weir_error());
        _exit(write(ends[1], &step, sizeof step) != (ssize_t)sizeof step);
    }
    if (pid > 0 && read(ends[0], &step, sizeof step) != (ssize_t)sizeof step)
        step = -1;
    close(ends[0]);
    close(ends[1]);
    waitpid(pid, NULL, 0);
    return step;
}

static bool check(const draw *w, const heard *h)
{
    const bool lives = w->kind >= SLEEPS;
    char       name[16];
    bool       good = h->fault;

    if (!h->fault)
        fprintf(stderr, "  the fault was not reached\n");
    snprintf(name, sizeof name, "rank %d", w->culprit);
    for (int r = 0; r < RANKS; r++) {
        if (r == w->culprit && !lives)
            continue;
        const bool named = r == w->culprit || strstr(h->end[r].sentence, name);
        if (!h->ended[r] || h->end[r].status == WEIR_OK || !named) {
            fprintf(stderr, "  rank %d %s: %s\n", r, h->ended[r] ? "ended" : "got no error in time",
                    h->end[r].sentence);
            good = false;
        }
    }
    const int64_t loaded = h->saved >= 0 ? load(w) : h->saved;
    if (loaded < h->saved) {
        fprintf(stderr, "  step %lld was saved, step %lld loads\n", (long long)h->saved,
                (long long)loaded);
        good = false;
    }
    return good;
}

static bool run_one(draw *w)
{
    pid_t pid[RANKS];
    int   ends[2];
    heard h;

    if (pipe(ends) != 0)
        return false;
    w->to_parent = ends[1];
    for (int r = 0; r < RANKS; r++)
        if ((pid[r] = fork()) == 0)
            rank_main(w, r);
    listen_to(ends[0], w->kind >= SLEEPS ? RANKS : RANKS - 1, &h);
    for (int r = 0; r < RANKS; r++) {
        kill(pid[r], SIGKILL);
        waitpid(pid[r], NULL, 0);
    }
    close(ends[0]);
    close(ends[1]);
    const bool  good = check(w, &h);
    const int   other = w->culprit == 0 ? 1 : 0;
    printf("%s: rank %d, %s, at step %lld + %ld us: %s\n", good ? "ok" : "FAILED", w->culprit,
           kind_name[w->kind], (long long)w->step, w->after_us, h.end[other].sentence);
    fflush(stdout);
    return good;
}

/* Removes the files that a job has left, and in the end the folder. */
static void clear(const char *folder, bool last)
{
    DIR *const d = opendir(folder);
    char       path[512];

    for (const struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (e->d_name[0] != '.')
            unlink(path);
    }
    if (d)
        closedir(d);
    if (last)
        rmdir(folder);
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/weir-faults-XXXXXX";

    if (argc < 2 || argc > 3 || !mkdtemp(folder))
        return fprintf(stderr, "usage: drawn_faults COUNT [SEED]\n"), 2;
    const int count = atoi(argv[1]);
    uint64_t  random = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    int       bad = 0;

    for (int i = 0; i < count; i++) {
        draw w = {.kind = (fault_kind)(i % KINDS),
                  .culprit = (int)(weir_splitmix64(&random) % RANKS),
                  .step = 1 + (int64_t)(weir_splitmix64(&random) % 8),
                  .after_us = (long)(weir_splitmix64(&random) % LAST_MOMENT_US)};
        snprintf(w.path, sizeof w.path, "%s/run-%d", folder, i);
        snprintf(w.name, sizeof w.name, "faults-%ld-%d", (long)getpid(), i);
        bad += !run_one(&w);
        clear(folder, i == count - 1);
    }
    printf("drawn_faults: %d passed, %d failed\n", count - bad, bad);
    return bad > 0;
}
