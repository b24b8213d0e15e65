/* openblas.c - loads OpenBLAS at run time and makes sure that it uses good kernels.
 *
 * OpenBLAS selects its kernels when it is loaded, from the processors known when it was built; on a
 * newer one it may silently fall back to SSE3 kernels, four to six times slower. So the core type
 * is derived from cpuid, set in the environment while the library loads, and checked afterwards. A
 * library that still selected inferior kernels was loaded earlier, by NumPy for one: then a copy of
 * it is loaded, so that products have the same bits and speed as in other programs. Where that
 * fails, our own product is faster.
 *
 * WEIR_OPENBLAS=0 disables it; any other value is the name or path of the library to load. Without
 * it libweir_openblas.so beside libweir comes first, which a wheel carries, then the system's. The
 * library maps a buffer for each of its threads when it is loaded, and one for each caller that
 * computes at the same time as others; if a mapping fails, it retries forever. So the address space
 * is checked before loading, and buffers for all our threads are made at once. Without the space,
 * our own code and oneDNN compute all products.
 *
 * Our threads divide a product, and each computes its part by a call of its own
 * (openblas_product.c). A call in a parallel region of our OpenMP runtime starts no threads; a
 * library with threads of its own is told to use one. */
#include "device/cpu/gemm/openblas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"
#include "device/cpu/context.h"
#include "device/cpu/gemm/library_copy.h"
#include "device/plugin.h"
#include "device/resources.h"

#ifdef WEIR_OPENMP
#include <omp.h>
#endif

#define CORETYPE "OPENBLAS_CORETYPE"

static const char unfit[] = "found, but without kernels for this processor (see " CORETYPE ")";

#define BUFFER ((size_t)32 << 22)       /* BUFFER_SIZE of common_x86_64.h and common_arm64.h */
#define IMAGE  ((size_t)64 << 20)       /* mapped files: Debian's is 36 MB, its dependencies 5 MB */

/* The core type that suits this processor; NULL leaves the choice to the library. */
static const char *core_type(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return "SkylakeX";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return __builtin_cpu_is("amd") ? "Zen" : "Haswell";
#endif
    return NULL;
}

/* True if `core` has kernels as good as this processor allows. */
static bool core_good(const char *core)
{
    static const char *const good[] = {"Haswell", "Zen", "SkylakeX", "Cooperlake",
                                       "SapphireRapids"};
    if (!core_type())
        return true;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (strcasecmp(core, good[i]) == 0)
            return true;
    return false;
}

/* The library that a wheel carries beside this one; NULL if it is missing. */
static void *open_beside(int flags)
{
    static const char name[] = "libweir_openblas.so";
    char              path[4096];

    weir_plugin_folder(path, sizeof path - sizeof name);
    if (!*path)
        return NULL;
    strcat(path, name);
    return dlopen(path, flags);
}

/* Where we use OpenMP, the library's OpenMP build comes first: it starts no threads beside ours. */
static void *open_first(void)
{
    static const char *const names[] = {
#ifdef WEIR_OPENMP
        "/usr/lib/x86_64-linux-gnu/openblas-openmp/libopenblas.so.0", /* Debian */
        "/usr/lib/aarch64-linux-gnu/openblas-openmp/libopenblas.so.0",
        "libopenblaso.so.0", /* Fedora */
#endif
        "libopenblas.so.0", "libopenblas.so", "libopenblas.dylib"};
    /* Never unloaded, since it may own threads. */
    const int         flags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
    const char *const named = getenv("WEIR_OPENBLAS");
    if (named && *named)
        return dlopen(named, flags);
    void *lib = open_beside(flags);
    for (size_t i = 0; i < sizeof names / sizeof *names && !lib; i++)
        lib = dlopen(names[i], flags);
    return lib;
}

/* Held while a library is loaded: setenv may free what a getenv of another thread reads. */
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

/* Loads it, or a copy of the library that holds the function `copied`, with the core type set in
 * the environment, unless the user has set one. A library that stayed loaded has chosen its kernels
 * already, so devices that are opened later leave the environment alone. */
static void *open_with_core(const void *copied)
{
    static bool       there;            /* guarded by `loading` */
    const bool        chooses = copied || !there || getenv("WEIR_OPENBLAS");
    const char *const core = chooses ? core_type() : NULL;
    const bool        set = core && !getenv(CORETYPE) && setenv(CORETYPE, core, 0) == 0;
    void *const       lib = copied ? weir_library_copy(copied) : open_first();
    if (set)
        unsetenv(CORETYPE);
    there = there || (lib && !copied);
    return lib;
}

/* dlsym into a function pointer, in the way POSIX permits. */
static bool find(void *lib, const char *name, void *function)
{
    void *const p = dlsym(lib, name);
    memcpy(function, &p, sizeof p);
    return p != NULL;
}

/* Threads that the library may start: one per processor until the number is set. */
static int most_threads(int threads)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores > threads ? (int)cores : threads;
}

/* Bytes of address space that loading the library with `threads` threads takes, with stacks. */
static size_t need_of(int threads)
{
    const int n = most_threads(threads);
    return IMAGE + ((size_t)n + (size_t)threads) * BUFFER + weir_threads_stacks(n);
}

/* Makes a buffer for each of `threads` callers; *made is false if the library does not let us. */
static weir_status make_buffers(void *lib, int threads, bool *made)
{
    void *(*allocate)(int);
    void (*release)(void *);

    *made = find(lib, "blas_memory_alloc", &allocate) && find(lib, "blas_memory_free", &release);
    if (!*made)
        return WEIR_OK;
    void **const buffer = weir_mem_zalloc((size_t)threads, sizeof *buffer);
    if (!buffer)
        return WEIR_ERR_NOMEM;
    for (int i = 0; i < threads; i++)
        buffer[i] = allocate(0);
    for (int i = 0; i < threads; i++)
        if (buffer[i])
            release(buffer[i]);
    weir_mem_free(buffer);
    return WEIR_OK;
}

/* True if the library's OpenMP knows that it is called in a parallel region of ours. */
static bool same_openmp(void *lib)
{
#ifdef WEIR_OPENMP
    int (*theirs)(void);
    return find(lib, "omp_in_parallel", &theirs) && theirs == omp_in_parallel;
#else
    (void)lib;
    return false;
#endif
}

/* The most threads that the library's build has buffers for. */
static int built_for(const char *config)
{
    static const char at[] = "MAX_THREADS=";
    const char *const found = strstr(config, at);
    return found ? atoi(found + strlen(at)) : 0;
}

static void warm_task(void *ctx, int64_t task)
{
    enum { N = 128 };
    static const float         zeros[N * N];
    float                      made[N * N];
    const weir_openblas *const b = ctx;

    (void)task;
    b->sgemm(WEIR_CBLAS_ROW_MAJOR, WEIR_CBLAS_PLAIN, WEIR_CBLAS_PLAIN, N, N, N, 1, zeros, N, zeros,
             N, 0, made, N);
}

/* Makes all buffers that products of these threads need. */
static weir_status warm(weir_openblas *b, weir_threads *t)
{
    const int n = weir_threads_count(t);

    if (n <= built_for(b->config) && (!b->openmp || same_openmp(b->lib)))
        WEIR_TRY(make_buffers(b->lib, n, &b->alone));
    b->set_threads(weir_openblas_threads(b, t));
    if (b->alone)
        weir_parallel(t, n, warm_task, b);
    else
        warm_task(b, 0);
    return WEIR_OK;
}

/* The library writes its description into one buffer, so one thread at a time may ask for it. */
static void describe(weir_openblas *b, char *(*config)(void))
{
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;

    pthread_mutex_lock(&one);
    snprintf(b->config, sizeof b->config, "%s", config());
    pthread_mutex_unlock(&one);
}

/* Fills *b from the library, all but lib. Returns NULL, or the reason why it cannot be used. */
static const char *bind(weir_openblas *b, void *lib)
{
    char *(*corename)(void), *(*config)(void);
    int (*parallel)(void);

    if (!find(lib, "cblas_sgemm", &b->sgemm) || !find(lib, "cblas_dgemm", &b->dgemm) ||
        !find(lib, "openblas_set_num_threads", &b->set_threads) ||
        !find(lib, "openblas_get_num_threads", &b->get_threads) ||
        !find(lib, "openblas_get_corename", &corename) ||
        !find(lib, "openblas_get_config", &config) ||
        !find(lib, "openblas_get_parallel", &parallel))
        return "found, but it lacks functions that Weir needs";
    snprintf(b->impl, sizeof b->impl, "openblas %s", corename());
    describe(b, config);
    b->openmp = parallel() == 2;
    if (!core_good(corename()) && !getenv(CORETYPE))
        return unfit;
    return NULL;
}

/* A copy of a library that chose unfit kernels, if there is address space for it. */
static void *open_copy(void *lib, int threads)
{
    const void *const entry = dlsym(lib, "openblas_get_corename");
    return weir_mem_can_map(need_of(threads)) ? open_with_core(entry) : NULL;
}

/* Fills *b. Returns NULL, or the reason why the library cannot be used. */
static const char *load(weir_openblas *b, int threads)
{
    const char *const named = getenv("WEIR_OPENBLAS");
    if (named && strcmp(named, "0") == 0)
        return "switched off by WEIR_OPENBLAS=0";
#ifdef __SANITIZE_THREAD__
    return "left out under ThreadSanitizer, which cannot see how its threads wait";
#endif
    if (!weir_mem_can_map(need_of(threads))) {
        snprintf(b->config, sizeof b->config, "left out: %zu MB of address space for its buffers "
                 "are not available (a limit such as ulimit -v)", need_of(threads) / 1000000);
        return b->config;
    }
    void *lib = open_with_core(NULL);
    if (!lib)
        return "not found";
    const char *why = bind(b, lib);
    if (why == unfit) {
        void *const second = open_copy(lib, threads);
        if (second) {
            dlclose(lib);
            lib = second;
            why = bind(b, lib);
        }
    }
    if (why) {
        dlclose(lib);
        return why;
    }
    b->lib = lib;
    return NULL;
}

static weir_status loaded(weir_device *d, weir_openblas **out)
{
    weir_cpu *const cpu = weir_cpu_of(d);
    if (!cpu->blas) {
        weir_openblas *const b = weir_mem_zalloc(1, sizeof *b);
        if (!b)
            return WEIR_ERR_NOMEM;
        pthread_mutex_lock(&loading);
        b->why = load(b, weir_threads_count(d->threads));
        pthread_mutex_unlock(&loading);
        if (b->lib && warm(b, d->threads) != WEIR_OK) {
            weir_cpu_blas_close(b);
            return WEIR_ERR_NOMEM;
        }
        cpu->blas = b;
    }
    *out = cpu->blas;
    return WEIR_OK;
}

weir_status weir_cpu_blas(weir_device *d, const weir_openblas **out)
{
    weir_openblas *b;
    WEIR_TRY(loaded(d, &b));
    *out = b->lib ? b : NULL;
    return WEIR_OK;
}

const char *weir_cpu_blas_why(weir_device *d)
{
    const weir_openblas *const b = weir_cpu_of(d)->blas;
    return b && b->why ? b->why : "not loaded";
}

void weir_cpu_blas_close(void *blas)
{
    weir_openblas *const b = blas;
    if (b && b->lib)
        dlclose(b->lib);
    weir_mem_free(b);
}

void weir_cpu_blas_info(weir_string *s)
{
    weir_openblas     b = {0};
    const char *const why = load(&b, weir_threads_default());
    if (why)
        weir_string_add(s, "OpenBLAS: %s\n", why);
    else
        weir_string_add(s, "OpenBLAS: kernels %s, %s threads (%s); WEIR_OPENBLAS=0 or a path\n",
                        b.impl + strlen("openblas "), b.openmp ? "OpenMP" : "own", b.config);
    weir_string_add(s, "products and convolutions: the fastest of oneDNN, OpenBLAS and own code; "
                       "WEIR_GEMM, WEIR_CONV = own | openblas | onednn insist on one\n");
    if (b.lib)
        dlclose(b.lib);
}
