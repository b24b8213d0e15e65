/* thread.c - the two back ends of the parallel loop.
 *
 * Worker w of n runs tasks first_task(w) .. first_task(w + 1) - 1. It does not matter which worker
 * runs a task: tasks are divided by shape and write disjoint memory. */
#include "core/thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/env.h"
#include "core/mem.h"
#include "core/status.h"

/* Index of this thread within the running loop; 0 outside of loops. */
static _Thread_local int worker_index;

typedef struct job {
    weir_task_fn fn;
    void        *ctx;
    int64_t      tasks;
} job;

static int64_t first_task(int64_t tasks, int worker, int workers)
{
    const int64_t share = tasks / workers, rest = tasks % workers;
    return worker * share + (worker < rest ? worker : rest);
}

static void run_share(const job *j, int worker, int workers)
{
    const int64_t end = first_task(j->tasks, worker + 1, workers);
    worker_index = worker;
    for (int64_t i = first_task(j->tasks, worker, workers); i < end; i++)
        j->fn(j->ctx, i);
    worker_index = 0;
}

int weir_thread_index(void)
{
    return worker_index;
}

/* ---- fork ---- */

bool weir_threads_forked;

static void note_fork(void)
{
    __atomic_store_n(&weir_threads_forked, true, __ATOMIC_RELAXED);
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, note_fork);
}

static void expect_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, watch_forks);
}

/* ---- the pools ---- */

/* Bytes that pthread_create maps: the soft limit of stacks (glibc's default if unlimited) and a
 * guard page. */
size_t weir_threads_stacks(int n)
{
    const size_t  guard = 64 << 10, unlimited = 8 << 20;
    struct rlimit limit;
    const bool    known = getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;

    return n > 0 ? (size_t)n * ((known ? (size_t)limit.rlim_cur : unlimited) + guard) : 0;
}

#ifdef WEIR_OPENMP

#include <omp.h>

struct weir_threads {
    int n;
};

/* OpenMP keeps a team for each thread that begins parallel regions, and makes it again where the
 * number of threads changes. libgomp ends the process if it cannot start a thread or allocate the
 * team, so both are tried before. This is how many workers the team of a thread has, itself
 * included. */
static _Thread_local int team_size = 1;

/* Threads that wait until all of them have started. */
typedef struct starters {
    pthread_mutex_t hold;
    pthread_t       thread[];
} starters;

static void *starter_main(void *ctx)
{
    starters *const t = ctx;

    pthread_mutex_lock(&t->hold);
    pthread_mutex_unlock(&t->hold);
    return NULL;
}

/* How many of n threads the system starts beside this one. They have ended when it returns. */
static int try_threads(int n)
{
    const weir_env *const e = weir_env_get();
    starters *const       t = e->malloc(sizeof *t + (size_t)n * sizeof *t->thread);
    int                   started = 0;

    if (!t)
        return 0;
    pthread_mutex_init(&t->hold, NULL);
    pthread_mutex_lock(&t->hold);
    while (started < n && e->pthread_create(&t->thread[started], NULL, starter_main, t) == 0)
        started++;
    pthread_mutex_unlock(&t->hold);
    for (int i = 0; i < started; i++)
        e->pthread_join(t->thread[i], NULL);
    pthread_mutex_destroy(&t->hold);
    e->free(t);
    return started;
}

/* Makes sure that this thread has a team of n. Returns the workers that it can have: n, or fewer if
 * threads or memory run out. */
static int gather(int n)
{
    enum { TEAM_BYTES = 64 << 10 };     /* more than libgomp allocates for a team of 1,024 */

    if (n == 1 || team_size == n)
        return n;
    const int workers = weir_mem_can_alloc(TEAM_BYTES) ? 1 + try_threads(n - 1) : 1;
    if (workers < n)
        return workers;
    team_size = n;
#pragma omp parallel num_threads(n)
    run_share(&(const job){0}, omp_get_thread_num(), omp_get_num_threads());
    return n;
}

weir_status weir_threads_lend(const weir_threads *t)
{
    const int workers = gather(t->n);

    if (workers < t->n)
        return weir_fail(WEIR_ERR_NOMEM, "only %d of %d worker threads can start", workers, t->n);
    if (omp_get_max_threads() != t->n)
        omp_set_num_threads(t->n);
    return WEIR_OK;
}

/* The address space for the stacks, twice over because other mappings may come before them. */
static bool has_stacks(int n)
{
    return n < 2 || weir_mem_can_map(2 * weir_threads_stacks(n - 1));
}

weir_threads *weir_threads_new(int n)
{
    expect_forks();
    if (!has_stacks(n))
        return WEIR_FAIL_NULL(WEIR_ERR_NOMEM, "%d threads: no address space for the stacks of %zu "
                              "bytes", n, weir_threads_stacks(n - 1));
    weir_threads *t = weir_mem_alloc(sizeof *t);
    if (!t)
        return NULL;
    t->n = n;
    if (weir_threads_lend(t) != WEIR_OK) {
        weir_mem_free(t);
        return NULL;
    }
    return t;
}

void weir_threads_free(weir_threads *t)
{
    weir_mem_free(t);
}

void weir_parallel(weir_threads *t, int64_t tasks, weir_task_fn fn, void *ctx)
{
    const job j = {fn, ctx, tasks};
    if (tasks <= 1 || t->n == 1 || gather(t->n) < t->n) {
        run_share(&j, 0, 1);
        return;
    }
    /* Always the whole team, since libgomp ends the threads that a smaller one leaves over. It may
     * still provide fewer. */
#pragma omp parallel num_threads(t->n)
    run_share(&j, omp_get_thread_num(), omp_get_num_threads());
}

const char *weir_threads_backend(void)
{
    return "openmp";
}

#else

#define SPINS 2000      /* polls of a counter before sleeping: a few microseconds */

typedef struct worker {
    weir_threads *pool;
    pthread_t     thread;
    int           index;
} worker;

/* A round: the caller fills `now`, sets busy to the number of helpers and increments `round`; each
 * helper runs its share and decrements busy. The counters publish what the other side reads: `now`
 * before round, the tasks' writes before busy. Sleepers are woken under the lock, so no wake-up is
 * lost. */
struct weir_threads {
    int             n;          /* workers, the caller included */
    job             now;
    bool            quit;
    atomic_uint     round;
    atomic_int      busy;
    pthread_mutex_t lock;
    pthread_cond_t  started, finished;
    worker         *worker;     /* [n - 1] helpers 1 .. n-1 */
};

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Waits until round is no longer `seen`; returns it. */
static unsigned await_round(weir_threads *t, unsigned seen)
{
    for (int i = 0; i < SPINS && atomic_load(&t->round) == seen; i++)
        relax();
    if (atomic_load(&t->round) == seen) {
        pthread_mutex_lock(&t->lock);
        while (atomic_load(&t->round) == seen)
            pthread_cond_wait(&t->started, &t->lock);
        pthread_mutex_unlock(&t->lock);
    }
    return atomic_load(&t->round);
}

static void await_helpers(weir_threads *t)
{
    for (int i = 0; i < SPINS && atomic_load(&t->busy) > 0; i++)
        relax();
    if (atomic_load(&t->busy) == 0)
        return;
    pthread_mutex_lock(&t->lock);
    while (atomic_load(&t->busy) > 0)
        pthread_cond_wait(&t->finished, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

static void begin_round(weir_threads *t)
{
    pthread_mutex_lock(&t->lock);
    atomic_fetch_add(&t->round, 1);
    pthread_cond_broadcast(&t->started);
    pthread_mutex_unlock(&t->lock);
}

static void *helper_main(void *arg)
{
    const worker *w = arg;
    weir_threads *t = w->pool;
    for (unsigned round = 0;;) {
        round = await_round(t, round);
        if (t->quit)
            return NULL;
        run_share(&t->now, w->index, t->n);
        if (atomic_fetch_sub(&t->busy, 1) == 1) {
            pthread_mutex_lock(&t->lock);
            pthread_cond_signal(&t->finished);
            pthread_mutex_unlock(&t->lock);
        }
    }
}

/* Stops and joins the first `helpers` helpers, then frees everything. */
static void dissolve(weir_threads *t, int helpers)
{
    t->quit = true;
    begin_round(t);
    for (int i = 0; i < helpers; i++)
        weir_env_get()->pthread_join(t->worker[i].thread, NULL);
    pthread_cond_destroy(&t->finished);
    pthread_cond_destroy(&t->started);
    pthread_mutex_destroy(&t->lock);
    weir_mem_free(t->worker);
    weir_mem_free(t);
}

weir_threads *weir_threads_new(int n)
{
    expect_forks();
    weir_threads *t = weir_mem_zalloc(1, sizeof *t);
    worker       *w = weir_mem_zalloc((size_t)n, sizeof *w);
    if (!t || !w) {
        weir_mem_free(w);
        weir_mem_free(t);
        return NULL;
    }
    t->n = n;
    t->worker = w;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->started, NULL);
    pthread_cond_init(&t->finished, NULL);
    for (int i = 0; i < n - 1; i++) {
        w[i].pool = t;
        w[i].index = i + 1;
        if (weir_env_get()->pthread_create(&w[i].thread, NULL, helper_main, &w[i]) != 0) {
            dissolve(t, i);
            return WEIR_FAIL_NULL(WEIR_ERR_NOMEM, "only %d of %d worker threads can start", i + 1,
                                  n);
        }
    }
    return t;
}

void weir_threads_free(weir_threads *t)
{
    if (t)
        dissolve(t, t->n - 1);
}

void weir_parallel(weir_threads *t, int64_t tasks, weir_task_fn fn, void *ctx)
{
    const job j = {fn, ctx, tasks};
    if (tasks <= 1 || t->n == 1) {
        run_share(&j, 0, 1);
        return;
    }
    t->now = j;
    atomic_store(&t->busy, t->n - 1);
    begin_round(t);
    run_share(&j, 0, t->n);
    await_helpers(t);
}

weir_status weir_threads_lend(const weir_threads *t)
{
    (void)t;
    return WEIR_OK;
}

const char *weir_threads_backend(void)
{
    return "pthread";
}

#endif

int weir_threads_count(const weir_threads *t)
{
    return t->n;
}
