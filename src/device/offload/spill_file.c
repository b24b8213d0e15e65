/* spill_file.c - opening and growing a spill file.
 *
 * O_TMPFILE creates a file that never has a name; on file systems without it the file is unlinked
 * at once. posix_fallocate allocates the blocks, so that later writes cannot run out of space. */
#include "device/offload/spill_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/env.h"

const char *weir_spill_folder(const char *dir)
{
    const char *const from[] = {dir, getenv("WEIR_SPILL_DIR"), getenv("TMPDIR")};

    for (size_t i = 0; i < sizeof from / sizeof *from; i++)
        if (from[i] && from[i][0])
            return from[i];
    return "/tmp";
}

static int open_named(const char *folder)
{
    static const char name[] = "/weir-spill-XXXXXX";
    char              path[4096];

    if (strlen(folder) + sizeof name > sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(path, folder);
    strcat(path, name);
    const int fd = weir_env_get()->mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        weir_env_get()->unlink(path);
    return fd;
}

weir_status weir_spill_file_open(const char *folder, int *fd)
{
    *fd = -1;
#if defined(O_TMPFILE) && !defined(WEIR_PORTABLE)
    *fd = weir_env_get()->open(folder, O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
#endif
    if (*fd < 0)
        *fd = open_named(folder);
    if (*fd < 0)
        return weir_fail(WEIR_ERR_IO, "spill file in \"%.300s\": cannot be created (%s)", folder,
                         strerror(errno));
    return WEIR_OK;
}

static weir_status no_space(const char *folder, int fd, size_t want, int error)
{
    struct statvfs st;
    char           available[48] = "an unknown number";

    if (weir_env_get()->fstatvfs(fd, &st) == 0)
        snprintf(available, sizeof available, "%llu",
                 (unsigned long long)st.f_bavail * (unsigned long long)st.f_frsize);
    return weir_fail(WEIR_ERR_IO, "spill file in \"%.300s\": %zu bytes wanted, %s free (%s)",
                     folder, want, available, strerror(error));
}

void weir_spill_file_truncate(int fd, size_t have)
{
    const int ignored = weir_env_get()->ftruncate(fd, (off_t)have);
    (void)ignored;
}

/* The process's limit on file sizes is checked first: exceeding it would raise SIGXFSZ. */
weir_status weir_spill_file_grow(const char *folder, int fd, size_t have, size_t want)
{
    struct rlimit limit;
    int           error;

    if (want > INT64_MAX)
        return no_space(folder, fd, want, EFBIG);
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        want > limit.rlim_cur)
        return weir_fail(WEIR_ERR_IO, "spill file in \"%.300s\": %zu bytes wanted, this process "
                         "may write files of %llu (RLIMIT_FSIZE)", folder, want,
                         (unsigned long long)limit.rlim_cur);
    do
        error = weir_env_get()->posix_fallocate(fd, (off_t)have, (off_t)(want - have));
    while (error == EINTR);
    if (error == 0)
        return WEIR_OK;
    weir_spill_file_truncate(fd, have);          /* frees what was allocated before the failure */
    return no_space(folder, fd, want, error);
}
