/* library_copy.c - loads a copy of a library's file.
 *
 * dlopen recognises a loaded library by its file, so a second instance needs a second file. It lies
 * in the folder of the spill file under a name of this process, only until it is mapped. dlopen
 * also recognises names, so a later call finds the instance though its file is gone.
 * RTLD_DEEPBIND: the copy calls its own functions, even where the first instance is global. */
#include "device/cpu/gemm/library_copy.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/env.h"
#include "core/status.h"
#include "device/offload/spill_file.h"

#if defined(RTLD_DEEPBIND) && !defined(WEIR_PORTABLE) && !defined(WEIR_SANITIZED)

enum { FLAGS = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | RTLD_DEEPBIND };

static bool write_all(int fd, const char *from, size_t n)
{
    while (n) {
        const ssize_t done = weir_env_get()->write(fd, from, n);
        if (done <= 0)
            return false;
        from += done;
        n -= (size_t)done;
    }
    return true;
}

static bool copy(int to, int from)
{
    char    part[1 << 16];
    ssize_t n;

    while ((n = weir_env_get()->read(from, part, sizeof part)) > 0)
        if (!write_all(to, part, (size_t)n))
            return false;
    return n == 0;
}

static void *load_copy(const char *path, const char *name)
{
    const weir_env *const env = weir_env_get();
    const int             from = env->open(path, O_RDONLY | O_CLOEXEC, 0);
    const int to = from < 0 ? -1 : env->open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    const bool copied = to >= 0 && copy(to, from);
    void *const lib = to >= 0 && env->close(to) == 0 && copied ? dlopen(name, FLAGS) : NULL;

    if (to >= 0)
        env->unlink(name);
    if (from >= 0)
        env->close(from);
    return lib;
}

void *weir_library_copy(const void *function)
{
    char    name[4096];
    Dl_info file;

    if (!dladdr(function, &file) || !file.dli_fname)
        return NULL;
    const char *const base = strrchr(file.dli_fname, '/');
    const int n = snprintf(name, sizeof name, "%s/weir-%ld-%s", weir_spill_folder(NULL),
                           (long)getpid(), base ? base + 1 : file.dli_fname);
    if (n < 0 || (size_t)n >= sizeof name)
        return NULL;
    void *const lib = dlopen(name, FLAGS | RTLD_NOLOAD);
    return lib ? lib : load_copy(file.dli_fname, name);
}

#else

void *weir_library_copy(const void *function)
{
    (void)function;
    return NULL;
}

#endif
