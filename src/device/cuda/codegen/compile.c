/* compile.c - the generated kernels that a card has loaded. See compile.h. */
#include "device/cuda/codegen/compile.h"

#include "core/vec.h"
#include "device/cuda/runtime/geometry.h"
#include "device/cuda/codegen/kernel_file.h"
#include "device/cuda/runtime/libs.h"
#include "device/cuda/lib/nvrtc.h"

typedef struct kernel {
    char      *text;        /* its source, owned */
    uint64_t   hash;
    CUmodule   module;
    CUfunction function;
} kernel;

struct weir_cuda_rtc {
    const weir_cuda_lib_driver *driver;
    weir_nvrtc_begin            begin;
    char                        target[WEIR_NVRTC_TARGET];
    char                       *about;
    WEIR_VEC(kernel)            kernels;
    int                         compiled, found;
};

static weir_status status_of(const struct weir_cuda_rtc *r, CUresult e, const weir_call *c,
                             const char *what)
{
    const char *name = NULL, *text = NULL;

    if (e == CUDA_SUCCESS)
        return WEIR_OK;
    (void)r->driver->cuGetErrorName(e, &name);
    (void)r->driver->cuGetErrorString(e, &text);
    return weir_call_fail(e == CUDA_ERROR_OUT_OF_MEMORY ? WEIR_ERR_NOMEM : WEIR_ERR_DEVICE, c,
                          "%s: %s (%s)", what, text ? text : "unknown", name ? name : "?");
}

static weir_status fill(struct weir_cuda_rtc *r, const weir_cuda_context *u)
{
    weir_string about = {0};

    WEIR_TRY(weir_cuda_open_driver(&r->driver));
    WEIR_TRY(weir_nvrtc_target(u->gpu.major * 10 + u->gpu.minor, r->target));
    r->begin.text = weir_source_begin(&r->begin.n);
    WEIR_TRY(weir_nvrtc_about(&r->begin, r->target, &about));
    r->about = weir_string_take(&about);
    return r->about ? WEIR_OK : WEIR_ERR_NOMEM;
}

static weir_status open_once(weir_cuda_context *u)
{
    if (u->rtc)
        return WEIR_OK;
    struct weir_cuda_rtc *const r = weir_mem_zalloc(1, sizeof *r);
    if (!r)
        return WEIR_ERR_NOMEM;
    const weir_status s = fill(r, u);
    if (s == WEIR_OK)
        u->rtc = r;
    else
        weir_mem_free(r);
    return s;
}

static weir_status load(const struct weir_cuda_rtc *r, const weir_call *c, const char *image,
                        kernel *k)
{
    WEIR_TRY(status_of(r, r->driver->cuModuleLoadData(&k->module, image), c,
                       "loading a generated kernel"));
    const weir_status s = status_of(
        r, r->driver->cuModuleGetFunction(&k->function, k->module, WEIR_SOURCE_KERNEL), c,
        "cuModuleGetFunction");
    if (s != WEIR_OK)
        (void)r->driver->cuModuleUnload(k->module);
    return s;
}

/* Loads the kernel from its cache file; *loaded is false if there is no valid one. */
static weir_status load_file(struct weir_cuda_rtc *r, const weir_call *c,
                             const weir_kernel_key *key, kernel *k, bool *loaded)
{
    char  *image;
    size_t bytes;

    WEIR_TRY(weir_kernel_file_read(key, &image, &bytes));
    *loaded = image && load(r, c, image, k) == WEIR_OK;
    r->found += *loaded;
    weir_mem_free(image);
    return WEIR_OK;
}

static weir_status load_text(struct weir_cuda_rtc *r, const weir_call *c, const weir_source *source,
                             const weir_kernel_key *key, kernel *k)
{
    weir_string string = {0};
    char       *image;
    size_t      bytes;

    weir_source_names(source->program, &string);
    char *const names = weir_string_take(&string);
    if (!names)
        return WEIR_ERR_NOMEM;
    weir_status s =
        weir_nvrtc_compile(&r->begin, key->text, names, r->target, &image, &bytes);
    weir_mem_free(names);
    WEIR_TRY(s);
    s = load(r, c, image, k);
    if (s == WEIR_OK) {
        r->compiled++;
        s = weir_kernel_file_write(key, image, bytes);
        if (s != WEIR_OK)
            (void)r->driver->cuModuleUnload(k->module);
    }
    weir_mem_free(image);
    return s;
}

/* Compiles or loads a kernel and adds it; takes over the text. */
static weir_status add(weir_cuda_context *u, const weir_call *c, const weir_source *source,
                       char *text, uint64_t hash, CUfunction *function)
{
    struct weir_cuda_rtc *const r = u->rtc;
    const weir_kernel_key       key = {text, r->about};
    kernel                      k = {.text = text, .hash = hash};
    bool                        loaded = false;

    weir_status s = weir_cuda_status(cudaSetDevice(u->gpu.ordinal), c, "cudaSetDevice");
    if (s == WEIR_OK && !weir_vec_reserve(&r->kernels, r->kernels.n + 1))
        s = WEIR_ERR_NOMEM;
    if (s == WEIR_OK)
        s = load_file(r, c, &key, &k, &loaded);
    if (s == WEIR_OK && !loaded)
        s = load_text(r, c, source, &key, &k);
    if (s != WEIR_OK) {
        weir_mem_free(text);
        return s;
    }
    r->kernels.at[r->kernels.n++] = k;
    *function = k.function;
    return WEIR_OK;
}

weir_status weir_cuda_compile(weir_device *d, const weir_call *c, const weir_source *source,
                              CUfunction *function)
{
    weir_cuda_context *const u = weir_cuda_context_of(d);
    weir_string              s = {0};

    WEIR_TRY(open_once(u));
    weir_source_add(source, &s);
    char *const text = weir_string_take(&s);
    if (!text)
        return WEIR_ERR_NOMEM;
    const uint64_t hash = weir_hash_bytes(WEIR_HASH_SEED, text, strlen(text));
    for (uint32_t i = 0; i < u->rtc->kernels.n; i++) {
        const kernel *const k = &u->rtc->kernels.at[i];
        if (k->hash == hash && strcmp(k->text, text) == 0) {
            *function = k->function;
            weir_mem_free(text);
            return WEIR_OK;
        }
    }
    return add(u, c, source, text, hash, function);
}

weir_status weir_cuda_launch(const weir_kargs *k, CUfunction f, unsigned blocks,
                             const void *params)
{
    const struct weir_cuda_rtc *const r = weir_cuda_context_of(k->dev)->rtc;
    void                             *list[] = {(void *)(uintptr_t)params};

    if (blocks == 0)
        return WEIR_OK;
    const CUstream stream = (CUstream)weir_cuda_stream(k);
    WEIR_TRY(weir_cuda_late(k->dev));
    return status_of(r, r->driver->cuLaunchKernel(f, blocks, 1, 1, WEIR_CUDA_THREADS, 1, 1, 0,
                                                  stream, list, NULL),
                     k->call, "cuLaunchKernel");
}

void weir_cuda_compile_close(weir_cuda_context *u)
{
    struct weir_cuda_rtc *const r = u->rtc;

    if (!r)
        return;
    for (uint32_t i = 0; i < r->kernels.n; i++) {
        (void)r->driver->cuModuleUnload(r->kernels.at[i].module);
        weir_mem_free(r->kernels.at[i].text);
    }
    weir_vec_free(&r->kernels);
    weir_mem_free(r->about);
    weir_mem_free(r);
    u->rtc = NULL;
}

void weir_cuda_compile_info(const weir_cuda_context *u, weir_string *s)
{
    if (u->rtc)
        weir_string_add(s, "generated kernels: %u loaded, %d of them compiled, %d from files\n",
                        (unsigned)u->rtc->kernels.n, u->rtc->compiled, u->rtc->found);
}
