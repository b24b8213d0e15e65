/* file.c - reads and replaces whole files. */
#include "core/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "core/env.h"
#include "core/mem.h"
#include "core/text.h"

static bool read_all(int fd, char *at, size_t n)
{
    while (n > 0) {
        const ssize_t got = weir_env_get()->read(fd, at, n);
        if (got <= 0 && !(got < 0 && errno == EINTR))
            return false;
        at += got > 0 ? got : 0;
        n -= got > 0 ? (size_t)got : 0;
    }
    return true;
}

char *weir_file_load(const char *path, size_t least, size_t most, size_t *n, bool *memory)
{
    const weir_env *const env = weir_env_get();
    const int             fd = env->open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    struct stat           st;
    char                 *data = NULL;

    *memory = true;
    if (fd >= 0 && env->fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
        (uint64_t)st.st_size >= least && (uint64_t)st.st_size <= most) {
        *n = (size_t)st.st_size;
        data = weir_mem_alloc(*n + 1);
        *memory = data != NULL;
        if (data && !read_all(fd, data, *n)) {
            weir_mem_free(data);
            data = NULL;
        }
    }
    if (fd >= 0)
        (void)env->close(fd);
    return data;
}

static bool write_all(int fd, const char *at, size_t n)
{
    while (n > 0) {
        const ssize_t put = weir_env_get()->write(fd, at, n);
        if (put <= 0 && !(put < 0 && errno == EINTR))
            return false;
        at += put > 0 ? put : 0;
        n -= put > 0 ? (size_t)put : 0;
    }
    return true;
}

bool weir_file_replace(const char *path, const void *data, size_t n)
{
    weir_string beside = {0};

    weir_string_add(&beside, "%s.XXXXXX", path);
    char *const           temporary = weir_string_take(&beside);
    const weir_env *const env = weir_env_get();
    const int             fd = temporary ? env->mkostemp(temporary, 0) : -1;    /* mode 0600 */
    bool                  ok = fd >= 0 && write_all(fd, data, n);
    if (fd >= 0) {
        ok = env->close(fd) == 0 && ok && env->rename(temporary, path) == 0;
        if (!ok)
            (void)env->unlink(temporary);
    }
    weir_mem_free(temporary);
    return ok;
}
