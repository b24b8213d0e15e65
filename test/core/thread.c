/* thread.c - tests of the parallel loop: each task runs once, workers are numbered, failures are
 * clean. */
#include "core/thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/env.h"
#include "core/mem.h"

#define TASKS 1000

typedef struct tally {
    atomic_int seen[TASKS];
    atomic_int per_worker[8];
    atomic_int bad_index;
    int        workers;
} tally;

static void count_task(void *ctx, int64_t task)
{
    tally    *t = ctx;
    const int w = weir_thread_index();
    atomic_fetch_add(&t->seen[task], 1);
    if (w < 0 || w >= t->workers)
        atomic_fetch_add(&t->bad_index, 1);
    else
        atomic_fetch_add(&t->per_worker[w], 1);
}

static void each_once(weir_threads *threads, int64_t tasks)
{
    tally t = {.workers = weir_threads_count(threads)};
    weir_parallel(threads, tasks, count_task, &t);
    for (int i = 0; i < TASKS; i++)
        CHECK_OR_RETURN(atomic_load(&t.seen[i]) == (i < tasks));
    CHECK(atomic_load(&t.bad_index) == 0);
    CHECK(weir_thread_index() == 0);
}

CASE(each_task_once)
{
    for (int n = 1; n <= 5; n++) {
        weir_threads *t = weir_threads_new(n);
        CHECK_OR_RETURN(t != NULL);
        CHECK(weir_threads_count(t) == n);
        for (int64_t tasks = 0; tasks <= TASKS; tasks += tasks < 12 ? 1 : 247)
            each_once(t, tasks);
        weir_threads_free(t);
    }
    weir_threads_free(NULL);
}

CASE(many_rounds)
{
    weir_threads *t = weir_threads_new(3);
    CHECK_OR_RETURN(t != NULL);
    for (int i = 0; i < 300; i++)
        each_once(t, i % 9);
    weir_threads_free(t);
}

/* What tasks write is visible after the loop, without atomics. */
static void write_task(void *ctx, int64_t task)
{
    ((int64_t *)ctx)[task] = task * task;
}

CASE(results_are_visible)
{
    int64_t       v[TASKS];
    weir_threads *t = weir_threads_new(4);
    CHECK_OR_RETURN(t != NULL);
    weir_parallel(t, TASKS, write_task, v);
    for (int64_t i = 0; i < TASKS; i++)
        CHECK(v[i] == i * i);
    weir_threads_free(t);
}

/* ---- threads that cannot start ---- */

static int no_thread(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    (void)thread, (void)attr, (void)run, (void)arg;
    return EAGAIN;
}

static void *from_another_thread(void *ctx)
{
    weir_threads *const t = ctx;
    weir_env            e = weir_env_system;

    weir_error_clear();
    e.pthread_create = no_thread;
    weir_env_set(&e);
    each_once(t, 100);
    CHECK(*weir_error() == 0);
    if (strcmp(weir_threads_backend(), "openmp") == 0) {
        CHECK(weir_threads_lend(t) == WEIR_ERR_NOMEM);
        CHECK_TEXT(weir_error(), "only 1 of 3 worker threads can start");
    }
    weir_env_set(NULL);
    each_once(t, 100);
    CHECK_OK(weir_threads_lend(t));
    return NULL;
}

/* With OpenMP each thread that uses the pool has its own team; pools of POSIX threads have one. */
CASE(a_loop_runs_where_no_thread_can_start)
{
    weir_threads *t = weir_threads_new(3);
    pthread_t     other;
    CHECK_OR_RETURN(t != NULL);
    if (CHECK(pthread_create(&other, NULL, from_another_thread, t) == 0))
        pthread_join(other, NULL);
    weir_threads_free(t);
}

CASE(two_pools)
{
    weir_threads *a = weir_threads_new(2), *b = weir_threads_new(3);
    CHECK_OR_RETURN(a && b);
    each_once(a, 50);
    each_once(b, 50);
    weir_threads_free(a);
    each_once(b, 50);
    weir_threads_free(b);
}

CASE(has_a_name)
{
    CHECK(strcmp(weir_threads_backend(), "openmp") == 0 ||
          strcmp(weir_threads_backend(), "pthread") == 0);
}

CASE(short_memory)
{
    weir_threads *t = NULL;
    for (int n = 0; n < 10 && !t; n++) {
        weir_mem_fail_nth(n, true);
        t = weir_threads_new(3);
        CHECK(t || weir_error_status() == WEIR_ERR_NOMEM);
    }
    CHECK(t != NULL);
    weir_threads_free(t);
}
