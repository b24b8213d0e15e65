/* kernel_trim.c - limits the bytes of the folder of compiled kernels by removing the least recently
 * used. See kernel_file.h.
 *
 * Reading a kernel's file sets its time (kernel_file.c). Trimming goes down to half of the limit,
 * so that it is rare. Files with other names are ignored; a temporary file that a dead process has
 * left counts as a kernel. Another process may trim at the same time: a kernel whose file is gone
 * is compiled again. */
#include <stdlib.h>
#include <string.h>

#include "core/env.h"
#include "core/mem.h"
#include "core/text.h"
#include "core/vec.h"
#include "device/cuda/codegen/kernel_file.h"

typedef struct cached_file {
    char           *path;       /* owned */
    struct timespec used;
    size_t          bytes;
} cached_file;

typedef WEIR_VEC(cached_file) cached_files;

static int by_age(const void *x, const void *y)
{
    const struct timespec a = ((const cached_file *)x)->used, b = ((const cached_file *)y)->used;

    if (a.tv_sec != b.tv_sec)
        return a.tv_sec < b.tv_sec ? -1 : 1;
    return (a.tv_nsec > b.tv_nsec) - (a.tv_nsec < b.tv_nsec);
}

/* Matches two hashes and ".kernel", with a suffix while the file is being written. */
static bool is_ours(const char *name)
{
    enum { DIGITS = 32 };

    return strspn(name, "0123456789abcdef") == DIGITS && strncmp(name + DIGITS, ".kernel", 7) == 0;
}

static void note(cached_files *list, const char *folder, const char *name)
{
    struct stat st;
    weir_string s = {0};

    if (!is_ours(name))
        return;
    weir_string_add(&s, "%s/%s", folder, name);
    char *const path = weir_string_take(&s);
    if (!path)
        return;
    if (weir_env_get()->lstat(path, &st) != 0 || !S_ISREG(st.st_mode) ||
        !weir_vec_push(list, ((cached_file){path, st.st_mtim, (size_t)st.st_size})))
        weir_mem_free(path);
}

void weir_kernel_folder_trim(const char *folder, size_t most)
{
    const weir_env *const env = weir_env_get();
    DIR *const            dir = env->opendir(folder);
    cached_files          list = {0};
    size_t                bytes = 0;

    if (!dir)
        return;
    for (const struct dirent *e; (e = env->readdir(dir)) != NULL;)
        note(&list, folder, e->d_name);
    (void)env->closedir(dir);
    if (list.n > 1)
        qsort(list.at, list.n, sizeof *list.at, by_age);
    for (uint32_t i = 0; i < list.n; i++)
        bytes += list.at[i].bytes;
    const size_t keep = bytes > most ? most / 2 : most;
    for (uint32_t i = 0; i < list.n; i++) {
        if (bytes > keep && env->unlink(list.at[i].path) == 0)
            bytes -= list.at[i].bytes;
        weir_mem_free(list.at[i].path);
    }
    weir_vec_free(&list);
}
