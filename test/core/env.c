/* env.c - tests of the table of system functions: the library calls the system only through the
 * table in use. */
#include "core/env.h"

#include <errno.h>
#include <string.h>

#include "check.h"
#include "core/mem.h"
#include "core/thread.h"
#include "core/trace.h"

static int clock_at_90_s(clockid_t clock, struct timespec *t)
{
    CHECK(clock == CLOCK_MONOTONIC);
    *t = (struct timespec){.tv_sec = 90, .tv_nsec = 250000000};
    return 0;
}

static void *no_memory(size_t bytes)
{
    (void)bytes;
    return NULL;
}

static void *no_pages(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    (void)at, (void)bytes, (void)prot, (void)flags, (void)fd, (void)offset;
    errno = ENOMEM;
    return (void *)-1;
}

static int threads_left;

static int few_threads(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                       void *arg)
{
    return threads_left-- > 0 ? weir_env_system.pthread_create(thread, attr, run, arg) : EAGAIN;
}

CASE(the_clock_stands_still)
{
    weir_env e = weir_env_system;

    e.clock_gettime = clock_at_90_s;
    weir_env_set(&e);
    CHECK(weir_env_get() == &e);
    CHECK(weir_now() == 90.25 && weir_now() == 90.25);
    weir_env_set(NULL);
    CHECK(weir_env_get() == &weir_env_system && weir_now() != 90.25);
}

CASE(memory_is_short)
{
    weir_env e = weir_env_system;

    CHECK_OR_RETURN(weir_mem_alive() == 0);
    e.malloc = no_memory;
    e.mmap = no_pages;
    weir_env_set(&e);
    CHECK(!weir_mem_alloc(8));
    CHECK_TEXT(weir_error(), "8 bytes wanted");
    CHECK(!weir_mem_pages((size_t)4 << 20, true));
    CHECK(!weir_mem_can_map(1));
    CHECK(weir_mem_alive() == 0);
    weir_env_set(NULL);
}

/* OpenMP starts its own threads, not through the table. */
CASE(a_thread_cannot_start)
{
    weir_env e = weir_env_system;

    if (strcmp(weir_threads_backend(), "pthread") != 0)
        return;
    e.pthread_create = few_threads;
    threads_left = 1;
    weir_env_set(&e);
    CHECK(!weir_threads_new(4));
    CHECK_TEXT(weir_error(), "only 2 of 4 worker threads can start");
    weir_env_set(NULL);
}
