/* libs.c - opens libraries at run time and finds their functions. See libs.h.
 *
 * One lock guards all libraries, since a thread that waits for it needs the library anyway. A table
 * is complete before its address is returned and never changes afterwards. */
#include "device/cuda/runtime/libs.h"

#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "core/text.h"

enum { PATH_BYTES = 4096, MOST_NAMES = 2 };

/* A library to open: file names in order of preference, functions in the order of libs.def. */
typedef struct library {
    const char        *title, *name[MOST_NAMES];
    const char *const *function;
    size_t             functions;
    void              *table;       /* of `functions` pointers */
    bool               open;
} library;

/* Expands a name that is a macro before it becomes text. */
#define NAME_TEXT(name) #name
#define NAME(name)      NAME_TEXT(name),

static const char *const driver_names[] = {
#define DRIVER(function) NAME(function)
#include "device/cuda/runtime/libs.def"
};

static const char *const nvrtc_names[] = {
#define NVRTC(function) NAME(function)
#include "device/cuda/runtime/libs.def"
};

static const char *const blas_names[] = {
#define BLAS(function) NAME(function)
#include "device/cuda/runtime/libs.def"
};

static const char *const dnn_names[] = {
#define DNN(function) NAME(function)
#include "device/cuda/runtime/libs.def"
};

static const char *const nccl_names[] = {
#define NCCL(function) NAME(function)
#include "device/cuda/runtime/libs.def"
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* State of a search. why: dlerror's text for a file that exists. */
typedef struct search {
    const library *lib;
    void          *found;
    char           why[512];
} search;

static void *try_file(search *s, const char *path)
{
    s->found = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!s->found) {
        const char *const said = dlerror();
        /* A missing file is expected; any other error is kept. */
        if (said && (!s->why[0] || !strstr(said, "No such file")))
            snprintf(s->why, sizeof s->why, "%s", said);
    }
    return s->found;
}

/* Tries a folder whose name has n characters; 0: the loader's search path. */
static bool try_folder(search *s, const char *folder, size_t n)
{
    char path[PATH_BYTES];

    for (int i = 0; i < MOST_NAMES && s->lib->name[i]; i++) {
        const int length = snprintf(path, sizeof path, "%.*s%s%s", (int)n, folder, n ? "/" : "",
                                    s->lib->name[i]);
        if (length < PATH_BYTES && try_file(s, path))
            return true;
    }
    return false;
}

static bool try_list(search *s, const char *folders)
{
    while (folders && *folders) {
        const size_t n = strcspn(folders, ":");
        if (n > 0 && try_folder(s, folders, n))
            return true;
        folders += n + (folders[n] == ':');
    }
    return false;
}

#ifdef WEIR_EMULATED
/* The folder that the plugin was loaded from. */
static bool try_others(search *s)
{
    Dl_info     info;
    const char *slash;

    return dladdr((const void *)&lock, &info) && info.dli_fname &&
           (slash = strrchr(info.dli_fname, '/')) &&
           try_folder(s, info.dli_fname, (size_t)(slash - info.dli_fname));
}
#else
/* Python wheels place libraries in nvidia/<package>/lib. */
static bool try_wheels(search *s)
{
    const char *const python = getenv("VIRTUAL_ENV");
    char              pattern[PATH_BYTES];
    glob_t            found;

    if (!python || !*python ||
        snprintf(pattern, sizeof pattern, "%s/lib/python3*/site-packages/nvidia/*/lib", python) >=
            PATH_BYTES ||
        glob(pattern, 0, NULL, &found) != 0)
        return false;
    bool good = false;
    for (size_t i = 0; i < found.gl_pathc && !good; i++)
        good = try_folder(s, found.gl_pathv[i], strlen(found.gl_pathv[i]));
    globfree(&found);
    return good;
}

static bool try_others(search *s)
{
    return try_folder(s, "", 0) || try_list(s, WEIR_CUDA_LIBRARY_FOLDERS) || try_wheels(s);
}
#endif

static weir_status not_found(const search *s)
{
    const char *const asked = getenv("WEIR_CUDA_LIBS");
    const char *const name = s->lib->name[0], *const other = s->lib->name[1];

    return weir_fail(WEIR_ERR_DEVICE, "device cuda: %s was not found: %s%s%s is neither in "
#ifdef WEIR_EMULATED
                     "$WEIR_CUDA_LIBS (%s) nor beside the plugin (%s)",
#else
                     "$WEIR_CUDA_LIBS (%s) nor where the system looks, in "
                     WEIR_CUDA_LIBRARY_FOLDERS " or in wheels of $VIRTUAL_ENV (%s)",
#endif
                     s->lib->title, name, other ? " or " : "", other ? other : "",
                     asked && *asked ? asked : "not set", s->why);
}

static weir_status find_functions(const library *lib, void *handle)
{
    for (size_t i = 0; i < lib->functions; i++) {
        void *const p = dlsym(handle, lib->function[i]);
        if (!p) {
            const char *const said = dlerror();
            return weir_fail(WEIR_ERR_DEVICE, "device cuda: %s has no %s (%s)", lib->title,
                             lib->function[i], said ? said : "");
        }
        memcpy((char *)lib->table + i * sizeof p, &p, sizeof p);
    }
    return WEIR_OK;
}

static weir_status open_library(library *lib)
{
    search s = {.lib = lib};

    pthread_mutex_lock(&lock);
    weir_status status = WEIR_OK;
    if (!lib->open) {
        if (!try_list(&s, getenv("WEIR_CUDA_LIBS")) && !try_others(&s))
            status = not_found(&s);
        else
            status = find_functions(lib, s.found);
        lib->open = status == WEIR_OK;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

/* weir_cuda_open_<id> */
#define LIBRARY(id, text, ...)                                                                     \
    weir_status weir_cuda_open_##id(const weir_cuda_lib_##id **lib)                                \
    {                                                                                              \
        static weir_cuda_lib_##id table;                                                           \
        static library            self = {.title = text,                                           \
                                          .name = {__VA_ARGS__},                                   \
                                          .function = id##_names,                                  \
                                          .functions = sizeof id##_names / sizeof *id##_names,     \
                                          .table = &table};                                        \
        _Static_assert(sizeof table == sizeof id##_names, "a table holds its functions alone");    \
        *lib = &table;                                                                             \
        return open_library(&self);                                                                \
    }

LIBRARY(driver, "the driver", "libcuda.so.1")
LIBRARY(nvrtc, "NVRTC", "libnvrtc.so.13", "libnvrtc.so.12")
LIBRARY(blas, "cuBLASLt", "libcublasLt.so.13", "libcublasLt.so.12")
LIBRARY(dnn, "cuDNN", "libcudnn.so.9")
LIBRARY(nccl, "NCCL", "libnccl.so.2")

/* Adds a line with the file that contains `function`. */
static void say(weir_string *s, const char *title, weir_status opened, const void *function)
{
    Dl_info info;

    if (opened != WEIR_OK)
        weir_string_add(s, "%s: not found ($WEIR_CUDA_LIBS may name its folder)\n", title);
    else if (dladdr(function, &info) && info.dli_fname)
        weir_string_add(s, "%s: %s\n", title, info.dli_fname);
}

void weir_cuda_libs_info(weir_string *s)
{
    const weir_cuda_lib_nvrtc *nvrtc;
    const weir_cuda_lib_blas  *blas;
    const weir_cuda_lib_dnn   *dnn;
    const weir_cuda_lib_nccl  *nccl;

    weir_status opened = weir_cuda_open_nvrtc(&nvrtc);
    say(s, "NVRTC", opened, *(void *const *)nvrtc);
    opened = weir_cuda_open_blas(&blas);
    say(s, "cuBLASLt", opened, *(void *const *)blas);
    opened = weir_cuda_open_dnn(&dnn);
    say(s, "cuDNN", opened, *(void *const *)dnn);
    opened = weir_cuda_open_nccl(&nccl);
    say(s, "NCCL", opened, *(void *const *)nccl);
}
