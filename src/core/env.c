/* env.c - the operating system's functions, the table that is in use, the environment variables. */
#include "core/env.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/env.def"
#include "core/status.h"

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

/* True for decimal digits alone that fit into *n. */
static bool is_number(const char *text, unsigned long long *n)
{
    char *end;

    errno = 0;
    *n = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0;
}

/* True if `names`, separated by ", ", has the text. */
static bool is_one_of(const char *text, const char *names)
{
    const size_t n = strlen(text);

    for (const char *at = names; *at; at += strspn(at, ", ")) {
        const size_t here = strcspn(at, ",");
        if (here == n && strncmp(at, text, n) == 0)
            return true;
        at += here;
    }
    return false;
}

static weir_status check_variable(const char *name, const char *values)
{
    const char *const  text = getenv(name);
    unsigned long long least, most, n;

    if (!text || !*text)
        return WEIR_OK;
    if (sscanf(values, "%llu to %llu", &least, &most) == 2)
        return is_number(text, &n) && n >= least && n <= most
                   ? WEIR_OK
                   : weir_fail(WEIR_ERR_INVALID, "%s is '%s' (expected a whole number from %llu to "
                                                 "%llu)", name, text, least, most);
    if (strcmp(values, "bytes") == 0)
        return is_number(text, &n) && n <= SIZE_MAX
                   ? WEIR_OK
                   : weir_fail(WEIR_ERR_INVALID, "%s is '%s' (expected a whole number of bytes)",
                               name, text);
    if (strstr(values, ", ") && !is_one_of(text, values)) {
        char what[64];
        snprintf(what, sizeof what, "%s is", name);
        return weir_fail_unknown(what, text, strlen(text), values);
    }
    return WEIR_OK;
}

#define CHECK_ROW(name, reader, values, fallback, meaning)                                         \
    WEIR_TRY(check_variable(#name, values));

weir_status weir_env_check(void)
{
    WEIR_VARIABLES(CHECK_ROW)
    return WEIR_OK;
}
