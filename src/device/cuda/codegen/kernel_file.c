/* kernel_file.c - a compiled kernel as a file: header, the two texts it was made from, its image, a
 * checksum. See kernel_file.h.
 *
 * Words have 8 bytes in the machine's byte order; the file name is the hash of the texts. A file is
 * never trusted: the texts are compared byte for byte, sizes must add up and the checksum must
 * match, else the file counts as missing and is written again. (A user with write access to the
 * folder could still insert a kernel, so the folder is created for its owner only.) */
#include "device/cuda/codegen/kernel_file.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/env.h"
#include "core/hash.h"
#include "core/mem.h"
#include "core/text.h"

#define MAGIC   0x6c656e7265776377u
#define VERSION 1u

enum { MOST_BYTES = 64 << 20, MOST_IN_FOLDER = 256 << 20 };

typedef struct head {
    uint64_t magic, version, text, about, image;    /* the last three: bytes of what follows */
} head;

weir_kernel_hash weir_kernel_hash_of(const weir_kernel_key *k)
{
    weir_kernel_hash h;

    for (int i = 0; i < 2; i++) {
        const uint64_t seed = i == 0 ? WEIR_HASH_SEED : ~WEIR_HASH_SEED;
        h.half[i] = weir_hash_bytes(weir_hash_bytes(seed, k->text, strlen(k->text)), k->about,
                                    strlen(k->about));
    }
    return h;
}

#ifdef WEIR_EMULATED
char *weir_kernel_folder(void)
{
    const char *const asked = getenv("WEIR_CACHE_DIR");
    static const char here;
    weir_string       s = {0};
    Dl_info           info;

    if (asked && *asked)
        return weir_mem_strdup(asked);
    if (!dladdr(&here, &info) || !strrchr(info.dli_fname, '/'))
        return NULL;
    weir_string_add(&s, "%.*s/kernels", (int)(strrchr(info.dli_fname, '/') - info.dli_fname),
                    info.dli_fname);
    return weir_string_take(&s);
}
#else
char *weir_kernel_folder(void)
{
    const char *const asked = getenv("WEIR_CACHE_DIR"), *const xdg = getenv("XDG_CACHE_HOME");
    const char *const home = getenv("HOME");
    weir_string       s = {0};

    if (asked && *asked)
        return weir_mem_strdup(asked);
    if (xdg && *xdg)
        weir_string_add(&s, "%s/weir", xdg);
    else if (home && *home)
        weir_string_add(&s, "%s/.cache/weir", home);
    else
        return NULL;
    return weir_string_take(&s);
}
#endif

/* Once per process, because kernels are written much less often than processes start. */
static void trim_once(const char *folder)
{
    static atomic_flag done = ATOMIC_FLAG_INIT;

    if (!atomic_flag_test_and_set(&done))
        weir_kernel_folder_trim(folder, MOST_IN_FOLDER);
}

/* Creates the folder and its missing parents. */
static void make_folders(char *path)
{
    const weir_env *const env = weir_env_get();

    for (char *at = path + 1; *at; at++)
        if (*at == '/') {
            *at = '\0';
            (void)env->mkdir(path, 0700);
            *at = '/';
        }
    (void)env->mkdir(path, 0700);
}

/* The file's path, owned by the caller; NULL without a folder or memory. */
static char *path_of(const weir_kernel_key *k, bool make)
{
    const weir_kernel_hash h = weir_kernel_hash_of(k);
    char *const            folder = weir_kernel_folder();
    weir_string            s = {0};

    if (!folder)
        return NULL;
    if (make) {
        make_folders(folder);
        trim_once(folder);
    }
    weir_string_add(&s, "%s/%016llx%016llx.kernel", folder, (unsigned long long)h.half[0],
                    (unsigned long long)h.half[1]);
    weir_mem_free(folder);
    return weir_string_take(&s);
}

static bool read_all(int fd, char *to, size_t n)
{
    while (n > 0) {
        const ssize_t got = weir_env_get()->read(fd, to, n);
        if (got <= 0 && !(got < 0 && errno == EINTR))
            return false;
        to += got > 0 ? got : 0;
        n -= got > 0 ? (size_t)got : 0;
    }
    return true;
}

static bool write_all(int fd, const char *from, size_t n)
{
    while (n > 0) {
        const ssize_t put = weir_env_get()->write(fd, from, n);
        if (put < 0 && errno != EINTR)
            return false;
        from += put > 0 ? put : 0;
        n -= put > 0 ? (size_t)put : 0;
    }
    return true;
}

/* The image in a file of n bytes; NULL if the file is not valid. */
static const char *image_in(const weir_kernel_key *k, const char *file, size_t n, size_t *bytes)
{
    const size_t text = strlen(k->text), about = strlen(k->about);
    head         h;
    uint64_t     sum;

    if (n < sizeof h + text + about + sizeof sum)
        return NULL;
    memcpy(&h, file, sizeof h);
    memcpy(&sum, file + n - sizeof sum, sizeof sum);
    *bytes = n - sizeof h - text - about - sizeof sum;
    const char *const from = file + sizeof h;
    return h.magic == MAGIC && h.version == VERSION && h.text == text && h.about == about &&
                   h.image == *bytes && memcmp(from, k->text, text) == 0 &&
                   memcmp(from + text, k->about, about) == 0 &&
                   sum == weir_hash_bytes(WEIR_HASH_SEED, file, n - sizeof sum)
               ? from + text + about
               : NULL;
}

/* Reads the whole file; NULL if it cannot be read or memory runs out (*status). */
static char *load(const char *path, size_t *n, weir_status *status)
{
    const weir_env *const env = weir_env_get();
    const int             fd = env->open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    struct stat           st;
    char                 *file = NULL;

    if (fd >= 0 && env->fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= MOST_BYTES) {
        *n = (size_t)st.st_size;
        file = weir_mem_alloc(*n);
        *status = file ? WEIR_OK : WEIR_ERR_NOMEM;
        if (file && !read_all(fd, file, *n)) {
            weir_mem_free(file);
            file = NULL;
        }
    }
    if (fd >= 0)
        (void)env->close(fd);
    return file;
}

weir_status weir_kernel_file_read(const weir_kernel_key *k, char **image, size_t *bytes)
{
    char *const path = path_of(k, false);
    weir_status status = WEIR_OK;
    size_t      n = 0;

    *image = NULL;
    if (!path)
        return WEIR_OK;
    char *const file = load(path, &n, &status);
    const char *const at = file ? image_in(k, file, n, bytes) : NULL;
    if (at)
        (void)weir_env_get()->utimensat(AT_FDCWD, path, NULL, 0);   /* time of last use */
    weir_mem_free(path);
    if (!at) {
        weir_mem_free(file);
        return status;
    }
    memmove(file, at, *bytes);
    *image = file;
    return WEIR_OK;
}

/* Assembles the contents of a file in memory. */
static char *compose(const weir_kernel_key *k, const char *image, size_t bytes, size_t *n)
{
    const head  h = {MAGIC, VERSION, strlen(k->text), strlen(k->about), bytes};
    uint64_t    sum;

    *n = sizeof h + h.text + h.about + bytes + sizeof sum;
    char *const file = weir_mem_alloc(*n);
    if (!file)
        return NULL;
    memcpy(file, &h, sizeof h);
    memcpy(file + sizeof h, k->text, h.text);
    memcpy(file + sizeof h + h.text, k->about, h.about);
    memcpy(file + sizeof h + h.text + h.about, image, bytes);
    sum = weir_hash_bytes(WEIR_HASH_SEED, file, *n - sizeof sum);
    memcpy(file + *n - sizeof sum, &sum, sizeof sum);
    return file;
}

weir_status weir_kernel_file_write(const weir_kernel_key *k, const char *image, size_t bytes)
{
    const weir_env *const env = weir_env_get();
    char *const           path = path_of(k, true);
    weir_string           beside = {0};
    size_t                n = 0;

    if (!path)
        return WEIR_OK;
    weir_string_add(&beside, "%s.XXXXXX", path);
    char *const name = weir_string_take(&beside), *const file = compose(k, image, bytes, &n);
    if (name && file) {
        const int fd = env->mkostemp(name, O_CLOEXEC);
        if (fd >= 0) {
            const bool whole = write_all(fd, file, n);
            if (env->close(fd) != 0 || !whole || env->rename(name, path) != 0)
                (void)env->unlink(name);
        }
    }
    const weir_status s = name && file ? WEIR_OK : WEIR_ERR_NOMEM;
    weir_mem_free(name);
    weir_mem_free(file);
    weir_mem_free(path);
    return s;
}
