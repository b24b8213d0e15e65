/* spill_env.c - tests of the offload store on a system that fails: a full disk, short writes, a
 * folder without files, threads that cannot start. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "check.h"
#include "core/env.h"
#include "stores.h"

static atomic_int calls;        /* of the function that a case replaces */

static int disk_is_full(int fd, off_t at, off_t n)
{
    (void)fd, (void)at, (void)n;
    return ENOSPC;
}

static int no_file(const char *path, int flags, mode_t mode)
{
    (void)path, (void)flags, (void)mode;
    errno = EACCES;
    return -1;
}

static int no_named_file(char *path, int flags)
{
    (void)path, (void)flags;
    errno = EROFS;
    return -1;
}

/* Writes at most a thousand bytes, after an interrupted call. */
static ssize_t write_a_part(int fd, const void *p, size_t n, off_t at)
{
    if (atomic_fetch_add(&calls, 1) % 7 == 3) {
        errno = EINTR;
        return -1;
    }
    return weir_env_system.pwrite(fd, p, n < 1000 ? n : 1000, at);
}

static ssize_t third_write_fails(int fd, const void *p, size_t n, off_t at)
{
    if (atomic_fetch_add(&calls, 1) == 2) {
        errno = ENOSPC;
        return -1;
    }
    return weir_env_system.pwrite(fd, p, n < 50000 ? n : 50000, at);
}

static int one_thread(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                      void *arg)
{
    return atomic_fetch_add(&calls, 1) == 0
               ? weir_env_system.pthread_create(thread, attr, run, arg) : EAGAIN;
}

static weir_status copy(weir_spill *s, bool out, void *p, size_t n)
{
    uint64_t t;

    WEIR_TRY(out ? weir_spill_out(s, SLOT, p, n, &t) : weir_spill_in(s, SLOT, p, n, &t));
    return weir_spill_wait(s, t);
}

CASE(full_disk)
{
    weir_env    e = weir_env_system;
    weir_spill *s = open_with((weir_spill_options){.bytes = MIB});

    e.posix_fallocate = disk_is_full;
    weir_env_set(&e);
    CHECK_OR_RETURN(s != NULL);
    CHECK_STATUS(weir_spill_reserve(s, 8 * MIB), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "No space left on device");
    weir_env_set(NULL);
    CHECK_OK(weir_spill_reserve(s, 8 * MIB));
    weir_spill_free(s);
}

CASE(no_file_can_be_made)
{
    weir_env    e = weir_env_system;
    weir_spill *s;

    e.open = no_file;
    e.mkostemp = no_named_file;
    weir_env_set(&e);
    CHECK_STATUS(weir_spill_new(&(weir_spill_options){.bytes = MIB}, &s), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "cannot be created (Read-only file system)");
    weir_env_set(NULL);
}

CASE(parts_are_written)
{
    enum { N = 300000 };
    weir_env    e = weir_env_system;
    char *const a = malloc(N), *const b = calloc(N, 1);

    for (int i = 0; i < N; i++)
        a[i] = (char)check_u64();
    e.pwrite = write_a_part;
    atomic_store(&calls, 0);
    weir_env_set(&e);
    weir_spill *s = open_with((weir_spill_options){.bytes = MIB});
    CHECK_OR_RETURN(s != NULL);
    CHECK_OK(copy(s, true, a, N));
    CHECK_OK(copy(s, false, b, N));
    CHECK_BITS(a, b, N);
    CHECK(atomic_load(&calls) > N / 1000);
    weir_spill_free(s);
    weir_env_set(NULL);
    free(a);
    free(b);
}

CASE(a_write_fails)
{
    enum { N = 300000 };
    weir_env    e = weir_env_system;
    char *const a = calloc(N, 1);

    e.pwrite = third_write_fails;
    atomic_store(&calls, 0);
    weir_env_set(&e);
    weir_spill *s = open_with((weir_spill_options){.bytes = MIB});
    CHECK_OR_RETURN(s != NULL);
    CHECK_STATUS(copy(s, true, a, N), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "No space left on device");
    CHECK_OK(copy(s, true, a, N));
    weir_spill_free(s);
    weir_env_set(NULL);
    free(a);
}

CASE(one_thread_alone_starts)
{
    weir_env    e = weir_env_system;
    weir_spill *s;

    e.pthread_create = one_thread;
    atomic_store(&calls, 0);
    weir_env_set(&e);
    CHECK_STATUS(weir_spill_new(&(weir_spill_options){.bytes = MIB}, &s), WEIR_ERR_NOMEM);
    CHECK_TEXT(weir_error(), "only 1 of 2 threads can start");
    weir_env_set(NULL);
}
