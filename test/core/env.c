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

/* The chunks that malloc still gives. */
static int chunks_left;

static void *few_chunks(size_t bytes)
{
    return chunks_left-- > 0 ? weir_env_system.malloc(bytes) : NULL;
}

CASE(malloc_has_so_much)
{
    enum { CHUNKS = 16, BYTES = 1 << 20 };
    weir_env e = weir_env_system;

    e.malloc = few_chunks;
    weir_env_set(&e);
    for (int n = 0; n <= CHUNKS; n++) {
        chunks_left = n;
        CHECK(weir_mem_can_alloc(BYTES) == (n == CHUNKS));
    }
    chunks_left = 0;
    CHECK(weir_mem_can_alloc(0));
    weir_env_set(NULL);
}

/* OpenMP starts its own threads, after as many have started through the table. */
CASE(a_thread_cannot_start)
{
    weir_env e = weir_env_system;

    e.pthread_create = few_threads;
    threads_left = 1;
    weir_env_set(&e);
    CHECK(!weir_threads_new(4));
    CHECK_TEXT(weir_error(), "only 2 of 4 worker threads can start");
    weir_env_set(NULL);
}

CASE(a_variable_that_makes_no_sense)
{
    static const struct {
        const char *name, *bad, *sentence, *good;
    } row[] = {
        {"WEIR_THREADS", "x", "WEIR_THREADS is 'x' (expected a whole number from 1 to 1024)", "2"},
        {"WEIR_THREADS", "0", "WEIR_THREADS is '0' (expected a whole number from 1 to 1024)", "1"},
        {"WEIR_THREADS", "1025", "from 1 to 1024", "1024"},
        {"WEIR_THREADS", "2 ", "from 1 to 1024", ""},
        {"WEIR_ISA", "abacus", "WEIR_ISA is 'abacus' (expected base, avx2 or avx512)", "base"},
        {"WEIR_ISA", "avx", "WEIR_ISA is 'avx' (expected", "avx2"},
        {"WEIR_GEMM", "blas", "(expected own, openblas, onednn or cublaslt)", "cublaslt"},
        {"WEIR_CONV", "own,", "(expected own, openblas, onednn or cudnn)", "cudnn"},
        {"WEIR_GUARD", "yes", "WEIR_GUARD is 'yes' (expected 0 or 1)", "0"},
        {"WEIR_TF32", "on", "WEIR_TF32 is 'on' (expected 0 or 1)", "1"},
        {"WEIR_STREAMS", "9", "(expected a whole number from 1 to 8)", "8"},
        {"WEIR_PINNED", "4GB", "WEIR_PINNED is '4GB' (expected a whole number of bytes)", "0"},
        {"WEIR_PINNED", "-1", "(expected a whole number of bytes)", "4096"},
        {"WEIR_PINNED", "99999999999999999999999", "(expected a whole number of bytes)", "1"},
    };

    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const char *const had = getenv(row[i].name);
        char              kept[64];

        snprintf(kept, sizeof kept, "%s", had ? had : "");
        setenv(row[i].name, row[i].bad, 1);
        CHECK_STATUS(weir_env_check(), WEIR_ERR_INVALID);
        CHECK_TEXT(weir_error(), row[i].sentence);
        setenv(row[i].name, row[i].good, 1);
        CHECK_OK(weir_env_check());
        if (had)
            setenv(row[i].name, kept, 1);
        else
            unsetenv(row[i].name);
    }
}
