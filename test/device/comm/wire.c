/* wire.c - deadlines and faults: the rank that is missing is named on all others. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "core/env.h"
#include "core/mem.h"
#include "device/collective.h"
#include "device/comm/wire.h"
#include "ranks.h"

enum { N = 1000, ROUNDS = 3 };

static weir_status sum_once(rank *r, int64_t n)
{
    static _Thread_local float x[2 * N], work[RANKS_MOST * 2 * N];
    const weir_collective job = {.kind = WEIR_ALL_REDUCE, .dtype = WEIR_F32, .peer = -1, .count = n,
                                 .src = x, .dst = x, .work = work};

    return r->c->run(r->c, &job);
}

/* All-reduces until one fails, and once more. */
static void body(rank *r)
{
    weir_status status = WEIR_OK;

    CHECK_OR_RETURN(r->c != NULL);
    for (int i = 0; i < ROUNDS && status == WEIR_OK; i++)
        status = sum_once(r, N);
    rank_note(r, status);
    if (status != WEIR_OK) {            /* later ones fail at once, with the same sentence */
        CHECK_STATUS(sum_once(r, N), status);
        CHECK_TEXT(weir_error(), r->error);
    }
}

/* All ranks but `culprit` fail with a sentence that has both texts. */
static void check_others(const rank *all, int world, int culprit, const char *a, const char *b)
{
    for (int i = 0; i < world; i++) {
        if (i == culprit)
            continue;
        CHECK_STATUS(all[i].status, WEIR_ERR_COMM);
        CHECK_TEXT(all[i].error, a);
        CHECK_TEXT(all[i].error, b);
    }
}

CASE(a_rank_that_dies_is_named)
{
    for (int world = 2; world <= 4; world++) {
        rank          all[RANKS_MOST];
        ranks_options o = {.comm = {.timeout_s = 0.4}, .faults = {[1] = ",die=2"}};

        ranks_run(all, world, &o, body, NULL);
        check_others(all, world, 1, "rank 1 ", "all_reduce 2 (1000 f32)");
        CHECK_STATUS(all[1].status, WEIR_ERR_COMM);
        CHECK_TEXT(all[1].error, "rank 1 stops before collective 2");
    }
}

CASE(a_lost_message_is_a_failure)
{
    rank          all[RANKS_MOST];
    ranks_options o = {.comm = {.timeout_s = 0.4}, .faults = {[0] = ",drop=3"}};

    ranks_run(all, 3, &o, body, NULL);
    check_others(all, 3, -1, "messages of rank ", "all_reduce 3");
}

CASE(a_delay_below_the_timeout_is_none)
{
    rank          all[RANKS_MOST];
    ranks_options o = {.comm = {.timeout_s = 5}, .faults = {[2] = ",delay=2:30"}};

    ranks_run(all, 3, &o, body, NULL);
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(all[i].status, WEIR_OK);
}

/* Rank 2 stays in its own code until the others have failed. */
static pthread_barrier_t failed;

static void busy_body(rank *r)
{
    if (r->rank == 2)
        pthread_barrier_wait(&failed);
    if (CHECK(r->c != NULL))
        rank_note(r, sum_once(r, N));
    if (r->rank != 2)
        pthread_barrier_wait(&failed);
}

CASE(a_busy_rank_answers_and_is_named)
{
    rank          all[RANKS_MOST];
    ranks_options o = {.comm = {.timeout_s = 0.4}};

    pthread_barrier_init(&failed, NULL, 3);
    ranks_run(all, 3, &o, busy_body, NULL);
    pthread_barrier_destroy(&failed);
    check_others(all, 3, -1, "rank 2 has not reached all_reduce 1 (1000 f32)", "it answers");
}

static void leave_body(rank *r)
{
    CHECK_OR_RETURN(r->c != NULL);
    if (r->rank == 0) {
        weir_comm_close(r->c);
        r->c = NULL;
        return;
    }
    rank_note(r, sum_once(r, N));
}

CASE(a_rank_that_has_left_is_not_waited_for)
{
    rank          all[RANKS_MOST];
    ranks_options o = {.comm = {.timeout_s = 600}};

    ranks_run(all, 3, &o, leave_body, NULL);
    check_others(all, 3, 0, "rank 0 has closed its communicator", "all_reduce 1");
}

static void differ_body(rank *r)
{
    CHECK_OR_RETURN(r->c != NULL);
    rank_note(r, sum_once(r, r->rank == 1 ? N + 1 : N));
}

CASE(ranks_that_call_another_size_fail_at_once)
{
    for (int world = 2; world <= 4; world++) {
        rank          all[RANKS_MOST];
        ranks_options o = {.comm = {.timeout_s = 600}};

        ranks_run(all, world, &o, differ_body, NULL);
        check_others(all, world, -1, "all_reduce", "must call the same collectives");
    }
}

static void kind_body(rank *r)
{
    float x[2] = {1, 2};

    CHECK_OR_RETURN(r->c != NULL);
    if (r->rank == 0) {
        rank_note(r, sum_once(r, 2));
        return;
    }
    const weir_collective job = {.kind = WEIR_BROADCAST, .dtype = WEIR_F32, .peer = 1, .count = 2,
                                 .src = x, .dst = x};
    weir_status status = r->c->run(r->c, &job);
    if (status == WEIR_OK)              /* a root waits for nobody: it learns it afterwards */
        status = sum_once(r, 2);
    rank_note(r, status);
}

CASE(ranks_that_call_another_kind_fail_at_once)
{
    rank          all[RANKS_MOST];
    ranks_options o = {.comm = {.timeout_s = 600}};

    ranks_run(all, 2, &o, kind_body, NULL);
    check_others(all, 2, -1, "calls all_reduce ", "must call the same collectives");
}

/* ---- resources ---- */

CASE(opening_survives_failed_allocations)
{
    weir_device *d = weir_device_open("cpu", NULL);

    for (int n = 0;; n++) {
        char spec[64];
        snprintf(spec, sizeof spec, "local:fault-%ld,rank=0,world=1", (long)getpid());
        weir_mem_fail_nth(n, false);
        weir_comm *const c = weir_comm_open(spec, d, NULL);
        const bool       failed_one = weir_mem_failed();
        weir_mem_fail_nth(-1, false);
        CHECK(failed_one == !c);
        if (!c)
            CHECK_STATUS(weir_error_status(), WEIR_ERR_NOMEM);
        weir_comm_close(c);
        if (!failed_one)
            break;
    }
    weir_device_close(d);
}

static int no_thread(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    (void)thread, (void)attr, (void)run, (void)arg;
    return EAGAIN;
}

CASE(a_thread_that_cannot_start_is_a_failure)
{
    weir_device *d = weir_device_open("cpu", &(weir_device_options){.threads = 1});
    weir_env     e = weir_env_system;

    e.pthread_create = no_thread;
    weir_env_set(&e);
    CHECK(!weir_comm_open("local:thread,rank=0,world=1", d, NULL));
    weir_env_set(NULL);
    CHECK_STATUS(weir_error_status(), WEIR_ERR_NOMEM);
    CHECK_TEXT(weir_error(), "no thread for the wire");
    weir_device_close(d);
}

static void *no_map(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    (void)at, (void)bytes, (void)prot, (void)flags, (void)fd, (void)offset;
    errno = ENOMEM;
    return (void *)-1;
}

CASE(memory_that_cannot_be_mapped_is_a_failure)
{
    weir_device *d = weir_device_open("cpu", &(weir_device_options){.threads = 1});
    weir_env     e = weir_env_system;

    e.mmap = no_map;
    weir_env_set(&e);
    CHECK(!weir_comm_open("local:map,rank=0,world=1", d, NULL));
    weir_env_set(NULL);
    CHECK_STATUS(weir_error_status(), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "/dev/shm/weir-map cannot be mapped");
    weir_device_close(d);
}

/* ---- a transport that does not close ---- */

static pthread_mutex_t stuck = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t  moved = PTHREAD_COND_INITIALIZER;
static bool            may_close, has_closed;

static weir_status open_alone(weir_comm_link *l, const char *spec)
{
    (void)spec;
    l->world = 1;
    return WEIR_OK;
}

static bool hear_nothing(weir_comm_link *l, int *from, uint64_t word[WEIR_NOTE_WORDS])
{
    (void)l;
    (void)from;
    (void)word;
    return false;
}

static void close_late(weir_comm_link *l, bool orderly)
{
    (void)l;
    CHECK(orderly);
    pthread_mutex_lock(&stuck);
    while (!may_close)
        pthread_cond_wait(&moved, &stuck);
    has_closed = true;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&stuck);
}

CASE(a_transport_that_does_not_close_is_left_behind)
{
    static const weir_comm_ops ops = {.name = "stuck", .open = open_alone, .close = close_late,
                                      .noted = hear_nothing, .bytes = sizeof ops, .waits = true};
    const weir_wire_options    o = {.ops = &ops, .spec = "", .timeout = 0.05};

    const int64_t alive = weir_mem_alive();
    may_close = has_closed = false;
    weir_comm_wire *const w = weir_wire_new(&o);
    CHECK_OR_RETURN(w != NULL);
    weir_wire_free(w);          /* returns */
    pthread_mutex_lock(&stuck);
    CHECK(!has_closed);
    may_close = true;           /* then the thread frees what it was left with */
    pthread_cond_broadcast(&moved);
    while (!has_closed)
        pthread_cond_wait(&moved, &stuck);
    pthread_mutex_unlock(&stuck);
    while (weir_mem_alive() > alive)
        sched_yield();
}
