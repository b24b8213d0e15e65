/* replace.c - writes a file beside its place, syncs it and renames it.
 *
 * rename is atomic, so a reader, and the next start after a crash, find the old file or the new
 * one. The sync before it keeps a crash of the machine from leaving a new name on an empty file;
 * the sync of the folder makes the new name last. */
#include "model/file/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int create(const char *path)
{
    return open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

static int open_folder(const char *path)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

const weir_disk weir_disk_system = {
    .create = create,
    .open_folder = open_folder,
    .write = write,
    .fsync = fsync,
    .close = close,
    .link = link,
    .rename = rename,
    .unlink = unlink,
};

const weir_disk *weir_disk_in_use = &weir_disk_system;

/* fsync, again if a signal interrupts it. */
static int sync_whole(int fd)
{
    int done;

    do
        done = weir_disk_in_use->fsync(fd);
    while (done != 0 && errno == EINTR);
    return done;
}

/* An interrupted close has closed the file, and what it held is synced by then. */
static int close_whole(int fd)
{
    const int done = weir_disk_in_use->close(fd);

    return done != 0 && errno == EINTR ? 0 : done;
}

static weir_status fail(const weir_output *o, const char *act)
{
    return weir_fail(WEIR_ERR_IO, "%s: %.150s: %s (%s)", o->what, o->path, act, strerror(errno));
}

/* o->at: the file that the path stands for. */
static weir_status resolve(weir_output *o)
{
    struct stat st;

    if (strlen(o->path) >= sizeof o->at - 40 || !*o->path) {
        errno = *o->path ? ENAMETOOLONG : ENOENT;
        return fail(o, "is no path of a file");
    }
    snprintf(o->at, sizeof o->at, "%s", o->path);
    if (lstat(o->path, &st) != 0)
        return errno == ENOENT ? WEIR_OK : fail(o, "cannot be examined");
    if (S_ISLNK(st.st_mode) &&
        (!realpath(o->path, o->at) || strlen(o->at) >= sizeof o->at - 40 ||
         lstat(o->at, &st) != 0))
        return fail(o, "is a symbolic link that cannot be followed");
    if (!S_ISREG(st.st_mode))
        return weir_fail(WEIR_ERR_IO, "%s: %.150s: is not a regular file", o->what, o->path);
    return WEIR_OK;
}

weir_status weir_output_begin(weir_output *o, const char *what, const char *path)
{
    static atomic_uint number;

    o->what = what;
    o->path = path;
    o->fd = -1;
    o->bytes = 0;
    o->crc = NULL;
    if (!path)
        return weir_fail_null(what, "path");
    WEIR_TRY(resolve(o));
    /* A file of this name may be left from a process that was killed and had the same id. */
    for (int i = 0; o->fd < 0 && i < 1000; i++) {
        snprintf(o->work, sizeof o->work, "%.*s.%ld-%u.tmp", PATH_MAX - 40, o->at, (long)getpid(),
                 atomic_fetch_add(&number, 1));
        o->fd = weir_disk_in_use->create(o->work);
        if (o->fd < 0 && errno != EEXIST && errno != EINTR)
            break;
    }
    return o->fd >= 0 ? WEIR_OK : fail(o, "a file beside it cannot be created");
}

weir_status weir_output_add(weir_output *o, const void *bytes, size_t n)
{
    if (o->crc)
        weir_crc32_add(o->crc, bytes, n);
    o->bytes += n;
    for (const char *p = bytes; n > 0;) {
        const ssize_t done = weir_disk_in_use->write(o->fd, p, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done == 0)
            errno = ENOSPC;         /* write says nothing of a disk that takes no byte */
        if (done <= 0)
            return fail(o, "cannot be written");
        p += done;
        n -= (size_t)done;
    }
    return WEIR_OK;
}

void weir_output_discard(weir_output *o)
{
    if (o->fd >= 0)
        (void)weir_disk_in_use->close(o->fd);
    o->fd = -1;
    (void)weir_disk_in_use->unlink(o->work);
}

/* A second name PATH.bak for the old file, put in place by a rename, too. */
static weir_status keep_old(const weir_output *o)
{
    char bak[PATH_MAX + 8], work[PATH_MAX + 8];

    snprintf(bak, sizeof bak, "%s.bak", o->at);
    snprintf(work, sizeof work, "%s.bak", o->work);
    if (weir_disk_in_use->link(o->at, work) != 0)
        return errno == ENOENT ? WEIR_OK : fail(o, "cannot be kept as .bak");
    if (weir_disk_in_use->rename(work, bak) == 0) {
        /* rename leaves it if both were names of one file already. */
        (void)weir_disk_in_use->unlink(work);
        return WEIR_OK;
    }
    const weir_status s = fail(o, "cannot be kept as .bak");
    (void)weir_disk_in_use->unlink(work);
    return s;
}

static weir_status sync_folder(weir_output *o)
{
    char *const slash = strrchr(o->at, '/');

    if (slash)
        slash[slash == o->at] = '\0';
    int fd;
    do
        fd = weir_disk_in_use->open_folder(slash ? o->at : ".");
    while (fd < 0 && errno == EINTR);
    const bool good = fd >= 0 && (sync_whole(fd) == 0 || errno == EINVAL);
    const weir_status s = good ? WEIR_OK : fail(o, "is written, but its folder cannot be synced");
    if (fd >= 0)
        (void)weir_disk_in_use->close(fd);
    return s;
}

weir_status weir_output_finish(weir_output *o, bool keep_previous)
{
    weir_status s = sync_whole(o->fd) == 0 ? WEIR_OK : fail(o, "cannot be synced");

    if (close_whole(o->fd) != 0 && s == WEIR_OK)
        s = fail(o, "cannot be closed");
    o->fd = -1;
    if (s == WEIR_OK && keep_previous)
        s = keep_old(o);
    if (s == WEIR_OK && weir_disk_in_use->rename(o->work, o->at) != 0)
        s = fail(o, "cannot be replaced");
    if (s == WEIR_OK)
        return sync_folder(o);
    (void)weir_disk_in_use->unlink(o->work);
    return s;
}
