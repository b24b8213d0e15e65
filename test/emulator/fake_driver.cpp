/* fake_driver.cpp - the driver's functions for modules, on what fake_nvrtc.c compiles.
 *
 * A module is a shared object in memory. A launch is a work item of the emulated stream. */
#include <cuda.h>

#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "work.h"

typedef void (*run_fn)(const void *params, unsigned blocks, unsigned threads);

/* A module is also its function, since each has exactly one. */
struct CUmod_st {
    void         *lib;
    int           fd;           /* kept open: it is part of the name by which lib was loaded */
    run_fn        run;
    const size_t *bytes;
};

typedef struct launch {
    run_fn   run;
    unsigned blocks, threads;
    alignas(16) char params[];
} launch;

extern "C" {

CUresult cuGetErrorName(CUresult e, const char **name)
{
    EMULATE_CALL(CUresult);
    *name = e == CUDA_SUCCESS ? "CUDA_SUCCESS" : "CUDA_ERROR_EMULATED";
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult e, const char **text)
{
    EMULATE_CALL(CUresult);
    *text = e == CUDA_ERROR_INVALID_IMAGE ? "invalid image" : "emulated";
    return CUDA_SUCCESS;
}

/* The section table is at the end of a shared object. */
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
    EMULATE_CALL(CUresult);
    const size_t n = image_bytes(image);
    const int    fd = n > 0 ? memfd_create("weir", 0) : -1;
    char         path[64];

    if (fd < 0)
        return CUDA_ERROR_INVALID_IMAGE;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    void *const lib = write(fd, image, n) == (ssize_t)n ? dlopen(path, RTLD_NOW | RTLD_LOCAL)
                                                        : NULL;
    if (!lib) {
        close(fd);
        return CUDA_ERROR_INVALID_IMAGE;
    }
    *module = (CUmodule)calloc(1, sizeof **module);
    (*module)->lib = lib;
    (*module)->fd = fd;
    emulate_hold_in_plugin(1);
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
    dlclose(module->lib);
    close(module->fd);
    free(module);
    emulate_hold_in_plugin(-1);
    EMULATE_CALL(CUresult);             /* the module is gone all the same */
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name)
{
    char symbol[128];

    EMULATE_CALL(CUresult);
    snprintf(symbol, sizeof symbol, "%s_run", name);
    *(void **)&m->run = dlsym(m->lib, symbol);
    snprintf(symbol, sizeof symbol, "%s_bytes", name);
    m->bytes = (const size_t *)dlsym(m->lib, symbol);
    *f = (CUfunction)m;
    return m->run && m->bytes ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static void run(const void *p)
{
    const launch *const l = (const launch *)p;

    l->run(l->params, l->blocks, l->threads);
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params,
                        void **extra)
{
    const struct CUmod_st *const m = (const struct CUmod_st *)f;

    EMULATE_CALL(CUresult);
    if (gx == 0 || bx == 0 || gy * gz * by * bz != 1 || shared || extra)
        return CUDA_ERROR_INVALID_VALUE;
    launch *const l = (launch *)calloc(1, sizeof *l + *m->bytes);
    l->run = m->run;
    l->blocks = gx;
    l->threads = bx;
    memcpy(l->params, params[0], *m->bytes);
    const cudaError_t e = emulate_work_in_plugin((cudaStream_t)stream, run, l,
                                                 sizeof *l + *m->bytes);
    free(l);
    return e == cudaSuccess ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
}

}
