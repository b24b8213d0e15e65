/* env.c - the operating system's functions, the table that is in use, the environment variables. */
#include "core/env.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/env.def"
#include "weir/base.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

static int system_open(const char *path, int flags, mode_t mode)
{
    return open(path, flags, mode);
}

static void system_trim(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

const weir_env weir_env_system = {
    .malloc = malloc,
    .free = free,
    .mmap = mmap,
    .munmap = munmap,
    .madvise = madvise,
    .trim = system_trim,
    .open = system_open,
    .mkostemp = mkostemp,
    .close = close,
    .read = read,
    .write = write,
    .pread = pread,
    .pwrite = pwrite,
    .fstat = fstat,
    .lstat = lstat,
    .fstatvfs = fstatvfs,
    .posix_fallocate = posix_fallocate,
    .ftruncate = ftruncate,
    .mkdir = mkdir,
    .rename = rename,
    .unlink = unlink,
    .utimensat = utimensat,
    .opendir = opendir,
    .readdir = readdir,
    .closedir = closedir,
    .clock_gettime = clock_gettime,
    .nanosleep = nanosleep,
    .pthread_create = pthread_create,
    .pthread_join = pthread_join,
};

/* One table per process, as there is one system: docs/internals/decisions/0002-environment.md. */
static const weir_env *_Atomic in_use = &weir_env_system;

const weir_env *weir_env_get(void)
{
    return atomic_load_explicit(&in_use, memory_order_acquire);
}

void weir_env_set(const weir_env *e)
{
    atomic_store(&in_use, e ? e : &weir_env_system);
}

#define LINE(name, reader, values, fallback, meaning)                                              \
    #name "\t" reader "\t" values "\t" fallback "\t" meaning "\n"

const char *weir_environment_text(void)
{
    return WEIR_VARIABLES(LINE);
}
