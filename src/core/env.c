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

/* WEIR_PORTABLE (an option of CMake) takes the replacements for systems that are not Linux. */
#if defined(__linux__) && !defined(WEIR_PORTABLE)
#define ON_LINUX 1
#include <malloc.h>
#else
#define ON_LINUX 0
#endif

static int system_open(const char *path, int flags, mode_t mode)
{
    return open(path, flags, mode);
}

static void system_trim(void)
{
#if ON_LINUX && defined(__GLIBC__)
    malloc_trim(0);
#endif
}

#if ON_LINUX

#define system_mkostemp        mkostemp
#define system_posix_fallocate posix_fallocate

#else

/* Between the two calls a process that another thread forks inherits the file. */
static int system_mkostemp(char *template_, int flags)
{
    const int fd = mkstemp(template_);
    if (fd >= 0 && (flags & O_CLOEXEC))
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
}

/* Writes zeros from the end of the file to at + n, so that their blocks exist. Holes before the end
 * stay: Weir only grows files. */
static int system_posix_fallocate(int fd, off_t at, off_t n)
{
    static const char zeros[1 << 16];
    struct stat       st;
    struct statvfs    disk;

    if (at < 0 || n <= 0)
        return EINVAL;
    if (fstat(fd, &st) != 0 || fstatvfs(fd, &disk) != 0)
        return errno;
    if (n / (off_t)disk.f_frsize >= (off_t)disk.f_bavail)      /* before the disk is filled */
        return ENOSPC;
    for (off_t end = st.st_size, left; (left = at + n - end) > 0;) {
        const size_t  most = left < (off_t)sizeof zeros ? (size_t)left : sizeof zeros;
        const ssize_t done = pwrite(fd, zeros, most, end);
        if (done < 0)
            return errno;
        end += done;
    }
    return 0;
}

#endif

const weir_env weir_env_system = {
    .malloc = malloc,
    .free = free,
    .mmap = mmap,
    .munmap = munmap,
    .madvise = madvise,
    .trim = system_trim,
    .open = system_open,
    .mkostemp = system_mkostemp,
    .close = close,
    .read = read,
    .write = write,
    .pread = pread,
    .pwrite = pwrite,
    .fstat = fstat,
    .lstat = lstat,
    .fstatvfs = fstatvfs,
    .posix_fallocate = system_posix_fallocate,
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
    .pthread_detach = pthread_detach,
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
