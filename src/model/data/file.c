/* file.c - regular files of known size, read piece by piece. */
#include "model/data/data.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

weir_status weir_file_fail(const weir_file *f, const char *format, ...)
{
    char    sentence[300];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return weir_fail(WEIR_ERR_IO, "%s: %.150s: %s", f->what, f->path, sentence);
}

/* Without O_NONBLOCK the opening of a pipe would wait for a writer. */
weir_status weir_file_open(weir_file *f, const char *what, const char *path)
{
    struct stat st;

    *f = (weir_file){.what = what, .path = path, .fd = -1};
    if (!path)
        return weir_fail_null(what, "path");
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0)
        return weir_file_fail(f, "cannot be opened (%s)", strerror(errno));
    if (fstat(f->fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= 0) {
        f->size = (uint64_t)st.st_size;
        return WEIR_OK;
    }
    weir_file_close(f);
    return weir_file_fail(f, "is not a regular file");
}

void weir_file_close(weir_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
}

weir_status weir_file_read(weir_file *f, void *to, size_t bytes)
{
    char *p = to;

    for (size_t done = 0; done < bytes;) {
        const ssize_t n = read(f->fd, p + done, bytes - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return weir_file_fail(f, "cannot be read at offset %llu (%s)",
                                  (unsigned long long)f->at, strerror(errno));
        if (n == 0)
            return weir_file_fail(f, "ends at offset %llu, %zu bytes before it should",
                                  (unsigned long long)f->at, bytes - done);
        done += (size_t)n;
        f->at += (uint64_t)n;
    }
    return WEIR_OK;
}

weir_status weir_file_rewind(weir_file *f)
{
    if (lseek(f->fd, 0, SEEK_SET) < 0)
        return weir_file_fail(f, "cannot be read from its beginning (%s)", strerror(errno));
    f->at = 0;
    return WEIR_OK;
}
