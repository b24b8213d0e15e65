/* fake_driver.c - the driver's functions for modules, over what fake_nvrtc.c compiles.
 *
 * A module is a shared object in memory. A launch is queued on the emulated runtime's stream, which
 * is asked for in the plugin that stands in the same folder. */
#include <cuda.h>

#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef void (*run_fn)(const void *params, unsigned blocks, unsigned threads);
typedef int (*queue_fn)(void *stream, void (*run)(const void *launch), const void *launch,
                        size_t bytes);

/* A module is its function, too: there is one in each. */
struct CUmod_st {
    void         *lib;
    run_fn        run;
    const size_t *bytes;
};

typedef struct launch {
    run_fn   run;
    unsigned blocks, threads;
    _Alignas(16) char params[];
} launch;

CUresult cuInit(unsigned flags)
{
    (void)flags;
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult e, const char **name)
{
    *name = e == CUDA_SUCCESS ? "CUDA_SUCCESS" : "CUDA_ERROR_EMULATED";
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult e, const char **text)
{
    *text = e == CUDA_ERROR_INVALID_IMAGE ? "an image that is none" : "emulated";
    return CUDA_SUCCESS;
}

/* Sections are described at the end of a shared object. */
static size_t image_bytes(const void *image)
{
    Elf64_Ehdr h;

    memcpy(&h, image, SELFMAG);
    if (memcmp(&h, ELFMAG, SELFMAG) != 0)
        return 0;
    memcpy(&h, image, sizeof h);
    return h.e_shoff + (size_t)h.e_shnum * h.e_shentsize;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    const size_t n = image_bytes(image);
    const int    fd = n > 0 ? memfd_create("weir", 0) : -1;
    char         path[64];

    if (fd < 0)
        return CUDA_ERROR_INVALID_IMAGE;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    void *const lib = write(fd, image, n) == (ssize_t)n ? dlopen(path, RTLD_NOW | RTLD_LOCAL)
                                                        : NULL;
    close(fd);
    if (!lib)
        return CUDA_ERROR_INVALID_IMAGE;
    *module = calloc(1, sizeof **module);
    (*module)->lib = lib;
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
    dlclose(module->lib);
    free(module);
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name)
{
    char symbol[128];

    snprintf(symbol, sizeof symbol, "%s_run", name);
    *(void **)&m->run = dlsym(m->lib, symbol);
    snprintf(symbol, sizeof symbol, "%s_bytes", name);
    m->bytes = dlsym(m->lib, symbol);
    *f = (CUfunction)m;
    return m->run && m->bytes ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static queue_fn find_queue(void)
{
    static queue_fn queue;
    Dl_info         info;
    char            path[4096];

    if (queue || !dladdr((const void *)&cuInit, &info))
        return queue;
    const int n = (int)(strrchr(info.dli_fname, '/') - info.dli_fname);
    snprintf(path, sizeof path, "%.*s/libweir_cuda.so", n, info.dli_fname);
    void *const plugin = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (plugin)
        *(void **)&queue = dlsym(plugin, "emulate_work");
    return queue;
}

static void run(const void *p)
{
    const launch *const l = p;

    l->run(l->params, l->blocks, l->threads);
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params,
                        void **extra)
{
    const struct CUmod_st *const m = (const struct CUmod_st *)f;
    const queue_fn               queue = find_queue();

    if (!queue || gx == 0 || bx == 0 || gy * gz * by * bz != 1 || shared || extra)
        return CUDA_ERROR_INVALID_VALUE;
    launch *const l = calloc(1, sizeof *l + *m->bytes);
    l->run = m->run;
    l->blocks = gx;
    l->threads = bx;
    memcpy(l->params, params[0], *m->bytes);
    const int e = queue(stream, run, l, sizeof *l + *m->bytes);
    free(l);
    return e == 0 ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
}
